"""Simulation: time, frames, what comes in and goes out, channels, storing, failing."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import runnel
from runnel.backends.base import Survey
from runnel.cache import Cache
from runnel.errors import RunnelError, SimulationError
from runnel.export.bgeo import write_bgeo
from runnel.export.geometry import Geometry
from runnel.particles import PageableAllocator
from runnel.scene import Scene
from runnel.simulation import Simulation
from runnel.simulation.clock import steps_of_frame
from runnel.solver.step import STAGES, StepReport

D = 0.05  # spacing of most scenes here [m]


def block(n: int = 5, at: tuple[float, float, float] = (0, 0, 0), **more: Any) -> dict[str, Any]:
    """A cube of n^3 particles."""
    high = [a + n * D for a in at]
    shape = {"box": {"min": list(at), "max": high}}
    return {"name": "block", "fluid": "water", "shape": shape, "spacing": D, **more}


def nozzle(**more: Any) -> dict[str, Any]:
    shape = {"box": {"min": [0, 0, 0.9], "max": [4 * D, 4 * D, 0.9 + D]}}
    jet = {"name": "jet", "fluid": "water", "kind": "emitter", "shape": shape, "spacing": D}
    return {**jet, "velocity": [0, 0, -2], **more}


def tank(size: float = 0.5, height: float = 1.0) -> dict[str, Any]:
    box = {"min": [0, 0, 0], "max": [size, size, height]}
    return {"name": "tank", "mode": "inside", "shape": {"box": box}}


def scene(*sources: dict[str, Any], **more: Any) -> Scene:
    parts = {"fps": 24, "frames": [1, 50], "fluid": [{"name": "water"}], "source": list(sources)}
    return Scene.from_dict({**parts, **more})


def fixed(**solver: Any) -> dict[str, Any]:
    return {"time_step": 1 / 96, "iterations": [3, 3], **solver}


# --- time and frames ------------------------------------------------------------------------------


def test_the_first_frame_is_the_initial_state(backend_name: str) -> None:
    it = scene(block(), frames=[10, 20], solver=fixed())
    with Simulation(it, backend_name) as sim:
        assert (sim.frame, sim.time, sim.particles.count) == (10, 0.0, 125)
        report = sim.advance(10)
        assert report.steps == 0
        assert report.mass == pytest.approx(1000 * 125 * D**3, rel=1e-6)
        position = sim.particles["position"]
        corner = (np.indices((5, 5, 5)).reshape(3, -1).T + 0.5) * D
        np.testing.assert_allclose(position, corner, atol=1e-6)
        assert not sim.particles["velocity"].any()
        sim.advance(12)
        assert (sim.frame, sim.time) == (12, pytest.approx(2 / 24))


def test_free_fall_is_exact(backend_name: str) -> None:
    """Nothing acts but gravity: v = g t, the block keeps its shape."""
    with Simulation(scene(block(), solver=fixed()), backend_name) as sim:
        before = sim.particles["position"]
        sim.advance(13)
        after = sim.particles["position"]
        np.testing.assert_allclose(
            sim.particles["velocity"], np.tile([0, 0, -9.81 * 0.5], (125, 1)), atol=2e-4
        )
        shift = after - before
        # Steps of length dt fall dt g t / 2 further than a parabola.
        expected = -9.81 * 0.5**2 / 2 - 9.81 * 0.5 / 96 / 2
        np.testing.assert_allclose(shift[:, 2], expected, atol=2e-4)
        np.testing.assert_allclose(shift[:, :2], 0, atol=2e-4)


@pytest.mark.parametrize(("time_step", "steps"), [(1 / 24, 1), (0.04, 2), (0.01, 5), (1 / 96, 4)])
def test_a_frame_is_divided_evenly(time_step: float, steps: int) -> None:
    with Simulation(scene(block(), solver=fixed(time_step=time_step))) as sim:
        seen: list[StepReport] = []
        report = sim.advance(2, on_step=seen.append)
        assert report.steps == len(seen) == steps
        assert sim.last_dt == pytest.approx(1 / 24 / steps)
        assert sim.time == pytest.approx(1 / 24, abs=1e-12)


def test_single_steps_add_up_to_frames() -> None:
    with Simulation(scene(block(), solver=fixed())) as one:
        for _ in range(8):
            one.step()
        assert one.frame == 3
        with Simulation(scene(block(), solver=fixed())) as other:
            other.advance(3)
            assert one.time == other.time
            np.testing.assert_array_equal(one.particles["position"], other.particles["position"])


def test_auto_steps_follow_the_fastest_particle() -> None:
    def steps(velocity: float, **solver: Any) -> int:
        it = scene(block(velocity=[velocity, 0, 0]), solver={"gravity": [0, 0, 0], **solver})
        with Simulation(it) as sim:
            return sim.advance(2).steps

    assert steps(0.0) == math.ceil(1 / 24 / 0.016)
    assert steps(12.0) == math.ceil(12.0 / 24 / (1.5 * D))
    assert steps(12.0, cfl=1.0) == math.ceil(12.0 / 24 / D)
    assert steps(12.0, cfl=2.5) == math.ceil(12.0 / 24 / (2.5 * D))
    assert steps(12.0, cfl=0.5) == math.ceil(12.0 / 24 / (0.5 * D))
    assert steps(0.0, max_time_step=0.005) == math.ceil(1 / 24 / 0.005)


def test_auto_steps_mind_what_users_write() -> None:
    with Simulation(scene(block(), solver={"gravity": [0, 0, 0]})) as sim:
        few = sim.advance(2).steps
        sim.particles.write("velocity", [0], [[24.0, 0, 0]])
        assert sim.advance(3).steps >= math.ceil(24.0 / 24 / (1.5 * D)) > few


def test_given_steps_are_divided_for_the_fluid_not_for_single_drops() -> None:
    """What a few particles do may go three times as far."""
    from runnel.colliders import Solids

    it = scene(block(), solver={"time_step": 1 / 48, "gravity": [0, 0, 0]})

    def steps(fastest: float, bulk: float) -> int:
        now = Survey(max_speed=fastest, count=1000, bad_id=None, bulk_speed=bulk)
        return steps_of_frame(it, 1, now, Solids(it), [])

    far = 4 * D * 24  # four spacings in a frame, two in a step
    assert steps(far, 0.1) == 2
    assert steps(far, far) == 3
    assert steps(3 * far, 0.1) == 3


@pytest.mark.parametrize(("fast", "expected"), [(4, 1.0), (6, 10.0)])
def test_the_bulk_is_all_but_a_few(fast: int, expected: float, backend_name: str) -> None:
    with Simulation(scene(block(10), solver=fixed()), backend_name) as sim:
        velocity = np.tile([1.0, 0, 0], (sim.particles.count, 1))
        velocity[:fast] *= 10
        sim.particles.write("velocity", np.arange(len(velocity)), velocity)
        found = sim._latest()
    assert found.max_speed == pytest.approx(10)
    assert expected <= found.bulk_speed <= 1.25 * expected


def test_auto_steps_mind_gravity_emitters_and_colliders() -> None:
    from runnel.colliders import Solids
    from runnel.sources import emitters

    def steps(it: Scene) -> int:
        now = Survey(max_speed=0.0, count=0, bad_id=None)
        return steps_of_frame(it, 1, now, Solids(it), emitters(it))

    assert steps(scene(block(), solver={"gravity": [0, 0, -98.1]})) == math.ceil(
        98.1 / 24**2 / (1.5 * D)
    )
    fast = nozzle(velocity=[0, 0, -20])
    assert steps(scene(fast, solver={"gravity": [0, 0, 0]})) == math.ceil(20 / 24 / D)
    keys = [{"frame": 1}, {"frame": 25, "position": [30, 0, 0]}]
    ball = {"sphere": {"center": [0, 0, 0], "radius": 0.1}}
    mover = {"name": "ball", "shape": ball, "body": "animated", "motion": keys}
    it = scene(block(), collider=[mover], solver={"gravity": [0, 0, 0]})
    assert steps(it) == math.ceil(30 / 24 / D)


def test_the_past_cannot_be_simulated() -> None:
    with Simulation(scene(block(), solver=fixed())) as sim:
        sim.advance(3)
        with pytest.raises(SimulationError, match="frame 2 lies in the past"):
            sim.advance(2)
        assert sim.advance(3).frame == 3  # being there already is no error


# --- reports --------------------------------------------------------------------------------------


def test_a_report_tells_what_happened(backend_name: str) -> None:
    it = scene(block(velocity=[1, 0, 0]), collider=[tank()], solver=fixed(iterations=[4, 4]))
    with Simulation(it, backend_name) as sim:
        report = sim.advance(4)
        mass, velocity = sim.particles["mass"], sim.particles["velocity"]
        assert report.iterations == 4
        assert report.steps == 4
        assert report.particles == 125
        assert report.mass == pytest.approx(mass.sum(), rel=1e-6)
        np.testing.assert_allclose(report.momentum, mass @ velocity, rtol=1e-4, atol=1e-6)
        assert report.max_speed == pytest.approx(np.linalg.norm(velocity, axis=1).max(), rel=1e-5)
        assert 0 < report.density_error_avg < report.density_error_max
        wanted = {"predict", "neighbors", "pressure", "correction", "velocities"}
        assert wanted <= set(report.milliseconds) <= set(STAGES)
        assert all(spent >= 0 for spent in report.milliseconds.values())
        assert (report.emitted, report.removed) == (0, 0)


def test_iterations_stop_at_the_tolerance() -> None:
    """What falls freely needs the least; what hits the floor as many as the tolerance asks for."""
    loose = {"iterations": [2, 30], "tolerance": 0.01, "time_step": 1 / 96}
    with Simulation(scene(block(8), solver=loose)) as sim:
        assert sim.advance(4).iterations == 2
    steps: list[StepReport] = []
    with Simulation(scene(block(8), collider=[tank()], solver=loose)) as sim:
        sim.advance(8, on_step=steps.append)
    assert max(step.iterations for step in steps) > 2
    assert min(step.iterations for step in steps) >= 2
    for step in steps:
        assert step.density_error_avg <= 0.01 or step.iterations == 30


def test_same_scene_same_bits(backend_name: str) -> None:
    it = scene(block(), nozzle(jitter=0.2), collider=[tank()])
    results = []
    for _ in range(2):
        with Simulation(it, backend_name) as sim:
            sim.advance(6)
            results.append({name: sim.particles[name] for name in ("position", "velocity", "id")})
    for name, values in results[0].items():
        np.testing.assert_array_equal(values, results[1][name])


# --- sources and sinks ----------------------------------------------------------------------------


def test_an_emitter_gives_what_its_speed_says(backend_name: str) -> None:
    """16 particles per layer, a layer every D / 2 s."""
    with Simulation(scene(nozzle(), solver=fixed(gravity=[0, 0, 0])), backend_name) as sim:
        assert sim.particles.count == 0
        sim.advance(25)
        layers = 1.0 * 2 / D
        assert abs(sim.particles.count - 16 * layers) <= 2 * 16
        assert sim.ledger.count == sim.particles.count
        assert sim.report.mass == pytest.approx(sim.ledger.mass, rel=1e-6)
        z = sim.particles["position"][:, 2]
        assert z.max() < 0.9 + D
        assert z.min() == pytest.approx(0.9 + D / 2 - 2.0, abs=2 * D)


def test_new_particles_keep_clear_of_old_ones() -> None:
    """The mouth of the nozzle lies in the fluid."""
    it = scene(block(20), nozzle(), solver=fixed(gravity=[0, 0, 0]))
    with Simulation(it) as sim:
        sim.step()
        old = sim.particles["position"]
        sim.advance(3)
        fresh = sim.particles["age"] < sim.time - 1e-6
        assert sim.ledger.emitted["jet"].count == fresh.sum()
        full = 16 * 2 * sim.time / D
        assert fresh.sum() < 0.5 * full
        assert len(old) >= 8000


def test_all_that_is_born_until_a_frame_is_there(backend_name: str) -> None:
    """Also what was born in its last step: a layer every 0.6 steps, each where it then is."""
    it = scene(nozzle(velocity=[0, 0, -8]), solver=fixed(gravity=[0, 0, 0]))
    with Simulation(it, backend_name) as sim:
        sim.advance(4)
        layers = np.arange(math.ceil(sim.time * 8 / D))
        assert sim.particles.count == 16 * len(layers)
        expected = 0.9 + D / 2 - 8 * (sim.time - layers * D / 8)
        np.testing.assert_allclose(sim.particles["position"][::16, 2], expected, atol=1e-3 * D)
        assert sim.report.max_speed == pytest.approx(8, rel=1e-3)


def test_emission_looks_at_its_surroundings_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool far from the nozzle is not read back in the steps of a frame that emit."""
    it = scene(
        block(12, at=(2, 0, 0)), nozzle(velocity=[0, 0, -8]), solver=fixed(time_step=1 / 480)
    )
    with Simulation(it) as sim:
        sim.bare_step(timed=False)
        seen: list[int] = []
        inside, read = sim._backend.positions_inside, sim._backend.read

        def counted(boxes: Any) -> Any:
            found = inside(boxes)
            seen.append(len(found))
            return found

        def refuse(name: str) -> Any:
            raise AssertionError(f"{name} was read")

        monkeypatch.setattr(sim._backend, "positions_inside", counted)
        monkeypatch.setattr(sim._backend, "read", refuse)
        for _ in range(18):
            sim.bare_step(timed=False)
        monkeypatch.setattr(sim._backend, "read", read)
        assert len(seen) >= 5
        assert max(seen) <= 16
        assert sim.particles.count == 12**3 + 16 * (1 + len(seen))


