"""Branches: another shot from a frame on, which shares the frames before it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runnel.branching import check_change
from runnel.cache import Cache
from runnel.cli import main
from runnel.errors import CacheError, SceneError
from runnel.export.solids import find_solids
from runnel.preview.movie import scene_at
from runnel.scene import Scene


def write_scene(folder: Path, **more: Any) -> Path:
    """A dam, and a nozzle above it."""
    box = {"box": {"min": [0, 0, 0], "max": [0.25, 0.25, 0.25]}}
    disc = {"cylinder": {"start": [0.4, 0.12, 0.4], "end": [0.4, 0.12, 0.45], "radius": 0.06}}
    hollow = {"box": {"min": [0, 0, 0], "max": [0.5, 0.25, 0.5]}}
    nozzle = {"name": "jet", "fluid": "oil", "kind": "emitter", "shape": disc, "spacing": 0.05}
    data = {
        "name": "small",
        "frames": [1, 8],
        "fluid": [{"name": "water"}, {"name": "oil", "density": 900}],
        "source": [
            {"name": "dam", "fluid": "water", "shape": box, "spacing": 0.05},
            nozzle | {"velocity": [0, 0, -1]},
        ],
        "collider": [{"name": "tank", "mode": "inside", "shape": hollow}],
        **more,
    }
    path = folder / "small.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def run(path: Path, out: Path, *more: str) -> int:
    return main(["run", str(path), "--out", str(out), "--quiet", *more])


@pytest.fixture(scope="module")
def shot(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A scene, and its cache of eight frames with checkpoints at 1 and 8."""
    folder = tmp_path_factory.mktemp("branches")
    path = write_scene(folder)
    assert run(path, folder / "cache") == 0
    return path, folder / "cache"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def assert_same_frame(a: Cache, b: Cache, frame: int) -> None:
    left, right = a.read(frame), b.read(frame)
    assert left.keys() == right.keys()
    for name, values in left.items():
        np.testing.assert_array_equal(values, right[name])


def test_a_branch_without_changes_is_the_same_shot(shot: tuple[Path, Path], tmp_path: Path) -> None:
    """Frame 5 has no checkpoint: the way there is simulated again, bit by bit."""
    path, cache = shot
    before = contents(cache)
    assert run(path, tmp_path / "b", "--branch", str(cache), "--from", "5") == 0
    mine, other = Cache.open(tmp_path / "b"), Cache.open(cache)
    assert mine.frames() == other.frames()
    assert mine.verify(finite=True) == []
    for frame in other.frames():
        assert_same_frame(mine, other, frame)
    for frame in other.frames():
        shared = os.path.samefile(mine.frame_path(frame), other.frame_path(frame))
        assert shared == (frame <= 5)  # a second name, not a copy
    assert contents(cache) == before
    branch = mine.manifest.branch
    assert branch is not None
    assert (branch.parent, branch.frame) == ("cache", 5)
    assert branch.digest == other.manifest.digest


def test_changed_settings_hold_from_the_frame_on(shot: tuple[Path, Path], tmp_path: Path) -> None:
    """Gravity turned round at frame 4: the dam rises freely from there on; books balance."""
    path, cache = shot
    out = tmp_path / "b"
    changes = ["--set", "solver.gravity=[0, 0, 9.81]", "--set", "fluid.water.density=800"]
    assert run(path, out, "--branch", str(cache), "--from", "4", *changes) == 0
    mine, other = Cache.open(out), Cache.open(cache)
    assert_same_frame(mine, other, 4)
    assert mine.scene["solver"]["gravity"] == [0, 0, 9.81]
    speed = [float(mine.read(n)["velocity"][:125, 2].mean()) for n in (5, 6)]
    assert speed[1] - speed[0] == pytest.approx(9.81 / 24, rel=0.02)
    report = mine.entry(8).report
    oil = int((mine.read(8)["phase"] == 1).sum())
    assert report["mass"] == pytest.approx((125 * 800 + oil * 900) * 0.05**3, rel=1e-5)


