"""Packed solids against the shapes they stand for, evaluated here by the columns of base.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from runnel.backends.base import BOX, CYLINDER, PLANE, SOLID_COLUMNS, SPHERE
from runnel.colliders import ENDLESS, Sinks, Solids, kill_bounds, pack_sinks, pack_solids
from runnel.errors import SceneError
from runnel.motion import motion_of
from runnel.scene import Scene
from runnel.shapes import inside, shape_of

Floats = NDArray[np.float64]

SHAPES: dict[str, dict[str, Any]] = {
    "box": {"box": {"min": [-0.2, 0.1, -0.5], "max": [0.6, 0.4, 0.3]}},
    "sphere": {"sphere": {"center": [0.1, -0.3, 0.2], "radius": 0.4}},
    "cylinder": {"cylinder": {"start": [0.1, 0.0, -0.3], "end": [0.4, 0.5, 0.2], "radius": 0.25}},
    "plane": {"plane": {"point": [0.1, 0.2, -0.1], "normal": [1.0, -2.0, 0.5]}},
}


def scene(*, dimensions: int = 3, up: str = "z", **parts: Any) -> Scene:
    source = {
        "fluid": "water",
        "shape": {"box": {"min": [0, 0, 0], "max": [1, 1, 1]}},
        "spacing": 0.1,
    }
    base = {"fps": 10, "dimensions": dimensions, "up": up, "fluid": [{"name": "water"}]}
    return Scene.from_dict({**base, "source": [source], **parts})


def collider(shape: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "solid", "shape": shape, **more}


def distance(row: NDArray[np.float32], points: Floats) -> Floats:
    """Signed distance as base.py describes a row; negative in the solid."""
    s = row.astype(np.float64)
    x, y, z = s[8:17].reshape(3, 3) @ (points - s[17:20]).T
    if s[0] == PLANE:
        d = z
    elif s[0] == SPHERE:
        d = np.sqrt(x**2 + y**2 + z**2) - s[5]
    elif s[0] == BOX:
        q = np.stack([np.abs(x) - s[5], np.abs(y) - s[6], np.abs(z) - s[7]])
        d = np.linalg.norm(np.maximum(q, 0), axis=0) + np.minimum(q.max(axis=0), 0)
    else:
        assert s[0] == CYLINDER
        q = np.stack([np.hypot(x, y) - s[5], np.abs(z) - s[6]])
        d = np.linalg.norm(np.maximum(q, 0), axis=0) + np.minimum(q.max(axis=0), 0)
    result: Floats = s[1] * d
    return result


def wall_velocity(row: NDArray[np.float32], points: Floats) -> Floats:
    s = row.astype(np.float64)
    result: Floats = s[20:23] + np.cross(s[23:26], points - s[17:20])
    return result


@pytest.fixture
def points() -> Floats:
    return np.random.default_rng(1).uniform(-1.5, 1.5, (500, 3))


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("mode", ["outside", "inside"])
def test_distance_is_that_of_the_placed_shape(kind: str, mode: str, points: Floats) -> None:
    placed = {"position": [0.3, -0.2, 0.1], "rotation": [20.0, -50.0, 110.0], "scale": 1.7}
    it = scene(collider=[collider(SHAPES[kind], mode=mode, **placed)])
    (row,) = pack_solids(it, 0.0, 0.1)
    part = it.colliders[0]
    pose = motion_of(part, it).pose(0.0)
    expected = shape_of(part.shape).distance(pose.to_local(points)) * pose.scale
    sign = 1.0 if mode == "outside" else -1.0
    np.testing.assert_allclose(distance(row, points), sign * expected, atol=2e-6)


def test_rotation_is_orthonormal_and_right_handed() -> None:
    it = scene(collider=[{"name": k, "shape": s} for k, s in SHAPES.items()])
    for row in pack_solids(it, 0.0, 0.1):
        axes = row[8:17].reshape(3, 3).astype(np.float64)
        np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-6)
        assert np.linalg.det(axes) == pytest.approx(1.0)


def test_surface_values_and_layout() -> None:
    it = scene(collider=[collider(SHAPES["box"], friction=0.1, bounce=0.2, stickiness=0.3)])
    rows = pack_solids(it, 0.0, 0.1)
    assert rows.shape == (1, SOLID_COLUMNS)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows[0, 1:5], [1.0, 0.1, 0.2, 0.3], rtol=1e-6)
    assert not rows[0, 20:26].any()  # nothing moves


def test_no_colliders_is_an_empty_table() -> None:
    assert pack_solids(scene(), 0.0, 0.1).shape == (0, SOLID_COLUMNS)
    assert pack_sinks(scene(), 0.0).shape == (0, SOLID_COLUMNS)


# --- motion ---------------------------------------------------------------------------------------


def moving(*keys: dict[str, Any], shape: str = "box", **more: Any) -> Scene:
    part = collider(SHAPES[shape], body="animated", motion=list(keys), **more)
    return scene(frames=[1, 100], collider=[part])


def test_a_row_is_where_the_shape_is_at_the_end_of_the_step(points: Floats) -> None:
    path = [
        {"frame": 1, "position": [0, 0, 0]},
        {"frame": 11, "position": [1, 0, 2], "rotation": [0, 0, 90]},
    ]
    it = moving(*path, scale=0.5)
    time = 0.37
    (row,) = pack_solids(it, time, 0.01)
    pose = motion_of(it.colliders[0], it).pose(time)
    expected = shape_of(it.colliders[0].shape).distance(pose.to_local(points)) * pose.scale
    np.testing.assert_allclose(distance(row, points), expected, atol=2e-6)


def test_a_sliding_solid_has_one_velocity(points: Floats) -> None:
    """1 m, 0 m and 2 m in ten frames at 10 fps."""
    it = moving({"frame": 1}, {"frame": 11, "position": [1, 0, 2]})
    (row,) = pack_solids(it, 0.5, 0.02)
    expected = np.broadcast_to([1.0, 0.0, 2.0], points.shape)
    np.testing.assert_allclose(wall_velocity(row, points), expected, atol=1e-5)
    (after,) = pack_solids(it, 1.5, 0.02)
    assert not after[20:26].any()


@pytest.mark.parametrize("shape", SHAPES)
def test_velocity_leads_points_of_the_solid_to_where_they_are(shape: str, points: Floats) -> None:
    """Also off the pivot: the origin of a row is the middle of the shape, not of the motion."""
    it = moving(
        {"frame": 1},
        {"frame": 11, "position": [0.5, 0, 0], "rotation": [0, 0, 120]},
        shape=shape,
        scale=1.3,
    )
    time, dt = 0.6, 1e-3
    (row,) = pack_solids(it, time, dt)
    motion = motion_of(it.colliders[0], it)
    now, before = motion.pose(time), motion.pose(time - dt)
    travelled = (points - before.to_world(now.to_local(points))) / dt
    np.testing.assert_allclose(wall_velocity(row, points), travelled, atol=2e-2)
    assert np.abs(travelled).max() > 2.0  # the claim is about something


def test_static_rows_are_packed_once() -> None:
    still = Solids(scene(collider=[collider(SHAPES["box"])]))
    assert still.rows(0.0, 0.1) is still.rows(1.0, 0.1)
    assert not still.move
    it = Solids(moving({"frame": 1}, {"frame": 11, "position": [1, 0, 0]}))
    first = it.rows(0.1, 0.1)
    copy = first.copy()
    assert not np.array_equal(it.rows(0.2, 0.1), first)
    np.testing.assert_array_equal(first, copy)  # a table that was given out stays as it was


def test_speed_of_the_fastest_point() -> None:
    """A turn of 90 degrees in a second: a corner 1 m off moves at pi/2 m/s, no point faster."""
    keys = [{"frame": 1}, {"frame": 11, "rotation": [0, 0, 90]}]
    box = {"box": {"min": [-1, -0.01, -0.01], "max": [1, 0.01, 0.01]}}
    part = collider(box, body="animated", motion=keys)
    solids = Solids(scene(collider=[part]))
    assert solids.speed(0.2, 0.3) == pytest.approx(np.pi / 2, rel=1e-3)
    assert solids.speed(5.0, 5.1) == 0.0


# --- two dimensions -------------------------------------------------------------------------------


@pytest.mark.parametrize(("up", "axis"), [("z", 1), ("y", 2)])
@pytest.mark.parametrize("kind", ["box", "sphere", "plane"])
def test_2d_distance_ignores_the_third_axis(up: str, axis: int, kind: str, points: Floats) -> None:
    rotation = [0.0, 0.0, 0.0]
    rotation[axis] = 33.0
    position = [0.3, 0.2, 0.25]
    part = collider(SHAPES[kind], rotation=rotation, position=position)
    (row,) = pack_solids(scene(dimensions=2, up=up, collider=[part]), 0.0, 0.1)
    flat = points.copy()
    flat[:, axis] = 0.0
    assert row[17 + axis] == 0.0
    if kind == "box":
        assert row[5 + axis] == np.float32(ENDLESS)
    near = distance(row, flat)
    it = scene(dimensions=2, up=up, collider=[part])
    placed = it.colliders[0]
    pose = motion_of(placed, it).pose(0.0)
    within = inside(shape_of(placed.shape), pose, flat, axis)
    clear = np.abs(near) > 1e-5
    if kind == "plane":  # the plane's tilt out of the picture is dropped, not cut
        normal = np.array(SHAPES[kind]["plane"]["normal"])
        normal[axis] = 0.0
        tilt = pose.turn(normal / np.linalg.norm(normal))
        foot = pose.to_world(np.array(SHAPES[kind]["plane"]["point"]))
        foot[axis] = 0.0
        np.testing.assert_allclose(near, (flat - foot) @ tilt, atol=1e-5)
    else:
        np.testing.assert_array_equal((near < 0)[clear], within[clear])
        assert within.any()


def test_2d_cylinder_across_the_plane_is_a_circle(points: Floats) -> None:
    shape = {"cylinder": {"start": [0.3, -1, 0.2], "end": [0.3, 1, 0.2], "radius": 0.4}}
    (row,) = pack_solids(scene(dimensions=2, collider=[collider(shape)]), 0.0, 0.1)
    flat = points * [1, 0, 1]
    expected = np.hypot(flat[:, 0] - 0.3, flat[:, 2] - 0.2) - 0.4
    np.testing.assert_allclose(distance(row, flat), expected, atol=1e-5)


def test_2d_cylinder_in_the_plane_is_a_rectangle(points: Floats) -> None:
    shape = {"cylinder": {"start": [0, 0, 0], "end": [0.6, 0, 0.6], "radius": 0.25}}
    it = scene(dimensions=2, collider=[collider(shape)])
    (row,) = pack_solids(it, 0.0, 0.1)
    assert row[0] == BOX
    flat = points * [1, 0, 1]
    expected = shape_of(it.colliders[0].shape).contains(flat)
    near = distance(row, flat)
    clear = np.abs(near) > 1e-5
    np.testing.assert_array_equal((near < 0)[clear], expected[clear])


def test_2d_refuses_a_cylinder_askew() -> None:
    shape = {"cylinder": {"start": [0, 0, 0], "end": [0.6, 0.3, 0.6], "radius": 0.25}}
    with pytest.raises(SceneError, match=r"collider\[0\]\.shape.*in 2D a cylinder lies in the"):
        pack_solids(scene(dimensions=2, collider=[collider(shape)]), 0.0, 0.1)


# --- domain and sinks -----------------------------------------------------------------------------


def test_a_closed_domain_is_a_container(points: Floats) -> None:
    domain = {"min": [-1, -0.5, 0], "max": [1, 0.5, 2], "mode": "close"}
    it = scene(domain=domain)
    (row,) = pack_solids(it, 0.0, 0.1)
    within = ((points > [-1, -0.5, 0]) & (points < [1, 0.5, 2])).all(axis=1)
    np.testing.assert_array_equal(distance(row, points) > 0, within)
    low, high = kill_bounds(it)
    assert np.isinf(low).all()
    assert np.isinf(high).all()


def test_bounds_that_kill() -> None:
    limits = {"min": [-1, -2, -3], "max": [1, 2, 3], "mode": "kill"}
    low, high = kill_bounds(scene(domain=limits))
    np.testing.assert_array_equal(low, [-1, -2, -3])
    np.testing.assert_array_equal(high, [1, 2, 3])
    low, _ = kill_bounds(scene(domain=limits, dimensions=2))
    assert low[1] == -np.inf  # the axis left out has no limits
    low, high = kill_bounds(scene(domain={"min": [-1, -2, -3]}))
    assert np.isinf(high).all()
    assert np.isfinite(low).all()


def test_sinks_open_and_close(points: Floats) -> None:
    part = {"name": "drain", "shape": SHAPES["sphere"], "frames": [5, 9]}
    sinks = Sinks(scene(frames=[1, 100], sink=[part]))
    assert [len(sinks.rows(t)) for t in (0.0, 0.39, 0.41, 0.89, 0.91)] == [0, 0, 1, 1, 0]
    (row,) = sinks.rows(0.5)
    expected = np.linalg.norm(points - [0.1, -0.3, 0.2], axis=1) - 0.4
    np.testing.assert_allclose(distance(row, points), expected, atol=1e-5)
