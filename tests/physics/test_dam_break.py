"""A column of water collapses: the front against experiments and against others' computations.

A column a wide and n^2 a high stands in the corner of a long tank and is let go. Lengths are in a,
times are T = t sqrt(n^2 g / a). Walls slip freely, the water is inviscid: nothing is fitted.

**Front.** The foremost particle that has three others within two spacings, plus its radius. Where
nothing splashes that is the foremost particle of all; a lone drop ahead of the layer does not
count. A percentile of all positions would not do: early on the front is a toe one particle thick,
and 1/1000 of all particles already reaches 3 spacings back.

**Time.** In the experiments a gate or a membrane opens. Martin & Moyce read the film from the first
frame that shows a clear front, and a shift of their T by 0.2 to 0.4 is customary. So times are
aligned at the first reading with Z >= 1.2, and what is compared is everything after it. A
computation that also starts from rest at T = 0 is compared as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import cKDTree

from .setups import Floats, G, column, position, run

DATA = Path(__file__).parent / "data"
INCH = 0.0254  # [m]
ALIGN = 1.2  # Z from which times are compared

# Experiment: width a [m], n^2, tolerance of the mean relative error in time
EXPERIMENTS = {
    "martin_moyce_front_n2_2_a1.125in": (1.125 * INCH, 2, 0.06),
    "martin_moyce_front_n2_2_a2.25in": (2.25 * INCH, 2, 0.05),
    "martin_moyce_front_n2_1_table": (2.25 * INCH, 1, 0.08),
    "koshizuka_oka_1996_front_exp": (0.146, 2, 0.10),
}


@dataclass(frozen=True)
class Collapse:
    """Front Z(T), and height of what is left at the wall, in a."""

    time: Floats
    front: Floats
    height: Floats

    def arrival(self, front: Floats) -> Floats:
        """T at which the front gets there."""
        return np.interp(front, np.maximum.accumulate(self.front), self.time)


def read(name: str, folder: Path = DATA) -> Floats:
    """Rows of T, Z."""
    lines = (folder / f"{name}.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines if line[0].isdigit()]
    return np.array(rows, np.float64)


def front_of(positions: Floats, spacing: float) -> float:
    """How far the layer reaches [m]; see above."""
    foremost = positions[np.argsort(-positions[:, 0])[:200]]
    near = cKDTree(positions).query_ball_point(foremost, 2 * spacing, return_length=True)
    return float(foremost[near > 3, 0][0] + spacing / 2)


@cache
def collapse(
    width: float,
    ratio: int = 2,
    until: float = 5.5,
    fineness: int = 40,
    depth: int = 0,
    device: str = "auto",
) -> Collapse:
    """Let a column go that is `width` [m] wide and `fineness` spacings, up to T = until.

    depth: spacings across a slab of 3D; 0 is 2D.
    """
    spacing, unit = width / fineness, np.sqrt(ratio * G / width)
    across = [depth * spacing] * (depth > 0)
    size = [15 * width, *across, 3 * width]
    scene = column(size, [width, *across, ratio * width], spacing, fps=20 * unit)
    rows = []
    for sim in run(scene, until / unit, device):
        x = position(sim)
        wall = x[x[:, 0] < 2 * spacing, 2].max() + spacing / 2
        rows.append((sim.time * unit, front_of(x, spacing) / width, wall / width))
    return Collapse(*np.array(rows).T)


def experiment(name: str) -> Collapse:
    """The collapse that belongs to one of EXPERIMENTS, as far as its readings go."""
    width, ratio, _ = EXPERIMENTS[name]
    return collapse(width, ratio, 9.5 if name.endswith("a2.25in") else 5.5)


def lateness(computed: Collapse, readings: Floats, *, align: bool = True) -> Floats:
    """Relative errors in time at the readings' Z; aligned at the first with Z >= ALIGN."""
    readings = readings[(readings[:, 0] > 0) & (readings[:, 1] < computed.front.max())]
    if not align:
        return computed.arrival(readings[:, 1]) / readings[:, 0] - 1
    readings = readings[readings[:, 1] >= ALIGN]
    arrival = computed.arrival(readings[:, 1])
    shift = readings[0, 0] - arrival[0]
    assert abs(shift) <= 0.4, "more than what is customary"
    return (arrival + shift)[1:] / readings[1:, 0] - 1


def mean_error(late: Floats) -> float:
    return float(np.abs(late).mean())


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_front_follows_the_experiment(name):
    """The front of a 2D collapse arrives when it did in the laboratory."""
    readings = read(name)
    late = lateness(experiment(name), readings)
    assert len(late) >= len(readings) - 3
    assert mean_error(late) <= EXPERIMENTS[name][2]


def test_front_follows_another_reading_of_the_same_experiment(shared):
    """Koshizuka & Oka's film as read by DualSPHysics: where readers differ, the front is real."""
    seconds = read("koshizuka_oka_1996_front_dualsphysics", shared / "validation" / "data")
    readings = seconds * [np.sqrt(2 * G), 1.0]  # column of 1 m
    assert mean_error(lateness(experiment("koshizuka_oka_1996_front_exp"), readings)) <= 0.04


def test_front_is_that_of_inviscid_flow():
    """From rest, nothing aligned: the front is where Koshizuka & Oka's own computation has it."""
    readings = read("koshizuka_oka_1996_front_mps")
    late = lateness(
        experiment("koshizuka_oka_1996_front_exp"), readings[readings[:, 1] > 1.1], align=False
    )
    assert mean_error(late) <= 0.03


@pytest.mark.xfail(
    reason="14 %; the authors' own computation is off by 15 %. From Z = 1.25 to 3.6 this reading "
    "is 12 % slower than Martin & Moyce, and than another reading of the same film"
)
def test_front_follows_koshizuka_and_oka_from_their_time_zero():
    """As published, nothing aligned: within 10 %."""
    late = lateness(
        experiment("koshizuka_oka_1996_front_exp"),
        read("koshizuka_oka_1996_front_exp"),
        align=False,
    )
    assert mean_error(late) <= 0.10


def test_column_sinks_as_in_the_experiment():
    """What is left of a square column at the wall has the height that Martin & Moyce read."""
    computed = experiment("martin_moyce_front_n2_1_table")
    readings = read("martin_moyce_height_n2_1_table")
    readings = readings[readings[:, 0] < computed.time[-1]]
    height = np.interp(readings[:, 0], computed.time, computed.height)
    assert np.abs(height - readings[:, 1]).max() <= 0.05


def test_front_in_three_dimensions():
    """A coarse slab of 3D does the same."""
    name = "martin_moyce_front_n2_2_a2.25in"
    computed = collapse(EXPERIMENTS[name][0], fineness=16, depth=8)
    assert mean_error(lateness(computed, read(name))) <= 0.05


def test_front_on_each_backend(backend_name):
    """A coarse column does the same on every backend."""
    name = "martin_moyce_front_n2_2_a2.25in"
    computed = collapse(EXPERIMENTS[name][0], fineness=12, until=3.5, device=backend_name)
    assert mean_error(lateness(computed, read(name))) <= 0.06


def test_front_does_not_depend_on_the_spacing():
    """Twice as many particles across the column: the front arrives at the same time."""
    stations = np.linspace(1.2, 5.0, 20)
    coarse, fine = (
        collapse(2.25 * INCH, fineness=n, until=9.5 if n > 20 else 5.5) for n in (20, 40)
    )
    assert mean_error(coarse.arrival(stations) / fine.arrival(stations) - 1) <= 0.03
