# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders of a system: each bake is a take, so nothing that was simulated is lost by a change.

//runnel_cache/Liquid/meshes/...      meshes of all takes, named after what they hold
//runnel_cache/Liquid/take_001.json   the exported scene: `runnel run` takes it as it is
//runnel_cache/Liquid/take_001/       core's cache
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import time
from pathlib import Path
from typing import Any

import bpy

from runnel.cache import Cache
from runnel.errors import RunnelError

FIRST = "take_001"
SILENT = 120.0  # s without a word after which a bake on another machine counts as gone
UNSAVED = "Save the .blend first: the cache goes beside it. Or choose a folder for it."


def file_name(text: str) -> str:
    """A name that every file system takes."""
    return re.sub(r"[^\w. -]", "_", text).strip(". ") or "liquid"


def home(system: Any) -> Path | None:
    """Folder of the takes; None in a file that was never saved and has a relative one."""
    directory = system.cache_directory or f"//runnel_cache/{file_name(system.name)}"
    if directory.startswith("//") and not bpy.data.filepath:
        return None
    return Path(bpy.path.abspath(directory)).resolve()


def reading_home(system: Any) -> Path | None:
    """Where takes are read: beside the .blend, or where they were when it was saved elsewhere."""
    here = home(system)
    if here is not None and here.is_dir():
        return here
    before = Path(system.last_home) if system.last_home else None
    return before if before is not None and before.is_dir() else here


def cache_path(system: Any) -> Path:
    """Folder of the cache of the take that is shown; need not exist."""
    folder = reading_home(system)
    if folder is None:
        return Path(bpy.app.tempdir or "/") / "runnel_unsaved" / system.uid
    return folder / (system.take or FIRST)


def names(system: Any) -> list[str]:
    """Takes that are on disk, in order."""
    folder = reading_home(system)
    if folder is None or not folder.is_dir():
        return []
    return sorted(path.parent.name for path in folder.glob("*/manifest.json"))


def next_name(system: Any) -> str:
    """A take that does not exist yet."""
    folder, number = home(system), 1
    assert folder is not None
    while (folder / f"take_{number:03d}").exists():
        number += 1
    return f"take_{number:03d}"


def open_cache(folder: Path) -> Cache | None:
    """A take's cache, None if there is none that can be read."""
    try:
        return Cache.open(folder) if (folder / "manifest.json").is_file() else None
    except RunnelError:
        return None


def delete(system: Any, take: str) -> None:
    """Remove a take and the meshes that no other take names."""
    folder = home(system)
    if folder is None or take not in names(system):
        return
    shutil.rmtree(folder / take, ignore_errors=True)
    (folder / f"{take}.json").unlink(missing_ok=True)
    kept = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.json"))
    for path in (folder / "meshes").glob("*"):
        if path.stem not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


# Two instances of Blender may have one file open.


def _lock(folder: Path, take: str) -> Path:
    return folder / f"{take}.lock"


def lock(folder: Path, take: str, pid: int) -> None:
    """Note which process bakes a take."""
    _lock(folder, take).write_text(f"{pid} {platform.node()}\n", encoding="utf-8")


def unlock(folder: Path, take: str) -> None:
    _lock(folder, take).unlink(missing_ok=True)


def check_lock(folder: Path, take: str) -> None:
    """Refuse a take that another process bakes now; what a crash left behind does not count."""
    try:
        pid, node = _lock(folder, take).read_text(encoding="utf-8").split()
        if node == platform.node() and os.name == "posix":
            os.kill(int(pid), 0)
        elif time.time() - (folder / f"{take}.log").stat().st_mtime > SILENT:
            return
    except (OSError, ValueError):
        return
    raise RunnelError(
        f"{take} is being baked by process {pid} on {node}. Stop that first, or delete "
        f"{_lock(folder, take)} if it is gone."
    )


def write_scene(path: Path, data: dict[str, Any]) -> None:
    """The exported scene, aside and renamed."""
    aside = path.with_suffix(".part")
    aside.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    aside.replace(path)
