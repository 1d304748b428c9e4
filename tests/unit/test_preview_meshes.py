"""Mesh colliders in pictures: solid, see-through, containers as edges, sequences, missing files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runnel.preview import PreviewOptions, render_frame
from runnel.preview.solids import TRIANGLE, gather
from runnel.scene_folder import find_folder, remember_folder

from .field_meshes import cube, sphere

OPTIONS = PreviewOptions(
    width=96, height=72, quality=2, floor=False, labels=False, shadows=False,
    bounds=((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0)),
)  # fmt: skip
FAR = {"position": np.array([[0.0, 0.0, -0.95]]), "radius": np.array([0.01])}


def write(path: Path, mesh: Any) -> None:
    lines = [f"v {x:.6f} {y:.6f} {z:.6f}" for x, y, z in mesh.vertices]
    lines += [f"f {a} {b} {c}" for a, b, c in mesh.triangles + 1]
    path.write_text("\n".join(lines) + "\n")


def scene(folder: Path | None, file: str = "ball.obj", **keys: Any) -> dict[str, Any]:
    collider = {"name": "ball", "shape": {"mesh": {"file": file}}, **keys}
    return {"collider": [collider], "directory": folder}


def shown(picture: np.ndarray, empty: np.ndarray) -> np.ndarray:
    """Pixels (rows, columns) that a thing changed."""
    return np.asarray(abs(picture.astype(int) - empty).max(axis=2) > 12)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "ball.obj", sphere(0.5, 32))
    return tmp_path


def test_a_mesh_covers_what_its_ball_covers(folder: Path) -> None:
    empty = render_frame(FAR, {}, OPTIONS)
    mesh = shown(render_frame(FAR, scene(folder), OPTIONS), empty)
    ball = {"collider": [{"shape": {"sphere": {"center": [0, 0, 0], "radius": 0.5}}}]}
    true = shown(render_frame(FAR, ball, OPTIONS), empty)
    assert true.sum() > 300
    assert np.count_nonzero(mesh != true) < 0.06 * true.sum()
    # Shaded alike: smooth normals.
    a = render_frame(FAR, scene(folder), OPTIONS)[mesh & true].astype(int)
    b = render_frame(FAR, ball, OPTIONS)[mesh & true].astype(int)
    assert abs(a - b).mean() < 6


def test_glass_lets_one_see_through(folder: Path) -> None:
    inside = {"position": np.zeros((1, 3)), "radius": np.array([0.3])}
    empty = render_frame(FAR, {}, OPTIONS)
    solid = render_frame(inside, scene(folder), OPTIONS).astype(int)
    glass = render_frame(inside, scene(folder), OPTIONS.replace(glass=("ball",))).astype(int)
    plain = render_frame(inside, {}, OPTIONS).astype(int)
    middle = (slice(34, 38), slice(46, 50))
    assert (
        abs(glass[middle] - plain[middle]).mean() < 0.7 * abs(solid[middle] - plain[middle]).mean()
    )
    assert shown(glass, empty).sum() > 300


def test_places_modes_and_frames(folder: Path) -> None:
    for n, size in ((3, 0.2), (4, 0.4)):
        write(folder / f"grow_{n:04d}.obj", sphere(size, 16))
    write(folder / "box.obj", cube((-0.5, -0.5, -0.5)))
    ends = (np.full(3, -1.0), np.full(3, 1.0))
    moved = gather(scene(folder, position=[1, 2, 3], scale=2.0), 1, ends)
    np.testing.assert_allclose(moved.low[0], [0, 1, 2], atol=0.02)
    assert {int(row[0]) for row in moved.solids} == {TRIANGLE}
    for frame, size in ((1, 0.2), (3, 0.2), (4, 0.4), (9, 0.4)):
        props = gather(scene(folder, "grow_####.obj"), frame, ends)
        assert props.high[0].max() == pytest.approx(size, rel=0.01)
    tank = gather(scene(folder, "box.obj", mode="inside"), 1, ends)
    assert not tank.solids
    assert tank.lines[0].shape == (12, 2, 3)  # not the diagonals


def test_what_is_not_there_is_left_out(folder: Path) -> None:
    (folder / "bad.obj").write_text("v 1 2\nf 1 2 3\n")
    ends = (np.zeros(3), np.ones(3))
    for where, file in ((None, "ball.obj"), (folder, "none.obj"), (folder, "bad.obj"),
                        (folder, "a_##.obj"), (folder, "b.vdb")):  # fmt: skip
        assert not gather(scene(where, file), 1, ends).solids


def test_a_cache_knows_the_folder_of_its_scene(tmp_path: Path) -> None:
    cache, place = tmp_path / "cache", tmp_path / "scene"
    cache.mkdir()
    assert find_folder(cache) is None
    remember_folder(cache, place)
    assert find_folder(cache) is None  # gone
    place.mkdir()
    assert find_folder(cache) == place