def test_a_stream_is_held_within_the_nozzle_only(backend_name: str) -> None:
    """What users do to velocities lasts where a particle is 2.2 spacings on its way, not before."""
    it = scene(nozzle(), solver=fixed(gravity=[0, 0, 0]))
    with Simulation(it, backend_name) as sim:
        sim.advance(6)
        ids, age = sim.particles["id"], sim.particles["age"]
        sim.particles.write("velocity", ids, np.tile(np.float32([0, 3, -2]), (len(ids), 1)))
        sim.bare_step(timed=False)
        v = sim.particles["velocity"][: len(ids)]
        held = age < 2.2 * D / 2
        assert 0 < held.sum() < len(ids)
        assert np.abs(v[held] - [0, 0, -2]).max() <= 0.01 * 2 + 1e-6
        assert v[~held][:, 1].min() > 1


def test_books_balance_with_sinks_and_lifetimes(backend_name: str) -> None:
    drain = {"name": "drain", "shape": {"box": {"min": [-9, -9, -9], "max": [9, 9, 0.5]}}}
    mortal = nozzle(lifetime=0.1)
    for parts in ({"sink": [drain]}, {}, {"domain": {"min": [-1, -1, 0.5]}}):
        it = scene(nozzle() if parts else mortal, solver=fixed(), **parts)
        with Simulation(it, backend_name) as sim:
            emitted = removed = 0
            for frame in range(2, 14):
                report = sim.advance(frame)
                emitted += report.emitted
                removed += report.removed
                assert emitted - removed == sim.particles.count == len(sim.particles["id"])
            assert removed > 0
            assert sim.ledger.count == sim.particles.count
            assert sim.ledger.mass == pytest.approx(sim.report.mass, rel=1e-6)
            if parts:
                assert sim.particles["position"][:, 2].min() >= 0.5
            else:
                assert sim.particles["age"].max() <= 0.1 + 1e-6


