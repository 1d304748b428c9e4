"""Puts the stand-in in Houdini's place, and the adapter on the path, as a package does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ADAPTER = ROOT / "houdini_hda" / "python3.11libs"

for folder in (str(ADAPTER), str(Path(__file__).parent)):
    if folder not in sys.path:
        sys.path.insert(0, folder)

import hou_standin  # noqa: E402

sys.modules["hou"] = hou_standin


@pytest.fixture(autouse=True)
def _fresh_houdini(tmp_path: Path) -> Iterator[None]:
    """Each test starts Houdini anew."""
    from hou_standin import world

    world.restart()
    world.NOW.variables["HIP"] = str(tmp_path)
    yield
    from runnel_houdini import sessions

    for session in sessions.alive():
        session.close()
