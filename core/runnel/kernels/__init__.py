"""OpenCL sources, and the text of a program from them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

ORDER = (
    "common",
    "wide",
    "fields",
    "reactions",
    "solids",
    "containers",
    "walls",
    "neighbors",
    "lists",
    "density",
    "correction",
    "velocity",
    "emission",
    "bodies",
)


def source() -> str:
    """All passes as one program, in an order in which each finds what it uses."""
    return "\n".join((files(__package__) / f"{name}.cl").read_text() for name in ORDER)


def options(defines: Mapping[str, int | float]) -> list[str]:
    """Compiler flags. Denormals cost a factor of two in the powers of s_corr."""
    flags = ["-cl-fast-relaxed-math", "-cl-mad-enable", "-cl-denorms-are-zero"]
    for name, value in defines.items():
        text = f"{value:.9e}f" if isinstance(value, float) else str(value)
        flags.append(f"-D{name}={text}")
    return flags
