"""Shapes: exact distances, and lattices with the number of particles one expects."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel import params
from runnel.errors import MeshError, RunnelError, SceneError
from runnel.motion import Pose, euler_matrix
from runnel.shapes import cross_section, fill, inside, shape_of, world_bounds

BOX = params.Box(min=(0, 0, 0), max=(1, 1, 1))
BALL = params.Sphere(center=(0.1, 0.2, 0.3), radius=0.5)
ROD = params.Cylinder(start=(-1, 0, 0), end=(1, 1, 0.5), radius=0.3)
WALL = params.Plane(point=(0, 0, 1), normal=(0, 0, 2))
ANALYTIC = [BOX, BALL, ROD]
STILL = Pose()

OCTAHEDRON = """OFF
6 8 0
1 0 0
-1 0 0
0 1 0
0 -1 0
0 0 1
0 0 -1
3 0 2 4
3 2 1 4
3 1 3 4
3 3 0 4
3 2 0 5
3 1 2 5
3 3 1 5
3 0 3 5
"""


def box(low, high):
    return shape_of(params.Box(min=low, max=high))


@pytest.fixture
def octahedron(tmp_path):
    (tmp_path / "o.off").write_text(OCTAHEDRON)
    return shape_of(params.MeshFile(file="o.off"), tmp_path)


# --- regions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "volume"),
    [(BOX, 1.0), (BALL, np.pi / 6), (ROD, np.pi * 0.09 * np.sqrt(5.25)), (WALL, np.inf)],
)
def test_volume(shape, volume):
    assert shape_of(shape).volume() == pytest.approx(volume)


@pytest.mark.parametrize("shape", ANALYTIC)
def test_volume_agrees_with_contains(shape):
    """Monte Carlo with 200 000 points: 1 % is about 4 standard deviations."""
    region = shape_of(shape)
    low, high = region.bounds()
    points = np.random.default_rng(0).uniform(low, high, (200_000, 3))
    share = region.contains(points).mean()
    assert share * np.prod(high - low) == pytest.approx(region.volume(), rel=0.015)


@pytest.mark.parametrize(
    ("shape", "point", "distance"),
    [
        (BOX, (0.5, 0.5, 0.9), -0.1),
        (BOX, (2, 0.5, 0.5), 1),
        (BOX, (2, 2, 2), np.sqrt(3)),
        (BALL, (0.1, 0.2, 0.3), -0.5),
        (BALL, (0.1, 0.2, 1.3), 0.5),
        (params.Cylinder(start=(0, 0, 0), end=(0, 0, 2), radius=1), (0, 0, 1.5), -0.5),
        (params.Cylinder(start=(0, 0, 0), end=(0, 0, 2), radius=1), (0.8, 0, 1), -0.2),
        (params.Cylinder(start=(0, 0, 0), end=(0, 0, 2), radius=1), (4, 0, 6), 5),
        (WALL, (7, 7, 3), 2),
        (WALL, (7, 7, -3), -4),
    ],
)
def test_distance(shape, point, distance):
    assert shape_of(shape).distance([point])[0] == pytest.approx(distance)
    assert shape_of(shape).contains([point])[0] == (distance <= 0)


@pytest.mark.parametrize("shape", [*ANALYTIC, WALL])
def test_distance_is_one(shape):
    """Its gradient has length 1 nearly everywhere: exact inside and outside, not a bound."""
    region = shape_of(shape)
    points = np.random.default_rng(1).uniform(-2, 2, (2000, 3))
    step = 1e-6
    slopes = [
        (region.distance(points + step * axis) - region.distance(points - step * axis)) / (2 * step)
        for axis in np.eye(3)
    ]
    lengths = np.linalg.norm(slopes, axis=0)
    assert np.mean(np.abs(lengths - 1) < 1e-4) > 0.995  # but at creases


@pytest.mark.parametrize("shape", ANALYTIC)
@pytest.mark.parametrize("direction", [(1, 0, 0), (0, 0.6, 0.8), (-0.5, 0.5, np.sqrt(0.5))])
def test_extent_is_reached_and_not_exceeded(shape, direction):
    region = shape_of(shape)
    low, high = region.bounds()
    points = np.random.default_rng(2).uniform(low, high, (400_000, 3))
    along = points[region.contains(points)] @ np.array(direction)
    start, end = region.extent(direction)
    assert start - 1e-12 <= along.min() < start + 0.06
    assert end - 0.06 < along.max() <= end + 1e-12


def test_mesh_shape(octahedron):
    assert octahedron.volume() == pytest.approx(4 / 3)
    assert octahedron.extent((0, 0.6, 0.8)) == (-0.8, 0.8)
    assert octahedron.contains([[0.3, 0.3, 0.3], [0.4, 0.4, 0.4]]).tolist() == [True, False]
    with pytest.raises(RunnelError, match="distance"):
        octahedron.distance([[0, 0, 0]])


def test_an_open_mesh_is_refused(tmp_path):
    lines = OCTAHEDRON.replace("6 8 0", "6 7 0").splitlines()[:-1]
    (tmp_path / "open.off").write_text("\n".join(lines))
    with pytest.raises(MeshError, match=r"open\.off: the mesh is open: 3 edges"):
        shape_of(params.MeshFile(file="open.off"), tmp_path)


def test_world_bounds():
    pose = Pose(euler_matrix((0, 0, 45)), np.array([1.0, 0, 0]), 2.0)
    low, high = world_bounds(box((0, 0, 0), (1, 1, 1)), pose)
    assert low == pytest.approx([1 - np.sqrt(2), 0, 0])
    assert high == pytest.approx([1 + np.sqrt(2), 2 * np.sqrt(2), 2])


# --- filling --------------------------------------------------------------------------------------


def test_a_cubic_metre_holds_exactly_125000():
    positions = fill(box((0, 0, 0), (1, 1, 1)), 1 / 50, STILL)
    assert len(positions) == 125_000
    assert positions.min() == pytest.approx(0.01)
    assert positions.max() == pytest.approx(0.99)


@settings(deadline=None, derandomize=True)
@given(
    st.integers(1, 60),
    st.floats(1e-4, 10, allow_nan=False),
    st.floats(-1e3, 1e3, allow_nan=False),
    st.floats(1e-2, 1e2, allow_nan=False),
)
def test_a_row_of_n_spacings_holds_n(n, spacing, start, scale):
    """Whatever the rounding of spacing, place and scale."""
    step = spacing / scale
    shape = box((start / scale, 0, 0), (start / scale + n * step, step, step))
    assert len(fill(shape, spacing, Pose(scale=scale))) == n


@pytest.mark.parametrize(
    ("length", "count"), [(1.4, 1), (1.5, 1), (1.5 + 1e-9, 1), (1.6, 2), (0.6, 1), (0.4, 0)]
)
def test_rows_are_rounded_to_the_nearest(length, count):
    """Centres inside the box count: the volume is kept as well as whole particles can."""
    assert len(fill(box((0, 0, 0), (length, 1, 1)), 1.0, STILL)) == count


@pytest.mark.parametrize("shape", [BALL, ROD])
def test_filled_volume(shape):
    region = shape_of(shape)
    spacing = 0.02
    positions = fill(region, spacing, STILL)
    assert len(positions) * spacing**3 == pytest.approx(region.volume(), rel=0.01)
    assert (region.distance(positions) <= 0).all()


def test_filled_mesh(octahedron):
    positions = fill(octahedron, 0.04, STILL)
    assert len(positions) * 0.04**3 == pytest.approx(4 / 3, rel=0.01)
    assert (np.abs(positions).sum(axis=1) <= 1 + 1e-6).all()


def test_slabs_make_no_difference(octahedron, monkeypatch):
    whole = fill(octahedron, 0.1, STILL)
    monkeypatch.setattr("runnel.shapes._SLAB", 900)
    assert (fill(octahedron, 0.1, STILL) == whole).all()


def test_the_lattice_turns_and_grows_with_the_shape():
    """Spacing is of the world: twice the size holds eight times the particles."""
    shape = box((0, 0, 0), (1, 1, 1))
    pose = Pose(euler_matrix((0, 0, 30)), np.array([5.0, 0, 0]), 2.0)
    positions = fill(shape, 0.1, pose)
    assert len(positions) == 8000
    local = pose.to_local(positions)
    assert np.allclose(np.unique(local[:, 0].round(9)), (np.arange(20) + 0.5) / 20)
    apart = np.linalg.norm(positions[1:] - positions[:-1], axis=1)
    assert apart.min() == pytest.approx(0.1)


def test_what_has_no_end_or_too_many_is_refused():
    with pytest.raises(SceneError, match="no end"):
        fill(shape_of(WALL), 0.1, STILL)
    with pytest.raises(SceneError, match="larger spacing"):
        fill(shape_of(BOX), 1e-6, STILL)
    with pytest.raises(SceneError, match="no end"):
        cross_section(shape_of(WALL), np.array([1.0, 0, 0]), 0.1, STILL)


# --- two dimensions -------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("reach", [(0.0, 1.0), (3.0, 4.0), (0.0, 0.0)])
def test_a_box_in_2d_has_no_end_along_the_ignored_axis(axis, reach):
    low, high = [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]
    low[axis], high[axis] = reach
    shape = box(low, high)
    positions = fill(shape, 0.1, Pose(translation=np.array([0.0, 7.0, 7.0])), axis)
    assert len(positions) == 100
    assert (positions[:, axis] == 0).all()
    assert inside(shape, Pose(), [[0.5, 0.5, 0.5]], axis).all()


@pytest.mark.parametrize(("centre", "radius"), [(0.0, 1.0), (0.6, 0.8), (5.0, 1.0)])
def test_a_sphere_in_2d_is_cut_at_zero_or_through_its_centre(centre, radius):
    shape = shape_of(params.Sphere(center=(0, centre, 0), radius=1.0))
    positions = fill(shape, 0.02, STILL, 1)
    assert len(positions) * 0.02**2 == pytest.approx(np.pi * radius**2, rel=0.01)
    assert not positions[:, 1].any()
    assert inside(shape, STILL, positions, 1).all()


@pytest.mark.parametrize(("turn", "move"), [(0, -0.3), (180, 0.3)])
def test_a_moved_sphere_is_cut_where_it_is_then(turn, move):
    """Its centre ends up 0.2 from the plane, above or below."""
    shape = shape_of(params.Sphere(center=(0, 0.5, 0), radius=1.0))
    pose = Pose(euler_matrix((turn, 0, 0)), np.array([0.0, move, 0.0]))
    assert len(fill(shape, 0.02, pose, 1)) * 0.02**2 == pytest.approx(np.pi * 0.96, rel=0.01)


def test_a_cylinder_in_2d_is_a_disc_or_a_rectangle():
    disc = shape_of(params.Cylinder(start=(0, -1, 0), end=(0, 1, 0), radius=0.5))
    assert len(fill(disc, 0.01, STILL, 1)) * 1e-4 == pytest.approx(np.pi / 4, rel=0.01)
    strip = shape_of(params.Cylinder(start=(0, 0, 0), end=(2, 0, 0), radius=0.5))
    assert len(fill(strip, 0.1, STILL, 1)) == 20 * 10


@pytest.mark.parametrize("axis", [1, 2])
def test_a_mesh_in_2d(octahedron, axis):
    """Cut along its own edges: the square |a| + |b| <= 1."""
    spacing = 0.0213  # no lattice point lies on the border
    positions = fill(octahedron, spacing, STILL, axis)
    assert len(positions) * spacing**2 == pytest.approx(2.0, rel=0.01)
    assert (np.abs(positions).sum(axis=1) <= 1 + 1e-6).all()


def test_turning_out_of_the_plane_is_refused():
    turned = Pose(euler_matrix((30, 0, 0)))
    with pytest.raises(SceneError, match="turn about y only"):
        fill(shape_of(BOX), 0.1, turned, 1)
    assert len(fill(shape_of(BOX), 0.1, Pose(euler_matrix((0, 30, 0))), 1)) == 100
    assert len(fill(shape_of(BALL), 0.1, Pose(euler_matrix((180, 0, 0))), 1)) > 0


# --- cross-sections -------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_section_of_a_box(axis):
    size = np.array([0.4, 0.6, 0.8])
    layer = cross_section(box((0, 0, 0), size), np.eye(3)[axis], 0.1, STILL)
    assert len(layer) == round(np.prod(np.delete(size, axis)) / 0.01)
    assert np.allclose(layer[:, axis], size[axis] / 2)
    assert np.allclose(layer.mean(axis=0), size / 2)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.tuples(*[st.floats(-1, 1)] * 3).filter(lambda v: np.linalg.norm(v) > 0.1))
def test_section_of_a_ball_in_any_direction(direction):
    unit = np.array(direction) / np.linalg.norm(direction)
    layer = cross_section(shape_of(BALL), unit, 0.02, STILL)
    assert len(layer) * 0.02**2 == pytest.approx(np.pi / 4, rel=0.01)
    assert np.abs((layer - np.array(BALL.center)) @ unit).max() < 1e-12
    gaps = np.linalg.norm(layer[1:] - layer[:-1], axis=1)
    assert gaps.min() == pytest.approx(0.02)


def test_a_nozzle_narrower_than_a_spacing_has_one_particle():
    layer = cross_section(shape_of(BALL), np.array([0, 0, 1.0]), 10.0, STILL)
    assert layer == pytest.approx(np.array([BALL.center]))


def test_section_in_2d():
    layer = cross_section(box((0, 5, 0), (1, 6, 1)), np.array([1.0, 0, 0]), 0.1, STILL, 1)
    assert len(layer) == 10
    assert np.allclose(np.sort(layer[:, 2]), 0.05 + 0.1 * np.arange(10))
