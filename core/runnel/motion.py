"""Where things are: poses, keyframe paths, and the velocities that go with them.

Time 0 is the first frame of the scene: t = (frame - first frame) / fps.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .params import Keyframe, Vec3
from .scene import Scene

Floats = NDArray[np.float64]


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


def euler_rate(degrees: Sequence[float], rates: Floats) -> Floats:
    """Angular velocity [rad/s] where the angles of `euler_matrix` change by `rates` [deg/s]."""
    x, y, z = np.radians(rates)
    after_x = euler_matrix((0.0, degrees[1], degrees[2]))[:, 0]  # where later turns take the x axis
    after_y = euler_matrix((0.0, 0.0, degrees[2]))[:, 1]
    rate: Floats = x * after_x + y * after_y + z * np.array([0.0, 0.0, 1.0])
    return rate


@dataclass(frozen=True, eq=False)
class _Key:
    time: float  # [s]
    position: Floats
    angles: Floats  # [deg]


class Motion:
    """A rigid path through keyframes, or standing still.

    Positions and each of the three angles change evenly between keyframes, as animation programs
    have it: from 0 to 360 degrees is one full turn, from 170 to -170 one back by 340. Before the
    first and after the last all is at rest.
    """

    def __init__(self, placed: Placed, fps: float, first_frame: float) -> None:
        """Keyframes take the place of `position` and `rotation`; `scale` always holds."""
        self._scale = float(placed.scale)
        still = Keyframe(frame=first_frame, position=placed.position, rotation=placed.rotation)
        self._keys = [
            _Key(
                (key.frame - first_frame) / fps,
                np.array(key.position, np.float64),
                np.array(key.rotation, np.float64),
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
            or not np.array_equal(key.angles, first.angles)
            for key in self._keys
        )

    @property
    def end(self) -> float:
        """Time of the last keyframe [s]."""
        return self._times[-1]

    def pose(self, time: float) -> Pose:
        """Pose at a time [s]."""
        a, b, share = self._around(time)
        angles = a.angles + share * (b.angles - a.angles)
        position = a.position + share * (b.position - a.position)
        return Pose(euler_matrix(angles.tolist()), position, self._scale)

    def velocity(self, time: float, dt: float) -> tuple[Floats, Floats]:
        """Velocity of the origin [m/s] and angular velocity [rad/s] that lead from the pose at
        time - dt to that at time. Exact for even motion, and always in step with the poses."""
        before, now = self.pose(time - dt), self.pose(time)
        linear: Floats = (now.translation - before.translation) / dt
        turn = _rotation_vector(now.rotation @ before.rotation.T)
        return linear, _whole_turns(turn, dt * self._mean_rate(time, dt)) / dt

    def _around(self, time: float) -> tuple[_Key, _Key, float]:
        """Keyframes before and after a time, and the share of the second."""
        after = bisect_right(self._times, time)
        if after == 0 or after == len(self._keys):
            key = self._keys[max(after - 1, 0)]
            return key, key, 0.0
        a, b = self._keys[after - 1], self._keys[after]
        return a, b, (time - a.time) / (b.time - a.time)

    def _mean_rate(self, time: float, dt: float) -> Floats:
        """Angular velocity [rad/s] over a step, roughly: of its middle, at its mean rates."""
        ends = []
        for moment in (time - dt, time - 0.5 * dt, time):
            a, b, share = self._around(moment)
            ends.append(a.angles + share * (b.angles - a.angles))
        return euler_rate(ends[1].tolist(), (ends[2] - ends[0]) / dt)


def _rotation_vector(matrix: Floats) -> Floats:
    """Axis times angle [rad] of a rotation, angle at most pi."""
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


def _whole_turns(turn: Floats, expected: Floats) -> Floats:
    """Of all rotation vectors that end where `turn` ends, the one nearest to the expected."""
    angle, far = float(np.linalg.norm(turn)), float(np.linalg.norm(expected))
    if far < math.pi / 2:
        return turn
    axis = turn / angle if angle > 1e-9 else expected / far
    turns = round((float(axis @ expected) - angle) / (2 * math.pi))
    nearest: Floats = (angle + 2 * math.pi * turns) * axis
    return nearest


def without_rests(keyframes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keyframes of a scene file, a host's for each frame: those that change nothing are left out.

    What is equal to the one before and the one after is in the middle of a rest.
    """
    same = [{**key, "frame": 0} for key in keyframes]
    middle = range(1, len(same) - 1)
    idle = {k for k in middle if same[k - 1] == same[k] == same[k + 1]}
    return [key for k, key in enumerate(keyframes) if k not in idle]


def motion_of(placed: Placed, scene: Scene) -> Motion:
    """Motion of a source, collider or sink of a scene."""
    return Motion(placed, scene.fps, scene.frames[0])


def frame_time(frame: float, scene: Scene) -> float:
    """Time of a frame [s]."""
    return (frame - scene.frames[0]) / scene.fps


def frame_at(time: float, scene: Scene) -> float:
    """Frame at a time [s], between frames too."""
    return scene.frames[0] + time * scene.fps


def active_times(frames: tuple[int, int] | None, scene: Scene) -> tuple[float, float]:
    """From when to when [s] something with a range of frames acts; both frames count in full."""
    if frames is None:
        return 0.0, math.inf
    return frame_time(frames[0], scene), frame_time(frames[1] + 1, scene)
