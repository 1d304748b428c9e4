"""Caches and surfaces with known content, written by core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from runnel.cache import Cache
from runnel.surface import Mesh, write_mesh

SCENE = {"name": "known", "fps": 24, "frames": [1, 3], "fluid": [{"name": "water"}]}


def write(folder: Path, frames: dict[int, dict[str, Any]], **scene: Any) -> Cache:
    """A cache of the given channels per frame."""
    whole = {**SCENE, "frames": [min(frames), max(frames)], **scene}
    cache = Cache.create(folder, whole, fps=whole["fps"])
    for number, arrays in frames.items():
        cache.write(number, {name: np.asarray(v) for name, v in arrays.items()}, {})
    return cache


def mover(speed: float, radius: float = 0.05) -> dict[str, Any]:
    """One particle in the origin that moves along x [m/s]."""
    return {
        "position": np.zeros((1, 3), np.float32),
        "velocity": np.array([[speed, 0, 0]], np.float32),
        "radius": np.array([radius], np.float32),
        "id": np.zeros(1, np.int64),
    }


def ball(radius: float, velocity: Any = (0, 0, 0), rings: int = 12) -> Mesh:
    """A sphere around the origin that moves."""
    around, along = np.arange(2 * rings) * np.pi / rings, np.linspace(0, np.pi, rings + 1)[1:-1]
    points = [(0, 0, -1)]
    points += [(np.sin(b) * np.cos(a), np.sin(b) * np.sin(a), -np.cos(b))
               for b in along for a in around]  # fmt: skip
    points.append((0, 0, 1))
    n, last = 2 * rings, len(points) - 1
    faces = [(0, 1 + (k + 1) % n, 1 + k) for k in range(n)]
    for ring in range(rings - 2):
        low, high = 1 + ring * n, 1 + (ring + 1) * n
        for k in range(n):
            m = (k + 1) % n
            faces += [(low + k, low + m, high + m), (low + k, high + m, high + k)]
    top = 1 + (rings - 2) * n
    faces += [(last, top + k, top + (k + 1) % n) for k in range(n)]
    vertices = radius * np.array(points, np.float32)
    moving = np.tile(np.array(velocity, np.float32), (len(vertices), 1))
    return Mesh(vertices, np.array(faces, np.int32), {"velocity": moving})


def surface(cache: Cache, frame: int, mesh: Mesh, name: str = "surface") -> Path:
    """Put a surface where `runnel mesh` would."""
    path = cache.directory / "mesh" / f"{name}_{frame:06d}.ply"
    write_mesh(path, mesh)
    return path
