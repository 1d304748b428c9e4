"""Packed forces: columns of base.py, frames, two dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runnel.backends.base import FORCE_COLUMNS, POINT, VORTEX, WIND, Survey
from runnel.colliders import Solids
from runnel.errors import SceneError
from runnel.forces import UNLIMITED, pack_forces
from runnel.scene import Scene
from runnel.simulation.clock import steps_of_frame


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


def test_keyframes_move_turn_and_strengthen_a_force() -> None:
    """Even in between, still before and after; what a keyframe leaves out is the force's own."""
    keys = [
        {"frame": 2, "center": [0, 0, 0], "strength": 1.0},
        {"frame": 4, "center": [2, 0, 4], "strength": 3.0, "axis": [1, 0, 0]},
    ]
    vortex = {"kind": "vortex", "strength": 9.0, "center": [7, 7, 7], "axis": [0, 0, 1]}
    it = scene({**vortex, "keyframes": keys}, frames=[1, 50])
    rows = {t: pack_forces(it, t)[0] for t in (0.0, 0.1, 0.2, 0.3, 2.0)}
    np.testing.assert_array_equal(rows[0.0], rows[0.1])
    np.testing.assert_array_equal(rows[0.3], rows[2.0])
    np.testing.assert_allclose(rows[0.1][6:9], [0, 0, 0])
    np.testing.assert_allclose(rows[0.2][6:9], [1, 0, 2], rtol=1e-6)
    np.testing.assert_allclose([rows[t][1] for t in (0.1, 0.2, 0.3)], [1, 2, 3], rtol=1e-6)
    np.testing.assert_allclose(rows[0.2][3:6], [0.5**0.5, 0, 0.5**0.5], rtol=1e-6)
    assert Scene.from_dict(it.to_dict()) == it


def test_the_reach_of_a_force_may_change() -> None:
    """Even between two that are limited; to and from one without end it jumps at the keyframe."""
    keys = [{"frame": 1, "radius": 1.0}, {"frame": 3, "radius": 3.0}, {"frame": 4}]
    it = scene({"kind": "point", "keyframes": keys}, frames=[1, 50])
    reach = [pack_forces(it, t)[0][2] for t in (0.0, 0.1, 0.2, 0.29, 0.31)]
    np.testing.assert_allclose(reach, [1, 2, 3, 3, UNLIMITED], rtol=1e-6)


def test_a_vortex_that_turns_over_always_has_an_axis() -> None:
    keys = [{"frame": 1, "axis": [0, 0, 1]}, {"frame": 3, "axis": [0, 0, -1]}]
    row = pack_forces(scene({"kind": "vortex", "keyframes": keys}), 0.1)[0]
    np.testing.assert_array_equal(row[3:6], [0, 0, 1])


def test_keyframes_of_forces_are_checked() -> None:
    late = [{"frame": 4}, {"frame": 4}]
    with pytest.raises(SceneError, match=r"force\[0\].keyframes\[1\].frame"):
        scene({"kind": "drag", "keyframes": late})
    with pytest.raises(SceneError, match=r"force\[0\].keyframes\[0\].axis"):
        scene({"kind": "vortex", "keyframes": [{"frame": 1, "axis": [0, 0, 0]}]})


def test_steps_are_short_enough_for_a_force_that_grows() -> None:
    """From nothing to 800 m/s^2 within a frame of 0.1 s: 80 m/s at its end."""
    survey = Survey(max_speed=0.0, bulk_speed=0.0, count=1000, bad_id=None)
    steps = [
        steps_of_frame(it, 1, survey, Solids(it), [])
        for it in (
            scene({"kind": "point", "strength": 0.0, "keyframes": keys})
            for keys in ([], [{"frame": 1}, {"frame": 2, "strength": 800.0}])
        )
    ]
    assert steps[1] >= 80.0 * 0.1 / 0.1
    assert steps[0] < 20


@pytest.mark.parametrize(("up", "axis"), [("z", 1), ("y", 2)])
def test_2d_leaves_the_third_axis_out(up: str, axis: int) -> None:
    wind = {"kind": "wind", "velocity": [1, 2, 3]}
    vortex = {"kind": "vortex", "center": [1, 2, 3]}
    rows = pack_forces(scene(wind, vortex, dimensions=2, up=up), 0.0)
    assert rows[0, 3 + axis] == 0.0
    assert rows[1, 6 + axis] == 0.0
    assert abs(rows[1, 3 + axis]) == 1.0  # a vortex turns in the plane
