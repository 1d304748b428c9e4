"""Poses and keyframe paths: order of rotations, even motion, velocities that agree with poses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation, Slerp

from runnel.motion import Motion, Pose, active_times, euler_matrix, frame_time, motion_of
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


def test_rotation_is_even_and_takes_the_shorter_way():
    motion = path((1, (0, 0, 0), (0, 0, 170)), (25, (0, 0, 0), (0, 0, -170)))
    for share in (0.25, 0.5, 0.75):
        assert np.allclose(motion.pose(share).rotation, euler_matrix((0, 0, 170 + 20 * share)))


@reproducible
@given(angles, angles, angles, angles, angles, angles, st.floats(0.01, 0.99))
def test_slerp_agrees_with_scipy(a, b, c, d, e, f, share):
    motion = path((1, (0, 0, 0), (a, b, c)), (25, (0, 0, 0), (d, e, f)))
    ends = Rotation.from_euler("xyz", [[a, b, c], [d, e, f]], degrees=True)
    if abs((ends[0].inv() * ends[1]).magnitude() - np.pi) < 1e-3:
        return  # half a turn: both ways are equally short
    expected = Slerp([0, 1], ends)(share).as_matrix()
    assert np.allclose(motion.pose(share).rotation, expected, atol=1e-9)


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


def test_half_a_turn_within_one_step():
    motion = path((1, (0, 0, 0), (0, 0, 0)), (2, (0, 0, 0), (180, 0, 0)))
    _, angular = motion.velocity(1 / 24, 1 / 24)
    assert np.allclose(np.abs(angular), [24 * np.pi, 0, 0])


def test_frames_and_times():
    some = scene()
    assert frame_time(25, some) == 1.0
    assert active_times(None, some) == (0.0, float("inf"))
    assert active_times((1, 24), some) == (0.0, 1.0)  # 24 frames, one second
    assert not motion_of(Collider(shape=BOX), some).moves


@pytest.mark.parametrize("bad", [(0, 0, 0), (360, 0, 0), (0, -720, 0)])
def test_full_turns_are_no_turns(bad):
    assert euler_matrix(bad).tolist() == np.eye(3).tolist()
