"""What a step or a frame did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..solver.step import StepReport


@dataclass
class Report:
    """One step (`Simulation.step`) or all steps of one frame (`Simulation.advance`).

    Units: kg, kg m/s, m/s, ms; in 2D masses are per metre of depth.
    """

    frame: int = 0  # last frame that is complete
    time: float = 0.0  # [s]
    steps: int = 0
    iterations: float = 0.0  # of a step, mean
    density_error_avg: float = 0.0  # mean of max(rho/rho0 - 1, 0), mean over steps
    density_error_max: float = 0.0  # largest max(rho/rho0 - 1, 0)
    particles: int = 0
    mass: float = 0.0
    momentum: tuple[float, float, float] = (0.0, 0.0, 0.0)
    max_speed: float = 0.0
    emitted: int = 0  # particles
    removed: int = 0  # particles
    milliseconds: dict[str, float] = field(default_factory=dict)  # per stage, sum over steps
    notes: list[str] = field(default_factory=list)  # what people should know, as of meshes
    bodies: list[dict[str, Any]] = field(default_factory=list)  # poses: bodies/rigid.py

    @property
    def ms_per_step(self) -> float:
        return sum(self.milliseconds.values()) / max(self.steps, 1)

    def add(self, step: StepReport) -> None:
        """Take in one more step."""
        self.steps += 1
        self.iterations += (step.iterations - self.iterations) / self.steps
        self.density_error_avg += (step.density_error_avg - self.density_error_avg) / self.steps
        self.density_error_max = max(self.density_error_max, step.density_error_max)
        for stage, spent in step.milliseconds.items():
            self.milliseconds[stage] = self.milliseconds.get(stage, 0.0) + spent

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return {**vars(self), "momentum": list(self.momentum), "ms_per_step": self.ms_per_step}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Report:
        values = {name: value for name, value in data.items() if name != "ms_per_step"}
        x, y, z = values["momentum"]
        return cls(**{**values, "momentum": (x, y, z)})
