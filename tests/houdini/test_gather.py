"""From a node's inputs to the scene of core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hou
import numpy as np
import pytest
from hou_standin import Geometry, SopNode, world
from hou_standin.geometry import _PrimData
from hou_standin.vdb import file_of, grids_in
from shots import box, node, points, pool, upstream, values, water

from runnel import RunnelError, Scene
from runnel.backends.base import POINT, WIND
from runnel.collider_fields import MeshField
from runnel.fields.flow import read_flow
from runnel.fields.vdb import available, openvdb, read_grids
from runnel.forces import pack_forces
from runnel.meshes import read_mesh
from runnel.points import read_points
from runnel_houdini.gather import Gathering
from runnel_houdini.inputs import Inputs, Watch
from runnel_houdini.parameters import SOLVER
from runnel_houdini.values import evaluate

needs_openvdb = pytest.mark.skipif(not available(), reason="OpenVDB is not installed")


def gathering(solver: SopNode, folder: Path, last: int = 5) -> Gathering:
    inputs = Inputs(solver, world.NOW.frame)
    return Gathering(inputs, evaluate(solver, SOLVER), folder, 24.0, solver.name(), last)


def scene(solver: SopNode, folder: Path) -> Scene:
    return gathering(solver, folder).scene()


def some(n: int = 8) -> np.ndarray:
    return np.stack([0.1 * np.arange(n) + 0.05, np.full(n, 0.3), np.full(n, 0.2)], axis=1)


def marked(kind: str, geometry: Geometry, /, **parms: Any) -> Geometry:
    """Geometry that went through one of the nodes that carry settings."""
    through = node(kind, upstream(geometry), **parms)
    result = through._cook(1)
    assert through.errors() == ()
    return result


# --- sources --------------------------------------------------------------------------------------


def test_closed_polygons_are_filled(tmp_path: Path) -> None:
    it = scene(pool(), tmp_path)
    (source,) = it.sources
    assert (source.kind, source.spacing, source.fluid) == ("volume", 0.1, "fluid_1")
    assert it.up == "y"
    assert it.solver.gravity == (0, -9.81, 0)
    assert it.fps == 24
    assert read_mesh(it.mesh_path(source.shape)).volume() == pytest.approx(0.125)


def test_a_volume_takes_the_mean_velocity_of_its_points(tmp_path: Path) -> None:
    geo = box((0, 0, 0), (0.5, 0.5, 0.5))
    geo.addAttrib(hou.attribType.Point, "v", (0.0, 0.0, 0.0))
    v = np.tile(np.float32([3, 0, 0]), (8, 1))
    geo.setPointFloatAttribValuesFromString("v", v.tobytes())
    it = scene(pool(upstream(geo), sourcevelocity=(0.0, 1.0, 0.0), timescale=0.5), tmp_path)
    assert it.sources[0].velocity == (6, 1, 0)
    assert it.fps == 48


def test_points_are_particles(tmp_path: Path) -> None:
    places = some()
    given = points(
        places, v=np.tile([1.0, 0, 0], (8, 1)), pscale=np.full(8, 0.04), id=np.arange(8) + 5,
        phase=np.arange(8) % 2, heat=np.arange(8.0), Cd=np.ones((8, 3)), density=np.ones(8),
    )  # fmt: skip
    solver = pool(upstream(given), fluids=2, inheritattribs="* ^Cd", timescale=0.5)
    it = scene(solver, tmp_path)
    found = read_points(it.mesh_path(it.sources[0].shape))
    assert np.allclose(found.position, places)
    assert found.velocity is not None
    assert np.allclose(found.velocity[:, 0], 2.0)  # on screen it moves half as fast
    assert found.radius is not None
    assert np.allclose(found.radius, 0.04)
    assert found.phase is not None
    assert found.phase.tolist() == [0, 1] * 4
    assert set(found.channels) == {"heat", "source_id"}
    assert it.output.channels[-2:] == ("source_id", "heat")


def test_points_and_all_they_carry_come_out_again() -> None:
    given = points(some(), id=np.arange(8) + 5, heat=np.arange(8.0), tint=np.ones((8, 2)))
    solver = pool(upstream(given))
    geo = solver._cook(3)
    assert solver.errors() == ()
    assert values(geo, "heat").tolist() == list(range(8))
    assert values(geo, "source_id").tolist() == list(range(5, 13))
    assert values(geo, "tint").shape == (8, 2)
    assert values(geo, "P")[:, 1].max() < 0.3


def test_multiples_of_viscosity_make_fluids(tmp_path: Path) -> None:
    given = points(some(), viscosity=np.array([1.0, 2.0] * 4), phase=np.repeat([0, 1], 4))
    solver = pool(upstream(given), fluids=2, viscosity1=3.0, preset2="honey")
    it = scene(solver, tmp_path)
    names = [fluid.name for fluid in it.fluids]
    assert names == ["fluid_1", "fluid_2", "fluid_1@2,1", "fluid_2@2,1"]
    assert it.fluids[2].viscosity == 6.0
    assert it.fluids[3].viscosity == 2 * it.fluids[1].viscosity
    assert it.fluids[3].color == it.fluids[1].color
    found = read_points(it.mesh_path(it.sources[0].shape))
    assert found.phase is not None
    assert found.phase.tolist() == [0, 2, 0, 2, 1, 3, 1, 3]
    solver._parms |= {"preset2": "custom", "viscosity1": 0.1}
    geo = solver._cook(2)
    assert values(geo, "phase").tolist() == [0] * 4 + [1] * 4
    assert values(geo, "viscosity").tolist() == [1, 2] * 4


def test_many_multiples_become_a_few_fluids(tmp_path: Path) -> None:
    given = points(some(200), surfacetension=np.linspace(0.0, 1.0, 200))
    it = scene(pool(upstream(given), surfacetension1=0.8), tmp_path)
    assert len(it.fluids) <= 9
    tension = [fluid.surface_tension for fluid in it.fluids]
    assert min(tension) < 0.1
    assert max(tension) <= 0.8


def test_multiples_that_come_later_are_told_of(tmp_path: Path) -> None:
    """Fluids of a scene are those of its start: the nearest is taken, and said."""

    def rain(frame: float) -> Geometry:
        return points(some(4), viscosity=np.full(4, 1.0 if frame < 3 else 4.0))

    solver = pool(upstream(rain), sourcekind="emitter")
    made = gathering(solver, tmp_path)
    assert len(made.scene().fluids) == 1
    for frame in (2, 3, 4):
        made.need(frame)
    (note,) = made.notes
    assert "viscosity 4, 1 is taken" in note
    solver._cook(4)
    assert (solver.errors(), solver.warnings()) == ((), (note,))


def test_points_are_emitted_each_frame(tmp_path: Path) -> None:
    def rain(frame: float) -> Geometry:
        if frame == 3:
            return Geometry()
        return points(some(4) + np.array([0, 0.1 * frame, 0]), born=np.full(4, int(frame)))

    solver = pool(upstream(rain), sourcekind="emitter", gravity=(0.0, 0.0, 0.0))
    made = gathering(solver, tmp_path)
    it = made.scene()
    assert it.sources[0].kind == "emitter"
    made.need(3)
    assert len(read_points(tmp_path / "source_1_0003.bgeo")) == 0
    counts = []
    for frame in range(1, 6):
        geo = solver._cook(frame)
        assert solver.errors() == ()
        counts.append(geo.pointCount())
    assert counts == [0, 4, 8, 8, 12]
    assert sorted(set(values(geo, "born").tolist())) == [1, 2, 4]


def test_rain_that_begins_later() -> None:
    def rain(frame: float) -> Geometry:
        geo = points(some(4), heat=np.full(4, frame))
        return geo if frame >= 3 else points(some(0), heat=np.zeros(0))

    solver = pool(upstream(rain), sourcekind="emitter")
    counts = [solver._cook(frame).pointCount() for frame in range(1, 5)]
    assert solver.errors() == ()
    assert counts == [0, 0, 0, 4]
    assert values(solver._geometry, "heat").tolist() == [3.0] * 4


def test_a_source_node_sets_pieces_apart(tmp_path: Path) -> None:
    jet = marked(
        "fluid_source", box((0.8, 0.8, 0.1), (0.9, 0.9, 0.4)), piecename="jet", kind="emitter",
        velocity=(0.0, -2.0, 0.0), useparticlesep=1, particlesep=0.05, useframes=1, frames=(2, 4),
    )  # fmt: skip
    drain = marked("fluid_source", box((0, 0, 0), (0.2, 0.1, 0.1)), piecename="out", kind="sink")
    merged = box((0, 0, 0), (0.5, 0.5, 0.5))
    merged.merge(jet)
    merged.merge(drain)
    it = scene(pool(upstream(merged)), tmp_path)
    by_name = {source.name: source for source in it.sources}
    assert by_name["jet"].kind == "emitter"
    assert by_name["jet"].spacing == pytest.approx(0.05)
    assert by_name["jet"].frames == (2, 4)
    assert by_name["source_1"].kind == "volume"
    assert by_name["source_1"].spacing == pytest.approx(0.1)
    assert [sink.name for sink in it.sinks] == ["out"]


# --- colliders, bodies, forces --------------------------------------------------------------------


def test_colliders_with_settings_of_the_tab_and_of_their_own(tmp_path: Path) -> None:
    rough = marked("fluid_collider", box((2, 0, 0), (3, 1, 1)), piecename="rough", friction=0.75,
                   usevoxelsize=1, voxelsize=0.03)  # fmt: skip
    merged = box((4, 0, 0), (5, 1, 1))
    merged.merge(rough)
    solver = pool(water(), upstream(merged), colliderfriction=0.25, groundplane=1)
    it = scene(solver, tmp_path)
    found = {c.name: c for c in it.colliders}
    assert set(found) == {"ground", "collider_1", "rough"}
    assert found["rough"].friction == pytest.approx(0.75)
    assert found["rough"].voxel_size == pytest.approx(0.03)
    assert found["collider_1"].friction == pytest.approx(0.25)
    assert found["collider_1"].voxel_size is None
    assert found["ground"].friction == pytest.approx(0.25)


def test_a_moving_collider_is_a_file_a_frame(tmp_path: Path) -> None:
    solver = pool(water(), upstream(lambda f: box((0.1 * f, 0, 0), (1 + 0.1 * f, 1, 1))))
    made = gathering(solver, tmp_path)
    it = made.scene()
    shape = it.colliders[0].shape
    assert it.mesh_frames(shape) == [1, 2, 3, 4, 5, 6]
    assert sorted(p.name for p in tmp_path.glob("collider*")) == ["collider_1_0001.ply"]
    made.need(4)
    assert read_mesh(tmp_path / "collider_1_0004.ply").bounds[0][0] == pytest.approx(0.4)


def test_a_moving_collider_pushes(tmp_path: Path) -> None:
    wall = upstream(lambda f: box((-1, 0, 0), (0.05 * f - 0.1, 1, 0.5)))
    solver = pool(water((0, 0, 0), (0.5, 0.5, 0.5)), wall, domainmin=(-0.5, 0.0, 0.0))
    first = values(solver._cook(1), "P")[:, 0].mean()
    assert solver.errors() == ()
    still = pool(water((0, 0, 0), (0.5, 0.5, 0.5)), None, domainmin=(-0.5, 0.0, 0.0))
    pushed = values(solver._cook(5), "P")[:, 0]
    assert solver.errors() == ()
    assert pushed.mean() > values(still._cook(5), "P")[:, 0].mean() + 0.02
    assert pushed.mean() > first
    assert pushed.min() > 0.1


def test_a_collider_that_is_said_to_stand_still(tmp_path: Path) -> None:
    solver = pool(water(), upstream(lambda f: box((2, 0, 0), (3, 1, 1))), collidermotion="static")
    it = scene(solver, tmp_path)
    assert not it.colliders[0].shape.is_sequence


def test_vdbs_come_in_as_files(tmp_path: Path) -> None:
    geo = Geometry()
    geo.createPoints([(0, 0, 0)])
    geo._add_prim(_PrimData(hou.primType.VDB, [0], content=b"a level set"))
    it = scene(pool(water(), upstream(geo)), tmp_path)
    assert it.mesh_path(it.colliders[0].shape).read_bytes() == b"a level set"
    assert it.colliders[0].shape.file.endswith(".vdb")


def ball(x: float = 0.25, y: float = -0.2) -> Geometry:
    """A level set of radius 0.3."""
    made = openvdb().createLevelSetSphere(0.3, center=(x, y, 0.25), voxelSize=0.05, halfWidth=8.0)
    made.name = "ball"
    return vdb_of(made)


def vdb_of(*grids: Any) -> Geometry:
    geo = Geometry()
    geo.createPoints([(0, 0, 0)] * len(grids))
    for number, grid in enumerate(grids):
        geo._add_prim(_PrimData(hou.primType.VDB, [number], content=file_of([grid])))
    geo.addAttrib(hou.attribType.Prim, "name", "")
    geo.setPrimStringAttribValues("name", [grid.name for grid in grids])
    return geo


def breeze(u: Any, low: int = -20, size: int = 60) -> Any:
    """A VDB of vectors, the same everywhere."""
    grid = openvdb().Vec3SGrid((0.0, 0.0, 0.0))
    grid.name = "vel"
    values = np.broadcast_to(np.float32(u), (size, size, size, 3))
    grid.copyFromArray(np.ascontiguousarray(values), ijk=(low,) * 3)
    grid.transform = openvdb().createLinearTransform(voxelSize=0.05)
    return grid


@needs_openvdb
def test_vdbs_that_move_are_a_file_a_frame(tmp_path: Path) -> None:
    """They carry fluid along as polygons would; other values at a frame start anew."""
    rising = upstream(lambda f: ball(y=-0.3 + 0.02 * f))
    solver = pool(water(), rising, gravity=(0.0, 0.0, 0.0))
    it = scene(solver, tmp_path)
    assert it.colliders[0].shape.file == "collider_1_####.vdb"
    assert it.mesh_frames(it.colliders[0].shape) == [1, 2, 3, 4, 5, 6]
    solver._cook(4)
    lifted = values(solver._cook(7), "v")[:, 1]
    assert solver.errors() == ()
    assert solver.warnings() == ()
    assert lifted.max() > 0.2  # 0.02 m a frame are 0.48 m/s
    watch, inputs = Watch(), Inputs(solver, 7)
    assert not watch.changed(inputs, 2)
    rising._make = lambda f: ball(x=0.3, y=-0.3 + 0.02 * f)  # by a voxel
    rising._dirty()
    assert watch.changed(Inputs(solver, 7), 2)


@needs_openvdb
def test_velocities_beside_a_vdb_that_moves_are_its_own(tmp_path: Path) -> None:
    """A ball that spins shows it to fluid by a VDB of vectors only; they are of the picture."""
    spin = breeze((0.0, 0.0, 2.0), low=-20, size=40)
    ball_now = vdb_of(*(grids_in(prim._data.content)[0] for prim in ball().prims()), spin)
    solver = pool(water(), upstream(lambda f: ball_now), timescale=0.5)
    made = gathering(solver, tmp_path)
    it = made.scene()
    (collider,) = it.colliders
    made.need(2)
    assert len(read_grids(tmp_path / "collider_1_0001.vdb")) == 2
    field = MeshField(it, collider, collider.shape, "c")
    _, now, _ = field.at(0.5 / it.fps)
    side, top = now.velocity_at([[0.55, -0.2, 0.25], [0.25, -0.2, 0.55]])
    np.testing.assert_allclose(side, [0, 0, 4], atol=0.1)  # along the surface
    np.testing.assert_allclose(top, 0, atol=0.1)  # not across it
    assert field.take_notes() == []


@needs_openvdb
@pytest.mark.parametrize("with_openvdb", [True, False])
def test_vdbs_of_vectors_are_velocity_fields(
    tmp_path: Path, with_openvdb: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a .vdb file, or through points where Houdini has no OpenVDB for Python."""
    if not with_openvdb:
        monkeypatch.setattr("runnel_houdini.volumes.available", lambda: False)
    fog = openvdb().FloatGrid()
    fog.name = "density"
    geo = vdb_of(fog, breeze((3.0, 0.0, 0.0), low=-4, size=12))
    solver = pool(water((0.1, 0.1, 0.1), (0.3, 0.3, 0.3)), None, upstream(geo), timescale=0.5,
                  fieldstrength=2.0, gravity=(0.0, 0.0, 0.0))  # fmt: skip
    (force,) = scene(solver, tmp_path).forces
    assert (force.kind, force.name, force.strength, force.field_scale) == ("field", "vel", 2, 2)
    flow = read_flow(tmp_path / str(force.field), force.field_scale, force.voxel_size)
    assert flow.voxel == pytest.approx(0.05)
    assert flow.fastest == pytest.approx(6)
    assert flow.values[..., 3].sum() == pytest.approx(12**3, rel=1e-5)
    speed = values(solver._cook(3), "v")[:, 0].mean()
    assert solver.errors() == ()
    assert speed == pytest.approx(3 * (1 - np.exp(-2 * 2 / 48)), rel=0.05)


