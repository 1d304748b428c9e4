"""The cache on disk: what was written comes back, or an error that names the file."""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import runnel.cache.files as cache_files
from runnel.cache import Cache, plain, planes
from runnel.errors import CacheError

COUNT = 1100  # particles of a frame
SCENE = {"name": "dam", "frames": [1, 10], "fluid": [{"name": "water"}]}
COMPRESSIONS = ["none", "zlib", "zstd"]
QUICK = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(autouse=True, scope="module")
def small_arrays():
    """Planes are made of arrays as small as those of these tests."""
    with mock.patch.object(planes, "SMALLEST", 4096):
        yield


@pytest.fixture(params=COMPRESSIONS)
def compression(request):
    if request.param == "zstd":
        pytest.importorskip("zstandard")
    return request.param


def sample(seed=0, count=COUNT):
    """Channels of a small frame, just large enough to be split into planes."""
    random = np.random.default_rng(seed)
    return {
        "position": random.random((count, 3), dtype=np.float32),
        "phase": random.integers(0, 3, count, dtype=np.uint32),
    }


def filled(folder, frames=3, **options):
    """Cache with frames 1..n, the n-th made from seed n."""
    cache = Cache.create(folder, SCENE, **options)
    for frame in range(1, frames + 1):
        cache.write(frame, sample(frame), {"steps": 4})
    return cache


def assert_same(left, right):
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].dtype == right[name].dtype
        assert left[name].shape == right[name].shape
        assert left[name].tobytes() == right[name].tobytes()


# ---- round trips

dtypes = st.sampled_from([np.float32, np.float64, np.float16, np.uint32, np.int64, np.uint8, bool])
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True)


@st.composite
def channels(draw):
    count = draw(st.integers(0, 12))
    table = draw(st.dictionaries(names, st.tuples(dtypes, st.integers(1, 4)), max_size=4))
    return {
        name: draw(hnp.arrays(dtype, (count,) if width == 1 else (count, width)))
        for name, (dtype, width) in table.items()
    }


