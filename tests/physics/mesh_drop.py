"""Water thrown at a mesh in a tank that is shaken: how deep it gets, and whether it gets through.

    python -m tests.physics.mesh_drop [--mode outside] [--spacing 0.0179] [--seconds 5] [NAME ...]

ORACLES 25 at full size: about 1e5 particles, 5 s, 2 h in a step at first. Without names, all meshes
of ../shared that the mode is for. Prints a line of JSON for each; from the root of the repository.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import runnel
from runnel.backends.base import FIELD
from runnel.collider_fields import MeshField
from runnel.fields.grid import SparseField
from runnel.meshes import Mesh, read_mesh

Floats = NDArray[np.float64]
Table = dict[str, Any]
MESHES = Path(__file__).resolve().parents[3] / "shared" / "validation" / "meshes"
CLOSED = (
    "7_8ths_cube.stl", "bad_cube.off", "bunny_closed_3k.off", "dragon_50k.obj",
    "joined_tetrahedra.obj", "nm_closed_cubes.off", "spot.obj", "torus.stl", "unit_sphere.stl",
    "utah_teapot.obj", "suzanne.obj", "stanford_bunny_holes.obj",
)  # fmt: skip
OPEN = ("open_cube.off", "u_sheet.off", "degenerated_sd.off", "soup.stl")
FPS = 50.0
FULL_SIZE = 0.0179  # spacing [m] of 99 000 particles
_SHAKES = (
    (0, 0, 0),
    (0.1, 0, 0),
    (-0.1, 0.1, 0),
    (0.1, -0.1, 0.1),
    (-0.1, 0, -0.1),
)  # of the tank [m]
_BETWEEN = 20  # frames from one to the next


def write(path: Path, mesh: Mesh) -> None:
    lines = [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in mesh.vertices]
    lines += [f"f {a} {b} {c}" for a, b, c in mesh.triangles + 1]
    path.write_text("\n".join(lines) + "\n")


def fitted(name: str, size: float) -> Mesh:
    """A mesh of ../shared, its longest side `size`, its middle at the origin."""
    mesh = read_mesh(MESHES / name)
    low, high = mesh.bounds
    return Mesh((mesh.vertices - (low + high) / 2) * (size / (high - low).max()), mesh.triangles)


def scene(
    folder: Path,
    spacing: float,
    source: dict[str, Any],
    colliders: list[dict[str, Any]],
    **keys: Any,
) -> runnel.Scene:
    table = {
        "fps": FPS, "frames": [1, 1000], "fluid": [{"name": "water"}],
        "source": [{"fluid": "water", "spacing": spacing, **source}], "collider": colliders, **keys,
    }  # fmt: skip
    return runnel.Scene.from_dict(table, folder)


def depths(it: runnel.Scene, sim: runnel.Simulation, index: int = 0) -> Floats:
    """Distances of the particles from collider `index`, in voxels of it."""
    collider = it.colliders[index]
    field, later, share = MeshField(it, collider, collider.shape, "c").at(sim.time)
    row = sim._solids.rows(sim.time, 0.0)[index]
    assert row[0] == FIELD
    local = (sim.particles["position"] - row[17:20]) @ row[8:17].reshape(3, 3).T / row[5]
    mixed = (1 - share) * field.distance(local) + share * later.distance(local)
    return np.asarray(mixed / field.voxel)


@dataclass
class Found:
    particles: int
    deepest: float  # least distance after a step [voxels]; below 0 in the solid
    on_the_way: float  # and on the straight ways from step to step
    passed: int  # ways of a step that lead through the surface
    at_rims: int  # those no farther from a rim than they are long: they may lead around it
    steps: int
    farthest: float  # longest way in a step [h]
    finite: bool


def drop_scene(folder: Path, mesh: Mesh, mode: str, spacing: float, seconds: float) -> runnel.Scene:
    write(folder / "mesh.obj", mesh)
    frames = range(1, 2 + round(seconds * FPS) + _BETWEEN, _BETWEEN)
    shaken = [{"frame": f, "position": _SHAKES[n % len(_SHAKES)]} for n, f in enumerate(frames)]
    # In a step of 1/50 s, 11 m/s are 2 h at a spacing of 0.05 m.
    return scene(
        folder, spacing,
        {"shape": {"box": {"min": [-0.6, -0.6, 0.55], "max": [0.6, 0.6, 0.95]}},
         "velocity": [0, 0, -4.4 * spacing * FPS]},
        [{"name": "it", "shape": {"mesh": "mesh.obj"}, "mode": mode},
         {"name": "tank", "mode": "inside", "body": "animated", "motion": shaken,
          "shape": {"box": {"min": [-0.6, -0.6, -0.6], "max": [0.6, 0.6, 1.0]}}}],
        solver={"time_step": 1 / FPS, "iterations": [4, 4]},
    )  # fmt: skip


def drop_on(folder: Path, mesh: Mesh, mode: str, spacing: float, seconds: float) -> Found:
    it = drop_scene(folder, mesh, mode, spacing, seconds)
    h = it.solver.support / 2 * spacing
    field = MeshField(it, it.colliders[0], it.colliders[0].shape, "mesh").at(0.0)[0]
    found = Found(0, np.inf, np.inf, 0, 0, 0, 0.0, True)
    with runnel.Simulation(it, timed=False) as sim:
        found.particles = sim.particles.count
        before = sim.particles["position"].astype(np.float64)
        while sim.time < seconds - 1e-6:
            sim.step()
            found.steps += 1
            assert sim.particles.count == found.particles
            now = sim.particles["position"].astype(np.float64)
            found.finite &= bool(np.isfinite(now).all())
            if not found.finite:
                break
            ways = np.linalg.norm(now - before, axis=1)
            found.farthest = max(found.farthest, float(ways.max()) / h)
            found.deepest = min(found.deepest, float(field.distance(now).min() / field.voxel))
            along = least_along(field, before, now) / field.voxel
            found.on_the_way = min(found.on_the_way, float(along.min()))
            if mode == "shell":  # its middle is 1 voxel deep, where interpolation may say 0.5
                through = np.flatnonzero(along < -0.4)
                passed, at_rims = passages(mesh, before[through], now[through], spacing)
                found.passed += passed
                found.at_rims += at_rims
            before = now
        found.finite &= bool(np.isfinite(sim.particles["velocity"]).all())
    return found


def least_along(field: SparseField, a: Floats, b: Floats) -> Floats:
    """Least distance on the ways from a to b [m], looked at every half voxel."""
    least, far = field.distance(b), np.linalg.norm(b - a, axis=1)
    near = np.flatnonzero((least < far + field.voxel) & (far > 0.5 * field.voxel))
    a, way, count = a[near], (b - a)[near], np.ceil(2 * far[near] / field.voxel)
    for n in range(int(count.max(initial=0.0))):
        left = np.flatnonzero(n < count)
        there = field.distance(a[left] + (n / count[left])[:, None] * way[left])
        least[near[left]] = np.minimum(least[near[left]], there)
    return least


def passages(mesh: Mesh, a: Floats, b: Floats, spacing: float) -> tuple[int, int]:
    """How many of the ways from a to b lead through the surface: away from rims; at rims."""
    corners = mesh.vertices[mesh.triangles]
    edges = np.sort(mesh.triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    ends, counts = np.unique(edges, axis=0, return_counts=True)
    rims = mesh.vertices[ends[counts % 2 == 1]]
    passed = at_rims = 0
    for start, end in zip(a, b, strict=True):
        places = crossings(corners, start, end)
        if len(places) % 2 == 0:  # none, or around an edge
            continue
        off = min(distance_to_edges(rims, place) for place in places)
        if off < spacing + np.linalg.norm(end - start):
            at_rims += 1
        else:
            passed += 1
    return passed, at_rims


def crossings(corners: Floats, start: Floats, end: Floats) -> Floats:
    """Where a way meets triangles (n, 3, 3): Moeller and Trumbore 1997."""
    way, e1, e2 = end - start, corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    p = np.cross(way, e2)
    det = np.einsum("ij,ij->i", e1, p)
    flat = np.abs(det) < 1e-300
    inverse = 1.0 / np.where(flat, 1.0, det)
    s = start - corners[:, 0]
    q = np.cross(s, e1)
    u, v = inverse * np.einsum("ij,ij->i", s, p), inverse * (q @ way)
    t = inverse * np.einsum("ij,ij->i", e2, q)
    hit = ~flat & (u >= 0) & (v >= 0) & (u + v <= 1) & (t >= 0) & (t <= 1)
    once = np.unique(t[hit].round(6))  # triangles may be doubled, or share an edge that is hit
    return np.asarray(start + once[:, None] * way)


def distance_to_edges(edges: Floats, point: Floats) -> float:
    """From a point to the nearest of the edges (n, 2, 3) [m]."""
    if len(edges) == 0:
        return np.inf
    along = edges[:, 1] - edges[:, 0]
    share = np.einsum("ij,ij->i", point - edges[:, 0], along) / (along**2).sum(axis=1).clip(1e-300)
    nearest = edges[:, 0] + share.clip(0, 1)[:, None] * along
    return float(np.linalg.norm(point - nearest, axis=1).min())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--mode", choices=("outside", "shell"), default="outside")
    parser.add_argument("--spacing", type=float, default=FULL_SIZE)
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    for name in args.names or (CLOSED if args.mode == "outside" else CLOSED + OPEN):
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            found = drop_on(Path(folder), fitted(name, 0.8), args.mode, args.spacing, args.seconds)
        row = {"mesh": name, "mode": args.mode, **vars(found)}
        sys.stdout.write(
            json.dumps({**row, "wall_s": round(time.perf_counter() - start, 1)}) + "\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
