"""A Python to start processes with. Imports nothing of ours."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def find_interpreter() -> str | None:
    """Inside of some hosts sys.executable is the host, which must not be started a second time.

    None: there is no other.
    """
    name = Path(sys.executable).name.lower()
    if "python" in name or "hython" in name:
        return sys.executable
    prefix, houdini = Path(sys.prefix), Path(os.environ.get("HFS") or sys.prefix)
    candidates = [prefix / p for p in ("bin/python3", "bin/python", "python.exe", "bin/python.exe")]
    candidates += [houdini / "bin/hython", houdini / "bin/hython.exe"]
    return next((str(path) for path in candidates if path.exists()), None)
