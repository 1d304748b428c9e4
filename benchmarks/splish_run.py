"""Runs SPlisHSPlasH on one scene; for its own Python: splish_run.py SPEC.json RESULT.npz

The spec is a JSON object: method ("PBF" or "DFSPH"), block, spacing, box, gap (as Setup in
common.py), time_step [s] or null for its own CFL rule with `cfl` and `max_time_step`, iterations
(fixed) or null for `tolerance` [%], looks [s] (times at which positions are kept), steps (at most),
wall [s] (at most).
The result: time [s] at the end of each step, seconds it took, iterations; x_k, v_k at looks.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pysplishsplash as sph

METHODS = {"PBF": 2, "DFSPH": 4}
Z_UP = [0, 2, 1]  # its y points up


def scene(spec: dict[str, Any]) -> dict[str, Any]:
    d = spec["spacing"]
    box = [spec["box"][k] for k in Z_UP]
    fixed, tolerance = spec["iterations"], spec["tolerance"]
    solver = {
        "minIterations": fixed or 2,
        "maxIterations": fixed or 100,
        "maxError": 1e-6 if fixed else tolerance,
    }
    if spec["method"] == "DFSPH":
        solver["enableDivergenceSolver"] = True
        solver["maxIterationsV"] = fixed or 100
        solver["maxErrorV"] = 1e-6 if fixed else max(tolerance, 0.1)  # its default is 0.1
    step = spec["time_step"] or spec["max_time_step"]
    wall = {
        "geometryFile": os.path.join(sys.prefix, "bin", "data", "models", "UnitBox.obj"),
        "translation": [side / 2 for side in box],
        "scale": box,
        "rotationAxis": [1, 0, 0],
        "rotationAngle": 0,
        "isDynamic": False,
        "isWall": True,
        "mapInvert": True,
        "mapThickness": 0.0,
        "mapResolution": [max(20, round(side / 0.0625)) for side in box],
    }
    # A block is sampled from one spacing above its start to one below its end.
    water = {
        "denseMode": 0,
        "start": [(spec["gap"] - 1) * d] * 3,
        "end": [(spec["block"][k] + spec["gap"]) * d for k in Z_UP],
        "translation": [0, 0, 0],
        "scale": [1, 1, 1],
    }
    return {
        "Configuration": {
            "particleRadius": d / 2,
            "numberOfStepsPerRenderUpdate": 1,
            "simulationMethod": METHODS[spec["method"]],
            "gravitation": [0, -9.81, 0],
            "timeStepSize": step,
            "cflMethod": 0 if spec["time_step"] else 1,
            "cflFactor": spec["cfl"],
            "cflMaxTimeStepSize": step,
            "boundaryHandlingMethod": 2,
            "stopAt": -1.0,
            "maxEmitterParticles": 1,
            spec["method"]: solver,
        },
        "Materials": [{"id": "Fluid", "density0": 1000, "viscosityMethod": 0}],
        "RigidBodies": [wall],
        "FluidBlocks": [water],
    }


class Watch:
    """Called after each step."""

    def __init__(self, base: Any, spec: dict[str, Any]) -> None:
        self.base, self.spec = base, spec
        self.looks = list(spec["looks"])
        self.time: list[float] = []
        self.seconds: list[float] = []
        self.iterations: list[int] = []
        self.kept: dict[str, Any] = {}
        self.began = self.last = time.perf_counter()

    def __call__(self) -> None:
        now = time.perf_counter()
        sim = sph.Simulation.getCurrent()
        self.time.append(sph.TimeManager.getCurrent().getTime())
        self.seconds.append(now - self.last)
        self.iterations.append(sim.getTimeStep().getNumIterations())
        while self.looks and self.time[-1] >= self.looks[0] - 1e-6:
            self.look(sim.getFluidModel(0))
        over = len(self.time) >= self.spec["steps"] or now - self.began > self.spec["wall"]
        if over or (self.spec["looks"] and not self.looks):
            self.base.setValueFloat(self.base.STOP_AT, 1e-9)
        self.last = time.perf_counter()

    def look(self, model: Any) -> None:
        n, k = model.numActiveParticles(), len(self.spec["looks"]) - len(self.looks)
        for name, field in (("x", "position"), ("v", "velocity")):
            values = np.array(model.getFieldBuffer(field), copy=True)[:n, Z_UP]
            self.kept[f"{name}_{k}"] = values.astype(np.float32)
        self.looks.pop(0)


def main() -> None:
    spec_file, result_file = (Path(name).resolve() for name in sys.argv[1:])
    spec = json.loads(spec_file.read_text())
    os.chdir(result_file.parent)  # it writes logs where it stands
    scene_file = result_file.with_suffix(".scene.json")
    scene_file.write_text(json.dumps(scene(spec)))
    base = sph.Exec.SimulatorBase()
    base.init(sceneFile=str(scene_file), useGui=False, outputDir=str(result_file.parent / "log"))
    base.initSimulation()
    base.setValueFloat(base.STOP_AT, 1e9)
    watch = Watch(base, spec)
    base.setTimeStepCB(watch)
    base.runSimulation()
    model = sph.Simulation.getCurrent().getFluidModel(0)
    np.savez(
        result_file,
        time=watch.time,
        seconds=watch.seconds,
        iterations=watch.iterations,
        particles=model.numActiveParticles(),
        **watch.kept,
    )
    sys.stdout.flush()
    os._exit(0)  # its own way out crashes


main()
