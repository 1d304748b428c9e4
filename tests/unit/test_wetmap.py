"""Wet maps: texels, cover, drying, files, feedback, resuming."""

from __future__ import annotations

import errno
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

import runnel
from runnel.branching import restore
from runnel.errors import CacheError, SceneError
from runnel.fields.texels import cover_texels, nearest_texels, texels_of
from runnel.images import write_exr, write_png

from .test_surfaces import PLATE


def plate_scene(folder: Path, **keys: object) -> runnel.Scene:
    """A drop that falls onto the right half of a plate, in a still air."""
    (folder / "plate.obj").write_text(PLATE)
    plate = {"name": "plate", "mode": "shell", "shape": {"mesh": "plate.obj"}, "wet_map": "exr",
             "wet_map_size": 64, "friction": 0.2, **keys}  # fmt: skip
    return runnel.Scene.from_dict(
        {
            "fps": 50, "frames": [1, 100], "fluid": [{"name": "water"}],
            "source": [{"fluid": "water", "spacing": 0.05, "velocity": [0, 0, -1],
                        "shape": {"sphere": {"center": [1.5, 0.5, 0.3], "radius": 0.15}}}],
            "collider": [plate],
        },
        folder,
    )  # fmt: skip


def read_exr(data: bytes) -> np.ndarray:
    """The subset that write_exr writes, by the published format."""
    assert struct.unpack("<ii", data[:8]) == (20000630, 2)
    at, seen = 8, {}
    while data[at]:
        name, kind = data[at:].split(b"\0", 2)[:2]
        at += len(name) + len(kind) + 2
        (size,) = struct.unpack("<i", data[at : at + 4])
        seen[name] = data[at + 4 : at + 4 + size]
        at += 4 + size
    x0, y0, x1, y1 = struct.unpack("<4i", seen[b"dataWindow"])
    columns, rows = x1 - x0 + 1, y1 - y0 + 1
    starts = np.frombuffer(data, "<u8", rows, at + 1)
    image = np.empty((rows, columns, 3), np.float32)
    for start in map(int, starts):
        y, size = struct.unpack("<ii", data[start : start + 8])
        raw = data[start + 8 : start + 8 + size]
        if size < columns * 12:
            steps = np.frombuffer(zlib.decompress(raw), np.uint8).astype(np.int64)
            steps[1:] -= 128
            halves = (np.cumsum(steps) & 255).astype(np.uint8)
            both = np.empty_like(halves)
            both[0::2], both[1::2] = np.split(halves, [(len(halves) + 1) // 2])
            raw = both.tobytes()
        image[y] = np.frombuffer(raw, "<f4").reshape(3, columns)[::-1].T
    return image


@pytest.mark.parametrize("shape", [(1, 1, 3), (5, 7, 3), (64, 33, 3)])
def test_exr_files_hold_every_bit(shape: tuple[int, int, int], tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for image in (rng.normal(size=shape).astype(np.float32), np.zeros(shape, np.float32)):
        write_exr(tmp_path / "a.exr", image)
        np.testing.assert_array_equal(read_exr((tmp_path / "a.exr").read_bytes()), image)
    assert [file.name for file in tmp_path.iterdir()] == ["a.exr"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_images_reach_the_disk_or_leave_nothing(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flushed before they get their name; what fails leaves the old file and no other."""
    write_png(tmp_path / "a.png", np.zeros((2, 2, 3), np.uint16))
    old = (tmp_path / "a.png").read_bytes()

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, failing, refuse)
    for write, kind in ((write_png, np.uint16), (write_exr, np.float32)):
        with pytest.raises(CacheError, match="No space left"):
            write(tmp_path / "a.png", np.ones((2, 2, 3), kind))
    assert [file.name for file in tmp_path.iterdir()] == ["a.png"]
    assert (tmp_path / "a.png").read_bytes() == old


def test_blender_reads_our_exr(tmp_path: Path) -> None:
    """OpenEXR itself, as Blender carries it."""
    bpy = pytest.importorskip("bpy")
    image = np.random.default_rng(2).uniform(0, 3, (6, 9, 3)).astype(np.float32)
    write_exr(tmp_path / "a.exr", image)
    loaded = bpy.data.images.load(str(tmp_path / "a.exr"))
    loaded.colorspace_settings.name = "Non-Color"
    pixels = np.array(loaded.pixels[:], np.float32).reshape(6, 9, 4)[::-1, :, :3]
    np.testing.assert_allclose(pixels, image, rtol=1e-6)


def test_png_files_hold_16_bits(tmp_path: Path) -> None:
    pixels = np.random.default_rng(3).integers(0, 65536, (5, 7, 3)).astype(np.uint16)
    write_png(tmp_path / "a.png", pixels)
    data = (tmp_path / "a.png").read_bytes()
    at, body = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        chunk = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(
            kind + chunk
        )
        body += chunk if kind == b"IDAT" else b""
        at += 12 + size
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(5, -1)
    np.testing.assert_array_equal(rows[:, 1:].copy().view(">u2").reshape(5, 7, 3), pixels)
    image = pytest.importorskip("PIL.Image")
    with image.open(tmp_path / "a.png") as file:  # 8 bits of it
        assert file.size == (7, 5)


def test_texels_know_their_places() -> None:
    """Two triangles that fill the square: each texel's weights give its own middle back."""
    uvs = np.array([[[0, 0], [1, 0], [1, 1]], [[3, 2], [4, 3], [3, 3]]], float)  # repeats
    texel, triangle, weights = texels_of(uvs, 16)
    assert len(texel) == 256
    own = (uvs - np.floor(uvs.mean(axis=1, keepdims=True)))[triangle]
    found = np.einsum("nk,nkc->nc", weights, own)
    middle = np.stack([texel % 16 + 0.5, 16 - texel // 16 - 0.5], axis=1) / 16
    np.testing.assert_allclose(found, middle, atol=1e-12)


def test_islands_are_padded_and_nothing_comes_round() -> None:
    shown = nearest_texels(np.array([0]), 8, 2).reshape(8, 8)
    assert (shown[:2, :2] == 0).all()
    assert shown[0, 3] == 3
    assert shown[7, 7] == 63


def test_cover_is_that_of_all_pairs() -> None:
    rng = np.random.default_rng(4)
    places, points = rng.uniform(0, 1, (400, 3)), rng.uniform(0, 1, (60, 3))
    d = rng.choice([0.05, 0.1], 60)
    away = np.linalg.norm(places[:, None] - points, axis=2) - 0.01
    expected = np.clip((1.25 * d - away) / (0.5 * d), 0, 1).max(axis=1)
    np.testing.assert_allclose(
        cover_texels(places, points, d, 0.01, 0.75, 0.5), expected, atol=1e-6
    )
    assert (expected > 0).sum() > 50


def test_a_drop_wets_where_it_lies_and_nowhere_else(tmp_path: Path) -> None:
    with runnel.Simulation(plate_scene(tmp_path), timed=False) as sim:
        assert not sim.wet_maps["plate"].any()
        sim.advance(26)
        x = sim.particles["position"]
        image, now = sim.wet_maps["plate"], sim.time
    row, column = np.mgrid[:64, :64]
    place = np.stack([2 * (column + 0.5) / 64, 1 - (row + 0.5) / 64], axis=-1)
    lying = x[x[:, 2] < 0.1]
    away = np.linalg.norm(place[:, :, None] - lying[:, :2], axis=-1).min(axis=-1)
    assert len(lying) > 20
    assert image[..., 2][away < 0.02].min() > 0.5
    assert image[..., 2][away > 0.12].max() == 0
    assert (image[..., 0] >= image[..., 2]).all()  # it stays wet
    assert 0.2 < image[..., 1].max() < now  # seconds; it fell for a while first
    assert (image[:, :16, 0] == 0).all()


def test_a_deformable_body_is_wet_where_it_is_now(tmp_path: Path) -> None:
    """The plate as a sheet that flies away with the drop below it: its place of old stays dry, its
    right half gets wet all the same."""
    setup = plate_scene(tmp_path, body="deformable", mass=50.0, velocity=[0, 0, 4])
    setup = setup.with_overrides(
        [
            "solver.gravity=[0, 0, 0]",
            "source[0].velocity=[0, 0, 5]",
            "collider[0].position=[0, 0, 0.6]",
        ]
    )
    with runnel.Simulation(setup, timed=False) as sim:
        sim.advance(15)
        assert sim.deformables.bodies[0].position[:, 2].min() > 1.0
        amount = sim.wet_maps["plate"][..., 0]
    assert amount[:, 40:].max() == 1.0
    assert amount[:, :16].max() == 0.0


def test_it_dries_in_the_time_given(tmp_path: Path) -> None:
    it = plate_scene(tmp_path, drying_time=0.5)
    it = it.with_overrides(["solver.gravity=[0, 0, 0]", "collider.plate.bounce=0.9"])
    with runnel.Simulation(it, timed=False) as sim:
        left = None
        for frame in range(2, 100):
            sim.advance(frame)
            image = sim.wet_maps["plate"]
            if left is None and image[..., 0].max() > 0.9 and not image[..., 2].any():
                left, full = sim.time, float(image[..., 0].max())
            if left is not None:
                expected = max(full - (sim.time - left) / 0.5, 0)
                assert image[..., 0].max() == pytest.approx(expected, abs=1e-4)
        assert left is not None
        assert not image[..., 0].any()
        assert image[..., 1].max() > 0


def test_files_of_a_run(tmp_path: Path) -> None:
    from runnel.cli import main

    it = plate_scene(tmp_path, wet_map="png")
    import json

    (tmp_path / "it.json").write_text(json.dumps(it.to_dict()))
    out = tmp_path / "out"
    assert (
        main(["run", str(tmp_path / "it.json"), "--out", str(out), "--frames", "1-4", "--quiet"])
        == 0
    )
    names = sorted(path.name for path in (out / "wetmaps" / "plate").iterdir())
    assert names == [f"plate.{n:04d}.png" for n in range(1, 5)]


def test_what_is_wet_sticks_and_a_resumed_run_agrees(tmp_path: Path) -> None:
    """Feedback: the same drop slides off a dry plate and stays on one that sticks once wet."""
    ends = {}
    for name, keys in {"dry": {}, "sticky": {"wet_stickiness": 1.0}}.items():
        it = plate_scene(tmp_path, friction=0.0, **keys)
        it = it.with_overrides(["source[0].velocity=[-1, 0, -1]"])
        with runnel.Simulation(it, timed=False) as sim:
            sim.advance(20)
            sim.step()  # mid-frame
            arrays, meta = sim.state()
            sim.advance(24)
            ends[name] = sim.particles["velocity"], sim.particles["position"]
        with runnel.Simulation(it, timed=False) as sim:
            restore(sim, (arrays, meta), "")
            sim.advance(24)
            np.testing.assert_array_equal(sim.particles["position"], ends[name][1])
    low = {name: x[:, 2] < 0.1 for name, (_, x) in ends.items()}
    speed = {name: -v[low[name], 0].mean() for name, (v, _) in ends.items()}
    assert speed["dry"] > 0.5
    assert speed["sticky"] < 0.2 * speed["dry"]


def test_a_mesh_without_uvs_is_refused(tmp_path: Path) -> None:
    it = plate_scene(tmp_path)
    (tmp_path / "plate.obj").write_text(PLATE.replace("vt ", "# "))
    with pytest.raises(SceneError, match="no texture coordinates"):
        runnel.Simulation(it)
    with pytest.raises(SceneError, match=r"wet_map.*needs a mesh"):
        plate_scene(tmp_path, shape={"sphere": {"center": [0, 0, 0], "radius": 1}})
