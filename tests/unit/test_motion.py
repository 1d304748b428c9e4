"""Poses and keyframe paths: order of rotations, even motion, velocities that agree with poses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from runnel.motion import (
    Motion,
    Pose,
    active_times,
    euler_matrix,
    euler_rate,
    frame_time,
    motion_of,
)
from runnel.params import Box, Collider, Keyframe
from runnel.scene import Scene

BOX = Box(min=(0, 0, 0), max=(1, 1, 1))
angles = st.floats(-720, 720, allow_nan=False)
reproducible = settings(max_examples=50, deadline=None, derandomize=True)


def path(*keys, fps=24.0, first=1, **pose) -> Motion:
    """Keys: (frame, position, rotation)."""
    frames = tuple(Keyframe(frame=f, position=p, rotation=r) for f, p, r in keys)
    return Motion(Collider(shape=BOX, motion=frames, **pose), fps, first)


def scene() -> Scene:
    source = {"fluid": "water", "spacing": 0.5, "shape": {"box": {"min": [0] * 3, "max": [1] * 3}}}
    parts = {"fluid": [{"name": "water"}], "source": [source]}
    return Scene.from_dict({"frames": [1, 48], "fps": 24, **parts})


def test_rotation_about_x_then_y_then_z():
    """A quarter turn about x takes y to z; one about y then takes z to x; about z x to y."""
    assert (euler_matrix((90, 0, 0)) @ [0, 1, 0]).tolist() == [0, 0, 1]
    assert (euler_matrix((90, 90, 0)) @ [0, 1, 0]).tolist() == [1, 0, 0]
    assert (euler_matrix((90, 90, 90)) @ [0, 1, 0]).tolist() == [0, 1, 0]


@reproducible
@given(angles, angles, angles)
def test_rotation_agrees_with_scipy(x, y, z):
    expected = Rotation.from_euler("xyz", [x, y, z], degrees=True).as_matrix()
    assert np.allclose(euler_matrix((x, y, z)), expected, atol=1e-12)


@reproducible
@given(angles, st.floats(0.1, 10))
def test_world_and_local_are_inverse(angle, scale):
    pose = Pose(euler_matrix((angle, 20, -30)), np.array([1.0, -2.0, 3.0]), scale)
    points = np.random.default_rng(0).normal(size=(10, 3))
    assert np.allclose(pose.to_local(pose.to_world(points)), points, atol=1e-12)


def test_a_pose_scales_then_turns_then_moves():
    pose = Pose(euler_matrix((0, 0, 90)), np.array([10.0, 0, 0]), 2.0)
    assert pose.to_world([[1, 0, 0]]).tolist() == [[10, 2, 0]]
    assert pose.turn([1, 0, 0]).tolist() == [0, 1, 0]


def test_standing_still():
    motion = path(position=(1, 2, 3), rotation=(0, 0, 90), scale=3.0)
    for time in (-1.0, 0.0, 5.0):
        assert motion.pose(time).translation.tolist() == [1, 2, 3]
        assert motion.pose(time).scale == 3.0
        linear, angular = motion.velocity(time, 0.1)
        assert not linear.any()
        assert not angular.any()
    assert not motion.moves


def test_keyframes_take_the_place_of_the_pose_but_not_of_the_scale():
    motion = path(
        (1, (0, 0, 0), (0, 0, 0)), (25, (2, 0, 0), (0, 0, 0)), position=(9, 9, 9), scale=2
    )
    assert motion.moves
    assert motion.pose(0.5).translation.tolist() == [1, 0, 0]
    assert motion.pose(0.5).scale == 2
    assert motion.pose(-3).translation.tolist() == [0, 0, 0]
    assert motion.pose(99).translation.tolist() == [2, 0, 0]


def test_first_frame_of_the_scene_is_time_zero():
    motion = path((101, (0, 0, 0), (0, 0, 0)), (125, (1, 0, 0), (0, 0, 0)), first=101)
    assert motion.pose(1.0).translation.tolist() == [1, 0, 0]


def test_a_single_keyframe_is_a_place():
    motion = path((10, (1, 0, 0), (0, 0, 0)))
    assert not motion.moves
    assert motion.pose(0).translation.tolist() == [1, 0, 0]


@pytest.mark.parametrize(("start", "end"), [(0, 360), (0, -720), (170, -170), (0, 180), (30, 240)])
def test_a_turn_is_as_long_as_its_angles_say(start, end):
    """Full turns, half ones and long ways round, as animation programs turn: evenly, that way."""
    motion = path((1, (0, 0, 0), (0, 0, start)), (25, (0, 0, 0), (0, 0, end)))
    assert motion.moves
    for share in (0.1, 0.25, 0.5, 0.9):
        angle = start + share * (end - start)
        assert np.allclose(motion.pose(share).rotation, euler_matrix((0, 0, angle)))
        linear, angular = motion.velocity(share, 0.01)
        assert not linear.any()
        assert np.allclose(angular, [0, 0, np.radians(end - start)], rtol=1e-9)


@pytest.mark.parametrize("turn", [170, 180, 190, 360, 1000])
def test_a_step_may_turn_by_more_than_half(turn):
    motion = path((1, (0, 0, 0), (0, 0, 0)), (2, (0, 0, 0), (0, turn, 0)))
    _, angular = motion.velocity(1 / 24, 1 / 24)
    assert np.allclose(angular, [0, 24 * np.radians(turn), 0])


@reproducible
@given(angles, angles, angles, angles, angles, angles, st.floats(0.05, 0.95))
def test_three_angles_turn_each_by_itself(a, b, c, d, e, f, share):
    """Poses are those of angles mixed one by one; velocities are theirs, without jumps."""
    motion = path((1, (0, 0, 0), (a, b, c)), (25, (0, 0, 0), (d, e, f)))
    mixed = (1 - share) * np.array([a, b, c]) + share * np.array([d, e, f])
    expected = Rotation.from_euler("xyz", mixed, degrees=True)
    assert np.allclose(motion.pose(share).rotation, expected.as_matrix(), atol=1e-9)
    exact = euler_rate(mixed, np.array([d - a, e - b, f - c]))
    _, angular = motion.velocity(share + 5e-5, 1e-4)
    assert np.allclose(angular, exact, atol=1e-4 * (1 + np.linalg.norm(exact)))


def test_velocity_is_exact_for_even_motion():
    motion = path((1, (0, 0, 0), (0, 0, 0)), (25, (2, -1, 0), (0, 0, 90)))
    for time, dt in ((0.5, 0.01), (0.3, 0.3), (1.0, 1e-4)):
        linear, angular = motion.velocity(time, dt)
        assert np.allclose(linear, [2, -1, 0], rtol=1e-9)
        assert np.allclose(angular, [0, 0, np.pi / 2], rtol=1e-7)


@reproducible
@given(st.floats(0.0, 2.0), st.floats(1e-3, 0.2), angles, angles)
def test_velocity_leads_from_one_pose_to_the_next(time, dt, a, b):
    """Integrating linear and angular velocity over dt gives the pose at the end, at any time."""
    motion = path(
        (1, (0, 0, 0), (0, a, 0)), (13, (1, 2, 3), (b, 0, 30)), (37, (0, 0, 1), (0, 0, a))
    )
    linear, angular = motion.velocity(time, dt)
    before, now = motion.pose(time - dt), motion.pose(time)
    assert np.allclose(before.translation + dt * linear, now.translation, atol=1e-12)
    turned = Rotation.from_rotvec(angular * dt).as_matrix() @ before.rotation
    assert np.allclose(turned, now.rotation, atol=1e-7)


def test_frames_and_times():
    some = scene()
    assert frame_time(25, some) == 1.0
    assert active_times(None, some) == (0.0, float("inf"))
    assert active_times((1, 24), some) == (0.0, 1.0)  # 24 frames, one second
    assert not motion_of(Collider(shape=BOX), some).moves


@pytest.mark.parametrize("bad", [(0, 0, 0), (360, 0, 0), (0, -720, 0)])
def test_full_turns_are_no_turns(bad):
    assert euler_matrix(bad).tolist() == np.eye(3).tolist()
