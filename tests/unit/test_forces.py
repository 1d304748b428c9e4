"""Packed forces: columns of base.py, frames, two dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runnel.backends.base import FORCE_COLUMNS, POINT, VORTEX, WIND
from runnel.forces import UNLIMITED, pack_forces
from runnel.scene import Scene


def scene(*forces: dict[str, Any], **more: Any) -> Scene:
    source = {
        "fluid": "water",
        "shape": {"box": {"min": [0, 0, 0], "max": [1, 1, 1]}},
        "spacing": 0.1,
    }
    parts = {"fps": 10, "fluid": [{"name": "water"}], "source": [source], "force": list(forces)}
    return Scene.from_dict({**parts, **more})


def test_none() -> None:
    assert pack_forces(scene(), 0.0).shape == (0, FORCE_COLUMNS)


def test_wind_and_drag_differ_in_velocity_only() -> None:
    wind = {"kind": "wind", "strength": 2.0, "velocity": [1, 2, 3]}
    drag = {"kind": "drag", "strength": 2.0, "velocity": [1, 2, 3]}
    rows = pack_forces(scene(wind, drag), 0.0)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows[:, 0], [WIND, WIND])
    np.testing.assert_array_equal(rows[0, 3:6], [1, 2, 3])
    np.testing.assert_array_equal(rows[1, 3:6], 0)


def test_point_and_vortex() -> None:
    point = {"kind": "point", "strength": -4.0, "center": [1, 2, 3], "radius": 0.5}
    vortex = {"kind": "vortex", "strength": 3.0, "axis": [0, 3, 4], "center": [4, 5, 6]}
    rows = pack_forces(scene(point, vortex), 0.0)
    np.testing.assert_array_equal(rows[:, 0], [POINT, VORTEX])
    np.testing.assert_array_equal(rows[:, 1], [-4.0, 3.0])
    np.testing.assert_array_equal(rows[0, 6:9], [1, 2, 3])
    np.testing.assert_allclose(rows[1, 3:6], [0, 0.6, 0.8])
    assert rows[0, 2] == 0.5
    assert rows[1, 2] == np.float32(UNLIMITED)
    assert np.isfinite(rows).all()  # devices may assume it


def test_a_force_acts_in_its_frames() -> None:
    it = scene({"kind": "drag", "frames": [3, 4]}, frames=[1, 50])
    active = [len(pack_forces(it, t)) for t in (0.0, 0.19, 0.21, 0.39, 0.41)]
    assert active == [0, 0, 1, 1, 0]


@pytest.mark.parametrize(("up", "axis"), [("z", 1), ("y", 2)])
def test_2d_leaves_the_third_axis_out(up: str, axis: int) -> None:
    wind = {"kind": "wind", "velocity": [1, 2, 3]}
    vortex = {"kind": "vortex", "center": [1, 2, 3]}
    rows = pack_forces(scene(wind, vortex, dimensions=2, up=up), 0.0)
    assert rows[0, 3 + axis] == 0.0
    assert rows[1, 6 + axis] == 0.0
    assert abs(rows[1, 3 + axis]) == 1.0  # a vortex turns in the plane
