"""Colliders and bodies as meshes over time, for a cache to keep and exporters to hand on.

A solid is a mesh in its own frame and a pose per frame; one that deforms has a mesh per frame and
no pose. Bodies that the simulation moves give their poses or meshes; those of colliders come from
the scene.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .collider_fields import mesh_bounds
from .meshes import Mesh, read_mesh
from .motion import Pose, frame_time, motion_of
from .params import Box, Collider, Cylinder, MeshFile, Plane, PointFile, Source, Sphere
from .scene import Scene
from .shapes import shape_of, world_bounds

Floats = NDArray[np.float64]

_AROUND, _ALONG = 48, 24  # pieces of a circle, and from pole to pole
_PLANE = 4.0  # a plane is drawn so much larger than what the scene holds


@dataclass(frozen=True)
class Solid:
    """A collider of a scene, as others see it."""

    index: int  # in the scene
    name: str
    deforms: bool
    mesh: Mesh | None  # in its own frame; None: it deforms


def solids_of(scene: Scene) -> list[Solid]:
    """All colliders as meshes; level sets from files by their surface."""
    found = []
    for index, collider in enumerate(scene.colliders):
        shape, name = collider.shape, collider.name or f"collider_{index}"
        if isinstance(shape, MeshFile):
            deforms = shape.is_sequence or collider.body == "deformable"
            still = None if deforms else _read(scene.mesh_path(shape))
            found.append(Solid(index, name, deforms, still))
        elif not isinstance(shape, PointFile):
            found.append(Solid(index, name, False, _drawn(scene, shape)))
    return found


def _read(path: Path) -> Mesh:
    if path.suffix.lower() != ".vdb":
        return read_mesh(path)
    from .fields.vdb import read_surface

    return read_surface(path)


def deformed(scene: Scene, solid: Solid, frame: int) -> Mesh:
    """The mesh of a deforming solid at a frame, in the world."""
    shape = scene.colliders[solid.index].shape
    assert isinstance(shape, MeshFile)
    numbers = scene.mesh_frames(shape)
    nearest = min(max(frame, numbers[0]), numbers[-1])
    mesh = _read(scene.mesh_path(shape, nearest))
    pose = _pose(scene, scene.colliders[solid.index], frame)
    return Mesh(pose.to_world(mesh.vertices), mesh.triangles)


def poses(
    scene: Scene, solids: list[Solid], frame: int, bodies: Mapping[str, Pose]
) -> dict[str, list[float]]:
    """Poses of solids at a frame, as rows of a 3 x 4 matrix; `bodies` go before the scene's."""
    found = {}
    for solid in solids:
        if not solid.deforms:
            pose = bodies.get(solid.name) or _pose(scene, scene.colliders[solid.index], frame)
            matrix = np.concatenate([pose.scale * pose.rotation, pose.translation[:, None]], axis=1)
            found[solid.name] = matrix.ravel().tolist()
    return found


def _pose(scene: Scene, collider: Collider, frame: int) -> Pose:
    return motion_of(collider, scene).pose(frame_time(frame, scene))


# --- drawing ------------------------------------------------------------------------------------


def _drawn(scene: Scene, shape: Box | Sphere | Cylinder | Plane) -> Mesh:
    if isinstance(shape, Box):
        corners = np.array([[(shape.min, shape.max)[c >> 2 - k & 1][k] for k in range(3)]
                            for c in range(8)])  # fmt: skip
        faces = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
        return Mesh(corners, np.array([t for a, b, c, d in faces for t in ((a, b, c), (a, c, d))],
                                      np.int32))  # fmt: skip
    if isinstance(shape, Sphere):
        return _ball(shape.center, shape.radius)
    if isinstance(shape, Cylinder):
        start, end = np.array(shape.start), np.array(shape.end)
        return _lathe(start, end - start, [(0.0, 0.0), (shape.radius, 0.0), (shape.radius, 1.0),
                                           (0.0, 1.0)])  # fmt: skip
    return _sheet(scene, shape)


def _ball(center: ArrayLike, radius: float) -> Mesh:
    angles = np.linspace(0, math.pi, _ALONG + 1)
    profile = [(radius * math.sin(a), -math.cos(a)) for a in angles]
    profile[0], profile[-1] = (0.0, -1.0), (0.0, 1.0)
    return _lathe(np.asarray(center, np.float64), np.array([0.0, 0.0, radius]), profile)


def _lathe(origin: Floats, axis: Floats, profile: list[tuple[float, float]]) -> Mesh:
    """A profile (distance from the axis, place along it) turned round; its ends are on the axis."""
    u, v = _across(axis / np.linalg.norm(axis))
    turn = 2 * math.pi * np.arange(_AROUND) / _AROUND
    circle = np.cos(turn)[:, None] * u + np.sin(turn)[:, None] * v
    rings = [origin + along * axis + away * circle for away, along in profile[1:-1]]
    first, last = (origin + profile[k][1] * axis for k in (0, -1))
    vertices = np.concatenate([*rings, first[None], last[None]])
    here = np.arange(_AROUND)
    there = (here + 1) % _AROUND
    bottom, top = len(vertices) - 2, len(vertices) - 1
    triangles = [np.stack([np.full(_AROUND, bottom), there, here], 1)]
    for ring in range(len(rings) - 1):
        low, high = ring * _AROUND, (ring + 1) * _AROUND
        triangles.append(np.stack([low + here, low + there, high + there], 1))
        triangles.append(np.stack([low + here, high + there, high + here], 1))
    final = (len(rings) - 1) * _AROUND
    triangles.append(np.stack([np.full(_AROUND, top), final + here, final + there], 1))
    return Mesh(vertices, np.concatenate(triangles).astype(np.int32))


def _sheet(scene: Scene, plane: Plane) -> Mesh:
    """A square of a plane, below all that the scene holds."""
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    parts: list[Source | Collider] = [*scene.sources]
    parts += [c for c in scene.colliders if not isinstance(c.shape, Plane)]
    for part in parts:
        pose = motion_of(part, scene).pose(0.0)
        if isinstance(part.shape, MeshFile):  # open ones too
            ends = mesh_bounds(scene, part.shape)
            if ends is None:
                continue
            corners = pose.to_world([[ends[c >> k & 1][k] for k in range(3)] for c in range(8)])
            a, b = corners.min(axis=0), corners.max(axis=0)
        else:
            a, b = world_bounds(shape_of(part.shape, scene.directory), pose)
        low, high = np.minimum(low, a), np.maximum(high, b)
    known = bool(np.isfinite(low).all() and np.isfinite(high).all())
    middle = (low + high) / 2 if known else np.array(plane.point)
    half = _PLANE / 2 * float(np.linalg.norm(high - low)) if known else 10.0
    normal = np.array(plane.normal, np.float64)
    normal = normal / np.linalg.norm(normal)
    foot = middle - normal * float((middle - np.array(plane.point)) @ normal)
    u, v = _across(normal)
    square = [foot + half * (a * u + b * v) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    return Mesh(np.array(square), np.array([[0, 1, 2], [0, 2, 3]], np.int32))


def _across(axis: Floats) -> tuple[Floats, Floats]:
    """Two unit vectors so that u, v and the axis make a right-handed frame."""
    other = np.zeros(3)
    other[int(np.argmin(np.abs(axis)))] = 1.0
    u: Floats = np.cross(other, axis)
    u /= np.linalg.norm(u)
    return u, np.cross(axis, u)