def test_overlapping_volumes_share_the_room() -> None:
    second = block(5, at=(2 * D, 0, 0), name="second")
    with Simulation(scene(block(), second)) as sim:
        position = sim.particles["position"].astype(np.float64)
        assert len(position) == 7 * 5 * 5
        apart = np.linalg.norm(position[:, None] - position[None], axis=2)
        np.fill_diagonal(apart, 1)
        assert apart.min() > 0.7 * D


def test_a_closed_domain_holds_the_fluid(backend_name: str) -> None:
    walls = {"min": [-0.1, -0.1, -0.1], "max": [0.4, 0.4, 0.4], "mode": "close"}
    with Simulation(scene(block(), domain=walls, solver=fixed()), backend_name) as sim:
        sim.advance(13)
        position = sim.particles["position"]
        assert sim.particles.count == 125
        assert position.min() >= -0.1
        assert position.max() <= 0.4


def test_a_piston_pushes_the_fluid(backend_name: str) -> None:
    """A wall that slides in at 0.5 m/s is never passed, and drives what is before it."""
    keys = [{"frame": 1}, {"frame": 25, "position": [0.5, 0, 0]}]
    wall = {"box": {"min": [-0.5, -1, -1], "max": [0, 1, 1]}}
    piston = {"name": "piston", "shape": wall, "body": "animated", "motion": keys}
    it = scene(block(), collider=[piston], solver=fixed(gravity=[0, 0, 0]))
    with Simulation(it, backend_name) as sim:
        sim.advance(13)
        assert sim.particles["position"][:, 0].min() > 0.25
        assert sim.particles["velocity"][:, 0].mean() > 0.3


