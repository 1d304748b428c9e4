"""Finding a Python inside of hosts whose executable is not one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from runnel.interpreter import find_interpreter


@pytest.mark.parametrize("name", ["python3.11", "Python.exe", "hython", "hython-bin"])
def test_a_python_is_taken_as_it_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", f"/somewhere/{name}")
    assert find_interpreter() == f"/somewhere/{name}"


@pytest.mark.parametrize("file", ["python/bin/python3", "python/python.exe", "bin/hython"])
def test_a_host_is_not_started_again(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Houdini's folder, as its variables name it."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/houdini-bin"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "python"))
    monkeypatch.setenv("HFS", str(tmp_path))
    assert find_interpreter() is None
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).touch()
    assert find_interpreter() == str(tmp_path / file)
