"""Small caches to export."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from runnel.cache import Cache

SCENE = {
    "name": "shot",
    "up": "z",
    "fluid": [{"name": "water"}, {"name": "palm oil"}],
}


def channels(frame: int, count: int = 40) -> dict[str, np.ndarray]:
    """Channels of a frame; the number of particles grows with it."""
    count += frame
    random = np.random.default_rng(frame)
    return {
        "position": random.random((count, 3), dtype=np.float32),
        "velocity": random.normal(size=(count, 3)).astype(np.float32),
        "radius": np.full(count, 0.05, np.float32),
        "density": random.uniform(990, 1010, count).astype(np.float32),
        "phase": (np.arange(count) % 2).astype(np.uint32),
        "id": np.arange(count, dtype=np.uint32)[::-1].copy(),
        "age": random.random(count, dtype=np.float32),
        "color": random.random((count, 3), dtype=np.float32),
    }


def filled(folder: Path, frames: range = range(1, 4), **scene: object) -> Path:
    """A cache of a few frames."""
    cache = Cache.create(folder, {**SCENE, **scene}, fps=25.0)
    for frame in frames:
        report = {"time": (frame - 1) / 25, "steps": 4, "momentum": [1.0, 2.0, 3.0], "mass": 2.5}
        cache.write(frame, channels(frame), report)
    return folder
