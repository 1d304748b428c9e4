"""The stand-in is Houdini's module as far as it goes: names, parameters, defaults, bases."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

import hou_standin
import pytest

ADAPTER = Path(__file__).resolve().parents[2] / "houdini_hda" / "python3.11libs" / "runnel_houdini"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def stub() -> dict[str, ast.stmt]:
    """Classes and functions of Houdini's own stubs."""
    folder = Path(importlib.util.find_spec("pytest").origin).parents[1]  # site-packages
    path = folder / "hou-stubs" / "__init__.pyi"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {n.name: n for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}


def members(name: str) -> dict[str, ast.stmt]:
    """Methods and values of a class, those it inherits too."""
    node = stub()[name]
    assert isinstance(node, ast.ClassDef)
    found: dict[str, ast.stmt] = {}
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in stub():
            found |= members(base.id)
    for item in node.body:
        if isinstance(item, Function):
            found[item.name] = item
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            found[item.target.id] = item
    return found


CLASSES = [n for n in hou_standin.__all__ if inspect.isclass(getattr(hou_standin, n))]
FUNCTIONS = [n for n in hou_standin.__all__ if n not in CLASSES]


def check_signature(ours: Any, theirs: ast.stmt, what: str) -> None:
    assert isinstance(theirs, Function), what
    args = theirs.args
    names = [a.arg for a in (*args.posonlyargs, *args.args)]
    defaults = [None] * (len(names) - len(args.defaults)) + list(args.defaults)
    mine = list(inspect.signature(ours).parameters.values())
    if args.vararg is not None:  # SWIG's (*args, **kwargs)
        assert [p.kind.name for p in mine][-2:] == ["VAR_POSITIONAL", "VAR_KEYWORD"] or names, what
        return
    assert [p.name for p in mine] == names, what
    for parameter, default in zip(mine, defaults, strict=True):
        given = parameter.default is not inspect.Parameter.empty
        assert given == (default is not None), f"{what}: default of {parameter.name}"
        if isinstance(default, ast.Constant) and default.value is not Ellipsis:
            assert parameter.default == default.value, f"{what}: default of {parameter.name}"
        elif isinstance(default, ast.UnaryOp):
            assert parameter.default == ast.literal_eval(default), what


@pytest.mark.parametrize("name", CLASSES)
def test_class(name: str) -> None:
    ours = getattr(hou_standin, name)
    theirs = members(name)
    for base in ours.__mro__[1:-1]:
        if base.__module__.startswith("hou_standin"):
            assert base.__name__ in bases_of(name), f"{name} is no {base.__name__}"
    for key, value in vars(ours).items():
        if key.startswith("_") and key not in ("__init__", "__enter__", "__exit__"):
            continue
        assert key in theirs, f"hou.{name} has no {key}"
        function = value.__func__ if isinstance(value, staticmethod) else value
        if inspect.isfunction(function):
            check_signature(function, theirs[key], f"{name}.{key}")
        else:
            assert isinstance(theirs[key], ast.AnnAssign), f"{name}.{key}"


def bases_of(name: str) -> set[str]:
    node = stub()[name]
    assert isinstance(node, ast.ClassDef)
    direct = {b.id for b in node.bases if isinstance(b, ast.Name)}
    return direct.union(*(bases_of(b) for b in direct if b in stub()))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    assert name in stub(), f"hou has no {name}"
    check_signature(getattr(hou_standin, name), stub()[name], name)


def used_names() -> set[str]:
    """hou.X and hou.X.Y that the adapter names."""
    found = set()
    for path in ADAPTER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            if re.fullmatch(r"hou(\.\w+){1,2}", text):
                found.add(text)
    return found


def test_all_that_the_adapter_names_is_in_houdini() -> None:
    """mypy checks types; that an enumeration has a value it does not."""
    names = used_names()
    assert len(names) > 20
    for name in names:
        first, *rest = name.split(".")[1:]
        assert first in stub(), name
        if rest:
            assert rest[0] in members(first), name


def test_primitive_types_that_are_looked_up_by_name() -> None:
    from runnel_houdini.geometry import _PACKED

    assert set(_PACKED) <= members("primType").keys()