def test_two_dimensions_stay_flat(backend_name: str) -> None:
    it = scene(block(), dimensions=2, collider=[tank()], solver=fixed())
    with Simulation(it, backend_name) as sim:
        report = sim.advance(6)
        assert sim.particles.count == 25
        assert report.mass == pytest.approx(1000 * 25 * D**2, rel=1e-6)
        assert not sim.particles["position"][:, 1].any()
        assert not sim.particles["velocity"][:, 1].any()


# --- channels -------------------------------------------------------------------------------------


def test_channels_have_their_values(backend_name: str) -> None:
    oil = {"name": "oil", "density": 800}
    second = block(4, at=(0.3, 0, 0), name="second", fluid="oil", spacing=0.04)
    it = scene(block(), second, fluid=[{"name": "water"}, oil], solver=fixed(), collider=[tank()])
    with Simulation(it, backend_name) as sim:
        sim.advance(4)
        p = sim.particles
        n = p.count
        for name in p.channels:
            values = p[name]
            assert len(values) == n, name
            assert np.isfinite(values).all(), name
        np.testing.assert_array_equal(p["id"], np.arange(n))
        small = p["phase"] == 1
        np.testing.assert_array_equal(small, np.arange(n) >= 125)
        np.testing.assert_allclose(p["radius"], np.where(small, 0.02, 0.025), rtol=1e-6)
        np.testing.assert_allclose(
            p["mass"], np.where(small, 800 * 0.04**3, 1000 * 0.05**3), rtol=1e-5
        )
        np.testing.assert_allclose(p["age"], 3 / 24, rtol=1e-5)
        assert np.median(p["density"][small]) < 900 < np.median(p["density"][~small])
        assert p["vorticity"].shape == (n, 3)
        assert p["pressure"].max() > 0


