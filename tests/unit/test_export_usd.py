"""USD files: read by USD itself, approved by its validators, imported by Blender."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runnel.cache import Cache
from runnel.errors import RunnelError
from runnel.export import ExportOptions, export_frames

from .export_caches import SCENE, channels, filled

needs_usd = pytest.mark.skipif(
    find_spec("pxr") is None, reason="usd-core is not installed (pip install runnel[usd])"
)


def exported(cache: Path, **options: Any) -> list[Path]:
    return export_frames(cache, ExportOptions(format="usd", **options))


def sorted_channels(frame: int) -> dict[str, np.ndarray]:
    was = channels(frame)
    order = np.argsort(was["id"])
    return {name: values[order] for name, values in was.items()}


def complaints(path: Path) -> list[str]:
    """What the validators of USD say: those that usdchecker runs, and all others there are."""
    from pxr import Usd, UsdValidation

    validators = UsdValidation.ValidationRegistry().GetOrLoadAllValidators()
    assert len(validators) > 10
    found = UsdValidation.ValidationContext(validators).Validate(Usd.Stage.Open(str(path)))
    return [f"{path.name}: {error.GetErrorAsString()}" for error in found]


@needs_usd
def test_files_pass_usds_own_checks(tmp_path: Path) -> None:
    for path in exported(filled(tmp_path)):
        assert complaints(path) == []


@needs_usd
def test_validators_do_complain(tmp_path: Path) -> None:
    """The check above can fail: a stage without up axis, units and default prim."""
    path = tmp_path / "poor.usda"
    path.write_text('#usda 1.0\ndef Points "a" {}\n', encoding="utf-8")
    assert complaints(path)


@needs_usd
@pytest.mark.parametrize("alone", [False, True])
def test_points_by_clip_and_alone(tmp_path: Path, alone: bool) -> None:
    """Every channel of every frame, through the master and from the frame's own file."""
    from pxr import Usd, UsdGeom

    files = exported(filled(tmp_path))
    assert [path.name for path in files[-2:]] == ["particles_manifest.usda", "particles.usda"]
    for frame in (1, 2, 3):
        stage = Usd.Stage.Open(str(files[frame - 1] if alone else files[-1]))
        prim = stage.GetPrimAtPath("/fluid/particles")
        points, was = UsdGeom.Points(prim), sorted_channels(frame)
        np.testing.assert_array_equal(points.GetPointsAttr().Get(frame), was["position"])
        np.testing.assert_array_equal(points.GetVelocitiesAttr().Get(frame), was["velocity"])
        np.testing.assert_array_equal(points.GetWidthsAttr().Get(frame), 2 * was["radius"])
        np.testing.assert_array_equal(points.GetIdsAttr().Get(frame), was["id"])
        for name, channel in (("pid", "id"), ("displayColor", "color"), ("age", "age")):
            primvar = UsdGeom.PrimvarsAPI(prim).GetPrimvar(name)
            assert primvar.GetInterpolation() == "vertex"
            np.testing.assert_array_equal(primvar.Get(frame), was[channel])
        low, high = (np.array(corner) for corner in points.GetExtentAttr().Get(frame))
        np.testing.assert_allclose(low, was["position"].min(axis=0) - 0.05, atol=1e-6)
        np.testing.assert_allclose(high, was["position"].max(axis=0) + 0.05, atol=1e-6)
        assert points.GetPurposeAttr().Get() == "default"


@needs_usd
def test_units_axes_and_time(tmp_path: Path) -> None:
    from pxr import Usd, UsdGeom

    stage = Usd.Stage.Open(str(exported(filled(tmp_path), scale=100.0, up="y")[-1]))
    assert UsdGeom.GetStageMetersPerUnit(stage) == pytest.approx(0.01)
    assert UsdGeom.GetStageUpAxis(stage) == "Y"
    assert stage.GetTimeCodesPerSecond() == 25
    assert (stage.GetStartTimeCode(), stage.GetEndTimeCode()) == (1, 3)
    points = UsdGeom.Points(stage.GetPrimAtPath("/fluid/particles"))
    x, y, z = sorted_channels(1)["position"].T
    wanted = 100 * np.stack([x, z, -y], axis=1)
    np.testing.assert_allclose(points.GetPointsAttr().Get(1), wanted, rtol=1e-6)