def test_changed_emitters_begin_anew_at_the_frame(shot: tuple[Path, Path], tmp_path: Path) -> None:
    """Twice the speed gives twice the particles from there on, and none of the past."""
    path, cache = shot
    out = tmp_path / "b"
    change = ["--set", "source.jet.velocity=[0, 0, -2]"]
    assert run(path, out, "--branch", str(cache), "--from", "8", *change, "--frames", "1-12") == 0
    born = [Cache.open(out).entry(n).report["emitted"] for n in range(2, 13)]
    assert sum(born[7:]) == pytest.approx(2 * sum(born[3:7]), abs=9)  # a layer has four


def test_a_branch_survives_its_parent(shot: tuple[Path, Path], tmp_path: Path) -> None:
    """The parent is simulated anew with other settings, then deleted; a branch of a branch too."""
    path, cache = shot
    parent, child, third = (tmp_path / name for name in ("parent", "child", "third"))
    shutil.copytree(cache, parent)
    assert run(path, child, "--branch", str(parent), "--from", "5") == 0
    more = ["--set", "fluid.oil.viscosity=1"]
    assert run(path, third, "--branch", str(child), "--from", "6", *more) == 0
    kept = contents(child)
    assert run(path, parent, "--overwrite", "--set", "fluid.water.density=700") == 0
    shutil.rmtree(parent)
    assert contents(child) == kept
    shutil.rmtree(child)
    assert Cache.open(third).verify(finite=True) == []
    assert_same_frame(Cache.open(third), Cache.open(cache), 6)


def test_an_interrupted_branch_is_resumed_without_its_parent(
    shot: tuple[Path, Path], tmp_path: Path
) -> None:
    path, cache = shot
    whole, part, parent = tmp_path / "whole", tmp_path / "part", tmp_path / "parent"
    change = ["--set", "fluid.oil.viscosity=1", "--from", "4"]
    assert run(path, whole, "--branch", str(cache), *change) == 0
    shutil.copytree(cache, parent)
    command = ["--branch", str(parent), *change, "--resume"]
    assert run(path, part, *command, "--frames", "1-6") == 0
    shutil.rmtree(parent)
    assert run(path, part, *command) == 0
    for frame in range(1, 9):
        assert_same_frame(Cache.open(part), Cache.open(whole), frame)


def broken_branch(monkeypatch: pytest.MonkeyPatch, path: Path, out: Path, *words: str) -> None:
    """A branch whose disk is full as soon as the frames are shared."""

    def full(*_: object, **__: object) -> None:
        raise CacheError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(Cache, "write_checkpoint", full)
        assert run(path, out, *words) == 1
    assert Cache.open(out).checkpoints() == []


CHANGE = ["--set", "solver.gravity=[0, 0, 9.81]"]


