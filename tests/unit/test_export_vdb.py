"""Volumes of particles: the right amount in the right place, read by OpenVDB itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runnel.cache import Cache
from runnel.errors import RunnelError
from runnel.export import ExportOptions, export_frames
from runnel.export.volumes import volumes_of
from runnel.fields import vdb

from .export_caches import SCENE, channels

needs_openvdb = pytest.mark.skipif(
    not vdb.available(), reason="OpenVDB's Python module is not installed (pip install runnel[vdb])"
)
SPACING, SIDE = 0.1, 1.0


def block() -> dict[str, np.ndarray]:
    """A cube of 1000 particles from the origin to (1, 1, 1)."""
    axis = np.arange(SPACING / 2, SIDE, SPACING)
    points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    return {
        "position": points.astype(np.float32),
        "radius": np.full(len(points), SPACING / 2, np.float32),
        "velocity": np.tile(np.float32([1, 2, 3]), (len(points), 1)),
    }


def exported(folder: Path, arrays: dict[str, np.ndarray], **options: Any) -> Path:
    Cache.create(folder, SCENE).write(1, arrays)
    return export_frames(folder, ExportOptions(format="vdb", **options))[0]


def grids_of(path: Path) -> dict[str, Any]:
    return {grid.name: grid for grid in vdb.openvdb().readAll(str(path))[0]}


def test_fog_holds_the_fluids_volume() -> None:
    made = volumes_of(**block(), voxel=0.0)
    assert made.voxel == pytest.approx(SPACING / 2)
    assert made.full.sum() * made.voxel**3 == pytest.approx(SIDE**3, rel=0.01)
    centre = made.full[np.all(made.leaves == 8, axis=1)][0][2, 2, 2]  # voxel (10, 10, 10)
    assert centre == pytest.approx(1, abs=0.05)
    fast = made.velocity[made.full > 0.1]
    np.testing.assert_allclose(fast, np.broadcast_to([1, 2, 3], fast.shape), rtol=1e-4)


def test_negative_places_and_other_voxels() -> None:
    """A shift by whole voxels shifts the volume; a finer grid holds as much."""
    arrays = block()
    here = volumes_of(**arrays, voxel=0.05)
    arrays["position"] = arrays["position"] - np.float32(8)
    there = volumes_of(**arrays, voxel=0.05)
    np.testing.assert_array_equal(here.leaves - 160, there.leaves)
    np.testing.assert_allclose(here.full, there.full, atol=1e-4)
    fine = volumes_of(**arrays, voxel=0.03)
    assert fine.full.sum() * 0.03**3 == pytest.approx(SIDE**3, rel=0.01)


@pytest.mark.parametrize(
    ("change", "voxel", "text"),
    [
        ({"position": 1e9}, 0.0, "too far"),
        ({"radius": 50.0}, 0.05, "too small"),
        ({"position": np.nan}, 0.0, "no usable number"),
        ({"radius": 0.0}, 0.0, "no usable number"),
    ],
)
def test_what_makes_no_volume_is_explained(
    change: dict[str, float], voxel: float, text: str
) -> None:
    arrays = block()
    for name, value in change.items():
        arrays[name][0] = value
    with pytest.raises(RunnelError, match=text):
        volumes_of(**arrays, voxel=voxel)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    import runnel.export.volumes as volumes

    monkeypatch.setattr(volumes, "MEMORY", 1 << 16)
    with pytest.raises(RunnelError, match="larger voxels"):
        volumes_of(**block(), voxel=0.0)


@needs_openvdb
def test_openvdb_reads_the_grids(tmp_path: Path) -> None:
    module, path = vdb.openvdb(), exported(tmp_path, block())
    assert path.name == "particles.0001.vdb"
    grids = grids_of(path)
    assert sorted(grids) == ["density", "surface", "velocity"]
    assert grids["density"].gridClass == module.GridClass.FOG_VOLUME
    assert grids["surface"].gridClass == module.GridClass.LEVEL_SET
    for grid in grids.values():
        assert grid.transform.voxelSize() == pytest.approx((SPACING / 2,) * 3)
    middle, outside = (10, 10, 10), (60, 10, 10)
    assert grids["density"].getConstAccessor().getValue(middle) == pytest.approx(1, abs=0.05)
    speed = grids["velocity"].getConstAccessor().getValue(middle)
    assert speed == pytest.approx((1, 2, 3), rel=1e-4)
    surface = grids["surface"].getConstAccessor()
    assert surface.getValue(middle) == pytest.approx(-0.15)
    assert surface.getValue(outside) == pytest.approx(0.15)
    # Voxel 20 of 0.05 lies at 1.0, the wall of the block.
    assert surface.getValue((20, 10, 10)) == pytest.approx(0, abs=0.01)
    assert surface.getValue((21, 10, 10)) == pytest.approx(0.05, abs=0.01)


@needs_openvdb
def test_surface_encloses_the_volume(tmp_path: Path) -> None:
    """Rounded edges take a little."""
    mesh = vdb.surface_of(grids_of(exported(tmp_path, block()))["surface"])
    a, b, c = (mesh.vertices[mesh.triangles[:, k]] for k in range(3))
    volume = abs(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)
    assert volume == pytest.approx(SIDE**3, rel=0.05)


@needs_openvdb
def test_a_lone_particle_has_a_surface(tmp_path: Path) -> None:
    arrays = {name: values[:1] for name, values in block().items()}
    grid = grids_of(exported(tmp_path, arrays))["surface"]
    assert grid.getConstAccessor().getValue((1, 1, 1)) < 0  # its place
    assert grid.activeVoxelCount() > 10


@needs_openvdb
def test_units_axes_and_missing_channels(tmp_path: Path) -> None:
    grids = grids_of(exported(tmp_path / "a", block(), scale=100.0, up="y", voxel=0.05))
    assert grids["density"].transform.voxelSize()[0] == pytest.approx(5)
    low, high = grids["surface"].evalActiveVoxelBoundingBox()
    assert low[2] < -15  # y became -z
    assert high[2] < 10
    slow = block()
    del slow["velocity"]
    assert sorted(grids_of(exported(tmp_path / "b", slow))) == ["density", "surface"]
    with pytest.raises(RunnelError, match="'radius'"):
        exported(tmp_path / "c", {"position": channels(1)["position"]})


@needs_openvdb
def test_no_particles_no_voxels(tmp_path: Path) -> None:
    empty = {name: values[:0] for name, values in block().items()}
    for grid in grids_of(exported(tmp_path, empty)).values():
        assert grid.activeVoxelCount() == 0


@needs_openvdb
def test_flat_scenes_are_refused(tmp_path: Path) -> None:
    Cache.create(tmp_path, {**SCENE, "dimensions": 2}).write(1, block())
    with pytest.raises(RunnelError, match="2D"):
        export_frames(tmp_path, ExportOptions(format="vdb"))


@needs_openvdb
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.999])
def test_what_does_not_reach_the_disk_is_no_file(tmp_path: Path, share: float) -> None:
    """OpenVDB says nothing when the disk is full; all but the last bytes may be there."""
    import resource

    path = exported(tmp_path, block())
    field, copy = vdb.read_vdb(path, grid="surface"), tmp_path / "field.vdb"
    vdb.write_vdb(copy, field)
    before, usual = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    for file, write in (
        (path, lambda: export_frames(tmp_path, ExportOptions(format="vdb"))),
        (copy, lambda: vdb.write_vdb(copy, field)),
    ):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(share * file.stat().st_size), usual[1]))
        try:
            with pytest.raises(RunnelError, match=f"{file.name}: cannot be written"):
                write()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.rglob("*.vdb*")) == [copy.name, path.name]


def test_missing_library_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise RunnelError("`pip install runnel[vdb]` brings it")

    monkeypatch.setattr("runnel.export.vdb.openvdb", missing)
    with pytest.raises(RunnelError, match=r"runnel\[vdb\]"):
        exported(tmp_path, block())
