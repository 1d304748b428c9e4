"""Checks of verify_in_houdini.py: what comes in by the solver's inputs."""

from __future__ import annotations

from pathlib import Path

import hou
import numpy as np
from verify_tools import (
    BLOCK,
    SEPARATION,
    Skip,
    at,
    box,
    check,
    column,
    expect,
    made,
    network,
    parm,
    places,
    put,
    python_sop,
    same,
    shot,
)  # fmt: skip


@check("points are particles, with their own attributes")
def _points(folder: Path) -> None:
    parent = network()
    code = """
geo = hou.pwd().geometry()
geo.clear()
row = [0.1 * k for k in range(4)]
geo.createPoints([(x, y, z) for x in row for y in row for z in row])
geo.addAttrib(hou.attribType.Point, "v", (1.0, 0.0, 0.0))
geo.addAttrib(hou.attribType.Point, "pscale", 0.05)
geo.addAttrib(hou.attribType.Point, "temperature", 7.0)
"""
    solver = made(parent, "fluid_solver", "solver")
    solver.setInput(0, python_sop(parent, "points", code))
    start = at(solver, 1)
    same(start.pointCount(), 64, "points")
    expect(np.allclose(column(start, "v", 3)[:, 0], 1.0), "v is not that of the input")
    geo = at(solver, 3)
    expect(np.allclose(column(geo, "pscale"), 0.05), "pscale is not that of the input")
    expect(np.allclose(column(geo, "temperature"), 7.0), "temperature got lost")
    along = float(np.mean(column(geo, "P", 3)[:, 0] - column(start, "P", 3)[:, 0]))
    expect(abs(along - 2 / 24) < 0.02, f"2 frames at 1 m/s went {along:.3f} m")


@check("a collider that moves pushes")
def _moving(folder: Path) -> None:
    parent = network()
    solver = shot(parent)
    mover = box(parent, "mover", (-0.3, -0.1, -0.1), (-0.1, 0.7, 0.5))
    parm(mover, "tx").setExpression("-0.2 + 0.05 * ($F - 1)")
    solver.setInput(1, mover)
    put(solver, collidermode="outside", gravity=(0.0, 0.0, 0.0))
    moved = places(solver, 8)
    expect(moved[:, 0].min() > 0.2, f"fluid is left behind the pusher: {moved[:, 0].min():.3f} m")


@check("settings nodes: an emitter gives particles")
def _emitter(folder: Path) -> str:
    parent = network()
    source = made(parent, "fluid_source", "source")
    source.setInput(0, box(parent, "nozzle", (0, 0, 0), (0.2, 0.1, 0.2)))
    put(source, kind="emitter", velocity=(0.0, -2.0, 0.0))
    solver = made(parent, "fluid_solver", "solver")
    solver.setInput(0, source)
    put(solver, particlesep=SEPARATION)
    counts = [at(solver, frame).pointCount() for frame in (1, 4, 8)]
    expect(counts[0] < counts[1] < counts[2], f"particles at frames 1, 4, 8: {counts}")
    return f"particles at frames 1, 4, 8: {counts}"


@check("an emitter that moves is followed")
def _moving_emitter(folder: Path) -> str:
    parent = network()
    source = made(parent, "fluid_source", "source")
    nozzle = box(parent, "nozzle", (0, 0, 0), (0.2, 0.1, 0.2))
    parm(nozzle, "tx").setExpression("0.1 + 0.1 * ($F - 1)")
    source.setInput(0, nozzle)
    put(source, kind="emitter", velocity=(0.0, -2.0, 0.0))
    solver = made(parent, "fluid_solver", "solver")
    solver.setInput(0, source)
    put(solver, particlesep=SEPARATION)
    geo = at(solver, 8)
    age, x = column(geo, "age"), column(geo, "P", 3)[:, 0]
    text = f"the youngest are at {x[age < 1.01 / 24].mean():.2f} m, the nozzle at 0.7 to 0.8 m"
    expect(0.6 < x[age < 1.01 / 24].mean() < 0.9, text)
    oldest = float(x[age > age.max() - 1 / 24].mean())
    expect(oldest < 0.4, f"the oldest are at {oldest:.2f} m, where the nozzle came to later")
    return text


