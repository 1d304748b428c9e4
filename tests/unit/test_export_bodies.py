"""Bodies that a simulation moves, in USD and bgeo files: where the simulation has them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from runnel.cli import main
from runnel.export import ExportOptions, export_frames
from runnel.export.bgeo_read import read_bgeo
from runnel.scene import Scene
from runnel.simulation import Simulation
from runnel.solids import solids_of

needs_usd = pytest.mark.skipif(
    find_spec("pxr") is None, reason="usd-core is not installed (pip install runnel[usd])"
)

# A box that turns as it falls, a soft cube that a floor dents; 27 particles beside them.
SCENE = """
fps = 25
frames = [1, 3]
fluid = [{ name = "water" }]
solver = { time_step = 0.01 }
[[source]]
fluid = "water"
shape = { box = { min = [0.7, 0, 0], max = [0.79, 0.09, 0.09] } }
spacing = 0.03
[[collider]]
name = "floor"
shape = { plane = { normal = [0, 0, 1] } }
[[collider]]
name = "big crate"
body = "rigid"
density = 400
position = [0.1, 0.2, 0.5]
rotation = [0, 0, 30]
velocity = [0.5, 0, -1]
angular_velocity = [0, 200, 90]
shape = { box = { min = [-0.1, -0.15, -0.12], max = [0.1, 0.15, 0.12] } }
[[collider]]
name = "cushion"
body = "deformable"
density = 300
position = [-0.5, 0, 0.18]
velocity = [0, 0, -2]
stretch_compliance = 1e-3
shape = { mesh = "cube.obj" }
"""

CUBE = """
v -0.1 -0.1 -0.1
v -0.1 -0.1 0.1
v -0.1 0.1 -0.1
v -0.1 0.1 0.1
v 0.1 -0.1 -0.1
v 0.1 -0.1 0.1
v 0.1 0.1 -0.1
v 0.1 0.1 0.1
f 1 2 4 3
f 5 7 8 6
f 1 5 6 2
f 3 4 8 7
f 1 3 7 5
f 2 6 8 4
"""

Shapes = dict[str, tuple[np.ndarray, np.ndarray]]  # vertices in the world, triangles


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, Shapes]]:
    """A cache, and per frame what another simulation of the scene says of its bodies."""
    folder = tmp_path_factory.mktemp("bodies")
    (folder / "cube.obj").write_text(CUBE)
    (folder / "scene.toml").write_text(SCENE)
    assert main(["run", str(folder / "scene.toml"), "--out", str(folder / "c"), "--quiet"]) == 0
    scene = Scene.load(folder / "scene.toml")
    crate = next(solid.mesh for solid in solids_of(scene) if solid.name == "big crate")
    assert crate is not None
    told: dict[int, Shapes] = {}
    with Simulation(scene) as sim:
        for frame in (1, 2, 3):
            sim.advance(frame)
            soft = sim.body_meshes()["cushion"]
            placed = sim.body_poses()["big crate"].to_world(crate.vertices)
            told[frame] = {
                "big crate": (placed, crate.triangles),
                "cushion": (soft.vertices.copy(), soft.triangles),
            }
    return folder / "c", told


def test_they_do_move(simulated: tuple[Path, dict[int, Shapes]]) -> None:
    """What is compared below is neither at rest nor only shifted."""
    _, told = simulated
    for name in ("big crate", "cushion"):
        first, last = told[1][name][0], told[3][name][0]
        assert first[:, 2].mean() - last[:, 2].mean() > 0.05
        way = last - first
        assert np.ptp(way, axis=0).max() > 0.01  # turned, or dented

    def edges(frame: int, name: str) -> np.ndarray:
        places, faces = told[frame][name]
        return np.linalg.norm(places[faces[:, 0]] - places[faces[:, 1]], axis=1)

    np.testing.assert_allclose(edges(3, "big crate"), edges(1, "big crate"), rtol=1e-5)
    assert np.abs(edges(3, "cushion") / edges(1, "cushion") - 1).max() > 0.01


def assert_same(found: Shapes, told: Shapes, up: str, scale: float) -> None:
    assert found.keys() == told.keys()
    for name, (places, faces) in told.items():
        x, y, z = scale * places.T
        wanted = np.stack([x, z, -y] if up == "y" else [x, y, z], axis=1)
        np.testing.assert_allclose(found[name][0], wanted, atol=2e-6 * scale)
        np.testing.assert_array_equal(found[name][1], faces)


CASES = pytest.mark.parametrize(("up", "scale"), [("z", 1.0), ("y", 100.0)])


@CASES
def test_bgeo_has_bodies_where_they_are(
    simulated: tuple[Path, dict[int, Shapes]], tmp_path: Path, up: str, scale: float
) -> None:
    cache, told = simulated
    options = ExportOptions(format="bgeo", colliders=True, up=up, scale=scale)
    export_frames(cache, options, out=tmp_path)
    for frame in (1, 2, 3):
        geometry = read_bgeo(tmp_path / f"colliders.{frame:04d}.bgeo")
        found: Shapes = {}
        for name, group in (("big crate", "big_crate"), ("cushion", "cushion")):
            mine = np.flatnonzero(geometry.primitive_groups[group])
            corners = np.array([geometry.polygon(n)[::-1] for n in mine])  # Houdini's turn
            used, local = np.unique(corners, return_inverse=True)
            found[name] = geometry.points["P"][used], local.reshape(-1, 3)
        assert_same(found, told[frame], up, scale)


@needs_usd
@CASES
def test_usd_has_bodies_where_they_are(
    simulated: tuple[Path, dict[int, Shapes]], tmp_path: Path, up: str, scale: float
) -> None:
    """The rigid one by its transform, the soft one by its vertices."""
    from pxr import Usd, UsdGeom

    cache, told = simulated
    options = ExportOptions(format="usd", colliders=True, up=up, scale=scale)
    stage = Usd.Stage.Open(str(export_frames(cache, options, out=tmp_path)[-1]))
    paths = {"big crate": "/fluid/colliders/big_crate", "cushion": "/fluid/collider_cushion"}
    for frame in (1, 2, 3):
        found: Shapes = {}
        for name, path in paths.items():
            mesh = UsdGeom.Mesh(stage.GetPrimAtPath(path))
            matrix = np.array(mesh.ComputeLocalToWorldTransform(frame))
            points = np.array(mesh.GetPointsAttr().Get(frame), np.float64)
            faces = np.array(mesh.GetFaceVertexIndicesAttr().Get(frame)).reshape(-1, 3)
            found[name] = points @ matrix[:3, :3] + matrix[3, :3], faces
        assert_same(found, told[frame], up, scale)