@QUICK
@given(arrays=channels(), compression=st.sampled_from(COMPRESSIONS), frame=st.integers(-99, 10**6))
def test_any_channels_come_back_bit_for_bit(arrays, compression, frame):
    """Also nan payloads, empty frames and frames without channels."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(planes, "SMALLEST", 0):
        Cache.create(folder, SCENE, compression=compression).write(frame, arrays)
        cache = Cache.open(folder)
        assert cache.frames() == [frame]
        assert_same(cache.read(frame), arrays)
        assert cache.verify() == []


def test_frame_is_readable_by_plain_numpy(tmp_path):
    """np.load, no pickles, no Runnel; the lines for planes are those of the guide."""
    for folder, method in ((tmp_path / "plain", "none"), (tmp_path / "packed", "zlib")):
        filled(folder, compression=method)
        with np.load(folder / "frames" / "frame_000002.npz", allow_pickle=False) as npz:
            header = json.loads(npz["runnel.header"].item())
            found = {}
            for name in ("position", "phase"):
                if method == "none":
                    found[name] = npz[name]
                    continue
                dtype = np.dtype(header["arrays"][name]["dtype"])
                pieces = [npz[f"{name}.{k}"] for k in range(dtype.itemsize)]
                found[name] = np.stack(pieces, axis=-1).view(dtype)[..., 0]
                if dtype.kind in "iu":
                    found[name] = np.cumsum(found[name], axis=0, dtype=dtype)
        assert_same(found, sample(2))
        assert header["frame"] == 2
        assert header["units"]["position"] == "m"


def test_frames_of_the_first_zstd_layout_are_read(tmp_path):
    """One member for an array, all its planes in it, as caches had it at first."""
    zstandard = pytest.importorskip("zstandard")
    cache, array = filled(tmp_path, 1), sample(1)["position"]
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
    split = array.reshape(-1).view(np.uint8).reshape(-1, 4).T.tobytes()
    with zipfile.ZipFile(cache.frame_path(1), "w") as pack:
        pack.writestr("position.npy.zst", zstandard.compress(stream.getvalue() + split))
        crc = pack.getinfo("position.npy.zst").CRC
    size = cache.frame_path(1).stat().st_size
    forge(tmp_path, bytes=size, checksums={"position": f"{crc:08x}"}, compression="zstd")
    assert np.array_equal(Cache.open(tmp_path).read(1)["position"], array)


def test_equal_arrays_make_equal_files(tmp_path, compression):
    for name in ("a", "b"):
        filled(tmp_path / name, compression=compression)
    files = [tmp_path / name / "frames" / "frame_000001.npz" for name in ("a", "b")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_compression_pays_on_smooth_data(tmp_path, compression):
    """Signs and exponents shrink, rising ids and constants to next to nothing; noise is noise."""
    random = np.random.default_rng(3)
    arrays = {
        "position": random.random((20000, 3), dtype=np.float32) + 1,
        "radius": np.full(20000, 0.01, np.float32),
        "id": np.arange(20000, dtype=np.uint32),
    }
    cache = Cache.create(tmp_path, SCENE, compression=compression)
    size = cache.write(1, arrays).bytes
    whole = sum(array.nbytes for array in arrays.values())
    noise = 20000 * 3 * 3  # what is random of the positions
    least, most = (whole, 1.01 * whole) if compression == "none" else (0.9 * noise, 1.03 * noise)
    assert least < size < most


def test_one_channel_is_read_alone(tmp_path):
    cache = filled(tmp_path, compression="none")
    damaged = cache.frame_path(1)
    raw = bytearray(damaged.read_bytes())
    start = raw.find(sample(1)["phase"].tobytes())
    raw[start] ^= 1
    damaged.write_bytes(raw)
    assert np.array_equal(cache.read(1, ["position"])["position"], sample(1)["position"])
    with pytest.raises(CacheError, match=r"frame_000001\.npz.*phase"):
        cache.read(1)


def test_manifest_tells_bounds_reports_and_channels(tmp_path):
    filled(tmp_path, device="test device", fps=30)
    cache = Cache.open(tmp_path)
    everything = np.concatenate([sample(n)["position"] for n in (1, 2, 3)])
    low, high = cache.bounds()
    assert np.allclose([low, high], [everything.min(0), everything.max(0)])
    info = cache.info()
    assert (info["device"], info["fps"], info["scene"]) == ("test device", 30.0, "dam")
    assert info["channels"]["position"] == {"dtype": "float32", "width": 3, "unit": "m"}
    assert [row["report"] for row in info["frames"]] == [{"steps": 4}] * 3
    json.dumps(info)


def test_channels_may_join_later_but_not_change_type(tmp_path):
    cache = filled(tmp_path)
    cache.write(4, {**sample(4), "foam": np.zeros(COUNT, np.float32)}, units={"foam": "1"})
    assert "foam" not in cache.read(3)
    assert Cache.open(tmp_path).read(4)["foam"].shape == (COUNT,)
    with pytest.raises(CacheError, match="foam"):
        cache.write(5, {"foam": np.zeros(COUNT, np.float64)})
    assert cache.frames() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"a/b": np.zeros(3)}, "a/b"),
        ({"runnel.header": np.zeros(3)}, "runnel.header"),
        ({"a": np.zeros(3), "b": np.zeros(4)}, "differ in length"),
        ({"a": np.zeros((3, 2, 2))}, "shape"),
        ({"a": np.zeros((3, 0))}, "shape"),
        ({"a": np.array(["x"])}, "real numbers"),
        ({"a": np.array([object()])}, "real numbers"),
        ({"a": np.zeros(3, complex)}, "real numbers"),
    ],
)
def test_what_cannot_be_stored_is_refused(tmp_path, arrays, words):
    cache = filled(tmp_path)
    with pytest.raises(CacheError, match=words):
        cache.write(4, arrays)
    assert Cache.open(tmp_path).frames() == [1, 2, 3]


def test_plain_makes_strict_json():
    value = plain({"a": np.float32(1), "b": [np.nan, np.inf], "c": np.arange(2), "d": (True, None)})
    assert json.dumps(value, allow_nan=False) == json.dumps(
        {"a": 1.0, "b": [None, None], "c": [0, 1], "d": [True, None]}
    )


# ---- creating and resuming


def test_another_scene_is_not_overwritten(tmp_path):
    filled(tmp_path)
    with pytest.raises(CacheError, match="another scene"):
        Cache.create(tmp_path, {**SCENE, "name": "other"})
    assert Cache.open(tmp_path).frames() == [1, 2, 3]
    cache = Cache.create(tmp_path, {**SCENE, "name": "other"}, overwrite=True)
    assert cache.frames() == []
    assert list((tmp_path / "frames").iterdir()) == []


def test_resume_knows_the_last_frame_and_a_longer_shot_is_the_same(tmp_path):
    filled(tmp_path)
    longer = {**SCENE, "frames": [1, 500]}
    cache = Cache.create(tmp_path, longer, resume=True)
    assert cache.last_frame == 3
    cache.write(4, sample(4))
    assert_same(Cache.open(tmp_path).read(4), sample(4))
    assert Cache.create(tmp_path, longer, resume=True).last_frame == 4
    assert Cache.create(tmp_path, longer).last_frame is None


def test_resume_continues_before_a_missing_or_cut_frame(tmp_path):
    cache = filled(tmp_path, 5)
    raw = cache.frame_path(4).read_bytes()
    cache.frame_path(4).write_bytes(raw[:-1])
    assert Cache.create(tmp_path, SCENE, resume=True).last_frame == 3
    cache.frame_path(2).unlink()
    assert Cache.create(tmp_path, SCENE, resume=True).frames() == [1]


def test_writing_an_earlier_frame_forgets_what_followed(tmp_path):
    cache = filled(tmp_path, 5)
    cache.write(3, sample(77))
    assert Cache.open(tmp_path).frames() == [1, 2, 3]
    assert sorted(path.name for path in (tmp_path / "frames").iterdir()) == [
        f"frame_00000{n}.npz" for n in (1, 2, 3)
    ]


def test_foreign_files_in_the_folder_are_left_alone(tmp_path):
    (tmp_path / "frames").mkdir()
    for name in ("notes.txt", "frames/frame_1.npz", "frames/frame_abc.npz"):
        (tmp_path / name).write_text("mine")
    filled(tmp_path)
    Cache.create(tmp_path, SCENE)
    assert (tmp_path / "notes.txt").exists()
    assert (tmp_path / "frames/frame_1.npz").exists()


def test_checkpoints_keep_two_and_fall_back_to_the_older(tmp_path):
    cache = filled(tmp_path, 5)
    for frame in (2, 3, 4):
        state = {"solver.x": np.full((2, 3, 4), frame, np.float64), "seed": np.array(frame)}
        cache.write_checkpoint(frame, state, {"time": frame / 24, "rng": [1, 2]})
    assert cache.checkpoints() == [3, 4]
    frame, arrays, meta = Cache.open(tmp_path).read_checkpoint()
    assert (frame, meta) == (4, {"time": 4 / 24, "rng": [1, 2]})
    assert arrays["solver.x"].shape == (2, 3, 4)
    assert arrays["seed"].shape == ()
    raw = bytearray(cache.checkpoint_path(4).read_bytes())
    raw[len(raw) // 2] ^= 8
    cache.checkpoint_path(4).write_bytes(raw)
    assert cache.read_checkpoint()[0] == 3
    with pytest.raises(CacheError, match="checkpoint_000004"):
        cache.read_checkpoint(4)


def test_checkpoint_after_the_last_frame_is_not_used(tmp_path):
    """Its frame was never finished: continuing from it would leave a hole."""
    cache = filled(tmp_path, 3)
    cache.write_checkpoint(3, {"x": np.zeros(3)}, {})
    cache.write_checkpoint(4, {"x": np.ones(3)}, {})
    assert Cache.open(tmp_path).read_checkpoint()[0] == 3
    cache.truncate(2)
    assert cache.read_checkpoint() is None


# ---- crashes


class Crash(BaseException):
    """Stands for the process being killed."""


@pytest.mark.parametrize("crash", [OSError(28, "No space left on device"), Crash()])
@pytest.mark.parametrize("call", range(1, 9))
def test_failing_rename_leaves_all_earlier_frames(tmp_path, monkeypatch, crash, call):
    """The k-th rename of two more frames, a checkpoint and an earlier frame fails."""
    cache = filled(tmp_path)
    real, calls = os.replace, [0]

    def failing(source, target):
        calls[0] += 1
        if calls[0] == call:
            raise crash
        real(source, target)

    monkeypatch.setattr(cache_files.os, "replace", failing)
    done = {n: sample(n) for n in (1, 2, 3)}
    try:
        for frame in (4, 5):
            cache.write(frame, sample(frame))
            done[frame] = sample(frame)
        cache.write_checkpoint(5, {"x": np.zeros(3)}, {})
        done = {n: done[n] for n in (1,)}
        cache.write(2, sample(50))
    except (CacheError, Crash):
        monkeypatch.undo()
    survivor = Cache.open(tmp_path)
    assert survivor.verify() == []
    for frame, arrays in done.items():
        assert_same(survivor.read(frame), arrays)
    # The writer itself, if it lives, and a new one both go on.
    if isinstance(crash, OSError):
        cache.write(6, sample(6))
    again = Cache.create(tmp_path, SCENE, resume=True)
    again.write(again.last_frame + 1, sample(9))
    assert Cache.open(tmp_path).verify() == []
    assert not list(tmp_path.rglob("*.tmp"))


WRITER = """
import sys, numpy as np
from runnel.cache import Cache
cache = Cache.create(sys.argv[1], {"name": "killed"}, resume=True)
frame = (cache.last_frame or 0) + 1
print("ready", flush=True)
while True:
    random = np.random.default_rng(frame)
    cache.write(frame, {"x": random.random((2000, 3))})
    cache.write_checkpoint(frame, {"x": random.random(3000)}, {"frame": frame})
    frame += 1
