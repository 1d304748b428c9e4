"""Where the scene of a cache lies: pictures of its colliders need their mesh files.

A line of text beside the manifest. Caches that were moved to another machine do without.
"""

from __future__ import annotations

import os
from pathlib import Path

NAME = "scene_folder.txt"


def remember_folder(cache: Path, folder: Path | None) -> None:
    """Write down the folder that a scene's files are relative to."""
    aside = cache / f".{NAME}.{os.getpid()}"
    aside.write_text(str((folder or Path()).resolve()), encoding="utf-8")
    os.replace(aside, cache / NAME)


def find_folder(cache: Path) -> Path | None:
    """That folder; None if it is not known or not there any more."""
    try:
        with (cache / NAME).open(encoding="utf-8") as file:
            folder = Path(file.read(4096))
        return folder if folder.is_dir() else None
    except (OSError, ValueError):
        return None
