"""Tests in real Blender: each file runs in a process of its own, which holds `bpy`.

The process that collects never imports bpy. At the first test of a file it starts a child under a
time limit; the child runs the file and hands its reports over. So a crash or a hang of Blender
fails the tests of one file, and the child leaves by os._exit (Blender 4.5 hangs at exit otherwise).
Test files import bpy inside of functions only, or take the fixture `bpy`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
INSIDE = "RUNNEL_TESTS_IN_BLENDER"  # set in the child: where it writes its reports
CACHES = "RUNNEL_TEST_CACHES"  # folder of caches that all files share
SECONDS = 480  # of one file
SCENES = Path(__file__).parent / "scenes"


# --- a process for each file ----------------------------------------------------------------------


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if INSIDE in os.environ or Path(__file__).parent not in item.path.parents:
        return None  # pytest asks for the tests of other folders too
    results = item.config.stash.setdefault(_RESULTS, {})
    if item.path not in results:
        results[item.path] = _run_file(item)
    reports, output = results[item.path]
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    mine = reports.get(item.nodeid, [])
    if not mine or mine[-1]["when"] != "teardown":  # it never came to its end
        mine = [*mine, _lost(item, output)]
    for data in mine:
        report = item.config.hook.pytest_report_from_serializable(config=item.config, data=data)
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


_RESULTS = pytest.StashKey[dict[Path, tuple[dict[str, list[Any]], str]]]()


def _run_file(item: pytest.Item) -> tuple[dict[str, list[Any]], str]:
    """Reports of the selected tests of a file by node id, and what the child printed."""
    if importlib.util.find_spec("bpy") is None:
        why = "no bpy in this Python: `make test` installs it (Python 3.11 or 3.13)"
        return {}, f"SKIP {why}"
    selected = [other.nodeid for other in item.session.items if other.path == item.path]
    folder = Path(item.config.stash[_FOLDER])
    file = folder / f"{item.path.stem}.json"
    env = {
        **os.environ,
        INSIDE: str(file),
        CACHES: str(folder / "caches"),
        "BLENDER_USER_RESOURCES": str(folder / f"{item.path.stem}-profile"),
    }
    env = {name: value for name, value in env.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += [f"--basetemp={folder / item.path.stem}", *selected]
    with open(folder / f"{item.path.stem}.log", "w+") as log:
        child = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            child.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # with the processes it started
            child.wait()
            log.write(f"\nstopped after {SECONDS} s\n")
        log.flush()
        log.seek(0)
        output = log.read()
    reports: dict[str, list[Any]] = {}
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            data = json.loads(line)
            reports.setdefault(data["nodeid"], []).append(data)
    return reports, output


_FOLDER = pytest.StashKey[str]()


def pytest_collection_finish(session: pytest.Session) -> None:
    if INSIDE not in os.environ and _FOLDER not in session.config.stash:
        session.config.stash[_FOLDER] = tempfile.mkdtemp(prefix="runnel-blender-")


def pytest_sessionfinish(session: pytest.Session) -> None:
    folder = session.config.stash.get(_FOLDER, None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _lost(item: pytest.Item, output: str) -> Any:
    """A report for a test the child never came to."""
    if output.startswith("SKIP "):
        where = (str(item.path), 0, f"Skipped: {output[5:]}")
        outcome, text = "skipped", where
    else:
        outcome, text = "failed", f"Blender's process ended before this test:\n{output[-6000:]}"
    report = pytest.TestReport(
        item.nodeid, item.location, dict.fromkeys(item.keywords, 1), outcome, text, "call"
    )  # type: ignore[arg-type]
    return item.config.hook.pytest_report_to_serializable(config=item.config, report=report)


# --- in the child ---------------------------------------------------------------------------------


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    target = os.environ.get(INSIDE)
    if target and _CONFIG:
        data = _CONFIG[0].hook.pytest_report_to_serializable(config=_CONFIG[0], report=report)
        with open(target, "a", encoding="utf-8") as file:
            file.write(json.dumps(data) + "\n")


_CONFIG: list[pytest.Config] = []


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config) -> None:
    if INSIDE in os.environ and not _CONFIG:
        _CONFIG.append(config)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    if INSIDE in os.environ:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


# --- fixtures -------------------------------------------------------------------------------------


@pytest.fixture
def bpy() -> Any:
    """Blender with an empty file."""
    import bpy

    bpy.ops.wm.read_factory_settings(use_empty=True)
    return bpy


@pytest.fixture
def addon(bpy: Any) -> Iterator[Any]:
    """The add-on from its sources, registered."""
    import blender_addon

    blender_addon.register()
    yield blender_addon
    blender_addon.unregister()


def bake(scene: str | Path, name: str, *extra: str) -> Path:
    """Folder of a cache simulated by the command line; made once for all files."""
    target = Path(os.environ.get(CACHES, "")) / name
    if not target.exists():
        aside = target.with_name(f".{name}-{os.getpid()}")
        runnel("run", str(scene), "--out", str(aside), "--quiet", *extra)
        try:
            aside.rename(target)
        except OSError:  # somebody else was quicker
            assert target.exists()
    return target


def runnel(*arguments: str) -> str:
    """Run the command line; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "runnel", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "core")},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def bare_packages(folder: Path) -> Path:
    """A folder of packages with Blender and numpy, as an installed Blender has them."""
    import numpy

    found, folder = Path(numpy.__file__).parents[1], folder / "site-packages"
    folder.mkdir(parents=True)
    for name in ("bpy", "numpy", "numpy.libs"):
        if (found / name).is_dir():
            (folder / name).symlink_to(found / name)
    return folder


@pytest.fixture(scope="session")
def splash() -> Path:
    """A small cache: honey falls into water, a tap runs; 14 frames."""
    return bake(SCENES / "splash.toml", "splash")


@pytest.fixture
def system(bpy: Any) -> Iterator[Any]:
    """A function that hangs a cache into the scene: `system(folder)` gives what playback shows."""
    from tests.blender import host

    host.register()
    yield host.add
    host.unregister()