def test_newborns_have_all_channels(backend_name: str) -> None:
    """Those of the last step too, and without them others' values are the same."""
    shear = block(6, velocity=[0, 0, 1])
    values = []
    for sources in ((shear, nozzle(velocity=[0, 0, -8])), (shear,)):
        with Simulation(scene(*sources, solver=fixed(gravity=[0, 0, 0])), backend_name) as sim:
            sim.advance(2)
            sim.particles.write("velocity", [100], [[0.0, 1.0, 0.0]])
            values.append({name: sim.particles[name] for name in sim.particles.channels})
            assert len(values[-1]["position"]) == sim.particles.count
    assert values[0]["age"].min() < 1 / 96
    for name, found in values[0].items():
        assert len(found) == len(values[0]["id"]) > 216, name
        np.testing.assert_array_equal(found[:216], values[1][name], err_msg=name)
    assert np.abs(values[1]["vorticity"]).max() > 0


def test_density_of_the_initial_state_is_seen(backend_name: str) -> None:
    """Rest density inside of the block, less at its corners."""
    with Simulation(scene(block(7)), backend_name) as sim:
        density = sim.particles["density"]
        middle = density[np.linalg.norm(sim.particles["position"] - 3.5 * D, axis=1) < D / 2]
        assert middle == pytest.approx([1000], rel=1e-3)
        assert density.min() < 700
        assert not sim.particles["pressure"].any()


def test_user_channels_follow_their_particles(backend_name: str) -> None:
    """Through sorting on the device and the death of others."""
    drain = {"name": "drain", "shape": {"box": {"min": [-9, -9, -9], "max": [0.12, 9, 9]}}}
    it = scene(block(), nozzle(), sink=[drain], solver=fixed(), collider=[tank()])
    with Simulation(it, backend_name) as sim:
        sim.particles.add_channel("tag", np.float64, 2, default=-1)
        ids = sim.particles["id"]
        sim.particles.write("tag", ids, np.stack([ids, 2.0 * ids], axis=1))
        assert "tag" in sim.particles.channels
        sim.advance(6)
        ids, tag = sim.particles["id"], sim.particles["tag"]
        old = ids < 125
        assert 0 < old.sum() < 125
        assert (~old).any()
        np.testing.assert_array_equal(tag[old], np.stack([ids, 2.0 * ids], axis=1)[old])
        assert (tag[~old] == -1).all()


