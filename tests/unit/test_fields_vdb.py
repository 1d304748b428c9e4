"""Fields as .vdb files, with OpenVDB itself as the other side."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from runnel import Simulation
from runnel.cli import main
from runnel.collider_fields import MeshField
from runnel.errors import MeshError, RunnelError
from runnel.export.bgeo_read import read_bgeo
from runnel.fields import vdb
from runnel.fields.grid import FieldSettings, default_settings
from runnel.fields.rasterize import field_of_mesh
from runnel.fields.velocity import with_velocity
from runnel.scene import Scene
from runnel.solids import deformed, solids_of

from . import field_meshes as made

SPHERE = Path(__file__).resolve().parents[2].parent / "shared/validation/meshes/sphere.vdb"
needs_openvdb = pytest.mark.skipif(
    not vdb.available(), reason="OpenVDB's Python module is not installed (pip install runnel[vdb])"
)


def sphere_file() -> Path:
    if not SPHERE.is_file():
        pytest.skip(f"validation file {SPHERE} is not there")
    return SPHERE


@needs_openvdb
@pytest.mark.parametrize("mode", ["outside", "inside", "shell"])
def test_round_trip_keeps_every_bit(mode: str, tmp_path: Path) -> None:
    mesh = made.torus()
    field = field_of_mesh(mesh, default_settings(2.8 / 48, mode=mode))  # type: ignore[arg-type]
    vdb.write_vdb(tmp_path / "ring.vdb", field)
    again = vdb.read_vdb(tmp_path / "ring.vdb")
    assert (again.mode, again.voxel, again.band) == (mode, field.voxel, field.band)
    assert again.background == field.background
    points = np.random.default_rng(1).uniform(-2, 2, (100_000, 3))
    np.testing.assert_allclose(again.distance(points), field.distance(points), atol=1e-9)
    own, other = (
        set(map(bytes, f.values[(np.abs(f.values) < 0.9 * f.band).any(axis=1)]))
        for f in (field, again)
    )
    assert own == other
    assert [file.name for file in tmp_path.iterdir()] == ["ring.vdb"]


@needs_openvdb
def test_written_level_set_is_a_proper_one(tmp_path: Path) -> None:
    """Class, transform, background; active are the voxels within the band and no others; the
    surface that OpenVDB finds has our volume."""
    mesh = made.torus()
    field = field_of_mesh(mesh, default_settings(2.8 / 64))
    field = with_velocity(field, mesh, np.cross([0, 0, 1.0], mesh.vertices))
    vdb.write_vdb(tmp_path / "ring.vdb", field, name="ring")
    grids = {grid.name: grid for grid in vdb.openvdb().readAll(str(tmp_path / "ring.vdb"))[0]}
    assert sorted(grids) == ["closest_triangle", "ring", "velocity"]
    grid = grids["ring"]
    assert grid.gridClass == vdb.openvdb().GridClass.LEVEL_SET
    assert grid.transform.voxelSize() == pytest.approx((field.voxel,) * 3)
    assert grid.background == pytest.approx(field.band)
    own = np.abs(field.values.reshape(-1, 9, 9, 9)[:, :8, :8, :8]) < np.float32(field.band)
    assert grid.activeVoxelCount() == np.count_nonzero(own)
    low, high = grid.evalMinMax()
    assert -field.band < low < -0.9 * field.band
    assert 0.9 * field.band < high < field.band
    assert abs(vdb.surface_of(grid).volume()) == pytest.approx(field.volume(), rel=0.01)
    reader = grid.getConstAccessor()
    assert reader.getValue((round(1.0 / field.voxel), 0, 0)) == pytest.approx(-field.band)
    assert reader.getValue((0, 0, 0)) == pytest.approx(field.band)
    place = np.round(np.array([1.0, 0.0, 0.4]) / field.voxel)
    velocity = grids["velocity"].getConstAccessor().getValue(tuple(int(c) for c in place))
    assert velocity == pytest.approx((0, 1.0, 0), abs=0.05)
    nearest = grids["closest_triangle"].getConstAccessor().getValue(tuple(int(c) for c in place))
    assert nearest == field.nearest([place * field.voxel])[0]


@needs_openvdb
def test_agrees_with_the_level_set_openvdb_makes() -> None:
    """Another program's field of the same mesh; away from the surface theirs is approximate."""
    mesh = made.turned(made.torus(rows=80, columns=40))
    field = field_of_mesh(mesh, default_settings(2.8 / 48))
    module = vdb.openvdb()
    theirs = module.FloatGrid.createLevelSetFromPolygons(
        mesh.vertices.astype(np.float32), triangles=mesh.triangles.astype(np.uint32),
        transform=module.createLinearTransform(voxelSize=field.voxel), halfWidth=6.0,
    )  # fmt: skip
    other = vdb.field_of_grid(theirs)
    points = np.random.default_rng(2).uniform(*field.bounds, (100_000, 3))
    a, b = field.distance(points), other.distance(points)
    known = np.abs(a) < 0.6 * field.band
    assert np.abs(a - b)[known].max() < 0.3 * field.voxel
    assert np.abs(a - b)[known].mean() < 0.01 * field.voxel


