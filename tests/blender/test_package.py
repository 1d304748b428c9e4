"""The extension as users get it: built, checked by Blender's own tool, installed offline."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.blender.conftest import bare_packages

ROOT = Path(__file__).resolve().parents[2]
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

# Blender with an empty profile and nothing of this environment but bpy and numpy.
INSTALL = """
import json, os, subprocess, sys
sys.path.insert(0, sys.argv[2])
import bpy
bpy.ops.wm.read_factory_settings(use_empty=True)
bpy.context.preferences.system.use_online_access = False
bpy.ops.extensions.package_install_files(
    filepath=sys.argv[1], repo="user_default", enable_on_install=True)
name = "bl_ext.user_default.runnel"
import runnel, numba, pyopencl, zstandard
worker = sys.modules[name + ".worker"]
baked = subprocess.run(
    worker.command("run", sys.argv[3], "--out", sys.argv[4], "--quiet", "--frames", "1-2"),
    env=worker.environment(), capture_output=True, text=True)
print("RESULT " + json.dumps({
    "enabled": name in bpy.context.preferences.addons,
    "operators": sorted(dir(bpy.ops.runnel)),
    "files": [module.__file__ for module in (runnel, numba, pyopencl, zstandard)],
    "status": baked.returncode, "error": baked.stderr[-2000:]}))
sys.stdout.flush()
os._exit(0)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The zip for this machine and Python."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("the zip is built for Linux x86_64 here")
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "blender_addon/build.py", "--platform", "linux-x64", "--python", PYTHON,
         "--out", str(out)],
        cwd=ROOT, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    if "pip download" in done.stderr:
        pytest.skip(f"wheels cannot be had: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.zip"))


def test_the_zip_holds_all_it_needs_and_nothing_blender_has(package: Path) -> None:
    """Manifest, licences, core and its wheels; neither numpy nor pxr, which are Blender's own."""
    with zipfile.ZipFile(package) as content:
        names = content.namelist()
        manifest = tomllib.loads(content.read("blender_manifest.toml").decode())
    assert manifest["license"] == ["SPDX:GPL-3.0-or-later"]
    assert {f"./{name}" for name in names if name.endswith(".whl")} == set(manifest["wheels"])
    wheels = {Path(name).name.split("-")[0] for name in manifest["wheels"]}
    assert wheels == {
        "runnel", "numba", "llvmlite", "pyopencl", "pytools", "platformdirs", "siphash24",
        "typing_extensions", "zstandard", "pocl_binary_distribution",
    }  # fmt: skip
    assert {"__init__.py", "deliver/playback.py", "LICENSE", "LICENSE-Apache-2.0.txt"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or name == "build.py"]


def test_versions_agree() -> None:
    """Core and add-on are released together."""
    core = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    addon = tomllib.loads((ROOT / "blender_addon" / "blender_manifest.toml").read_text())
    assert addon["version"] == core


def test_installs_offline_into_a_clean_profile_and_bakes(package: Path, tmp_path: Path) -> None:
    """Installed, enabled, and a bake runs in a process of its own with the wheels of the zip."""
    bare = bare_packages(tmp_path / "bare")
    script, profile = tmp_path / "install.py", tmp_path / "profile"
    script.write_text(INSTALL)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "BLENDER_USER_RESOURCES": str(profile),
        "https_proxy": "http://127.0.0.1:9",  # nobody answers there
        "http_proxy": "http://127.0.0.1:9",
    }
    scene, out = ROOT / "tests" / "blender" / "scenes" / "splash.toml", tmp_path / "cache"
    done = subprocess.run(
        [sys.executable, "-S", str(script), str(package), str(bare), str(scene), str(out)],
        env=env, capture_output=True, text=True, timeout=200, cwd=tmp_path,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stdout + done.stderr
    result = json.loads(lines[0][7:])
    assert result["enabled"]
    assert "bake" in result["operators"]
    assert all(file.startswith(str(profile)) for file in result["files"]), result["files"]
    assert result["status"] == 0, result["error"]
    assert (out / "frames" / "frame_000002.npz").exists()