def test_positions_and_velocities_can_be_written(backend_name: str) -> None:
    with Simulation(scene(block(), solver=fixed(gravity=[0, 0, 0])), backend_name) as sim:
        sim.advance(2)
        sim.particles.write("position", [7], [[5.0, 5.0, 5.0]])
        sim.particles.write("velocity", [7], [[0.0, 1.0, 0.0]])
        sim.advance(3)
        np.testing.assert_allclose(sim.particles["position"][7], [5, 5 + 1 / 24, 5], atol=1e-5)


@pytest.mark.parametrize("name", ["mass", "id", "density", "volume", "nothing"])
def test_other_channels_cannot_be_written(name: str) -> None:
    with Simulation(scene(block())) as sim:
        with pytest.raises(RunnelError, match="cannot be written"):
            sim.particles.write(name, [0], [1])


def test_unknown_channels_are_named() -> None:
    with Simulation(scene(block())) as sim:
        with pytest.raises(RunnelError, match="no channel 'color'; there are position, velocity"):
            sim.particles["color"]
        with pytest.raises(RunnelError, match="already"):
            sim.particles.add_channel("density", np.float32)


def test_copies_are_the_users(backend_name: str) -> None:
    with Simulation(scene(block()), backend_name) as sim:
        sim.particles["position"][:] = 99
        sim.particles["density"][:] = 99
        assert sim.particles["position"].max() < 1
        assert sim.particles["density"].max() > 99


# --- memory ---------------------------------------------------------------------------------------


def test_store_is_pinned_while_simulating(opencl_device: Any) -> None:
    """P004 section 7: pageable when edited, pinned while simulating, pageable afterwards."""
    with Simulation(scene(block(), solver=fixed()), opencl_device) as sim:
        store = sim.particles.store
        assert _mapped_by_the_driver(store.rows("position"))
        sim.advance(2)
        before = sim.particles["position"]
    assert not _mapped_by_the_driver(store.rows("position"))
    assert isinstance(store._allocator, PageableAllocator)
    np.testing.assert_array_equal(sim.particles["position"], before)


def _mapped_by_the_driver(array: Any) -> bool:
    while array is not None:
        if type(array).__module__.startswith("pyopencl"):
            return True
        array = getattr(array, "base", None)
    return False


def test_memory_limit_is_kept() -> None:
    with pytest.raises(RunnelError, match="limit"):
        Simulation(scene(block(20)), memory_limit=200_000)
    it = scene(nozzle(velocity=[0, 0, -20]), solver=fixed(gravity=[0, 0, 0]))
    with Simulation(it) as sim:
        small = sum(sim.bytes.values())
    with Simulation(it, memory_limit=int(1.2 * small)) as sim:
        with pytest.raises(RunnelError, match="limit"):
            sim.advance(50)
        assert 2 <= sim.frame < 50
        assert len(sim.particles["position"]) > 0


def test_a_closed_simulation_can_be_read_only() -> None:
    with Simulation(scene(block(), solver=fixed())) as sim:
        sim.advance(3)
    assert sim.particles.count == 125
    assert sim.particles["velocity"][:, 2].mean() == pytest.approx(-9.81 * 2 / 24, rel=1e-3)
    with pytest.raises(RunnelError, match="closed"):
        sim.step()
    with pytest.raises(RunnelError, match="ended"):
        sim.particles["density"]
    sim.close()  # twice does no harm


# --- storing --------------------------------------------------------------------------------------


