"""The report: right numbers, one well-formed page, nothing from outside."""

from __future__ import annotations

import base64
import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from runnel.cache import Cache
from runnel.cli import main
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
    assert totals["ms_per_step_median"] == pytest.approx((4 + 12 * 2.5) / 4)
    assert totals["density_error_avg"] == pytest.approx(0.025)
    assert totals["density_error_max"] == 0.2
    assert totals["mass_change"] == pytest.approx(104 / 101 - 1)
    assert summary["stages"] == ["neighbors", "pressure"]


def test_a_frame_that_took_long_does_not_flatten_the_others(tmp_path):
    """Programs are built in the first: its time is told, and the plot is of the others."""
    cache = Cache.create(tmp_path, SCENE)
    for frame, ms in enumerate((0.0, 8000.0, *[40.0] * 20), 1):
        report = {"steps": 4 if ms else 0, "iterations": 3.0 if ms else 0.0, "mass": 50.0 * frame}
        cache.write(frame, {"position": np.zeros((3, 3), np.float32)},
                    {**report, "milliseconds": {"pressure": ms} if ms else {}})  # fmt: skip
    write_report(tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    checked(text)
    assert "<b>10.0 ms</b>" in text  # the mean is 105
    assert "<b>+2100 %</b>" in text
    (section,) = [part for part in text.split("<section>") if "<h2>Time per step [ms]" in part]
    assert "Cut off: frame 2, up to 2000 ms" in section
    assert "pressure: 2000" in section  # to be pointed at
    ticks = [float(tick) for tick in re.findall(r'text-anchor="end">([\d.]+)<', section)]
    assert max(ticks) <= 40
    path = re.findall(r'd="M([^"]*)Z"', section)[0]
    heights = [float(pair.split()[1]) for pair in path.split("L")]
    assert min(heights) >= 10  # nothing is drawn above the axis
    (section,) = [part for part in text.split("<section>") if "<h2>Iterations" in part]
    assert "frame 1\niterations: -" in section  # it has none: not zero


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


def test_solids_that_do_not_count_are_named(tmp_path):
    """Where leaks are; not a word in scenes without such solids."""
    sail = {"name": "<sail>", "mode": "shell", "body": "static", "shape": {"mesh": {"file": "a"}}}
    for scene, said in (({**SCENE, "collider": [sail]}, True), (SCENE, False)):
        cache = Cache.create(tmp_path / str(said), scene)
        cache.write(1, {"position": np.zeros((3, 3), np.float32)}, {"leaks": 0})
        text = write_report(tmp_path / str(said))[0].read_text()
        checked(text)
        assert ("Not counted: &lt;sail&gt; (a shell" in text) == said
        assert ("leaked particles, not of all solids" in text) == said


# ---- momentum

JET = {"name": "jet", "kind": "emitter", "velocity": [0, 3, 4], "speed": 10.0, "rate": None,
       "rotation": [0, 0, 0], "motion": [], "shape": {"sphere": {}}}  # fmt: skip


def moving(folder, change=None, **scene):
    """2 kg at frame 1; a jet gives 1 kg a frame; a wall takes what is over. Frames last 0.5 s."""
    whole = {**SCENE, "solver": {"gravity": [0.0, 0.0, -10.0]}, "source": [JET], **scene}
    cache = Cache.create(folder, whole)
    for k in range(4):
        report = {
            "time": 0.5 * k,
            "mass": 2.0 + k,
            "momentum": [1.0, 6.0 * k, 5.0],
            "ledger": {"given": {"jet": 1.0 * k}, "removed": 0.0, "expected": 2.0 + k},
            **(change or {}),
        }
        cache.write(k + 1, {"position": np.zeros((3, 3), np.float32)}, report)
    return cache


def test_momentum_adds_up(tmp_path):
    wall = [{"name": "wall", "body": "static"}, {"name": "duck", "body": "rigid"}]
    moving(tmp_path, collider=wall, force=[{"name": "wind"}])
    page, data = write_report(tmp_path)
    books = json.loads(data.read_text())["momentum_ledger"]
    assert books["frames"] == [1, 4]
    assert books["start"] == [1, 0, 5]
    assert books["gravity"] == pytest.approx([0, 0, -10 * 0.5 * (2.5 + 3.5 + 4.5)])
    assert books["given"] == {"jet": pytest.approx([0, 18, 24])}
    assert books["rest"] == pytest.approx([0, 0, 52.5 - 24])
    assert books["end"] == [1, 18, 5]
    text = page.read_text()
    checked(text)
    others = "walls, bodies, forces, nozzles, which hold what leaves them"
    for name, numbers in {
        "at frame 1": (1, 0, 5),
        "gravity": (0, 0, -52.5),
        "source jet": (0, 18, 24),
        f"the rest: {others}": (0, 0, 28.5),
        "at frame 4": (1, 18, 5),
    }.items():
        row = re.search(f"<tr><th>{name}</th>((?:<td>[^<]*</td>){{3}})</tr>", text)
        assert [float(v) for v in re.findall("<td>(.*?)</td>", row[1])] == pytest.approx(numbers)


@pytest.mark.parametrize(
    "jet",
    [
        {"rate": 0.1},
        {"rotation": [0, 90, 0]},
        {"motion": [{}]},
        {"shape": {"points": {}}},
        {"velocity": [0, 0, 0]},
    ],
)
def test_what_a_source_gave_may_not_be_known(jet, tmp_path):
    """Then it is part of the rest, by name."""
    books = summarize(moving(tmp_path, source=[{**JET, **jet}]))["momentum_ledger"]
    assert books["given"] == {}
    assert books["others"][-1] == "source jet"
    assert books["rest"] == pytest.approx([0, 18, 52.5])


def test_momentum_of_flat_scenes_and_of_branches(tmp_path):
    """2D knows no third axis; frames of before a branch may have had another gravity."""
    flat = moving(tmp_path / "flat", dimensions=2, up="z")
    books = summarize(flat)["momentum_ledger"]
    assert books["given"]["jet"] == pytest.approx([0, 0, 30])  # its speed, in the plane
    parent = moving(tmp_path / "parent")
    branch = Cache.branch(tmp_path / "branch", parent, 3, {**parent.scene, "name": "other"})
    report = {**parent.entry(4).report, "momentum": [0.0, 0.0, 0.0]}
    branch.write(4, {"position": np.zeros((3, 3), np.float32)}, report)
    books = summarize(branch)["momentum_ledger"]
    assert books["frames"] == [3, 4]
    assert books["gravity"] == pytest.approx([0, 0, -22.5])


@pytest.mark.parametrize("change", [{"mass": None}, {"momentum": [1.0, 2.0]}, {"time": "x"}])
def test_no_books_of_momentum_without_numbers(change, tmp_path):
    moving(tmp_path, change)
    page, data = write_report(tmp_path)
    assert json.loads(data.read_text())["momentum_ledger"] is None
    checked(page.read_text())


# ---- of a run

TITLES = [
    "Particles", "Density error [%]", "Time per step [ms]", "Mass [kg]", "Iterations per step",
    "Leaked particles", "Memory [MB]", "Momentum [kg m/s]",
]  # fmt: skip


def simulated(folder, **more):
    """A block of 64 particles, run and reported by the commands."""
    cube = {"box": {"min": [0, 0, 0], "max": [0.2, 0.2, 0.2]}}
    scene = {
        "name": "small",
        "frames": [1, 5],
        "fluid": [{"name": "water"}],
        "source": [{"name": "dam", "fluid": "water", "shape": cube, "spacing": 0.05,
                    "velocity": [1, 0, 0]}],
        **more,
    }  # fmt: skip
    (folder / "small.json").write_text(json.dumps(scene))
    out = str(folder / "cache")
    assert main(["run", str(folder / "small.json"), "--out", out, "--quiet"]) == 0
    assert main(["report", out]) == 0
    return folder / "cache"


@pytest.fixture(scope="module")
def tank(tmp_path_factory):
    hollow = {"box": {"min": [0, 0, 0], "max": [0.4, 0.2, 0.4]}}
    folder = tmp_path_factory.mktemp("report")
    return simulated(folder, collider=[{"name": "tank", "mode": "inside", "shape": hollow}])


def test_the_page_of_a_run_has_all_plots_and_the_settings(tank):
    text = (tank / "report.html").read_text()
    checked(text)
    sections = re.findall("<section><h2>(.*?)</h2><svg.*?</svg>", text, re.DOTALL)
    assert sections == TITLES
    settings = re.search("<summary>Settings</summary><pre>(.*?)</pre>", text, re.DOTALL)[1]
    assert json.loads(html.unescape(settings)) == Cache.open(tank).scene
    assert json.loads(html.unescape(settings))["source"][0]["spacing"] == 0.05
    for words in ("<th>source dam</th><td>8</td>", "<th>at frame 5</th>", "the rest: walls"):
        assert words in text


def test_momentum_of_a_block_that_falls_is_that_of_gravity(tmp_path):
    """Nothing else is there, so nothing is left over."""
    folder = simulated(tmp_path)
    books = json.loads((folder / "report.json").read_text())["momentum_ledger"]
    assert books["others"] == []
    assert books["start"] == pytest.approx([8, 0, 0])
    assert books["gravity"] == pytest.approx([0, 0, -8 * 9.81 * 4 / 24], rel=1e-5)
    np.testing.assert_allclose(books["rest"], 0, atol=1e-4 * 13)
    assert "the rest: nothing explains it" in (folder / "report.html").read_text()


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
def test_chromium_shows_the_page_of_a_run(tank, tmp_path):
    _, dom, console = visit(tank / "report.html", tmp_path)
    assert console == []
    assert re.findall("<h2>(.*?)</h2><svg", dom) == TITLES
    assert dom.count('<img src="data:image/png') == 1


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
