"""ftkit for Python: user-level fault mitigation for programs with mpi4py and numpy.

    import ftkit
    import numpy as np

    with ftkit.open() as ctx:                  # spares wait here
        comm = ctx.comm                        # current after each repair
        u = np.zeros(1000)
        ctx.register("u", u)
        for step in ctx.steps(100):            # restores, writes sets, repairs
            with step:                         # a failure ends the body
                u += comm.allreduce(u[0])
        if ctx.finished and comm.rank == 0:
            print(u.sum())

docs/python.md describes the module, include/ftkit.h the functions behind it.
"""
# SPDX-License-Identifier: BSD-3-Clause
import atexit
import ctypes
import os
import pickle
import sys
import warnings
from ctypes import byref

from . import _comm, _regions
from ._library import (INFO_BYTES, MEMBERS, REPAIR, Code, Failure, FtkitError, Handle, lib)

__all__ = ["Code", "Context", "Failure", "FtkitError", "Info", "Step", "version"]

_open = []  # contexts of this process that are open
_RESTART, _GLOBAL = 0, 1  # FTKIT_MODE_RESTART, FTKIT_MODE_GLOBAL
_TRACE_S = 1.0  # a rank alone in ftkit_close() is killed after 2 s, and has said why by then


def version():
    """The version of libftkit."""
    return lib.ftkit_version().decode()


class Warning(RuntimeWarning):  # noqa: A001
    """A set was not written; the last one holds, and the loop goes on."""


warnings.simplefilter("always", Warning, append=True)  # each time, unless the user has a filter


class _RolledBack(BaseException):
    """Leaves a body in which ctx.wait() or ctx.scrub() has restored the regions."""


class Info:
    """The members of ftkit_info, as ftkit_query() fills them in."""

    def __init__(self, ctx):
        memory = (ctypes.c_char * INFO_BYTES)()
        ctypes.c_size_t.from_buffer(memory).value = INFO_BYTES
        ctx._check(lib.ftkit_query(ctx._handle(), memory))
        for name, at, kind in MEMBERS:
            setattr(self, name, kind.from_buffer(memory, at).value)

    def __repr__(self):
        return "Info(" + ", ".join(f"{name}={value}" for name, value in vars(self).items()) + ")"


class Step(int):
    """One pass of the loop: its number, from 0; a rollback sets it back.

    The body of the loop is `with step:`.  When a failure ends the body by an exception, the loop
    goes on with an earlier pass.  code: a Code, as of ftkit_step(); error: FtkitError if code < 0.
    """

    code = Code.OK
    error = None
    _context = None

    @property
    def fresh(self):
        """This is the initial state: the first pass of a fresh start, or back there."""
        return self.code == Code.NO_SET

    @property
    def rolled_back(self):
        """The regions hold a set: set again what is not registered."""
        return self.code == Code.ROLLED_BACK

    def __enter__(self):
        self._context._inside = True
        return self

    def __exit__(self, kind, error, trace):
        self._context._inside = False
        if error is not None or self._context._again:
            return self._context._excuses(error)
        return False

    def __reduce__(self):
        return int, (int(self),)


def open(comm=None, config=None):  # noqa: A001
    """Open a context, as ftkit_open(): a context manager, which closes.

    comm: a communicator of mpi4py, or a Fortran handle; None: MPI_COMM_WORLD.
    config: path of an INI file, or None.
    A spare returns from this call as the rank that it replaces.  One that was never needed
    ends here.
    """
    return Context(comm, config)


def _mpi():
    """mpi4py.MPI, or None where there is no mpi4py."""
    try:
        from mpi4py import MPI
    except ModuleNotFoundError:
        return None
    built = lib.ftkit_python_mpi().decode()
    _, found, rest = MPI.Get_library_version().partition(built) if built else ("", "any", "")
    if not found or rest[:1].isdigit():
        used = MPI.Get_library_version().splitlines()[0]
        raise ImportError(f"mpi4py uses {used}, and ftkit was built with {built}: "
                          "see docs/python.md")
    return MPI


