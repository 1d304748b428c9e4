"""Export of arrays: which frames, channels, units and axes; NPZ and PLY files."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import runnel
from runnel.cache import Cache
from runnel.cli import main
from runnel.errors import RunnelError, SceneError
from runnel.export import FORMATS, ExportOptions, export_frames
from runnel.export.bgeo_read import read_bgeo
from runnel.export.frames import turning
from runnel.surface import SurfaceOptions, mesh_frames

from .export_caches import channels, filled


def exported(cache: Path, kind: str = "npz", **options: object) -> list[Path]:
    return export_frames(cache, ExportOptions(format=kind, **options))  # type: ignore[arg-type]


# ---- options, units, axes


@pytest.mark.parametrize(
    "wrong",
    [
        {"format": "abc"},
        {"up": "x"},
        {"scale": 0.0},
        {"scale": float("nan")},
        {"voxel": -1.0},
        {"surface": True},
    ],
)
def test_wrong_options_name_the_key(wrong: dict[str, object]) -> None:
    with pytest.raises(SceneError, match=f"export.{next(iter(wrong))}"):
        ExportOptions(**{"format": "npz", **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["vdb", "ply", "npz"])
@pytest.mark.parametrize("option", ["surface", "colliders"])
def test_formats_without_meshes_say_so(kind: str, option: str) -> None:
    with pytest.raises(SceneError, match=f"export.{option}.*use usd or bgeo"):
        ExportOptions(format=kind, **{option: True})  # type: ignore[arg-type]


def test_npz_holds_every_channel(tmp_path: Path) -> None:
    """Read by plain numpy, bit for bit."""
    files = exported(filled(tmp_path))
    assert [path.name for path in files] == [f"particles.{k:04d}.npz" for k in (1, 2, 3)]
    with np.load(files[1], allow_pickle=False) as npz:
        for name, values in channels(2).items():
            assert npz[name].dtype == values.dtype
            np.testing.assert_array_equal(npz[name], values)
        header = json.loads(npz["runnel.header"].item())
    assert header["detail"]["frame"] == 2
    assert header["fluids"] == ["water", "palm oil"]


def test_lengths_are_scaled_and_vectors_turned(tmp_path: Path) -> None:
    """z up to y up keeps handedness; density, phase and colours stay."""
    path = exported(filled(tmp_path), scale=100.0, up="y")[0]
    was = channels(1)
    with np.load(path) as npz:
        x, y, z = was["position"].T
        np.testing.assert_allclose(npz["position"], 100 * np.stack([x, z, -y], 1), rtol=1e-6)
        x, y, z = was["velocity"].T
        np.testing.assert_allclose(npz["velocity"], 100 * np.stack([x, z, -y], 1), rtol=1e-6)
        np.testing.assert_allclose(npz["radius"], 5.0, rtol=1e-6)
        for name in ("density", "phase", "id", "color"):
            np.testing.assert_array_equal(npz[name], was[name])
        header = json.loads(npz["runnel.header"].item())
    assert header["detail"]["momentum"] == [100.0, 300.0, -200.0]


@pytest.mark.parametrize(("source", "target"), [("z", "y"), ("y", "z")])
def test_turning_is_a_rotation(source: str, target: str) -> None:
    turn = turning(source, target)
    up = {"y": [0, 1, 0], "z": [0, 0, 1]}
    assert (turn @ up[source]).tolist() == up[target]
    assert np.linalg.det(turn) == 1
    np.testing.assert_array_equal(turn @ turning(target, source), np.eye(3))


def test_colours_are_those_of_the_fluids_if_there_is_no_channel(tmp_path: Path) -> None:
    fluids = [{"name": "a", "color": [1, 0, 0]}, {"name": "b", "color": [0, 1, 0]}]
    cache = Cache.create(tmp_path / "cache", {"fluid": fluids})
    arrays = channels(1)
    del arrays["color"]
    cache.write(1, arrays)
    export_frames(cache.directory, ExportOptions(format="npz", channels=("color",)), out=tmp_path)
    with np.load(tmp_path / "particles.0001.npz") as found:
        assert set(found.files) == {"runnel.header", "position", "color"}
        np.testing.assert_array_equal(found["color"], np.eye(3)[arrays["phase"]])
    everything = ExportOptions(format="npz")
    export_frames(cache.directory, everything, out=tmp_path)
    with np.load(tmp_path / "particles.0001.npz") as found:
        assert "color" not in found.files  # nobody asked


def test_position_comes_always(tmp_path: Path) -> None:
    path = exported(filled(tmp_path), channels=("density",))[0]
    with np.load(path) as npz:
        assert sorted(npz.files) == ["density", "position", "runnel.header"]
    with pytest.raises(RunnelError, match="'heat'"):
        exported(tmp_path, channels=("heat",))
    houdini = read_bgeo(exported(tmp_path, "bgeo", channels=("density",))[0])
    assert sorted(houdini.points) == ["P", "density", "pscale"]  # nothing to see without a radius


def test_a_cache_without_positions_is_explained(tmp_path: Path) -> None:
    Cache.create(tmp_path, {"name": "x"}).write(1, {"id": np.arange(3, dtype=np.uint32)})
    with pytest.raises(RunnelError, match="position"):
        exported(tmp_path)


# ---- files


def test_old_output_stays_when_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import runnel.cache.files as files

    old = exported(filled(tmp_path))[0].read_bytes()

    def refuse(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", refuse)
    with pytest.raises(RunnelError, match="No space left"):
        exported(tmp_path, scale=2.0)
    folder = tmp_path / "export"
    assert (folder / "particles.0001.npz").read_bytes() == old
    assert len(list(folder.iterdir())) == 3


def test_interrupt_leaves_whole_frames(tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_frames(filled(tmp_path), ExportOptions(format="ply"), on_frame=stop)
    names = sorted(path.name for path in (tmp_path / "export").iterdir())
    assert names == ["particles.0001.ply", "particles.0002.ply"]


def test_ply_is_read_by_plyfile(tmp_path: Path) -> None:
    """A reader we did not write: every number of every channel."""
    plyfile = pytest.importorskip("plyfile")
    files = exported(filled(tmp_path), "ply")
    data = plyfile.PlyData.read(str(files[2]))
    assert data.byte_order == "<"
    assert not data.text
    vertex, was = data["vertex"], channels(3)
    assert len(vertex) == 43
    for k, axis in enumerate("xyz"):
        np.testing.assert_array_equal(vertex[axis], was["position"][:, k])
        np.testing.assert_array_equal(vertex[f"v{axis}"], was["velocity"][:, k])
        np.testing.assert_array_equal(vertex[f"color_{k}"], was["color"][:, k])
    for name in ("radius", "density", "phase", "id", "age"):
        assert vertex[name].dtype == was[name].dtype
        np.testing.assert_array_equal(vertex[name], was[name])
    assert "phase 1 is palm oil" in data.comments


def test_ply_takes_odd_types_and_names(tmp_path: Path) -> None:
    plyfile = pytest.importorskip("plyfile")
    arrays = {
        "x": np.arange(3, dtype=np.int64),
        "position": np.zeros((3, 3), np.float64),
        "half": np.ones((3, 2), np.float16),
        "flag": np.array([True, False, True]),
        "big": np.array([1, 2, 2**40]),
        "long": np.array([1, 2, 2**32 - 1], np.uint64),
    }
    Cache.create(tmp_path, {"name": "x", "fluid": [{"name": "\u00f6l\n"}]}).write(1, arrays)
    vertex = plyfile.PlyData.read(str(exported(tmp_path, "ply")[0]))["vertex"]
    assert vertex["x_"].tolist() == [0, 1, 2]
    assert vertex["x"].tolist() == [0, 0, 0]
    assert vertex["half_1"].tolist() == [1, 1, 1]
    assert vertex["flag"].tolist() == [1, 0, 1]
    assert vertex["big"].tolist() == [1, 2, 2**40]
    assert vertex["long"].tolist() == [1, 2, 2**32 - 1]


@pytest.mark.parametrize("kind", ["npz", "ply"])
def test_a_frame_without_particles_is_a_file(tmp_path: Path, kind: str) -> None:
    empty = {name: values[:0] for name, values in channels(1).items()}
    Cache.create(tmp_path, {"name": "x"}).write(7, empty)
    assert exported(tmp_path, kind)[0].name == f"particles.0007.{kind}"


# ---- the command


def test_guide_names_every_option_and_format() -> None:
    guide = Path(__file__).resolve().parents[2] / "docs/guide/export.md"
    text = guide.read_text(encoding="utf-8")
    flags = [f"--{item.name}" for item in dataclasses.fields(ExportOptions)]
    assert [word for word in (*flags, *FORMATS) if f"`{word}`" not in text] == ["--format"]


def test_command_exports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    filled(tmp_path / "cache")
    words = ["export", str(tmp_path / "cache"), "--format", "ply", "--out", str(tmp_path / "out")]
    assert main([*words, "--frames", "2-", "--channels", "id", "density", "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert [Path(f).name for f in files] == ["particles.0002.ply", "particles.0003.ply"]
    assert main(words) == 0
    assert "(3 files)" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["--format", "abc"], ["--format", "npz", "--frames", "8-9"]])
def test_wrong_usage_is_status_2(tmp_path: Path, words: list[str]) -> None:
    assert main(["export", str(filled(tmp_path)), *words]) == 2


def test_exporting_loads_no_heavy_library(tmp_path: Path) -> None:
    code = (
        "import sys; from runnel.export import ExportOptions, export_frames\n"
        f"export_frames({str(filled(tmp_path))!r}, ExportOptions(format='npz'))\n"
        "print(*{n.split('.')[0] for n in sys.modules} & {'pxr', 'openvdb', 'numba', 'pyopencl'})"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(runnel.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_long_shots_stream(tmp_path: Path) -> None:
    """Four times the frames take no more memory: export, verification, surfaces, report."""

    def most(frames: int) -> list[int]:
        folder = tmp_path / str(frames)
        axis = np.arange(20, dtype=np.float32) * np.float32(0.1)
        points = np.stack(np.meshgrid(axis, axis, axis), -1).reshape(-1, 3)
        cache = Cache.create(folder, {"name": "long"})
        for frame in range(1, frames + 1):
            cache.write(frame, {"position": points, "radius": np.full(8000, 0.05, np.float32)})
        peaks = []
        for work in (
            lambda: export_frames(folder, ExportOptions(format="ply")),
            lambda: cache.verify(finite=True),
            lambda: mesh_frames(folder, options=SurfaceOptions(jobs=1, cube_size=2.0)),
        ):
            tracemalloc.start()
            work()
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        return peaks

    most(1)  # compiles
    for few, many in zip(most(4), most(16), strict=True):
        assert many < 1.3 * few
