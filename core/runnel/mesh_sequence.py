"""A deforming mesh: a file a frame, walk_####.obj; #### stands for the number of the frame."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .meshes import Mesh, read_mesh
from .motion import frame_at
from .params import MeshFile
from .scene import Scene

Floats = NDArray[np.float64]


@dataclass
class _Cached:
    number: int
    mesh: Mesh


class MeshSequence:
    """The files of a sequence. Only those around the present are kept."""

    def __init__(self, scene: Scene, shape: MeshFile) -> None:
        self._scene, self._shape = scene, shape
        numbers = scene.mesh_frames(shape)
        self.first, self.last = numbers[0], numbers[-1]
        self.of_level_sets = shape.file.lower().endswith(".vdb")
        self._kept: list[_Cached] = []

    def place(self, time: float) -> float:
        """Frame at a time [s], between frames too; the ends of the sequence stand still."""
        return min(max(frame_at(time, self._scene), self.first), self.last)

    def mesh(self, number: int) -> Mesh:
        for cached in self._kept:
            if cached.number == number:
                return cached.mesh
        mesh = read_mesh(self._scene.mesh_path(self._shape, number))
        self._kept = [*self._kept[-2:], _Cached(number, mesh)]
        return mesh

    def _number(self, time: float) -> int:
        return math.ceil(self.place(time) - 1e-6)

    def path(self, time: float) -> Path:
        """The file that a time [s] leads to."""
        return self._scene.mesh_path(self._shape, self._number(time))

    def at(self, time: float) -> Mesh:
        """The mesh at a time [s]: vertices move evenly from file to file. Where these do not have
        as many, it is that of the frame to come."""
        after = self._number(time)
        now, before = self.mesh(after), self.mesh(max(after - 1, self.first))
        if len(before.vertices) != len(now.vertices):
            return now
        share = 1.0 - (after - self.place(time))
        return Mesh(before.vertices + share * (now.vertices - before.vertices), now.triangles)

    def stretch(self, time: float, ahead: float) -> Floats:
        """How the mesh moves as a whole from a time on, measured over `ahead` [s]: (4, 3), where
        the velocity of a place is (x, y, z, 1) times that. Shifts, turns, sizes and shears are
        exact, what bends is the nearest of these."""
        now, soon = self.at(time).vertices, self.at(time + ahead).vertices
        if len(now) != len(soon):
            return np.zeros((4, 3))
        centre = now.mean(axis=0)
        places = np.column_stack([now - centre, np.ones(len(now))])
        fit: Floats = np.linalg.lstsq(places, (soon - now) / ahead, rcond=None)[0]
        fit[3] -= centre @ fit[:3]
        return fit
