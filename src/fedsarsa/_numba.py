"""How the package compiles: without reordered sums, so that engines agree.

Numba is imported when a kernel is defined, which only engines do. Worlds, features, histories and theory
import without it.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property, update_wrapper
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

# Kernels neither allocate nor keep arrays, so they need no reference counts; counting them at every
# access to an array in a tuple made kernels three times slower.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}

# Unsigned 64-bit integers index arrays without Numba's test for negative indices. They must not meet
# signed integers in arithmetic: Numba, like NumPy, turns such a sum into a float.
U64: Any = np.uint64
U32: Any = np.uint32
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


# Kernels for GPUs then run in Python, and so do the pieces that they call.
SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"


class DeviceBuild(NamedTuple):
    """What pieces of a kernel for a GPU are compiled for.

    ``chosen`` are pieces made by `dispatch`, and the place that each is called with; where it is known,
    the others need not be compiled. With ``single``, numbers are float32. Without ``inlined``, the compiler
    decides which pieces it writes where they are called: large kernels are compiled sooner.
    """

    chosen: tuple[tuple[Any, int], ...] = ()
    single: bool = False
    inlined: bool = True


_builds: list[DeviceBuild] = []  # not empty while a kernel is compiled for a GPU

# Kernels call pieces. Entries for Python and C took up to half of the time to compile them.
PIECE = {**OPTIONS, "forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


@cache
def _inlined(disjoint: bool) -> Any:
    """How Numba compiles a piece: as far as kernels need that take it in, and no further.

    Kernels optimise what they take in. To optimise every piece before, and to make machine code of it that
    nothing calls, took two fifths of the time to compile. Where a piece's arrays are ``disjoint``, LLVM looks
    for vectors before it is inlined. Numba has no option for any of this.
    """
    from numba.core import codegen, compiler

    library: Any = codegen.JITCodeLibrary
    passes: Any = compiler.DefaultPassBuilder

    class Library(library):  # type: ignore[misc]
        codegen = SimpleNamespace(set_env=lambda *_: None)  # machine code would have an environment

        def _optimize_final_module(self) -> None:
            if disjoint:
                super()._optimize_final_module()

        def _finalize_final_module(self) -> None:
            self._finalized = True

    class Pipeline(compiler.CompilerBase):
        def define_pipelines(self) -> Any:
            state: Any = self.state
            state.flags.noalias = disjoint
            state.library = Library(state.targetctx.codegen(), state.func_id.func_qualname)
            return [passes.define_nopython_pipeline(state)]

    return Pipeline


class Piece:
    """A function that is handed to Numba once a kernel, or Python, calls it."""

    def __init__(self, function: Callable[..., Any], disjoint: bool = False) -> None:
        self.py_func, self.disjoint = function, disjoint
        self.builds: dict[DeviceBuild, Any] = {}
        update_wrapper(self, function)

    @cached_property
    def compiled(self) -> Any:
        """Numba's own object for the function, which kernels call."""
        import numba

        return numba.njit(pipeline_class=_inlined(self.disjoint), **PIECE)(self.py_func)

    def for_device(self, build: DeviceBuild) -> Any:
        """The same for kernels on a GPU."""
        if build not in self.builds:
            self.builds[build] = self.compiled_for(build)
        return self.builds[build]

    def compiled_for(self, build: DeviceBuild) -> Any:
        """Numba's object for kernels on a GPU."""
        from numba import cuda

        function = in_single(self.py_func) if build.single else self.py_func
        return cuda.jit(function, device=True, forceinline=build.inlined)

    @cached_property
    def for_python(self) -> Any:
        """The same for Python: a kernel that calls the piece and nothing else."""
        import numba

        compiled = self.compiled
        return numba.njit(**OPTIONS)(lambda *arguments: compiled(*arguments))

    @property
    def _numba_type_(self) -> Any:
        """Numba asks for this where a kernel that it compiles names the piece."""
        return (self.for_device(_builds[-1]) if _builds else self.compiled)._numba_type_

    def __call__(self, *arguments: Any) -> Any:
        return (self.py_func if SIMULATED else self.for_python)(*arguments)


@contextmanager
def building(build: DeviceBuild) -> Iterator[None]:
    """A context in which kernels that are compiled get their pieces for a GPU."""
    _builds.append(build)
    try:
        yield
    finally:
        _builds.pop()


