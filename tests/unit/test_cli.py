"""The commands: what they print, what they leave, and their exit status."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import runnel
from runnel.cache import Cache
from runnel.cli import main, make_parser
from runnel.params import Solver
from runnel.scene import Scene, example_names
from runnel.spec import specs

SMALL = "source.dam.spacing=0.125"  # 512 particles
CORE = Path(runnel.__file__).parents[1]


def write_scene(folder: Path, **more: Any) -> Path:
    box = {"box": {"min": [0, 0, 0], "max": [0.25, 0.25, 0.25]}}
    hollow = {"box": {"min": [0, 0, 0], "max": [0.5, 0.25, 0.5]}}
    data = {
        "name": "small",
        "frames": [1, 8],
        "fluid": [{"name": "water"}],
        "source": [{"name": "dam", "fluid": "water", "shape": box, "spacing": 0.05}],
        "collider": [{"name": "tank", "mode": "inside", "shape": hollow}],
        **more,
    }
    path = folder / "small.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of eight frames."""
    folder = tmp_path_factory.mktemp("cli")
    path = write_scene(folder)
    assert main(["run", str(path), "--out", str(folder / "cache"), "--quiet"]) == 0
    return folder / "cache"


# --- run ------------------------------------------------------------------------------------------


def test_run_writes_a_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = write_scene(tmp_path), tmp_path / "cache"
    assert main(["run", str(path), "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert "8 frames (1-8)" in shown.out
    for word in ("frame 8/8", "125 particles", "ms/step", "density error", "left"):
        assert word in shown.err
    cache = Cache.open(out)
    assert cache.frames() == list(range(1, 9))
    assert cache.verify(finite=True) == []
    assert set(cache.channels) == {"position", "velocity", "radius", "density", "phase", "id"}
    first = cache.read(1)["position"]
    corner = (np.indices((5, 5, 5)).reshape(3, -1).T + 0.5) * 0.05
    np.testing.assert_allclose(first, corner, atol=1e-6)
    report = cache.entry(8).report
    assert report["particles"] == 125
    assert report["milliseconds"]["neighbors"] > 0


def test_run_agrees_with_the_python_interface(tmp_path: Path, cache_dir: Path) -> None:
    with runnel.Simulation(Scene.load(write_scene(tmp_path))) as sim:
        sim.advance(8)
        stored = Cache.open(cache_dir).read(8)
        for name, values in stored.items():
            np.testing.assert_array_equal(sim.particles[name], values, err_msg=name)


def test_run_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = write_scene(tmp_path), str(tmp_path / "cache")
    assert main(["run", str(path), "--out", out, "--json", "--frames", "1-3"]) == 0
    shown = capsys.readouterr()
    summary = json.loads(shown.out)
    assert summary["done"] is True
    assert summary["frames"] == [1, 2, 3]
    assert summary["particles"] == 125
    events = [json.loads(line) for line in shown.err.splitlines()]
    assert [event["frame"] for event in events if event["event"] == "frame"] == [2, 3]
    assert {event["event"] for event in events} <= {"stage", "step", "frame"}


def test_quiet_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = write_scene(tmp_path), str(tmp_path / "cache")
    assert main(["run", str(path), "--out", out, "--quiet", "--frames", "1-2"]) == 0
    shown = capsys.readouterr()
    assert shown.out == shown.err == ""


def test_shipped_scenes_run_by_name(tmp_path: Path) -> None:
    out = tmp_path / "cache"
    command = ["run", "dam_break", "--out", str(out), "--set", SMALL, "--frames", "1-3", "--quiet"]
    assert main(command) == 0
    cache = Cache.open(out)
    assert cache.entry(3).count == 512
    assert cache.scene["source"][0]["spacing"] == 0.125


def test_frames_choose_what_is_written(tmp_path: Path, cache_dir: Path) -> None:
    path, out = write_scene(tmp_path), tmp_path / "cache"
    assert main(["run", str(path), "--out", str(out), "--frames", "3-5", "--quiet"]) == 0
    cache = Cache.open(out)
    assert cache.frames() == [3, 4, 5]
    same = Cache.open(cache_dir).read(5)["position"]
    np.testing.assert_array_equal(cache.read(5)["position"], same)


def test_solver_flags_are_those_of_the_scene(tmp_path: Path) -> None:
    path, out = write_scene(tmp_path), tmp_path / "cache"
    flags = ["--time-step", "0.01", "--iterations", "5", "5", "--gravity", "0", "0", "-1"]
    command = ["run", str(path), "--out", str(out), "--frames", "1-2", "--quiet", *flags]
    assert main(command) == 0
    cache = Cache.open(out)
    solver = cache.scene["solver"]
    assert (solver["time_step"], solver["iterations"]) == (0.01, [5, 5])
    assert solver["gravity"] == [0, 0, -1]
    assert cache.entry(2).report["iterations"] == 5
    assert cache.entry(2).report["steps"] == 5
    help_text = _help("run")
    for spec in specs(Solver):
        assert spec.flag in help_text


def _help(command: str) -> str:
    actions = make_parser()._subparsers
    assert actions is not None
    choices: Any = actions._group_actions[0].choices
    text: str = choices[command].format_help()
    return text


def test_channels_are_those_asked_for(tmp_path: Path) -> None:
    names = ["position", "vorticity", "pressure", "age", "mass"]
    path = write_scene(tmp_path, output={"channels": names})
    out = tmp_path / "cache"
    assert main(["run", str(path), "--out", str(out), "--frames", "1-3", "--quiet"]) == 0
    arrays = Cache.open(out).read(3)
    assert set(arrays) == set(names)
    assert arrays["vorticity"].shape == (125, 3)
    assert arrays["pressure"].max() > 0


# --- going on -------------------------------------------------------------------------------------


def test_resume_goes_on_where_a_run_ended(tmp_path: Path, cache_dir: Path) -> None:
    path, out = write_scene(tmp_path), tmp_path / "cache"
    command = ["run", str(path), "--out", str(out), "--quiet", "--resume"]
    assert main([*command, "--frames", "1-4"]) == 0
    assert Cache.open(out).checkpoints() == [1, 4]
    assert main(command) == 0
    cache, whole = Cache.open(out), Cache.open(cache_dir)
    assert cache.frames() == list(range(1, 9))
    for frame in cache.frames():
        for name, values in whole.read(frame).items():
            np.testing.assert_array_equal(cache.read(frame)[name], values)
    assert main(command) == 0  # nothing is left to do


def test_resume_without_a_checkpoint_starts_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = write_scene(tmp_path), tmp_path / "cache"
    command = ["run", str(path), "--out", str(out), "--checkpoint", "0", "--frames", "1-3"]
    assert main(command) == 0
    assert Cache.open(out).checkpoints() == []
    assert main([*command, "--resume"]) == 0
    assert "no checkpoint" in capsys.readouterr().err
    assert Cache.open(out).frames() == [1, 2, 3]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_a_cache_to_go_on_from(tmp_path: Path, number: signal.Signals) -> None:
    """Also in the middle of a frame; the frames are those of a run that was left alone."""
    path, out = write_scene(tmp_path, frames=[1, 60]), tmp_path / "cache"
    steps = ["--time-step", "0.0005", "--checkpoint", "0"]
    command = ["run", str(path), "--out", str(out), "--quiet", *steps]
    environment = {**os.environ, "PYTHONPATH": str(CORE)}
    process = subprocess.Popen(
        [sys.executable, "-m", "runnel", *command],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    _wait_for_frame(out / "frames" / "frame_000003.npz", process)
    process.send_signal(number)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130, complaint
    assert "--resume" in complaint
    cache = Cache.open(out)
    last = cache.last_frame
    assert last is not None
    assert 3 <= last < 60
    assert cache.verify(finite=True) == []
    assert cache.checkpoints() == [last]
    assert main([*command, "--resume", "--frames", f"1-{last + 1}"]) == 0
    assert Cache.open(out).frames() == list(range(1, last + 2))
    other = tmp_path / "other"
    alone = ["run", str(path), "--out", str(other), "--quiet", *steps]
    assert main([*alone, "--frames", f"1-{last + 1}"]) == 0
    for name, values in Cache.open(other).read(last + 1).items():
        np.testing.assert_array_equal(Cache.open(out).read(last + 1)[name], values)


def _wait_for_frame(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not path.exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_cache_of_another_scene_is_not_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = write_scene(tmp_path), tmp_path / "cache"
    command = ["run", str(path), "--out", str(out), "--quiet", "--frames", "1-2"]
    assert main(command) == 0
    other = [*command, "--set", "fluid.water.density=900"]
    assert main(other) == 1
    assert "another scene" in capsys.readouterr().err
    assert Cache.open(out).frames() == [1, 2]
    assert main([*other, "--overwrite"]) == 0
    assert Cache.open(out).scene["fluid"][0]["density"] == 900


# --- wrong input ----------------------------------------------------------------------------------

WRONG: dict[str, tuple[list[str], list[str]]] = {
    "no such scene": (["run", "dam_brake", "--out", "o"], ["dam_brake", "shipped"]),
    "no such file": (["run", "nowhere.toml", "--out", "o"], ["nowhere.toml", "no such file"]),
    "unknown key": (
        ["run", "dam_break", "--out", "o", "--set", "solver.tolerence=1"],
        ["dam_break", "solver.tolerence", "Did you mean tolerance"],
    ),
    "out of range": (
        ["check", "dam_break", "--set", "solver.tolerance=7"],
        ["solver.tolerance = 7", "between 1e-6 and 1"],
    ),
    "not a number": (["check", "dam_break", "--tolerance", "nan"], ["solver.tolerance", "finite"]),
    "not an override": (["check", "dam_break", "--set", "tolerance"], ["key.path=value"]),
    "bad flag value": (["check", "dam_break", "--kernel", "top-hat"], ["solver.kernel", "poly6"]),
    "frames": (["run", "dam_break", "--out", "o", "--frames", "abc"], ["--frames", "A-B"]),
    "frames backwards": (["run", "dam_break", "--out", "o", "--frames", "9-3"], ["--frames"]),
    "frames too early": (
        ["run", "dam_break", "--out", "o", "--frames", "0-3"],
        ["--frames", "starts at frame 1"],
    ),
    "checkpoints": (["run", "dam_break", "--out", "o", "--checkpoint", "-1"], ["--checkpoint"]),
    "memory limit": (["run", "dam_break", "--out", "o", "--memory-limit", "-1"], ["above 0"]),
    "channel": (
        ["run", "dam_break", "--out", "o", "--set", 'output.channels=["position", "colour"]'],
        ["output.channels[1]", "colour", "vorticity"],
    ),
    "bench": (["bench", "--steps", "0"], ["--steps", "at least 1"]),
    "bench scene": (["bench", "nothing"], ["nothing"]),
    "shipped scene": (["scenes", "dam_brake"], ["dam_brake", "dam_break"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_named_in_one_line(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command, words = WRONG[case]
    assert main(command) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    for word in words:
        assert word in shown.err
    assert list(tmp_path.iterdir()) == []  # nothing was begun


@pytest.mark.parametrize(
    "command", [[], ["fly"], ["run"], ["run", "dam_break"], ["bench", "--steps", "many"]]
)
def test_wrong_usage(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 2
    assert "usage: runnel" in capsys.readouterr().err


def test_scene_files_are_blamed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_scene(tmp_path, sauce=[])
    assert main(["check", str(path)]) == 2
    complaint = capsys.readouterr().err
    assert str(path) in complaint
    assert "sauce" in complaint
    assert "source" in complaint
    assert "Traceback" not in complaint


FAILING: dict[str, tuple[list[str], str]] = {
    "no cache": (["info", "nowhere"], "no Runnel cache"),
    "no preview": (["preview", "nowhere"], "no Runnel cache"),
    "no mesh": (["mesh", "nowhere"], "no Runnel cache"),
    "no report": (["report", "nowhere"], "no Runnel cache"),
    "no device": (["run", "dam_break", "--out", "o", "--device", "abacus"], "abacus"),
    "too large": (["run", "dam_break", "--out", "o", "--memory-limit", "0.001"], "memory-limit"),
}


@pytest.mark.parametrize("case", FAILING)
def test_failures_end_with_status_1(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command, words = FAILING[case]
    assert main(command) == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith("runnel: ")
    assert words in complaint
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    path = write_scene(tmp_path)
    assert main(["run", str(path), "--out", str(tmp_path / "file" / "cache"), "--quiet"]) == 1
    assert "file" in capsys.readouterr().err


def test_an_exploding_scene_stops_with_the_last_good_frame(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A force that grows without bound: nothing that is not a number reaches the disk."""
    push = {"kind": "drag", "strength": -1e6, "frames": [3, 8]}
    path, out = write_scene(tmp_path, force=[push], collider=[]), tmp_path / "cache"
    command = ["run", str(path), "--out", str(out), "--quiet", "--time-step", "0.04"]
    assert main(command) == 1
    assert "frame " in capsys.readouterr().err
    cache = Cache.open(out)
    last = cache.last_frame
    assert last is not None
    assert 3 <= last < 8
    assert cache.verify(finite=True) == []


# --- looking --------------------------------------------------------------------------------------


def test_check_estimates(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "dam_break"]) == 0
    shown = capsys.readouterr().out
    for word in ("valid", "29791", "memory", "steps", "per frame"):
        assert word in shown
    assert main(["check", "dam_break", "--json", "--set", SMALL]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["particles"] == 512
    assert facts["warnings"] == []
    assert facts["seconds_per_frame"] > 0


def test_check_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    post = {"name": "post", "shape": {"box": {"min": [0, 0, 0], "max": [0.1, 1, 1]}}}
    assert main(["check", str(write_scene(tmp_path, collider=[post]))]) == 0
    assert "warning: source[0] 'dam'" in capsys.readouterr().out


def test_check_warns_of_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the folder that is named, though it is not there yet, or of the current one."""
    asked, free = [], 1000

    def usage(path: Path) -> Any:
        asked.append(Path(path))
        return SimpleNamespace(free=free)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    monkeypatch.chdir(tmp_path)
    command = ["check", str(write_scene(tmp_path))]
    out = tmp_path / "new" / "shot"
    for flags, folder in (([], tmp_path), (["--out", str(out)], out)):
        assert main([*command, *flags]) == 0
        shown = capsys.readouterr().out
        disk = next(line.split(None, 1)[1] for line in shown.splitlines() if "disk  " in line)
        assert (
            f"warning: the cache may need {disk} of disk, and 1000 B are free in {folder}" in shown
        )
    assert asked == [tmp_path, tmp_path]
    assert main([*command, "--json", "--out", str(out)]) == 0
    assert "1000 B" in json.loads(capsys.readouterr().out)["warnings"][0]
    assert main([*command, "--json"]) == 0  # of a host, from anywhere
    assert json.loads(capsys.readouterr().out)["warnings"] == []
    free = 10**11
    assert main([*command, "--out", str(out)]) == 0
    assert "warning" not in capsys.readouterr().out


def test_info_lists_frames(cache_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(cache_dir)]) == 0
    shown = capsys.readouterr().out
    assert "as written" in shown
    assert "8 frames" in shown
    assert len([line for line in shown.splitlines() if "%" in line]) == 8
    assert main(["info", str(cache_dir), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [frame["frame"] for frame in facts["frames"]] == list(range(1, 9))
    assert facts["verified"] is True
    assert main(["info", str(cache_dir), "--json", "--quick"]) == 0
    assert json.loads(capsys.readouterr().out)["verified"] is False
    assert main(["info", str(cache_dir), "--quick"]) == 0
    assert "as written" not in capsys.readouterr().out
    assert main(["info", str(cache_dir), "--quick", "--verify"]) == 2


def test_info_reports_damage(
    tmp_path: Path, cache_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(cache_dir, copy)
    frame = Cache.open(copy).frame_path(4)
    raw = bytearray(frame.read_bytes())
    raw[len(raw) // 2] ^= 1
    frame.write_bytes(raw)
    assert main(["info", str(copy), "--quick"]) == 0  # looks at sizes only
    capsys.readouterr()
    for flags, content in (([], raw), (["--verify"], raw), (["--quick"], raw[:-40])):
        frame.write_bytes(content)
        assert main(["info", str(copy), *flags]) == 1
        assert "frame_000004" in capsys.readouterr().err


def test_devices_marks_the_one_that_is_picked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices"]) == 0
    shown = capsys.readouterr().out
    assert "reference" in shown
    assert len([line for line in shown.splitlines() if line.startswith("* ")]) == 2
    assert main(["devices", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    picked = [device["name"] for device in facts["devices"] if device["auto"]]
    assert picked == [facts["auto"]] or facts["auto"] == "reference"


def test_scenes_are_listed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenes"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == example_names()
    assert all(len(line.split()) > 3 for line in lines)  # each says what it shows
    folder = tmp_path / "mine"
    assert main(["scenes", "--write", str(folder), "dam_break", "fountain"]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["dam_break.toml", "fountain.toml"]
    assert Scene.load(folder / "dam_break.toml") == runnel.example("dam_break")
    assert main(["scenes", "--write", str(folder), "dam_break"]) == 2
    assert "--force" in capsys.readouterr().err
    assert main(["scenes", "--write", str(folder), "dam_break", "--force"]) == 0


def test_schema_accepts_the_shipped_scenes(capsys: pytest.CaptureFixture[str]) -> None:
    import jsonschema

    assert main(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.validate(runnel.example("dam_break").to_dict(), schema)


# --- made from a cache ----------------------------------------------------------------------------


def test_preview(cache_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = ["--width", "64", "--height", "48", "--quality", "1", "--movie", "none", "--no-labels"]
    out = tmp_path / "pictures"
    command = ["preview", str(cache_dir), "--out", str(out), "--frames", "2-3", "--json", *size]
    assert main(command) == 0
    files = [Path(file) for file in json.loads(capsys.readouterr().out)["files"]]
    assert {file.name for file in files} >= {"frame_000002.png", "frame_000003.png"}
    assert all(file.exists() for file in files)
    assert main(["preview", str(cache_dir), "--width", "3"]) == 2
    assert "preview.width = 3" in capsys.readouterr().err
    assert main(["preview", str(cache_dir), "--frames", "40-50"]) == 2
    assert "1 to 8" in capsys.readouterr().err


def test_mesh(cache_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "mesh"
    flags = ["--frames", "8", "--format", "obj", "--smoothing-rounds", "0"]
    assert main(["mesh", str(cache_dir), "--out", str(out), *flags]) == 0
    assert (out / "surface_000008.obj").exists()
    assert "surface_000008.obj" in capsys.readouterr().out
    assert main(["mesh", str(cache_dir), "--format", "stl"]) == 2


def test_report(cache_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(cache_dir), "--out", str(tmp_path)]) == 0
    assert "report.html" in capsys.readouterr().out
    numbers = json.loads((tmp_path / "report.json").read_text())
    assert numbers["totals"]["frames"] == 8


# --- bench ----------------------------------------------------------------------------------------


def test_bench_has_the_keys_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "--particles", "1000", "--iterations", "3", "--steps", "3", "--json"]
    assert main(command) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["particles"] == 1000
    assert result["iterations"] == 3
    assert result["steps"] == 3
    assert result["dt"] == pytest.approx(1 / 240)
    assert result["ms_per_step"] > 0
    assert {"predict", "neighbors", "pressure", "correction", "velocities"} <= set(result["stages"])
    assert result["density_error_avg"] >= 0
    assert result["bytes_per_particle"] > 0
    assert isinstance(result["device"], str)


def test_bench_of_a_named_scene(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "box_fluid_2d", "--particles", "500", "--steps", "2"]
    assert main(command) == 0
    assert "ms per step" in capsys.readouterr().out


# --- the program ----------------------------------------------------------------------------------


def test_python_m_runnel() -> None:
    environment = {**os.environ, "PYTHONPATH": str(CORE)}
    command = [sys.executable, "-m", "runnel", "--version"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("runnel ")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    environment = {**os.environ, "PYTHONPATH": str(CORE)}
    command = f"{sys.executable} -m runnel schema | head -c 10"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
