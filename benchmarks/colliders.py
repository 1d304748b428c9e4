"""What mesh colliders cost: a share of the step, and making their fields.

    python benchmarks/colliders.py [--particles 500000] [--steps 8] [--mesh FILE] > colliders.json

Step: water in a tank with three meshes in it (a solid, a shell, one that turns; with --deforming
all of them a file a frame). The same particles
in the same buffers are stepped with the meshes and without, turn by turn; the difference is what
the meshes cost. Times are those of processors, by their number: others on the machine change them
less than the clock.
Fields: one mesh at 256 voxels along its longest side, beside OpenVDB's own converter where there is
one, and what the index of nearest triangles adds. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from common import FPS, Row, conditions, say
from numpy.typing import NDArray

from runnel import Scene, Simulation
from runnel.meshes import Mesh, read_mesh

Floats = NDArray[np.float64]
WARM_UP = 24  # steps: the lattice has given way


# --- meshes ---------------------------------------------------------------------------------------


def wrapped(place: Callable[[Floats, Floats], list[Floats]], rows: int, columns: int) -> Mesh:
    """A surface closed along both ways; place(a, b) of angles 0..2 pi."""
    a, b = np.meshgrid(
        2 * np.pi * np.arange(rows) / rows, 2 * np.pi * np.arange(columns) / columns, indexing="ij"
    )
    i, j = np.divmod(np.arange(rows * columns), columns)
    right, down = i * columns + (j + 1) % columns, (i + 1) % rows * columns + j
    across = (i + 1) % rows * columns + (j + 1) % columns
    here = np.arange(rows * columns)
    triangles = np.concatenate(
        [np.stack([here, down, across], 1), np.stack([here, across, right], 1)]
    )
    return Mesh(np.stack(place(a, b), -1).reshape(-1, 3), triangles.astype(np.int32))


def ring(large: float, small: float, bumps: float = 0.0, rows: int = 240) -> Mesh:
    """A torus, with waves on it."""

    def place(a: Floats, b: Floats) -> list[Floats]:
        r = small * (1 + bumps * np.sin(7 * a) * np.sin(5 * b))
        out = large + r * np.cos(b)
        return [out * np.cos(a), out * np.sin(a), r * np.sin(b)]

    return wrapped(place, rows, rows // 2)


def bowl(radius: float, rows: int = 160) -> Mesh:
    """Half a sphere, open at the top."""
    u, v = np.meshgrid(np.linspace(0, np.pi / 2, rows // 4), np.arange(rows), indexing="ij")
    a = 2 * np.pi * v / rows
    vertices = radius * np.stack([np.sin(u) * np.cos(a), np.sin(u) * np.sin(a), -np.cos(u)], -1)
    i, j = np.divmod(np.arange((rows // 4 - 1) * rows), rows)
    here, right = i * rows + j, i * rows + (j + 1) % rows
    down, across = here + rows, right + rows
    quads = [np.stack([here, down, across], 1), np.stack([here, across, right], 1)]
    return Mesh(vertices.reshape(-1, 3), np.concatenate(quads).astype(np.int32))


def write_obj(path: Path, mesh: Mesh) -> None:
    lines = [f"v {x:.7g} {y:.7g} {z:.7g}" for x, y, z in mesh.vertices]
    lines += [f"f {a} {b} {c}" for a, b, c in mesh.triangles + 1]
    path.write_text("\n".join(lines) + "\n")


# --- a step with and without ----------------------------------------------------------------------


def write_mesh(folder: Path, name: str, mesh: Mesh, deforming: bool) -> str:
    """The name of its file, or of its files: it shrinks, a per cent a frame."""
    if not deforming:
        write_obj(folder / f"{name}.obj", mesh)
        return f"{name}.obj"
    for frame in range(1, 7):
        smaller = Mesh(mesh.vertices * (1.01 - 0.01 * frame), mesh.triangles)
        write_obj(folder / f"{name}_{frame:02d}.obj", smaller)
    return f"{name}_##.obj"


def tank(folder: Path, particles: int, deforming: bool) -> Scene:
    """A tank half full, with three meshes under water."""
    side = round(particles ** (1 / 3))
    table: Row = {
        "name": "colliders", "fps": FPS,
        "solver": {"time_step": 1 / 480, "iterations": [4, 4]},
        "fluid": [{"name": "water"}],
        "source": [{"name": "block", "fluid": "water", "spacing": 1 / side,
                    "shape": {"box": {"min": [0, 0, 0], "max": [1, 1, 1]}}}],
        "collider": [{"name": "tank", "mode": "inside",
                      "shape": {"box": {"min": [0, 0, 0], "max": [1.25, 1, 1.25]}}}],
    }  # fmt: skip
    rings = write_mesh(folder, "ring", ring(0.2, 0.08, 0.1), deforming)
    bowls = write_mesh(folder, "bowl", bowl(0.2), deforming)
    turn = [{"frame": 1, "position": [0.7, 0.7, 0.4]},
            {"frame": 100, "position": [0.7, 0.7, 0.4], "rotation": [0, 0, 170]}]  # fmt: skip
    table["collider"] += [
        {"name": "solid", "shape": {"mesh": rings}, "position": [0.3, 0.3, 0.3]},
        {"name": "shell", "shape": {"mesh": bowls}, "mode": "shell", "position": [0.7, 0.3, 0.5]},
        {"name": "turns", "shape": {"mesh": rings}, "body": "animated", "motion": turn},
    ]
    return Scene.from_dict(table, folder)


def step_cost(particles: int, rounds: int, device: str, deforming: bool) -> Row:
    """Least times of stages with and without, turn by turn from the same state [ms]."""
    rows: dict[str, list[dict[str, float]]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory() as name:
        with Simulation(tank(Path(name), particles, deforming), device, timed=False) as sim:
            settle(sim)
            count, used, near = sim.particles.count, sim.device_name, near_share(sim)
            arrays, meta = sim.state()
            backend: Any = sim._backend
            place = backend.set_solids
            with processor_time():
                for _ in range(rounds):
                    for key, solids in (("with", None), ("without", 1)):  # the tank alone
                        backend.set_solids = lambda table, fields=(), solids=solids: place(
                            table[:solids], fields
                        )
                        sim.restore(arrays, meta)
                        sim.bare_step(timed=False)  # the first one after that finds cold caches
                        rows[key] += [sim.bare_step(timed=True).milliseconds for _ in range(2)]
    stages = {
        key: {s: round(min(row[s] for row in all_rows), 2) for s in all_rows[0]}
        for key, all_rows in rows.items()
    }
    costs = {key: sum(values.values()) for key, values in stages.items()}
    return {
        "device": used, "particles": count, "colliders": 3, "deforming": deforming,
        "near_share": round(near, 3),
        "processor_ms_per_step": {key: round(value, 1) for key, value in costs.items()},
        "share": round(1 - costs["without"] / costs["with"], 4), "stages": stages,
    }  # fmt: skip


@contextmanager
def processor_time() -> Iterator[None]:
    """Stages are timed by what the processors did, each for its part."""
    from runnel.solver import step

    cores = os.cpu_count() or 1
    clock, step.time = step.time, SimpleNamespace(perf_counter=lambda: time.process_time() / cores)
    try:
        yield
    finally:
        step.time = clock


def settle(sim: Any) -> None:
    """Take out what the source put into the meshes, and let the rest give way."""
    arrays, meta = sim.state()
    count = len(arrays["position"])
    free = distances(sim, arrays["position"]) > 0.5 * sim.scene.smallest_spacing
    rows = {k: values[free] if len(values) == count else values for k, values in arrays.items()}
    sim.restore(rows, meta)
    for _ in range(WARM_UP):
        sim.bare_step(timed=False)


def distances(sim: Any, points: Floats) -> Floats:
    """Of points from the nearest of the meshes [m]."""
    from runnel.backends.reference.solids import signed_distances

    rows = sim._solids.rows(sim.time, 0.0)
    return signed_distances(rows[1:], points, sim._solids.fields)[0].min(axis=1)


def near_share(sim: Any) -> float:
    """Share of the particles within h of one of the meshes."""
    h = sim.scene.solver.support / 2 * sim.scene.smallest_spacing
    return float((distances(sim, sim.particles["position"]) < h).mean())


# --- fields ---------------------------------------------------------------------------------------


def best_of(count: int, work: Callable[[], Any]) -> tuple[float, float]:
    """Shortest wall and processor time [s]."""
    walls, loads = [], []
    for _ in range(count):
        start, busy = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - start)
        loads.append(time.process_time() - busy)
    return round(min(walls), 3), round(min(loads), 3)


def without_index() -> Callable[..., Any]:
    """field_of_mesh that does not note nearest triangles while it measures distances."""
    import inspect

    from runnel.fields import rasterize

    text = inspect.getsource(rasterize)
    for line in ("nearest[row + i] = t", "or (d == best[row + i] and t < nearest[row + i])"):
        assert line in text
        text = text.replace(line, "pass" if line.startswith("nearest") else "")
    space = {"__name__": "runnel.fields.rasterize", "__package__": "runnel.fields"}
    exec(compile(text, "<without index>", "exec"), space)
    return space["field_of_mesh"]  # type: ignore[return-value]


def field_cost(mesh: Mesh, voxels: int, rounds: int = 5) -> Row:
    """Our rasteriser with the index of triangles, without it, and OpenVDB's converter."""
    from runnel.fields.grid import FieldSettings
    from runnel.fields.rasterize import field_of_mesh

    voxel = float((mesh.bounds[1] - mesh.bounds[0]).max()) / voxels
    settings = FieldSettings(voxel=voxel, band=3 * voxel)
    field_of_mesh(mesh, FieldSettings(voxel=8 * voxel, band=24 * voxel))  # compiled
    row: Row = {"triangles": len(mesh.triangles), "voxels": voxels, "band_voxels": 3}
    plain = without_index()
    plain(mesh, FieldSettings(voxel=8 * voxel, band=24 * voxel))
    walls: dict[str, list[float]] = {"ours_s": [], "without_index_s": []}
    loads: dict[str, list[float]] = {"ours_s": [], "without_index_s": []}
    for _ in range(rounds):  # turn by turn
        for key, make in (("ours_s", field_of_mesh), ("without_index_s", plain)):
            wall, load = best_of(1, lambda make=make: make(mesh, settings))
            walls[key].append(wall)
            loads[key].append(load)
    for key in walls:
        row[key] = min(walls[key]), min(loads[key])
    row["index_overhead"] = round(row["ours_s"][1] / row["without_index_s"][1] - 1, 3)
    row["megabytes"] = round(field_of_mesh(mesh, settings).nbytes / 2**20, 1)
    try:
        from runnel.fields.vdb import openvdb

        vdb = openvdb()
        make = vdb.FloatGrid.createLevelSetFromPolygons
        corners, faces = mesh.vertices.astype(np.float32), mesh.triangles
        transform = vdb.createLinearTransform(voxel)
        row["openvdb_s"] = best_of(
            rounds, lambda: make(corners, triangles=faces, transform=transform, halfWidth=3.0)
        )
    except Exception as error:
        row["openvdb_s"] = str(error)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--particles", type=int, default=500_000)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--mesh", type=Path, help="of the fields; a ring of 70k triangles")
    parser.add_argument("--voxels", type=int, default=256)
    parser.add_argument("--deforming", action="store_true", help="meshes change their shape")
    parser.add_argument("--only", choices=("step", "fields"))
    args = parser.parse_args()
    result: Row = conditions()
    if args.only != "fields":
        say(f"steps of {args.particles} particles")
        result["step"] = step_cost(args.particles, args.steps, args.device, args.deforming)
    if args.only != "step":
        say("fields")
        mesh = read_mesh(args.mesh) if args.mesh else ring(1.0, 0.4, 0.1, 266)
        result["fields"] = field_cost(mesh, args.voxels)
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
