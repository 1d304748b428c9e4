"""The report: right numbers, one well-formed page, nothing from outside."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
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
    assert all(link.startswith("data:image/png;base64,") for link in checker.links)
    assert checker.tags.count("svg") == 6
    assert "script" not in checker.tags
    assert "b" in checker.tags  # of the tiles, not of the scene's name
    assert "<b>dam" not in text
    assert "&lt;b&gt;dam &amp; co&lt;/b&gt;" in text
    assert json.loads(data.read_text())["totals"]["frames"] == 4
    assert str(tmp_path) not in text + data.read_text()
    assert not list(tmp_path.glob("*.tmp"))


def test_pictures_are_inside(tmp_path):
    """The contact sheet that is there, or a fresh one; the page can be moved alone."""
    filled(tmp_path)
    fresh = checked(write_report(tmp_path)[0].read_text()).links
    assert base64.b64decode(fresh[0].split(",")[1]).startswith(b"\x89PNG")
    (tmp_path / "preview").mkdir()
    (tmp_path / "preview" / "contact_sheet.png").write_bytes(b"\x89PNG as it is")
    page, _ = write_report(tmp_path, tmp_path / "elsewhere")
    links = checked(page.read_text()).links
    assert base64.b64decode(links[0].split(",")[1]) == b"\x89PNG as it is"


def with_books(folder):
    cache = Cache.create(folder, SCENE)
    for frame in (1, 2):
        report = {
            "mass": 90.0 * frame,
            "ledger": {"given": {"dam": 80.0, "<jet>": 30.0}, "removed": 20.0, "expected": 90.0},
            "memory": {"device": 2e6, "host": 1e6, "process": 3e8 * frame},
            "leaks": 3 - frame,
        }
        cache.write(frame, {"position": np.zeros((3, 3), np.float32)}, report)
    return cache


def test_books_leaks_and_memory(tmp_path):
    totals = summarize(with_books(tmp_path))["totals"]
    assert totals["books"] == pytest.approx(1.0)
    assert totals["leaks"] == 2
    assert totals["memory"] == 6e8
    text = write_report(tmp_path)[0].read_text()
    checked(text)
    for words in ("source &lt;jet&gt;", "given by sources", "Leaked particles", "Memory [MB]"):
        assert words in text
    assert "600 MB" in text


# ---- in a browser


def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    return None


def visit(page, folder):
    """Screenshot, the page as the browser understood it, and what its console said. Offline."""
    shot = folder / "shot.png"
    command = [
        browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND",
        "--enable-logging=stderr", "--window-size=1200,2000",
    ]  # fmt: skip
    texts = []
    for more in ([f"--screenshot={shot}"], ["--dump-dom"]):
        done = subprocess.run(
            [*command, *more, page.as_uri()], capture_output=True, text=True, timeout=90, check=True
        )
        texts.append((done.stdout, [x for x in done.stderr.splitlines() if "CONSOLE" in x]))
    return shot, texts[1][0], texts[0][1] + texts[1][1]


@pytest.mark.skipif(browser() is None, reason="no chromium here: apt-get install chromium")
def test_chromium_shows_the_page(tmp_path):
    """Nothing in its console, all plots drawn, pictures loaded, in colour and not empty."""
    from PIL import Image

    with_books(tmp_path / "cache")
    cache = Cache.open(tmp_path / "cache")
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 9)] * 3), -1).reshape(-1, 3)
    arrays = {"position": grid.astype(np.float32), "radius": np.full(len(grid), 0.06, np.float32)}
    cache.write(3, arrays, {"mass": 1.0, "milliseconds": {"pressure": 3.0}, "steps": 2})
    page, _ = write_report(tmp_path / "cache")
    shot, dom, console = visit(page, tmp_path)
    assert console == []
    assert dom.count("<svg") == 5
    assert dom.count('<img src="data:image/png') == 1
    pixels = np.asarray(Image.open(shot).convert("RGB"), np.int64)
    assert pixels.shape == (2000, 1200, 3)
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 500  # text, lines, a picture
    lines = (np.abs(pixels - [0x2F, 0x7F, 0xC2]).sum(axis=2) < 12).sum()
    assert lines > 500  # of the plots


@pytest.mark.skipif(browser() is None, reason="no chromium here: apt-get install chromium")
def test_the_browser_does_complain(tmp_path):
    """The check above can fail."""
    page = tmp_path / "bad.html"
    page.write_text("<script>console.error('bad'); nothing.at.all</script>")
    assert len(visit(page, tmp_path)[2]) >= 2


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
