# SPDX-FileCopyrightText: 2026 The Runnel authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the extension: one zip per platform with core and all that it needs, as wheels.

    python blender_addon/build.py [--platform linux-x64 ...] [--python 3.11 ...] [--out FOLDER]

Wheels come from the package index (or from the folder of an earlier build) and are put into a copy
of this folder; Blender's own extension tool, which the bpy wheel carries, builds and validates.
numpy is Blender's; usd-core must not come along, because Blender has its own pxr.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

SOURCE = Path(__file__).resolve().parent
ROOT = SOURCE.parent
PYTHONS = ("3.11", "3.13")  # Blender 4.5 and 5.0, Blender 5.1 and later
# Tags that wheels for Blender's platforms may have, newest first.
PLATFORMS = {
    "linux-x64": ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux2014_x86_64"),
    "windows-x64": ("win_amd64",),
    "macos-arm64": ("macosx_12_0_arm64", "macosx_11_0_arm64"),
}
NEEDED = (
    "numba",
    "llvmlite",
    "pyopencl",
    "pytools",
    "platformdirs",
    "siphash24",
    "typing_extensions",
    "zstandard",
)
ONLY_ON = {"pocl-binary-distribution": ("linux-x64",)}  # elsewhere drivers bring OpenCL
LEFT_OUT = shutil.ignore_patterns("__pycache__", "build.py", "*.pyc", ".*")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Plain)
    parser.add_argument("--platform", nargs="+", choices=tuple(PLATFORMS), default=list(PLATFORMS))
    parser.add_argument("--python", nargs="+", choices=PYTHONS, default=list(PYTHONS))
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "blender")
    parser.add_argument("--wheels", type=Path, default=ROOT / "build" / "blender-wheels")
    chosen = parser.parse_args()
    for file in build(chosen.platform, chosen.python, chosen.out, chosen.wheels):
        sys.stdout.write(f"{file}  {file.stat().st_size / 1e6:.0f} MB\n")
    return 0


class _Plain(argparse.RawDescriptionHelpFormatter):
    """The description as it is written."""


def build(platforms: Iterable[str], pythons: Iterable[str], out: Path, wheels: Path) -> list[Path]:
    """Zips for the platforms, validated."""
    out.mkdir(parents=True, exist_ok=True)
    wheels.mkdir(parents=True, exist_ok=True)
    made = []
    with tempfile.TemporaryDirectory() as scratch:
        core = core_wheel(Path(scratch) / "core")
        for platform in platforms:
            found = [core]
            for python in pythons:
                found += fetch(platform, python, wheels)
            stage = Path(scratch) / platform
            prepare(stage, platform, sorted(set(found)))
            target = out / f"runnel-{_version()}-{platform.replace('-', '_')}.zip"
            extension_tool("build", f"--source-dir={stage}", f"--output-filepath={target}")
            extension_tool("validate", str(target))
            made.append(target)
    return made


def core_wheel(folder: Path) -> Path:
    """Wheel of core, from a copy of its sources: building leaves traces beside them."""
    folder.mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "core", folder / "core", ignore=LEFT_OUT)
    _pip("wheel", "--no-deps", "--wheel-dir", str(folder / "made"), str(folder))
    return next((folder / "made").glob("runnel-*.whl"))


def fetch(platform: str, python: str, wheels: Path) -> list[Path]:
    """Wheels that a platform and Python need; what `wheels` holds already is not loaded again."""
    names = [*NEEDED, *(name for name, where in ONLY_ON.items() if platform in where)]
    tags = [f"--platform={tag}" for tag in PLATFORMS[platform]]
    target = wheels / f"{platform}-{python}"
    done = target / ".complete"
    wanted = "\n".join([*names, _constraints()])
    if not done.exists() or done.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(target, ignore_errors=True)
        _pip("download", "--no-deps", "--only-binary=:all:", "--implementation=cp",
             f"--python-version={python}", *tags, f"--dest={target}",
             f"--constraint={ROOT / 'tests' / 'constraints.txt'}", *names)  # fmt: skip
        done.write_text(wanted, encoding="utf-8")
    return sorted(target.glob("*.whl"))


def prepare(stage: Path, platform: str, wheels: list[Path]) -> None:
    """A copy of the add-on with its wheels, and a manifest that lists them."""
    shutil.copytree(SOURCE, stage, ignore=LEFT_OUT)
    shutil.copy(ROOT / "LICENSE", stage / "LICENSE-Apache-2.0.txt")  # core's
    (stage / "wheels").mkdir()
    names: dict[str, Path] = {wheel.name: wheel for wheel in wheels}
    for wheel in names.values():
        shutil.copy(wheel, stage / "wheels")
    listed = "".join(f'  "./wheels/{name}",\n' for name in sorted(names))
    added = f'platforms = ["{platform}"]\nwheels = [\n{listed}]\n\n'
    manifest = stage / "blender_manifest.toml"
    text = manifest.read_text(encoding="utf-8")
    head, mark, tail = text.partition("[permissions]")
    manifest.write_text(f"{head}{added}{mark}{tail}", encoding="utf-8")


def extension_tool(*arguments: str) -> None:
    """Run Blender's tool for extensions; raises with its words when it is not content."""
    done = subprocess.run(
        [sys.executable, str(_tool()), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)}:\n{done.stdout}{done.stderr}")


def _tool() -> Path:
    spec = importlib.util.find_spec("bpy")
    for folder in (spec and spec.submodule_search_locations) or ():
        for tool in Path(folder).glob("*/scripts/addons_core/bl_pkg/cli/blender_ext.py"):
            return tool
    raise SystemExit("Blender's extension tool is part of the bpy wheel: pip install bpy")


def _pip(*arguments: str) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "315532800"}  # same sources, same wheel
    command = [sys.executable, "-m", "pip", arguments[0], "-qq", "--disable-pip-version-check"]
    done = subprocess.run([*command, *arguments[1:]], env=environment, check=False)
    if done.returncode != 0:
        raise SystemExit(f"pip {' '.join(arguments)} failed")


def _constraints() -> str:
    return (ROOT / "tests" / "constraints.txt").read_text(encoding="utf-8")


def _version() -> str:
    manifest = tomllib.loads((SOURCE / "blender_manifest.toml").read_text(encoding="utf-8"))
    return str(manifest["version"])


if __name__ == "__main__":
    sys.exit(main())
