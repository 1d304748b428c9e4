"""Where things are: poses, keyframe paths, and the velocities that go with them.

Time 0 is the first frame of the scene: t = (frame - first frame) / fps.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .params import Keyframe, Vec3
from .scene import Scene

Floats = NDArray[np.float64]
Quaternion = tuple[float, float, float, float]  # w, x, y, z


class Placed(Protocol):
    """What sources, colliders and sinks have in common."""

    @property
    def position(self) -> Vec3: ...
    @property
    def rotation(self) -> Vec3: ...
    @property
    def scale(self) -> float: ...
    @property
    def motion(self) -> tuple[Keyframe, ...]: ...


@dataclass(frozen=True, eq=False)
class Pose:
    """Local to world: x -> rotation (scale x) + translation."""

    rotation: Floats = field(default_factory=lambda: np.eye(3))  # (3, 3)
    translation: Floats = field(default_factory=lambda: np.zeros(3))  # [m]
    scale: float = 1.0

    def to_world(self, points: ArrayLike) -> Floats:
        """Points (..., 3) of the shape [m] in the world [m]."""
        moved: Floats = np.asarray(points, np.float64) * self.scale @ self.rotation.T
        return moved + self.translation

    def to_local(self, points: ArrayLike) -> Floats:
        """Points (..., 3) of the world [m] in the shape's own frame [m]."""
        local: Floats = (np.asarray(points, np.float64) - self.translation) @ self.rotation
        return local / self.scale

    def turn(self, vectors: ArrayLike) -> Floats:
        """Vectors (..., 3): rotated, neither moved nor scaled."""
        turned: Floats = np.asarray(vectors, np.float64) @ self.rotation.T
        return turned


def euler_matrix(degrees: Sequence[float]) -> Floats:
    """Rotation about x, then y, then z, all axes of the world: Rz Ry Rx."""
    (cx, sx), (cy, sy), (cz, sz) = (_cos_sin(angle) for angle in degrees)
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    matrix: Floats = about_z @ about_y @ about_x
    return matrix


def _cos_sin(degrees: float) -> tuple[float, float]:
    """Exact at quarter turns, so that a box turned by 90 degrees keeps round coordinates."""
    quarters, rest = divmod(degrees, 90.0)
    if rest == 0.0:
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[int(quarters) % 4]
    angle = math.radians(degrees)
    return math.cos(angle), math.sin(angle)


def _euler_quaternion(degrees: Sequence[float]) -> Quaternion:
    x, y, z = (math.radians(angle) / 2 for angle in degrees)
    about_x = (math.cos(x), math.sin(x), 0.0, 0.0)
    about_y = (math.cos(y), 0.0, math.sin(y), 0.0)
    about_z = (math.cos(z), 0.0, 0.0, math.sin(z))
    return _product(about_z, _product(about_y, about_x))


def _product(a: Quaternion, b: Quaternion) -> Quaternion:
    return (
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    )


def _matrix(q: Quaternion) -> Floats:
    length = math.sqrt(sum(c * c for c in q))
    w, x, y, z = (c / length for c in q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _slerp(a: Quaternion, b: Quaternion, share: float) -> Quaternion:
    """From a to b the shorter way, at even speed."""
    sign = -1.0 if sum(p * q for p, q in zip(a, b, strict=True)) < 0 else 1.0
    apart = math.dist(a, [sign * q for q in b])
    angle = 2 * math.asin(min(apart / 2, 1.0))  # exact for small angles, as acos is not
    if angle < 1e-9:
        return b if share > 0.5 else a
    wa = math.sin((1 - share) * angle) / math.sin(angle)
    wb = sign * math.sin(share * angle) / math.sin(angle)
    w, x, y, z = (wa * p + wb * q for p, q in zip(a, b, strict=True))
    return w, x, y, z


@dataclass(frozen=True)
class _Key:
    time: float  # [s]
    position: Floats
    quaternion: Quaternion
    rotation: Floats


class Motion:
    """A rigid path through keyframes, or standing still.

    Positions change evenly between keyframes, rotations evenly the shorter way round: a turn of
    more than half needs keyframes in between. Before the first and after the last all is at rest.
    """

    def __init__(self, placed: Placed, fps: float, first_frame: float) -> None:
        """Keyframes take the place of `position` and `rotation`; `scale` always holds."""
        self._scale = float(placed.scale)
        still = Keyframe(frame=first_frame, position=placed.position, rotation=placed.rotation)
        self._keys = [
            _Key(
                (key.frame - first_frame) / fps,
                np.array(key.position, np.float64),
                _euler_quaternion(key.rotation),
                euler_matrix(key.rotation),
            )
            for key in placed.motion or (still,)
        ]
        self._times = [key.time for key in self._keys]

    @property
    def moves(self) -> bool:
        """Whether the pose ever changes."""
        first = self._keys[0]
        return any(
            not np.array_equal(key.position, first.position)
            or not np.array_equal(key.rotation, first.rotation)
            for key in self._keys
        )

    @property
    def end(self) -> float:
        """Time of the last keyframe [s]."""
        return self._times[-1]

    def pose(self, time: float) -> Pose:
        """Pose at a time [s]."""
        after = bisect_right(self._times, time)
        if after == 0 or after == len(self._keys):
            key = self._keys[max(after - 1, 0)]
            return Pose(key.rotation, key.position, self._scale)
        a, b = self._keys[after - 1], self._keys[after]
        share = (time - a.time) / (b.time - a.time)
        if share == 0:
            return Pose(a.rotation, a.position, self._scale)
        position = a.position + share * (b.position - a.position)
        rotation = _matrix(_slerp(a.quaternion, b.quaternion, share))
        return Pose(rotation, position, self._scale)

    def velocity(self, time: float, dt: float) -> tuple[Floats, Floats]:
        """Velocity of the origin [m/s] and angular velocity [rad/s] that lead from the pose at
        time - dt to that at time. Exact for even motion, and always in step with the poses."""
        before, now = self.pose(time - dt), self.pose(time)
        linear: Floats = (now.translation - before.translation) / dt
        return linear, _rotation_vector(now.rotation @ before.rotation.T) / dt


def _rotation_vector(matrix: Floats) -> Floats:
    """Axis times angle [rad] of a rotation, angle below pi."""
    twice = np.array(
        [matrix[2, 1] - matrix[1, 2], matrix[0, 2] - matrix[2, 0], matrix[1, 0] - matrix[0, 1]]
    )  # 2 sin(angle) axis
    sine = float(np.linalg.norm(twice)) / 2
    angle = math.atan2(sine, (float(np.trace(matrix)) - 1) / 2)
    if sine > 1e-7:
        return twice * (angle / (2 * sine))
    if angle < 1.0:
        return twice / 2
    # Half a turn: the axis is the column of R + 1 that is not 0; its sign does not matter.
    column = matrix + np.eye(3)
    axis: Floats = column[:, int(np.argmax(np.diag(matrix)))]
    return axis / float(np.linalg.norm(axis)) * angle


def motion_of(placed: Placed, scene: Scene) -> Motion:
    """Motion of a source, collider or sink of a scene."""
    return Motion(placed, scene.fps, scene.frames[0])


def frame_time(frame: float, scene: Scene) -> float:
    """Time of a frame [s]."""
    return (frame - scene.frames[0]) / scene.fps


def active_times(frames: tuple[int, int] | None, scene: Scene) -> tuple[float, float]:
    """From when to when [s] something with a range of frames acts; both frames count in full."""
    if frames is None:
        return 0.0, math.inf
    return frame_time(frames[0], scene), frame_time(frames[1] + 1, scene)
