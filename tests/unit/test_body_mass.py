"""Mass, centre and inertia of rigid bodies against formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runnel import Scene
from runnel.bodies.rigid import RigidBodies
from runnel.colliders import Solids
from runnel.motion import euler_matrix

DENSITY = 500.0
SIDES = np.array([0.1, 0.2, 0.4])


def bodies(
    collider: dict[str, Any], folder: Path | None = None, dimensions: int = 3
) -> RigidBodies:
    it = Scene.from_dict(
        {
            "dimensions": dimensions,
            "fluid": [{"name": "water"}],
            "source": [{"fluid": "water", "spacing": 0.02,
                        "shape": {"box": {"min": [5] * 3, "max": [5.1] * 3}}}],
            "collider": [{"body": "rigid", "density": DENSITY} | collider],
        },
        folder,
    )  # fmt: skip
    return RigidBodies(it, Solids(it))


def of_box(sides: np.ndarray) -> np.ndarray:
    """Inertia over mass, about the centre."""
    return np.diag(((sides**2).sum() - sides**2) / 12)


def box_at(low: list[float]) -> dict[str, Any]:
    return {"box": {"min": low, "max": (np.array(low) + SIDES).tolist()}}


@pytest.mark.parametrize("angles", [[0.0, 0.0, 0.0], [30.0, -20.0, 75.0]])
def test_a_box_wherever_it_stands(angles: list[float]) -> None:
    found = bodies({"shape": box_at([0.3, 0, 0]), "position": [1.0, 2.0, 3.0], "rotation": angles})
    turn = euler_matrix(np.array(angles))
    centre = turn @ (np.array([0.3, 0, 0]) + SIDES / 2) + [1.0, 2.0, 3.0]
    mass = DENSITY * SIDES.prod()
    assert found.mass[0] == pytest.approx(mass, rel=1e-6)
    np.testing.assert_allclose(found.centre[0], centre, atol=1e-6)
    expected = mass * turn @ of_box(SIDES) @ turn.T
    np.testing.assert_allclose(found._inertia[0], expected, atol=1e-6 * mass)


def test_scaled_and_by_mass() -> None:
    found = bodies({"shape": box_at([0, 0, 0]), "scale": 2.0, "mass": 3.0})
    assert found.mass[0] == 3.0
    np.testing.assert_allclose(found._inertia[0], 3.0 * of_box(2 * SIDES), rtol=1e-5, atol=1e-9)


def test_a_sphere_and_a_cylinder() -> None:
    r, length = 0.2, 0.6
    ball = bodies({"shape": {"sphere": {"center": [1, 0, 0], "radius": r}}})
    assert ball.mass[0] == pytest.approx(DENSITY * 4 / 3 * np.pi * r**3, rel=1e-6)
    np.testing.assert_allclose(ball._inertia[0], 0.4 * ball.mass[0] * r**2 * np.eye(3), atol=1e-6)
    rod = bodies({"shape": {"cylinder": {"start": [0, 0, 0], "end": [length, 0, 0], "radius": r}}})
    mass = DENSITY * np.pi * r**2 * length
    assert rod.mass[0] == pytest.approx(mass, rel=1e-6)
    across = mass * (r**2 / 4 + length**2 / 12)
    np.testing.assert_allclose(
        rod._inertia[0], np.diag([mass * r**2 / 2, across, across]), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_a_mesh_off_its_origin(tmp_path: Path, scale: float) -> None:
    low = np.array([0.2, -0.1, 0.0])
    corners = [low + SIDES * [x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)]
    quads = ("1 2 4 3", "5 7 8 6", "1 5 6 2", "3 4 8 7", "1 3 7 5", "2 6 8 4")
    lines = ["v {} {} {}".format(*c) for c in corners] + [f"f {q}" for q in quads]
    (tmp_path / "block.obj").write_text("\n".join(lines) + "\n")
    angles = [10.0, 40.0, -30.0]
    found = bodies({"shape": {"mesh": "block.obj"}, "rotation": angles, "scale": scale}, tmp_path)
    turn, mass = euler_matrix(np.array(angles)), DENSITY * (scale * SIDES).prod()
    # By voxels of a field, five of which make its shortest side: as the fluid meets it.
    assert found.mass[0] == pytest.approx(mass, rel=0.02)
    centre = scale * turn @ (low + SIDES / 2)
    np.testing.assert_allclose(found.centre[0], centre, atol=1e-3)
    expected = mass * turn @ of_box(scale * SIDES) @ turn.T
    np.testing.assert_allclose(found._inertia[0], expected, atol=0.03 * np.abs(expected).max())


def test_a_disc_of_a_flat_scene() -> None:
    """Per metre of depth; it turns about the axis that the scene has none of."""
    r = 0.2
    disc = bodies({"shape": {"sphere": {"center": [1, 0, 0], "radius": r}}}, dimensions=2)
    mass = DENSITY * np.pi * r**2
    assert disc.mass[0] == pytest.approx(mass, rel=1e-6)
    assert disc._inertia[0, 1, 1] == pytest.approx(0.5 * mass * r**2, rel=1e-6)


def test_initial_turning_is_in_degrees() -> None:
    found = bodies({"shape": box_at([0, 0, 0]), "angular_velocity": [90.0, 0, 180.0]})
    np.testing.assert_allclose(found.angular_velocity()[0], [np.pi / 2, 0, np.pi], rtol=1e-9)
    expected = found.mass[0] * of_box(SIDES) @ [np.pi / 2, 0, np.pi]
    np.testing.assert_allclose(found.spin[0], expected, rtol=1e-6)


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("radius", [0.001, 0.006])
def test_smaller_than_a_particle(dimensions: int, radius: float) -> None:
    """Debris among large particles has a mass like anything else."""
    ball = {"sphere": {"center": [1.003] * 3, "radius": radius}}
    found = bodies({"shape": ball}, dimensions=dimensions)
    assert found.mass[0] > 0