@needs_openvdb
def test_velocity_fields_may_move(tmp_path: Path) -> None:
    gust = upstream(lambda f: vdb_of(breeze((f, 0.0, 0.0), -4, 12)))
    made = gathering(pool(water(), None, gust), tmp_path)
    (force,) = made.scene().forces
    assert (force.field, force.field_frames) == ("field_1_####.vdb", (1, 6))
    made.need(3)
    assert read_flow(tmp_path / "field_1_0003.vdb").fastest == 3


def test_points_with_v_are_a_velocity_field(tmp_path: Path) -> None:
    """Beside points that are forces, which are none of it; a file a frame where they move."""
    places = np.stack(np.meshgrid(*(np.arange(4) * 0.3,) * 3), axis=-1).reshape(-1, 3)

    def cloud(frame: float) -> Geometry:
        v = np.tile([frame, 0, 0], (64, 1))
        geo = points(places, v=v, runnel_strength=np.zeros(64))
        geo.addAttrib(hou.attribType.Point, "runnel_kind", "")
        geo.setPointStringAttribValues("runnel_kind", ["drag"] + [""] * 63)
        return geo

    made = gathering(pool(water(), None, upstream(cloud), fieldstrength=4.0), tmp_path)
    it = made.scene()
    drag, field = it.forces
    assert (drag.kind, field.kind, field.strength) == ("points", "field", 4.0)
    assert len(read_points(it.mesh_path(drag.file, 1))) == 1
    assert field.field == "field_points_####.bgeo"
    made.need(2)
    found = read_points(tmp_path / "field_points_0002.bgeo")
    assert len(found) == 63
    assert found.velocity is not None
    assert (found.velocity[:, 0] == 2).all()
    still = pool(water(), None, upstream(points(places, v=np.ones((64, 3)))))
    assert values(still._cook(3), "v")[:, 0].mean() > 0.05
    assert still.errors() == ()


