"""The report: right numbers, one well-formed page, nothing from outside."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from runnel.cache import Cache
from runnel.report import Series, decimals, label, nice_ticks, plot, summarize, write_report

SCENE = {"name": "<b>dam & co</b>", "frames": [1, 4]}


def filled(folder, frames=4):
    cache = Cache.create(folder, SCENE, device="cpu <script>")
    for frame in range(1, frames + 1):
        report = {
            "steps": 4,
            "iterations": 3.5,
            "density_error_avg": 0.01 * frame,
            "density_error_max": 0.2 if frame == 2 else 0.1,
            "mass": 100.0 + frame,
            "momentum": [0.0, 1.0, -2.0 * frame],
            "milliseconds": {"neighbors": 4.0, "pressure": 12.0 * frame},
        }
        cache.write(frame, {"position": np.zeros((10 * frame, 3), np.float32)}, report)
    return cache


class Checker(HTMLParser):
    """Collects addresses and complains about tags that do not match."""

    def __init__(self):
        super().__init__()
        self.open, self.links, self.tags = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for key, value in attrs if key in ("src", "href")]
        if tag not in ("meta", "img", "path", "circle"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def checked(text):
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    return checker


def test_numbers_are_those_of_the_frames(tmp_path):
    summary = summarize(filled(tmp_path))
    totals = summary["totals"]
    assert totals["frames"] == 4
    assert totals["steps"] == 16
    assert totals["particles_most"] == 40
    assert totals["ms_per_step"] == pytest.approx((16 + 12 * 10) / 16)
    assert totals["density_error_avg"] == pytest.approx(0.025)
    assert totals["density_error_max"] == 0.2
    assert totals["mass_change"] == pytest.approx(104 / 101 - 1)
    assert summary["stages"] == ["neighbors", "pressure"]


def test_page_is_well_formed_and_needs_nothing_from_outside(tmp_path):
    filled(tmp_path)
    page, data = write_report(tmp_path)
    text = page.read_text(encoding="utf-8")
    checker = checked(text)
    assert checker.links == []
    assert checker.tags.count("svg") == 6
    assert "script" not in checker.tags
    assert "b" in checker.tags  # of the tiles, not of the scene's name
    assert "<b>dam" not in text
    assert "&lt;b&gt;dam &amp; co&lt;/b&gt;" in text
    assert json.loads(data.read_text())["totals"]["frames"] == 4
    assert str(tmp_path) not in text + data.read_text()
    assert not list(tmp_path.glob("*.tmp"))


def test_contact_sheet_is_linked_relatively(tmp_path):
    filled(tmp_path / "cache")
    (tmp_path / "cache" / "preview").mkdir()
    (tmp_path / "cache" / "preview" / "contact_sheet.png").write_bytes(b"")
    page, _ = write_report(tmp_path / "cache")
    assert checked(page.read_text()).links == ["preview/contact_sheet.png"]
    page, _ = write_report(tmp_path / "cache", tmp_path / "elsewhere")
    assert checked(page.read_text()).links == ["../cache/preview/contact_sheet.png"]


@pytest.mark.parametrize("report", [None, {}, {"mass": None, "milliseconds": "x", "momentum": [1]}])
def test_frames_without_numbers_and_empty_caches_make_a_page(tmp_path, report):
    cache = Cache.create(tmp_path, SCENE)
    checked(write_report(tmp_path)[0].read_text())
    cache.write(1, {"position": np.zeros((3, 3), np.float32)}, report)
    checked(write_report(tmp_path)[0].read_text())
    assert summarize(cache)["totals"]["ms_per_step"] is None


def test_plot_puts_values_where_they_belong():
    """Higher values higher up, the first frame at the left, None as a gap."""
    svg = plot([1, 2, 3, 4], [Series("a", [0.0, 10.0, None, 5.0])])
    root = ElementTree.fromstring(svg)
    path = next(p.get("d") for p in root.iter("path") if p.get("stroke"))
    assert path.count("M") == 2
    points = [tuple(map(float, pair)) for pair in re.findall(r"([\d.]+) ([\d.]+)", path)]
    assert [p[0] for p in points] == sorted(p[0] for p in points)
    assert points[0][1] > points[2][1] > points[1][1]
    titles = [t.text for t in root.iter("title")]
    assert titles[2] == "frame 3\na: -"


def test_stacked_layers_add_up():
    series = [Series("a", [1.0, 1.0]), Series("b", [2.0, 4.0])]
    root = ElementTree.fromstring(plot([1, 2], series, "stacked"))
    areas = [p.get("d") for p in root.iter("path") if p.get("fill-opacity")]
    tops = [min(float(y) for y in re.findall(r"[\d.]+ ([\d.]+)", area)) for area in areas]
    assert tops[0] < tops[1]  # the sum is drawn first, behind
    ticks = [float(t.text) for t in root.iter("text") if t.get("text-anchor") == "end"]
    assert ticks[0] == 0
    assert ticks[-1] >= 5


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0, 0), (5, 5), (-3, 1e-9), (2600, 2600.016), (0, 1e9), (-7, -6)]
)
def test_ticks_are_round_and_enclose(low, high):
    ticks, slack = nice_ticks(low, high), 1e-6 * (high - low)
    assert ticks[0] <= low + slack
    assert ticks[-1] >= high - slack
    assert 2 <= len(ticks) <= 9
    step = ticks[1] - ticks[0]
    read = [float(label(tick, decimals(step))) for tick in ticks]
    assert read == pytest.approx(ticks, abs=1e-3 * step)


def test_labels_have_no_idle_zeros():
    assert [label(v, 2) for v in (0.0, 2.5, 100.0, -1.25)] == ["0", "2.5", "100", "-1.25"]
