"""Velocity fields that forces pull towards: files, time, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runnel.errors import MeshError, SceneError
from runnel.export.bgeo import write_bgeo
from runnel.export.geometry import Geometry
from runnel.fields import flow, vdb
from runnel.forces import Currents, pack_forces
from runnel.scene import Scene

needs_openvdb = pytest.mark.skipif(not vdb.available(), reason="OpenVDB is not installed")


def lattice(*dims: int, step: float = 0.5, low: Any = (0, 0, 0)) -> np.ndarray:
    steps = np.meshgrid(*(np.arange(n) for n in dims), indexing="ij")
    return np.stack(steps, axis=-1).reshape(-1, 3) * step + np.array(low, float)


def write_points(path: Path, position: np.ndarray, velocity: np.ndarray) -> None:
    columns = {"P": position.astype(np.float32), "v": velocity.astype(np.float32)}
    write_bgeo(path, Geometry(len(position), points=columns))


def scene(folder: Path, **force: Any) -> Scene:
    source = {"fluid": "w", "shape": {"box": {"min": [0] * 3, "max": [1] * 3}}, "spacing": 0.1}
    parts = {"kind": "field", **force}
    data = {"fps": 10, "fluid": [{"name": "w"}], "source": [source], "force": [parts]}
    return Scene.from_dict(data, folder)


def at(field: flow.Flow, place: Any) -> np.ndarray:
    """(w u, w) at the node of a place."""
    x, y, z = np.rint((np.array(place) - field.origin) / field.voxel).astype(int)
    return field.values[z, y, x]


# --- points ---------------------------------------------------------------------------------------


def test_points_on_a_lattice_are_its_nodes() -> None:
    places = lattice(4, 3, 5, low=(0.1, -2, 3))
    u = np.random.default_rng(1).normal(size=places.shape)
    made = flow.flow_of_points(places, u, 0.5)
    for place, velocity in zip(places, u, strict=True):
        np.testing.assert_allclose(at(made, place), [*velocity, 1], rtol=0, atol=1e-5)
    outer = made.values.copy()
    outer[1:-2, 1:-2, 1:-2] = 0  # one beyond the last node for points between nodes
    assert abs(outer).max() < 1e-5
    assert made.fastest == pytest.approx(np.linalg.norm(u, axis=1).max(), rel=1e-6)


def test_scattered_points_keep_a_uniform_field() -> None:
    places = np.random.default_rng(2).uniform(-1, 1, (4000, 3))
    made = flow.flow_of_points(places, np.tile([1.0, 2.0, -3.0], (4000, 1)))
    assert made.voxel == pytest.approx(2 * (8 / 4000) ** (1 / 3), rel=0.01)
    inner = made.values[3:-4, 3:-4, 3:-4]
    np.testing.assert_allclose(inner, np.broadcast_to([1, 2, -3, 1], inner.shape), rtol=1e-5)


def test_flat_single_and_no_points() -> None:
    flat = flow.flow_of_points(lattice(5, 1, 5), np.ones((25, 3)))
    assert flat.voxel == pytest.approx(2 * (4 / 25) ** 0.5)
    assert at(flat, (1, 0, 1))[3] == 1
    with pytest.raises(MeshError, match="voxel_size"):
        flow.flow_of_points(np.zeros((1, 3)), np.ones((1, 3)))
    assert flow.flow_of_points(np.zeros((0, 3)), np.zeros((0, 3))).fastest == 0


def test_sizes_are_refused_before_memory_is_taken() -> None:
    far = np.array([[0, 0, 0], [1e4, 1e4, 1e4]])
    with pytest.raises(Exception, match=r"a field of 10+4 x .* nodes needs .* MB.*voxel_size"):
        flow.flow_of_points(far, np.ones((2, 3)), 0.01)


# --- OpenVDB --------------------------------------------------------------------------------------


def grid_of(values: np.ndarray, low: Any = (0, 0, 0), voxel: float = 0.5, name: str = "v") -> Any:
    grid = vdb.openvdb().Vec3SGrid((0.0, 0.0, 0.0))
    grid.copyFromArray(values.astype(np.float32), ijk=tuple(low))
    grid.transform = vdb.openvdb().createLinearTransform(voxelSize=voxel)
    grid.name = name
    return grid


def write_grids(path: Path, *grids: Any) -> Path:
    vdb.openvdb().write(str(path), grids=list(grids))
    return path


@needs_openvdb
def test_active_voxels_act_and_no_others(tmp_path: Path) -> None:
    """Zero is a velocity too, where a voxel is active."""
    u = np.random.default_rng(3).normal(size=(3, 4, 5, 3))
    u[1, 1, 1] = 0
    grid = grid_of(u, (-1, 7, 2))
    grid.getAccessor().setValueOn((0, 8, 3), (0.0, 0.0, 0.0))
    made = flow.read_flow(write_grids(tmp_path / "a.vdb", grid), 2.0)
    assert made.dims == (5, 6, 7)
    assert made.voxel == 0.5
    np.testing.assert_allclose(made.origin, [-1, 3, 0.5])
    inner = made.values[1:-1, 1:-1, 1:-1].transpose(2, 1, 0, 3)
    np.testing.assert_allclose(inner[..., :3], 2 * u, rtol=1e-6)
    assert (inner[..., 3] == 1).all()
    assert made.values.sum(axis=(0, 1, 2))[3] == 60


@needs_openvdb
def test_staggered_grids_have_components_on_faces(tmp_path: Path) -> None:
    """u = (x, 2 y, 3 z): half a voxel below each voxel's centre the face's own."""
    i, j, k = np.meshgrid(*(np.arange(6),) * 3, indexing="ij")
    faces = 0.5 * np.stack([i - 0.5, 2 * (j - 0.5), 3 * (k - 0.5)], axis=-1) + 10
    grid = grid_of(faces)
    grid.gridClass = vdb.openvdb().GridClass.STAGGERED
    made = flow.read_flow(write_grids(tmp_path / "mac.vdb", grid))
    for place in ([0, 0, 0], [1, 0.5, 2], [2, 2, 2]):
        np.testing.assert_allclose(at(made, place), [*(np.array(place) * [1, 2, 3] + 10), 1])


@needs_openvdb
def test_the_likeliest_grid_is_taken_and_others_are_named(tmp_path: Path) -> None:
    one = np.ones((2, 2, 2, 3))
    path = write_grids(tmp_path / "two.vdb", grid_of(one, name="rest"), grid_of(3 * one))
    assert flow.read_flow(path).fastest == pytest.approx(3 * 3**0.5)
    fog = vdb.openvdb().FloatGrid()
    fog.name = "density"
    with pytest.raises(MeshError, match=r"no grid of vectors; its grids: 'density' \(float\)"):
        flow.read_flow(write_grids(tmp_path / "fog.vdb", fog))
    with pytest.raises(MeshError, match="is empty"):
        flow.read_flow(write_grids(tmp_path / "none.vdb", vdb.openvdb().Vec3SGrid()))
    wide = grid_of(one)
    wide.copyFromArray(one.astype(np.float32), ijk=(5000, 5000, 5000))
    with pytest.raises(MeshError, match=r"wide\.vdb: a field of .* nodes needs"):
        flow.read_flow(write_grids(tmp_path / "wide.vdb", wide))


# --- scenes ---------------------------------------------------------------------------------------


def test_frames_of_a_sequence_are_mixed(tmp_path: Path) -> None:
    for frame in (2, 3, 4):
        write_points(tmp_path / f"gust_{frame:04d}.bgeo", lattice(3, 3, 3), np.full((27, 3), frame))
    it = scene(tmp_path, field="gust_####.bgeo", strength=2.0, voxel_size=0.5, field_scale=10)
    assert len(pack_forces(it, 0.0)) == 0
    assert [path.name for path in it.files()] == [f"gust_000{k}.bgeo" for k in (2, 3, 4)]
    currents, speeds, kept = Currents(it), [], []
    for time in (0.0, 0.1, 0.125, 0.2, 0.3, 9.0):  # frames 1, 2, 2.25, 3, 4, 91
        (now,) = currents.at(time)
        first, second = (float(f.values[1, 1, 1, 0]) for f in (now.before, now.after))
        speeds.append(first + now.share * (second - first))
        kept.append(len(currents._kept))
    assert speeds == pytest.approx([20, 20, 22.5, 30, 40, 40], rel=1e-6)
    assert max(kept) == 2
    assert currents.acceleration(0.3) == pytest.approx(2 * 40 * 3**0.5, rel=1e-6)


def test_a_field_acts_in_its_frames(tmp_path: Path) -> None:
    write_points(tmp_path / "a.bgeo", lattice(2, 2, 2), np.ones((8, 3)))
    currents = Currents(scene(tmp_path, field="a.bgeo", frames=[3, 4]))
    assert [len(currents.at(t)) for t in (0.0, 0.19, 0.21, 0.39, 0.41)] == [0, 0, 1, 1, 0]


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    write_bgeo(tmp_path / "still.bgeo", Geometry(1, points={"P": np.zeros((1, 3), np.float32)}))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, r"force\[0\]\.field: .*needs the file"),
        ({"field": "a.txt"}, "a field file ends in"),
        ({"field": "b.vdb"}, "there is no file"),
        ({"field": "../b.vdb"}, "outside of the scene's folder"),
        ({"field": "still.bgeo", "field_frames": [1, 2]}, r"field_frames.*belongs to sequences"),
        ({"kind": "wind", "field": "still.bgeo"}, r'belongs to kind = "field"'),
    ]
    for force, message in wrong:
        with pytest.raises(SceneError, match=message):
            scene(tmp_path, **force)
    with pytest.raises(SceneError, match=r"force\[0\]\.field: .*no velocities"):
        Currents(scene(tmp_path, field="still.bgeo")).at(0.0)
