"""How the package compiles: without reordered sums, so that engines agree.

Numba is imported when a kernel is defined, which only engines do. Worlds, features, histories and theory
import without it.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from functools import cached_property, update_wrapper
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

# Kernels neither allocate nor keep arrays, so they need no reference counts; counting them at every
# access to an array in a tuple made kernels three times slower.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}

# Unsigned 64-bit integers index arrays without Numba's test for negative indices. They must not meet
# signed integers in arithmetic: Numba, like NumPy, turns such a sum into a float.
U64: Any = np.uint64
I64: Any = np.int64

PACKAGE = Path(__file__).parent
COMPILED = (
    "_numba.py",
    "worlds/alias.py",
    "worlds/control/*.py",
    "learning/**/*.py",
    "federation/state.py",
    "federation/servers/*.py",
    "engines/*.py",
)


# Kernels call pieces. Entries for Python and C took up to half of the time to compile them.
PIECE = {**OPTIONS, "forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class Piece:
    """A function that is handed to Numba once a kernel, or Python, calls it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.py_func = function
        update_wrapper(self, function)

    @cached_property
    def compiled(self) -> Any:
        """Numba's own object for the function, which kernels call."""
        import numba

        return numba.njit(**PIECE)(self.py_func)

    @cached_property
    def for_python(self) -> Any:
        """The same for Python: a kernel that calls the piece and nothing else."""
        import numba

        compiled = self.compiled
        return numba.njit(**OPTIONS)(lambda *arguments: compiled(*arguments))

    @property
    def _numba_type_(self) -> Any:
        """Numba asks for this where a kernel that it compiles names the piece."""
        return self.compiled._numba_type_

    def __call__(self, *arguments: Any) -> Any:
        return self.for_python(*arguments)


def piece(function: F) -> F:
    """Mark a piece of a kernel; it is inlined where it is called, on the CPU or on a GPU."""
    marked: Any = Piece(function)
    return marked  # type: ignore[no-any-return]


class _Vectorised(Piece):
    """A piece that is told to LLVM to have arrays that do not overlap."""

    @cached_property
    def compiled(self) -> Any:
        """Numba's own object; Numba has the promise among its flags, and no option for it."""
        import numba
        from numba.core import compiler

        passes: Any = compiler.DefaultPassBuilder

        class Disjoint(compiler.CompilerBase):
            def define_pipelines(self) -> Any:
                self.state.flags.noalias = True
                return [passes.define_nopython_pipeline(self.state)]

        return numba.njit(pipeline_class=Disjoint, **PIECE)(self.py_func)


def vectorised(function: F) -> F:
    """Mark a piece that loops over plain arrays, none of which overlaps one that it writes.

    LLVM then uses vector instructions; it does not where a write might change what is read later.
    """
    marked: Any = _Vectorised(function)
    return marked  # type: ignore[no-any-return]


class _AddressCall(Piece):
    """Calls a C function of two pointers, known by its address when the kernel runs."""

    @cached_property
    def compiled(self) -> Any:
        """Numba's own object: the call is written for LLVM, as Numba has no such call."""
        import numba
        from llvmlite import ir
        from numba.core.extending import intrinsic
        from numba.np import arrayobj

        make_array: Any = arrayobj.make_array
        marked: Any = intrinsic

        @marked  # type: ignore[untyped-decorator]
        def call(_: Any, address: Any, inputs: Any, outputs: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                pointers = [
                    make_array(kind)(context, builder, argument).data
                    for kind, argument in zip(signature.args[1:], arguments[1:], strict=True)
                ]
                kind = ir.FunctionType(ir.VoidType(), [one.type for one in pointers])
                builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), pointers)
                return context.get_dummy_value()

            return numba.void(address, inputs, outputs), generate

        return numba.njit(**OPTIONS)(lambda address, inputs, outputs: call(address, inputs, outputs))


def _call_address(address: int, inputs: Any, outputs: Any) -> None:
    """Call the function at ``address`` with where ``inputs`` and ``outputs`` begin; in kernels alone."""


call_address: Any = _AddressCall(_call_address)


def dispatch(pieces: Sequence[F]) -> Callable[..., Any]:
    """A piece that calls one of several: the first argument is its place, the others are passed on."""
    last, own = len(pieces) - 1, pieces[-1]
    if last == 0:
        return piece(lambda _, *arguments: own(*arguments))
    others = dispatch(pieces[:-1])

    @piece
    def chosen(place: int, *arguments: Any) -> Any:
        if place == last:
            return own(*arguments)
        return others(place, *arguments)

    return chosen


def sized(make: Callable[[int], F], sizes: Sequence[int]) -> Callable[..., Any]:
    """A piece whose first argument is the length of its loops: one of ``make(length)``, or ``make(0)``.

    LLVM writes loops of a length that it knows without counting, and finds vectors in the loops around them.
    """
    if not sizes:
        anything = make(0)
        return piece(lambda _, *arguments: anything(*arguments))
    first, own, others = sizes[0], make(sizes[0]), sized(make, sizes[1:])

    @piece
    def chosen(length: int, *arguments: Any) -> Any:
        if length == first:
            return own(*arguments)
        return others(length, *arguments)

    return chosen


def kernel(function: F) -> F:
    """Compile a function that Python calls: cached on disk, and other threads run beside it."""
    import numba

    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = cache_folder(before)
    try:
        compiled: F = numba.njit(nogil=True, cache=True, **OPTIONS)(function)
    except RuntimeError:  # no place where this user can keep a cache: every process compiles
        compiled = numba.njit(nogil=True, **OPTIONS)(function)
    finally:
        config.CACHE_DIR = before
    return compiled


def resolved(compiled: Any, *arguments: Any) -> Callable[..., Any]:
    """A kernel's machine code for arguments of just these types, which are not looked at again.

    Looking takes Numba longer than a short kernel runs: 5 us for the tuples of arrays that ours take.
    """
    import numba

    types = tuple(numba.typeof(argument) for argument in arguments)  # type: ignore[no-untyped-call]
    compiled.compile(types)
    code: Callable[..., Any] = compiled.overloads[types].entry_point
    return code


def writeable(item: T) -> T:
    """Named tuples with copies of their arrays that are read-only, as those from Ray's object store are.

    To Numba a read-only array is of another type, and a kernel that takes one is compiled apart.
    """
    copy: Any = item
    if isinstance(item, np.ndarray) and not item.flags.writeable:
        copy = item.copy()
    elif isinstance(item, tuple):
        copy = copy._make(map(writeable, item))
    return copy  # type: ignore[no-any-return]


def cache_folder(chosen: str) -> str:
    """Where compiled kernels are kept: a folder per state of the sources that go into them.

    Numba alone looks at the file of the kernel, and would miss a change in the pieces inlined into it.
    The folder is in ``chosen`` (NUMBA_CACHE_DIR), else beside the code, else (an empty answer) where
    Numba keeps the caches of a user who cannot write there.
    """
    base = Path(chosen) if chosen else PACKAGE / "__pycache__"
    if not chosen and not os.access(base if base.exists() else PACKAGE, os.W_OK):
        return ""
    return str(base / f"fedsarsa-{fingerprint(PACKAGE)}")


def fingerprint(package: Path) -> str:
    """A digest of the sources that are compiled."""
    digest = hashlib.sha256()
    for pattern in COMPILED:
        for path in sorted(package.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
