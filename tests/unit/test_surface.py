"""Surfaces: closed, of the right volume, and readable by others."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree

import runnel.surface as surface_module
from runnel.cache import Cache
from runnel.errors import RunnelError, SceneError
from runnel.export.surfaces import read_surface
from runnel.mesh_formats import obj_uvs
from runnel.scene import Scene, example
from runnel.simulation import Simulation
from runnel.surface import Mesh, SurfaceOptions, mesh_frames, surface, surface_of, write_mesh
from runnel.surfacing import enclosed, loops, march
from runnel.surfacing.field import Field, key_of

SCENE = {"name": "mesh", "fluid": [{"name": "water"}, {"name": "oil"}]}
TETRAHEDRON = Mesh(
    np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32),
    np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.int32),
    {"normal": np.eye(4, 3, dtype=np.float32), "velocity": np.ones((4, 3), np.float32)},
)


def block(spacing, size=0.4, offset=0.0, jitter=0.0):
    axis = np.arange(spacing / 2, size, spacing)
    points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    points = points + np.random.default_rng(0).normal(0, jitter * spacing, points.shape)
    count = len(points)
    return {
        "position": (points + np.array([offset, 0, 0])).astype(np.float32),
        "radius": np.full(count, spacing / 2, np.float32),
        "velocity": np.tile(np.float32([1, 2, 3]), (count, 1)),
        "density": np.full(count, 1000, np.float32),
        "phase": np.zeros(count, np.uint32),
    }


def together(*parts):
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def read_ply(path):
    """Independent of the writer: vertices as a structured array, faces (m, 3)."""
    raw = path.read_bytes()
    head, body = raw.split(b"end_header\n", 1)
    lines = head.decode().splitlines()
    assert lines[:2] == ["ply", "format binary_little_endian 1.0"]
    counts = [int(line.split()[2]) for line in lines if line.startswith("element")]
    names = [line.split()[2] for line in lines if line.startswith("property float")]
    vertices = np.frombuffer(body, [(name, "<f4") for name in names], counts[0])
    faces = np.frombuffer(body[vertices.nbytes :], [("n", "u1"), ("i", "<i4", 3)], counts[1])
    assert len(body) == vertices.nbytes + faces.nbytes
    assert (faces["n"] == 3).all()
    return vertices, faces["i"]


def read_obj(path):
    rows = [line.split() for line in path.read_text().splitlines()]
    vertices = np.array([row[1:] for row in rows if row[0] == "v"], float).reshape(-1, 3)
    faces = [[int(word.split("/")[0]) - 1 for word in row[1:]] for row in rows if row[0] == "f"]
    return vertices, np.array(faces).reshape(-1, 3)


# ---- files


def test_volume_of_a_tetrahedron():
    assert TETRAHEDRON.volume == pytest.approx(1 / 6)


def test_ply_holds_vertices_faces_and_attributes(tmp_path):
    write_mesh(tmp_path / "t.ply", TETRAHEDRON)
    vertices, faces = read_ply(tmp_path / "t.ply")
    assert np.array_equal(np.stack([vertices[n] for n in "xyz"], 1), TETRAHEDRON.vertices)
    assert np.array_equal(faces, TETRAHEDRON.triangles)
    assert (vertices["vy"] == 1).all()
    assert vertices["nx"][0] == 1


def test_plyfile_reads_every_value(tmp_path):
    """A reader we did not write: names that others know, colours in bytes."""
    plyfile = pytest.importorskip("plyfile")
    colors = np.float32([[0, 0.5, 1], [-1, 2, 0.2], [np.nan, np.inf, -np.inf], [0.1, 0.9, 0.002]])
    values = {
        **TETRAHEDRON.attributes,
        "density": np.float32([1, 2, 3, 4]),
        "uv": np.arange(8, dtype=np.float32).reshape(4, 2),
        "color": colors,
        "pair": np.arange(8, 16, dtype=np.float32).reshape(4, 2),
    }
    write_mesh(tmp_path / "t.ply", Mesh(TETRAHEDRON.vertices, TETRAHEDRON.triangles, values))
    data = plyfile.PlyData.read(str(tmp_path / "t.ply"))
    vertex = data["vertex"]
    names = {
        "normal": ("nx", "ny", "nz"), "velocity": ("vx", "vy", "vz"), "density": ("density",),
        "uv": ("s", "t"), "pair": ("pair_0", "pair_1"),
    }  # fmt: skip
    for channel, columns in {**names, "position": ("x", "y", "z")}.items():
        wanted = TETRAHEDRON.vertices if channel == "position" else values[channel]
        found = np.stack([vertex[column] for column in columns], 1)
        np.testing.assert_array_equal(found, wanted.reshape(4, -1))
    found = np.stack([vertex[column] for column in ("red", "green", "blue")], 1)
    assert found.dtype == np.uint8
    assert found.tolist() == [[0, 128, 255], [0, 255, 51], [0, 255, 0], [26, 229, 1]]
    known = {"red", "green", "blue", "x", "y", "z", *(c for part in names.values() for c in part)}
    assert {item.name for item in vertex.properties} == known
    np.testing.assert_array_equal(np.stack(data["face"]["vertex_indices"]), TETRAHEDRON.triangles)


def test_channels_named_like_columns_of_others(tmp_path):
    """Both stay, under names of their own."""
    plyfile = pytest.importorskip("plyfile")
    values = {**TETRAHEDRON.attributes, "vx": np.float32([5, 6, 7, 8])}
    write_mesh(tmp_path / "t.ply", Mesh(TETRAHEDRON.vertices, TETRAHEDRON.triangles, values))
    vertex = plyfile.PlyData.read(str(tmp_path / "t.ply"))["vertex"]
    assert vertex["vx"].tolist() == [1, 1, 1, 1]
    assert vertex["vx_"].tolist() == [5, 6, 7, 8]


@pytest.mark.parametrize("channels", [(), ("uv",), ("normal",), ("uv", "normal")])
def test_obj_holds_texture_coordinates_and_normals(tmp_path, channels):
    """vt and vn, and corners that name them; others stay out."""
    every = {
        "normal": np.float32([[0, 0, 1], [0, 1, 0], [1, 0, 0], [0.6, 0, -0.8]]),
        "uv": np.float32([[0, 0], [0.25, 0], [0, 0.5], [1, 0.75]]),
    }
    values = {"density": np.ones(4, np.float32), **{name: every[name] for name in channels}}
    write_mesh(tmp_path / "t.obj", Mesh(TETRAHEDRON.vertices, TETRAHEDRON.triangles, values))
    rows = [line.split() for line in (tmp_path / "t.obj").read_text().splitlines()]
    for channel, word in (("uv", "vt"), ("normal", "vn")):
        found = np.array([row[1:] for row in rows if row[0] == word], np.float32)
        wanted = every[channel] if channel in channels else np.zeros((0,))
        np.testing.assert_array_equal(found, wanted)
    corner = {(): "{0}", ("uv",): "{0}/{0}", ("normal",): "{0}//{0}"}.get(channels, "{0}/{0}/{0}")
    wanted = [[corner.format(v + 1) for v in face] for face in TETRAHEDRON.triangles]
    assert [row[1:] for row in rows if row[0] == "f"] == wanted
    uvs = obj_uvs((tmp_path / "t.obj").read_bytes())
    if "uv" in channels:
        np.testing.assert_array_equal(uvs, every["uv"][TETRAHEDRON.triangles])
    else:
        assert uvs is None


def test_obj_holds_vertices_and_faces(tmp_path):
    write_mesh(tmp_path / "t.obj", TETRAHEDRON)
    vertices, faces = read_obj(tmp_path / "t.obj")
    assert np.allclose(vertices, TETRAHEDRON.vertices)
    assert np.array_equal(faces, TETRAHEDRON.triangles)


def test_failing_write_leaves_the_old_file(tmp_path, monkeypatch):
    import runnel.cache.files as files

    path = tmp_path / "t.ply"
    path.write_bytes(b"old")

    def refuse(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", refuse)
    with pytest.raises(RunnelError, match="No space left"):
        write_mesh(path, TETRAHEDRON)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["t.ply"]


@pytest.mark.parametrize("changes", [{"cube_size": 0}, {"threshold": 2}, {"format": "stl"}])
def test_wrong_options_name_the_key(changes):
    with pytest.raises(SceneError, match=f"mesh.{next(iter(changes))}"):
        SurfaceOptions(**changes)


# ---- reconstruction


def assert_closed(triangles):
    """Every edge belongs to two triangles, which pass it in opposite directions."""
    edges = triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2).astype(np.int64)
    ways = edges[:, 0] << 32 | edges[:, 1]
    assert len(np.unique(ways)) == len(ways)
    assert np.array_equal(np.sort(ways), np.sort(edges[:, 1] << 32 | edges[:, 0]))


def components(mesh):
    """Number of parts that hang together."""
    label = np.arange(len(mesh.vertices))
    while True:
        lowest = label[mesh.triangles].min(axis=1)
        fresh = label.copy()
        for k in range(3):
            np.minimum.at(fresh, mesh.triangles[:, k], lowest)
        fresh = fresh[fresh]
        if np.array_equal(fresh, label):
            return len(np.unique(label))
        label = fresh


def particle_volume(arrays):
    return float(((2 * arrays["radius"].astype(np.float64)) ** 3).sum())


def ball(radius, spacing):
    axis = np.arange(-radius, radius + spacing, spacing)
    points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    points = points[np.linalg.norm(points, axis=1) < radius]
    return {
        "position": points.astype(np.float32),
        "radius": np.full(len(points), spacing / 2, np.float32),
        "velocity": np.cross(points, [0.0, 0.0, -1.0]).astype(np.float32),
        "heat": points[:, 0].astype(np.float32),
        "uv": points[:, :2].astype(np.float32),
        "phase": (points[:, 0] > 0).astype(np.uint32),
    }


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 0.5, 0.9]))
def test_any_field_has_a_closed_surface(seed, threshold):
    """Noise holds every case of marching cubes, also across leaves and where leaves end."""
    random = np.random.default_rng(seed)
    places = np.unique(random.integers(-2, 2, (6, 3)), axis=0)
    keys = np.sort(key_of(places))
    values = random.random((len(keys), 512), dtype=np.float32)
    vertices, triangles = march(Field(0.25, keys, values), threshold)
    assert_closed(triangles)
    assert len(np.unique(triangles)) == len(vertices)
    corner = np.round(vertices / 0.25 - 0.5)  # vertices lie on edges between corners
    assert np.abs(vertices / 0.25 - corner).max() <= 1.5
    assert enclosed(vertices, triangles) > 0


@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_surface_encloses_the_fluids_volume(jitter):
    """A block of 4096 particles, also without the final correction."""
    arrays = block(0.025, jitter=jitter)
    for keep, tolerance in ((True, 1e-3), (False, 0.02)):
        mesh = surface_of(arrays, SurfaceOptions(keep_volume=keep))
        assert mesh.volume == pytest.approx(0.4**3, rel=tolerance)
        assert_closed(mesh.triangles)
    lengths = np.linalg.norm(mesh.attributes["normal"], axis=1)
    assert np.allclose(lengths, 1, atol=1e-3)
    assert np.allclose(mesh.attributes["velocity"], [1, 2, 3], rtol=1e-3)


@pytest.mark.parametrize("name", ["dam_break", "dam_ratio_02_mixed", "fountain"])
def test_splashes_keep_their_volume(name):
    """Spray, sheets and mixed radii of shipped scenes: within 2 %, and closed."""
    data = example(name).to_dict()
    for source in data["source"]:
        source["spacing"] *= 1.5
    with Simulation(Scene.from_dict(data), timed=False) as sim:
        sim.advance(28)
        arrays = {n: sim.particles[n] for n in ("position", "radius", "velocity")}
    mesh = surface_of(arrays)
    assert mesh.volume == pytest.approx(particle_volume(arrays), rel=0.02)
    assert_closed(mesh.triangles)
    sizes = np.ptp(arrays["position"], axis=0)
    assert np.all(np.ptp(mesh.vertices, axis=0) < sizes + 4 * arrays["radius"].max())


def test_smoothing_does_not_shrink():
    """A ball of 2100 particles, and three that make a drop, beside it; after 20 and 200 rounds."""
    drop = {"position": np.float32([[1, 0, 0], [1.022, 0, 0], [1.01, 0.02, 0]])}
    drop["radius"] = np.full(3, 0.0125, np.float32)
    both = together(drop, {name: ball(0.2, 0.025)[name] for name in drop})

    def volumes(rounds):
        mesh = surface_of(both, SurfaceOptions(smoothing_rounds=rounds, keep_volume=False))
        far = mesh.vertices[mesh.triangles[:, 0], 0] > 0.5
        vertices = mesh.vertices.astype(np.float64)
        return enclosed(vertices, mesh.triangles[far]), enclosed(vertices, mesh.triangles[~far])

    raw = volumes(0)
    for rounds in (20, 200):
        assert volumes(rounds) == pytest.approx(raw, rel=0.01)


def test_smoothing_smooths():
    """On a ball of cubes normals point away from its middle, the better for smoothing."""

    def error(rounds):
        options = SurfaceOptions(smoothing_rounds=rounds, keep_volume=False)
        mesh = surface_of(ball(0.2, 0.025), options)
        out = mesh.vertices / np.linalg.norm(mesh.vertices, axis=1)[:, None]
        cosine = np.einsum("ij,ij->i", out, mesh.attributes["normal"])
        return np.degrees(np.arccos(cosine.clip(-1, 1))).mean()

    errors = [error(rounds) for rounds in (0, 20, 50)]
    assert errors[1] < 0.85 * errors[0]
    assert errors[2] < 0.6 * errors[0]


def test_radii_that_touch_make_one_surface():
    """Two blocks side by side, one twice as coarse: one closed part of their common volume."""
    both = together(block(0.025), block(0.05, offset=0.4))
    mesh = surface_of(both)
    assert components(mesh) == 1
    assert_closed(mesh.triangles)
    assert mesh.volume == pytest.approx(particle_volume(both), rel=1e-3)
    loose = surface_of(both, SurfaceOptions(keep_volume=False))
    assert loose.volume == pytest.approx(2 * 0.4**3, rel=0.02)
    apart = surface_of(together(block(0.025), block(0.05, offset=1.0)))
    assert components(apart) == 2


def test_lone_particles_are_drops_of_their_size():
    """Radii of 1 : 10 in one frame; each drop has the volume of its particle."""
    arrays = {
        "position": np.float32([[0, 0, 0], [3, 0, 0]]),
        "radius": np.float32([0.1, 1.0]),
    }
    mesh = surface_of(arrays, SurfaceOptions(keep_volume=False))
    assert components(mesh) == 2
    large = mesh.triangles[mesh.vertices[mesh.triangles[:, 0], 0] > 1]
    assert enclosed(mesh.vertices.astype(float), large) == pytest.approx(8.0, rel=0.2)
    assert mesh.volume == pytest.approx(8.008, rel=0.2)


def test_any_channel_is_carried_to_the_vertices():
    """Linear channels come out linear, whole numbers as those of the nearest particle."""
    mesh = surface_of(ball(0.2, 0.02), SurfaceOptions(channels=("velocity", "heat", "uv", "phase")))
    x, y, _ = mesh.vertices.T
    found = mesh.attributes
    assert list(found) == ["normal", "velocity", "heat", "uv", "phase"]
    assert np.abs(found["heat"] - x).max() < 0.02  # a spacing, for nothing lies outside
    assert np.corrcoef(found["heat"], x)[0, 1] > 0.999
    assert np.abs(found["uv"] - np.stack([x, y], 1)).max() < 0.02
    assert np.abs(found["velocity"] - np.cross(mesh.vertices, [0, 0, -1])).max() < 0.02
    clear = np.abs(x) > 0.02
    assert np.array_equal(found["phase"][clear], (x > 0)[clear])


def test_colours_of_fluids_are_carried(tmp_path):
    """As light, where the cache has no channel of that name; they blend where fluids touch."""
    fluids = [{"name": "a", "color": [1, 0, 0]}, {"name": "b", "color": [0, 0, 0.5]}]
    cache = Cache.create(tmp_path, {"name": "x", "fluid": fluids})
    both = together(block(0.05), block(0.05, offset=0.4))
    both["phase"][both["position"][:, 0] > 0.4] = 1
    cache.write(1, both)
    (file,) = mesh_frames(tmp_path, options=SurfaceOptions(channels=("color",)))
    mesh = read_surface(file)
    x, color = mesh.vertices[:, 0], mesh.attributes["color"]
    assert set(mesh.attributes) == {"normal", "color"}
    np.testing.assert_allclose(color[x < 0.3], [[1, 0, 0]] * (x < 0.3).sum(), atol=0.01)
    dark = ((0.5 + 0.055) / 1.055) ** 2.4
    np.testing.assert_allclose(color[x > 0.5], [[0, 0, dark]] * (x > 0.5).sum(), atol=0.01)
    between = color[np.abs(x - 0.4) < 0.01]
    assert len(between)
    assert (np.abs(between[:, 0] - 0.5) < 0.3).all()
    cache.write(2, {**both, "color": np.full((len(both["phase"]), 3), 0.25, np.float32)})
    (file,) = surface(tmp_path, 2, options=SurfaceOptions(channels=("color",)))
    np.testing.assert_allclose(read_surface(file).attributes["color"], 0.25, atol=0.003)


def test_frames_are_made_at_the_same_time(tmp_path, monkeypatch):
    """Two frames meet in the middle of their work, which one after the other never do."""
    cache = Cache.create(tmp_path, SCENE)
    for frame in range(1, 5):
        cache.write(frame, block(0.1))
    meeting, real = threading.Barrier(2, timeout=20), surface_module.surface_of

    def met(*args):
        meeting.wait()
        return real(*args)

    monkeypatch.setattr(surface_module, "surface_of", met)
    assert len(mesh_frames(tmp_path, options=SurfaceOptions(jobs=2))) == 4
    compiled = [loop for loop in vars(loops).values() if hasattr(loop, "targetoptions")]
    assert compiled
    assert all(loop.targetoptions.get("nogil") for loop in compiled)  # they let others work


def test_far_from_the_origin_nothing_changes():
    near, far = ball(0.1, 0.02), ball(0.1, 0.02)
    far["position"] = far["position"] + np.float32([4096, 0, 0])
    a, b = surface_of(near), surface_of(far)
    assert b.volume == pytest.approx(a.volume, rel=0.02)
    strays = {**near, "position": near["position"] * np.float32(1e7)}
    with pytest.raises(RunnelError, match="Remove strays"):
        surface_of(strays)


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr("runnel.surfacing.field.MEMORY", 100_000)
    with pytest.raises(RunnelError, match="--cube-size"):
        surface_of(block(0.025))


def test_agrees_with_splashsurf():
    """An independent program finds the same surface: half a radius apart at most, nearly."""
    library = pytest.importorskip("pysplashsurf")
    arrays = block(0.025, jitter=0.1)
    mesh = surface_of(arrays, SurfaceOptions(smoothing_rounds=0, keep_volume=False))
    theirs, _ = library.reconstruction_pipeline(
        arrays["position"], particle_radius=0.0125, smoothing_length=2.0, cube_size=0.5,
        iso_surface_threshold=0.57,
    )  # fmt: skip
    other = Mesh(
        np.array(theirs.mesh.vertices, np.float32), np.array(theirs.mesh.triangles, np.int32)
    )
    assert mesh.volume == pytest.approx(other.volume, rel=2e-3)
    for a, b in ((mesh, other), (other, mesh)):
        away, _ = cKDTree(b.vertices).query(a.vertices)
        assert np.quantile(away, 0.99) < 0.5 * 0.0125


def test_frames_at_the_same_time_are_the_same_files(tmp_path):
    cache = Cache.create(tmp_path / "cache", SCENE)
    for frame in range(1, 7):
        cache.write(frame, block(0.05, offset=0.1 * frame))
    calls = []
    one = mesh_frames(tmp_path / "cache", out=tmp_path / "1", options=SurfaceOptions(jobs=1))
    options = SurfaceOptions(jobs=3)
    many = mesh_frames(
        tmp_path / "cache", out=tmp_path / "3", options=options, on_frame=lambda *n: calls.append(n)
    )
    assert [path.name for path in one] == [path.name for path in many]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in many]
    assert calls == [(n, 6) for n in range(1, 7)]


def test_a_frame_that_fails_ends_all_of_them(tmp_path):
    cache = Cache.create(tmp_path, SCENE)
    for frame in range(1, 6):
        cache.write(frame, block(0.1))
    cache.frame_path(3).write_bytes(b"PK")
    with pytest.raises(RunnelError, match="frame_000003"):
        mesh_frames(tmp_path, options=SurfaceOptions(jobs=2))


def test_frames_are_written_together_or_by_fluid(tmp_path):
    cache = Cache.create(tmp_path, SCENE)
    two = together(block(0.05), block(0.05, offset=1.0))
    two["phase"][two["position"][:, 0] > 0.7] = 1
    cache.write(1, two)
    cache.write(2, {name: values[:0] for name, values in two.items()})
    calls = []
    files = mesh_frames(tmp_path, on_frame=lambda *n: calls.append(n))
    assert [path.name for path in files] == ["surface_000001.ply", "surface_000002.ply"]
    assert calls == [(1, 2), (2, 2)]
    vertices, faces = read_ply(files[0])
    assert len(faces) > 1000
    assert {"nx", "vx", "density"} <= set(vertices.dtype.names)
    assert [len(part) for part in read_ply(files[1])] == [0, 0]
    options = SurfaceOptions(each_fluid=True, format="obj")
    files = surface(tmp_path, 1, tmp_path / "out", options)
    assert [path.name for path in files] == ["surface_water_000001.obj", "surface_oil_000001.obj"]
    water, oil = (read_obj(path)[0] for path in files)
    assert water[:, 0].max() < 0.7 < oil[:, 0].min()


def test_fluids_of_like_names_have_files_of_their_own(tmp_path):
    """Three that touch; each file encloses what its fluid has. Case may not count on a disk."""
    sizes = {"a b": 0.4, "a_b": 0.3, "A?B": 0.2}
    cache = Cache.create(tmp_path, {"name": "x", "fluid": [{"name": name} for name in sizes]})
    blocks = [
        block(0.05, size, sum(list(sizes.values())[:k])) for k, size in enumerate(sizes.values())
    ]
    for phase, part in enumerate(blocks):
        part["phase"][:] = phase
    cache.write(1, together(*blocks))
    files = surface(tmp_path, 1, options=SurfaceOptions(each_fluid=True))
    names = [f"surface_{name}_000001.ply" for name in ("a_b", "a_b_", "A_B__")]
    assert [path.name for path in files] == names
    for path, size in zip(files, sizes.values(), strict=True):
        vertices, faces = read_ply(path)
        places = np.stack([vertices[axis] for axis in "xyz"], 1)
        assert Mesh(places, faces).volume == pytest.approx(size**3, rel=0.02)


def test_what_cannot_be_meshed_is_explained(tmp_path):
    arrays = block(0.05)
    arrays["position"][5, 2] = np.nan
    with pytest.raises(RunnelError, match="Particle 5"):
        surface_of(arrays)
    Cache.create(tmp_path / "a", {**SCENE, "dimensions": 2}).write(1, block(0.05))
    with pytest.raises(RunnelError, match="2D"):
        surface(tmp_path / "a", 1)
    Cache.create(tmp_path / "b", SCENE).write(1, block(0.05))
    with pytest.raises(RunnelError, match="'heat'"):
        surface(tmp_path / "b", 1, options=SurfaceOptions(channels=("heat",)))
    with pytest.raises(RunnelError, match="frame 7"):
        surface(tmp_path / "b", 7)


def test_no_particles_no_triangles():
    mesh = surface_of({name: values[:0] for name, values in block(0.1).items()})
    assert mesh.volume == 0
    assert len(mesh.triangles) == 0