@needs_usd
def test_odd_channels_and_empty_frames(tmp_path: Path) -> None:
    """Half floats, wide and 64-bit channels; a first frame without particles; gaps."""
    from pxr import Usd, UsdGeom

    cache = Cache.create(tmp_path, SCENE)
    arrays = {
        "position": np.zeros((4, 3), np.float32),
        "half": np.ones((4, 2), np.float16),
        "wide": np.arange(28, dtype=np.float32).reshape(4, 7),
        "pair": np.arange(8, dtype=np.int16).reshape(4, 2),
        "big": np.full(4, 2**40),
    }
    cache.write(-2, {name: values[:0] for name, values in arrays.items()})
    cache.write(5, arrays)
    files = exported(tmp_path)
    assert [text for path in files for text in complaints(path)] == []
    stage = Usd.Stage.Open(str(files[-1]))
    prim = stage.GetPrimAtPath("/fluid/particles")
    assert len(prim.GetAttribute("points").Get(-2)) == 0
    assert len(prim.GetAttribute("points").Get(5)) == 4
    primvars = UsdGeom.PrimvarsAPI(prim)
    assert primvars.GetPrimvar("wide").GetElementSize() == 7
    assert primvars.GetPrimvar("pair").GetElementSize() == 2
    np.testing.assert_array_equal(primvars.GetPrimvar("wide").Get(5), np.arange(28))
    assert list(primvars.GetPrimvar("big").Get(5)) == [2**40] * 4


@needs_usd
def test_equal_caches_make_equal_files_and_no_leftovers(tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in exported(filled(tmp_path))}
    again = {path.name: path.read_bytes() for path in exported(tmp_path)}
    assert first == again
    assert sorted(path.name for path in (tmp_path / "export").iterdir()) == sorted(first)


@needs_usd
def test_what_does_not_reach_the_disk_is_no_file(tmp_path: Path) -> None:
    """As on a full disk: one sentence that tells why, and the file of before."""
    import resource

    cache = filled(tmp_path / "cache", range(1, 2))
    path = export_frames(cache, ExportOptions(format="usd"), out=tmp_path)[0]
    before, usual = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, usual[1]))
    try:
        with pytest.raises(RunnelError) as caught:
            export_frames(cache, ExportOptions(format="usd"), out=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert "particles.0001.usdc: cannot be written (" in str(caught.value)
    assert "File too large" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    assert not list(tmp_path.glob(".*"))


def test_missing_library_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pxr", None)
    with pytest.raises(RunnelError, match=r"pip install 'runnel\[usd\]'"):
        exported(filled(tmp_path))
    assert not (tmp_path / "export").exists()


BLENDER = """
import bpy, sys
bpy.ops.wm.read_factory_settings(use_empty=True)
assert bpy.ops.wm.usd_import(filepath=sys.argv[1]) == {"FINISHED"}
for frame in (1, 3):
    bpy.context.scene.frame_set(frame)
    depsgraph = bpy.context.evaluated_depsgraph_get()
    for item in bpy.data.objects:
        if item.type == "POINTCLOUD":
            data = item.evaluated_get(depsgraph).data
            names = ",".join(sorted(a.name for a in data.attributes))
            radius = data.attributes["radius"].data[0].value
            pid = data.attributes["pid"].data[5].value
            height = data.attributes["position"].data[5].vector[2]
            print("cloud", frame, len(data.points), round(radius, 5), pid, round(height, 5), names)
sys.stdout.flush()
import os
os._exit(0)
"""


@needs_usd
@pytest.mark.skipif(find_spec("bpy") is None, reason="bpy is not installed (runnel[vdb] brings it)")
def test_blender_imports_the_clips(tmp_path: Path) -> None:
    """A point cloud per frame with radius, velocity, id and channels."""
    master = exported(filled(tmp_path))[-1]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", BLENDER, str(master)],
        env={**environment, "BLENDER_USER_RESOURCES": str(tmp_path / "blender")},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("cloud")]
    assert len(lines) == 2, done.stdout + done.stderr
    for frame, line in zip((1, 3), lines, strict=True):
        height = float(sorted_channels(frame)["position"][5, 2])
        assert line[1:5] == [str(frame), str(40 + frame), "0.05", "5"]
        assert float(line[5]) == pytest.approx(height, abs=1e-4)
        assert {"velocity", "density", "phase", "pid"} <= set(line[6].split(","))