def busy(**solver: Any) -> Scene:
    """Two fluids of different size, an emitter with jitter, a sink, lifetimes, vorticity."""
    oil = {"name": "oil", "density": 600, "viscosity": 0.8, "vorticity": 0.2}
    drain = {"name": "drain", "shape": {"box": {"min": [0.4, 0, 0], "max": [0.5, 0.5, 0.06]}}}
    jet = nozzle(fluid="oil", lifetime=0.2, jitter=0.3, spacing=0.04)
    return scene(
        block(6, velocity=[2, 0, 0]),
        jet,
        fluid=[{"name": "water"}, oil],
        sink=[drain],
        collider=[tank()],
        solver={"iterations": [2, 8], **solver},
    )


@pytest.mark.parametrize("middle", [False, True])
def test_a_resumed_run_goes_on_bit_by_bit(backend_name: str, middle: bool, tmp_path: Path) -> None:
    """Ten frames in one go, or five, a checkpoint on disk, and five by another simulation."""
    with Simulation(busy(), backend_name) as sim:
        sim.particles.add_channel("tag", np.int32)
        sim.particles.write("tag", sim.particles["id"], np.arange(216))
        sim.advance(6)
        if middle:
            sim.step()
        cache = Cache.create(tmp_path, busy().to_dict())
        cache.write(6, {"position": sim.particles["position"]})
        cache.write_checkpoint(6, *sim.state())
        seen = {name: sim.particles[name] for name in ("position", "density", "age", "pressure")}
        whole = sim.advance(11)
        expected = {name: sim.particles[name] for name in sim.particles.channels}
        books = sim.ledger.state()
    stored = Cache.open(tmp_path).read_checkpoint()
    assert stored is not None
    with Simulation(busy(), backend_name) as sim:
        sim.restore(*stored[1:])
        assert (sim.frame, sim.mid_frame) == (6, middle)
        for name, values in seen.items():
            np.testing.assert_array_equal(sim.particles[name], values, err_msg=name)
        report = sim.advance(11)
        assert set(sim.particles.channels) == set(expected)
        for name, values in expected.items():
            np.testing.assert_array_equal(sim.particles[name], values, err_msg=name)
        assert sim.ledger.state() == books
    for name, value in whole.to_dict().items():
        if "m" not in name[:2] or name in ("mass", "momentum", "max_speed"):  # but milliseconds
            assert report.to_dict()[name] == value, name
    assert whole.removed + whole.emitted > 0


@pytest.mark.parametrize("steps", range(1, 9))
def test_a_resumed_run_reorders_when_the_other_does(steps: int, opencl_device: Any) -> None:
    """Rows sorted every fifth step only: sums depend on their order, and must not on a pause."""
    for it in (scene(block(6, velocity=[2, 0, 0]), collider=[tank()],
                     solver=fixed(reorder_interval=5)), busy(reorder_interval=5)):  # fmt: skip
        with Simulation(it, opencl_device) as sim:
            for _ in range(steps):
                sim.step()
            stored = sim.state()
            sim.advance(5)
            expected = {name: sim.particles[name] for name in ("id", "position", "velocity")}
        with Simulation(it, opencl_device) as sim:
            sim.restore(*stored)
            sim.advance(5)
            for name, values in expected.items():
                np.testing.assert_array_equal(sim.particles[name], values, err_msg=name)


def pool(source: dict[str, Any], folder: Path, **solver: Any) -> Scene:
    """A source that is faster than its pool by far, and always less than FEW of all particles."""
    data = {
        "fluid": [{"name": "water"}],
        "source": [block(16), source],
        "collider": [tank(0.8, 1.2)],
        "solver": {"iterations": [3, 3], **solver},
    }
    return Scene.from_dict(data, folder)


def thin_jet(folder: Path) -> Scene:
    hole = {"box": {"min": [0.4, 0.4, 0.9], "max": [0.4 + D, 0.4 + D, 0.9 + D]}}
    jet = nozzle(shape=hole, velocity=[0, 0, -12], lifetime=0.04)
    return pool(jet, folder, time_step=1 / 24)


def drops(folder: Path) -> Scene:
    """One a frame, from a file: how fast it is is known when it is born, in the first step."""
    place = np.array([[0.4, 0.4, 1.0]], np.float32)
    write_bgeo(folder / "drop.bgeo", Geometry(1, points={"P": place}))
    shape = {"points": "drop.bgeo"}
    return pool(nozzle(shape=shape, velocity=[0, 0, -20], lifetime=0.1), folder)