"""


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_kill_minus_nine_leaves_a_valid_cache(tmp_path):
    """Killed at several moments; frames never get fewer, and each is what was written."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    seen = 0
    for wait in (0.05, 0.013, 0.031):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)],
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert writer.stdout.readline() == b"ready\n"
        time.sleep(wait)
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        cache = Cache.open(tmp_path)
        assert cache.verify() == []
        frames = cache.frames()
        assert frames == list(range(1, len(frames) + 1))
        assert len(frames) >= seen
        seen = len(frames)
        for frame in frames[-3:]:
            expected = np.random.default_rng(frame).random((2000, 3))
            assert np.array_equal(cache.read(frame)["x"], expected)
        found = cache.read_checkpoint()
        if found is not None:  # a kill between frame and checkpoint leaves an older one, or none
            frame, arrays, meta = found
            random = np.random.default_rng(frame)
            random.random((2000, 3))
            assert meta == {"frame": frame}
            assert np.array_equal(arrays["x"], random.random(3000))


def test_reader_follows_a_writer_that_starts_over(tmp_path):
    filled(tmp_path)
    reader = Cache.open(tmp_path)
    writer = Cache.create(tmp_path, SCENE)
    writer.write(1, sample(50))
    assert_same(reader.read(1), sample(50))
    with pytest.raises(CacheError, match="frame 2 is not in the cache"):
        reader.read(2)


