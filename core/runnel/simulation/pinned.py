"""Memory that the device reaches without a copy, or copies at full speed (P004 section 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..particles import PAGE

if TYPE_CHECKING:
    import pyopencl as cl


class PinnedAllocator:
    """Buffers in host memory that the driver keeps in place, seen as arrays.

    The array keeps its mapping, and the mapping the buffer: both go with the last reference.
    """

    def __init__(self, queue: cl.CommandQueue) -> None:
        self._queue = queue

    def allocate(self, nbytes: int) -> NDArray[np.uint8]:
        import pyopencl as cl

        size = nbytes + PAGE
        try:
            buffer = cl.Buffer(
                self._queue.context, cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR, size
            )
            both = cl.map_flags.READ | cl.map_flags.WRITE
            # The stubs know neither combined flags nor numpy's scalar types.
            raw, _ = cl.enqueue_map_buffer(
                self._queue,
                buffer,
                both,  # type: ignore[arg-type]
                0,
                (size,),
                np.dtype(np.uint8),
            )
        except (cl.MemoryError, cl.RuntimeError) as error:
            raise MemoryError(str(error)) from error
        start = -raw.ctypes.data % PAGE
        pinned: NDArray[np.uint8] = raw[start : start + nbytes]
        return pinned
