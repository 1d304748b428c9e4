"""Particles that are where none should be: inside of solids, or outside of containers."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from .colliders import Solids
from .estimate import distances
from .motion import frame_time
from .params import MeshFile
from .scene import Scene

_CHUNK = 1 << 18  # particles looked at together


class Leaks:
    """Counts them, frame by frame. Solids that deform and bodies that the fluid moves are left out;
    of a shell, both sides of which are free, only what is within its walls is seen. The report page
    says so: report.uncounted."""

    def __init__(self, scene: Scene) -> None:
        kept = [
            c for c in scene.colliders if c.body in ("static", "animated") and not _deforms(c.shape)
        ]
        self._scene = dataclasses.replace(scene, colliders=tuple(kept))
        self._solids = Solids(self._scene)

    def count(self, frame: int, position: NDArray[np.float32], radius: NDArray[np.float32]) -> int:
        """Particles whose middle lies deeper than their radius in a solid."""
        rows = self._solids.rows(frame_time(frame, self._scene), 0.0)
        total = 0
        for start in range(0, len(position), _CHUNK):
            points = position[start : start + _CHUNK].astype(np.float64)
            limit = radius[start : start + _CHUNK]
            deep = np.zeros(len(points), np.bool_)
            for row in rows:
                away = distances(row, points, self._solids.fields)
                # Walls on both sides of a surface, for a shell of no mesh.
                away = np.abs(away) - row[28] if row[28] > 0 else row[1] * away
                deep |= away < -limit
            total += int(deep.sum())
        return total


def _deforms(shape: object) -> bool:
    return isinstance(shape, MeshFile) and shape.is_sequence
