"""The end of a round on the GPU for federations that many blocks of threads have: one block settles each."""

import math
from functools import cache
from typing import Any

import numpy as np
from numba import cuda, types

from fedsarsa._numba import U64
from fedsarsa.engines.arrays import Span
from fedsarsa.engines.compiled_server import project
from fedsarsa.engines.cuda_arrays import ONE, RUNS, Cells, Federations, Records
from fedsarsa.engines.cuda_device import DeviceKernel, grid
from fedsarsa.engines.cuda_pieces import real_of

THREADS = 1024  # of a block that settles


def settling() -> tuple[int, int]:
    """The threads of a block that settles a federation, and its shared memory."""
    _, threads = grid(1, THREADS)
    return threads, 3 * threads * np.dtype(np.float64).itemsize


@cache
def settle_kernel(averaged: bool, single: bool = False) -> DeviceKernel:
    """Average what the blocks of each federation have summed up, project and record.

    ``owned`` (F + 1,) are the places of every federation's first blocks in ``records.parts``, whose first one
    is worked in. The drift is the mean squared distance from the round's start, less that of the mean.
    """

    def settle(
        cells: Cells,
        federations: Federations,
        owned: Any,
        span: Span,
        k: int,
        projects: bool,
        due: bool,
        place: int,
        records: Records,
    ) -> None:
        room = cuda.shared.array(0, types.float64)
        federation, thread, threads = U64(cuda.blockIdx.x), U64(cuda.threadIdx.x), U64(cuda.blockDim.x)
        c, first, last = federations.cell[federation], owned[federation], owned[federation + ONE]
        parts, own = records.parts, federations.central[federation]
        dim = U64(len(own))
        width = min(dim, threads)
        share, lead = threads // width, thread % width
        part = thread // width
        begun, end = span.begun + k * span.steps, span.t + (k + ONE) * span.steps
        for start in range(U64(0), dim, width):
            j = start + lead
            for row in range(U64(3)):
                total = 0.0
                if part < share and j < dim:
                    for block in range(first + part, last, share):
                        total += parts[block, row, j]
                room[row * threads + thread] = total
            cuda.syncthreads()
            if part == 0 and j < dim:
                for row in range(U64(3)):
                    total = 0.0
                    for q in range(share):
                        total += room[row * threads + q * width + lead]
                    parts[first, row, j] = total
                mean = parts[first, U64(0), j]
                parts[first, U64(1), j] -= (mean - own[j]) ** 2
                if averaged and federations.failed_at[federation] == RUNS:
                    weight = real_of(end - begun) * (
                        cells.offset[c] + real_of(begun) + 0.5 * real_of(end - begun - ONE)
                    )
                    federations.weighted_sum[federation, j] += weight * own[j] + parts[first, U64(2), j]
                if not math.isfinite(mean):
                    cuda.atomic.min(federations.failed_at, federation, end - ONE)
            cuda.syncthreads()
        running = federations.failed_at[federation] == RUNS
        if thread == 0:
            drift = 0.0
            for j in range(dim):
                drift += parts[first, U64(1), j]
            if due:
                records.drift[federation, place] = max(drift, 0.0) if running else math.nan
            if projects:
                project(parts[first, U64(0)], cells.radius[c])
        cuda.syncthreads()
        for j in range(thread, dim, threads):
            kept = parts[first, U64(0), j] if running else math.nan
            own[j] = kept
            if due:
                records.central[federation, place, j] = kept

    return DeviceKernel(settle, known=(averaged, single), max_registers=64)