@pytest.mark.parametrize("shared", [True, False])
def test_a_branch_that_ended_before_its_checkpoint_is_begun_again(
    shot: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """Not simulated from the first frame with the new settings, which is another shot."""
    path, cache = shot
    whole, part = tmp_path / "whole", tmp_path / "part"
    command = ["--branch", str(cache), "--from", "4", *CHANGE]
    assert run(path, whole, *command) == 0
    broken_branch(monkeypatch, path, part, *command, "--resume")
    if not shared:  # killed even before
        Cache.open(part).truncate(0)
    assert run(path, part, "--branch", str(cache), *CHANGE, "--resume") == 0
    assert Cache.open(part).manifest.branch == Cache.open(whole).manifest.branch
    assert Cache.open(part).frames() == list(range(1, 9))
    for frame in range(1, 9):
        assert_same_frame(Cache.open(part), Cache.open(whole), frame)


def test_the_first_manifest_of_a_branch_tells_what_it_is(
    shot: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("runnel.cache.store.share", killed)
    with pytest.raises(KeyboardInterrupt):
        Cache.branch(tmp_path, Cache.open(shot[1]), 4, {})
    left = Cache.open(tmp_path)
    assert left.frames() == []
    assert left.manifest.branch is not None
    assert left.manifest.branch.frame == 4


def test_a_branch_with_nothing_to_go_on_from_is_refused(
    shot: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither its parent nor a checkpoint is there; or the parent is not named."""
    path, cache = shot
    out, parent = tmp_path / "b", tmp_path / "parent"
    shutil.copytree(cache, parent)
    broken_branch(monkeypatch, path, out, "--branch", str(parent), "--from", "4", *CHANGE)
    shutil.rmtree(parent)
    for words in ([], ["--branch", str(parent)]):
        capsys.readouterr()
        assert run(path, out, *CHANGE, "--resume", *words) == 1
        complaint = capsys.readouterr().err
        assert "no sound checkpoint" in complaint
        assert "--from 4" in complaint
        assert Cache.open(out).frames() == [1, 2, 3, 4]
    assert run(path, out, *CHANGE) == 0  # asked for: all of it from the first frame
    assert Cache.open(out).manifest.branch is None


def test_a_branch_from_another_frame_is_not_gone_on_with(
    shot: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, cache = shot
    command = [*CHANGE, "--branch", str(cache), "--resume", "--frames", "1-6", "--from"]
    assert run(path, tmp_path / "b", *command, "4") == 0
    before = contents(tmp_path / "b")
    assert run(path, tmp_path / "b", *command, "5") == 2
    assert "from frame 4" in capsys.readouterr().err
    assert contents(tmp_path / "b") == before


def test_a_lost_manifest_of_a_branch_is_rebuilt(shot: tuple[Path, Path], tmp_path: Path) -> None:
    path, cache = shot
    out = tmp_path / "b"
    assert run(path, out, "--branch", str(cache), "--set", "seed=3", "--from", "3") == 0
    was = Cache.open(out).manifest
    (out / "manifest.json").unlink()
    assert was.branch is not None
    found = Cache.rebuild(out, was.scene, digest=was.digest, shared=[was.branch.digest])
    assert found.manifest.frames == was.frames


def write_pyramid(path: Path, height: float) -> None:
    corners = ["0 0 0", "0.1 0 0", "0.1 0.1 0", "0 0.1 0", f"0.05 0.05 {height}"]
    faces = ["1 4 3 2", "1 2 5", "2 3 5", "3 4 5", "4 1 5"]
    path.write_text("".join([*(f"v {c}\n" for c in corners), *(f"f {f}\n" for f in faces)]))


def test_shared_frames_keep_the_solids_they_had(tmp_path: Path) -> None:
    """A mesh that is another from the branch on, one that deforms, one that is new, one that goes;
    and a branch of the branch."""
    for name, height in (("low", 0.1), ("high", 0.2)):
        write_pyramid(tmp_path / f"{name}.obj", height)
    for frame in range(1, 9):
        write_pyramid(tmp_path / f"bend.{frame:04d}.obj", 0.1 + 0.01 * frame)

    def scene(**meshes: str) -> Path:
        parts = [
            {"name": name, "shape": {"mesh": {"file": file}}, "position": [0.3, 0.1, 0]}
            for name, file in meshes.items()
        ]
        dam = {"name": "dam", "fluid": "water", "spacing": 0.05}
        dam["shape"] = {"box": {"min": [0, 0, 0], "max": [0.1, 0.1, 0.1]}}
        return write_scene(tmp_path, collider=parts, source=[dam])

    bend = "bend.####.obj"
    out = [tmp_path / name for name in ("a", "b", "c")]
    assert run(scene(rock="low.obj", bend=bend, gone="low.obj"), out[0], "--frames", "1-6") == 0
    changed = scene(rock="high.obj", bend=bend)
    assert run(changed, out[1], "--branch", str(out[0]), "--from", "3", "--frames", "1-6") == 0
    last = scene(rock="low.obj", bend=bend, more="high.obj")
    assert run(last, out[2], "--branch", str(out[1]), "--from", "5") == 0
    for folder in out[:2]:
        shutil.rmtree(folder)
    cache = Cache.open(out[2])
    heights = {}
    for frame in cache.frames():
        solids = find_solids(cache, frame, np.eye(3), 1.0)
        heights[frame] = {s.name: round(float(s.placed[:, 2].max()), 3) for s in solids}
    assert heights[1] == {"rock": 0.1, "bend": 0.11, "gone": 0.1}
    assert heights[3] == {"rock": 0.1, "bend": 0.13, "gone": 0.1}
    assert heights[4] == {"rock": 0.2, "bend": 0.14}
    assert heights[5] == {"rock": 0.2, "bend": 0.15}
    assert heights[6] == {"rock": 0.1, "bend": 0.16, "more": 0.2}
    assert heights[8] == {"rock": 0.1, "bend": 0.18, "more": 0.2}
    drawn = [c["deformed"].vertices[:, 2].max() for c in scene_at(cache, 4)["collider"][:2]]
    np.testing.assert_allclose(drawn, [0.2, 0.14], atol=1e-6)
    export = ["export", str(out[2]), "--format", "usd", "--colliders", "--quiet"]
    assert main(export) == 0
    usd, geom = (pytest.importorskip(f"pxr.{name}") for name in ("Usd", "UsdGeom"))
    stage = usd.Stage.Open(str(out[2] / "export" / "particles.usda"))
    rock, gone = (geom.Mesh.Get(stage, f"/fluid/colliders/{name}") for name in ("rock", "gone"))
    tops = [max(p[2] for p in rock.GetPointsAttr().Get(frame)) for frame in range(1, 9)]
    np.testing.assert_allclose(tops, [0.1] * 3 + [0.2] * 2 + [0.1] * 3, atol=1e-6)
    seen = [gone.ComputeVisibility(frame) == "inherited" for frame in range(1, 9)]
    assert seen == [True] * 3 + [False] * 5


def test_where_files_cannot_share_they_are_copied(
    shot: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: object, target: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    path, cache = shot
    monkeypatch.setattr("runnel.cache.files.os.link", refuse)
    assert run(path, tmp_path / "b", "--branch", str(cache), "--from", "8") == 0
    assert Cache.open(tmp_path / "b").verify(finite=True) == []
    assert_same_frame(Cache.open(tmp_path / "b"), Cache.open(cache), 3)


def test_the_parents_folder_and_damaged_frames_are_refused(
    shot: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, cache = shot
    before = contents(cache)
    command = ["--branch", str(cache), "--from", "4"]
    assert run(path, cache, *command, "--set", "fluid.oil.viscosity=1") == 1
    assert "folder of its own" in capsys.readouterr().err
    assert contents(cache) == before
    parent = tmp_path / "parent"
    shutil.copytree(cache, parent)
    Cache.open(parent).frame_path(2).write_bytes(b"PK")
    with pytest.raises(CacheError, match="frame_000002"):
        Cache.branch(tmp_path / "b", Cache.open(parent), 4, {})
    assert run(path, tmp_path / "b", *command[:2], "--from", "9") == 2
    assert "frames 1 to 8" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("fps=25", "fps"),
        ("frames=[2, 9]", "frames"),
        ("solver.support=4.0", "solver.support"),
        ("fluid.oil.name=milk", "fluid"),
        ("source.dam.spacing=0.04", "source.dam"),
        ("source.jet.spacing=0.04", "source.jet.spacing"),
    ],
)
def test_what_particles_depend_on_cannot_change(tmp_path: Path, change: str, key: str) -> None:
    old = Scene.load(write_scene(tmp_path))
    overrides = [change]
    if "milk" in change:
        overrides.append("source.jet.fluid=milk")
    data = old.to_dict()
    if "milk" in change:
        data["fluid"][1]["name"] = data["source"][1]["fluid"] = "milk"
        new = Scene.from_dict(data)
    else:
        new = old.with_overrides(overrides)
    with pytest.raises(SceneError, match=key):
        check_change(old, new)
    check_change(old, old)
