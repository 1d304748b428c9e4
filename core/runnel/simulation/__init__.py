"""Simulation: a scene in motion. Time, frames, what comes in and goes out, reports.

    with Simulation(scene) as sim:
        report = sim.advance(24)
        sim.particles["position"]

run.py drives; setup.py makes the model and the backend of a scene; clock.py divides frames into
steps; particles.py is what users read; state.py stores and restores everything.
"""

from .particles import Particles
from .report import Report
from .run import Simulation

__all__ = ["Particles", "Report", "Simulation"]
