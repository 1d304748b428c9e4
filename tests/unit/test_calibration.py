"""The constants of a kernel against quadrature, finite differences and plain sums."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.integrate import quad

from runnel.solver.calibration import KERNELS, calibrate, kernel, lattice

CASES = list(product(KERNELS, (2, 3)))
SPHERE = {2: 2 * math.pi, 3: 4 * math.pi}  # circumference, surface at radius 1


def at(f, q: float) -> float:
    return float(f(np.array([q]))[0])


@pytest.mark.parametrize(("name", "dimensions"), CASES)
def test_kernel_has_unit_integral(name, dimensions):
    """W, and the kernel whose slope is dW (spiky for poly6): integrated by parts."""
    w, dw = kernel(name, dimensions)
    shell = SPHERE[dimensions]
    mass, _ = quad(lambda q: at(w, q) * shell * q ** (dimensions - 1), 0, 1, points=[0.5])
    ball, _ = quad(lambda q: -at(dw, q) * shell * q**dimensions / dimensions, 0, 1, points=[0.5])
    assert mass == pytest.approx(1, abs=1e-6)
    assert ball == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(("name", "dimensions"), CASES)
def test_slope_is_the_derivative(name, dimensions):
    """Of W itself for the consistent kernels, of the spiky kernel for poly6."""
    w, dw = kernel(name, dimensions)
    if name == "poly6":
        spiky = {2: 10 / math.pi, 3: 15 / math.pi}[dimensions]

        def w(q):
            return spiky * (1 - q) ** 3

    q = np.linspace(0.01, 0.99, 99)
    step = 1e-5
    expected = (w(q + step) - w(q - step)) / (2 * step)
    np.testing.assert_allclose(dw(q), expected, rtol=1e-6, atol=1e-6)


def test_lattice_sums():
    """ORACLES 2: 33 neighbours with self, 27 strictly inside; sums of poly6."""
    points = np.array(list(product(range(-2, 3), repeat=3)))
    r2 = (points**2).sum(axis=1)
    assert np.count_nonzero(r2 <= 4) == 33
    assert len(lattice(3, 2.0)) == np.count_nonzero(r2 < 4) - 1 == 26
    near = r2[r2 < 4] / 4
    assert 315 / (64 * math.pi) / 8 * ((1 - near) ** 3).sum() == pytest.approx(1.009775, abs=1e-6)
    assert calibrate("poly6", 3).lattice_fill == pytest.approx(1.009775, abs=1e-6)
    assert calibrate("poly6", 2).lattice_fill == pytest.approx(1.01461, abs=1e-5)


@pytest.mark.parametrize(("name", "dimensions"), CASES)
def test_stiffness_is_the_filled_neighbourhood(name, dimensions):
    """K/h^2 = 1/sum |V grad W^|^2 with d = 1, h = 2, summed by a plain loop."""
    c = calibrate(name, dimensions)
    _, dw = kernel(name, dimensions)
    total = 0.0
    for point in product(range(-2, 3), repeat=dimensions):
        r = math.dist(point, (0,) * dimensions)
        if 0 < r < 2:
            total += (at(dw, r / 2) / 2 ** (dimensions + 1) / c.lattice_fill) ** 2
    assert c.stiffness * 4 == pytest.approx(1 / total, rel=1e-9)


def jacobi_operator(name: str, dimensions: int, n: int) -> np.ndarray:
    """-K dC/dp on a periodic lattice of n^dimensions points, d = 1, h = 2, rho0 = 1."""
    c = calibrate(name, dimensions)
    w, dw = kernel(name, dimensions)
    cells = np.array(list(product(range(n), repeat=dimensions)))
    apart = (cells[:, None] - cells[None] + n // 2) % n - n // 2
    r = np.linalg.norm(apart, axis=-1)
    near = (r > 0) & (r < 2)
    safe = np.where(near, r, 1.0)
    own = (w(safe / 2 + 1e-6) - w(safe / 2 - 1e-6)) / 2e-6
    scale = 1 / 2 ** (dimensions + 1) / c.lattice_fill
    followed = np.where(near, dw(safe / 2) * scale / safe, 0.0)[..., None] * apart
    measured = np.where(near, own * scale / safe, 0.0)[..., None] * apart
    # dx_i = sum_j (p_i + p_j) grad W, dC_i = sum_j grad W . (dx_i - dx_j); sums of grad W are 0
    change = -np.einsum("ijk,jlk->il", measured, followed)
    return c.stiffness * 4 * change


@pytest.mark.parametrize("name", KERNELS)
def test_largest_eigenvalue_bounds_a_real_lattice(name):
    c = calibrate(name, 2)
    eigenvalues = np.linalg.eigvals(jacobi_operator(name, 2, 12)).real
    assert eigenvalues.max() <= c.largest_eigenvalue * (1 + 1e-6)
    assert eigenvalues.max() > 0.95 * c.largest_eigenvalue
    assert 0 < c.relaxation * c.largest_eigenvalue < 2


@pytest.mark.parametrize(("name", "dimensions"), CASES)
def test_wall_fills_up_the_lattice(name, dimensions):
    """A half lattice half a spacing from a wall: every layer is full."""
    c = calibrate(name, dimensions)
    w, _ = kernel(name, dimensions)
    q = np.linspace(-1, 1, len(c.wall_fill))
    for layer in range(3):
        fluid = 0.0
        for point in product(range(-2, 3), repeat=dimensions):
            r = math.dist(point, (0,) * dimensions)
            if r < 2 and point[-1] >= -layer:
                fluid += at(w, r / 2) / 2**dimensions / c.lattice_fill
        assert fluid + np.interp((layer + 0.5) / 2, q, c.wall_fill) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(("name", "dimensions"), CASES)
def test_wall_balances_the_lattice(name, dimensions):
    """Under even pressure the wall pushes as hard as the layers it stands for (1 % of that)."""
    c = calibrate(name, dimensions)
    _, dw = kernel(name, dimensions)
    q = np.linspace(-1, 1, len(c.wall_slope))
    for layer in range(2):
        pull = 0.0
        for point in product(range(-2, 3), repeat=dimensions):
            r = math.dist(point, (0,) * dimensions)
            if 0 < r < 2 and point[-1] < -layer:
                slope = at(dw, r / 2) / 2 ** (dimensions + 1) / c.lattice_fill
                pull += slope * -point[-1] / r
        wall = np.interp((layer + 0.5) / 2, q, c.wall_slope) / 2
        assert wall == pytest.approx(pull, abs=0.01 * abs(c.wall_slope).max() / 2)


@pytest.mark.parametrize(("name", "dimensions"), CASES)
def test_wall_hides_its_part_of_gradients_along_it(name, dimensions):
    """Of sum x dW/dx over the lattice, the part of the layers that the wall stands for (1 %)."""
    c = calibrate(name, dimensions)
    _, dw = kernel(name, dimensions)
    q = np.linspace(-1, 1, len(c.wall_shear))
    for layer in range(2):
        whole = hidden = 0.0
        for point in product(range(-2, 3), repeat=dimensions):
            r = math.dist(point, (0,) * dimensions)
            if 0 < r < 2:
                moment = at(dw, r / 2) * point[0] ** 2 / r
                whole += moment
                hidden += moment * (point[-1] < -layer)
        assert np.interp((layer + 0.5) / 2, q, c.wall_shear) == pytest.approx(
            hidden / whole, abs=0.01
        )


@pytest.mark.parametrize(("name", "dimensions"), CASES)
def test_wall_tables_are_monotone(name, dimensions):
    c = calibrate(name, dimensions)
    assert (np.diff(c.wall_fill) <= 0).all()
    assert c.wall_fill[-1] == 0
    assert 0.96 < c.wall_fill[0] <= 1
    assert (c.wall_slope <= 0).all()
    outside = c.wall_shear[len(c.wall_shear) // 2 :]  # inside it is capped
    assert (np.diff(outside) <= 1e-9).all()
    assert c.wall_shear[-1] == 0
    assert c.wall_shear[0] <= 1


def test_unknown_kernel_is_refused():
    with pytest.raises(ValueError, match="poly6, cubic, gaussian"):
        kernel("spline", 3)


def shear_moduli(name: str, dimensions: int, support: float) -> tuple[float, float]:
    """G of docs/theory (support) for both shears of the lattice, by differences of the kernel."""
    points = lattice(dimensions, support / 2) / (support / 2)
    s = (points**2).sum(axis=1)
    _, slope = kernel(name, dimensions)

    def by_square(at: np.ndarray) -> np.ndarray:
        return slope(np.sqrt(at)) / (2 * np.sqrt(at))

    first = by_square(s)
    second = (by_square(s + 1e-6) - by_square(s - 1e-6)) / 2e-6
    x, y = points[:, 0], points[:, 1]
    virial = -np.sum(2 * s * first)
    moduli = [
        4 * np.sum(shear**2 * second + (x * x + y * y) * first) / virial
        for shear in (x * x - y * y, 2 * x * y)
    ]
    return float(moduli[0]), float(moduli[1])


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_lattice_is_no_crystal(dimensions):
    """Nothing holds it against shear at the default support; at h = 2 d something does."""
    assert max(shear_moduli("even", dimensions, 4.4)) <= 0
    assert min(shear_moduli("even", dimensions, 4.4)) >= -0.15  # but it does not burst either
    assert max(shear_moduli("even", dimensions, 4.0)) > 0.1


def test_even_follows_wendland():
    """Slopes within 3 % of the largest where neighbours are."""
    q = np.linspace(0.42, 1, 100)
    (_, even), (_, wendland) = kernel("even", 3), kernel("wendland", 3)
    largest = np.abs(wendland(np.linspace(0, 1, 100))).max()
    assert np.abs(even(q) - wendland(q)).max() <= 0.03 * largest
