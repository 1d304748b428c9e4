"""What a mesh's surface does: friction from a picture, curved walls without gap or drag."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import cKDTree

import runnel
from runnel.colliders import Solids
from runnel.meshes import Mesh
from tests.unit.field_meshes import sphere

from .test_mesh_colliders import depths, scene, write

SLOPE = np.radians(30.0)


@pytest.mark.parametrize("device", ["auto", "reference"])
def test_two_zones_of_friction_on_one_plate(device: str) -> None:
    """P004 figure 11: on the smooth zone a block falls as free of friction, s = g sin(a) t^2 / 2;
    on the rough one, mu = 3 against tan(a) = 0.58, its lowest layer stays, though syrup sags."""
    it = runnel.example("friction_plate").with_overrides(
        ["source.smooth.spacing=0.025", "source.rough.spacing=0.025", "fps=48"]
    )
    with runnel.Simulation(it, device, timed=False) as sim:
        start, left = sim.particles["position"], sim.particles["position"][:, 1] < 0
        order = np.argsort(sim.particles["id"])
        sim.advance(18)
        now, time = sim.particles["position"], sim.time
        assert sim.particles.count == len(start)
        moved = now[np.argsort(sim.particles["id"])] - start[order]
    along = moved @ [np.cos(SLOPE), 0, -np.sin(SLOPE)]
    expected = 9.81 * np.sin(SLOPE) * time**2 / 2
    assert expected > 0.3
    assert along[left[order]].mean() == pytest.approx(expected, rel=0.05)
    rough, height = (
        ~left[order],
        (start[order] - [-0.35, 0, 0.22]) @ [np.sin(SLOPE), 0, np.cos(SLOPE)],
    )
    lowest = rough & (height < height.min() + 0.5 * 0.025)
    assert lowest.sum() >= 50
    assert np.abs(along[lowest]).max() < 0.03 * expected  # 1.7 %: the way down to the plate
    assert along[rough].mean() < 0.2 * expected


def test_no_gap_at_a_curved_wall(tmp_path: Path) -> None:
    """Around a ball in a resting tank: no place of its surface is farther from the fluid than at a
    flat wall of a lattice (0.87 d) and half a spacing more, and the first layer is at contact."""
    d, size, wall = 0.05, 6, 0.5
    write(tmp_path / "ball.obj", sphere(size * d, 48))
    it = scene(
        tmp_path, d, {"shape": {"box": {"min": [-wall] * 3, "max": [wall] * 3}}},
        [{"name": "ball", "shape": {"mesh": "ball.obj"}},
         {"name": "tank", "mode": "inside",
          "shape": {"box": {"min": [-wall] * 3, "max": [wall, wall, 1.5]}}}],
    )  # fmt: skip
    with runnel.Simulation(it, timed=False) as sim:
        arrays, meta = sim.state()
        out = np.linalg.norm(arrays["position"], axis=1) > (size + 0.5) * d
        sim.restore({k: v[out] if len(v) == len(out) else v for k, v in arrays.items()}, meta)
        sim.advance(50)
        x = sim.particles["position"]
        deepest = depths(it, sim).min()
    rng = np.random.default_rng(1)
    points = rng.normal(size=(4000, 3))
    points *= size * d / np.linalg.norm(points, axis=1)[:, None]
    away = cKDTree(x).query(points)[0] / d
    assert away.max() < 0.87 + 0.5
    off = np.linalg.norm(x, axis=1) / d - size
    assert deepest > 0
    assert np.median(off[off < 1.0]) == pytest.approx(0.5, abs=0.1)
    # The fluid within 1.5 spacings is as much as fits there.
    full = 4 / 3 * np.pi * ((size + 1.5) ** 3 - size**3)
    assert np.count_nonzero(off < 1.5) == pytest.approx(full, rel=0.12)


def cap(radius: float, below: float) -> float:
    """Volume of a ball under the plane z = -below."""
    depth = radius - below
    return np.pi * depth**2 * (3 * radius - depth) / 3


def test_no_gap_in_a_bowl(tmp_path: Path) -> None:
    """The same in a hollow: water at rest in a ball half full, well under its surface."""
    d, size = 0.05, 8
    write(tmp_path / "bowl.obj", sphere(size * d, 48))
    it = scene(
        tmp_path, d, {"shape": {"sphere": {"center": [0, 0, 0], "radius": size * d}}},
        [{"name": "bowl", "mode": "inside", "shape": {"mesh": "bowl.obj"}}],
    )  # fmt: skip
    with runnel.Simulation(it, timed=False) as sim:
        arrays, meta = sim.state()
        low = arrays["position"][:, 2] < 0
        sim.restore({k: v[low] if len(v) == len(low) else v for k, v in arrays.items()}, meta)
        report = sim.advance(151)
        x, v = sim.particles["position"], sim.particles["velocity"]
        assert depths(it, sim).min() > 0
    assert report.density_error_avg < 0.02
    assert np.sqrt((v.astype(float) ** 2).sum(axis=1).mean()) < 0.04 * np.sqrt(9.81 * size * d)
    rng = np.random.default_rng(1)
    points = rng.normal(size=(8000, 3))
    points *= size * d / np.linalg.norm(points, axis=1)[:, None]
    under = 0.3 * size
    away = cKDTree(x).query(points[points[:, 2] < -under * d])[0] / d
    assert away.max() < 0.87 + 0.5
    off = size - np.linalg.norm(x, axis=1) / d
    assert np.median(off[off < 1.0]) == pytest.approx(0.5, abs=0.1)
    for layers in (1, 2):  # whole ones: in between, a count tells how sharp layers are
        full = cap(size, under) - cap(size - layers, under)
        inside = (off < layers) & (x[:, 2] < -under * d)
        assert np.count_nonzero(inside) == pytest.approx(full, rel=0.05)


def test_no_layer_sticks_to_a_curved_wall(tmp_path: Path) -> None:
    """A plug of fluid in a pipe without friction and gravity keeps its speed at the wall too."""
    d, radius = 0.05, 0.3
    a = 2 * np.pi * np.arange(40) / 40
    rim = np.stack([0 * a, radius * np.cos(a), radius * np.sin(a)], axis=1)
    ends = np.array([[-1.0, 0, 0], [2.0, 0, 0]])
    vertices = np.concatenate([rim + ends[0], rim + ends[1], ends])
    i, j = np.arange(40), (np.arange(40) + 1) % 40
    quads = [[i, j, j + 40], [i, j + 40, i + 40], [j, i, 0 * i + 80], [i + 40, j + 40, 0 * i + 81]]
    triangles = np.concatenate([np.stack(t, axis=1) for t in quads]).astype(np.int32)
    write(tmp_path / "pipe.obj", Mesh(vertices, triangles))
    it = scene(
        tmp_path, d,
        {"shape": {"cylinder": {"start": [-0.3, 0, 0], "end": [0.3, 0, 0], "radius": radius}},
         "velocity": [1, 0, 0]},
        [{"name": "pipe", "mode": "inside", "shape": {"mesh": "pipe.obj"}}],
        solver={"gravity": [0, 0, 0]},
    )  # fmt: skip
    with runnel.Simulation(it, timed=False) as sim:
        sim.advance(36)
        x, v = sim.particles["position"], sim.particles["velocity"]
    middle = abs(x[:, 0] - np.median(x[:, 0])) < 0.2
    at_wall = middle & (np.hypot(x[:, 1], x[:, 2]) > radius - d)
    assert at_wall.sum() > 100
    assert v[at_wall, 0].mean() == pytest.approx(1.0, abs=0.05)
    assert v[middle & ~at_wall, 0].mean() == pytest.approx(1.0, abs=0.05)


def test_one_mesh_many_colliders(tmp_path: Path) -> None:
    """Rasterised once, placed by each one's own transform; all hold at once."""
    write(tmp_path / "ball.obj", sphere(0.2, 24))
    places = [[-0.3, 0, 0.1], [0.3, 0.1, 0.0], [0.0, -0.3, 0.2]]
    balls = [
        {"name": f"ball{i}", "shape": {"mesh": "ball.obj"}, "position": place,
         "rotation": [20 * i, 30, -50 * i]} for i, place in enumerate(places)
    ]  # fmt: skip
    tank = {"name": "tank", "mode": "inside",
            "shape": {"box": {"min": [-0.6, -0.6, -0.4], "max": [0.6, 0.6, 1.2]}}}  # fmt: skip
    it = scene(
        tmp_path, 0.06, {"shape": {"box": {"min": [-0.6, -0.6, 0.5], "max": [0.6, 0.6, 0.9]}}},
        [*balls, tank],
    )  # fmt: skip
    assert len(Solids(it).fields) == 1
    with runnel.Simulation(it, timed=False) as sim:
        for _ in range(5):
            sim.advance(sim.frame + 10)
            for place in places:
                off = np.linalg.norm(sim.particles["position"] - np.array(place), axis=1)
                assert off.min() > 0.2 + 0.3 * 0.06
