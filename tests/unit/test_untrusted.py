"""Files from outside: whatever they hold, the answer is a result or an error that names them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runnel.cache import Cache
from runnel.cli import main
from runnel.errors import CacheError, MeshError, RunnelError, SceneError
from runnel.export import ExportOptions, export_frames
from runnel.export.surfaces import read_surface
from runnel.fields.flow import read_flow, velocities_beside
from runnel.fields.surfaces import read_image
from runnel.fields.vdb import available, openvdb, read_vdb
from runnel.points import read_points
from runnel.scene import Scene, example_path
from runnel.surface import Mesh, write_mesh

QUICK = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
CHANGES = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=6)


def changed(raw: bytes, changes: list[tuple[float, int]], cut: float | None) -> bytes:
    """Bytes replaced at places given as shares of the length, then cut."""
    data = bytearray(raw)
    for place, value in changes:
        data[min(int(place * len(data)), len(data) - 1)] = value
    return bytes(data if cut is None else data[: int(cut * len(data))])


@contextmanager
def or_refused(kind: type[RunnelError], name: str) -> Iterator[None]:
    """All goes well, or an error of this kind names the file."""
    try:
        yield
    except kind as error:
        if name not in str(error):
            raise AssertionError(f"{name} is not named: {error}") from error


# --- scenes ---------------------------------------------------------------------------------------


@QUICK
@given(CHANGES, st.none() | st.floats(0, 1), st.sampled_from(["fountain", "seven_liquids"]))
def test_damaged_scene_files(
    tmp_path: Path, changes: list[tuple[float, int]], cut: float | None, name: str
) -> None:
    path = tmp_path / "scene.toml"
    path.write_bytes(changed(example_path(name).read_bytes(), changes, cut))
    with or_refused(SceneError, "scene.toml"):
        Scene.load(path)


@QUICK
@given(st.text(max_size=300), st.sampled_from([".toml", ".json"]))
def test_noise_as_a_scene(tmp_path: Path, text: str, suffix: str) -> None:
    path = tmp_path / f"scene{suffix}"
    path.write_text(text, encoding="utf-8", errors="replace")
    with pytest.raises(SceneError, match=f"scene\\{suffix}"):
        Scene.load(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deep.json", "[" * 100_000),
        ("deep.json", '{"a":' * 50_000),
        ("deep.toml", "a = " + "[" * 100_000),
        ("deep.toml", "a" + ".a" * 100_000 + " = 1"),
        ("large.json", '{"seed": 1' + "0" * 10_000 + "}"),
        ("large.toml", "fps = 1e999"),
        ("many.toml", "[[source]]\n" * 20_000),
    ],
)
def test_absurd_scenes(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(SceneError, match=name):
        Scene.load(path)


def test_a_scene_reads_no_file_outside_of_its_folder(tmp_path: Path) -> None:
    """Neither by dots, nor absolutely, nor through a link."""
    inside = tmp_path / "inside"
    inside.mkdir()
    cube = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    (tmp_path / "secret.obj").write_text(cube)
    (inside / "link.obj").symlink_to(tmp_path / "secret.obj")
    source: dict[str, Any] = {"name": "s", "fluid": "water", "spacing": 0.1}
    for file in ("../secret.obj", str(tmp_path / "secret.obj"), "link.obj"):
        data = {"fluid": [{"name": "water"}], "source": [source | {"shape": {"mesh": file}}]}
        with pytest.raises(SceneError, match=r"outside|folder|relative"):
            Scene.from_dict(data, inside)


# --- caches ---------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    made = Cache.create(tmp_path / "cache", {"name": "fuzz"})
    made.write(1, {"x": np.arange(3000, dtype=np.float32).reshape(-1, 3)})
    return made


def replaced(cache: Cache, **members: bytes) -> str:
    """The frame's file with other members, listed in the manifest as if it were ours."""
    method = zipfile.ZIP_DEFLATED
    path = cache.frame_path(1)
    with zipfile.ZipFile(path, "w", method) as pack:
        for name, data in members.items():
            pack.writestr(name.replace("_dot_", "."), data)
    entry = cache.manifest.frames[1]
    sums = {"x": zlib.crc32(next(iter(members.values())))}
    forged = type(entry)(1, entry.count, path.stat().st_size, sums, None, {})
    cache.manifest.frames[1] = forged
    with pytest.raises(CacheError) as caught:
        cache._read(forged, None)
    return str(caught.value)


