"""Colliders that go along: at the right place in every frame, by readers we did not write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from runnel.cache import Cache
from runnel.cli import main
from runnel.errors import RunnelError, SceneError
from runnel.export import ExportOptions, export_frames
from runnel.export.bgeo_read import read_bgeo
from runnel.meshes import Mesh
from runnel.motion import Pose
from runnel.scene import Scene
from runnel.simulation import Simulation
from runnel.solids import solids_of

needs_usd = pytest.mark.skipif(
    find_spec("pxr") is None, reason="usd-core is not installed (pip install runnel[usd])"
)

TETRA = "v 0 0 0\nv 0.1 0 0\nv 0 0.1 0\nv 0 0 {top}\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


def write_scene(folder: Path) -> Path:
    """A resting box, a ball that moves, a cylinder that turns, a floor, a mesh that deforms."""
    for frame in range(1, 5):
        (folder / f"walk_{frame:04d}.obj").write_text(TETRA.format(top=0.1 * frame))
    path = [{"frame": 1, "position": [0, 0, 0]}, {"frame": 3, "position": [0.2, 0, 0]}]
    turn = [{"frame": 1, "rotation": [0, 0, 0]}, {"frame": 3, "rotation": [0, 0, 90]}]
    rod = {"cylinder": {"start": [0.2, 0, 0.7], "end": [0.6, 0, 0.7], "radius": 0.05}}
    data = {
        "name": "solids",
        "frames": [1, 4],
        "fluid": [{"name": "water"}],
        "source": [
            {"name": "dam", "fluid": "water", "spacing": 0.05,
             "shape": {"box": {"min": [0, 0, 0.1], "max": [0.2, 0.2, 0.3]}}},
        ],
        "collider": [
            {"name": "tank", "mode": "inside",
             "shape": {"box": {"min": [-1, -1, 0], "max": [1, 1, 2]}}},
            {"name": "my ball", "body": "animated", "motion": path,
             "shape": {"sphere": {"center": [0.5, 0.5, 0.5], "radius": 0.1}}},
            {"name": "rod", "body": "animated", "motion": turn, "shape": rod},
            {"name": "floor", "shape": {"plane": {"normal": [0, 0, 1]}}},
            {"name": "walker", "mode": "shell", "shape": {"mesh": "walk_####.obj"},
             "body": "animated", "position": [0.6, -0.6, 0.2]},
        ],
    }  # fmt: skip
    file = folder / "solids.json"
    file.write_text(json.dumps(data), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("solids")
    assert main(["run", str(write_scene(folder)), "--out", str(folder / "c"), "--quiet"]) == 0
    return folder / "c"


def exported(cache: Path, out: Path, kind: str, **options: object) -> list[Path]:
    wanted = ExportOptions(format=kind, colliders=True, **options)  # type: ignore[arg-type]
    return export_frames(cache, wanted, out=out)


@pytest.mark.parametrize(
    ("name", "volume"),
    [
        ("tank", 8.0),
        ("my ball", 4 / 3 * np.pi * 0.1**3),
        ("rod", np.pi * 0.05**2 * 0.4),
    ],
)
def test_shapes_are_drawn_closed_and_outwards(tmp_path: Path, name: str, volume: float) -> None:
    solids = {s.name: s for s in solids_of(Scene.load(write_scene(tmp_path)))}
    mesh = solids[name].mesh
    assert mesh is not None
    assert isinstance(mesh, Mesh)
    assert mesh.open_edges == 0
    assert mesh.volume() == pytest.approx(volume, rel=0.015)
    floor = solids["floor"].mesh
    assert floor is not None
    assert np.abs(floor.vertices[:, 2]).max() < 1e-9
    assert np.ptp(floor.vertices[:, 0]) > 2


def places(found: dict[str, np.ndarray], frame: int) -> None:
    """Where the solids must be at a frame, in metres, z up."""
    ball = found["my ball"]
    assert (ball.min(axis=0) + ball.max(axis=0)) / 2 == pytest.approx(
        [0.5 + 0.1 * min(frame - 1, 2), 0.5, 0.5], abs=1e-5
    )
    middle = found["rod"].mean(axis=0)
    angle = np.radians(45 * min(frame - 1, 2))
    assert middle == pytest.approx([0.4 * np.cos(angle), 0.4 * np.sin(angle), 0.7], abs=1e-5)
    assert found["tank"].min(axis=0) == pytest.approx([-1, -1, 0], abs=1e-6)
    assert found["walker"].max(axis=0) == pytest.approx([0.7, -0.5, 0.2 + 0.1 * frame], abs=1e-6)


def test_bgeo_has_them_as_groups_of_polygons(cache: Path, tmp_path: Path) -> None:
    files = exported(cache, tmp_path, "bgeo")
    assert "colliders.0004.bgeo" in [path.name for path in files]
    for frame in (1, 2, 4):
        geometry = read_bgeo(tmp_path / f"colliders.{frame:04d}.bgeo")
        names = {"tank": "tank", "my ball": "my_ball", "rod": "rod", "walker": "walker"}
        found = {}
        for name, group in names.items():
            used = [geometry.polygon(n) for n in np.flatnonzero(geometry.primitive_groups[group])]
            found[name] = geometry.points["P"][np.unique(np.concatenate(used))]
        places(found, frame)


def usd_places(stage: object, frame: int) -> dict[str, np.ndarray]:
    from pxr import UsdGeom

    names = {"tank": "tank", "my ball": "my_ball", "rod": "rod"}
    found = {}
    for name, prim_name in names.items():
        prim = stage.GetPrimAtPath(f"/fluid/colliders/{prim_name}")  # type: ignore[attr-defined]
        points = np.array(UsdGeom.Mesh(prim).GetPointsAttr().Get(frame), np.float64)
        matrix = np.array(UsdGeom.Xformable(prim).ComputeLocalToWorldTransform(frame))
        found[name] = points @ matrix[:3, :3] + matrix[3, :3]
    walker = stage.GetPrimAtPath("/fluid/collider_walker")  # type: ignore[attr-defined]
    found["walker"] = np.array(UsdGeom.Mesh(walker).GetPointsAttr().Get(frame), np.float64)
    return found


@needs_usd
@pytest.mark.parametrize(("up", "scale"), [("z", 1.0), ("y", 100.0)])
def test_usd_has_them_as_meshes_that_move(
    cache: Path, tmp_path: Path, up: str, scale: float
) -> None:
    from pxr import Usd, UsdGeom, UsdValidation

    files = exported(cache, tmp_path, "usd", up=up, scale=scale)
    stage = Usd.Stage.Open(str(files[-1]))
    for frame in (1, 2, 3, 4):
        found = usd_places(stage, frame)
        for name, points in found.items():
            x, y, z = points.T / scale
            found[name] = np.stack([x, -z, y] if up == "y" else [x, y, z], axis=1)
        places(found, frame)
        assert len(UsdGeom.Points(stage.GetPrimAtPath("/fluid/particles")).GetIdsAttr().Get(frame))
    tank = UsdGeom.Xformable(stage.GetPrimAtPath("/fluid/colliders/tank"))
    assert not tank.TransformMightBeTimeVarying()
    validators = UsdValidation.ValidationRegistry().GetOrLoadAllValidators()
    for path in files:
        errors = UsdValidation.ValidationContext(validators).Validate(Usd.Stage.Open(str(path)))
        assert [error.GetErrorAsString() for error in errors] == []


BLENDER = """
import bpy, sys, os
bpy.ops.wm.read_factory_settings(use_empty=True)
assert bpy.ops.wm.usd_import(filepath=sys.argv[1]) == {"FINISHED"}
for frame in (1, 2, 4):
    bpy.context.scene.frame_set(frame)
    graph = bpy.context.evaluated_depsgraph_get()
    for item in bpy.data.objects:
        if item.type == "MESH":
            shown = item.evaluated_get(graph)
            points = [shown.matrix_world @ v.co for v in shown.data.vertices]
            middle = [sum(p[k] for p in points) / len(points) for k in range(3)]
            print("solid", frame, item.name, *(round(x, 4) for x in middle))
