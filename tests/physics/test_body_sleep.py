"""Rigid bodies that sleep: what wakes them, and what does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runnel import Simulation

from .setups import box
from .test_bodies import body, far_drop, inside, scene

ASLEEP = 0.5  # [s] of calm
WAIT = 16  # frames of 0.04 s after which all that rests is asleep
CRATE = box([0.5, 0.4, 0.0], [0.6, 0.5, 0.1])


def room() -> dict[str, Any]:
    return inside(box([-1, -1, 0], [2, 2, 2]))


def keys(x: float = 0.0, z: float = 0.0, frames: int = 5) -> list[dict[str, Any]]:
    """Stands still until all is asleep, then goes there."""
    there = {"frame": WAIT + frames, "position": [x, 0, z]}
    return [{"frame": 0}, {"frame": WAIT}, there]


def simulation(*colliders: dict[str, Any]) -> Simulation:
    it = scene([room(), *colliders], far_drop(), time_step=0.005)
    return Simulation(it, timed=False)


def fall_asleep(sim: Simulation, number: int = 0) -> Any:
    """Where it is, once it sleeps."""
    sim.advance(WAIT)
    assert sim.bodies.calm[number] >= ASLEEP
    assert (sim.bodies.velocity[number] == 0).all()
    return sim.bodies.centre[number].copy()


def test_a_ball_that_hits_it() -> None:
    ball = body({"sphere": {"center": [0.0, 0.45, 0.055], "radius": 0.05}}, density=3000)
    with simulation(body(CRATE), ball | {"motion": keys(0.35)}) as sim:
        start = fall_asleep(sim)
        sim.advance(WAIT + 12)
        assert sim.bodies.centre[0, 0] > start[0] + 0.02


@pytest.mark.parametrize("driven", [True, False])
def test_a_ram_that_pushes_it(driven: bool) -> None:
    """A body that follows its keyframes, and a collider that does."""
    ram: dict[str, Any] = {"shape": box([0.2, 0.42, 0.01], [0.3, 0.48, 0.09]), "motion": keys(0.4)}
    with simulation(body(CRATE), ram | {"body": "rigid" if driven else "animated"}) as sim:
        start = fall_asleep(sim)
        sim.advance(WAIT + 5)
        assert sim.bodies.centre[0, 0] > start[0] + 0.18  # from 0.5 to 0.7


@pytest.mark.parametrize("driven", [True, False])
def test_a_trapdoor_below_it(driven: bool) -> None:
    door: dict[str, Any] = {"shape": box([0.4, 0.3, 0.4], [0.7, 0.6, 0.45]), "motion": keys(0.8)}
    above = body(box([0.5, 0.4, 0.45], [0.6, 0.5, 0.55]), contact_friction=0.0)
    with simulation(above, door | {"body": "rigid" if driven else "animated"}) as sim:
        fall_asleep(sim)
        sim.advance(WAIT + 20)
        assert sim.bodies.centre[0, 2] < 0.06


@pytest.mark.parametrize("half", [0.02, 0.08])
def test_a_box_below_it_that_leaves(half: float) -> None:
    """Whether corners of the lower one touch the upper, or the other way round."""
    upper = body(box([0.55 - half, 0.45 - half, 0.1], [0.55 + half, 0.45 + half, 0.15]))
    with simulation(body(CRATE), upper) as sim:
        fall_asleep(sim, 1)
        sim.bodies.velocity[0], sim.bodies.calm[0] = [4.0, 0.0, 0.0], 0.0
        sim.advance(WAIT + 20)
        assert sim.bodies.centre[1, 2] < 0.05


def test_water_that_reaches_it() -> None:
    dam = box([-1, 0.2, 0], [-0.6, 0.7, 0.3])
    walls = inside(box([-1, 0.2, 0], [1.5, 0.7, 2]))
    setup = scene([walls, body(CRATE, density=300)], [dam], time_step="auto")
    setup = setup.with_overrides(["source[0].spacing=0.04"])
    with Simulation(setup, timed=False) as sim:
        sim.advance(12)
        start = sim.bodies.centre[0].copy()
        assert (sim.bodies.velocity[0] == 0).all() or sim.bodies.calm[0] > 0.3
        sim.advance(35)
        assert np.abs(sim.bodies.centre[0] - start).max() > 0.02


def test_what_moves_far_away_wakes_nothing() -> None:
    ram = {"shape": box([-0.9, -0.9, 1.0], [-0.8, -0.8, 1.1]), "motion": keys(0.4)}
    with simulation(body(CRATE), ram | {"body": "animated"}) as sim:
        start = fall_asleep(sim)
        for frame in range(WAIT + 1, WAIT + 6):
            sim.advance(frame)
            assert sim.bodies.calm[0] >= ASLEEP
        np.testing.assert_array_equal(sim.bodies.centre[0], start)
