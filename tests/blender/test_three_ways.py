"""One shot from Blender, from Houdini and from a file of one's own: the same bytes in the cache."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from runnel import Cache, Scene, cli

ROOT = Path(__file__).resolve().parents[2]
BLOCK, TANK, SPACING, LAST = 0.5, 1.0, 0.1, 4


def by_blender(bpy: Any, folder: Path) -> Path:
    from blender_addon import properties
    from blender_addon.gather import gather

    scene = bpy.context.scene
    scene.frame_end, scene.render.fps = LAST, 24
    system = properties.add_system(scene)
    system.spacing = SPACING
    system.fluids[0].preset = "water"
    for role, size in (("FLUID", BLOCK), ("DOMAIN", TANK)):
        bpy.ops.mesh.primitive_cube_add(size=size, location=(size / 2,) * 3)
        bpy.context.object.runnel.role = role
    bpy.context.object.runnel.domain.mode = "close"
    export = gather(bpy.context, system, folder)
    export.check()
    return written(folder, export.scene)


def by_houdini(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path in ("tests/houdini", "houdini_hda/python3.11libs"):
        monkeypatch.syspath_prepend(str(ROOT / path))
    import hou_standin

    monkeypatch.setitem(sys.modules, "hou", hou_standin)
    from shots import box, pool, upstream

    from runnel_houdini import farm

    solver = pool(
        upstream(box((0, 0, 0), (BLOCK,) * 3)), particlesep=SPACING, upaxis="z", autosubsteps=1,
        gravity=(0.0, 0.0, -9.81), domainmax=(TANK,) * 3, endframe=LAST, cachedir=str(folder),
        preset1="water",
    )  # fmt: skip
    return farm.write_scene(solver).scene


def by_hand(folder: Path) -> Path:
    block = {"box": {"min": [0, 0, 0], "max": [BLOCK] * 3}}
    scene = {
        "frames": [1, LAST], "fluid": [{"name": "water", "preset": "water"}],
        "source": [{"fluid": "water", "shape": block, "spacing": SPACING}],
        "domain": {"min": [0, 0, 0], "max": [TANK] * 3, "mode": "close"},
    }  # fmt: skip
    return written(folder, Scene.from_dict(scene))


def written(folder: Path, scene: Scene) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scene.json").write_text(json.dumps(scene.to_dict()))
    return folder / "scene.json"


def test_the_same_bytes(
    addon: Any, bpy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenes = [
        by_blender(bpy, tmp_path / "blender"),
        by_houdini(tmp_path / "houdini", monkeypatch),
        by_hand(tmp_path / "hand"),
    ]
    caches = []
    for scene in scenes:
        out = tmp_path / f"cache of {scene.parent.parent.name} {scene.parent.name}"
        assert cli.main(["run", str(scene), "--out", str(out), "--quiet"]) == 0
        caches.append(Cache.open(out))
    for frame in range(1, LAST + 1):
        frames = [cache.read(frame) for cache in caches]
        for name in ("position", "velocity", "radius", "density", "phase", "id"):
            first, *others = (frame[name].tobytes() for frame in frames)
            assert all(other == first for other in others), (frame, name)
        assert len(frames[0]["id"]) == 125
