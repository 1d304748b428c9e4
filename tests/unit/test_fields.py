"""Meshes to sparse fields: distances, volumes, awkward meshes, memory, determinism."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numba
import numpy as np
import pytest
from scipy.spatial import cKDTree

from runnel.errors import MeshError, RunnelError
from runnel.fields.grid import FieldSettings, SparseField, default_settings
from runnel.fields.rasterize import field_of_mesh
from runnel.fields.thin import thin_note, thin_share
from runnel.meshes import Mesh, read_mesh

from . import field_meshes as made

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "validation" / "meshes"

# Volumes of the folder's README. Of meshes with holes: of the solid with holes closed, known from
# the closed bunny, and from winding numbers (w > 1/2) give or take their sampling error.
CLOSED = {
    "7_8ths_cube.stl": 56000.0,
    "bad_cube.off": 8.0,
    "bunny_closed_3k.off": 0.000753934,
    "dragon_50k.obj": 0.109044,
    "joined_tetrahedra.obj": 0.866025,
    "nm_closed_cubes.off": 2.0,
    "spot.obj": 0.718259,
    "torus.stl": 4.91755,
    "unit_sphere.stl": 4.15274,
}
WITH_HOLES = {
    "stanford_bunny_holes.obj": (0.000753934, 0.005),
    "suzanne.obj": (2.159, 0.01),
    "utah_teapot.obj": (25.96, 0.01),
}
OPEN = ("degenerated_sd.off", "open_cube.off", "soup.stl", "u_sheet.off")


def shared(name: str) -> Mesh:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"validation mesh {name} is not in {SHARED}")
    return read_mesh(path)


def field_at(mesh: Mesh, voxels: int = 64, **settings: object) -> SparseField:
    """With so many voxels along its longest side, and the band of a solver with that spacing."""
    size = float((mesh.bounds[1] - mesh.bounds[0]).max())
    settings = {"voxel": size / voxels, **settings}
    return field_of_mesh(mesh, default_settings(size / voxels, **settings))  # type: ignore[arg-type]


def solid_volume(field: SparseField) -> float:
    """Of the mesh, whichever side is solid."""
    low, high = field.bounds
    volume = field.volume()
    return float(np.prod(high - low)) - volume if field.background < 0 else volume


def same(a: SparseField, b: SparseField, *, index: bool = True) -> bool:
    pairs = [(a.table, b.table), (a.values, b.values)] + ([(a.index, b.index)] if index else [])
    return all(np.array_equal(x, y) for x, y in pairs)  # type: ignore[arg-type]


# --- distances and volumes ------------------------------------------------------------------------


EXACT = {
    "sphere": (made.sphere(rows=192), lambda p: np.linalg.norm(p, axis=1) - 1.0),
    "torus": (made.torus(), made.torus_distance),
    "cube": (
        made.cube((-0.31, 0.07, 0.2)),
        lambda p: made.box_distance(p, (-0.31, 0.07, 0.2), (0.69, 1.07, 1.2)),
    ),
    "cube on the lattice": (made.cube(), lambda p: made.box_distance(p, (0, 0, 0), (1, 1, 1))),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_distances_within_half_a_voxel_in_the_band(name: str) -> None:
    """ORACLES 26. At voxels they are exact; between them, edges cost most."""
    mesh, exact = EXACT[name]
    field = field_at(mesh)
    places = field.voxel_places().reshape(-1, 3)
    truth = np.clip(exact(places), -field.band, field.band)
    assert np.abs(field.values.ravel() - truth).max() < 0.02 * field.voxel  # tessellation
    rng = np.random.default_rng(1)
    points = rng.uniform(*field.bounds, (200_000, 3))
    truth = exact(points)
    needed = np.abs(truth) < field.band - np.sqrt(3) * field.voxel
    error = np.abs(field.distance(points)[needed] - truth[needed])
    assert error.max() < 0.5 * field.voxel
    assert error.mean() < 0.02 * field.voxel


def test_gradient_points_away_from_a_sphere() -> None:
    field = field_at(made.sphere(rows=192))
    rng = np.random.default_rng(2)
    direction = rng.normal(size=(5000, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    gradient = field.gradient(direction * rng.uniform(0.95, 1.05, (5000, 1)))
    assert (np.einsum("ij,ij->i", gradient, direction) > 0.97).all()
    assert np.abs(np.linalg.norm(gradient, axis=1) - 1).max() < 0.03


def test_far_away_is_the_band() -> None:
    mesh = made.sphere()
    for mode, sign in (("outside", 1.0), ("inside", -1.0)):
        field = field_at(mesh, mode=mode)
        far = field.distance([[0, 0, 0], [1.3, 0, 0], [99, 0, 0], [-1e9, 3, 1e9]])
        np.testing.assert_allclose(far, sign * field.band * np.array([-1, 1, 1, 1]))
        assert not field.gradient([[0, 0, 0], [99, 0, 0]]).any()


@pytest.mark.parametrize("name", CLOSED)
def test_volumes_of_closed_meshes_within_one_percent(name: str) -> None:
    """ORACLES 26."""
    mesh = shared(name)
    outside = field_at(mesh)
    assert outside.volume() == pytest.approx(CLOSED[name], rel=0.01)
    assert not [note for note in outside.notes if "inside" in note]
    inside = field_at(mesh, mode="inside")
    assert solid_volume(inside) == pytest.approx(CLOSED[name], rel=0.01)
    assert inside.background < 0


@pytest.mark.parametrize("name", WITH_HOLES)
def test_holes_are_closed(name: str) -> None:
    volume, tolerance = WITH_HOLES[name]
    assert field_at(shared(name)).volume() == pytest.approx(volume, rel=tolerance)


@pytest.mark.parametrize("name", [*CLOSED, *WITH_HOLES, *OPEN])
def test_every_mesh_as_shell(name: str) -> None:
    """The surface lies inside everywhere: nothing can leak, whatever the mesh."""
    mesh = shared(name)
    field = field_at(mesh, 48, mode="shell")
    rng = np.random.default_rng(3)
    a, b, c = np.moveaxis(mesh.vertices[mesh.triangles], 1, 0)
    for u, v in rng.dirichlet((1, 1, 1), 5)[:, :2]:
        on_surface = u * a + v * b + (1 - u - v) * c
        assert field.distance(on_surface).max() < 0
    assert np.isfinite(field.values).all()


@pytest.mark.parametrize("name", OPEN)
def test_open_meshes_as_solids_become_walls(name: str) -> None:
    mesh = shared(name)
    field = field_at(mesh, 48)
    assert any("have no inside" in note for note in field.notes)
    middle = mesh.vertices[mesh.triangles].mean(axis=1)
    assert (field.distance(middle) < 0.5 * field.voxel).all()


def test_open_tank_as_a_container_gets_a_lid() -> None:
    field = field_at(shared("open_cube.off"), mode="inside")
    assert solid_volume(field) == pytest.approx(1e6, rel=0.01)
    assert "1 holes" in field.notes[0]


# --- what artists make ----------------------------------------------------------------------------


def test_overlapping_parts_are_their_union() -> None:
    """Volume, and distances inside: buried faces are not seen."""
    mesh = made.joined(made.cube((0, 0, 0)), made.cube((0.6, 0.5, 0.3)))
    field = field_at(mesh, 48)
    assert field.volume() == pytest.approx(2 - 0.4 * 0.5 * 0.7, rel=0.005)
    rng = np.random.default_rng(4)
    points = rng.uniform(-0.1, 1.7, (40_000, 3))
    one = made.box_distance(points, (0, 0, 0), (1, 1, 1))
    two = made.box_distance(points, (0.6, 0.5, 0.3), (1.6, 1.5, 1.3))
    union = np.minimum(one, two)
    distance = field.distance(points)
    assert (distance[union < -field.voxel] < 0).all()
    # Inside, against points all over the surface of the union.
    sheet = np.stack(np.meshgrid(*[np.linspace(0, 1, 201)] * 2), axis=-1).reshape(-1, 2)
    faces = [np.insert(sheet, axis, end, axis=1) for axis in range(3) for end in (0.0, 1.0)]
    faces = np.concatenate(faces)
    first = faces[made.box_distance(faces, (0.6, 0.5, 0.3), (1.6, 1.5, 1.3)) >= 0]
    second = faces + np.array([0.6, 0.5, 0.3])
    second = second[made.box_distance(second, (0, 0, 0), (1, 1, 1)) >= 0]
    inner = union < 0
    gap, _ = cKDTree(np.concatenate([first, second])).query(points[inner])
    known = gap < field.band - np.sqrt(3) * field.voxel
    error = np.abs(distance[inner] + gap)[known]
    assert error.max() < 0.5 * field.voxel
    assert error.mean() < 0.05 * field.voxel


@pytest.mark.parametrize("share", [0.05, 0.5, 1.0])
def test_flipped_triangles_change_nothing(share: float) -> None:
    mesh = made.joined(made.torus(rows=40, columns=20), made.sphere(0.5, 32, (0.8, 0, 0)))
    chosen = np.random.default_rng(5).random(len(mesh.triangles)) < share
    a, b = field_at(mesh, 48), field_at(made.flipped(mesh, chosen), 48)
    assert np.array_equal(a.table, b.table)
    assert np.abs(a.values - b.values).max() < 1e-5 * a.voxel  # corners come in another order


@pytest.mark.parametrize("across", [1, 3, 12])
def test_holes_of_a_few_voxels_are_closed(across: int) -> None:
    """Larger ones too as long as they are small beside the mesh; then a note says so."""
    mesh = made.torus()
    hole = np.array([1.0, 0.0, 0.4])
    voxel = 2.8 / 64
    middle = mesh.vertices[mesh.triangles].mean(axis=1)
    kept = np.linalg.norm(middle - hole, axis=1) > across / 2 * voxel
    holed = Mesh(mesh.vertices, mesh.triangles[kept])
    assert holed.open_edges > 0
    field, whole = field_at(holed), field_at(mesh)
    assert field.volume() == pytest.approx(whole.volume(), rel=0.01)
    up = np.array([0, 0, 2.5 * voxel])
    assert field.distance([hole - up])[0] < 0
    assert field.distance([hole + up])[0] > 0
    assert bool(field.notes) == (across == 12)


def test_cracks_between_parts_are_closed() -> None:
    """Six plates with gaps of a voxel between them: no edge is shared, nothing is welded."""
    whole = made.turned(made.cube())
    parts = []
    for side in range(6):
        plate = Mesh(whole.vertices, whole.triangles[2 * side : 2 * side + 2])
        middle = plate.vertices[plate.triangles].mean(axis=(0, 1))
        parts.append(Mesh(middle + (plate.vertices - middle) * 0.985, plate.triangles))
    field = field_at(made.joined(*parts), 64)
    assert field.volume() == pytest.approx(1.0, rel=0.02)
    assert field.distance([whole.vertices.mean(axis=0)])[0] < 0


def test_doubled_and_flat_triangles_do_no_harm() -> None:
    mesh = made.torus(rows=40, columns=20)
    rng = np.random.default_rng(6)
    doubled = mesh.triangles[rng.integers(0, len(mesh.triangles), 300)]
    flat = np.repeat(mesh.triangles[:200, :2], [1, 2], axis=1)[:, :3]
    points = np.repeat(mesh.triangles[:50, :1], 3, axis=1)
    triangles = np.concatenate([mesh.triangles, doubled, doubled[:, ::-1], flat, points])
    messy = Mesh(mesh.vertices, triangles.astype(np.int32))
    assert same(field_at(mesh, 48), field_at(messy, 48), index=False)


def test_a_mesh_of_doubled_triangles_keeps_its_holes_closed() -> None:
    mesh = made.torus(rows=80, columns=40)
    kept = mesh.triangles[8:]
    field = field_at(Mesh(mesh.vertices, np.concatenate([kept, kept[:, ::-1]])), 48)
    assert field.volume() == pytest.approx(field_at(mesh, 48).volume(), rel=0.01)


def test_seams_that_are_not_welded_let_nothing_in() -> None:
    """T-junctions, and vertices that differ by rounding."""
    mesh = made.turned(made.cube())
    rng = np.random.default_rng(7)
    soup = mesh.vertices[mesh.triangles].reshape(-1, 3)
    soup = soup + rng.uniform(-1e-6, 1e-6, soup.shape)
    field = field_at(Mesh(soup, np.arange(len(soup), dtype=np.int32).reshape(-1, 3)), 64)
    assert field.volume() == pytest.approx(1.0, rel=0.01)
    a, b, c = mesh.triangles[0]
    vertices = np.concatenate([mesh.vertices, [(mesh.vertices[a] + mesh.vertices[b]) / 2]])
    split = np.array([[a, 8, c], [8, b, c]], np.int32)
    field = field_at(Mesh(vertices, np.concatenate([split, mesh.triangles[1:]])), 64)
    assert field.volume() == pytest.approx(1.0, rel=0.01)
    assert not field.notes


def test_nested_parts_are_filled_unless_cavities_are_kept() -> None:
    hollow = made.joined(made.cube(), made.flipped(made.cube((0.25, 0.25, 0.25), 0.5)))
    assert field_at(hollow, 48).volume() == pytest.approx(1.0, rel=0.01)
    kept = field_at(hollow, 48, cavities=True)
    assert kept.volume() == pytest.approx(1 - 0.125, rel=0.01)
    assert kept.distance([[0.5, 0.5, 0.5]])[0] == pytest.approx(kept.band)
    solid = made.joined(made.cube(), made.cube((0.25, 0.25, 0.25), 0.5))
    assert field_at(solid, 48, cavities=True).volume() == pytest.approx(1.0, rel=0.01)


def test_faces_on_the_lattice_leak_nothing() -> None:
    """Slopes through voxels themselves: rounding may put those on either side."""
    spikes = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], float)
    faces = [[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4], [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]]
    octahedron = Mesh(spikes, np.array(faces, np.int32))
    for voxels in (16, 32, 64):
        field = field_at(octahedron, voxels)
        assert field.volume() == pytest.approx(4 / 3, rel=0.04)


def test_offset_and_thickness_move_the_surface() -> None:
    mesh = made.sphere(rows=96)
    for mode, radius in (("outside", 1.1), ("inside", 0.9)):
        field = field_at(mesh, mode=mode, offset=0.1)
        assert solid_volume(field) == pytest.approx(4 / 3 * np.pi * radius**3, rel=0.01)
    shell = field_at(mesh, mode="shell", thickness=0.08, offset=0.02)
    expected = 4 / 3 * np.pi * (1.1**3 - 0.9**3)
    assert shell.volume() == pytest.approx(expected, rel=0.01)


def test_thin_parts_are_told() -> None:
    plate = made.turned(made.cube(size=(1, 1, 0.02)))
    field = field_at(plate)
    assert thin_share(field, plate) > 0.9
    assert "thinner than two voxels" in (thin_note(field, plate, "plate") or "")
    thick = made.turned(made.cube())
    assert thin_note(field_at(thick), thick, "cube") is None


@pytest.mark.parametrize(("offset", "thin"), [(0.0, True), (0.1, True), (0.2, True), (0.8, False)])
def test_an_offset_ends_thinness_only_where_it_is_enough(offset: float, thin: bool) -> None:
    """A plate of a voxel and an offset on both sides: thin below two voxels in all."""
    voxel = 0.05
    plate = made.cube((0, 0, 0.3 * voxel), (2.0, 2.0, voxel))
    settings = FieldSettings(voxel=voxel, band=4 * voxel, offset=offset * voxel)
    assert (thin_share(field_of_mesh(plate, settings), plate) > 0.5) == thin  # without its edges


# --- nearest triangles ----------------------------------------------------------------------------


def test_index_names_the_nearest_triangle() -> None:
    """Against all triangles one by one."""
    from runnel.fields.geometry import nearest_weights

    mesh = made.torus(rows=24, columns=12)
    field = field_at(mesh, 32)
    places, index = field.voxel_places().reshape(-1, 3), field.index.ravel()
    chosen = np.flatnonzero(np.abs(field.values.ravel()) < field.band)[::97]
    corners = mesh.vertices[mesh.triangles].reshape(-1, 9)
    for n in chosen:
        best = []
        for t in range(len(corners)):
            weights = np.array(nearest_weights(corners, t, *places[n]))
            best.append(np.linalg.norm(weights @ corners[t].reshape(3, 3) - places[n]))
        assert best[index[n]] == pytest.approx(min(best), abs=1e-9)
        assert abs(field.values.ravel()[n]) == pytest.approx(min(best), abs=1e-6)
    assert np.array_equal(field.nearest(places[chosen]), index[chosen])


def test_of_equally_near_triangles_the_first_counts() -> None:
    mesh = made.cube()
    twice = Mesh(mesh.vertices, np.concatenate([mesh.triangles, mesh.triangles]))
    index = field_at(twice, 24).index
    assert index is not None
    assert index.max() < 12


# --- the same bits --------------------------------------------------------------------------------


def test_order_of_triangles_does_not_matter() -> None:
    mesh = made.joined(made.torus(rows=60, columns=30), made.sphere(0.5, 32, (0.8, 0, 0)))
    order = np.random.default_rng(8).permutation(len(mesh.triangles))
    a, b = field_at(mesh, 48), field_at(Mesh(mesh.vertices, mesh.triangles[order]), 48)
    assert same(a, b, index=False)
    assert a.index is not None
    assert b.index is not None
    known = a.index >= 0
    assert (a.index[known] == order[b.index[known]]).mean() > 0.8  # the rest: equally near


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs two threads")
def test_number_of_threads_does_not_matter() -> None:
    mesh = made.joined(made.torus(rows=60, columns=30), made.sphere(0.5, 32, (0.8, 0, 0)))
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        one = field_at(mesh, 48)
        numba.set_num_threads(2)
        two = field_at(mesh, 48)
    finally:
        numba.set_num_threads(before)
    assert same(one, two)


# --- limits ---------------------------------------------------------------------------------------


def test_memory_follows_the_surface() -> None:
    mesh = made.torus()
    sizes = [field_at(mesh, n).nbytes for n in (64, 128, 256)]
    assert 3.2 < sizes[1] / sizes[0] < 4.8
    assert 3.2 < sizes[2] / sizes[1] < 4.8


def test_too_large_says_what_fits() -> None:
    mesh = made.torus()
    settings = FieldSettings(voxel=1e-3, band=4e-3, memory=20 * 2**20, name="ring.obj")
    with pytest.raises(
        RunnelError, match=r"ring\.obj.*2800 voxels.*MB.*voxel size of at least"
    ) as told:
        field_of_mesh(mesh, settings)
    fits = float(str(told.value).split("at least ")[1].split()[0])
    field = field_of_mesh(mesh, replace(settings, voxel=fits, band=settings.band + 1.75 * fits))
    assert field.nbytes < settings.memory  # less than on the way to it
    with pytest.raises(RunnelError, match="voxel size of at least"):
        field_of_mesh(mesh, replace(settings, voxel=0.8 * fits, band=settings.band + 1.4 * fits))
    with pytest.raises(RunnelError, match="voxel size of at least"):
        field_of_mesh(mesh, FieldSettings(voxel=1e-7, band=1e-6, memory=settings.memory))
    with pytest.raises(RunnelError, match="too far"):
        field_of_mesh(made.cube((1e12, 0, 0)), FieldSettings(voxel=0.1, band=0.3))


def test_what_is_no_surface_is_refused() -> None:
    settings = FieldSettings(voxel=0.1, band=0.3, name="bad.ply")
    mesh = made.cube()
    with pytest.raises(MeshError, match=r"bad\.ply: holds no triangles"):
        field_of_mesh(Mesh(mesh.vertices, mesh.triangles[:0]), settings)
    broken = mesh.vertices.copy()
    broken[3, 1] = np.nan
    with pytest.raises(MeshError, match="not a number"):
        field_of_mesh(Mesh(broken, mesh.triangles), settings)
    line = np.repeat(np.arange(3.0)[:, None], 3, axis=1)
    with pytest.raises(MeshError, match="has an area"):
        field_of_mesh(Mesh(line, np.array([[0, 1, 2]], np.int32)), settings)
    with pytest.raises(RunnelError, match="must be above 0"):
        FieldSettings(voxel=0.0, band=1.0)
    with pytest.raises(RunnelError, match="one of"):
        FieldSettings(voxel=0.1, band=1.0, mode="solid")  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["outside", "inside", "shell"])
def test_random_triangles_make_a_field(mode: str) -> None:
    rng = np.random.default_rng(9)
    for size in (0.05, 1.0):
        start = rng.uniform(-1, 1, (300, 1, 3))
        corners = start + size * rng.normal(size=(300, 3, 3))
        soup = Mesh(corners.reshape(-1, 3), np.arange(900, dtype=np.int32).reshape(-1, 3))
        field = field_at(soup, 32, mode=mode)
        assert np.isfinite(field.values).all()
        assert (np.abs(field.values) <= np.float32(field.band)).all()


def test_many_triangles_in_a_second_or_so() -> None:
    """100k triangles, 128 voxels: a second on two free cores; others may share them here."""
    mesh = made.torus(rows=316, columns=158)
    field_at(mesh, 32)
    start = time.process_time()
    field_at(mesh, 128)
    assert time.process_time() - start < 6.0
