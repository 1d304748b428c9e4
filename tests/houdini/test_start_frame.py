"""What is read at the start frame."""

from __future__ import annotations

import numpy as np
from shots import pool, values

from runnel_houdini import sessions


def test_an_animated_setting_does_not_start_anew() -> None:
    solver = pool(gravity=lambda frame: (0.0, -9.81 * frame, 0.0))
    for frame in (1, 2, 3):
        solver._cook(frame)
        assert solver.errors() == ()
    sim = sessions.of(solver).sim
    played = values(solver._cook(4), "P")
    assert sessions.of(solver).sim is sim, "the simulation went on"
    assert solver.warnings() == ("Gravity is animated; its value at the start frame counts.",)
    still = pool()
    assert np.array_equal(played, values(still._cook(4), "P"))
    assert still.warnings() == ()


def test_what_is_only_shown_may_be_animated() -> None:
    solver = pool(colorby="speed", autocolorrange=0, colorrange=lambda frame: (0.0, 0.01 * frame))
    before = values(solver._cook(3), "Cd")
    assert solver.warnings() == ()
    solver._cook(4)
    assert np.array_equal(values(solver._cook(3), "Cd"), before)
