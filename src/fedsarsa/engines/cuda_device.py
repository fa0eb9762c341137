"""The GPU: why it cannot be used here, how kernels are compiled for it, and arrays on it.

Numba's simulator (NUMBA_ENABLE_CUDASIM=1) runs kernels in Python, without a GPU.
"""

import functools
import hashlib
import itertools
import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedsarsa._files import SEAL_LENGTH, sealed, write
from fedsarsa._numba import SIMULATED, DeviceBuild, building, cache_folder, in_single

T = TypeVar("T")

DOUBLE = DeviceBuild()
NO_GPU = "there is no NVIDIA GPU here"
STATIC_SHARED = 48 * 1024  # bytes of shared memory that kernels may use without asking


class Limits(NamedTuple):
    """Of a device: multiprocessors; shared memory (bytes), threads and registers of each; and of a block."""

    multiprocessors: int
    shared: int
    threads: int
    registers: int
    block_shared: int
    block_threads: int


def missing() -> str | None:
    """Why numba-cuda finds no GPU to work with, in a few words; None if it does."""
    if SIMULATED:
        return None
    if not hasattr(np, "row_stack"):
        return f"numba-cuda does not know NumPy {np.__version__}: pip install 'numpy<2.5'"
    from numba import cuda
    from numba.cuda.cudadrv.driver import driver

    try:
        found, theirs = driver.get_device_count(), driver.get_version()
    except Exception as error:  # what drivers raise has no class in common
        return _unanswered(" ".join(str(error).split()).strip(" :") or type(error).__name__)
    if not found:
        return NO_GPU
    try:
        ours = cuda.runtime.get_version()
    except Exception:  # nor has what is raised where a library is missing
        return f"CUDA's compiler is not installed: pip install 'numba-cuda[cu{theirs[0]}]'"
    if theirs[0] < ours[0]:
        known, wanted = (".".join(map(str, version)) for version in (theirs, ours))
        return (
            f"the NVIDIA driver knows CUDA {known}, and {wanted} is installed: update the driver, or install "
            f"CUDA packages of version {theirs[0]}"
        )
    return None


def _unanswered(why: str) -> str:
    """What is wrong with a driver that does not answer, in a few words."""
    if "driver library cannot be found" in why:
        return "there is no NVIDIA driver here"
    if "NO_DEVICE" in why:
        return NO_GPU
    return f"the NVIDIA driver does not answer: {why.partition('. ')[0]}"


def context() -> Any:
    """CUDA's context of this process, without which nothing is asked of the GPU or kept there."""
    from numba import cuda

    try:
        return cuda.current_context()
    except Exception as error:
        if "OUT_OF_MEMORY" not in str(error):
            raise
        raise ValueError(
            "the GPU's memory must have room for CUDA itself; other processes hold it"
        ) from error


def free_memory() -> tuple[int, int]:
    """Bytes of the GPU's memory that are free, and all of them."""
    memory = context().get_memory_info()
    return memory.free, memory.total


def own_memory() -> int:
    """Bytes of the GPU's memory that arrays of this process take."""
    if SIMULATED:
        return 0
    arrays = getattr(context().memory_manager, "allocations", {})  # others' managers may not say
    return sum(one.size for one in arrays.values())


@functools.cache
def limits() -> Limits:
    """Those of the present device."""
    if SIMULATED:
        return Limits(2, shared=2**16, threads=64, registers=2**16, block_shared=2**16, block_threads=32)
    device = context().device
    return Limits(
        multiprocessors=device.MULTIPROCESSOR_COUNT,
        shared=device.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        threads=device.MAX_THREADS_PER_MULTIPROCESSOR,
        registers=device.MAX_REGISTERS_PER_MULTIPROCESSOR,
        block_shared=device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        block_threads=device.MAX_THREADS_PER_BLOCK,
    )