@needs_openvdb
def test_level_sets_become_polygons_without_openvdb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as Houdini converts them; else it is said what to do."""
    monkeypatch.setattr("runnel_houdini.pieces.available", lambda: False)
    solver = pool(water(), upstream(ball()))
    with pytest.raises(RunnelError, match="Convert VDB"):
        scene(solver, tmp_path)
    asked: list[Any] = []

    def convert(name: str, geo: Geometry, parms: Any) -> Geometry:
        asked.append((name, parms))
        return box((2, 0, 0), (3, 1, 1))

    monkeypatch.setattr("runnel_houdini.pieces.made_by", convert)
    it = scene(solver, tmp_path)
    assert asked == [("convertvdb", {"conversion": "poly"})]
    assert read_mesh(it.mesh_path(it.colliders[0].shape)).volume() == pytest.approx(1.0)


def test_bodies_float_and_come_out(tmp_path: Path) -> None:
    raft = upstream(box((0.1, 0.6, 0.1), (0.4, 0.7, 0.4)))
    solver = pool(water(), None, None, raft, bodydensity=300.0, outbodies=1)
    it = scene(solver, tmp_path)
    assert (it.colliders[0].body, it.colliders[0].density) == ("rigid", 300.0)
    start = solver._cook(1)
    assert solver.errors() == ()
    assert start.primCount() == 12
    assert [g.name() for g in start.primGroups()] == ["body_1"]
    before = values(start, "P")[-8:, 1].mean()
    assert values(solver._cook(4), "P")[-8:, 1].mean() < before - 0.01


def test_points_of_the_third_input_are_forces(tmp_path: Path) -> None:
    geo = points([[0, 1, 0], [0, 0, 0]], v=np.array([[2.0, 0, 0], [0, 0, 0]]),
                 runnel_strength=np.array([0.5, 3.0]), pscale=np.array([4.0, 1.0]))  # fmt: skip
    geo.addAttrib(hou.attribType.Point, "runnel_kind", "")
    geo.setPointStringAttribValues("runnel_kind", ["wind", "point"])
    it = scene(pool(water(), None, upstream(geo), timescale=0.5), tmp_path)
    wind, pull = it.forces
    assert (wind.kind, wind.velocity, wind.strength) == ("wind", (4, 0, 0), 0.5)
    assert (pull.kind, pull.center, pull.radius) == ("point", (0, 0, 0), 1.0)


def test_names_are_made_fit(tmp_path: Path) -> None:
    geo = box((2, 0, 0), (3, 1, 1))
    box((4, 0, 0), (5, 1, 1), geo=geo)
    geo.addAttrib(hou.attribType.Prim, "name", "")
    geo.setPrimStringAttribValues("name", ["a/b"] * 6 + ["a\\b"] * 6)
    it = scene(pool(water(), upstream(geo)), tmp_path)
    assert [c.name for c in it.colliders] == ["a_b", "a_b_2"]


def test_a_piece_of_an_unknown_fluid_says_so(tmp_path: Path) -> None:
    given = marked("fluid_source", points(some()), fluid="ketchup", kind="points")
    with pytest.raises(RunnelError, match="ketchup"):
        scene(pool(upstream(given)), tmp_path)


# --- sources and forces that move -----------------------------------------------------------------


def mouth(frame: float) -> Geometry:
    """A nozzle that goes along x, 0.1 m a frame."""
    x = 0.1 * frame
    return box((x, 0.6, 0.1), (x + 0.2, 0.7, 0.3))


def test_a_surface_that_emits_is_followed(tmp_path: Path) -> None:
    settings = {"sourcekind": "emitter", "sourcevelocity": (0.0, -2.0, 0.0)}
    solver = pool(upstream(mouth), **settings, gravity=(0.0, 0.0, 0.0), particlesep=0.05)
    made = gathering(solver, tmp_path)
    (source,) = made.scene().sources
    assert (source.shape.file, source.shape.frames) == ("source_1_####.ply", (1, 6))
    assert [p.name for p in tmp_path.iterdir()] == ["source_1_0001.ply"]
    geo = solver._cook(5)
    assert (solver.errors(), solver.warnings()) == ((), ())
    born = values(geo, "age") < 1.01 / 24  # in the last frame, from the mouth at 0.4 to 0.5
    x = values(geo, "P")[:, 0]
    assert 0.4 < x[born].min() < x[born].max() < 0.7
    assert x[~born].min() < 0.3


@pytest.mark.parametrize("frames", [None, (4, 6), (90, 95)])
def test_what_a_source_inherits_needs_the_frame_to_come(
    tmp_path: Path, frames: tuple[int, int] | None
) -> None:
    """It is written ahead of the solver; also where a source opens later."""
    settings = {"sourcekind": "emitter", "sourcevelocity": (0.0, -2.0, 0.0), "endframe": 6}
    settings |= {"sourceinheritvelocity": 1.0, "gravity": (0.0, 0.0, 0.0)}
    settings |= {"usesourceframes": 1, "sourceframes": frames} if frames else {}
    given = upstream(lambda f: with_speed(mouth(f)))
    solver = pool(given, **settings, particlesep=0.05)
    made = gathering(solver, tmp_path)
    (source,) = made.scene().sources
    assert source.velocity == (0, -2, 0)  # v is not counted twice
    made.need(2)
    assert (tmp_path / "source_1_0003.ply").exists()
    counts = [solver._cook(frame).pointCount() for frame in range(1, 7)]
    assert (solver.errors(), solver.warnings()) == ((), ())
    if frames == (90, 95):
        assert counts == [0] * 6
        return
    speed = values(solver._geometry, "v")
    np.testing.assert_allclose(speed[:, 0].mean(), 2.4, rtol=0.05)  # 0.1 m a frame


def with_speed(geo: Geometry) -> Geometry:
    geo.addAttrib(hou.attribType.Point, "v", (2.4, 0.0, 0.0))
    return geo


def test_a_drain_is_followed(tmp_path: Path) -> None:
    def drain(frame: int) -> Geometry:
        low = 0.5 - 0.1 * frame
        hole = box((-0.1, low, -0.1), (0.6, low + 0.2, 0.6))
        return marked("fluid_source", hole, piecename="out", kind="sink")

    drains = {frame: drain(frame) for frame in range(1, 8)}

    def all_of_it(frame: float) -> Geometry:
        geo = box((0, 0, 0), (0.5, 0.5, 0.5))
        geo.merge(drains[int(frame)])
        return geo

    solver = pool(upstream(all_of_it), gravity=(0.0, 0.0, 0.0))
    it = scene(solver, tmp_path)
    assert it.sinks[0].shape.is_sequence
    assert not it.sources[0].shape.is_sequence  # filled once
    counts = [solver._cook(frame).pointCount() for frame in (1, 3, 6)]
    assert solver.errors() == ()
    assert counts[0] == 125 > counts[1] > counts[2] == 0


def puller(frame: float) -> Geometry:
    """An attractor on its way along x; from frame 3 on there is a second force."""
    count = 1 + (frame >= 3)
    places = np.array([[0.3 * frame, 0.25, 0.25], [0.0, 0.0, 0.0]])[:count]
    geo = points(places, id=np.array([5, 9])[:count], runnel_strength=np.full(count, 4.0))
    geo.addAttrib(hou.attribType.Point, "runnel_kind", "")
    geo.setPointStringAttribValues("runnel_kind", ["point", "drag"][:count])
    return geo


def test_points_that_are_forces_are_followed(tmp_path: Path) -> None:
    """They may come, move and go; the fluid goes after them."""
    settings = {"gravity": (0.0, 0.0, 0.0), "usedomain": 0}
    made = gathering(pool(water(), None, upstream(puller)), tmp_path)
    it = made.scene()
    (force,) = it.forces
    assert (force.kind, force.field, force.field_frames) == ("points", "forces_####.bgeo", (1, 6))
    for frame in (2, 3):
        made.need(frame)
    now = pack_forces(it, 2 / 24)
    assert now[:, 0].tolist() == [POINT, WIND]
    np.testing.assert_allclose(now[0, 6:9], [0.9, 0.25, 0.25], rtol=1e-6)
    assert pack_forces(it, 1.5 / 24)[:, 1].tolist() == pytest.approx([4, 2])
    pulls = []
    for give in (puller, lambda frame: puller(1)):
        solver = pool(water(), None, upstream(give), **settings)
        pulls.append(values(solver._cook(6), "P")[:, 0].mean())
        assert (solver.errors(), solver.warnings()) == ((), ())
    assert pulls[0] > 0.25 + 0.02 > pulls[1]


def test_points_of_an_unknown_kind_say_so() -> None:
    geo = puller(1)
    geo.setPointStringAttribValues("runnel_kind", ["magnet"])
    for give in (geo, lambda frame: geo):
        solver = pool(water(), None, upstream(give))
        solver._cook(1)
        assert "magnet" in solver.errors()[0]
        assert "Traceback" not in solver.errors()[0]


# --- bodies by the third input --------------------------------------------------------------------


def raft() -> Geometry:
    return box((0.1, 0.6, 0.1), (0.4, 0.7, 0.4))


def test_polygons_of_the_third_input_are_bodies() -> None:
    """As by the fourth: the same bits."""
    found = []
    for inputs in ((None, upstream(raft())), (None, None, upstream(raft()))):
        solver = pool(water(), *inputs, bodydensity=300.0, outbodies=1)
        geo = solver._cook(3)
        assert (solver.errors(), geo.primCount()) == ((), 12)
        found.append(values(geo, "P").tobytes())
    assert found[0] == found[1]


def test_bodies_and_velocities_in_one_input(tmp_path: Path) -> None:
    """Merged, polygons get a v that they never had."""
    crate = marked("fluid_collider", box((0.6, 0, 0), (0.8, 0.2, 0.2)), piecename="crate",
                   body="rigid", density=700.0)  # fmt: skip
    crate.addAttrib(hou.attribType.Point, "v", (1.0, 0.0, 0.0))  # a body's own, no field
    merged = points(some(), v=np.tile([2.0, 0, 0], (8, 1)))
    merged.merge(raft())
    merged.merge(crate)
    it = scene(pool(water(), None, upstream(merged), upstream(raft())), tmp_path)
    bodies = {c.name: (c.body, c.density) for c in it.colliders}
    assert bodies == {
        "body_1": ("rigid", 500), "body_2": ("rigid", 500), "crate": ("rigid", 700),
    }  # fmt: skip
    files = [it.mesh_path(c.shape).name for c in it.colliders]
    assert len(set(files)) == 3
    (field,) = it.forces
    found = read_points(it.mesh_path(field.file))
    assert len(found) == 8
    moving = with_speed(raft())  # a mesh whose points have v is a field, as curves are
    it = scene(pool(water(), None, upstream(moving)), tmp_path)
    assert (it.colliders, len(it.forces)) == ((), 1)
