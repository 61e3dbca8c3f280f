# libftkit by ctypes, which releases the lock of the interpreter (GIL) in each call.
#
# SPDX-License-Identifier: BSD-3-Clause
import ctypes
import enum
import os
from ctypes import POINTER, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint64, c_void_p

NAME = "libftkit_python.so.0"


def _directory():
    """The directory of the libraries; None: that in which the loader finds them."""
    if "LIBFTKIT" in os.environ:
        return os.environ["LIBFTKIT"]
    import shutil
    for start in (__file__, shutil.which("ftkit")):
        parent = os.path.realpath(start) if start else "/"
        for _ in range(4):  # PREFIX/lib/python3/dist-packages/ftkit
            parent = os.path.dirname(parent)
            for place in (parent, os.path.join(parent, "lib"), os.path.join(parent, "build")):
                if os.path.exists(os.path.join(place, NAME)):
                    return place
    return None


def _load():
    place = _directory()
    try:
        # all symbols are seen by libftkit_mpi, the layer of the message log
        main = ctypes.CDLL(os.path.join(place or "", "libftkit.so.0"), mode=ctypes.RTLD_GLOBAL)
        own = ctypes.CDLL(os.path.join(place or "", NAME))
    except OSError as error:
        raise ImportError(
            f"ftkit: {error}.  LIBFTKIT names the directory of the libraries.  If a symbol "
            "of MPI is missing, mpi4py is linked with another MPI than ftkit: see docs/python.md"
        ) from None
    return main, own


class _Name(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_int), ("type", c_char)]


def _table(function):
    function.restype = POINTER(_Name)
    names, i = function(), 0
    while names[i].name:
        yield names[i].name.decode(), names[i].value, names[i].type.decode()
        i += 1


lib, _own = _load()

# The codes of ftkit.h, without FTKIT_
Code = enum.IntEnum("Code", [(name, value) for name, value, _ in _table(_own.ftkit_python_codes)])
_TYPES = {"i": c_int, "Q": c_uint64, "d": c_double}
MEMBERS = [(n, at, _TYPES[t]) for n, at, t in _table(_own.ftkit_python_members)]
INFO_BYTES = _own.ftkit_python_info_bytes()
Handle = c_void_p if _own.ftkit_python_handle_bytes() == 8 else c_int


class Failure(ctypes.Structure):
    """A lost process, as ftkit_failure of ftkit.h."""
    _fields_ = [(name, c_int) for name in ("rank", "plane", "incarnation", "reason", "code")]

    def __repr__(self):
        return "Failure(" + ", ".join(f"{n}={getattr(self, n)}" for n, _ in self._fields_) + ")"


MEASURE = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(c_size_t))
COPY = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)
REPAIR = ctypes.CFUNCTYPE(c_int, c_void_p, Handle, c_void_p)


class Serializer(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("measure", MEASURE), ("pack", COPY), ("unpack", COPY)]


_sizes = POINTER(c_size_t)
for _name, _result, *_arguments in (
        ("ftkit_open", c_int, Handle, c_char_p, POINTER(c_void_p)),
        ("ftkit_binding_close", c_int, POINTER(c_void_p), c_int),
        ("ftkit_abort", c_int, Handle, c_int),
        ("ftkit_comm", Handle, c_void_p),
        ("ftkit_bind_comm", c_int, c_void_p, c_void_p),
        ("ftkit_track_comm", c_int, c_void_p, Handle),
        ("ftkit_register", c_int, c_void_p, c_char_p, c_void_p, c_size_t, Handle),
        ("ftkit_register_replicated", c_int, c_void_p, c_char_p, c_void_p, c_size_t, Handle),
        ("ftkit_register_array", c_int, c_void_p, c_char_p, c_void_p, Handle, c_int, _sizes, _sizes,
         _sizes, _sizes),
        ("ftkit_register_serializer", c_int, c_void_p, c_char_p, POINTER(Serializer), c_void_p),
        ("ftkit_register_offset", c_int, c_void_p, c_char_p, c_char_p, POINTER(c_int64)),
        ("ftkit_register_comm", c_int, c_void_p, c_char_p, c_void_p),
        ("ftkit_compare", c_int, c_void_p, c_char_p, c_int),
        ("ftkit_attribute", c_int, c_void_p, c_char_p, c_char_p, c_char_p),
        ("ftkit_on_repair", c_int, c_void_p, REPAIR, c_void_p),
        ("ftkit_step", c_int, c_void_p, POINTER(c_int)),
        ("ftkit_end", c_int, c_void_p),
        ("ftkit_wait", c_int, c_void_p),
        ("ftkit_scrub", c_int, c_void_p, POINTER(c_int)),
        ("ftkit_request", c_int, c_void_p, c_int),
        ("ftkit_decide", c_int, c_void_p, c_void_p, c_size_t),
        ("ftkit_failed", c_int, c_void_p),
        ("ftkit_confirm", c_int, c_void_p),
        ("ftkit_query", c_int, c_void_p, c_void_p),
        ("ftkit_failures", c_int, c_void_p, POINTER(Failure), POINTER(c_int)),
        ("ftkit_test", c_int, c_void_p, c_uint64, POINTER(c_int)),
        ("ftkit_detail", c_char_p, c_void_p),
        ("ftkit_strerror", c_char_p, c_int),
        ("ftkit_version", c_char_p),
        ("ftkit_python_mpi", c_char_p),
        ("ftkit_python_mpi_works", c_int),
        ("ftkit_python_comm", Handle, POINTER(c_int)),
        ("ftkit_python_fortran", c_int, Handle),
        ("ftkit_python_type", Handle, c_char, c_size_t, POINTER(c_int)),
        ("ftkit_python_free", None, Handle)):
    _function = getattr(_own if _name.startswith("ftkit_python") else lib, _name)
    _function.restype, _function.argtypes = _result, _arguments
    setattr(lib, _name, _function)


class FtkitError(RuntimeError):
    """A call of ftkit has failed.

    code: a Code; rank: of this process, in the context, or None; detail: what failed, and where.
    """

    def __init__(self, code, detail="", rank=None):
        code = Code(code)
        text = lib.ftkit_strerror(code).decode()
        super().__init__(f"{text}: {detail}" if detail else text)
        self.code, self.detail, self.rank = code, detail, rank

    @property
    def fatal(self):
        """Whether the program cannot go on."""
        return self.code < -39