@pytest.mark.parametrize(("make", "middle"), [(thin_jet, False), (thin_jet, True), (drops, True)])
def test_a_resumed_run_knows_how_fast_newborns_are(
    backend_name: str, make: Callable[[Path], Scene], middle: bool, tmp_path: Path
) -> None:
    """A survey of all particles takes them for spray, and would divide what comes by less."""
    it = make(tmp_path)
    with Simulation(it, backend_name, timed=False) as sim:
        sim.advance(1 if make is drops else 3)
        if middle:
            sim.step()
        stored = sim.state()
        assert 0 < (np.linalg.norm(sim.particles["velocity"], axis=1) > 9).mean() < 0.005
        sim.advance(5)
        expected, story = sim.state()
    with Simulation(it, backend_name, timed=False) as sim:
        sim.restore(*stored)
        assert sim.mid_frame == middle
        sim.advance(5)
        arrays, again = sim.state()
    assert again == story
    for name, values in expected.items():
        np.testing.assert_array_equal(arrays[name], values, err_msg=name)


def test_a_state_without_a_survey_is_read() -> None:
    """As Runnel stored it before."""
    with Simulation(scene(block(), solver=fixed())) as sim:
        sim.advance(2)
        arrays, meta = sim.state()
        del meta["survey"]
        sim.restore(arrays, meta)
        assert sim.advance(3).max_speed == pytest.approx(9.81 / 12, rel=1e-3)


def test_a_state_of_another_format_is_refused() -> None:
    with Simulation(scene(block())) as sim:
        arrays, meta = sim.state()
        with pytest.raises(RunnelError, match="format"):
            sim.restore(arrays, {**meta, "format": 99})


# --- failing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nothing_that_is_not_a_number_leaves_a_step(backend_name: str, bad: float) -> None:
    """The error names frame and particle; the last good frame can still be read."""
    with Simulation(scene(block(), solver=fixed()), backend_name) as sim:
        sim.advance(3)
        good = sim.particles["position"]
        sim.particles.write("velocity", [17], [[0, bad, 0]])
        with pytest.raises(SimulationError, match=r"frame 4.*17.*time.step") as caught:
            sim.advance(5)
        assert caught.value.frame == 4
        assert sim.frame == 3
        assert sim.time == pytest.approx(2 / 24)
        np.testing.assert_array_equal(sim.particles["position"], good)
        with pytest.raises(SimulationError):
            sim.advance(5)


def test_what_fails_in_a_frame_leaves_no_newborns() -> None:
    """Particles that were emitted in the frame that failed are no part of the last good one."""
    with Simulation(scene(block(), nozzle(), solver=fixed())) as sim:
        sim.advance(6)
        ids = sim.particles["id"]
        sim.step()
        sim.step()
        sim.particles.write("velocity", [3], [[math.nan, 0, 0]])
        with pytest.raises(SimulationError):
            sim.advance(8)
        assert set(ids) <= set(sim.particles["id"])
        assert len(sim.particles["position"]) == sim.particles.count


def test_what_a_callback_raises_pauses_the_run() -> None:
    class Stop(Exception):
        pass

    def stop(_: StepReport) -> None:
        raise Stop

    with Simulation(scene(block(), solver=fixed())) as sim:
        with pytest.raises(Stop):
            sim.advance(5, on_step=stop)
        assert sim.mid_frame
        assert sim.share_of_frame == 0.25
        sim.advance(5)
        with Simulation(scene(block(), solver=fixed())) as other:
            other.advance(5)
            np.testing.assert_array_equal(sim.particles["position"], other.particles["position"])


# --- the package ----------------------------------------------------------------------------------


def test_public_names_are_sorted_and_there() -> None:
    assert runnel.__all__ == sorted(runnel.__all__)
    for name in runnel.__all__:
        assert getattr(runnel, name) is not None
    assert dir(runnel) == runnel.__all__
    with pytest.raises(AttributeError, match="nonsense"):
        runnel.nonsense  # noqa: B018


def test_importing_is_quick() -> None:
    """Hosts import the package at start-up. Measured inside, so that the interpreter's own start
    does not count."""
    code = "import time; t = time.perf_counter(); import runnel; print(time.perf_counter() - t)"
    core = str(Path(runnel.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": core}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 0.3