# ---- damage


@pytest.fixture(scope="module", params=COMPRESSIONS)
def sound(request, tmp_path_factory):
    if request.param == "zstd":
        pytest.importorskip("zstandard")
    folder = tmp_path_factory.mktemp("sound")
    filled(folder, 2, compression=request.param).write_checkpoint(2, sample(5), {"t": 1})
    return folder


def problem(folder):
    """Message of the error that reading everything raises; None if all is as written."""
    try:
        cache = Cache.open(folder)
        for frame in (1, 2):
            assert_same(cache.read(frame), sample(frame))
        assert_same(cache.read_checkpoint(2)[1], sample(5))
    except CacheError as error:
        return str(error)
    assert cache.scene == SCENE
    return None


FILES = ["manifest.json", "frames/frame_000001.npz", "checkpoints/checkpoint_000002.npz"]


@settings(QUICK, max_examples=150)
@given(data=st.data(), name=st.sampled_from(FILES), cut=st.booleans())
def test_damaged_bytes_are_never_returned_as_data(sound, data, name, cut):
    """Flip or cut anywhere: the data is unchanged, or the error names the file."""
    raw = bytearray((sound / name).read_bytes())
    place = data.draw(st.integers(0, len(raw) - 1))
    if cut:
        del raw[place:]
    else:
        raw[place] ^= data.draw(st.integers(1, 255))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(sound, folder, dirs_exist_ok=True)
        (Path(folder) / name).write_bytes(raw)
        message = problem(folder)
        assert message is None or Path(name).name in message


@QUICK
@given(junk=st.binary(max_size=200))
def test_foreign_files_are_named(sound, junk):
    for name in FILES:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(sound, folder, dirs_exist_ok=True)
            (Path(folder) / name).write_bytes(junk)
            assert Path(name).name in problem(folder)


def test_verify_names_every_damaged_frame(tmp_path, compression):
    cache = filled(tmp_path, 4, compression=compression)
    cache.frame_path(2).unlink()
    cache.frame_path(3).write_bytes(b"PK")
    problems = cache.verify()
    assert len(problems) == 2
    assert "frame_000002.npz: is missing" in problems[0]
    assert "frame_000003.npz" in problems[1]


def test_verify_names_the_particle_that_is_not_finite(tmp_path):
    cache = Cache.create(tmp_path, SCENE)
    arrays = sample(1)
    arrays["position"][7, 1] = np.nan
    cache.write(1, arrays)
    assert cache.verify() == []
    assert "particle 7" in cache.verify(finite=True)[0]


