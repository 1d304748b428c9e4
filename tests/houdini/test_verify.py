"""verify_in_houdini.py, run against the stand-in with the assets on disk installed in it.

Each check is one that a Houdini owner will run; here it goes through the asset's own PythonCook,
parameters, menus and callbacks.
"""

from __future__ import annotations

import gc
from pathlib import Path

import installed
import pytest

from houdini_hda import verify_in_houdini as verify


@pytest.fixture(autouse=True)
def house(monkeypatch: pytest.MonkeyPatch) -> installed.House:
    found = installed.enter(monkeypatch)
    gc.collect()
    verify.install()
    return found


# What only a real Houdini has.
SKIPPED = {"packed colliders", "VDB colliders"}


@pytest.mark.parametrize(("name", "function"), verify.CHECKS, ids=[n for n, _ in verify.CHECKS])
def test_check(name: str, function: object, tmp_path: Path) -> None:
    (result,) = [r for r in verify.run(name) if r.name == name]
    assert result.outcome == ("skipped" if name in SKIPPED else "held"), result.text
