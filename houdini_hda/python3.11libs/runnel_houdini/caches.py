"""Frames from a cache on disk, while it may still be growing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runnel import Cache, RunnelError
from runnel.export.solids import find_solids
from runnel.preview.coloring import fluid_colors

from .deliver import Fluids
from .frames import Frame, Solid
from .geometry import matches
from .parameters import ATTRIBUTES

Array = NDArray[Any]


class CacheReader:
    """A cache folder; what was written since is seen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._cache: Cache | None = None
        self._seen = (0, 0)

    @property
    def cache(self) -> Cache | None:
        """The cache as it is now; None if there is none yet."""
        try:
            facts = os.stat(self.folder / "manifest.json")
        except OSError:
            self._cache = None
            return None
        now = (facts.st_mtime_ns, facts.st_size)
        if self._cache is None or now != self._seen:
            self._cache, self._seen = Cache.open(self.folder), now
        return self._cache

    def need(self) -> Cache:
        """The cache; an error if there is none."""
        if self.cache is None:
            raise RunnelError(
                f"{self.folder}: holds no Runnel cache. Simulate to disk first, or choose the "
                "folder that was written."
            )
        return self.cache

    def frames(self) -> list[int]:
        return [] if self.cache is None else self.cache.frames()

    def fluids(self) -> Fluids:
        return fluid_colors(self.need().scene)

    def frame(self, number: int, pattern: str = "*", *, bodies: bool = False) -> Frame:
        """A frame with the attributes that a pattern of Houdini's names chooses."""
        cache = self.need()
        there = cache.entry(number).checksums
        names = [
            name
            for name in there
            if name in ("position", "velocity", "radius", "phase")
            or matches(pattern, ATTRIBUTES.get(name, name))
        ]
        report = dict(cache.entry(number).report)
        solids = self.solids(number) if bodies else ()
        return Frame(number, cache.read(number, names), report, solids)

    def solids(self, number: int) -> tuple[Solid, ...]:
        """Colliders and bodies at a frame, in the world."""
        cache = self.need()
        found = find_solids(cache, number, np.eye(3), 1.0) if cache.solids() else []
        return tuple(Solid(s.name, s.placed, s.triangles) for s in found)
