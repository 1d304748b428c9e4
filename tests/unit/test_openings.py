"""Which faces of half cells of the coarse grid are open: counted by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from runnel import Scene
from runnel.backends.reference.field import World, world_of
from runnel.colliders import Solids
from runnel.solver.cells import beside, number_cells
from runnel.solver.openings import occupied, openings

D = 0.1  # [m] spacing
CELL = 4 * D


def solids(*parts: dict[str, Any], directory: Path | None = None) -> Solids:
    ball = {"sphere": {"center": [0, 0, 0], "radius": 1}}
    data = {
        "frames": [1, 2],
        "fluid": [{"name": "water"}],
        "source": [{"fluid": "water", "spacing": D, "shape": ball}],
        "collider": [{"name": f"part {k}", **part} for k, part in enumerate(parts)],
    }
    return Solids(Scene.from_dict(data, directory))


def box(low: list[float], high: list[float], **keys: Any) -> dict[str, Any]:
    return {"shape": {"box": {"min": low, "max": high}}, **keys}


def lattice(*counts: int) -> NDArray[np.float32]:
    axes = [np.arange(n) for n in counts]
    return ((np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3) + 0.5) * D).astype("f4")


def faces(x: NDArray[np.float32], *parts: dict[str, Any], flat: int = -1) -> NDArray[np.float64]:
    """Open faces by corner, all cells together."""
    return faces_within(x, world_of(solids(*parts).rows(0.0, 0.0), (), flat), flat)


def faces_within(x: NDArray[np.float32], world: World, flat: int = -1) -> NDArray[np.float64]:
    low = np.floor(x.min(axis=0) / CELL).astype(np.float64) * CELL
    grid = (low, 1 / CELL, flat)
    element, keys, table = number_cells(x, *grid)
    masks = occupied(x, *grid, element, len(keys))
    return openings(keys, masks, beside(keys, *table), low, CELL, flat, world, D / 2)


@pytest.mark.parametrize("shift", [0.0, 0.03, 0.11, 0.17, 0.2, 0.29, 0.38])
def test_water_in_a_tank_is_open_at_its_top(shift: float) -> None:
    """Wherever walls lie between the halves of cells, at most those beside a wall are missed."""
    x = lattice(16, 16, 12) + np.float32(shift)
    x += np.random.default_rng(1).uniform(-0.15 * D, 0.15 * D, x.shape).astype("f4")
    walls = box([shift] * 3, [shift + 1.6, shift + 1.6, 3.0], mode="inside")
    found = faces(x, walls)
    assert 36 <= found.sum() <= 81  # of 8 x 8 halves, or 9 x 9 where walls cut them
    assert faces(x).sum() > 4 * found.sum()  # without walls the sides and the floor are open too


def test_a_closed_tank_is_not_open() -> None:
    x = lattice(16, 16, 12)
    assert faces(x, box([0, 0, 0], [1.6, 1.6, 1.2], mode="inside")).sum() == 0


def test_a_thin_plate_closes() -> None:
    """A shell as thin as a sheet over the water, with air above."""
    x = lattice(16, 16, 12)
    walls = box([0, 0, 0], [1.6, 1.6, 3.0], mode="inside")
    plate = box([-1, -1, 1.2], [3, 3, 1.22], mode="outside")
    assert faces(x, walls, plate).sum() == 0


def test_faces_go_to_the_corners_that_are_near() -> None:
    """A drop in one half of a cell: six faces, by trilinear weights of their middles."""
    found = faces(np.full((1, 3), 0.1, np.float32))
    assert found.shape == (1, 8)
    assert found.sum() == pytest.approx(6)
    # The half's middle is at 1/4; of three pairs of faces one each is at 0 and at 1/2.
    assert found[0, 0] == pytest.approx(3 * 0.75**2 * (1 + 0.5))
    assert found[0, 7] == pytest.approx(3 * 0.25**2 * (0 + 0.5))


def test_two_dimensions_have_no_faces_across() -> None:
    x = lattice(16, 1, 12)
    x[:, 1] = 0.0
    assert faces(x, flat=1).sum() == 2 * (8 + 6)


def test_a_hole_in_the_fluid_is_open() -> None:
    x = lattice(16, 16, 12)
    hole = ((x > 0.4) & (x < 0.6)).all(axis=1)
    walls = box([0, 0, 0], [1.6, 1.6, 1.2], mode="inside")
    assert faces(x[~hole], walls).sum() == pytest.approx(6)


def test_a_mesh_closes_as_its_box_does(tmp_path: Path) -> None:
    """A container that is a mesh, turned inside out: the same faces as of the box that it is."""
    corners = np.array([[x, y, z] for x in (0, 1.6) for y in (0, 1.6) for z in (0, 3.0)])
    sides = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    lines = [f"v {x} {y} {z}" for x, y, z in corners]
    lines += ["f " + " ".join(str(i + 1) for i in side) for side in sides]
    (tmp_path / "tank.obj").write_text("\n".join(lines), encoding="ascii")
    part = {"mode": "inside", "shape": {"mesh": "tank.obj"}}
    parts = solids(part, directory=tmp_path)
    x = lattice(16, 16, 12)
    found = faces_within(x, world_of(parts.rows(0.0, 0.0), parts.fields))
    assert found.sum() == faces(x, box([0, 0, 0], [1.6, 1.6, 3.0], mode="inside")).sum() == 64