def _bytes(text):
    return None if text is None else os.fsencode(text)


def _sizes(values):
    return (ctypes.c_size_t * len(values))(*values)


class Context:
    """What ftkit.open() returns.  Its methods call the functions of ftkit.h of the same names.

    One thread at a time.  Errors are FtkitError.  Other threads of Python run meanwhile.
    """

    def __init__(self, comm, config):
        self._ctx = ctypes.c_void_p()
        self._keep = {}  # regions by name: what they refer to must not go
        self._error = None  # an exception in a callback
        self._cut = None  # an exception that a failure explains
        self._again = False  # the regions were restored in the pass
        self._inside = None  # the program is in a body; None: there was none
        self._over = False
        self._ended = None  # the code with which the context has ended, and its detail
        self._alone = False
        self._MPI = None if isinstance(comm, int) else _mpi()
        self.code = self.news = Code.OK
        if not lib.ftkit_python_mpi_works():
            raise FtkitError(Code.ERR_STATE,
                             "MPI is not initialized: import mpi4py.MPI, or call MPI_Init")
        for stream in (sys.stdout, sys.stderr):  # a spare may end in ftkit_open()
            if stream is not None:
                stream.flush()
        if isinstance(comm, int):
            handle = lib.ftkit_python_comm(byref(ctypes.c_int(comm)))
        elif comm is None:
            handle = lib.ftkit_python_comm(None)
        else:
            handle = Handle.from_address(self._MPI._addressof(comm)).value
        rc = lib.ftkit_open(handle, _bytes(config), byref(self._ctx))
        if rc == Code.SPARE_DONE:
            sys.exit(0)
        if rc < 0:
            raise FtkitError(rc, lib.ftkit_detail(None).decode(errors="replace"))
        info = self.query()
        self._alone = info.mode == _RESTART and info.nranks > 1  # no rank repairs without this one
        if self._MPI:
            # with the message log communicators survive
            track = self.track_comm if info.mode == _GLOBAL else lambda comm: None
            self._comm = _comm.family(self._MPI, track)()
            self._check(lib.ftkit_bind_comm(self._ctx, self._MPI._addressof(self._comm)))
        _open.append(self)

    # ---- closing ----------------------------------------------------------------------------

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if not self._is_open():
            return
        if kind is None or (kind is SystemExit and self._over):
            self.close()
        else:
            self._close_for(error)

    def close(self):
        """Close the context: Code.OK, Code.HALT or an error, as ftkit_close()."""
        if not self._is_open():
            return Code.OK
        rc = Code(self._check(self._close(0)))
        self.code = rc or self.code
        return rc

    def _close(self, unwinds):
        _open.remove(self)
        rc = lib.ftkit_binding_close(byref(self._ctx), unwinds)
        if rc < 0:
            self._ended = rc, lib.ftkit_detail(None).decode(errors="replace")
        self._keep.clear()
        return rc

    def _close_for(self, error):
        """An exception leaves the block of the context.  If the other ranks do not come, too, this
        process is lost, and the exception is printed before."""
        import threading
        import traceback

        def say():
            traceback.print_exception(type(error), error, error.__traceback__)
            sys.stderr.flush()
            sys.stdout.flush()
        if self._alone and not self._over:
            say()  # the others would wait for this rank for ever
            lib.ftkit_abort(lib.ftkit_comm(self._ctx), 1)
        timer = threading.Timer(_TRACE_S, say)
        timer.daemon = True
        timer.start()
        self._close(1)
        timer.cancel()

    def _leave(self):
        """The interpreter ends."""
        if self._over or not self._is_open():
            self.close()
            return
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        ctypes.CDLL(None).exit(1)  # with a context open: this process is lost, and ftkit says so

    # ---- errors -----------------------------------------------------------------------------

    def _is_open(self):
        if self._ctx and not lib.ftkit_python_mpi_works():  # MPI_Finalize() has closed it
            self._ctx = ctypes.c_void_p()
            _open.remove(self)
        return bool(self._ctx)

    def _handle(self):
        if not self._is_open():
            raise FtkitError(Code.ERR_ARG,
                             "the context is closed, or belongs to the parent process")
        return self._ctx

    def _note(self, error):
        self._error = self._error or error

    def _failure(self, rc):
        """FtkitError for a code, with the exception of a callback as its cause."""
        rank = None
        if self._ctx:
            detail, rank = lib.ftkit_detail(self._ctx).decode(errors="replace"), self.query().rank
        else:
            detail = self._ended[1] if self._ended else ""
        cause, self._error = self._error, None
        if cause is not None:
            detail += f": {type(cause).__name__}: {cause}"
        error = FtkitError(rc, detail, rank)
        error.__cause__ = cause
        return error

    def _call(self, function, *arguments):
        return self._check(function(self._handle(), *arguments))

    def _check(self, rc):
        if rc < 0:
            raise self._failure(rc)
        return rc

    # ---- the communicator -------------------------------------------------------------------

    @property
    def comm(self):
        """The working ranks: one communicator of mpi4py, whose handle a repair replaces.  Without
        mpi4py: the Fortran handle."""
        if self._MPI:
            return self._comm
        return lib.ftkit_python_fortran(lib.ftkit_comm(self._handle()))

    def _address(self, x):
        return self._MPI._addressof(x)

    def track_comm(self, comm):
        """Let a failure revoke a communicator, so that no rank stays blocked in it."""
        self._call(lib.ftkit_track_comm, Handle.from_address(self._address(comm)))

    def on_repair(self, function):
        """function(comm) builds what depends on the communicator: in the first pass, and after
        each repair.  An exception in it fails the repair, unless another failure explains it."""
        def run(_, handle, __):
            if self._MPI:
                Handle.from_address(self._address(self._comm)).value = handle
            function(self.comm)
            return 0
        call = REPAIR(_regions.callback(self._note, -1, run))
        self._call(lib.ftkit_on_repair, call, None)
        self._keep["", "on_repair"] = call

    # ---- regions ----------------------------------------------------------------------------

    def register(self, name, array):
        """Register the memory of an array, which each rank has for itself: a dense and writable
        array of numpy, or another object with a buffer.  Its size is fixed."""
        self._add(lib.ftkit_register, name, array)

    def register_replicated(self, name, array):
        """The same for what has the same value on every rank."""
        self._add(lib.ftkit_register_replicated, name, array)

    def _add(self, function, name, array):
        memory = _regions.Memory(name, array)
        with memory.type as kind:
            self._check(function(self._handle(), _bytes(name), memory.address, memory.count, kind))
        self._keep[name] = memory

    def register_array(self, name, array, offset, shape, halo=0):
        """Register this rank's block of a global array.

        array: the block with its halo; offset: where the block begins in the global array, without
        halo; shape: of the global array; halo: the width of the ghost layer, one number or one for
        each dimension.  A second call replaces the block.
        """
        memory = _regions.Memory(name, array, True)
        dims = len(memory.shape)
        halo = (halo,) * dims if isinstance(halo, int) else tuple(halo)
        if not dims == len(offset) == len(shape) == len(halo):
            _regions.refuse(Code.ERR_ARG, name, "shapes of different numbers of dimensions")
        local = [n - 2 * h for n, h in zip(memory.shape, halo)]
        if min(local) < 0 or min(*offset, *shape, *halo) < 0:
            _regions.refuse(Code.ERR_ARG, name,
                            "the array is smaller than its halo, or a number is negative")
        with memory.type as kind:
            self._call(lib.ftkit_register_array, _bytes(name), memory.address, kind,
                                                 dims, _sizes(shape), _sizes(local), _sizes(offset),
                                                 _sizes(halo))
        self._keep[name] = memory

    def register_attribute(self, name, owner, attribute=None):
        """Register what an attribute of an object refers to at each set (attribute: name).

        It is pickled, arrays without a copy.  A restore puts a new object into its place, so the
        loop refers to it through its owner only.
        """
        attribute = attribute or name
        getattr(owner, attribute)
        self.register_object(name, lambda: getattr(owner, attribute),
                             lambda x: setattr(owner, attribute, x))

    def register_object(self, name, get, set):  # noqa: A002
        """Register an object that is pickled: get() returns it, set(object) takes a
        restored one."""
        region = _regions.Pickled(get, set, self._note)
        self._call(lib.ftkit_register_serializer, _bytes(name), byref(region.ops), None)
        self._keep[name] = region

    def register_offset(self, name, path, at):
        """Register a file to which this rank appends, as ftkit_register_offset().  Returns an
        object whose value is the size that belongs to the state: file.flush(); at.value =
        file.tell().  at: its first value; a fresh start shortens the file to that."""
        at = ctypes.c_int64(at)
        self._call(lib.ftkit_register_offset, _bytes(name), _bytes(path), byref(at))
        self._keep[name] = at
        return at

    def register_comm(self, name, comm):
        """Register a communicator of mpi4py that is made in the loop, as ftkit_register_comm()."""
        self._call(lib.ftkit_register_comm, _bytes(name), self._address(comm))
        self._keep[name] = comm

    def attribute(self, region, name, value):
        """Attach a text to a region, for readers of the files."""
        self._call(lib.ftkit_attribute, _bytes(region), _bytes(name), value.encode())

    def compare(self, region, exact):
        """Whether the replicas of a rank compare a region."""
        self._call(lib.ftkit_compare, _bytes(region), 0 if exact else 1)

    # ---- the loop ---------------------------------------------------------------------------

    def steps(self, n=None, name="step"):
        """The passes 0 to n - 1 of the solver loop (None: until ctx.end()), for `for`.

        The body is `with step:`.  The number of the pass is a replicated region of this name.
        """
        counter = ctypes.c_int64(0)
        with _regions.Type(name, "i", 8) as kind:
            self._call(lib.ftkit_register_replicated, _bytes(name), byref(counter), 1, kind)
        self._keep[name] = counter
        return self._passes(n, counter)

    def _passes(self, n, counter):
        code = ctypes.c_int()
        at, step, context = byref(code), lib.ftkit_step, self._handle()
        pass_of_this = type("Step", (Step,), {"_context": self})
        i, unchecked = 0, True
        while step(context, at):
            news, error = code.value, None
            if news or self._cut is not None or self._error is not None:
                error = self._judge(news)
                i = counter.value  # a rollback sets it back
            if n is not None and i >= n:
                self.news = Code(news) if news else self.news
                self._check(lib.ftkit_end(context))
                continue
            now = pass_of_this(i)
            if news:
                now.code, now.error, self.news = Code(news), error, Code.OK
            yield now
            if unchecked:
                self._look_for_mistakes()
                unchecked = False
            if self._again or self._cut is not None:
                self._again, i = False, counter.value
            else:
                i += 1
                counter.value = i
        self._over = code.value in (Code.OK, Code.HALT)
        self.code = Code(code.value)
        if code.value < 0:
            error = self._failure(code.value)
            raise error from (self._cut or error.__cause__)
        if self._cut is not None and code.value == Code.OK:
            raise self._cut  # of the program, behind ctx.end()

    def _judge(self, news):
        """What the loop has to say before the next pass: the error of a set, or an exception of the
        program in the pass before, which no failure has explained."""
        cut, self._cut = self._cut, None
        error = None
        if news < 0:
            error = self._failure(news)
            warnings.warn(str(error), Warning, stacklevel=3)
        self._error = None
        if cut is not None and news not in (Code.ROLLED_BACK, Code.NO_SET):
            raise cut
        return error

    def _excuses(self, error):
        """Whether a failure explains an exception in the body."""
        if isinstance(error, _RolledBack):
            return True
        if self._again:
            raise RuntimeError("the body has gone on after a rollback in ctx.wait() or ctx.scrub():"
                               " it must not stop a BaseException") from error
        if not isinstance(error, Exception) or not self._ctx or not lib.ftkit_confirm(self._ctx):
            return False
        self._cut = error
        return True

    def _look_for_mistakes(self):
        """What would go unnoticed until a failure: once, after the first pass."""
        if self._inside is None:
            raise RuntimeError("the body of the loop must be `with step:`, so that a failure can "
                               "end it")
        for name, region in self._keep.items():
            if isinstance(region, _regions.Memory) and _regions.is_abandoned(region.keep):
                _regions.refuse(Code.ERR_STATE, name,
                                "no variable refers to the registered array any more.  Assign to "
                                f"its items ({name}[...] = ...), or use register_attribute")

    def end(self):
        """All work is done before n passes.  `continue` comes next."""
        self._call(lib.ftkit_end)

    @property
    def finished(self):
        """The loop has ended, and all ranks have come to its end.  False after a halt."""
        return self._over and self.code == Code.OK

    def request(self, durable=False):
        """A set is due at the head of the next pass."""
        self._call(lib.ftkit_request, durable)

    def wait(self):
        """Wait until each set has reached all its levels, in a pass.  If the ranks roll back
        meanwhile, the body is left, and the restored pass begins.  A ftkit.Warning, and a code
        from -10 to -39: a set was not written."""
        return self._in_pass(lib.ftkit_wait)

    def scrub(self):
        """Compare all checkpoint data in memory with their checksums, as wait()."""
        return self._in_pass(lib.ftkit_scrub, None)

    def _in_pass(self, function, *arguments):
        if not self._inside:
            raise FtkitError(Code.ERR_STATE,
                             "wait() and scrub() stand in the body, in `with step:`")
        rc = function(self._handle(), *arguments)
        if rc == Code.ROLLED_BACK:
            self._again = True
            raise _RolledBack
        if rc < -39 or -10 < rc < 0:
            self._check(rc)
        if rc < 0:
            warnings.warn(str(self._failure(rc)), Warning, stacklevel=3)
        return Code(rc)

    def decide(self, value):
        """A value that MPI does not know (time, a random number): in a replay of the message log
        the result is that of the first execution."""
        data = pickle.dumps(value)
        size = ctypes.c_int64(len(data))
        self._call(lib.ftkit_decide, byref(size), 8)
        memory = ctypes.create_string_buffer(data, max(size.value, len(data)))
        self._call(lib.ftkit_decide, memory, size.value)
        return pickle.loads(memory.raw[:size.value])

    # ---- information ------------------------------------------------------------------------

    @property
    def failed(self):
        """Whether this rank knows of a failure that is not repaired."""
        return bool(self._ctx and lib.ftkit_failed(self._ctx))

    def confirm(self):
        """Whether a failure explains a result that the program's own check rejects."""
        return bool(lib.ftkit_confirm(self._handle()))

    def query(self):
        """The members of ftkit_info."""
        return Info(self)

    def failures(self):
        """The ranks of the last repair, and why they were lost."""
        n = ctypes.c_int(0)
        self._call(lib.ftkit_failures, None, byref(n))
        room = (Failure * n.value)()
        self._check(lib.ftkit_failures(self._ctx, room, byref(n)))
        return list(room)

    def is_durable(self, number):
        """Whether a set is complete on the file system."""
        done = ctypes.c_int()
        self._call(lib.ftkit_test, number, byref(done))
        return bool(done.value)


def _forget():
    """In a child of fork(): the contexts are those of the parent."""
    for context in _open:
        context._ctx = ctypes.c_void_p()
    _open.clear()


@atexit.register
def _at_exit():
    for context in list(_open):
        context._leave()


os.register_at_fork(after_in_child=_forget)
