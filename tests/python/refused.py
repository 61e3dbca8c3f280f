# What is refused, and with which text: one process, without a job.
#
# SPDX-License-Identifier: BSD-3-Clause
import array
import ctypes
import os
import pickle
import re
import sys
import types
import warnings

import ftkit
import numpy as np
from mpi4py import MPI


def say(what, function):
    try:
        print(f"{what}: {function()!r}")
    except ftkit.FtkitError as e:
        print(f"{what}: {e.code.name} {e.rank} {'fatal' if e.fatal else 'not fatal'}: {e}")
    except Exception as e:
        print(f"{what}: {type(e).__name__}: {e}")


def frozen():
    x = np.zeros(3)
    x.flags.writeable = False
    return x


say("open", lambda: ftkit.open(config="/no/such/file"))
with ftkit.open() as ctx:
    u = np.zeros((3, 4))
    say("u", lambda: ctx.register("u", u))
    say("again", lambda: ctx.register("u", u))
    say("name", lambda: ctx.register("a/b", u))
    say("gaps", lambda: ctx.register("gaps", u[:, 1]))
    say("read-only", lambda: ctx.register("ro", frozen()))
    say("bytes", lambda: ctx.register("bytes", b"abc"))
    say("objects", lambda: ctx.register("objects", np.array([{}, {}])))
    say("order", lambda: ctx.register("order", np.zeros(3, ">f8")))
    say("number", lambda: ctx.register("number", 3.5))
    say("scalar", lambda: ctx.register("scalar", np.float64(3)))
    say("list", lambda: ctx.register("list", [1, 2]))
    say("columns", lambda: ctx.register("columns", np.asfortranarray(u)))
    say("columns of a block",
        lambda: ctx.register_array("c", np.asfortranarray(u), offset=(0, 0), shape=(3, 4)))
    say("dimensions", lambda: ctx.register_array("d", u, offset=(0,), shape=(3, 4)))
    say("halo", lambda: ctx.register_array("h", u, offset=(0, 0), shape=(3, 4), halo=2))
    say("empty", lambda: ctx.register("empty", np.zeros((0, 3))))
    say("resize", lambda: u.resize((30, 4), refcheck=False))
    b = bytearray(8)
    say("buffer", lambda: ctx.register("b", b))
    say("grow", lambda: b.extend(b"1"))
    say("wait", ctx.wait)
    say("subclass", lambda: ctx.register("m", np.ma.zeros(3)))
    say("step", lambda: pickle.loads(pickle.dumps(ftkit.Step(2))))
    say("no attribute", lambda: ctx.register_attribute("nothing", types.SimpleNamespace()))
    say("end", ctx.end)
    if os.fork() == 0:
        say("child", lambda: ctx.register("child", u))
        sys.stdout.flush()
        os._exit(0)
    os.wait()
    say("decide", lambda: ctx.decide({"now": 1.5}))
    say("close", ctx.close)
    say("closed", lambda: ctx.register("closed", u))
    say("closed twice", ctx.close)


def no_with():
    with ftkit.open() as ctx:
        for step in ctx.steps(3):
            pass


def abandoned(view):
    with ftkit.open() as ctx:
        x = np.zeros(4)
        ctx.register("x", x[1:] if view else x)
        for step in ctx.steps(3):
            with step:
                x = x + 1


def collected():
    """Only the context holds the object of an attribute, and the buffer."""
    with ftkit.open() as ctx:
        ctx.register_attribute("a", types.SimpleNamespace(a=np.ones(5)))
        ctx.register("buffer", array.array("d", [1.0] * 1000))
        done = 0
        for step in ctx.steps(3):
            with step:
                ctx.request()
                done += 1
        return done, ctx.finished, ctx.query().committed >= 3


def own_error():
    with ftkit.open() as ctx:
        for step in ctx.steps(3):
            with step:
                raise KeyError("mine")


def early():
    with ftkit.open() as ctx:
        for step in ctx.steps():
            with step:
                if step == 4:
                    ctx.end()
                    continue
        return int(step), ctx.finished


def as_errors():
    o = types.SimpleNamespace(x=np.zeros(3))
    with warnings.catch_warnings(), ftkit.open() as ctx:
        warnings.simplefilter("error", ftkit.Warning)
        ctx.register_attribute("x", o)
        for step in ctx.steps(3):
            with step:
                o.x = (i for i in range(3))
                ctx.request()


def objects():
    """Through the functions of C and back: arrays of any kind, with their masks and orders."""
    o = types.SimpleNamespace(x=None)
    values = (np.ma.masked_array([1, 2], [0, 1]), np.asfortranarray(np.ones((2, 3)))[:, 1],
              np.zeros((0, 3)), {"a": [np.arange(3), frozenset("a")]})
    region = ftkit._regions.Pickled(lambda: o.x, lambda x: setattr(o, "x", x), print)
    for value in values:
        o.x, size = value, ctypes.c_size_t()
        assert region.ops.measure(None, ctypes.pointer(size)) == 0
        memory = (ctypes.c_char * size.value)()
        assert region.ops.pack(None, ctypes.addressof(memory), size.value) == 0
        assert region.ops.unpack(None, ctypes.addressof(memory), size.value) == 0
        yield repr(o.x) == repr(value) and o.x is not value


def members():
    header = open(os.path.join(os.path.dirname(__file__), "../../include/ftkit.h")).read()
    body = header.split("typedef struct ftkit_info {")[1].split("} ftkit_info;")[0]
    names = re.findall(r"^    (?:int|size_t|uint64_t|double) (\w+);", body, re.M)
    return names[1:] == [name for name, _, _ in ftkit._library.MEMBERS]


say("no with", no_with)
say("abandoned", lambda: abandoned(False))
say("abandoned view", lambda: abandoned(True))
say("collected", collected)
say("own error", own_error)
say("early", early)
say("as errors", as_errors)
print("objects:", *objects())
print("members:", "same" if members() else "not those of ftkit.h")
late = ftkit.open()
MPI.Finalize()
say("late", lambda: late.query())
