# What regions are in Python: memory of arrays, and pickled objects.
#
# SPDX-License-Identifier: BSD-3-Clause
import ctypes
import pickle
import struct
import sys
import weakref

from ._library import COPY, MEASURE, Code, FtkitError, Serializer, lib

KINDS = {**dict.fromkeys("bhilqn", "i"), **dict.fromkeys("BHILQN", "u"), "?": "b", "f": "f",
         "d": "f", "c": "V", "": "u"}


def is_numpy(x):
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, numpy.ndarray)


def refuse(code, name, why):
    raise FtkitError(code, f"region '{name}': {why}")


class Type:
    """The MPI datatype of an item, for one call."""

    def __init__(self, name, kind, size):
        own = ctypes.c_int()
        if size == 0 or size > 0x7fffffff:
            refuse(Code.ERR_TYPE, name, f"items of {size} bytes")
        self.handle = lib.ftkit_python_type(kind.encode(), size, ctypes.byref(own))
        self.own = own.value

    def __enter__(self):
        return self.handle

    def __exit__(self, *_):
        if self.own:
            lib.ftkit_python_free(self.handle)


class Memory:
    """The memory of an array or another object with a buffer: dense, and writable.

    keep: what keeps the memory where it is.
    """

    def __init__(self, name, x, rows_first=False):
        if is_numpy(x):
            self._of_numpy(name, x, rows_first)
        else:
            self._of_buffer(name, x)
        self.type = Type(name, self.kind, self.size)

    def _of_numpy(self, name, x, rows_first):
        numpy, dtype, flags = sys.modules["numpy"], x.dtype, x.flags
        if type(x) not in (numpy.ndarray, numpy.memmap):
            refuse(Code.ERR_TYPE, name, f"{type(x).__name__} may have more state than its items: "
                   "use register_attribute")
        if dtype.hasobject:
            refuse(Code.ERR_TYPE, name, "an address means nothing in another process (dtype "
                   f"{dtype}): use register_object")
        if not dtype.isnative:
            refuse(Code.ERR_TYPE, name,
                   f"the byte order of dtype {dtype.str} is not that of the machine")
        if not flags.c_contiguous and (rows_first or not flags.f_contiguous):
            refuse(Code.ERR_TYPE, name, "the items of the array are not one piece of memory"
                   + (", the last dimension fastest" if rows_first else "")
                   + ": register the whole array, or a copy")
        if not flags.writeable:
            refuse(Code.ERR_ARG, name, "a restore writes to the array, and it is read-only")
        self.kind, self.size, self.count = dtype.kind, dtype.itemsize, x.size
        self.kind = "i" if self.kind in "mM" else self.kind  # times
        self.address, self.shape = x.ctypes.data, x.shape
        self.keep = x, weakref.ref(x)  # an array with a weak reference refuses resize()

    def _of_buffer(self, name, x):
        try:
            view = memoryview(x)
        except TypeError:
            refuse(Code.ERR_TYPE, name, f"{type(x).__name__} has no memory that a restore can "
                   "write: use an array, register_attribute or register_object")
        if view.readonly:
            refuse(Code.ERR_ARG, name,
                   f"a restore writes to the object, and {type(x).__name__} is read-only")
        kind = view.format.lstrip("@=<")
        if not view.c_contiguous or kind not in KINDS:
            refuse(Code.ERR_TYPE, name, f"a buffer of format {view.format} is not one piece")
        self.kind, self.size, self.shape = KINDS[kind], view.itemsize, view.shape
        self.count = view.nbytes // view.itemsize
        # as long as this object lives, the other one refuses to change its size
        memory = view.cast("B") if view.nbytes else bytearray()
        held = (ctypes.c_char * view.nbytes).from_buffer(memory)
        self.address, self.keep = ctypes.addressof(held), (x, held)


def _references(keep):
    return sys.getrefcount(keep[0])


_ALONE = _references((object(),))


def is_abandoned(keep):
    """Whether only the context holds an array, or only this array holds its memory."""
    if not is_numpy(keep[0]) or _references(keep) > _ALONE:
        return False
    if keep[0].base is None:
        return True
    return (is_numpy(keep[0].base) and keep[0].base.base is None
            and sys.getrefcount(keep[0].base) <= _ALONE)


def callback(note, result, function):
    """function, for C: an exception is noted, and becomes this result."""
    def run(*arguments):
        try:
            return function(*arguments)
        except BaseException as error:  # none may cross a function of C
            note(error)
            return result
    return run


class Pickled:
    """An object that get() returns and set(object) takes.

    Its bytes: the number of buffers, the lengths of the pickle and of the buffers, the pickle, the
    buffers.  The memory of arrays is a buffer, so it is copied once, as that of other regions.
    """

    def __init__(self, get, put, note):
        self.get, self.put, self.parts = get, put, []
        self.ops = Serializer(ctypes.sizeof(Serializer), MEASURE(callback(note, -1, self._measure)),
                              COPY(callback(note, -1, self._pack)),
                              COPY(callback(note, -1, self._unpack)))

    def _measure(self, _, size):
        buffers = []
        body = pickle.dumps(self.get(), protocol=5, buffer_callback=buffers.append)
        parts = [body, *(b.raw() for b in buffers)]  # they hold the objects until the next set
        lengths = [len(p) for p in parts]
        self.parts = [struct.pack(f"<{len(lengths) + 1}q", len(buffers), *lengths), *parts]
        size[0] = len(self.parts[0]) + sum(lengths)
        return 0

    def _pack(self, _, to, size):
        if size != sum(len(p) for p in self.parts):
            return -1
        for part in self.parts:
            data = part
            if isinstance(part, memoryview):
                data = bytes(part) if part.readonly else _chars(part)
            ctypes.memmove(to, data, len(part))
            to += len(part)
        return 0

    def _unpack(self, _, data, size):
        def take(n):
            nonlocal data
            part = bytearray(n)
            ctypes.memmove(_chars(part), data, n)
            data += n
            return part
        self.parts = []
        n, body = struct.unpack("<2q", take(16))
        lengths = struct.unpack(f"<{n}q", take(8 * n))
        self.put(pickle.loads(take(body), buffers=[take(length) for length in lengths]))
        return 0


def _chars(memory):
    return (ctypes.c_char * len(memory)).from_buffer(memory)
