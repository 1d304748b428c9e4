"""Launching kernels: the program that fits the particles at hand, arguments, sizes of groups."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .program import CLUSTER, MASKED_ROWS, MODERATE, Programs, Variant
from .state import DeviceState

if TYPE_CHECKING:
    import pyopencl as cl

    from ...solver.model import Model


class Launcher(DeviceState):
    """A device's particles and the programs that run over them."""

    def __init__(
        self,
        model: Model,
        queue: cl.CommandQueue,
        tiles: int,
        radix_bits: int,
        vector_lanes: bool,
    ) -> None:
        super().__init__(model, queue, tiles, radix_bits)
        self.vector_lanes = vector_lanes
        self.group = 64
        self._programs = Programs(self.context, model, vector_lanes, radix_bits)
        self._body_count = 0

    @property
    def _levels(self) -> int:
        if not self._radii:
            return 1
        ratio = max(self._radii) / min(self._radii)
        return 1 + min(6, int(math.log2(ratio * 1.0001)))

    @property
    def _extent_limit(self) -> int:
        """Cells per axis at most: 64-bit keys (P004 6.2) tell 2^21, and where sizes differ levels.

        Finer levels have more cells; the last one is left out, its key means "empty".
        """
        level_bits = (self._levels - 1).bit_length()
        finest = 1 << ((64 - level_bits) // 3)
        return (finest >> (self._levels - 1)) - (level_bits > 0)

    @property
    def _list_max(self) -> int:
        """Neighbours of one cluster at most: large particles may lie among many small ones."""
        ratio = max(self._radii, default=1.0) / min(self._radii, default=1.0)
        return min(16384, 1024 * math.ceil(ratio**self.model.calibration.dimensions + 1))

    def _program(self, *, fine: bool = True, indexed: bool = False) -> dict[str, Any]:
        low, high = min(self._radii, default=1.0), max(self._radii, default=1.0)
        return self._programs.get(
            Variant(
                mixed_sizes=len(self._radii) > 1,
                levels=self._levels,
                list_max=self._list_max,
                fine=fine,
                indexed=indexed,
                masked=self._rows <= MASKED_ROWS,
                moderate=MODERATE[0] <= low and high <= MODERATE[1],
                bodies=self._body_count > 0,
            )
        )

    def _run(
        self,
        program: dict[str, Any],
        name: str,
        items: int,
        *args: Any,
        group: int = 64,
        first: int = 0,
    ) -> None:
        if items <= 0:  # PoCL divides by the number of groups
            return
        size = -(-items // group) * group
        program[name](self.queue, (size,), (group,), *args, global_offset=(first,))

    def _take(self, names: str) -> list[Any]:
        """Buffers by name."""
        return [self._buffers[name] for name in names.split()]

    def _run_lanes(self, name: str, *args: Any, begin: int = 0, end: int | None = None) -> None:
        """A pass over clusters, or some of them: a work-item each, or eight."""
        each = 1 if self.vector_lanes else CLUSTER
        items = ((self._clusters if end is None else end) - begin) * each
        self._run(self._program(), name, items, *args, group=self.group, first=begin * each)

    @property
    def _clusters(self) -> int:
        return -(-self._rows // CLUSTER)
