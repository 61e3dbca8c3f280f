# Communicators of mpi4py whose methods for objects survive the loss of ranks.
#
# SPDX-License-Identifier: BSD-3-Clause
import functools

# mpi4py makes these by messages on a hidden duplicate of the communicator, whose tags it counts in
# each process.  No failure revokes the duplicate, so ranks could wait in it for ever, and with the
# message log a replacement would count anew.  Here they are made of calls on the communicator
# itself.


class Reductions:
    def reduce(self, sendobj, op=None, root=0):
        every = self.gather(sendobj, root)
        return None if every is None else functools.reduce(op or self._sum, every)

    def allreduce(self, sendobj, op=None):
        return functools.reduce(op or self._sum, self.allgather(sendobj))

    def scan(self, sendobj, op=None):
        return functools.reduce(op or self._sum, self.allgather(sendobj)[:self.rank + 1])

    def exscan(self, sendobj, op=None):
        before = self.allgather(sendobj)[:self.rank]
        return functools.reduce(op or self._sum, before) if before else None


_MAKERS = ("Clone", "Create", "Create_cart", "Create_dist_graph", "Create_dist_graph_adjacent",
           "Create_graph", "Create_group", "Dup", "Dup_with_info", "Split", "Split_type", "Sub")


def family(MPI, track):
    """The class of ctx.comm.  Communicators that its methods make have the same abilities, and
    are given to track()."""
    classes = {}

    def convert(made):
        if made == MPI.COMM_NULL:
            return made
        made = of(type(made))(made)
        track(made)
        return made

    def maker(name):
        def method(self, *args, **kwargs):
            return convert(getattr(super(of(type(self)), self), name)(*args, **kwargs))
        return method

    def of(kind):
        """The class for communicators of a class of mpi4py."""
        if Reductions in kind.__mro__:
            return kind
        if kind not in classes:
            members = {name: maker(name) for name in _MAKERS if hasattr(kind, name)}
            classes[kind] = type(kind.__name__, (Reductions, kind), {**members, "_sum": MPI.SUM})
        return classes[kind]

    return of(MPI.Intracomm)