sys.stdout.flush()
os._exit(0)
"""


@needs_usd
@pytest.mark.skipif(find_spec("bpy") is None, reason="bpy is not installed (runnel[vdb] brings it)")
def test_blender_shows_them_where_they_are(cache: Path, tmp_path: Path) -> None:
    master = exported(cache, tmp_path / "out", "usd")[-1]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", BLENDER, str(master)],
        env={**environment, "BLENDER_USER_RESOURCES": str(tmp_path / "blender")},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("solid")]
    found = {(int(line[1]), line[2]): [float(x) for x in line[3:]] for line in lines}
    assert len(found) == 15, done.stdout + done.stderr
    for frame in (1, 2, 4):
        away = 0.1 * min(frame - 1, 2)
        assert found[frame, "my_ball"] == pytest.approx([0.5 + away, 0.5, 0.5], abs=2e-3)
        assert found[frame, "tank"] == pytest.approx([0, 0, 1], abs=2e-3)
        height = found[frame, "collider_walker"][2]
        assert height == pytest.approx(0.2 + 0.1 * frame / 4, abs=2e-3)


def test_bodies_say_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What moves by the simulation's own will gives its pose; it goes before the scene's."""

    def body_poses(sim: Simulation) -> dict[str, Pose]:
        return {"my ball": Pose(np.eye(3), np.array([0.0, 0.0, 0.1 * sim.frame]))}

    monkeypatch.setattr(Simulation, "body_poses", body_poses, raising=False)
    scene = write_scene(tmp_path)
    assert main(["run", str(scene), "--out", str(tmp_path / "c"), "--quiet"]) == 0
    exported(tmp_path / "c", tmp_path, "bgeo")
    geometry = read_bgeo(tmp_path / "colliders.0003.bgeo")
    used = np.flatnonzero(geometry.primitive_groups["my_ball"])
    points = geometry.points["P"][np.unique(np.concatenate([geometry.polygon(n) for n in used]))]
    assert points.mean(axis=0) == pytest.approx([0.5, 0.5, 0.8], abs=1e-3)


