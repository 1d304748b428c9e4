"""`runnel preview`, `mesh`, `report`: what is made from a cache."""

from __future__ import annotations

from typing import Any


def add_parsers(commands: Any) -> None:
    pass