@needs_openvdb
def test_a_file_of_another_program() -> None:
    field = vdb.read_vdb(sphere_file())
    assert (field.voxel, field.band) == pytest.approx((0.05, 0.15), rel=1e-3)
    assert field.volume() == pytest.approx(4 / 3 * np.pi * 27, rel=0.001)
    points = np.random.default_rng(3).normal(size=(20_000, 3))
    points *= np.random.default_rng(4).uniform(2.93, 3.07, (20_000, 1)) / np.linalg.norm(
        points, axis=1, keepdims=True
    )
    truth = np.linalg.norm(points, axis=1) - 3
    assert np.abs(field.distance(points) - truth).max() < 0.05 * field.voxel
    wide = vdb.read_vdb(sphere_file(), band=0.4, mode="inside")
    assert wide.distance([[0, 0, 2.7], [0, 0, 3.3]]) == pytest.approx([0.3, -0.3], abs=0.01)
    assert "measured anew" in wide.notes[0]
    grown = vdb.read_vdb(sphere_file(), offset=0.05)
    assert grown.volume() == pytest.approx(4 / 3 * np.pi * 3.05**3, rel=0.001)


@needs_openvdb
def test_a_level_set_is_seen_in_exports_and_pictures(tmp_path: Path) -> None:
    """A run keeps its surface, closed and facing outwards, where the scene puts it."""
    vdb.write_vdb(
        tmp_path / "ball.vdb",
        field_of_mesh(made.sphere(0.2, 48), FieldSettings(voxel=0.02, band=0.06)),
    )
    table = {
        "frames": [1, 1], "fluid": [{"name": "water"}],
        "source": [{"fluid": "water", "spacing": 0.1,
                    "shape": {"box": {"min": [-0.2, -0.2, 0.5], "max": [0.2, 0.2, 0.7]}}}],
        "collider": [{"name": "ball", "shape": {"mesh": "ball.vdb"}, "position": [0, 0, 0.2]}],
    }  # fmt: skip
    (tmp_path / "scene.json").write_text(json.dumps(table))
    run = ["run", str(tmp_path / "scene.json"), "--out", str(tmp_path / "cache"), "--quiet"]
    assert main([*run, "--device", "reference"]) == 0
    (solid,) = solids_of(Scene.load(tmp_path / "scene.json"))
    assert solid.mesh is not None
    assert solid.mesh.volume() == pytest.approx(4 / 3 * np.pi * 0.2**3, rel=0.02)
    out = tmp_path / "out"
    export = ["export", str(tmp_path / "cache"), "--format", "bgeo", "--colliders"]
    assert main([*export, "--out", str(out), "--quiet"]) == 0
    points = read_bgeo(out / "colliders.0001.bgeo").points["P"]
    np.testing.assert_allclose(points.min(axis=0), [-0.2, -0.2, 0.0], atol=0.01)
    np.testing.assert_allclose(points.max(axis=0), [0.2, 0.2, 0.4], atol=0.01)


def write_balls(folder: Path, speed: float, growth: float, frames: int) -> None:
    """A ball that moves along x and grows [m per frame], as level sets that OpenVDB makes."""
    module = vdb.openvdb()
    for k in range(frames):
        ball = module.createLevelSetSphere(
            0.3 + growth * k, center=(speed * k, 0.0, 0.0), voxelSize=0.03, halfWidth=5.0
        )
        module.write(str(folder / f"ball_{k + 1:04d}.vdb"), grids=[ball])


def ball_scene(folder: Path, fps: float) -> Scene:
    """A drop ahead of the ball."""
    drop = {"box": {"min": [0.37, 0, 0], "max": [0.41, 0.04, 0.04]}}
    table = {
        "fps": fps, "frames": [1, 9], "fluid": [{"name": "water"}],
        "solver": {"gravity": [0, 0, 0]},
        "source": [{"fluid": "water", "spacing": 0.04, "shape": drop}],
        "collider": [{"name": "ball", "shape": {"mesh": "ball_####.vdb"}}],
    }  # fmt: skip
    return Scene.from_dict(table, folder)