@check("multiples of viscosity on points")
def _multiples(folder: Path) -> str:
    left = []
    for multiple in (0.0, 20.0):
        parent = network()
        code = SHAKEN.format(multiple=multiple)
        solver = made(parent, "fluid_solver", "solver")
        solver.setInput(0, python_sop(parent, "points", code))
        put(solver, gravity=(0.0, 0.0, 0.0), viscosity1=0.5)
        geo = at(solver, 4)
        expect(np.allclose(column(geo, "viscosity"), multiple), "viscosity got lost")
        same(set(np.frombuffer(geo.pointIntAttribValuesAsString("phase"), np.int32).tolist()), {0},
             "phases")  # fmt: skip
        left.append(float(column(geo, "v", 3)[:, 0].std()))
    text = f"of 0.5 m/s {left[0]:.3f} are left at 0, {left[1]:.3f} at 20 times"
    expect(left[1] < 0.5 * left[0], text)
    return text


SHAKEN = """
import numpy as np
geo = hou.pwd().geometry()
geo.clear()
row = [0.1 * k for k in range(6)]
places = [(x, y, z) for x in row for y in row for z in row]
geo.createPoints(places)
geo.addAttrib(hou.attribType.Point, "v", (0.0, 0.0, 0.0))
geo.addAttrib(hou.attribType.Point, "pscale", 0.05)
geo.addAttrib(hou.attribType.Point, "viscosity", {multiple})
speeds = np.array([(0.5 if y > 0.25 else -0.5, 0.0, 0.0) for x, y, z in places], np.float32)
geo.setPointFloatAttribValuesFromString("v", speeds.tobytes())
"""


@check("bodies, by the third input and by the fourth")
def _bodies(folder: Path) -> str:
    found = []
    for index in (2, 3):
        parent = network()
        solver = shot(parent, outbodies=1)
        solver.setInput(index, box(parent, "raft", (0.1, 0.5, 0.1), (0.3, 0.6, 0.3)))
        start, geo = at(solver, 1), at(solver, 5)
        same((start.primCount(), geo.primCount()), (12, 12), "triangles of the body")
        heights = [float(column(g, "P", 3)[-8:, 1].mean()) for g in (start, geo)]
        expect(heights[1] < heights[0] - 0.05, f"the body went from {heights[0]} to {heights[1]} m")
        found.append(column(geo, "P", 3).copy())
    expect(np.array_equal(*found), "not the same by both inputs")
    return f"fell by {heights[0] - heights[1]:.3f} m"


@check("points that are forces, and move")
def _force_points(folder: Path) -> str:
    parent = network()
    magnet = box(parent, "magnet", (-1.1, 0.1, 0.1), (-0.9, 0.3, 0.3))
    parm(magnet, "tx").setExpression("-1 + 3 * ($F > 2)")
    forces = python_sop(parent, "forces", FORCES)
    forces.setInput(0, magnet)
    solver = shot(parent, gravity=(0.0, 0.0, 0.0))
    solver.setInput(1, None)
    solver.setInput(2, forces)
    early, late = (float(column(at(solver, f), "v", 3)[:, 0].mean()) for f in (2, 8))
    expect(early < -0.005, f"{early:.3f} m/s towards a magnet at the left")
    # 8 points of 1 m/s^2: a frame to the left, one on the way, five to the right.
    expect(0.8 < late < 1.8, f"{late:.3f} m/s after it went to the right, not about 1.3")
    return f"{early:.3f} m/s, then {late:.3f} m/s"


FORCES = """
geo = hou.pwd().geometry()
geo.addAttrib(hou.attribType.Point, "runnel_kind", "point")
geo.addAttrib(hou.attribType.Point, "runnel_strength", 1.0)
"""


