# SPDX-License-Identifier: GPL-3.0-or-later
"""What an object does over the frames: it stands still, moves as a whole, or deforms."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import bpy
import numpy as np
from mathutils import Euler, Matrix

from runnel.meshes import is_flat, slab
from runnel.motion import without_rests

from . import meshes, properties, roles, takes
from .meshes import Piece, Sequence

_SAME = 1e-6  # of matrices: float32 in Blender
_RIGID = 1e-4


class Track:
    """What one object does over the frames."""

    def __init__(
        self, obj: bpy.types.Object, folder: Path, metres: float, thickness: float = 0.0
    ) -> None:
        """thickness [m]: of the slab that a flat emitter becomes."""
        self.name, self.role = obj.name, obj.runnel.role
        self.part = roles.part_name(obj)
        self.metres = metres
        self._folder, self._thickness = folder, thickness
        self._passes_on = obj.runnel.source.inherit_velocity > 0
        self._pieces: list[Piece] = []
        self.poses: dict[int, np.ndarray] = {}  # frame -> world motion since the first frame
        self._frames: dict[int, np.ndarray] = {}  # frame -> place and turn of the object
        self._sequence: Sequence | None = None
        self.deforms = False
        self.bends = False  # deforms, but counts as it is at the first frame
        self._flat = False
        self.first_matrix = np.eye(4)

    @property
    def empty(self) -> bool:
        return not self._pieces

    @property
    def moves(self) -> bool:
        return not self.deforms and any(not _equal(pose, np.eye(4)) for pose in self.poses.values())

    def piece(self, key: tuple[Any, ...]) -> Piece | None:
        """A piece as it was at the first frame."""
        return next((piece for piece in self._pieces if piece.key == key), None)

    def world(self) -> meshes.World:
        """At the first frame, in Blender's units."""
        return meshes.joined(self._pieces)

    def see(self, frame: int, pieces: list[Piece], matrix: np.ndarray) -> None:
        """The object at a frame; the first one seen sets what others are compared with."""
        self._frames[frame] = _unscaled(matrix)
        if not self.poses:
            self._pieces, self.first_matrix = pieces, matrix
            self._flat = self.role == "EMITTER" and self._is_flat()
            self.poses[frame] = np.eye(4)
            return
        if self._sequence is None:
            pose = _motion(self._pieces, pieces)
            if pose is not None:
                self.poses[frame] = pose
                return
            if self.role in ("COLLIDER", "SINK", "EMITTER") or (
                self.role == "FLUID" and self._passes_on
            ):
                self._begin_sequence()
        if self._sequence is not None:
            self._sequence.add(frame, self._ply(pieces, frame))
        else:
            self.bends = True
            self.poses[frame] = np.eye(4)  # volumes and bodies count as they are at the start

    def _is_flat(self) -> bool:
        if len(self._pieces) == 1:  # its own vertices: what grows may begin as a point
            return is_flat(self._pieces[0].vertices.astype(np.float64))
        return bool(self._pieces) and is_flat(self.world().vertices)

    def _begin_sequence(self) -> None:
        self.deforms = True
        self._sequence = Sequence(self._folder / "meshes", takes.file_name(self.part))
        for frame, pose in self.poses.items():
            moved = [
                Piece(p.key, pose @ p.matrix, p.vertices, p.triangles, p.attributes)
                for p in self._pieces
            ]
            self._sequence.add(frame, self._ply(moved, frame))

    def _ply(self, pieces: list[Piece], frame: int) -> bytes:
        """In the world; of an emitter that deforms in its object's frame, so that its stream turns
        with the object."""
        world = meshes.joined(pieces)
        vertices = world.vertices
        if self.role == "EMITTER":
            place = self._frames[frame]
            vertices = (vertices - place[:3, 3]) @ place[:3, :3]
        return self._bytes(vertices, world)

    def _bytes(self, vertices: np.ndarray, world: meshes.World) -> bytes:
        places, triangles = vertices * self.metres, world.triangles
        if self._flat:
            places, triangles = slab(places, triangles, self._thickness)
        return meshes.ply_bytes(places, triangles, {} if self._flat else world.attributes)

    def shape(self) -> dict[str, Any]:
        """Keys of core's part: shape, and motion where it moves as a whole."""
        if self._sequence is not None:
            file = self._sequence.close()
            self._sequence = None
            found: dict[str, Any] = {"shape": {"mesh": f"meshes/{file}"}}
            if self.role == "EMITTER":
                found["motion"] = self._keyframes(self._frames, np.zeros(3))
            return found
        world = self.world()
        origin = self.first_matrix[:3, 3] if self.moves else np.zeros(3)
        data = self._bytes(world.vertices - origin, world)
        file = meshes.keep(self._folder / "meshes", takes.file_name(self.part), data)
        found = {"shape": {"mesh": f"meshes/{file}"}}
        if self.moves:
            found["motion"] = self._keyframes(self.poses, origin)
        return found

    def _keyframes(self, poses: dict[int, np.ndarray], origin: np.ndarray) -> list[dict[str, Any]]:
        """A keyframe a frame, of where `origin` goes; those within a rest are left out."""
        keys, turn = [], Euler()
        for frame, pose in sorted(poses.items()):
            place = (pose[:3, :3] @ origin + pose[:3, 3]) * self.metres
            # Near the angles before: core goes evenly from 179 to 181 degrees, and so it should.
            turn = Matrix(pose[:3, :3].tolist()).to_euler("XYZ", turn)
            keys.append(
                {
                    "frame": frame,
                    "position": [properties.rounded(v) for v in place],
                    "rotation": [round(math.degrees(v), 5) + 0.0 for v in turn],
                }
            )
        kept = without_rests(keys)
        if self.role == "RIGID":  # free once its own motion is over
            while len(kept) > 2 and {**kept[-2], "frame": 0} == {**kept[-1], "frame": 0}:
                kept.pop()
        return kept

    def close(self) -> None:
        if self._sequence is not None:
            self._sequence.drop()


