"""Bodies that the fluid moves in caches: resumed runs, exporters, previews."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from runnel import Scene
from runnel.branching import check_change
from runnel.cache import Cache
from runnel.cli import main
from runnel.errors import SceneError
from runnel.export.solids import find_solids
from runnel.preview.movie import scene_at
from runnel.preview.solids import gather

SCENE = """
fps = 25
frames = [1, 4]
fluid = [{ name = "water" }]
solver = { time_step = 0.01 }
[[source]]
fluid = "water"
shape = { box = { min = [0, 0, 0], max = [0.24, 0.24, 0.1] } }
spacing = 0.02
[[collider]]
name = "tank"
mode = "inside"
shape = { box = { min = [0, 0, 0], max = [0.24, 0.24, 0.5] } }
[[collider]]
name = "crate"
body = "rigid"
density = 400
position = [0.12, 0.12, 0.28]
velocity = [0, 0, -1]
rotation = [0, 0, 30]
angular_velocity = [0, 200, 0]
shape = { box = { min = [-0.04, -0.04, -0.04], max = [0.04, 0.04, 0.04] } }
[[collider]]
name = "sail"
body = "deformable"
mode = "shell"
mass = 0.1
shape = { mesh = "sail.obj" }
"""


def _sail(n: int = 5) -> str:
    """A level sheet above the water."""
    at = np.linspace(0.02, 0.22, n)
    lines = [f"v {x:.4f} {y:.4f} 0.2" for y in at for x in at]
    for j in range(n - 1):
        for i in range(n - 1):
            a, b = j * n + i + 1, (j + 1) * n + i + 1
            lines += [f"f {a} {a + 1} {b + 1}", f"f {a} {b + 1} {b}"]
    return "\n".join(lines) + "\n"


def _run(scene: Path, out: Path, *more: str) -> Cache:
    command = ["run", str(scene), "--out", str(out), "--quiet", "--checkpoint", "1"]
    assert main([*command, *more]) == 0
    return Cache.open(out)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Cache, Cache]:
    """A run in one go, and one that went on after two frames."""
    folder = tmp_path_factory.mktemp("bodies")
    (folder / "sail.obj").write_text(_sail())
    (folder / "scene.toml").write_text(SCENE)
    whole = _run(folder / "scene.toml", folder / "whole")
    _run(folder / "scene.toml", folder / "parts", "--frames", "1-2")
    return whole, _run(folder / "scene.toml", folder / "parts", "--resume")


def test_a_resumed_run_is_the_same_to_the_bit(runs: tuple[Cache, Cache]) -> None:
    whole, parts = runs
    assert whole.frames() == parts.frames() == [1, 2, 3, 4]
    for frame in whole.frames():
        found, expected = parts.entry(frame).report, whole.entry(frame).report
        assert found["bodies"] == expected["bodies"]
        assert found["poses"] == expected["poses"]
        np.testing.assert_array_equal(
            parts.read(frame, ["position"])["position"],
            whole.read(frame, ["position"])["position"],
        )
        for index in whole.solids():  # frames ahead of the resume keep their meshes
            for a, b in zip(
                parts.read_solid(index, frame), whole.read_solid(index, frame), strict=True
            ):
                np.testing.assert_array_equal(a, b)


def test_exporters_find_bodies_where_they_are(runs: tuple[Cache, Cache]) -> None:
    cache = runs[0]
    for frame in (1, 4):
        found = {s.name: s for s in find_solids(cache, frame, np.eye(3), 1.0)}
        crate = cache.entry(frame).report["bodies"][0]
        corners = found["crate"].placed
        np.testing.assert_allclose(corners.mean(axis=0), crate["center"], atol=1e-6)
        edges = np.linalg.norm(corners - corners.mean(axis=0), axis=1)
        np.testing.assert_allclose(edges, 0.04 * 3**0.5, rtol=1e-5)
        assert found["sail"].deforms
    first, last = (find_solids(cache, f, np.eye(3), 1.0) for f in (1, 4))
    fallen = [
        a.placed[:, 2].mean() - b.placed[:, 2].mean() for a, b in zip(first, last, strict=True)
    ]
    assert fallen[0] == 0.0  # the tank
    assert fallen[1] > 0.1  # the sail, where it began, is no wall
    free = 9.81 / 2 * 0.12 * (0.12 + 0.01)  # steps of 0.01 s
    assert 0.99 * free < fallen[2] < fallen[1]  # the crate has met the sail and takes it along


def test_previews_show_bodies_where_they_are(runs: tuple[Cache, Cache]) -> None:
    """The crate's box and the sail's triangles, as exporters see them."""
    cache = runs[0]
    props = gather(scene_at(cache, 4), 4, (np.zeros(3), np.ones(3)))
    boxes = [s for s in props.solids if s[0] == 1]
    triangles = np.array([s[1:10] for s in props.solids if s[0] == 3]).reshape(-1, 3)
    np.testing.assert_allclose(
        boxes[0][13:16], cache.entry(4).report["bodies"][0]["center"], atol=1e-6
    )
    sail = find_solids(cache, 4, np.eye(3), 1.0)[2].placed
    assert len(triangles) == 3 * 32
    np.testing.assert_allclose(triangles.min(axis=0), sail.min(axis=0), atol=1e-6)
    np.testing.assert_allclose(triangles.max(axis=0), sail.max(axis=0), atol=1e-6)


def test_branches_keep_their_bodies(tmp_path: Path) -> None:
    (tmp_path / "sail.obj").write_text(_sail())
    (tmp_path / "old.toml").write_text(SCENE)
    (tmp_path / "new.toml").write_text(SCENE.replace('body = "rigid"\n', ""))
    old, new = (Scene.load(tmp_path / name) for name in ("old.toml", "new.toml"))
    with pytest.raises(SceneError, match="branch") as caught:
        check_change(old, new)
    assert caught.value.key == "bodies"