def npy(shape: tuple[int, ...], data: bytes) -> bytes:
    out = io.BytesIO()
    head = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(out, head)
    return out.getvalue() + data


def test_a_zip_bomb_is_not_unpacked(cache: Cache) -> None:
    """A thousand times its size: what declares more than belongs there is not inflated."""
    bomb = npy((1000, 3), b"\0" * (1 << 26))
    assert "bytes for 'x.npy', at most" in replaced(cache, x_dot_npy=bomb)


def test_names_in_a_zip_are_no_paths(cache: Cache, tmp_path: Path) -> None:
    text = replaced(cache, **{"../../evil_dot_npy": b"x"})
    assert "lacks 'x'" in text
    assert not list(tmp_path.rglob("evil*"))


@QUICK
@given(CHANGES, st.none() | st.floats(0, 1))
def test_damaged_solids(
    tmp_path: Path, changes: list[tuple[float, int]], cut: float | None
) -> None:
    cache = Cache.create(tmp_path / "c", {"name": "solids"})
    points, triangles = np.eye(3, dtype=np.float32), np.array([[0, 1, 2]], np.int32)
    cache.write_solid(0, "tri", points, triangles)
    path = cache.solid_path(0)
    path.write_bytes(changed(path.read_bytes(), changes, cut))
    with or_refused(CacheError, "solid_000.npz"):
        _, vertices, faces, _ = cache.read_solid(0, 1)
        np.testing.assert_array_equal(vertices, points)
        np.testing.assert_array_equal(faces, triangles)


STATES: dict[str, dict[str, Any]] = {
    "no positions": {"position": None},
    "a fluid there is not": {"phase": np.full(125, 7, np.uint32)},
    "fewer velocities": {"velocity": np.zeros((3, 3), np.float32)},
    "no numbers": {"position": np.full((125, 3), np.nan, np.float32)},
    "no size": {"kernel_radius": np.zeros(125, np.float32)},
    "one id": {"id": np.zeros(125, np.uint32)},
    "other shape": {"position": np.zeros((125, 2), np.float32)},
    "no clock": {"meta": {"clock": 3}},
    "no ledger": {"meta": {"ledger": None}},
}