def forge(folder, **changes):
    """Manifest with other values and a fitting checksum."""
    path = folder / "manifest.json"
    data = json.loads(path.read_text())
    data.pop("checksum")
    entry = data["frames"][0]
    for key, value in changes.items():
        target = entry if key in entry else data
        target[key] = value
    data["checksum"] = cache_files.sha256(data)
    path.write_text(json.dumps(data))


@pytest.mark.parametrize(
    "changes",
    [
        {"count": 10**11},
        {"count": -1},
        {"count": True},
        {"frame": "../../etc/passwd"},
        {"frame": 1.5},
        {"checksums": {"position": "zz"}},
        {"checksums": {"unheard": "00000000"}},
        {"checksums": []},
        {"bounds": [[0, 0, 0]]},
        {"report": []},
        {"version": 99},
        {"fps": 0},
        {"fps": "fast"},
        {"compression": "rar"},
        {"channels": {"position": {"dtype": "O", "width": 3, "unit": ""}}},
        {"channels": {"position": {"dtype": "float32", "width": 10**9, "unit": ""}}},
        {"channels": {"../x": {"dtype": "float32", "width": 3, "unit": ""}}},
        {"scene": None},
        {"frames": 3},
    ],
)
def test_forged_manifests_are_refused(tmp_path, changes):
    """Even with a right checksum: no absurd size is allocated, no path followed."""
    filled(tmp_path, 1)
    forge(tmp_path, **changes)
    with pytest.raises(CacheError):
        Cache.open(tmp_path).read(1)


def test_a_pickle_is_not_loaded(tmp_path):
    cache = filled(tmp_path, 1)
    buffer = io.BytesIO()
    np.save(buffer, np.array([object()] * COUNT), allow_pickle=True)
    with zipfile.ZipFile(cache.frame_path(1), "w") as pack:
        pack.writestr("position.npy", buffer.getvalue())
        crc = pack.getinfo("position.npy").CRC
    size = cache.frame_path(1).stat().st_size
    forge(tmp_path, bytes=size, checksums={"position": f"{crc:08x}"})
    with pytest.raises(CacheError, match="position"):
        Cache.open(tmp_path).read(1)


def test_a_small_file_cannot_ask_for_all_memory(tmp_path):
    """A compressed bomb that its manifest vouches for."""
    zstandard = pytest.importorskip("zstandard")
    cache = filled(tmp_path, 1, compression="zstd")
    bomb = zstandard.ZstdCompressor(level=1).compress(bytes(1 << 27))
    with zipfile.ZipFile(cache.frame_path(1), "w") as pack:
        pack.writestr("phase.npy.zst", bomb)
        crc = pack.getinfo("phase.npy.zst").CRC
    size = cache.frame_path(1).stat().st_size
    forge(tmp_path, bytes=size, checksums={"phase": f"{crc:08x}"}, count=1 << 25)
    with pytest.raises(CacheError, match="uncompressed"):
        Cache.open(tmp_path).read(1)


def test_a_deflated_bomb_is_not_inflated(tmp_path):
    """A stream that holds more than its entry says, with a manifest that agrees."""
    cache, declared = filled(tmp_path, 1, compression="none"), 1 << 20
    with zipfile.ZipFile(cache.frame_path(1), "w", zipfile.ZIP_DEFLATED) as pack:
        for k in range(4):
            pack.writestr(f"phase.{k}.npy", bytes(1 << 26), compresslevel=1)
            pack.getinfo(f"phase.{k}.npy").file_size = declared
        sums = [pack.getinfo(f"phase.{k}.npy").CRC for k in range(4)]
    crc = zlib.crc32(b"".join(value.to_bytes(4, "little") for value in sums))
    size = cache.frame_path(1).stat().st_size
    forge(tmp_path, bytes=size, checksums={"phase": f"{crc:08x}"}, count=declared - 128)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CacheError, match="damaged"):
        Cache.open(tmp_path).read(1)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # kB


def test_no_folder_and_no_cache_are_told_apart_from_damage(tmp_path):
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(CacheError, match="holds no Runnel cache"):
            Cache.open(folder)


def test_a_lost_manifest_is_rebuilt_from_the_frames(tmp_path, compression):
    cache = filled(tmp_path, 4, compression=compression)
    before = cache.manifest.frames
    (tmp_path / "manifest.json").write_text("{")
    cache.frame_path(2).write_bytes(b"junk")
    rebuilt = Cache.rebuild(tmp_path, SCENE)
    assert rebuilt.manifest.frames == {n: before[n] for n in (1, 3, 4)}
    assert_same(Cache.open(tmp_path).read(3), sample(3))