def test_damaged_and_missing_solids_are_named(cache: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(cache, copy)
    path = Cache.open(copy).solid_path(1)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(RunnelError, match=r"solid_001\.npz"):
        exported(copy, tmp_path / "out", "bgeo")
    shutil.rmtree(copy / "solids")
    with pytest.raises(RunnelError, match="without --colliders"):
        exported(copy, tmp_path / "out", "bgeo")
    with pytest.raises(SceneError, match=r"export\.colliders"):
        ExportOptions(format="vdb", colliders=True)


def test_info_names_damaged_and_missing_solids(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any of them: those that move, and a frame's own of one that deforms."""
    import shutil

    assert main(["info", str(cache)]) == 0
    files = sorted(path.name for path in (cache / "solids").iterdir())
    assert files == [*(f"solid_00{k}.npz" for k in range(4)),
                     *(f"solid_004_00000{n}.npz" for n in range(1, 5))]  # fmt: skip
    names = dict(zip(files, ("'tank'", "'my ball'", "'rod'", "'floor'"), strict=False))
    for name in files:
        copy = tmp_path / name
        shutil.copytree(cache, copy)
        path = copy / "solids" / name
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 2] ^= 4
        path.write_bytes(raw)
        capsys.readouterr()
        assert main(["info", str(copy)]) == 1
        shown = capsys.readouterr()
        assert name in shown.err
        assert "as written" not in shown.out
        path.unlink()
        assert main(["info", str(copy)]) == 1
        assert f"{names.get(name, name)} is missing" in capsys.readouterr().err


def test_a_floor_below_an_open_mesh(tmp_path: Path) -> None:
    """A plane is drawn around what the scene holds, sheets included (scene wet_wall)."""
    (tmp_path / "sheet.obj").write_text("v 0 0 0\nv 8 0 0\nv 0 8 0\nf 1 2 3\n")
    box = {"box": {"min": [0, 0, 0], "max": [0.1, 0.1, 0.1]}}
    it = Scene.from_dict({
        "fluid": [{"name": "water"}],
        "source": [{"fluid": "water", "spacing": 0.05, "shape": box}],
        "collider": [
            {"name": "floor", "shape": {"plane": {"normal": [0, 0, 1]}}},
            {"name": "sheet", "mode": "shell", "shape": {"mesh": "sheet.obj"},
             "position": [0, 0, 1]},
        ],
    }, tmp_path)  # fmt: skip
    floor, _ = solids_of(it)
    assert floor.mesh is not None
    np.testing.assert_allclose(floor.mesh.vertices[:, 2], 0.0, atol=1e-12)
    assert floor.mesh.vertices[:, :2].min() < -8
    assert floor.mesh.vertices[:, :2].max() > 16
