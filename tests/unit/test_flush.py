"""Samples of a body's surface, which tell where it lies flush."""

from __future__ import annotations

import numpy as np
import pytest

from runnel.backends.base import BOX, SOLID_COLUMNS, SPHERE
from runnel.backends.reference.compile import _UNCOUNTED
from runnel.backends.reference.solids import world_of
from runnel.bodies.flush import EDGE, surface_samples

SPACING = 0.0126


def samples(kind: int, half: float) -> tuple[np.ndarray, np.ndarray]:
    row = np.zeros((1, SOLID_COLUMNS))
    row[0, 0], row[0, 1], row[0, 5:8] = kind, 1.0, half
    row[0, 8:17] = np.eye(3).reshape(-1)
    points, areas, _ = surface_samples(world_of(row), 0, np.zeros(3), half * np.sqrt(3.0), SPACING)
    return points, areas


@pytest.mark.parametrize("half", [0.04, 0.0437])
def test_a_flat_face_has_one_sample_at_a_place(half: float) -> None:
    points, areas = samples(BOX, half)
    facing = np.round(areas / np.linalg.norm(areas, axis=1, keepdims=True))
    rows = np.hstack([np.round(points / (1e-3 * SPACING)), facing])
    assert len(np.unique(rows, axis=0)) == len(points)
    assert np.abs(points).max(axis=1) == pytest.approx(half, abs=0.01 * SPACING)


def test_samples_carry_the_area_of_the_faces() -> None:
    """Without half of what EDGE leaves out at each edge; a ball has no edges."""
    half = 0.05
    _, areas = samples(BOX, half)
    assert np.abs(areas.sum(axis=0)).max() < 1e-12
    side = 2 * half - EDGE * SPACING
    assert np.abs(areas).sum(axis=0) == pytest.approx(2 * side**2, rel=0.02)
    _, areas = samples(SPHERE, half)
    assert np.linalg.norm(areas, axis=1).sum() == pytest.approx(4 * np.pi * half**2, rel=0.05)


def test_numba_can_leave_references_uncounted() -> None:
    """By an option that it does not tell of: without it, flush bodies cost 25 times as much."""
    assert _UNCOUNTED
