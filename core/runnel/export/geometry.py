"""Houdini geometry in memory: attributes of points, vertices, primitives and the whole; groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Attributes = dict[str, Array]  # (n,) or (n, width); texts as arrays of objects
Groups = dict[str, NDArray[np.bool_]]


def _no_corners() -> NDArray[np.int32]:
    return np.zeros(0, np.int32)


@dataclass
class Geometry:
    """What a .bgeo file holds, as far as Runnel knows it.

    Corner k of polygon p is point `corners[starts[p] + k]`. Seen from outside, corners run
    clockwise, as Houdini has it.
    """

    count: int  # points
    points: Attributes = field(default_factory=dict)
    vertices: Attributes = field(default_factory=dict)
    primitives: Attributes = field(default_factory=dict)
    detail: Attributes = field(default_factory=dict)  # one row each
    point_groups: Groups = field(default_factory=dict)
    primitive_groups: Groups = field(default_factory=dict)
    corners: NDArray[np.int32] = field(default_factory=_no_corners)
    starts: NDArray[np.int32] = field(default_factory=_no_corners)  # of polygons, in corners
    sizes: NDArray[np.int32] = field(default_factory=_no_corners)  # corners of polygons
    software: str = ""
    other_primitives: int = 0  # read over: curves, volumes and what else there is

    def polygon(self, number: int) -> NDArray[np.int32]:
        """Points of a polygon."""
        start = int(self.starts[number])
        return self.corners[start : start + int(self.sizes[number])]
