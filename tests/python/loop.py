# A program in Python with every kind of region.  Its result says whether ranks were lost on the
# way: it must not.
#
#   loop.py RESULT [PASS:RANK:HOW]...: in this pass, the first time that the job comes there, the
#   rank does what HOW says
#
# SPDX-License-Identifier: BSD-3-Clause
import array
import os
import signal
import sys
import types

import ftkit
import numpy as np
from mpi4py import MPI

PASSES, ROWS, COLS = 40, 5, 3
RESULT, DISTURB = sys.argv[1], [d.split(":") for d in sys.argv[2:]]


class Unlucky:
    """Cannot be pickled in some passes."""
    bad = False

    def __getstate__(self):
        if self.bad:
            raise ValueError("not now")
        return {"bad": False}


def first_time(i):
    """Whether this is the first time that the job comes here, relaunches included."""
    try:
        os.close(os.open(f"{RESULT}.{i}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def disturb(step, rank, s):
    for at, who, how in DISTURB:
        if step != int(at) or rank != int(who) or not first_time(at):
            continue
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "raise":
            raise ZeroDivisionError("of the program")
        elif how == "interrupt":
            os.kill(os.getpid(), signal.SIGINT)
        elif how == "exit":
            sys.exit(7)
        elif how == "callback":
            s.unlucky.bad = True


def advance(step, comm, s, fixed, old, block, energy, log, at):
    rank = comm.rank
    s.unlucky.bad = False
    s.found = np.append(s.found.ravel(), [[step * 10 + rank]] if step % 3 == rank else [])
    s.pair, s.other = s.other + 1, s.pair  # arrays that change places
    s.text += f"{step},"
    s.table[step % 7] = s.table.get(step % 7, 0) + rank
    fixed[step % 4]["x"] += rank + 0.25
    old[step % 3] += 1
    up, down = (rank - 1) % comm.size, (rank + 1) % comm.size
    comm.Sendrecv(block[1], up, recvbuf=block[-1], source=down)
    block[1:-1] = 0.5 * block[1:-1] + 0.25 * block[2:]
    log.write(f"{step} ")
    log.flush()
    at.value = log.tell()
    s.was = s.new  # one array, when a failure ends the body
    mine = s.was[0] * 1e-3 + float(
        block[1:-1].sum() + fixed["x"].sum() + sum(old) + s.found.sum() + s.pair[0] + len(s.text)
        + sum(s.table.values()) + s.rng.random())
    total = comm.allreduce((mine, {"any": "object"}), op=lambda a, b: (a[0] + b[0], b[1]))
    s.new = 0.5 * s.was + s.sub.allreduce(total[0], MPI.MAX) + s.sub.rank
    energy[...] = total[0] / 1e3


def main(ctx):
    comm, seen = ctx.comm, []
    rank, size = comm.rank, comm.size
    s = types.SimpleNamespace(found=np.zeros(0), pair=np.zeros(2), other=np.ones(2), text="",
                              new=np.zeros(2), was=np.zeros(2), table={}, unlucky=Unlucky(),
                              rng=np.random.default_rng(rank))
    fixed = np.zeros(4, [("x", "f8"), ("n", "i4")])
    old = array.array("i", [0, 0, 0])
    energy = np.zeros(())
    block = np.full((ROWS + 2, COLS), float(rank))
    log = open(f"{RESULT}.log{rank}", "a")
    ctx.register("fixed", fixed)
    ctx.register("old", old)
    ctx.register_replicated("energy", energy)
    ctx.register_array("block", block, offset=(ROWS * rank, 0), shape=(ROWS * size, COLS),
                       halo=(1, 0))
    for name in ("found", "pair", "other", "new", "was", "text", "table", "unlucky"):
        ctx.register_attribute(name, s)
    ctx.register_object("rng", lambda: s.rng.bit_generator.state,
                        lambda state: setattr(s.rng.bit_generator, "state", state))
    at = ctx.register_offset("log", log.name, 0)

    def repaired(new):
        seen.append((new.size, ctx.comm is new))
        s.sub = new.Split(0, -rank)
    ctx.on_repair(repaired)
    back = 0
    for step in ctx.steps(PASSES):
        back += step.rolled_back
        with step:
            if step.error:
                print(f"rank {rank}: {step.error}, cause {step.error.__cause__!r}", file=sys.stderr)
            advance(step, comm, s, fixed, old, block, energy, log, at)
            disturb(step, rank, s)
            if step % 10 == 9:
                ctx.wait()
            if step % 10 == 4:
                ctx.scrub()
    back += ctx.news == ftkit.Code.ROLLED_BACK
    # with the log the function runs once
    assert ctx.finished and set(seen) == {(size, True)}, seen
    assert ctx.query().rank == rank
    print(f"rank {rank}: back {back} times, {len(ctx.failures())} failed in the last repair",
          file=sys.stderr)
    logs = comm.gather(open(log.name).read())
    if rank == 0:
        assert set(logs) == {"".join(f"{i} " for i in range(PASSES))}, logs
        with open(RESULT, "w") as f:
            f.write(f"{len(s.found)} found, {s.table}, {float(energy).hex()}, "
                    f"{float(s.was.sum()).hex()}\n")
    ctx.close()


try:
    with ftkit.open(MPI.COMM_WORLD) as ctx:
        main(ctx)
except ZeroDivisionError as error:  # of all ranks
    print("caught:", error, file=sys.stderr)
    sys.exit(5)
