"""The scene that is timed, and what the scripts in benchmarks/ compute from what they measure."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runnel.bench import tank

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def load(monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module(name)


@pytest.mark.parametrize(("particles", "step"), [(29_791, 1 / 240), (512_000, 1 / 480)])
def test_the_timed_scene_is_that_of_the_peers(particles: int, step: float) -> None:
    scene = tank(particles, 4)
    assert scene.estimate_particles() == particles
    assert scene.solver.time_step == pytest.approx(step)
    assert scene.solver.support == 4.0
    assert scene.solver.iterations == (4, 4)


@pytest.mark.parametrize("squeezed", [1.0, 0.97])
def test_independent_compression(monkeypatch: pytest.MonkeyPatch, squeezed: float) -> None:
    """A lattice squeezed to a share of its volume is denser by as much; walls do not count."""
    common = load(monkeypatch, "common")
    setup = common.Setup("cube", (16, 16, 16), 0.1, (1.6, 1.6, 1.6))
    along = 0.8 + 0.1 * squeezed ** (1 / 3) * (np.arange(16) - 7.5)
    x = np.stack(np.meshgrid(along, along, along), axis=-1).reshape(-1, 3)
    assert common.compression(x, setup) == pytest.approx(100 * (1 / squeezed - 1), abs=0.5)
    x[5] = np.nan
    assert common.compression(x, setup) == np.inf


def test_summary_of_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ratio is the median of the rounds' ratios, not the ratio of medians."""
    compare = load(monkeypatch, "compare_peers")
    monkeypatch.setattr(compare, "conditions", lambda: {"commit": "abc+"})
    same = {"device": "d", "particles": 8, "iterations": 4, "bytes_per_particle": 200.0}
    same |= {"density_error_avg": 0.01}
    ours = [{**same, "ms_per_step": ms, "stages": {"pressure": ms / 2}} for ms in (1.0, 2.0, 4.0)]
    line = compare.summary(ours, {"PBF": [20.0, 60.0, 90.0]})
    assert line["peers"]["PBF"] == {"ms_per_step": 60.0, "ratio": 22.5, "spread": [20.0, 30.0]}
    assert (line["dirty"], line["ms_per_step"], line["stages"]) == (True, 2.0, {"pressure": 1.0})


def test_verdict_on_quality(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cheapest setting within both limits counts."""
    quality = load(monkeypatch, "quality")
    rows = [
        (quality.Case("runnel", 120, 4), {"wall": 1.0, "early": 1.2, "splash": 1.0}),
        (quality.Case("runnel", 240, 4), {"wall": 2.0, "early": 0.5, "splash": 1.0}),
        (quality.Case("PBF", 240, 4), {"wall": 50.0, "early": 0.9, "splash": 1.9}),
        (quality.Case("DFSPH", 240, tolerance=0.1), {"failed": "it did"}),
    ]
    text = quality.verdict(rows)
    assert "support 4.4 240/4 takes 2 s" in text
    assert "PBF 240/4 50 s, 25.0 times as much" in text
    assert "no setting of SPlisHSPlasH DFSPH" in text


def test_tables_go_between_marks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    common = load(monkeypatch, "common")
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n")
    monkeypatch.setattr(common, "PAGE", page)
    common.publish("x", common.table(["h"], [["1"]]))
    expected = "a\n<!-- x: begin -->\n| h |\n| --- |\n| 1 |\n<!-- x: end -->\nb\n"
    assert page.read_text() == expected


def test_stopped_runs_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    common = load(monkeypatch, "common")
    file = tmp_path / "rows.jsonl"
    common.Rows(file).add("one", {"value": 1})
    again = common.Rows(file)
    assert again.get("one")["value"] == 1
    assert again.get("two") is None
    assert common.Rows(file, fresh=True).get("one") is None
