"""A frame change of many particles in Blender: reading the cache, filling attributes, evaluation.

    python benchmarks/blender.py [--particles 500000] [--frames 6]

Times `scene.frame_set` from one cached frame to another with playback on, the median of all. Runs
in this Python's bpy and in those of .venv-blender-* (`make test-blender-all` makes them).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--particles", type=int, default=500_000)
    parser.add_argument("--frames", type=int, default=6)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        measure(Path(chosen.inside), chosen.frames)
    pythons = [Path(sys.executable), *sorted(ROOT.glob(".venv-blender-*/bin/python"))]
    with tempfile.TemporaryDirectory() as folder:
        write_cache(Path(folder), chosen.particles, chosen.frames)
        print(f"{chosen.particles} particles, four channels; ms per frame change (median)")
        for python in pythons:
            command = [str(python), __file__, "--inside", folder, "--frames", str(chosen.frames)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
            print(lines[-1] if lines else f"{python}: {done.stderr[-400:]}")
    return 0


def write_cache(folder: Path, particles: int, frames: int) -> None:
    """Particles that drift, in the channels an artist would load."""
    sys.path.insert(0, str(ROOT / "core"))
    from runnel.cache import Cache

    rng = np.random.default_rng(1)
    scene = {"name": "bench", "fps": 24, "frames": [1, frames], "fluid": [{"name": "water"}]}
    cache = Cache.create(folder, scene, fps=24.0)
    position = rng.random((particles, 3), np.float32)
    velocity = rng.standard_normal((particles, 3), np.float32)
    for number in range(1, frames + 1):
        cache.write(number, {
            "position": position + velocity * np.float32(number / 24),
            "velocity": velocity,
            "radius": np.full(particles, 0.004, np.float32),
            "density": rng.random(particles, np.float32),
        })  # fmt: skip


def measure(folder: Path, frames: int) -> None:
    """In Blender: show the cache and go through its frames; prints one line of JSON."""
    sys.path[:0] = [str(ROOT), str(ROOT / "core")]
    import bpy

    bpy.ops.wm.read_factory_settings(use_empty=True)
    from blender_addon.deliver import frames as caches
    from blender_addon.deliver import playback
    from tests.blender import host

    host.register()
    scene, shown = bpy.context.scene, host.add(folder)
    playback.show(shown, scene)
    spent = {"frame change": [], "of it reading": [], "of it filling": []}
    for number in [*range(1, frames + 1)] * 4:
        start = time.perf_counter()
        scene.frame_set(number)
        spent["frame change"].append(1e3 * (time.perf_counter() - start))
        start = time.perf_counter()
        caches.read(caches.open_cache(folder), number, None)
        spent["of it reading"].append(1e3 * (time.perf_counter() - start))
        start = time.perf_counter()
        playback.refresh(scene, anew=True)
        filled = 1e3 * (time.perf_counter() - start) - spent["of it reading"][-1]
        spent["of it filling"].append(filled)
    result = {name: round(median(times[frames:]), 1) for name, times in spent.items()}
    print(
        json.dumps({"blender": bpy.app.version_string, **result, "message": shown.display.message})
    )
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
