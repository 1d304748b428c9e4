"""Packed forces: columns of base.py, frames, two dimensions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runnel.backends.base import FORCE_COLUMNS, POINT, VORTEX, WIND, Survey
from runnel.colliders import Solids
from runnel.errors import SceneError
from runnel.export.bgeo import write_bgeo
from runnel.export.geometry import Geometry
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
    assert steps[1] >= 80.0 * 0.1 / (1.5 * 0.1)  # 1.5 spacings each
    assert steps[0] < 20


@pytest.mark.parametrize(("up", "axis"), [("z", 1), ("y", 2)])
def test_2d_leaves_the_third_axis_out(up: str, axis: int) -> None:
    wind = {"kind": "wind", "velocity": [1, 2, 3]}
    vortex = {"kind": "vortex", "center": [1, 2, 3]}
    rows = pack_forces(scene(wind, vortex, dimensions=2, up=up), 0.0)
    assert rows[0, 3 + axis] == 0.0
    assert rows[1, 6 + axis] == 0.0
    assert abs(rows[1, 3 + axis]) == 1.0  # a vortex turns in the plane


# --- points that are forces -----------------------------------------------------------------------


def write(folder: Path, frame: int, **columns: Any) -> None:
    found = {name: np.asarray(values) for name, values in columns.items()}
    whole = {"kind", "id"}
    points = {n: v.astype(np.int32 if n in whole else np.float32) for n, v in found.items()}
    write_bgeo(folder / f"f_{frame:04d}.bgeo", Geometry(len(found["P"]), points=points))


def of_points(folder: Path, **more: Any) -> Scene:
    force = {"kind": "points", "field": "f_####.bgeo", "field_frames": [1, 3], **more}
    return Scene.from_dict(scene(frames=[1, 50]).to_dict() | {"force": [force]}, folder)


def test_points_of_a_file_are_forces(tmp_path: Path) -> None:
    """Each of its own kind; they move evenly from frame to frame, and stay at the ends."""
    for frame in (1, 2, 3):
        write(
            tmp_path, frame, P=[[frame, 0, 0], [0, frame, 0]], kind=[2, 3], strength=[frame, 5],
            v=[[1, 0, 0], [0, 0, 0]], N=[[0, 0, 1], [0, frame, 0]], pscale=[0.5, 2 * frame],
        )  # fmt: skip
    it = of_points(tmp_path, strength=2.0)
    rows = {t: pack_forces(it, t) for t in (0.0, 0.05, 0.1, 0.2, 3.0)}
    np.testing.assert_array_equal(rows[0.0][:, 0], [POINT, VORTEX])
    np.testing.assert_allclose(rows[0.05][:, 1], [3.0, 10.0], rtol=1e-6)
    np.testing.assert_allclose(rows[0.05][0, 6:9], [1.5, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(rows[0.05][1, :9], [VORTEX, 10, 3, 0, 1, 0, 0, 1.5, 0], rtol=1e-6)
    np.testing.assert_allclose(rows[0.1][:, 2], [0.5, 4.0], rtol=1e-6)
    np.testing.assert_array_equal(rows[0.2], rows[3.0])
    assert {path.name for path in it.files()} == {f"f_{k:04d}.bgeo" for k in (1, 2, 3)}
    assert Scene.from_dict(it.to_dict(), tmp_path) == it


def test_points_come_and_go_by_their_ids(tmp_path: Path) -> None:
    """Also where the numbers of points change; fading rather than jumping."""
    write(tmp_path, 1, P=[[0, 0, 0], [1, 0, 0]], kind=[2, 2], id=[7, 8], strength=[4, 6])
    write(tmp_path, 2, P=[[1, 0, 2], [5, 0, 0]], kind=[2, 2], id=[8, 9], strength=[6, 2])
    write(tmp_path, 3, P=np.zeros((0, 3)), kind=[])
    it = of_points(tmp_path)
    half = pack_forces(it, 0.05)
    np.testing.assert_allclose(half[:, 1], [2, 6, 1], rtol=1e-6)
    np.testing.assert_allclose(half[:, 6:9], [[0, 0, 0], [1, 0, 1], [5, 0, 0]], rtol=1e-6)
    np.testing.assert_allclose(pack_forces(it, 0.15)[:, 1], [3, 1], rtol=1e-6)
    assert not pack_forces(it, 0.2)[:, 1].any()


def test_points_without_kinds_are_refused(tmp_path: Path) -> None:
    write(tmp_path, 1, P=[[0, 0, 0]], strength=[4])
    write(tmp_path, 2, P=[[0, 0, 0]], kind=[4])
    with pytest.raises(SceneError, match=r"force\[0\]\.field.*no kind"):
        pack_forces(of_points(tmp_path), 0.0)
    with pytest.raises(SceneError, match="kind 4 of point 0"):
        pack_forces(of_points(tmp_path, field_frames=[2, 2]), 0.0)
    with pytest.raises(SceneError, match="needs the file of its points"):
        of_points(tmp_path, field=None)


def test_a_step_looks_ahead_to_points_that_come(tmp_path: Path) -> None:
    """Its length is chosen for the stronger end of a frame."""
    for frame, strength in ((1, 0.0), (2, 5000.0), (3, 5000.0)):
        write(tmp_path, frame, P=[[0, 0, 0]], kind=[2], strength=[strength])
    survey = Survey(max_speed=0.0, bulk_speed=0.0, count=1000, bad_id=None)
    strong, weak = (of_points(tmp_path, strength=share) for share in (1.0, 0.0))
    steps = [steps_of_frame(it, 1, survey, Solids(it), []) for it in (strong, weak)]
    assert steps[0] > 3 * steps[1]