@check("packed colliders")
def _packed(folder: Path) -> None:
    parent = network()
    solver = shot(parent)
    _need("pack")
    pack = made(parent, "pack", "pack")
    pack.setInput(0, solver.inputs()[1])
    before = places(solver, 6).copy()
    solver.setInput(1, pack)
    expect(np.allclose(places(solver, 6), before, atol=1e-5), "not as the same polygons unpacked")


def _level_set(parent: hou.Node, mesh: hou.SopNode) -> hou.SopNode:
    _need("vdbfrompolygons")
    vdb = made(parent, "vdbfrompolygons", "vdb")
    put(vdb, voxelsize=0.02)
    vdb.setInput(0, mesh)
    return vdb


@check("VDB colliders")
def _vdb(folder: Path) -> None:
    parent = network()
    solver = shot(parent)
    block = box(parent, "block", (0, -0.4, 0), (BLOCK, -0.05, BLOCK))
    solver.setInput(1, _level_set(parent, block))
    put(solver, collidermode="outside")
    p = places(solver, 12)
    lowest = p[(abs(p[:, [0, 2]] - 0.2) < 0.1).all(axis=1), 1].min()  # of those above it
    expect(lowest > -0.08, f"fluid is inside of the VDB, at {lowest:.3f} m")


@check("VDB colliders that move")
def _moving_vdb(folder: Path) -> None:
    parent = network()
    solver = shot(parent)
    mover = box(parent, "mover", (-0.3, -0.1, -0.1), (-0.1, 0.7, 0.5))
    parm(mover, "tx").setExpression("-0.2 + 0.05 * ($F - 1)")
    solver.setInput(1, _level_set(parent, mover))
    put(solver, collidermode="outside", gravity=(0.0, 0.0, 0.0))
    moved = places(solver, 8)
    expect(moved[:, 0].min() > 0.2, f"fluid is left behind the pusher: {moved[:, 0].min():.3f} m")


CLOUD = """
geo = hou.pwd().geometry()
geo.clear()
row = [0.2 * k - 0.4 for k in range(9)]
geo.createPoints([(x, y, z) for x in row for y in row for z in row])
geo.addAttrib(hou.attribType.Point, "v", (1.0, 0.0, 0.0))
geo.addAttrib(hou.attribType.Point, "pscale", 0.1)
"""


@check("points with v pull the fluid along")
def _field(folder: Path) -> str:
    return _pulled(network(), None)


@check("volumes go out as VDBs, and pull the fluid along")
def _volumes(folder: Path) -> str:
    from runnel.fields.vdb import available, openvdb

    if not available():
        raise Skip("this Houdini has no OpenVDB module for Python")
    parent = network()
    volumes = made(parent, "fluid_surface", "volumes")
    put(volumes, output="volumes")
    volumes.setInput(0, python_sop(parent, "points", CLOUD))
    geo = at(volumes, 1)
    names = geo.primStringAttribValues("name")
    same(sorted(names), ["density", "surface", "velocity"], "names of the VDBs")
    kinds = {prim.type() for prim in geo.prims()}
    same(kinds, {hou.primType.VDB}, "primitives")
    return f"{openvdb().__name__}; {_pulled(parent, volumes)}"


def _pulled(parent: hou.Node, field: hou.SopNode | None) -> str:
    """Water in a field of 1 m/s that gives it 2 of the difference in a second."""
    solver = shot(parent, gravity=(0.0, 0.0, 0.0), fieldstrength=2.0)
    solver.setInput(1, None)
    solver.setInput(2, field or python_sop(parent, "cloud", CLOUD))
    speed = float(column(at(solver, 7), "v", 3)[:, 0].mean())
    wanted = 1 - np.exp(-2 * 6 / 24)
    expect(abs(speed - wanted) < 0.05, f"{speed:.3f} m/s, {wanted:.3f} are expected")
    return f"{speed:.3f} m/s, {wanted:.3f} by theory"


def _need(name: str) -> None:
    if hou.nodeType(hou.sopNodeTypeCategory(), name) is None:
        raise Skip(f"there is no node {name} here")
