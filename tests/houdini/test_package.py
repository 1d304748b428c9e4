"""The zip for Houdini's packages folder."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from houdini_hda import package

CODE = """
import sys
sys.path.insert(0, sys.argv[1])
import runnel
from runnel_houdini.values import evaluate
assert runnel.__file__.startswith(sys.argv[1]), runnel.__file__
assert runnel.example("dam_break").sources
print(runnel.__version__)
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("houdini")
    path, sizes = package.build(folder / "dist", light=True, only_own=True)
    assert sizes["Runnel"][0] > 200
    with zipfile.ZipFile(path) as zipped:
        assert zipped.testzip() is None
        assert all(not n.startswith(("/", "..")) for n in zipped.namelist())
        zipped.extractall(folder / "packages")
    return folder / "packages"


def test_layout_is_that_of_the_package_file(unpacked: Path) -> None:
    declared = json.loads((unpacked / "runnel.json").read_text(encoding="utf-8"))
    home = Path(declared["hpath"].replace("$HOUDINI_PACKAGE_PATH", str(unpacked)))
    assert {p.name for p in home.iterdir()} == {
        "INSTALL.md", "LICENSE", "otls", "python3.11libs", "verify_in_houdini.py",
        "verify_inputs.py", "verify_tools.py",
    }  # fmt: skip
    assert len(list((home / "otls").glob("*.hda"))) == 5
    assert (home / "otls/runnel.fluid_solver.1.0.hda/houdini.hdalibrary").read_bytes() == b""
    assert (home / "INSTALL.md").stat().st_size > 1000


def test_works_from_there_alone(unpacked: Path) -> None:
    libs = unpacked / "runnel/python3.11libs"
    run = subprocess.run(
        [sys.executable, "-c", CODE, str(libs)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == package.version()


def test_same_files_give_the_same_zip(tmp_path: Path) -> None:
    one, _ = package.build(tmp_path / "a", light=True, only_own=True)
    two, _ = package.build(tmp_path / "b", light=True, only_own=True)
    assert one.read_bytes() == two.read_bytes()


def test_libraries_are_complete_and_leave_numpy_to_houdini() -> None:
    names = package.libraries(light=False)
    assert {"numba", "llvmlite", "pyopencl", "pytools", "platformdirs"} <= set(names)
    assert "numpy" not in names
    assert "pocl-binary-distribution" not in package.libraries(light=True)
    files = [name for dist in names for name, _ in package.library_files(dist)]
    assert not [f for f in files if f.startswith(f"{package.LIBS}/numpy/")]
    assert all(f.startswith(package.LIBS) for f in files)
