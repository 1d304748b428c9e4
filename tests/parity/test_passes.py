"""Every kernel against the reference, pass by pass, over sizes, fluids, kernels and solids.

Single precision of places ten spacings from the origin allows for about 1e-6 spacings.
"""

from __future__ import annotations

import numpy as np
import pytest

from runnel.backends.reference import ReferenceBackend
from tests.parity import scenes
from tests.parity.compare import Twins, by_id, neighbors_agree
from tests.parity.conftest import Make
from tests.parity.scenes import CASES, Case
from tests.unit.reference_setup import chebyshev

FILL = 5e-6
PLACE = 1e-5  # [d]; velocities from places: that much per step
ROUNDING = 1e-6  # [d]: of places themselves, where walls hold what sticks to them
SPEED = 3e-6  # of the fastest particle, where only velocities enter
STEPS = 3


class Run:
    """A case on both backends."""

    def __init__(self, case: Case, make: Make) -> None:
        self.case = case
        model, rows = case.model(), case.rows()
        options = {"reorder_interval": case.reorder_interval}
        self.twins = Twins(make(model, **options), ReferenceBackend(model))
        self.twins.both("load", rows)
        self.twins.both("set_solids", case.solid_rows(), scenes.fields())
        self.time = 0.0

    def spacing(self) -> np.ndarray:
        return by_id(self.twins.reference, "kernel_radius")[1] / 2

    def fastest(self) -> float:
        return self.twins.reference.survey().max_speed

    def stiffness(self) -> np.ndarray:
        """K rho0: multiplier per compression. Exact ones are up to nine times that in these cases,
        where neighbours are few, since they divide by what gradients there are: allow for two."""
        reference, model = self.twins.reference, self.case.model()
        rho0 = model.rest_density[by_id(reference, "phase")[1]]
        per = model.calibration.stiffness * (2 * self.spacing()) ** 2 * rho0
        return 2 * per if self.case.exact else per

    def begin(self) -> None:
        """Prediction and neighbours."""
        twins, case = self.twins, self.case
        twins.both("follow", scenes.currents(case), case.dt)
        twins.agree("fields", "velocity", SPEED * self.fastest())
        twins.take_over("velocity")
        twins.both("predict", case.dt, case.gravity(), scenes.forces(case))
        twins.agree("forces", "velocity", SPEED * self.fastest())
        twins.take_over("position", "velocity")
        twins.both("find_neighbors")
        twins.agree("prediction", "predicted", PLACE * self.spacing())
        twins.take_over("predicted")
        neighbors_agree(twins)
        twins.share_lists()

    def iterate(self, momentum: float, gain: float) -> None:
        twins, d = self.twins, self.spacing()
        twins.both("compute_pressure", momentum, gain)
        twins.agree("fill", "fill", FILL)
        twins.agree("fill without walls", "fluid_fill", FILL)
        twins.agree("multiplier", "multiplier", FILL * self.stiffness())
        twins.agree("change", "change", FILL * self.stiffness())
        twins.both("measure_error")
        errors = twins.device.density_error(), twins.reference.density_error()
        np.testing.assert_allclose(errors[0], errors[1], atol=FILL)
        twins.take_over("multiplier", "change", "fill", "fluid_fill")
        before = by_id(twins.reference, "predicted")[1]
        twins.both("correct_positions", momentum == 0)
        moved = np.linalg.norm(by_id(twins.reference, "predicted")[1] - before, axis=1)
        assert (moved < 1.2 * d).all() or not self.case.solids  # see Case.rows
        twins.agree("correction", "predicted", PLACE * (d + moved))
        twins.agree("push", "push", PLACE * d)
        twins.take_over("predicted", "push")

    def finish(self) -> None:
        """Velocities and what acts on them, removal, survey."""
        twins, case = self.twins, self.case
        twins.both("update_velocities")
        twins.agree("wall response", "velocity", PLACE * self.spacing() / case.dt)
        sticky = ROUNDING * self.spacing() if case.solids else 1e-12
        twins.agree("position", "position", sticky)
        p = by_id(twins.reference, "pressure")[1]
        twins.agree("pressure", "pressure", 1e-6 * abs(p).max() + 1e-6)
        twins.take_over("position", "velocity", "pressure")
        slight = SPEED * self.fastest()
        twins.both("apply_viscosity")
        twins.agree("viscosity", "velocity", slight)
        twins.take_over("velocity")
        twins.both("compute_vorticity")
        omega = np.linalg.norm(by_id(twins.reference, "vorticity")[1], axis=1)
        twins.agree("vorticity", "vorticity", PLACE * omega.max())
        twins.take_over("vorticity")
        twins.both("apply_confinement")
        twins.agree("confinement", "velocity", slight)
        twins.take_over("velocity")
        self.remove()

    def remove(self) -> None:
        twins, case = self.twins, self.case
        self.time += case.dt
        low, high = case.placed((-0.1, -0.1, -0.1)), case.placed((1.0, 1.0, 1.0))
        bounds = low.astype(np.float32), high.astype(np.float32)
        twins.both("remove", scenes.sinks(case), *bounds, self.time, scenes.fields())
        found, expected = twins.device.survey(), twins.reference.survey()
        assert found.count == expected.count == twins.device.count
        assert found.max_speed == pytest.approx(expected.max_speed, rel=1e-5)
        # Rounding may put a particle into the next bin.
        assert found.bulk_speed == pytest.approx(expected.bulk_speed, rel=0.25)
        assert found.bad_id is expected.bad_id is None
        twins.agree("removal", "id", 0.5)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_passes_agree(case, make_backend):
    run = Run(case, make_backend)
    before = run.twins.device.count
    for _ in range(STEPS):
        run.begin()
        for momentum, gain in chebyshev(case.model(), 2):
            run.iterate(momentum, gain)
        run.finish()
    assert 0 < run.twins.device.count < before  # some were removed


@pytest.mark.parametrize("case", CASES, ids=str)
def test_iterations_agree_without_help(case, make_backend):
    """Four accelerated iterations and the velocities, each backend on its own."""
    run = Run(case, make_backend)
    twins, d = run.twins, run.spacing()
    run.begin()
    start = by_id(twins.reference, "predicted")[1]
    for k, (momentum, gain) in enumerate(chebyshev(case.model(), 4)):
        loose = 10 * (k + 1)
        twins.both("compute_pressure", momentum, gain)
        twins.agree(f"multiplier {k}", "multiplier", loose * FILL * run.stiffness())
        twins.both("correct_positions", momentum == 0)
        moved = np.linalg.norm(by_id(twins.reference, "predicted")[1] - start, axis=1)
        twins.agree(f"correction {k}", "predicted", loose * PLACE * (d + moved))
