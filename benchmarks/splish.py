"""SPlisHSPlasH: an environment of its own, and runs in it."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT, Row, Setup, say

GRACE = 120.0  # [s] for its start, and steps that it does not end
VENV = ROOT / ".venv-peers"

# The peer's wheel bundles copies of these that crash on import beside the system's drivers.
GL_LIBRARIES = ("libGLX", "libGLdispatch", "libOpenGL")
LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib")


class Skipped(Exception):
    """The peer cannot run here; the message says what to do."""


def prepare(folder: Path) -> Path:
    """Makes the peer's environment if need be; returns its Python."""
    python = folder.resolve() / "bin" / "python"
    if sys.platform != "linux":
        raise Skipped("the peer's environment is only made on Linux")
    if not (folder / ".ready").exists():
        say(f"installing SPlisHSPlasH into {folder} ...")
        venv.create(folder, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        if subprocess.run([*install, "pysplishsplash", "numpy"], check=False).returncode:
            raise Skipped("pysplishsplash could not be installed")
        mend_libraries(folder)
        (folder / ".ready").touch()
    if subprocess.run([python, "-c", "import pysplishsplash"], check=False).returncode:
        raise Skipped(f"pysplishsplash cannot be imported; delete {folder} to install it anew")
    return python


def mend_libraries(folder: Path) -> None:
    """Puts links to the system's libraries in the place of the bundled copies."""
    for stem in GL_LIBRARIES:
        candidates = [Path(place, f"{stem}.so.0") for place in LIBRARY_FOLDERS]
        system = next((file for file in candidates if file.exists()), None)
        if system is None:
            raise Skipped(f"{stem} is missing: sudo apt-get install libglvnd0 libglx0 libopengl0")
        for bundled in folder.glob(f"lib/python*/site-packages/pysplishsplash.libs/{stem}-*"):
            bundled.unlink()
            bundled.symlink_to(system)


def run(python: Path, setup: Setup, settings: Row, work: Path) -> dict[str, Any]:
    """One run with settings as in splish_run.py; what it wrote, by name."""
    defaults: Row = {"time_step": None, "iterations": None, "tolerance": None, "looks": []}
    limits = {"cfl": 1.0, "max_time_step": 0.005, "steps": 10**9, "wall": 3600.0}
    spec = {**asdict(setup), **defaults, **limits, **settings}
    work.mkdir(parents=True, exist_ok=True)
    spec_file, result_file = work / "spec.json", work / "result.npz"
    spec_file.write_text(json.dumps(spec))
    result_file.unlink(missing_ok=True)
    script = Path(__file__).with_name("splish_run.py")
    command = [python, script, spec_file.resolve(), result_file.resolve()]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=spec["wall"] + GRACE
        )
    except subprocess.TimeoutExpired:
        raise Skipped("the peer hung") from None
    if done.returncode or not result_file.exists():
        raise Skipped(f"the peer failed:\n{done.stdout[-500:]}{done.stderr[-1500:]}")
    with np.load(result_file) as stored:
        result = dict(stored)
    if int(result["particles"]) != setup.particles:
        raise Skipped(f"the peer made {result['particles']} particles, not {setup.particles}")
    return result
