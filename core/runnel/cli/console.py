"""Talking to people and machines: results on stdout, progress and complaints on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any


def say(text: str = "") -> None:
    """A line of the result."""
    sys.stdout.write(text + "\n")


def say_json(value: Any) -> None:
    """A result for machines."""
    from ..cache import plain

    say(json.dumps(plain(value), indent=2))


def complain(text: str) -> None:
    """Why a command ends."""
    sys.stderr.write(f"runnel: {text}\n")


def note(text: str, quiet: bool = False) -> None:
    """What people want to know on the way."""
    if not quiet:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Columns as wide as they need; the first `left` ones to the left, the others to the right."""
    widths = [max(len(row[k]) for row in (head, *rows)) for k in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        parts = [
            cell.ljust(width) if k < left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(parts).rstrip()

    return "\n".join(line(row) for row in (head, *rows))


def size_text(size: float) -> str:
    """Bytes for people."""
    for unit, factor in (("GB", 2**30), ("MB", 2**20), ("kB", 2**10)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size:.0f} B"
