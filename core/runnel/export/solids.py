"""Colliders and bodies that a run kept beside its frames, in the units and axes of the files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cache import Cache
from ..errors import CacheError, RunnelError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Solid:
    """A mesh in its own frame, and where that is; of one that deforms the frame is the world."""

    name: str
    vertices: NDArray[np.float32]
    triangles: NDArray[np.int32]
    pose: Floats  # (3, 4): to the world
    deforms: bool

    @property
    def placed(self) -> NDArray[np.float32]:
        """Vertices in the world."""
        world = self.vertices.astype(np.float64) @ self.pose[:, :3].T + self.pose[:, 3]
        return world.astype(np.float32)


def find_solids(cache: Cache, number: int, turn: Floats, scale: float) -> list[Solid]:
    """All solids of a frame."""
    kept = cache.solids()
    if not kept and cache.scene.get("collider"):
        raise RunnelError(
            f"{cache.directory}: holds no meshes of its colliders; simulate again with this "
            "Runnel, or export without --colliders."
        )
    report = cache.entry(number).report.get("poses")
    found = []
    for index in cache.solids(number):
        name, vertices, triangles, deforms = cache.read_solid(index, number)
        pose = np.eye(3, 4) if deforms else _pose(cache, report, name)
        if pose is None:
            continue  # not there at this frame, as before a branch that added it
        turned = np.concatenate([turn @ pose[:, :3] @ turn.T, scale * turn @ pose[:, 3:]], axis=1)
        local = (scale * vertices.astype(np.float64) @ turn.T).astype(np.float32)
        found.append(Solid(name, local, triangles, turned, deforms))
    return found


def _pose(cache: Cache, report: Any, name: str) -> Floats | None:
    numbers = report.get(name) if isinstance(report, dict) else None
    if numbers is None:
        return None
    try:
        pose = np.array(numbers, np.float64).reshape(3, 4)
    except (ValueError, TypeError):
        pose = np.full((3, 4), np.nan)
    if not np.isfinite(pose).all():
        raise CacheError(f"{cache.directory}: the pose of {name!r} is no matrix of 3 x 4 numbers.")
    return pose
