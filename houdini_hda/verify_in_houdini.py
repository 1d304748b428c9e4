"""Checks Runnel's nodes in a real Houdini, and prints a report.

    hython verify_in_houdini.py [--list] [--only WORD] [--json FILE]

Works on the installed package, or on the folder it lies in if that is not installed. Takes about a
minute. Writes to a temporary folder only; the scene that is open is left without being saved.
Exit status: 0 all held, 1 something did not.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hou
import numpy as np

HERE = Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))  # the files of checks lie beside this one

from verify_tools import (  # noqa: E402
    BLOCK,
    CHECKS,
    NAMES,
    SEPARATION,
    Skip,
    Wrong,
    at,
    check,
    column,
    expect,
    made,
    network,
    parm,
    place,
    places,
    put,
    run,
    same,
    shot,
    there,
)  # fmt: skip

# --- the installation -----------------------------------------------------------------------------


@check("versions")
def _versions(folder: Path) -> str:
    version = hou.applicationVersion()
    expect(tuple(version[:2]) >= (20, 5), f"Houdini {version} is older than 20.5")
    same(sys.version_info[:2], (3, 11), "Python")
    numbers = tuple(int(n) for n in np.__version__.split(".")[:2])
    expect(numbers >= (1, 24), f"numpy {np.__version__} is older than 1.24")
    return f"numpy {np.__version__} from {Path(np.__file__).parent}"


@check("Python packages load; numpy is Houdini's own")
def _packages(folder: Path) -> str:
    import runnel
    import runnel_houdini

    for name in ("numba", "pyopencl"):
        __import__(name)
    homes = [Path(str(m.__file__)).parent for m in (runnel, runnel_houdini)]
    shadow = homes[1].parent / "numpy"
    expect(not shadow.exists(), f"{shadow} hides Houdini's numpy")
    return ", ".join(str(home) for home in homes)


@check("OpenCL devices")
def _devices(folder: Path) -> str:
    import runnel
    from runnel.backends.devices import choose

    found = [f"{d.name} ({d.kind}{', fails' if d.problems else ''})" for d in runnel.devices()]
    text = f"{'; '.join(found) or 'none'}; auto takes {choose('auto').name}"
    expect(choose("auto").works, text)
    return text


@check("Houdini's own variables choose the device")
def _variables(folder: Path) -> str:
    from runnel_houdini import devices

    kinds = [d.kind for d in devices.known() if d.works and d.kind in ("cpu", "gpu")]
    if not kinds:
        raise Skip("there is no OpenCL device")
    wanted = "cpu" if "cpu" in kinds else "gpu"
    device = devices.pick("auto", {devices.TYPE: wanted.upper(), devices.NUMBER: "0"})
    same(device.kind, wanted, "device")
    kept = os.environ.get(devices.TYPE)
    os.environ[devices.TYPE] = wanted.upper()
    try:
        used = at(shot(network()), 1).attribValue("device")
    finally:
        os.environ.pop(devices.TYPE)
        if kept is not None:
            os.environ[devices.TYPE] = kept
    same(used, str(device), "device that the node computed on")
    return str(used)


@check("assets are installed as written")
def _assets(folder: Path) -> str:
    from runnel_houdini.parameters import NODES

    same(set(NODES), set(NAMES), "nodes")
    for name, declared in NODES.items():
        kind = hou.nodeType(hou.sopNodeTypeCategory(), declared.operator)
        if not isinstance(kind, hou.OpNodeType):
            raise Wrong(f"{declared.operator} is not installed")
        same(kind.minNumInputs(), declared.least_inputs, f"{name}: least inputs")
        same(kind.maxNumInputs(), len(declared.inputs), f"{name}: most inputs")
        definition = there(kind.definition(), f"digital asset of {name}")
        library = Path(definition.libraryFilePath())
        home = next((p for p in library.iterdir() if p.is_dir()), library)
        sections = definition.sections()
        for file in sorted(home.iterdir()):
            if file.name == "Sections.list":
                continue
            expect(file.name in sections, f"{name}: Houdini does not see {file.name}")
            text = sections[file.name].contents()
            same(text, file.read_text(encoding="utf-8"), f"{name}: {file.name}")
    return str(library.parent)


@check("every parameter is there, with its default, tooltip and menu")
def _parameters(folder: Path) -> str:
    from runnel_houdini.parameters import NODES
    from runnel_houdini.parm import Multi, walk

    parent, count = network(), 0
    for declared in NODES.values():
        node = made(parent, declared.name, declared.name)
        if declared.inputs:
            same(node.inputLabels()[: len(declared.inputs)], declared.inputs, "input labels")
        for item in walk(declared.items):
            rows = [item]
            if isinstance(item, Multi):
                parm(node, item.name).set(2)
                rows = [*item.items]
            for row in rows:
                _one_parameter(node, row, row.name.replace("#", "2"))
                count += 1
    return f"{count} parameters"


def _one_parameter(node: hou.OpNode, declared: Any, name: str) -> None:
    found = there(node.parmTuple(name), f"{name} on {node.name()}")
    same(len(found), declared.size, f"{name}: components")
    template = found.parmTemplate()
    same(template.label(), declared.label, f"{name}: label")
    same(template.help(), declared.help, f"{name}: tooltip")
    if declared.menu:
        same(tuple(found[0].menuItems()), tuple(t for t, _ in declared.menu), f"{name}: menu")
    if declared.type in ("button", "directory") or declared.expression:
        return
    values: Any = found.eval()
    for value, wanted in zip(values, declared.default, strict=True):
        close = value == wanted if isinstance(wanted, str) else abs(value - wanted) < 1e-6
        expect(close, f"{name}: default {value!r}, not {wanted!r}")


@check("conditions are read: what is disabled, what is hidden")
def _conditions(folder: Path) -> None:
    node = shot(network())
    node.updateParmStates()  # without a window nobody else does
    expect(parm(node, "substeps").isDisabled(), "substeps is enabled though substeps are adaptive")
    put(node, autosubsteps=0)
    node.updateParmStates()
    expect(not parm(node, "substeps").isDisabled(), "substeps stays disabled")
    expect(parm(node, "cfl").isDisabled(), "cfl is enabled though substeps are fixed")
    put(node, preset1="honey")
    node.updateParmStates()
    expect(parm(node, "density1").isHidden(), "density shows beside a preset")
    parm(node, "editpreset1").pressButton()
    same(node.evalParm("preset1"), "custom", "Edit: preset")
    same(node.evalParm("density1"), 1420.0, "Edit: density of honey")


@check("the device menu lists devices")
def _device_menu(folder: Path) -> str:
    items = parm(shot(network()), "device").menuItems()
    expect("auto" in items, f"the menu holds {items}")
    return ", ".join(items)


# --- cooking --------------------------------------------------------------------------------------


@check("a block of water falls: attributes, groups, statistics")
def _cook(folder: Path) -> str:
    solver = shot(network())
    start = at(solver, 1)
    same(start.pointCount(), round(BLOCK / SEPARATION) ** 3, "particles")
    geo = at(solver, 6)
    same(geo.pointCount(), start.pointCount(), "particles later")
    for name, size in (("P", 3), ("v", 3), ("pscale", 1), ("density", 1), ("age", 1), ("Cd", 3)):
        attribute = there(geo.findPointAttrib(name), f"point attribute {name}")
        same(attribute.size(), size, f"size of {name}")
        same(attribute.dataType(), hou.attribData.Float, f"type of {name}")
    for name in ("id", "phase"):
        attribute = there(geo.findPointAttrib(name), f"point attribute {name}")
        same(attribute.dataType(), hou.attribData.Int, f"type of {name}")
    expect(np.allclose(column(geo, "pscale"), SEPARATION / 2), "pscale is not half the separation")
    ids = np.frombuffer(geo.pointIntAttribValuesAsString("id"), np.int32)
    same(len(set(ids.tolist())), len(ids), "different ids")
    group = there(geo.findPointGroup("fluid_1"), "group fluid_1")
    same(len(group.points()), geo.pointCount(), "points of the group")
    drop = column(start, "P", 3)[:, 1].mean() - column(geo, "P", 3)[:, 1].mean()
    expect(drop > 0.01, f"the water sank by {drop:.4f} m in 5 frames")
    same(geo.attribValue("frame"), 6, "detail attribute frame")
    return f"{geo.pointCount()} points on {geo.attribValue('device')}"


@check("the node depends on time")
def _time(folder: Path) -> None:
    solver = shot(network())
    at(solver, 2)
    expect(solver.isTimeDependent(), "Houdini takes it for constant: playing would not cook it")


@check("before the start frame there is nothing")
def _before(folder: Path) -> None:
    solver = shot(network(), startframe=3)
    same(at(solver, 2).pointCount(), 0, "points at frame 2")
    same(at(solver, 3).pointCount(), 512, "points at frame 3")


@check("back, gap, dropped cache: the same bits")
def _transitions(folder: Path) -> None:
    from runnel_houdini import sessions

    solver = shot(network())
    played = {frame: places(solver, frame).copy() for frame in range(1, 9)}
    expect(not np.array_equal(played[7], played[8]), "frame 8 is as frame 7")
    for frame in (3, 8, 1, 5):
        expect(np.array_equal(places(solver, frame), played[frame]), f"back to frame {frame}")
    parm(solver, "resimulate").pressButton()
    expect(np.array_equal(places(solver, 8), played[8]), "a gap, after a reset")
    put(solver, cacheenabled=0)
    expect(np.array_equal(places(solver, 4), played[4]), "backwards without a cache")
    held = there(sessions.existing(solver), "session of the node")
    same(held.memory.frames, [4], "frames in memory without a cache")


@check("Esc stops the solver; what is complete stays, and it goes on from there")
def _escape(folder: Path) -> str:
    """The key cannot be pressed here: what Houdini does then is done in its place."""
    from runnel_houdini import sessions

    class Pressed:
        def __init__(self, *words: Any, **more: Any) -> None:
            pass

        def __enter__(self) -> Pressed:
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def updateProgress(self, share: float) -> None:
            if share > 0.6:
                raise hou.OperationInterrupted("Esc")

    solver = shot(network())
    played = {frame: places(solver, frame).copy() for frame in range(1, 7)}
    at(solver, 1)
    parm(solver, "resimulate").pressButton()
    at(solver, 2)
    real = hou.InterruptableOperation
    setattr(hou, "InterruptableOperation", Pressed)  # noqa: B010  mypy lets no class be assigned
    try:
        hou.setFrame(6)
        solver.cook(force=True)
        text = " ".join(solver.errors())
    except hou.Error as error:
        text = str(error) or type(error).__name__
    finally:
        setattr(hou, "InterruptableOperation", real)  # noqa: B010
    expect(text, "the cook went on to its end")
    held = there(sessions.existing(solver), "session of the node")
    expect(held.memory.frames[-1] in (4, 5), f"frames that are complete: {held.memory.frames}")
    for frame in (3, 6):
        expect(np.array_equal(places(solver, frame), played[frame]), f"frame {frame} afterwards")
    return text


@check("a setting or an input that changes starts anew")
def _invalidation(folder: Path) -> None:
    solver = shot(network())
    before = places(solver, 5).copy()
    put(solver, gravity=(0.0, 0.0, 0.0))
    expect(not np.array_equal(places(solver, 5), before), "gravity had no effect")
    put(solver, gravity=(0.0, -9.81, 0.0))
    expect(np.array_equal(places(solver, 5), before), "the old setting does not give the old bits")
    water = solver.inputs()[0]
    if not isinstance(water, hou.SopNode):
        raise Wrong("the input is gone")
    place(water, (0, 0, 0), (BLOCK / 2, BLOCK, BLOCK))
    same(at(solver, 5).pointCount(), 256, "points after half of the source went")


@check("an animated parameter counts at the start frame")
def _animated(folder: Path) -> str:
    solver = shot(network())
    before = places(solver, 5).copy()
    parm(solver, "gravityy").setExpression("-9.81 - 10 * ($F - 1)")
    expect(np.array_equal(places(solver, 5), before), "gravity of frame 5 had an effect")
    text = " ".join(solver.warnings())
    expect("Gravity is animated" in text, f"no warning, only {text!r}")
    return text


@check("errors are on the node, in plain words")
def _errors(folder: Path) -> str:
    solver = shot(network(), sourcefluid="nothing of that name")
    hou.setFrame(1)
    try:
        solver.cook(force=True)
    except hou.OperationFailed:
        pass
    text = " ".join(solver.errors())
    expect("nothing of that name" in text, f"the error does not name the value: {text!r}")
    expect("Traceback" not in text, f"a traceback shows: {text[-200:]}")
    put(solver, sourcefluid="")
    same(at(solver, 2).pointCount(), 512, "points once it is put right")
    return text


@check("copies and deleted nodes leave nothing behind")
def _lives(folder: Path) -> None:
    from runnel_houdini import sessions

    parent = network()
    solver = shot(parent)
    first = places(solver, 4).copy()
    gc.collect()
    before = len(sessions.alive())
    (copy,) = hou.copyNodesTo([solver], parent)
    if not isinstance(copy, hou.SopNode):
        raise Wrong("a copy is no SOP")
    put(copy, gravity=(0.0, 0.0, 0.0))
    expect(not np.array_equal(places(copy, 4), first), "the copy shows the frames of the original")
    expect(np.array_equal(places(solver, 4), first), "the copy changed the original")
    solver.setName("renamed")
    expect(np.array_equal(places(solver, 4), first), "a new name changed the frames")
    copy.destroy()
    same(len(sessions.alive()), before, "simulations after a node was deleted")
    solver.destroy()
    same(len(sessions.alive()), before - 1, "simulations after both were deleted")


@check("a scene that is saved and loaded cooks")
def _hip(folder: Path) -> None:
    from runnel_houdini import sessions

    solver = shot(network())
    path, first = solver.path(), places(solver, 3).copy()
    del solver
    hou.hipFile.save(str(folder / "verify.hip"))
    hou.hipFile.load(hou.hipFile.path(), suppress_save_prompt=True)  # its name depends on licences
    gc.collect()
    same(len(sessions.alive()), 0, "simulations after a load")
    loaded = hou.node(path)
    if not isinstance(loaded, hou.SopNode):
        raise Wrong("the node is gone")
    expect(np.array_equal(places(loaded, 3), first), "other frames after a load")


import verify_inputs  # noqa: E402, F401  its checks come next

# --- files ----------------------------------------------------------------------------------------


@check("geometry through our reader and writer of .bgeo")
def _bgeo(folder: Path) -> str:
    from runnel.export.bgeo_read import parse_bgeo

    geo = at(shot(network()), 3)
    ours = parse_bgeo(geo.data())
    expect(np.array_equal(ours.points["P"], column(geo, "P", 3)), "P of Houdini's bytes")
    geo.saveToFile(str(folder / "houdini.bgeo"))
    read = parse_bgeo((folder / "houdini.bgeo").read_bytes())
    expect(np.array_equal(read.points["v"], column(geo, "v", 3)), "v of Houdini's file")
    return f"{len(ours.points)} attributes"


@check("the same scene on the command line: the same bits; the file cache reads it")
def _disk(folder: Path) -> str:
    parent = network()
    solver = shot(parent, endframe=5, cachedir=str(folder / "cache"))
    live = {frame: places(solver, frame).copy() for frame in (1, 3, 5)}
    parm(solver, "simulatetodisk").pressButton()
    _wait(lambda: 5 in _frames(folder / "cache"), "the fifth frame on disk")
    reader = made(parent, "fluid_cache", "reader")
    put(reader, cachedir=str(folder / "cache"))
    for frame, wanted in live.items():
        expect(np.array_equal(places(reader, frame), wanted), f"frame {frame} of the file cache")
    put(reader, show="surface")
    expect(at(reader, 3).primCount() > 100, "the file cache shows no surface")
    put(reader, show="bodies")
    same(at(reader, 3).primCount(), 12, "triangles of the tank in the file cache")
    put(solver, loadfromdisk=1)
    expect(np.array_equal(places(solver, 5), live[5]), "frame 5 from disk in the solver")
    return f"{len(live)} frames compared"


def _frames(folder: Path) -> list[int]:
    from runnel import Cache, RunnelError

    try:
        return Cache.open(folder).frames()
    except (RunnelError, OSError):
        return []


def _wait(done: Callable[[], bool], what: str, limit: float = 180.0) -> None:
    end = time.monotonic() + limit
    while not done():
        expect(time.monotonic() < end, f"{what} did not come within {limit:g} s")
        time.sleep(0.5)


@check("our .bgeo files load in Houdini")
def _export(folder: Path) -> str:
    import runnel

    scene = runnel.example("dam_break").with_overrides(["source.dam.spacing=0.1"])
    (folder / "dam.json").write_text(json.dumps(scene.to_dict()), encoding="utf-8")
    _runnel("run", str(folder / "dam.json"), "--out", str(folder / "dam"), "--frames", "1-2")
    _runnel("export", str(folder / "dam"), "--format", "bgeo")
    (first, *_) = sorted((folder / "dam").rglob("*.bgeo*"))
    geo = hou.Geometry()
    geo.loadFromFile(str(first))
    with runnel.Simulation(scene) as sim:
        wanted = sim.particles["position"]
    expect(np.array_equal(column(geo, "P", 3), wanted), "P of our .bgeo in Houdini")
    return first.name


def _runnel(*words: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "runnel", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    expect(run.returncode == 0, f"runnel {' '.join(words)}: {run.stderr[-500:]}")


@check("all that our .bgeo files can hold; points by file beside points by call")
def _writer(folder: Path) -> str:
    from runnel.export.bgeo import write_bgeo
    from runnel.export.geometry import Geometry

    count, rng = 100_000, np.random.default_rng(7)
    place = rng.random((count, 3)).astype(np.float32)
    ids = np.arange(count, dtype=np.int32)
    written = Geometry(
        count,
        points={"P": place, "id": ids},
        primitives={"piece": np.array([3, 4], np.int32)},
        detail={"frame": np.array([7], np.int32)},
        point_groups={"half": ids < count // 2},
        primitive_groups={"right": np.array([False, True])},
        corners=np.array([0, 1, 2, 3, 4, 5, 6], np.int32),
        starts=np.array([0, 3], np.int32),
        sizes=np.array([3, 4], np.int32),
    )
    path, geo = folder / "all.bgeo", hou.Geometry()
    started = time.perf_counter()
    write_bgeo(path, written)
    geo.loadFromFile(str(path))
    by_file = time.perf_counter() - started
    expect(np.array_equal(column(geo, "P", 3), place), "P")
    read = np.frombuffer(geo.pointIntAttribValuesAsString("id"), np.int32)
    expect(np.array_equal(read, ids), "id")
    pieces = np.frombuffer(geo.primIntAttribValuesAsString("piece"), np.int32)
    same(pieces.tolist(), [3, 4], "attribute of polygons")
    right = there(geo.findPrimGroup("right"), "group of polygons")
    same([prim.number() for prim in right.prims()], [1], "polygons of the group")
    same(geo.attribValue("frame"), 7, "detail attribute")
    same(len(there(geo.findPointGroup("half"), "group of points").points()), count // 2, "group")
    same((geo.primCount(), geo.vertexCount()), (2, 7), "polygons and their corners")
    started, called = time.perf_counter(), hou.Geometry()
    called.createPoints(((0.0, 0.0, 0.0),) * count)
    called.setPointFloatAttribValuesFromString("P", place.tobytes())
    by_call = time.perf_counter() - started
    return f"{count} points: by file {1000 * by_file:.0f} ms, by call {1000 * by_call:.0f} ms"


@check("the surface node makes closed polygons")
def _surface(folder: Path) -> str:
    parent = network()
    solver = shot(parent)
    surface = made(parent, "fluid_surface", "surface")
    surface.setInput(0, solver)
    geo = at(surface, 2)
    expect(geo.primCount() > 100, f"{geo.primCount()} polygons")
    expect(geo.findPointAttrib("v") is not None, "the surface has no v")
    edges: dict[tuple[int, int], int] = {}
    for prim in geo.prims():
        corners = [vertex.point().number() for vertex in prim.vertices()]
        for edge in zip(corners, corners[1:] + corners[:1], strict=True):
            edges[edge] = edges.get(edge, 0) + 1
    loose = [edge for edge in edges if edges.get(edge[::-1]) != edges[edge]]
    expect(not loose, f"{len(loose)} edges of the surface are open")
    return f"{geo.primCount()} polygons of {at(solver, 2).pointCount()} particles"


# --- report ---------------------------------------------------------------------------------------


def install() -> None:
    """Load the assets from beside this file, if no package did."""
    sys.path[:0] = [p for p in (str(HERE / "python3.11libs"), str(HERE.parent / "core"))
                    if Path(p).is_dir() and p not in sys.path]  # fmt: skip
    kind = hou.nodeType(hou.sopNodeTypeCategory(), "runnel::fluid_solver::1.0")
    if kind is None:
        for library in sorted((HERE / "otls").glob("*.hda")):
            hou.hda.installFile(str(library))


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks Runnel's nodes in this Houdini.")
    parser.add_argument("--list", action="store_true", help="name the checks, make none")
    parser.add_argument("--only", default="", help="checks whose name holds this")
    parser.add_argument("--json", type=Path, help="write the report here too")
    args = parser.parse_args()
    if args.list:
        print("\n".join(name for name, _ in CHECKS))
        return 0
    head = f"Houdini {hou.applicationVersionString()}, Python {platform.python_version()}, "
    head += f"{platform.platform()}"
    print(head, flush=True)
    install()
    results = run(args.only)
    wrong = [r for r in results if r.outcome == "WRONG"]
    skipped = [r for r in results if r.outcome == "skipped"]
    print(f"{len(results)} checks: {len(wrong)} wrong, {len(skipped)} skipped. "
          "Not checked: the Esc key, the look of the pane, playback in the viewport.")  # fmt: skip
    if args.json:
        rows = [asdict(result) for result in results]
        args.json.write_text(json.dumps({"where": head, "checks": rows}, indent=2))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