def in_single(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with float32 in the place of the floats that are written in it."""
    code = function.__code__
    constants = tuple(np.float32(one) if type(one) is float else one for one in code.co_consts)
    return FunctionType(
        code.replace(co_consts=constants),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def piece(function: F) -> F:
    """Mark a piece of a kernel; it is inlined where it is called, on the CPU or on a GPU."""
    marked: Any = Piece(function)
    return marked  # type: ignore[no-any-return]


def vectorised(function: F) -> F:
    """Mark a piece that loops over plain arrays, none of which overlaps one that it writes.

    LLVM then uses vector instructions; it does not where a write might change what is read later.
    """
    marked: Any = Piece(function, disjoint=True)
    return marked  # type: ignore[no-any-return]


class _TwinPiece(Piece):
    """A piece that says the same in other words to a GPU."""

    def __init__(
        self, function: Callable[..., Any], twin: Callable[[DeviceBuild], Callable[..., Any]]
    ) -> None:
        super().__init__(function)
        self.twin = twin

    def compiled_for(self, build: DeviceBuild) -> Any:
        """Numba's object for the twin."""
        from numba import cuda

        function = self.twin(build)
        return cuda.jit(in_single(function) if build.single else function, device=True, forceinline=True)


def on_device(twin: Callable[[DeviceBuild], Callable[..., Any]]) -> Callable[[F], F]:
    """Mark a piece in whose place kernels on a GPU call what ``twin`` gives for their build."""

    def marked(function: F) -> F:
        found: Any = _TwinPiece(function, twin)
        return found  # type: ignore[no-any-return]

    return marked


def instruction(text: str, result: Any, *inputs: Any, fixed: bool = False) -> Any:
    """A function for twins that is one instruction of the GPU, with Numba's types of result and inputs.

    Where it is ``fixed``, the compiler leaves it where it is written.
    """
    from llvmlite import ir
    from numba.cuda.extending import intrinsic

    letters = {"float64": "d", "float32": "f", "uint64": "l", "uint32": "r"}
    constraints = ",".join(["=" + letters[str(result)], *(letters[str(one)] for one in inputs)])

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds = [context.get_value_type(one) for one in signature.args]
        called = ir.FunctionType(context.get_value_type(result), kinds)
        return builder.call(ir.InlineAsm(called, text, constraints, side_effect=fixed), values)

    typed: Any = result(*inputs), generate
    # Numba wants to see how many arguments there are.
    of_one, of_two = lambda _, x: typed, lambda _, x, y: typed  # noqa: ARG005
    return intrinsic(of_one if len(inputs) == 1 else of_two)


def library_piece(name: str) -> Callable[[F], F]:
    """Mark a piece of one number in whose place kernels on a GPU call ``name`` of CUDA's library."""

    def twin(build: DeviceBuild) -> Callable[..., Any]:
        from numba.cuda import libdevice

        function = getattr(libdevice, f"{name}f" if build.single else name)
        return lambda x: function(x)

    return on_device(twin)


@library_piece("floor")
def floor(x: float) -> float:
    """The largest whole number that is not above ``x``, as a float."""
    return np.floor(x)  # type: ignore[no-any-return]


@library_piece("ceil")
def ceiling(x: float) -> float:
    """The smallest whole number that is not below ``x``, as a float."""
    return np.ceil(x)  # type: ignore[no-any-return]


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

    def compiled_for(self, build: DeviceBuild) -> Any:
        """None: engines reject such functions where there is a GPU."""
        raise NotImplementedError(f"no GPU can call a function by its address, got {build}")


def _call_address(address: int, inputs: Any, outputs: Any) -> None:
    """Call the function at ``address`` with where ``inputs`` and ``outputs`` begin; in kernels alone."""
    raise NotImplementedError(f"Python cannot call a function by its address, got {address}")


call_address: Any = _AddressCall(_call_address)


class _Dispatch(Piece):
    """A piece that calls one of several."""

    def __init__(self, function: Callable[..., Any], pieces: Sequence[Callable[..., Any]]) -> None:
        super().__init__(function)
        self.pieces = pieces

    def compiled_for(self, build: DeviceBuild) -> Any:
        """Only the one that is chosen, if that is known."""
        for known, place in build.chosen:
            if known is self:
                only: Any = dispatch([self.pieces[place]])
                return only.for_device(build)
        return super().compiled_for(build)


def dispatch(pieces: Sequence[F]) -> Callable[..., Any]:
    """A piece that calls one of several: the first argument is its place, the others are passed on."""
    last, own = len(pieces) - 1, pieces[-1]
    if last == 0:
        return _Dispatch(lambda _, *arguments: own(*arguments), pieces)
    others = dispatch(pieces[:-1])

    def chosen(place: int, *arguments: Any) -> Any:
        if place == last:
            return own(*arguments)
        return others(place, *arguments)

    return _Dispatch(chosen, pieces)


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
