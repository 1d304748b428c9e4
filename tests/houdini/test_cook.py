"""The solver node: every way from one cook to the next."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import hou
import numpy as np
import pytest
from hou_standin import Geometry, SopNode, world
from shots import box, points, pool, pressed, upstream, values, water

from runnel import Simulation, SimulationError
from runnel_houdini import callbacks, sessions
from runnel_houdini.gather import Gathering
from runnel_houdini.inputs import Inputs
from runnel_houdini.session import Session


def cooked(solver: SopNode, frame: float) -> Geometry:
    geo = solver._cook(frame)
    assert solver.errors() == ()
    return geo


def state(geo: Geometry) -> tuple[bytes, ...]:
    return tuple(values(geo, name).tobytes() for name in ("P", "v", "id", "density"))


def session(solver: SopNode) -> Session:
    found = sessions.existing(solver)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def truth() -> dict[int, tuple[bytes, ...]]:
    """Frames 1 to 8 of the pool, cooked one after the other."""
    world.restart()
    solver = pool()
    found = {frame: state(cooked(solver, frame)) for frame in range(1, 9)}
    sessions.drop(solver)
    return found


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Simulations that were begun: their first frames."""
    begun: list[int] = []
    start = Session._start

    def noted(self: Session) -> Simulation:
        sim = start(self)
        begun.append(sim.frame)
        return sim

    monkeypatch.setattr(Session, "_start", noted)
    return begun


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Frames that were simulated, in order."""
    done: list[int] = []
    advance = Simulation.advance

    def noted(self: Simulation, frame: int, **more: Any) -> Any:
        done.append(frame)
        return advance(self, frame, **more)

    monkeypatch.setattr(Simulation, "advance", noted)
    return done


# --- ways through time ----------------------------------------------------------------------------


def test_water_falls(truth: dict[int, tuple[bytes, ...]]) -> None:
    first, last = (np.frombuffer(truth[k][0], np.float32).reshape(-1, 3) for k in (1, 8))
    assert len(first) == len(last) == 125
    assert last[:, 1].mean() < first[:, 1].mean()
    assert last[:, 0].max() > first[:, 0].max() + 0.01
    assert (last > 0).all()
    assert (last < 1).all()


def test_before_the_start_there_is_nothing(starts: list[int]) -> None:
    solver = pool(startframe=10)
    geo = cooked(solver, 9)
    assert (geo.pointCount(), geo.primCount()) == (0, 0)
    assert starts == []
    assert cooked(solver, 10).pointCount() == 125
    assert starts == [10]


def test_a_frame_again_costs_nothing(truth: Any, starts: list[int], steps: list[int]) -> None:
    solver = pool()
    for frame in (1, 1, 2, 2, 3, 1, 2, 3):
        assert state(cooked(solver, frame)) == truth[frame]
    assert (starts, steps) == ([1], [2, 3])


def test_a_gap_is_simulated(truth: Any, steps: list[int]) -> None:
    solver = pool()
    assert state(cooked(solver, 5)) == truth[5]
    assert steps == [2, 3, 4, 5]
    assert state(cooked(solver, 8)) == truth[8]
    assert state(cooked(solver, 3)) == truth[3]
    assert steps == [2, 3, 4, 5, 6, 7, 8]


def test_going_back_to_what_was_dropped(truth: Any, starts: list[int], steps: list[int]) -> None:
    solver = pool(checkpointinterval=2)
    cooked(solver, 8)
    held = session(solver)
    assert held.memory.checkpoints == [3, 5, 7]
    for frame in held.memory.frames:
        del held.memory._frames[frame]
    steps.clear()
    assert state(cooked(solver, 6)) == truth[6]
    assert (starts, steps) == ([1], [6])  # from the checkpoint at 5
    assert 8 in held.memory.checkpoints  # where it came from
    assert state(cooked(solver, 2)) == truth[2]
    assert starts == [1, 1]  # there was none ahead of it


def test_coming_back_goes_on_from_where_it_was(truth: Any, steps: list[int]) -> None:
    solver = pool(checkpointinterval=20)
    cooked(solver, 7)
    del session(solver).memory._frames[3]
    cooked(solver, 3)
    steps.clear()
    assert state(cooked(solver, 8)) == truth[8]
    assert steps == [8]


def test_memory_is_bounded(truth: Any) -> None:
    solver = pool(cachemem=0, checkpointinterval=2)
    for frame in (1, 4, 2, 6, 3, 8):
        assert state(cooked(solver, frame)) == truth[frame]
        assert len(session(solver).memory.frames) == 1
    assert session(solver).memory.checkpoints == []


def test_without_cache(truth: Any) -> None:
    solver = pool(cacheenabled=0)
    for frame in (1, 2, 3, 2, 1, 4):
        assert state(cooked(solver, frame)) == truth[frame]
    assert session(solver).memory.checkpoints == []


def test_between_frames_particles_fly_on() -> None:
    solver = pool()
    whole = cooked(solver, 3)
    place, speed = values(whole, "P").copy(), values(whole, "v").copy()
    between = cooked(solver, 3.5)
    assert np.allclose(values(between, "P"), place + 0.5 / 24 * speed, atol=1e-6)


def test_between_frames_of_a_moving_input(starts: list[int]) -> None:
    solver = pool(upstream(lambda f: box((0, 0, 0), (0.5, 0.5, 0.5 + 0.001 * f))))
    for frame in (1, 2, 2.25, 2.5, 3, 2.5, 2):
        assert cooked(solver, frame).pointCount() == 125
    assert starts == [1]


def test_live_simulation_off() -> None:
    solver = pool()
    cooked(solver, 2)
    solver._parms["livesim"] = 0
    assert cooked(solver, 2).pointCount() == 125
    assert cooked(solver, 3).pointCount() == 0
    assert "Live Simulation is off" in solver.warnings()[0]


def test_playing_on_beyond_the_end(truth: Any, starts: list[int]) -> None:
    solver = pool(endframe=3)
    cooked(solver, 3)
    assert state(cooked(solver, 4)) == truth[4]
    assert state(cooked(solver, 5)) == truth[5]
    assert starts == [1]  # the end has no say in it


# --- what starts anew -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [("viscosity1", 2.0), ("gravity", (0.0, -1.0, 0.0)), ("particlesep", 0.125), ("substeps", 2),
     ("startframe", 2), ("timescale", 0.5), ("seed", 3), ("sourcevelocity", (1.0, 0.0, 0.0))],
)  # fmt: skip
def test_a_setting_starts_anew(name: str, value: Any, starts: list[int]) -> None:
    solver = pool()
    before = state(cooked(solver, 2))
    solver._parms[name] = value
    after = state(cooked(solver, 2))
    assert len(starts) == 2
    assert name == "seed" or after != before


@pytest.mark.parametrize(
    ("name", "value"),
    [("colorby", "speed"), ("outage", 0), ("outvorticity", 1), ("cachemem", 100), ("endframe", 90),
     ("outgroups", 0), ("checkpointinterval", 3), ("colorrange", (0.0, 1.0))],
)  # fmt: skip
def test_what_is_shown_does_not(name: str, value: Any, starts: list[int], truth: Any) -> None:
    solver = pool()
    cooked(solver, 2)
    solver._parms[name] = value
    assert state(cooked(solver, 2)) == truth[2]
    assert starts == [1]


def test_reset_button(starts: list[int], truth: Any) -> None:
    solver = pool()
    cooked(solver, 3)
    pressed(solver, "resimulate")
    assert state(solver._geometry) == truth[3]
    assert starts == [1, 1]


def test_an_edit_upstream_starts_anew(starts: list[int]) -> None:
    source = water()
    solver = pool(source)
    cooked(solver, 2)
    source._make = lambda frame: box((0.2, 0, 0), (0.7, 0.5, 0.5))
    source._dirty()
    assert values(cooked(solver, 2), "P")[:, 0].min() > 0.15
    assert starts == [1, 1]


def test_an_edit_upstream_of_how_points_are_connected(starts: list[int]) -> None:
    source = water()
    solver = pool(source)
    cooked(solver, 2)
    changed = box((0, 0, 0), (0.5, 0.5, 0.5))
    changed._prims[0].points.reverse()
    changed._topology_id = world.new_data_id()
    source._make = lambda frame: Geometry(changed)
    source._dirty()
    cooked(solver, 2)
    assert starts == [1, 1]


def test_a_moving_input_that_gives_the_same_does_not(starts: list[int]) -> None:
    """Houdini cooks it again at each frame, with new data ids."""
    source = upstream(lambda frame: box((0, 0, 0), (0.5, 0.5, 0.5)))
    solver = pool(source)
    for frame in (1, 2, 3, 2, 1, 3):
        cooked(solver, frame)
    assert starts == [1]


def test_an_edit_of_a_moving_input_starts_anew(starts: list[int]) -> None:
    shift = [0.0]
    source = upstream(lambda frame: box((shift[0], 0, 0), (0.5, 0.5, 0.5)))
    solver = pool(source)
    cooked(solver, 3)
    shift[0] = 0.1
    source._dirty()
    cooked(solver, 3)
    assert starts == [1, 1]


def test_a_wire_changed_starts_anew(starts: list[int]) -> None:
    solver = pool(water(), None)
    cooked(solver, 2)
    solver._inputs = [water((0.1, 0, 0), (0.5, 0.5, 0.5)), None]
    cooked(solver, 2)
    assert starts == [1, 1]


# --- Esc and errors -------------------------------------------------------------------------------


@pytest.mark.parametrize("updates", [0, 1, 3, 4, 6, 11])
def test_esc_at_any_step(updates: int, truth: Any) -> None:
    """4 steps a frame: within a frame, and where one ends."""
    solver = pool()
    cooked(solver, 2)
    world.NOW.esc = updates
    geo = solver._cook(5)
    assert solver.errors() == ("Cooking was interrupted",)
    assert geo.pointCount() == 0
    for frame in (2, 5, 3, 6):  # back, on, and back again
        assert state(cooked(solver, frame)) == truth[frame]


def test_esc_while_going_back(truth: Any) -> None:
    solver = pool(checkpointinterval=2)
    cooked(solver, 6)
    session(solver).memory._frames.clear()
    world.NOW.esc = 2
    solver._cook(4)
    assert solver.errors() == ("Cooking was interrupted",)
    assert state(cooked(solver, 8)) == truth[8]
    assert state(cooked(solver, 4)) == truth[4]


def test_progress_is_a_share() -> None:
    solver = pool()
    world.NOW.progress.clear()
    cooked(solver, 4)
    shown = world.NOW.progress
    assert len(shown) >= 12
    assert shown == sorted(shown)
    assert 0 < shown[0] < 0.2
    assert shown[-1] == 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: None, "wire in a source"),
        (lambda: upstream(Geometry()), "is empty"),
        (lambda: upstream(open_box()), "is open"),
        (lambda: upstream(points([[0, 0, 0]], phase=np.array([3]))), "phase 3"),
        (lambda: upstream(points([[0, 0, 0]], pscale=np.array([0.0]))), "pscale must be above 0"),
    ],
)
def test_wrong_sources_say_so(make: Any, message: str) -> None:
    source = make()
    solver = pool(source) if source is not None else pool(None)
    geo = solver._cook(1)
    assert message in solver.errors()[0]
    assert "Traceback" not in solver.errors()[0]
    assert geo.pointCount() == 0
    solver._inputs = [water()]
    assert cooked(solver, 1).pointCount() == 125  # and works once it is mended


def open_box() -> Geometry:
    geo = box()
    geo.deletePrims([geo.prims()[0]], keep_points=True)
    return geo


@pytest.mark.parametrize(
    ("parm", "value"),
    [("particlesep", -1.0), ("particlesep", 1e-9), ("density1", -5.0), ("device", "no such thing"),
     ("domainmax", (-1.0, 1.0, 1.0)), ("sourcefluid", "ketchup")],
)  # fmt: skip
def test_wrong_values_say_so(parm: str, value: Any) -> None:
    solver = pool(**{parm: value})
    solver._cook(1)
    assert solver.errors()
    assert "Traceback" not in solver.errors()[0]
    assert sessions.existing(solver) is None or session(solver).sim is None


def test_a_failure_on_the_way_keeps_what_was_good(
    monkeypatch: pytest.MonkeyPatch, truth: Any, starts: list[int]
) -> None:
    solver = pool()
    cooked(solver, 3)
    check = Simulation._check_finite

    def fails(self: Simulation) -> None:
        if self.frame >= 4:
            raise SimulationError("it blew up")
        check(self)

    monkeypatch.setattr(Simulation, "_check_finite", fails)
    for _ in range(2):
        assert solver._cook(6).pointCount() == 0
        assert "it blew up" in solver.errors()[0]
        assert "frame 5" in solver.errors()[0]
    for frame in (3, 4, 2):
        assert state(cooked(solver, frame)) == truth[frame]
    assert starts == [1]  # it was not tried again
    monkeypatch.setattr(Simulation, "_check_finite", check)
    pressed(solver, "resimulate")
    assert state(cooked(solver, 6)) == truth[6]


def test_an_error_of_an_input_on_the_way() -> None:
    def vanishing(frame: float) -> Geometry:
        return box((2, 0, 0), (3, 1, 1)) if frame < 4 else Geometry()

    solver = pool(water(), upstream(vanishing))
    solver._cook(6)
    assert "Input 2" in solver.errors()[0]
    assert "gone at frame 4" in solver.errors()[0]
    cooked(solver, 3)


def test_an_input_that_is_mended_is_tried_again() -> None:
    broken = [True]

    def wall(frame: float) -> Geometry:
        if broken[0] and frame == 4:
            raise hou.OperationFailed("Missing file")
        return box((2, 0, 0), (3, 1, 1))

    source = upstream(wall)
    solver = pool(water(), source)
    cooked(solver, 3)
    solver._cook(6)
    assert "Input 2 could not be cooked at frame 4: Missing file" in solver.errors()[0]
    broken[0] = False
    source._dirty()
    assert cooked(solver, 6).pointCount() == 125


def test_inputs_are_let_go_after_a_cook(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    elsewhere = Inputs._elsewhere

    def noted(self: Inputs, index: int, frame: float) -> Geometry | None:
        held.append(len(self._kept))
        return elsewhere(self, index, frame)

    monkeypatch.setattr(Inputs, "_elsewhere", noted)
    solver = pool(water(), upstream(lambda f: box((2, 0, 0), (3, 1, 1))))
    cooked(solver, 8)
    assert len(held) >= 6
    assert max(held) <= 4  # what the four inputs give now
    feeds = session(solver).feeds
    assert isinstance(feeds, Gathering)
    assert feeds.inputs._kept == {}


# --- nothing is left behind -----------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import tempfile

    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def left(place: Path) -> list[str]:
    return [path.name for path in place.iterdir() if path.name.startswith("runnel-houdini")]


def test_deleting_a_node_gives_all_back(folders: Path) -> None:
    solver = pool()
    cooked(solver, 2)
    held = session(solver)
    sim = held.sim
    assert len(left(folders)) == 1
    callbacks.deleted(solver)
    assert left(folders) == []
    assert sim is not None
    assert sim._closed
    assert held.closed
    assert cooked(solver, 2).pointCount() == 125  # undone: it starts anew


def test_a_scene_that_is_loaded_gives_all_back(folders: Path) -> None:
    """No event comes: nodes and what hangs on them just go."""
    solver = pool()
    cooked(solver, 2)
    sim = session(solver).sim
    del solver
    gc.collect()
    assert left(folders) == []
    assert sim is not None
    assert sim._closed


@pytest.mark.parametrize("event", ["BeforeLoad", "BeforeClear"])
def test_leaving_a_scene_gives_all_back(folders: Path, event: str) -> None:
    """Even if Houdini kept what hangs on its nodes."""
    solver = pool()
    cooked(solver, 2)
    held = session(solver)
    sim = held.sim
    hou.hipFile._tell(hou.hipFileEventType.AfterLoad)
    assert not held.closed
    hou.hipFile._tell(getattr(hou.hipFileEventType, event))
    assert left(folders) == []
    assert held.closed
    assert sim is not None
    assert sim._closed
    assert cooked(solver, 2).pointCount() == 125  # the load failed: the node goes on
    cooked(pool(), 1)
    assert len(hou.hipFile.eventCallbacks()) == 1


def test_starting_anew_leaves_one_folder(folders: Path) -> None:
    solver = pool()
    for step in (0.1, 0.125, 0.1):
        solver._parms["particlesep"] = step
        cooked(solver, 2)
    assert len(left(folders)) == 1


def test_a_copy_is_on_its_own(truth: Any) -> None:
    solver = pool()
    cooked(solver, 3)
    copy = pool(*solver._inputs)
    copy._cached = dict(solver._cached)  # should Houdini ever copy it
    copy._parms["viscosity1"] = 3.0
    cooked(copy, 2)
    assert session(copy) is not session(solver)
    assert state(cooked(solver, 3)) == truth[3]
    callbacks.deleted(copy)
    assert state(cooked(solver, 4)) == truth[4]


def test_renaming_keeps_everything(starts: list[int]) -> None:
    solver = pool()
    cooked(solver, 2)
    solver._name = "other"
    cooked(solver, 3)
    assert starts == [1]


def test_an_error_leaves_no_folder_behind_when_deleted(folders: Path) -> None:
    solver = pool(upstream(open_box()))
    solver._cook(1)
    callbacks.deleted(solver)
    assert left(folders) == []