def rotation(matrix: np.ndarray) -> np.ndarray:
    """The turn of an object, without scale and shear."""
    return np.array(Matrix(matrix.tolist()).to_quaternion().to_matrix(), np.float64)


def _unscaled(matrix: np.ndarray) -> np.ndarray:
    """Where an object is and how it is turned."""
    found = matrix.copy()
    found[:3, :3] = rotation(matrix)
    return found


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.allclose(a, b, rtol=_SAME, atol=_SAME))


def _motion(first: list[Piece], now: list[Piece]) -> np.ndarray | None:
    """The rigid motion that leads from the first pieces to those of now; None: none does."""
    if len(first) != len(now) or not first:
        return np.eye(4) if len(first) == len(now) else None
    for a, b in zip(first, now, strict=True):
        if a.key != b.key or not a.same_shape(b):
            return None
    if all(_equal(a.matrix, b.matrix) for a, b in zip(first, now, strict=True)):
        return np.eye(4)
    if abs(np.linalg.det(first[0].matrix[:3, :3])) < 1e-12:
        return None
    pose = now[0].matrix @ np.linalg.inv(first[0].matrix)
    turn = pose[:3, :3]
    if not np.allclose(turn @ turn.T, np.eye(3), atol=_RIGID) or np.linalg.det(turn) < 0:
        return None
    size = 1.0 + max(float(np.abs(p.matrix).max()) for p in now)
    for a, b in zip(first, now, strict=True):
        if not np.allclose(pose @ a.matrix, b.matrix, atol=_RIGID * size):
            return None
    # Exactly a rotation, so that the angles core gets are those of it.
    u, _, v = np.linalg.svd(turn)
    pose[:3, :3] = u @ v
    pose[:3, 3] = now[0].matrix[:3, 3] - pose[:3, :3] @ first[0].matrix[:3, 3]
    return pose