@pytest.mark.parametrize("case", STATES)
def test_forged_checkpoints_are_refused(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Checksums right, contents wrong: nothing of it reaches the device."""
    box = {"box": {"min": [0, 0, 0], "max": [0.25, 0.25, 0.25]}}
    source = {"name": "dam", "fluid": "water", "shape": box, "spacing": 0.05}
    data = {"name": "c", "frames": [1, 3], "fluid": [{"name": "water"}], "source": [source]}
    scene, out = tmp_path / "c.json", tmp_path / "out"
    scene.write_text(json.dumps(data))
    command = ["run", str(scene), "--out", str(out), "--quiet", "--resume"]
    assert main([*command, "--frames", "1-2"]) == 0
    cache = Cache.open(out)
    found = cache.read_checkpoint(2)
    assert found is not None
    _, arrays, meta = found
    forged = dict(STATES[case])
    meta = {**meta, **forged.pop("meta", {})}
    arrays = {n: a for n, a in {**arrays, **forged}.items() if a is not None}
    cache.write_checkpoint(2, arrays, meta)
    assert main(command) == 1
    complaint = capsys.readouterr().err
    assert "checkpoint_000002.npz" in complaint
    assert "Delete it" in complaint
    cache.checkpoint_path(2).unlink()
    assert main(command) == 0


# --- meshes ---------------------------------------------------------------------------------------


@QUICK
@given(CHANGES, st.none() | st.floats(0, 1))
def test_damaged_surfaces(
    tmp_path: Path, changes: list[tuple[float, int]], cut: float | None
) -> None:
    points = np.eye(4, 3, dtype=np.float32)
    faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.int32)
    path = tmp_path / "surface.ply"
    write_mesh(path, Mesh(points, faces, {"normal": points, "heat": points[:, 0]}))
    path.write_bytes(changed(path.read_bytes(), changes, cut))
    with or_refused(MeshError, "surface.ply"):
        mesh = read_surface(path)
        assert mesh.triangles.size == 0 or mesh.triangles.max() < len(mesh.vertices)


# --- points ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Particles with attributes, as our exporters write them."""
    folder = tmp_path_factory.mktemp("points")
    random = np.random.default_rng(2)
    cache = Cache.create(folder / "c", {"name": "p", "fluid": [{"name": "water"}]})
    cache.write(1, {
        "position": random.random((60, 3), np.float32),
        "velocity": random.random((60, 3), np.float32),
        "radius": np.full(60, 0.1, np.float32),
        "phase": np.zeros(60, np.uint32),
        "heat": random.random(60, np.float32),
    })  # fmt: skip
    return {
        f".{kind}": export_frames(cache.directory, ExportOptions(format=kind))[0].read_bytes()
        for kind in ("bgeo", "ply")
    }


@pytest.mark.parametrize("suffix", [".bgeo", ".ply"])
@settings(QUICK, max_examples=150)
@given(CHANGES, st.none() | st.floats(0, 1), st.sampled_from([1.0, 0.2]))
def test_damaged_points(
    points: dict[str, bytes], tmp_path: Path, suffix: str, changes: Any, cut: Any, head: float
) -> None:
    """Sources made of them: particles that are sound, or an error that names the file."""
    path = tmp_path / f"drops{suffix}"
    spots = [(head * place, value) for place, value in changes]
    path.write_bytes(changed(points[suffix], spots, cut))
    with or_refused(MeshError, path.name):
        found = read_points(path)
        assert np.isfinite(found.position).all()
        assert all(len(values) == len(found) for values in found.channels.values())


needs_vdb = pytest.mark.skipif(not available(), reason="OpenVDB is not here (runnel[vdb])")


@pytest.fixture(scope="module")
def ball(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A level set as OpenVDB writes it."""
    module = openvdb()
    path = tmp_path_factory.mktemp("vdb") / "ball.vdb"
    grid = module.createLevelSetSphere(radius=1.0, voxelSize=0.2)
    module.write(str(path), grids=[grid])
    return path.read_bytes()


@needs_vdb
@pytest.mark.parametrize("seed", range(6))
def test_damaged_level_sets(ball: bytes, tmp_path: Path, seed: int) -> None:
    """Damage that would end the process, or never end, ends another one."""
    random = np.random.default_rng(seed)
    data = bytearray(ball)
    for place in random.integers(0, [len(data), 1200][seed % 2], 4):
        data[place] = random.integers(0, 256)
    if seed == 0:
        del data[len(data) // 2 :]
    path = tmp_path / "ball.vdb"
    path.write_bytes(data)
    with or_refused(RunnelError, "ball.vdb"):
        read_vdb(path)


@needs_vdb
def test_a_sound_level_set_passes(ball: bytes, tmp_path: Path) -> None:
    path = tmp_path / "ball.vdb"
    path.write_bytes(ball)
    assert read_vdb(path).voxel == pytest.approx(0.2)


# --- velocity fields ------------------------------------------------------------------------------


def vector_file(path: Path, name: str = "v", far: int = 0, **metadata: Any) -> Path:
    """A block of velocities as OpenVDB writes it; `far`: a voxel that many away as well."""
    module = openvdb()
    grid = module.Vec3SGrid((0.0, 0.0, 0.0))
    grid.name = name
    grid.transform = module.createLinearTransform(voxelSize=0.1)
    grid.copyFromArray(np.random.default_rng(0).random((6, 6, 6, 3)).astype(np.float32))
    if far:
        grid.copyFromArray(np.ones((1, 1, 1, 3), np.float32), ijk=(far, far, far))
    for key, value in metadata.items():
        grid[key] = value
    module.write(str(path), grids=[grid])
    return path


@pytest.fixture(scope="module")
def wind(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return vector_file(tmp_path_factory.mktemp("wind") / "wind.vdb").read_bytes()


@needs_vdb
@pytest.mark.parametrize("reader", [read_flow, velocities_beside])
@settings(QUICK, max_examples=5)  # each starts a process
@given(CHANGES, st.none() | st.floats(0, 1), st.sampled_from([1.0, 0.3]))
def test_damaged_velocity_fields(
    wind: bytes, tmp_path: Path, reader: Any, changes: Any, cut: float | None, head: float
) -> None:
    """Of every byte, or of those at the head, which tell sizes; damage ends another process."""
    path = tmp_path / "wind.vdb"
    path.write_bytes(changed(wind, [(head * place, value) for place, value in changes], cut))
    with or_refused(RunnelError, "wind.vdb"):
        reader(path)


@needs_vdb
@pytest.mark.parametrize("reader", [read_flow, velocities_beside])
def test_a_sound_velocity_field_passes(wind: bytes, tmp_path: Path, reader: Any) -> None:
    path = tmp_path / "wind.vdb"
    path.write_bytes(wind)
    assert reader(path).dims == (8, 8, 8)


@needs_vdb
@pytest.mark.parametrize("reader", [read_flow, velocities_beside])
@pytest.mark.parametrize(
    "odd",
    [
        {"far": 100_000},
        {"far": 2**31 - 2},
        {"runnel_scale": "fast"},
        {"runnel_scale": float("nan")},
        {"runnel_scale": 1e38},
    ],
)
def test_absurd_velocity_fields(tmp_path: Path, reader: Any, odd: dict[str, Any]) -> None:
    """Two voxels far apart would be a grid of terabytes."""
    path = vector_file(tmp_path / "wind.vdb", **odd)
    with pytest.raises(MeshError, match=r"wind\.vdb"):
        reader(path)


@needs_vdb
def test_a_level_set_is_no_velocity_field(ball: bytes, tmp_path: Path) -> None:
    path = tmp_path / "ball.vdb"
    path.write_bytes(ball)
    with pytest.raises(MeshError, match=r"ball\.vdb.*no grid of vectors"):
        read_flow(path)
    assert velocities_beside(path) is None


# --- images ---------------------------------------------------------------------------------------


def image_bytes(suffix: str, mode: str) -> bytes:
    pil = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(1)
    grey = random.integers(0, 255, (12, 9), np.uint8)
    image = pil.fromarray(grey).convert(mode) if mode != "F" else pil.fromarray(grey / 255.0)
    file = io.BytesIO()
    image.save(file, {".jpg": "JPEG", ".tif": "TIFF", ".png": "PNG"}[suffix])
    return file.getvalue()


IMAGES = [(".png", m) for m in ("1", "L", "LA", "P", "RGB", "RGBA")]
IMAGES += [(".jpg", "L"), (".jpg", "RGB"), (".jpg", "CMYK"), (".tif", "RGB"), (".tif", "L")]


@QUICK
@given(CHANGES, st.none() | st.floats(0, 1), st.sampled_from(IMAGES))
def test_damaged_images(
    tmp_path: Path, changes: list[tuple[float, int]], cut: float | None, kind: tuple[str, str]
) -> None:
    path = tmp_path / f"map{kind[0]}"
    path.write_bytes(changed(image_bytes(*kind), changes, cut))
    with or_refused(SceneError, path.name):
        values = read_image(path)
        assert values.ndim == 2
        assert np.isfinite(values).all()


@QUICK
@given(st.binary(max_size=300), st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"II*\0", b"\xff\xd8"]))
def test_noise_as_an_image(tmp_path: Path, noise: bytes, head: bytes) -> None:
    path = tmp_path / "map.png"
    path.write_bytes(head + noise)
    with pytest.raises(SceneError, match=r"map\.png"):
        read_image(path)


@pytest.mark.parametrize(("suffix", "mode"), IMAGES)
def test_whatever_its_colours_an_image_is_read_as_grey(
    tmp_path: Path, suffix: str, mode: str
) -> None:
    """The same picture; transparency is no brightness."""
    path = tmp_path / f"map{suffix}"
    path.write_bytes(image_bytes(suffix, mode))
    plain = tmp_path / "plain.png"
    plain.write_bytes(image_bytes(".png", "L"))
    if mode != "1":  # which is dithered
        difference = np.abs(read_image(path) - read_image(plain))
        assert difference.mean() < (0.1 if suffix == ".jpg" else 0.01)


def png_of(columns: int, rows: int, colour: int) -> bytes:
    """A PNG of zeros, written as small as it gets."""
    channels = {0: 1, 2: 3, 6: 4}[colour]
    packer = zlib.compressobj(9)
    line = b"\0" * (1 + channels * columns)
    data = b"".join(packer.compress(line) for _ in range(rows)) + packer.flush()

    def chunk(kind: bytes, body: bytes) -> bytes:
        check = zlib.crc32(kind + body).to_bytes(4, "big")
        return len(body).to_bytes(4, "big") + kind + body + check

    head = columns.to_bytes(4, "big") + rows.to_bytes(4, "big") + bytes([8, colour, 0, 0, 0])
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def test_images_larger_than_their_files(tmp_path: Path) -> None:
    """Sizes that are only promised are refused; what is read takes little more than its pixels."""
    path = tmp_path / "map.png"
    sound = png_of(8, 8, 6)
    for size in ((2**31 - 1).to_bytes(4, "big"), (20_000).to_bytes(4, "big")):
        head = b"IHDR" + size + size + sound[24:29]
        path.write_bytes(sound[:12] + head + zlib.crc32(head).to_bytes(4, "big") + sound[33:])
        with pytest.raises(SceneError, match=r"map\.png"):
            read_image(path)
    path.write_bytes(png_of(4000, 4000, 6))  # 64 MB in 64 kB
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    assert read_image(path).shape == (4000, 4000)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 5 * 64e6  # 768 MB where all colours were copied


# --- sizes ----------------------------------------------------------------------------------------


def test_no_reader_takes_memory_that_a_file_only_promises(tmp_path: Path) -> None:
    """Headers of a few bytes that declare billions, read with 1 GB at hand."""
    files = {
        "a.ply": b"ply\nformat binary_little_endian 1.0\nelement vertex 4000000000\n"
        b"property float x\nproperty float y\nproperty float z\nelement face 4000000000\n"
        b"property list uchar int vertex_indices\nend_header\n",
        "a.stl": b"\0" * 80 + (4_000_000_000).to_bytes(4, "little"),
        "a.off": b"OFF\n4000000000 4000000000 0\n",
        "a.obj": b"f 1 2 4000000000\n",
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    code = (
        "import resource, sys\n"
        "from runnel.errors import MeshError\n"
        "from runnel.meshes import read_mesh\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n"
        "        read_mesh(path)\n"
        "    except MeshError as error:\n"
        "        print('refused')\n"
    )
    core = str(Path(sys.modules["runnel"].__file__ or "").parents[1])
    paths = [str(tmp_path / name) for name in files]
    done = subprocess.run(
        [sys.executable, "-c", code, *paths],
        env={**os.environ, "PYTHONPATH": core, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["refused"] * 4, done.stderr
