"""Bakes in the background, by an installed Blender: the commands of docs/blender/first_shot.md."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from runnel.cache import Cache
from tests.blender.conftest import runnel

ROOT = Path(__file__).resolve().parents[2]
BAKE = "import bpy; bpy.ops.runnel.bake()"
SET_UP = """
import bpy, os
bpy.ops.wm.read_homefile(use_empty=True)
bpy.context.scene.frame_end = 3
bpy.ops.mesh.primitive_cube_add(size=0.4, location=(0, 0, 0.5))
bpy.ops.runnel.quick_liquid(particles=200)
bpy.ops.wm.save_as_mainfile(filepath=os.path.abspath("shot.blend"))
"""

pytestmark = pytest.mark.skipif(
    shutil.which("blender") is None,
    reason="no blender: apt-get install --no-install-recommends blender python3-numpy",
)


def blender(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Debian's Blender without a window; the add-on is installed in a profile of its own."""
    scripts = folder / "scripts"
    for name, source in (
        ("addons/runnel_addon", "blender_addon"),
        ("addons/modules/runnel", "core/runnel"),
    ):
        if not (scripts / name).exists():
            (scripts / name).parent.mkdir(parents=True, exist_ok=True)
            (scripts / name).symlink_to(ROOT / source)
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        "PWD": str(folder),  # Blender takes that for the current folder
        "RUNNEL_PYTHON": sys.executable,
        "BLENDER_USER_CONFIG": str(folder / "config"),
        "BLENDER_USER_SCRIPTS": str(scripts),
    }
    command = ["blender", "-b", *arguments[:1], "--addons", "runnel_addon", *arguments[1:]]
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=200, check=False
    )


def channels(folder: Path) -> dict[str, dict[str, bytes]]:
    found = {}
    for path in sorted((folder / "frames").glob("frame_*.npz")):
        with zipfile.ZipFile(path) as pack:
            names = [name for name in pack.namelist() if name != "runnel.header.npy"]
            found[path.name] = {name: pack.read(name) for name in names}
    return found


def test_a_bake_from_the_command_line(tmp_path: Path) -> None:
    """It ends with status 0 and the frames that `runnel run` makes; one that fails, with 1."""
    done = blender(
        tmp_path, "--factory-startup", "--python-exit-code", "1", "--python-expr", SET_UP
    )
    assert done.returncode == 0, done.stdout + done.stderr
    bake = ("--python-exit-code", "1", "--python-expr", BAKE)
    done = blender(tmp_path, "shot.blend", *bake)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "frame 3/3" in done.stdout
    take = tmp_path / "runnel_cache" / "Liquid" / "take_001"
    assert Cache.open(take).frames() == [1, 2, 3]
    runnel("run", str(take.with_suffix(".json")), "--out", str(tmp_path / "cli"), "--quiet")
    assert channels(take) == channels(tmp_path / "cli")
    wrong = "import bpy; scene = bpy.context.scene; scene.runnel.systems[0].device = 'absent'; "
    done = blender(tmp_path, "shot.blend", *bake[:-1], f"{wrong} scene.frame_end = 4; {BAKE}")
    assert done.returncode == 1
    assert "absent" in next(line for line in done.stdout.splitlines() if "RuntimeError" in line)
    assert Cache.open(take).frames() == [1, 2, 3]
