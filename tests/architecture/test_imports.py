"""The shape of the code, as docs/architecture.md draws it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[2] / "core"
PACKAGE = CORE / "runnel"
FILES = sorted(PACKAGE.rglob("*.py"))

HOSTS = {"bpy", "bmesh", "mathutils", "hou"}
LAZY = {
    "pyopencl",
    "numba",
    "openvdb",
    "pyopenvdb",
    "PIL",
    "pysplashsurf",
    "zstandard",
    "bpy",
    "pxr",
}
LINES_OF_A_FILE, LINES_OF_A_FUNCTION = 800, 60

# From the bottom up: a module imports from rows above its own here, or from its own package.
LAYERS = (
    "errors interpreter kernels presets",
    "spec mesh_formats cache.files solver.calibration export.binjson export.geometry",
    "params images export.bgeo_read",
    "points meshes particles collider_maps solver.model solver.acceleration",
    "scene_checks",
    "scene fields backends.linker backends.pocl backends.probe",
    "backends.base",
    "schema motion backends.devices",
    "mesh_sequence",
    "shapes collider_fields",
    "sources colliders forces backends.reference backends.opencl",
    "solver.cells solver.coupling",
    "solver.openings",
    "solver.coarse",
    "solver.step wetmap bodies",
    "simulation cache progress surfacing solids",
    "pilot",
    "branching preview bench estimate",
    "surface",
    "export leaks report",
    "cli",
    "__main__",
)


def module_name(file: Path) -> str:
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def layer(module: str) -> tuple[int, str] | None:
    """Row of a module and the entry of the table that it belongs to; None: not in the table."""
    for row, names in enumerate(LAYERS):
        for name in names.split():
            if module == name or module.startswith(f"{name}."):
                return row, name
    return None


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything a file imports; `from . import x` gives the name of x."""
    package = file.parent.relative_to(CORE).parts
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for_types = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for child in node.body
    }
    for node in ast.walk(tree):
        if node in for_types:  # names a class, loads nothing
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            source = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                deeper = CORE.joinpath(*f"{source}.{alias.name}".split("."))
                is_module = deeper.is_dir() or deeper.with_suffix(".py").exists()
                yield node.lineno, f"{source}.{alias.name}" if is_module else source


def functions(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_core_knows_no_host() -> None:
    found = [
        f"{file.relative_to(CORE)}:{line} imports {name}"
        for file in FILES
        for line, name in imports(file)
        if name.split(".")[0] in HOSTS
    ]
    assert found == []


def test_core_imports_itself_relatively() -> None:
    found = []
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            if any(name.split(".")[0] == "runnel" for name in names):
                found.append(f"{file.relative_to(CORE)}:{node.lineno}")
    assert found == []


def test_every_module_has_its_place() -> None:
    """A new module joins the table above and docs/architecture.md."""
    empty = [f for f in FILES if not f.read_text(encoding="utf-8").strip()]
    names = {module_name(f) for f in FILES if f not in empty} - {""}
    assert sorted(name for name in names if layer(name) is None) == []


def test_imports_point_downwards() -> None:
    found = []
    for file in FILES:
        place = layer(module_name(file))
        if place is None:  # the package itself, whose __init__ offers the public names
            continue
        row, entry = place
        for line, name in imports(file):
            if not name.startswith("runnel."):
                continue
            target = layer(name.removeprefix("runnel."))
            if target and target[1] != entry and target[0] >= row:
                found.append(f"{file.relative_to(CORE)}:{line} imports {name}, which is not below")
    assert found == []


@pytest.mark.parametrize("module", ["runnel", "runnel.backends.devices", "runnel.scene"])
def test_importing_loads_no_heavy_library(module: str) -> None:
    """Hosts import us at start-up, and libraries clash there: what is heavy waits for its use."""
    code = (
        "import sys\n"
        f"import {module}\n"
        "loaded = {name.split('.')[0] for name in sys.modules}\n"
        f"print(*sorted(loaded & set({sorted(LAZY | HOSTS)!r})))"
    )
    environment = {**os.environ, "PYTHONPATH": str(CORE)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_sizes() -> None:
    long_files = [
        f"{file.relative_to(CORE)}: {count} lines"
        for file in FILES
        if (count := len(file.read_text(encoding="utf-8").splitlines())) > LINES_OF_A_FILE
    ]
    long_functions = [
        f"{file.relative_to(CORE)}:{node.lineno} {node.name}: {count} lines"
        for file in FILES
        for node in functions(file)
        if (count := (node.end_lineno or node.lineno) - node.lineno + 1) > LINES_OF_A_FUNCTION
    ]
    assert long_files + long_functions == []


def test_no_drawer_for_everything() -> None:
    names = {"utils.py", "util.py", "helpers.py", "misc.py"}
    assert [str(file.relative_to(CORE)) for file in FILES if file.name in names] == []
