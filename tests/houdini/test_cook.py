"""The solver node, frame by frame."""

from __future__ import annotations

import numpy as np
from shots import pool, values


def test_a_block_of_water_falls_apart() -> None:
    solver = pool()
    start = solver._cook(1)
    assert solver.errors() == ()
    assert start.pointCount() == 8**3
    assert np.allclose(values(start, "pscale"), 0.025)
    before = values(start, "P").copy()
    for frame in range(2, 6):
        geo = solver._cook(frame)
        assert solver.errors() == ()
    assert geo.pointCount() == 8**3
    assert values(geo, "P")[:, 1].mean() < before[:, 1].mean()
    assert geo.attribValue("frame") == 5
