"""Whatever the triangles are: a clear error or a field that works, never a hang."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import runnel
from runnel.errors import RunnelError
from runnel.fields.grid import default_settings
from runnel.fields.rasterize import field_of_mesh
from runnel.fields.walls import with_walls
from runnel.meshes import Mesh

from . import field_meshes as made

NUMBERS = st.one_of(
    st.floats(-1, 1),
    st.sampled_from([0.0, 0.5, 1.0, -1.0, 1e-30, 1e6, -1e9, 1e13, np.nan, np.inf, 1e300]),
)


@st.composite
def soups(draw: st.DrawFn) -> Mesh:
    """Few vertices that triangles share at random, so that everything degenerate comes up."""
    n = draw(st.integers(1, 12))
    plain = draw(st.booleans())
    numbers = st.floats(-1, 1) if plain else NUMBERS
    vertices = draw(st.lists(st.tuples(numbers, numbers, numbers), min_size=n, max_size=n))
    corner = st.integers(0, n - 1)
    triangles = draw(st.lists(st.tuples(corner, corner, corner), max_size=20))
    return Mesh(np.array(vertices, float), np.array(triangles, np.int32).reshape(-1, 3))


@pytest.mark.parametrize("mode", ["outside", "inside", "shell"])
@settings(max_examples=60, deadline=5000, suppress_health_check=list(HealthCheck))
@given(mesh=soups())
def test_any_triangles(mode: str, mesh: Mesh) -> None:
    try:
        field = with_walls(
            field_of_mesh(mesh, default_settings(0.15, mode=mode, memory=2**26)), 0.3
        )
    except RunnelError:  # and no other
        return
    assert np.isfinite(field.values).all()
    assert (np.abs(field.values) <= np.float32(field.band)).all()
    assert np.isfinite(field.distance(np.random.default_rng(1).uniform(-2, 2, (50, 3)))).all()
    assert field.index is not None
    assert field.index.max(initial=-1) < len(mesh.triangles)


@pytest.mark.slow
def test_a_million_triangles() -> None:
    """A fine ring, and random ones that overlap: both make a field in seconds."""
    ring = made.torus(rows=1000, columns=500)
    start = time.process_time()
    field = field_of_mesh(ring, default_settings(2.8 / 64))
    assert field.volume() == pytest.approx(2 * np.pi**2 * 0.4**2, rel=0.01)
    rng = np.random.default_rng(2)
    corners = rng.uniform(-1, 1, (1_000_000, 1, 3)) + 0.01 * rng.normal(size=(1_000_000, 3, 3))
    soup = Mesh(corners.reshape(-1, 3), np.arange(3_000_000, dtype=np.int32).reshape(-1, 3))
    field = field_of_mesh(soup, default_settings(2.2 / 32))
    assert np.isfinite(field.values).all()
    assert time.process_time() - start < 120


def test_memory_grows_as_the_triangles_do() -> None:
    """Four times as many triangles at the same voxels: the field is as large, the way to it takes
    four times the memory and no more."""
    peaks, sizes = [], []
    settings = default_settings(2.8 / 64)
    field_of_mesh(made.torus(rows=20, columns=10), settings)  # compiled
    for rows in (100, 200):
        ring = made.torus(rows=rows, columns=rows // 2)
        tracemalloc.start()
        sizes.append(field_of_mesh(ring, settings).nbytes)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert sizes[1] == pytest.approx(sizes[0], rel=0.05)
    assert peaks[1] < 4.4 * peaks[0]


def test_a_scene_says_what_voxel_size_fits(tmp_path) -> None:
    (tmp_path / "ring.obj").write_text(
        "".join(f"v {x} {y} {z}\n" for x, y, z in made.torus(rows=30, columns=15).vertices)
        + "".join(f"f {a} {b} {c}\n" for a, b, c in made.torus(rows=30, columns=15).triangles + 1)
    )
    scene = runnel.Scene.from_dict(
        {
            "fluid": [{"name": "water"}],
            "source": [{"fluid": "water", "spacing": 0.1,
                        "shape": {"box": {"min": [0, 0, 2], "max": [1, 1, 3]}}}],
            "collider": [{"name": "ring", "shape": {"mesh": "ring.obj"}, "voxel_size": 1e-4}],
        },
        tmp_path,
    )  # fmt: skip
    with pytest.raises(runnel.SceneError, match=r"collider\[0\].voxel_size.*[MG]B.*at least"):
        runnel.Simulation(scene)
