"""Fluids of a scene, and those that points ask for by multiples of viscosity and tension.

Core knows these per fluid, Houdini's points carry multiples of their own: each pair of multiples
makes a fluid `water@2,1` of the scene. More than a few are put into classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from runnel import RunnelError
from runnel.params import Fluid
from runnel.presets import PALETTE, PRESETS
from runnel.spec import specs

Array = NDArray[Any]
Table = dict[str, Any]

CLASSES = 8  # of a multiple, at most
_NEAR = 0.25  # difference that is not worth a word
_LIMITS = {s.name: s.hard for s in specs(Fluid)}


class Variants:
    """The fluids of a scene; `fluids` grows as points are looked at."""

    def __init__(self, fluids: list[Table]) -> None:
        self.fluids = list(fluids)
        self._own = len(fluids)
        self._known = {(k, 1.0, 1.0): k for k in range(len(fluids))}
        self.missed: dict[str, tuple[float, float]] = {}  # multiples asked for and taken

    def learn(self, phase: Array, viscosity: Array, tension: Array) -> None:
        """Make the fluids that these points need."""
        self._check(phase)
        rows = np.stack([phase, _classes(viscosity), _classes(tension)], axis=1)
        for number, thick, tense in np.unique(rows, axis=0).tolist():
            key = (int(number), float(thick), float(tense))
            if key not in self._known:
                self._known[key] = len(self.fluids)
                self.fluids.append(self._variant(*key))

    def phases(self, phase: Array, viscosity: Array, tension: Array) -> NDArray[np.int32]:
        """Numbers of the fluids of points; multiples that are new take the nearest known, and
        `missed` tells of those that are far from it."""
        self._check(phase)
        keys = np.array(list(self._known), np.float64)
        numbers = np.array(list(self._known.values()), np.int32)
        result = np.zeros(len(phase), np.int32)
        rows = np.stack([phase, viscosity, tension], axis=1).astype(np.float64)
        unique, place = np.unique(rows, axis=0, return_inverse=True)
        nearest = np.zeros(len(unique), np.int32)
        for k, row in enumerate(unique):
            of_fluid = np.flatnonzero(keys[:, 0] == row[0])
            away = np.abs(keys[of_fluid, 1:] - row[1:]).sum(axis=1)
            taken = of_fluid[np.argmin(away)]
            nearest[k] = numbers[taken]
            self._compare(row[1:], keys[taken, 1:])
        result[:] = nearest[place.reshape(-1)]
        return result

    def _compare(self, wanted: Array, taken: Array) -> None:
        for name, a, b in zip(("viscosity", "surfacetension"), wanted, taken, strict=True):
            if abs(a - b) > _NEAR * max(abs(b), 1.0) and name not in self.missed:
                self.missed[name] = (float(a), float(b))

    def _check(self, phase: Array) -> None:
        if len(phase) and not (phase.min() >= 0 and phase.max() < self._own):
            wrong = int(phase.max() if phase.max() >= self._own else phase.min())
            raise RunnelError(
                f"A point has phase {wrong}, the Fluids tab has {self._own}, counted from 0. Add "
                "a fluid, or change the attribute."
            )

    def _variant(self, number: int, thick: float, tense: float) -> Table:
        table = dict(self.fluids[number])
        preset = PRESETS.get(table.get("preset") or "")
        for key, times in (("viscosity", thick), ("surface_tension", tense)):
            own = table.get(key, getattr(preset, key) if preset else 0.0)
            low, high = _LIMITS[key]
            table[key] = float(np.clip(own * times, low, high))
        if "color" not in table:
            table["color"] = list(preset.color if preset else PALETTE[number % len(PALETTE)])
        table["name"] = f"{table['name'][:40]}@{thick:g},{tense:g}"
        return table


def _classes(values: Array) -> NDArray[np.float64]:
    """Values, rounded so that there are only a few of them."""
    numbers = np.maximum(values.astype(np.float64), 0.0)
    if not np.isfinite(numbers).all():
        raise RunnelError("viscosity or surfacetension of a point is not a finite number.")
    if len(np.unique(numbers)) <= CLASSES:
        return numbers
    edges = np.quantile(numbers, np.linspace(0.0, 1.0, CLASSES + 1))
    place = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, CLASSES - 1)
    middles = (edges[:-1] + edges[1:]) / 2
    return np.round(middles[place], 6)
