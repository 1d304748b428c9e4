"""Colliders of a scene as things to look at: solids to trace, and edges to draw as lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import RunnelError
from ..meshes import Mesh
from ..motion import Motion, Pose
from ..params import Keyframe, Vec3

Array = NDArray[np.float64]

_ORIGIN = (0.0, 0.0, 0.0)

# kind; sizes 1:4; rotation world -> local 4:13; origin 13:16; 19 opacity
# of a triangle: kind; corners 1:10; their normals 10:19; 19 opacity
SOLID_COLUMNS = 20
_KINDS = {"sphere": 0, "box": 1, "cylinder": 2}
TRIANGLE = 3
_CREASE = 0.5  # cosine between triangles that are not smoothed into each other
_CIRCLE = 48  # segments


@dataclass(frozen=True)
class _Placed:
    """As motion.Placed wants it."""

    position: Vec3
    rotation: Vec3
    scale: float
    motion: tuple[Keyframe, ...]


_FAR = 1e9  # [m]


@dataclass
class Props:
    """What stands beside the fluid at one frame."""

    solids: list[Array] = field(default_factory=list)
    lines: list[Array] = field(default_factory=list)  # (k, 2, 3) ends of segments [m]
    floor: float | None = None  # height of a horizontal plane or of a container's bottom [m]
    low: list[Array] = field(default_factory=list)  # corners of everything with an end
    high: list[Array] = field(default_factory=list)


def gather(
    scene: Mapping[str, Any],
    frame: float,
    bounds: tuple[Array, Array],
    glass: tuple[str, ...] = (),
) -> Props:
    """Props of a scene given as plain dicts; `bounds` limit what has no end.

    Meshes are those that colliders hold as "still" or "deformed" (with_bodies). glass: names of
    meshes that are seen through.
    """
    props, up = Props(), 1 if scene.get("up") == "y" else 2
    planes, bottoms = [], []
    for collider in scene.get("collider", ()):
        pose, name = _pose(collider, frame), collider.get("name", "")
        _check_place(pose, name)
        for kind, shape in collider.get("shape", {}).items():
            if kind == "plane":
                planes += _plane(props, shape, pose, up, bounds)
            elif kind == "mesh":
                _mesh(props, collider, pose, name in glass)
            elif kind in _KINDS:
                solid = _solid(kind, shape, pose)
                low, high = _extent(solid)
                props.low.append(low)
                props.high.append(high)
                if collider.get("mode", "outside") == "outside":
                    props.solids.append(solid)
                else:
                    props.lines.append(_outline(solid))
                    bottoms.append(float(low[up]))
    domain = scene.get("domain") or {}
    if domain.get("mode") == "close" and domain.get("min") and domain.get("max"):
        props.lines.append(_outline(_solid("box", domain, Pose())))
        bottoms.append(float(domain["min"][up]))
    if planes:
        props.floor = max(planes)
    elif bottoms:
        # What has spilled lies lower than every container.
        lowest, slack = bounds[0][up], 0.05 * (bounds[1][up] - bounds[0][up])
        props.floor = min(bottoms) if lowest > min(bottoms) - slack else float(lowest)
    return props


def _check_place(pose: Pose, name: str) -> None:
    """Where a body is comes from a file; rays that miss numbers would never end."""
    numbers = np.concatenate([pose.rotation.ravel(), pose.translation, [pose.scale]])
    if not (np.abs(numbers) < _FAR).all():
        raise RunnelError(
            f"collider {name!r} has no place that could be drawn: its numbers in the cache are not "
            "finite, or absurd. `runnel info` tells whether the cache is as it was written."
        )


def with_bodies(
    scene: Mapping[str, Any],
    report: Mapping[str, Any],
    meshes: Mapping[int, tuple[Mesh, bool]],
) -> Mapping[str, Any]:
    """The scene with what a cache keeps of its colliders at a frame, by their numbers.

    Where bodies have `moved`; meshes as they are (`still`), or in the world (`deformed`).
    """
    bodies = {body["collider"]: body for body in report.get("bodies") or ()}
    first = float((scene.get("frames") or [1])[0])
    colliders = []
    for i, collider in enumerate(scene.get("collider", ())):
        if i in bodies:
            collider = {**collider, "moved": {**bodies[i], "since": first}}
        if i in meshes:
            mesh, deforms = meshes[i]
            collider = {**collider, "deformed" if deforms else "still": mesh}
        colliders.append(collider)
    return {**scene, "collider": colliders}


def _pose(collider: Mapping[str, Any], frame: float) -> Pose:
    """Where a collider is at a frame, keyframes included."""
    moved = collider.get("moved")
    if moved is not None:
        start = _pose({**collider, "moved": None}, moved["since"])
        turn = _matrix(np.array(moved["rotation"], float))
        with np.errstate(over="ignore", invalid="ignore"):
            translation = turn @ start.translation + np.array(moved["translation"], float)
            return Pose(turn @ start.rotation, translation, start.scale)
    keys = [
        Keyframe(
            frame=float(key["frame"]),
            position=key.get("position", _ORIGIN),
            rotation=key.get("rotation", _ORIGIN),
        )
        for key in collider.get("motion") or ()
    ]
    placed = _Placed(
        collider.get("position", _ORIGIN),
        collider.get("rotation", _ORIGIN),
        float(collider.get("scale", 1.0)),
        tuple(sorted(keys, key=lambda key: key.frame)),
    )
    return Motion(placed, fps=1.0, first_frame=0.0).pose(frame)  # one second a frame


def _matrix(q: Array) -> Array:
    """Of a quaternion w, x, y, z: 1 + 2 w [v] + 2 [v]^2."""
    w, (x, y, z) = q[0], q[1:]
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    with np.errstate(over="ignore", invalid="ignore"):  # _check_place refuses it
        turn: Array = np.eye(3) + 2 * w * cross + 2 * cross @ cross
    return turn


def _solid(kind: str, shape: Mapping[str, Any], pose: Pose) -> Array:
    """One packed row."""
    local, size = np.eye(3), np.zeros(3)
    if kind == "sphere":
        center, size[0] = np.asarray(shape["center"], float), float(shape["radius"])
    elif kind == "box":
        low, high = np.asarray(shape["min"], float), np.asarray(shape["max"], float)
        center, size = (low + high) / 2, (high - low) / 2
    else:
        start, end = np.asarray(shape["start"], float), np.asarray(shape["end"], float)
        center, length = (start + end) / 2, float(np.linalg.norm(end - start))
        size[:2] = float(shape["radius"]), length / 2
        local = _axes_along((end - start) / max(length, 1e-12))
    turn = pose.rotation @ local  # columns: local axes in the world
    row = np.zeros(SOLID_COLUMNS)
    row[19] = 1.0
    row[0], row[1:4] = _KINDS[kind], np.maximum(size * pose.scale, 1e-9)
    row[4:13], row[13:16] = turn.T.ravel(), pose.to_world(center)
    return row


def _mesh(props: Props, collider: Mapping[str, Any], pose: Pose, glass: bool) -> None:
    """Triangles of an obstacle or a shell; sharp edges of a container."""
    mesh = collider.get("deformed")
    if mesh is not None:
        pose = Pose()  # in the world already
    else:
        mesh = collider.get("still")
    if mesh is None or not len(mesh.triangles):
        return
    corners = (pose.scale * mesh.vertices @ pose.rotation.T + pose.to_world(np.zeros(3)))[
        mesh.triangles
    ]
    props.low.append(corners.min(axis=(0, 1)))
    props.high.append(corners.max(axis=(0, 1)))
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    area = np.linalg.norm(across, axis=1)
    kept = area > 0
    corners, across = corners[kept], across[kept]
    normal = across / area[kept, None]
    if collider.get("mode", "outside") == "inside":
        props.lines.append(_creases(corners, normal))
        return
    rows = np.zeros((len(corners), SOLID_COLUMNS))
    rows[:, 0], rows[:, 19] = TRIANGLE, 0.3 if glass else 1.0
    rows[:, 1:10] = corners.reshape(-1, 9)
    rows[:, 10:19] = _smoothed(mesh.triangles[kept], across, normal).reshape(-1, 9)
    props.solids += list(rows)


def _smoothed(triangles: NDArray[Any], across: Array, normal: Array) -> Array:
    """Normals of corners (n, 3, 3): the mean of what meets there, but not over sharp edges."""
    total = np.zeros((int(triangles.max(initial=-1)) + 1, 3))
    for k in range(3):
        np.add.at(total, triangles[:, k], across)
    length = np.linalg.norm(total, axis=1, keepdims=True)
    mean = (total / np.maximum(length, 1e-30))[triangles]
    sharp = np.einsum("nkc,nc->nk", mean, normal) < _CREASE
    mean[sharp] = np.repeat(normal[:, None], 3, axis=1)[sharp]
    return mean


def _creases(corners: Array, normal: Array) -> Array:
    """Segments (k, 2, 3) where triangles meet at an angle, or end."""
    ends = np.round(corners[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2, 3), 7)
    order = np.lexsort(ends.transpose(2, 0, 1)[::-1], axis=1)
    ends = np.take_along_axis(ends, order[..., None], axis=1)
    _, first, number, count = np.unique(
        ends.reshape(-1, 6), axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    total = np.zeros((len(first), 3))
    np.add.at(total, number.ravel(), np.repeat(normal, 3, axis=0))
    bent = np.linalg.norm(total, axis=1) < count * 0.97
    return ends[first[bent | (count == 1)]]


def _axes_along(axis: Array) -> Array:
    """Matrix whose third column is a unit vector."""
    helper = np.eye(3)[int(np.argmin(np.abs(axis)))]
    x = np.cross(helper, axis)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(axis, x), axis], axis=1)


def _half_box(solid: Array) -> Array:
    kind, size = int(solid[0]), solid[1:4]
    if kind == _KINDS["sphere"]:
        return np.repeat(size[0], 3)
    return size if kind == _KINDS["box"] else size[[0, 0, 1]]


def corners(solid: Array) -> Array:
    """Eight corners (8, 3) of the oriented box around a solid."""
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    return np.asarray(signs * _half_box(solid) @ solid[4:13].reshape(3, 3) + solid[13:16])


def _extent(solid: Array) -> tuple[Array, Array]:
    points = corners(solid)
    return points.min(axis=0), points.max(axis=0)


def _outline(solid: Array) -> Array:
    """Edges of a container as segments (k, 2, 3)."""
    kind, size = int(solid[0]), solid[1:4]
    if kind == _KINDS["box"]:
        points = corners(solid)
        pairs = [(a, a | bit) for a in range(8) for bit in (1, 2, 4) if not a & bit]
        return points[np.array(pairs)]
    angle = np.linspace(0.0, 2 * np.pi, _CIRCLE + 1)
    ring = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1) * size[0]
    up = np.array([0.0, 0.0, size[1]])
    if kind == _KINDS["sphere"]:
        rings = [ring, ring[:, [0, 2, 1]], ring[:, [2, 0, 1]]]
    else:
        rings = [ring - up, ring + up]
    local = np.concatenate([np.stack([r[:-1], r[1:]], axis=1) for r in rings])
    if kind == _KINDS["cylinder"]:
        struts = [[p - up, p + up] for p in ring[: -1 : _CIRCLE // 4]]
        local = np.concatenate([local, np.array(struts)])
    return np.asarray(local @ solid[4:13].reshape(3, 3) + solid[13:16])


def _plane(
    props: Props, shape: Mapping[str, Any], pose: Pose, up: int, bounds: tuple[Array, Array]
) -> list[float]:
    """A level plane becomes the floor (its height is returned), any other a grid of lines."""
    point = pose.to_world(shape.get("point", _ORIGIN))
    normal = pose.turn(shape["normal"])
    normal = normal / max(float(np.linalg.norm(normal)), 1e-12)
    if normal[up] > 0.999:
        return [float(point[up])]
    if abs(normal[up]) > 0.999:
        return []  # a ceiling would only hide things
    middle = (bounds[0] + bounds[1]) / 2
    middle = middle - normal * float(normal @ (middle - point))
    axes = _axes_along(normal)
    reach = float(np.linalg.norm(bounds[1] - bounds[0])) / 2
    at = np.linspace(-reach, reach, 9)
    a, b = axes[:, 0], axes[:, 1]
    rows = [[middle + a * t - b * reach, middle + a * t + b * reach] for t in at]
    rows += [[middle + b * t - a * reach, middle + b * t + a * reach] for t in at]
    props.lines.append(np.array(rows))
    return []
