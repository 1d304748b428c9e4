"""Leaks: exact counts of particles where none should be; the report names what is not counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import runnel
from runnel.leaks import Leaks
from runnel.report import uncounted

from .field_meshes import cube

RADIUS = 0.05
BOX = {"box": {"min": [0, 0, 0], "max": [1, 1, 1]}}
FAR = [50.0, 50.0, 50.0]


def setting(folder: Path, *colliders: dict[str, Any], **more: Any) -> runnel.Scene:
    water = {"fluid": "water", "spacing": 2 * RADIUS, "shape": {"box": {"min": [9, 9, 9],
             "max": [10, 10, 10]}}}  # fmt: skip
    parts = [{"name": f"c{i}", **part} for i, part in enumerate(colliders)]
    data = {"fps": 10, "frames": [1, 21], "fluid": [{"name": "water"}], "source": [water],
            "collider": parts, **more}  # fmt: skip
    return runnel.Scene.from_dict(data, folder)


def count(scene: runnel.Scene, points: list[list[float]], frame: int = 1) -> int:
    places = np.array(points, np.float32)
    return Leaks(scene).count(frame, places, np.full(len(places), RADIUS, np.float32))


SOLIDS: dict[str, dict[str, Any]] = {
    "box": BOX,
    "sphere": {"sphere": {"center": [0.5, 0.5, 0.5], "radius": 0.5}},
    "cylinder": {"cylinder": {"start": [0.5, 0.5, 0], "end": [0.5, 0.5, 1], "radius": 0.5}},
    "plane": {"plane": {"point": [1, 0.5, 0.5], "normal": [1, 0, 0]}},
    "mesh": {"mesh": "cube.obj"},
}


def write_cube(path: Path) -> None:
    mesh = cube()
    lines = ["v {} {} {}".format(*vertex) for vertex in mesh.vertices]
    lines += ["f {} {} {}".format(*triangle) for triangle in mesh.triangles + 1]
    path.write_text("\n".join(lines))


def shaped(kind: str, folder: Path) -> dict[str, Any]:
    write_cube(folder / "cube.obj")
    return SOLIDS[kind]


# Along x through the middle, from outside to the middle: the surface is at 1, and a particle whose
# middle is less than its radius deep only touches it.
WAY = [[x, 0.5, 0.5] for x in (2.0, 1.02, 0.98, 0.96, 0.94, 0.9, 0.5)]


@pytest.mark.parametrize("kind", SOLIDS)
def test_inside_of_a_solid(kind: str, tmp_path: Path) -> None:
    scene = setting(tmp_path, {"shape": shaped(kind, tmp_path)})
    assert [count(scene, [point]) for point in WAY] == [0, 0, 0, 0, 1, 1, 1]
    assert count(scene, WAY) == 3


@pytest.mark.parametrize("kind", ["box", "sphere", "cylinder", "mesh"])
def test_outside_of_a_container(kind: str, tmp_path: Path) -> None:
    scene = setting(tmp_path, {"shape": shaped(kind, tmp_path), "mode": "inside"})
    points = [[x, 0.5, 0.5] for x in (0.5, 0.98, 1.04, 1.06, 1.5)]
    assert [count(scene, [point]) for point in points] == [0, 0, 0, 1, 1]
    assert count(scene, points) == 2


def test_outside_of_a_closed_domain(tmp_path: Path) -> None:
    scene = setting(tmp_path, domain={"min": [0, 0, 0], "max": [20, 20, 20], "mode": "close"})
    assert count(scene, [[0.5, 0.5, 0.5], [-0.04, 1, 1], [-0.06, 1, 1], FAR]) == 2


def test_each_particle_once_by_its_own_radius(tmp_path: Path) -> None:
    """Two solids share the place; more particles than are looked at together."""
    scene = setting(tmp_path, {"shape": BOX}, {"shape": BOX})
    n = (1 << 18) + 3
    places = np.full((n, 3), 0.5, np.float32)
    places[:, 0] = 0.9
    radius = np.full(n, 0.09, np.float32)
    radius[-1] = 0.11
    assert Leaks(scene).count(1, places, radius) == n - 1
    assert Leaks(scene).count(1, places[:0], radius[:0]) == 0


@pytest.mark.parametrize("kind", ["box", "mesh"])
def test_a_collider_that_moves(kind: str, tmp_path: Path) -> None:
    """It counts where it is at the frame: it goes 4 m along x from frame 1 to 21."""
    motion = [{"frame": 1, "position": [0, 0, 0]}, {"frame": 21, "position": [4, 0, 0]}]
    shape = shaped(kind, tmp_path)
    scene = setting(tmp_path, {"shape": shape, "body": "animated", "motion": motion})
    leaks = Leaks(scene)
    points = np.array([[0.5, 0.5, 0.5], [2.5, 0.5, 0.5], [2.6, 0.5, 0.5], [4.5, 0.5, 0.5]])
    radius = np.full(4, RADIUS, np.float32)
    for frame, expected in ((1, 1), (11, 2), (21, 1), (6, 0), (1, 1)):
        assert leaks.count(frame, points.astype(np.float32), radius) == expected


def test_within_the_walls_of_a_shell(tmp_path: Path) -> None:
    """Both sides are free; its walls are half a thickness (voxel_size) to either side."""
    shell = {"shape": BOX, "mode": "shell", "voxel_size": 0.1}
    scene = setting(tmp_path, shell)
    assert [count(scene, [[x, 0.5, 0.5]]) for x in (0.5, 0.94, 0.96, 1.0, 1.04, 1.06)] == [
        0, 0, 1, 1, 1, 0,
    ]  # fmt: skip
    assert uncounted(scene.to_dict(defaults=True)) != []


LEFT_OUT: dict[str, tuple[dict[str, Any], str]] = {
    "rigid": ({"shape": BOX, "body": "rigid"}, "the fluid moves it"),
    "deformable": ({"shape": {"mesh": "cube.obj"}, "body": "deformable"}, "the fluid moves it"),
    "deforming": ({"shape": {"mesh": "cube_####.obj"}}, "it deforms"),
}


@pytest.mark.parametrize("kind", LEFT_OUT)
def test_what_is_left_out_is_said(kind: str, tmp_path: Path) -> None:
    """Beside a solid that counts."""
    for name in ("cube.obj", *(f"cube_{frame:04d}.obj" for frame in range(1, 22))):
        write_cube(tmp_path / name)
    part, why = LEFT_OUT[kind]
    post = {"shape": {"box": {"min": [3, 0, 0], "max": [4, 1, 1]}}}
    scene = setting(tmp_path, post, part)
    assert count(scene, [[0.5, 0.5, 0.5], [3.5, 0.5, 0.5]]) == 1
    assert uncounted(scene.to_dict(defaults=True)) == [f"c1 ({why})"]
    assert uncounted(setting(tmp_path, post).to_dict(defaults=True)) == []