@needs_openvdb
def test_level_sets_that_move_know_their_velocities(tmp_path: Path) -> None:
    """Of a ball that moves and grows u + g n, between frames the distances are mixed."""
    write_balls(tmp_path, 0.02, 0.01, 3)
    it = ball_scene(tmp_path, 10)
    field = MeshField(it, it.colliders[0], it.colliders[0].shape, "c")
    before, now, share = field.at(0.15)
    assert share == pytest.approx(0.5)
    n = np.random.default_rng(1).normal(size=(200, 3))
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    found = now.velocity_at(0.32 * n + [0.04, 0, 0])
    # Distances differ by what the surface moved, to first order; the ball is 16 times as large.
    expected = [0.2, 0, 0] + 0.1 * n
    np.testing.assert_allclose(found, expected, atol=0.012)
    middle = 0.5 * (before.distance(n * 0.4) + now.distance(n * 0.4))
    exact = np.linalg.norm(n * 0.4 - [0.03, 0, 0], axis=1) - 0.315
    np.testing.assert_allclose(middle, exact, atol=2e-3)
    assert field.take_notes() == []
    mesh = deformed(it, solids_of(it)[0], 3)
    assert mesh.vertices[:, 0].max() == pytest.approx(0.36, abs=2e-3)


@needs_openvdb
def test_level_sets_that_move_push(tmp_path: Path, backend_name: str) -> None:
    write_balls(tmp_path, 0.02, 0.0, 9)
    with Simulation(ball_scene(tmp_path, 20), backend_name) as sim:
        sim.advance(9)
        (place,), (velocity,) = sim.particles["position"], sim.particles["velocity"]
    assert np.linalg.norm(place - [0.16, 0, 0]) > 0.3
    assert velocity[0] == pytest.approx(0.4, abs=0.05)


@needs_openvdb
def test_level_sets_that_leap_are_told_of(tmp_path: Path) -> None:
    write_balls(tmp_path, 0.4, 0.0, 2)
    it = ball_scene(tmp_path, 20)
    field = MeshField(it, it.colliders[0], it.colliders[0].shape, "c")
    field.at(0.04)
    assert "farther in a frame than its distances reach" in field.take_notes()[0]


@needs_openvdb
def test_water_flows_around_a_file_of_another_program(tmp_path: Path) -> None:
    """Houdini's sphere of 3 m, made small, under a splash: all of it stays outside."""
    shutil.copy(sphere_file(), tmp_path / "ball.vdb")
    table = {
        "frames": [1, 8], "fluid": [{"name": "water"}],
        "source": [{"fluid": "water", "spacing": 0.05, "velocity": [0, 0, -4],
                    "shape": {"box": {"min": [-0.2, -0.2, 0.35], "max": [0.2, 0.2, 0.75]}}}],
        "collider": [{"name": "ball", "shape": {"mesh": "ball.vdb"}, "scale": 0.1}],
    }  # fmt: skip
    touched = 0
    with Simulation(Scene.from_dict(table, tmp_path), timed=False) as sim:
        for frame in range(2, 9):
            sim.advance(frame)
            away = np.linalg.norm(sim.particles["position"], axis=1)
            assert away.min() > 0.3
            touched = max(touched, np.count_nonzero(away < 0.35))
        assert touched > 20
        assert sim.particles["position"][:, 2].min() < 0


@needs_openvdb
def test_wrong_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(MeshError, match=r"none\.vdb: there is no such file"):
        vdb.read_vdb(tmp_path / "none.vdb")
    (tmp_path / "text.vdb").write_text("not a grid")
    with pytest.raises(MeshError, match=r"text\.vdb: is not a \.vdb file"):
        vdb.read_vdb(tmp_path / "text.vdb")
    module = vdb.openvdb()
    fog = module.FloatGrid()
    fog.name = "density"
    fog.fill((0, 0, 0), (4, 4, 4), 1.0)
    module.write(str(tmp_path / "fog.vdb"), grids=[fog])
    with pytest.raises(MeshError, match=r"fog\.vdb: holds no level set.*'density'"):
        vdb.read_vdb(tmp_path / "fog.vdb")
    turned = module.createLevelSetSphere(1.0, voxelSize=0.1)
    turned.transform.preRotate(0.5, module.Axis.Z if hasattr(module, "Axis") else module.Z)
    with pytest.raises(MeshError, match="turned, sheared"):
        vdb.field_of_grid(turned)
    ball = module.createLevelSetSphere(1.0, voxelSize=0.01)
    with pytest.raises(RunnelError, match="Resample it with voxels of at least"):
        vdb.field_of_grid(ball, memory=2**20)


def test_without_openvdb_the_message_says_what_to_install() -> None:
    """And a field from a mesh needs none."""
    code = (
        "import sys\n"
        "for name in ('openvdb', 'pyopenvdb', 'bpy'):\n"
        "    sys.modules[name] = None\n"
        "from runnel.fields import vdb\n"
        "del sys.modules['openvdb'], sys.modules['pyopenvdb'], sys.modules['bpy']\n"
        "import importlib.util as u\n"
        "vdb._import = lambda name: None\n"
        "vdb._folder_of_blender = lambda: None\n"
        "try:\n"
        "    vdb.read_vdb(sys.argv[1])\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    core = Path(__file__).resolve().parents[2] / "core"
    done = subprocess.run(
        [sys.executable, "-c", code, __file__], env={"PYTHONPATH": str(core)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("RunnelError"), done.stderr
    assert "pip install runnel[vdb]" in done.stdout
