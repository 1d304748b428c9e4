"""Pictures: a baked splash as it was before, and from the cache alone, as a farm renders it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.blender.conftest import bare_packages, runnel

ROOT = Path(__file__).resolve().parents[2]
REFERENCES = Path(__file__).parent / "references"
TARGET, EYE = (0.3, 0.3, 0.12), (1.3, -0.9, 0.85)
WIDTH, HEIGHT = 160, 90
ALIKE = 0.9

# Nothing but Blender, numpy, core and the add-on: no numba, no OpenCL.
FARM = """
import os, sys
sys.path[:0] = sys.argv[3:]
for name in ("numba", "llvmlite", "pyopencl", "zstandard", "PIL"):
    sys.modules[name] = None  # an import would fail
import bpy
import blender_addon
blender_addon.register()
bpy.ops.wm.open_mainfile(filepath=sys.argv[1])
scene = bpy.context.scene
scene.render.filepath = sys.argv[2]
bpy.ops.render.render(animation=True)
print("MESSAGE", repr(scene.runnel.systems[0].display.message))
sys.stdout.flush()
os._exit(0)
"""


def likeness(a: np.ndarray, b: np.ndarray) -> float:
    """Structural similarity of two pictures (Wang et al. 2004), on means of 7 x 7 pixels."""
    one, two = a.mean(axis=2), b.mean(axis=2)

    def mean(values: np.ndarray) -> np.ndarray:
        windows = np.lib.stride_tricks.sliding_window_view(values, (7, 7))
        return windows.mean(axis=(2, 3))

    mu, nu = mean(one), mean(two)
    var, war = mean(one * one) - mu**2, mean(two * two) - nu**2
    both = mean(one * two) - mu * nu
    c, d = 0.01**2, 0.03**2
    score = (2 * mu * nu + c) * (2 * both + d) / ((mu**2 + nu**2 + c) * (var + war + d))
    return float(score.mean())


@pytest.mark.parametrize("kind", ["POINTS", "SURFACE"])
def test_a_splash_looks_as_it_did(
    bpy: Any, system: Any, splash: Path, tmp_path: Path, kind: str
) -> None:
    """Structure of the picture as stored; another frame does not pass for it."""
    from blender_addon.deliver import playback
    from tests.blender import stage

    folder = Path(shutil.copytree(splash, tmp_path / "cache"))
    if kind == "SURFACE":
        runnel("mesh", str(folder), "--frames", "6-6", "--each-fluid", "--quiet")
    scene, shown = bpy.context.scene, system(folder)
    shown.display.shown = kind
    scene.frame_set(6)
    playback.show(shown, scene)
    assert shown.display.message == ""
    stage.build(TARGET, EYE)
    picture = stage.shoot(tmp_path / "now.png", WIDTH, HEIGHT, samples=32)
    reference = REFERENCES / f"splash_{kind.lower()}.png"
    if "RUNNEL_NEW_REFERENCES" in os.environ:
        REFERENCES.mkdir(exist_ok=True)
        shutil.copy(tmp_path / "now.png", reference)
    known = stage.pixels(reference)
    assert likeness(picture, known) > ALIKE
    scene.frame_set(1)
    assert likeness(stage.shoot(tmp_path / "other.png", WIDTH, HEIGHT, 32), known) < ALIKE - 0.05


def test_a_farm_renders_the_cache_without_the_solver(
    bpy: Any, addon: Any, splash: Path, tmp_path: Path
) -> None:
    """From a .blend and its cache, where neither numba nor OpenCL can be imported: the frames of an
    animation are those that the artist sees."""
    from tests.blender import stage

    scene = bpy.context.scene
    bpy.ops.runnel.system_add()
    held = scene.runnel.systems[0]
    shutil.copytree(splash, tmp_path / "shot" / "liquid" / "take_001")
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "shot" / "shot.blend"))
    held.cache_directory = "//liquid"
    scene.frame_set(4)
    bpy.ops.runnel.show_cache()
    assert held.display.message == ""
    stage.build(TARGET, EYE)
    mine = {}
    for frame in (4, 9):
        scene.frame_set(frame)
        mine[frame] = stage.shoot(tmp_path / f"mine{frame}.png", WIDTH, HEIGHT, 8, blur=True)
    scene.frame_start, scene.frame_end, scene.frame_step = 4, 9, 5
    bpy.ops.wm.save_mainfile()

    moved = tmp_path / "farm"
    shutil.move(tmp_path / "shot", moved)
    bare = bare_packages(tmp_path / "bare")
    script = tmp_path / "farm.py"
    script.write_text(FARM)
    done = subprocess.run(
        [sys.executable, "-S", str(script), str(moved / "shot.blend"), str(tmp_path / "out_####"),
         str(bare), str(ROOT / "core"), str(ROOT)],
        capture_output=True, text=True, timeout=120, cwd=tmp_path,
    )  # fmt: skip
    assert "MESSAGE ''" in done.stdout, done.stdout + done.stderr
    for frame, picture in mine.items():
        np.testing.assert_allclose(
            stage.pixels(tmp_path / f"out_{frame:04d}.png"), picture, atol=0.02
        )
    assert np.abs(mine[4] - mine[9]).max() > 0.1
