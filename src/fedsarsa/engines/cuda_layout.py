"""How federations are laid out in blocks of threads."""

import itertools

import numpy as np
from numpy.typing import NDArray

from fedsarsa.engines.cuda_arrays import Blocks
from fedsarsa.engines.cuda_device import Limits

WARP = 32  # threads that run together
RESERVED = 1024  # bytes of shared memory that each block costs besides its own
MOST_BLOCKS = 32  # that a multiprocessor runs at a time
MOST_FEDERATIONS = 64  # of a block: each is another one to average
LARGEST = 256  # threads of a block: more of them wait longer for each other


def fits(limits: Limits, bytes_each: int) -> bool:
    """Whether a warp's threads, with so much shared memory each, fit into a block."""
    return bytes_each * WARP + RESERVED <= limits.block_shared


def whole_blocks(agents: NDArray[np.int64], threads: int) -> Blocks:
    """Whole federations in blocks of ``threads``, where neighbours in ``agents`` (F,) are of one size."""
    edges = np.flatnonzero(np.diff(agents, prepend=-1, append=-1))
    first, count, size = [], [], []
    for low, high in itertools.pairwise(edges.tolist()):
        most = min(threads // int(agents[low]), MOST_FEDERATIONS)
        for begin in range(low, high, most):
            first.append(begin)
            count.append(min(most, high - begin))
            size.append(agents[low])
    return Blocks(*(np.array(one, np.uint64) for one in (first, count, np.zeros_like(first), size)))


def split_blocks(agents: NDArray[np.int64], threads: int) -> tuple[Blocks, NDArray[np.uint64]]:
    """Federations in blocks of at most ``threads`` agents of one; the first block (F + 1,) of each."""
    each = -(-agents // threads)
    owned = np.cumsum([0, *each])
    first = np.repeat(np.arange(len(agents)), each)
    begin = (np.arange(owned[-1]) - owned[first]) * threads
    size = np.minimum(agents[first] - begin, threads)
    blocks = Blocks(*(np.array(one, np.uint64) for one in (first, np.ones_like(first), begin, size)))
    return blocks, owned.astype(np.uint64)


def at_once(limits: Limits, shared: int, registers: int, threads: int) -> int:
    """How many blocks of ``threads``, with bytes of memory and registers a thread, a multiprocessor runs."""
    return min(
        limits.shared // (shared + RESERVED),
        limits.registers // (registers * threads),
        limits.threads // threads,
        MOST_BLOCKS,
    )


def widest(limits: Limits, bytes_each: int) -> int:
    """The most threads of a block that have so much shared memory each."""
    most = min((limits.block_shared - RESERVED) // bytes_each, limits.block_threads, LARGEST)
    return most // WARP * WARP


def threads_for(
    limits: Limits, bytes_each: int, registers: int, agents: NDArray[np.int64], whole: bool = False
) -> int:
    """Threads of a block: those with which the busiest multiprocessor has the fewest to run.

    If federations must be ``whole``, they are at least as many as the agents of any.
    """

    def cost(threads: int) -> tuple[float, int]:
        resident = at_once(limits, bytes_each * threads, registers, threads)
        sizes, counts = np.unique(agents, return_counts=True)
        apart = np.where(sizes > threads, counts * -(-sizes // threads), 0)
        packed = np.where(sizes <= threads, -(-counts // np.clip(threads // sizes, 1, MOST_FEDERATIONS)), 0)
        blocks = int((apart + packed).sum())
        busiest = -(-blocks // limits.multiprocessors)
        waves = -(-busiest // max(resident, 1))
        return (busiest if waves == 1 else waves * resident) * threads, -threads

    fewest = -(-int(agents.max()) // WARP) * WARP if whole else WARP
    return min(range(fewest, widest(limits, bytes_each) + 1, WARP), key=cost)