def grid(items: int, threads: int = 128) -> tuple[int, int]:
    """How many blocks, and threads of each, take an item per thread."""
    threads = min(threads, limits().block_threads)
    return -(-items // threads), threads


class DeviceKernel:
    """A kernel for the GPU, compiled when it is first launched, for arguments of just those types.

    Machine code is kept on disk, as that of the cpu engine is. ``known`` is what else the function was made
    for.
    """

    def __init__(
        self, function: Callable[..., None], build: DeviceBuild = DOUBLE, known: Any = (), **options: Any
    ) -> None:
        from numba import cuda
        from numba.cuda.core import config

        config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # of what users do not choose
        self.build, self.allowed = build, STATIC_SHARED
        self.name = f"{function.__name__} {known} {build.single} {options}"
        more: dict[str, Any] = {} if SIMULATED else {"lto": False, **options}
        self.dispatcher: Any = cuda.jit(in_single(function) if build.single else function, **more)
        self.kernel: Any = None  # of the CUDA driver
        self.sent: list[tuple[Any, list[Any]]] = []

    def launch(self, blocks: int, threads: int, shared: int, *arguments: Any) -> None:
        """Run ``blocks`` of ``threads`` threads, each block with ``shared`` bytes of memory."""
        if SIMULATED:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's about what wraps around
                self.dispatcher[blocks, threads, 0, shared](*arguments)
            return
        if self.kernel is None:
            self.kernel = self._machine_code(tuple(map(self.dispatcher.typeof_pyval, arguments)))
        if shared > self.allowed:
            self._allow(shared)
        from cuda.core import LaunchConfig, launch

        where = self.dispatcher[blocks, threads, 0, shared]
        size = LaunchConfig(grid=where.griddim, block=where.blockdim, shmem_size=shared)
        launch(where.stream, size, self.kernel, *self._flat(arguments))

    def forget(self) -> None:
        """Let go of the arguments of the last launch, and of their memory on the GPU."""
        self.sent.clear()

    def _machine_code(self, types: tuple[Any, ...]) -> Any:
        """The kernel for arguments of some types: kept from before, or compiled now and kept."""
        from cuda.core import ObjectCode

        path = kept_at(f"{self.name} {types}")
        if path is not None and path.exists():
            content = path.read_bytes()
            if sealed(content[:-SEAL_LENGTH]) == content:
                entry, _, code = content[:-SEAL_LENGTH].partition(b"\n")
                return ObjectCode.from_cubin(code).get_kernel(entry.decode())
        with compiling(self.build):
            library = self.dispatcher.compile(types)._codelibrary
        found = library.get_cufunc()
        if path is not None:
            with suppress(OSError):  # no room on the disk, say: the next process compiles as well
                path.parent.mkdir(parents=True, exist_ok=True)
                write(sealed(found.name.encode() + b"\n" + bytes(library.get_cubin().code)), path)
        return found.kernel

    def _flat(self, arguments: Sequence[Any]) -> Iterator[Any]:
        """The numbers and addresses in the arguments; of those of the last launch, as they were then.

        To look at every array anew takes longer than a short round.
        """
        for i, argument in enumerate(arguments):
            if i >= len(self.sent) or self.sent[i][0] is not argument:
                self.sent[i : i + 1] = [(argument, list(numbers_of(argument)))]
            yield from self.sent[i][1]

    def _allow(self, shared: int) -> None:
        """Let the kernel use more shared memory."""
        from cuda.bindings import driver
        from numba import cuda

        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        status, *_ = driver.cuKernelSetAttribute(
            attribute, shared, self.kernel.handle, cuda.get_current_device().id
        )
        if status != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"the GPU refused {shared} bytes of shared memory per block: {status.name}")
        self.allowed = shared


def numbers_of(argument: Any) -> Iterator[Any]:
    """An argument as kernels of Numba take it: of arrays, sizes and addresses; all of tuples."""
    if isinstance(argument, tuple):
        for one in argument:
            yield from numbers_of(one)
    elif hasattr(argument, "__cuda_array_interface__"):
        strides = itertools.accumulate(argument.shape[:0:-1], operator.mul, initial=argument.dtype.itemsize)
        yield from (0, 0, argument.size, argument.dtype.itemsize)
        yield argument.__cuda_array_interface__["data"][0]
        yield from (*argument.shape, *reversed(list(strides)))
    elif isinstance(argument, np.generic):
        kind: Any = argument.dtype
        yield np.ctypeslib.as_ctypes_type(kind)(argument.item())
    else:
        yield argument


def kept_at(name: str) -> Path | None:
    """Where the machine code of a kernel is kept for this GPU; None where nothing can be kept."""
    import numba
    from numba import cuda

    settings: Any = numba.config
    folder = cache_folder(settings.CACHE_DIR)
    if not folder:
        return None
    made_for = numba.__version__, version("numba-cuda"), cuda.runtime.get_version(), context().device.name
    digest = hashlib.sha256(f"{name} {made_for} {context().device.compute_capability}".encode())
    return Path(folder) / f"{digest.hexdigest()}.cubin"


@contextmanager
def compiling(build: DeviceBuild) -> Iterator[None]:
    """A context in which kernels are compiled, in float64 without fused multiplications.

    They make the numbers of the other engines then. Numba has the compiler's option, and no way to give it.
    """
    from numba.cuda import dispatcher

    module: Any = dispatcher
    before = module.compile_cuda

    def compile_cuda(*arguments: Any, nvvm_options: dict[str, Any], **options: Any) -> Any:
        return before(*arguments, nvvm_options=nvvm_options | {"fma": int(build.single)}, **options)

    module.compile_cuda = compile_cuda
    try:
        with building(build):
            yield
    finally:
        module.compile_cuda = before


def to_device(item: T) -> T:
    """Copies of the arrays of named tuples on the GPU; numbers stay as they are."""
    from numba import cuda

    copy: Any = item
    if isinstance(item, np.ndarray):
        copy = cuda.to_device(np.ascontiguousarray(item))
    elif isinstance(item, tuple):
        copy = item._make(map(to_device, item))  # type: ignore[attr-defined]
    return copy


def rounded(item: T) -> T:
    """Named tuples with their floats, and those of their arrays, as float32."""
    copy: Any = item
    if isinstance(item, float) or (isinstance(item, np.ndarray) and item.dtype == np.float64):
        copy = np.float32(item)
    elif isinstance(item, tuple):
        copy = item._make(map(rounded, item))  # type: ignore[attr-defined]
    return copy


def device_array(shape: tuple[int, ...]) -> Any:
    """Room for floats on the GPU, not filled."""
    from numba import cuda

    return cuda.device_array(shape, np.float64)


def to_host(array: Any) -> NDArray[Any]:
    """A copy in the computer's memory."""
    result: NDArray[Any] = array.copy_to_host()
    return result
