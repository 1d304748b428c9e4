"""The job template of the guide, checked and run by the reference tools of Open Job Description."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import runnel
from runnel.cache import Cache

CORE = Path(runnel.__file__).parents[1]
TEMPLATE = CORE.parent / "docs" / "guide" / "farm_job.yaml"
OPENJD = Path(sys.executable).with_name("openjd")


@pytest.mark.skipif(not OPENJD.exists(), reason="needs openjd-cli")
def test_a_job_simulates_and_hands_on(tmp_path: Path) -> None:
    """Three frames: simulated, then surfaces and files for Houdini by chunks."""
    box = {"box": {"min": [0, 0, 0], "max": [0.25, 0.25, 0.25]}}
    source = {"name": "dam", "fluid": "water", "shape": box, "spacing": 0.05}
    scene = {"name": "shot", "frames": [1, 3], "fluid": [{"name": "water"}], "source": [source]}
    (tmp_path / "shot.json").write_text(json.dumps(scene))
    values = {
        "Scene": tmp_path / "shot.json",
        "Cache": tmp_path / "cache",
        "Frames": "1-3",
        "Python": sys.executable,
    }
    words = [word for name, value in values.items() for word in ("-p", f"{name}={value}")]
    done = subprocess.run(
        [str(OPENJD), "run", str(TEMPLATE), *words],
        env={**os.environ, "PYTHONPATH": str(CORE)},
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    cache = Cache.open(tmp_path / "cache")
    assert cache.frames() == [1, 2, 3]
    assert cache.verify() == []
    assert len(list((tmp_path / "cache" / "mesh").glob("surface_*.ply"))) == 3
    assert len(list((tmp_path / "cache" / "export").glob("particles.*.bgeo"))) == 3
