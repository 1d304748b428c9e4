"""Programs: which constants the sources are built with, and the built kernels."""

from __future__ import annotations

import atexit
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ... import kernels
from ...errors import DeviceError
from ...solver.calibration import (
    EVEN,
    GAUSSIAN_WIDTH,
    KERNELS,
    WALL_SAMPLES,
    Calibration,
    kernel,
)
from ...solver.model import Model
from ..base import SOLID_COLUMNS
from ..pocl import help_device

SLOT = 12  # uints of a row of cells in the table, as in neighbors.cl
CLUSTER = 8  # particles that share a neighbour list: the lanes of a vector
MASKED_ROWS = (1 << 24) - 2 * CLUSTER  # most particles whose list entries have room for lane bits
MODERATE = (1e-4, 1e3)  # radii [m] whose eighth power floats hold, with room to spare
RADIX_BITS_CPU, RADIX_BITS_GPU = 11, 8  # of a sort's pass: few long passes where tiles are few
ROW_BITS = 5
LIST_RUN = 16  # clusters whose lists a work-item makes, on CPUs
FINE_BITS = 3
MOST_PROGRAMS = 16  # kept of a process, 10 MB each on PoCL


@dataclass(frozen=True)
class Variant:
    """What a build of the kernels is for."""

    mixed_sizes: bool  # more than one kernel radius
    levels: int  # of the neighbour grid
    list_max: int  # candidates of a cluster at most
    fine: bool  # keys have room for the place within a cell
    indexed: bool  # data are not in the order of the keys
    masked: bool  # list entries have room for lane bits
    moderate: bool  # no radius whose eighth power leaves the range of floats
    bodies: bool  # some solids are moved by the fluid

    @property
    def defines(self) -> dict[str, int | float]:
        return {
            "MIXED_SIZES": int(self.mixed_sizes),
            "LEVELS": self.levels,
            "LIST_MAX": self.list_max,
            "FINE_BITS": FINE_BITS if self.fine else 0,
            "INDEXED": int(self.indexed),
            "MASKED_LISTS": int(self.masked),
            "MODERATE_RADII": int(self.moderate),
            "BODIES": int(self.bodies),
        }


class Programs:
    """Builds a variant of the kernels when it is first asked for."""

    def __init__(self, context: Any, model: Model, vector_lanes: bool, radix_bits: int) -> None:
        self._context = context
        self._model, self._vector_lanes, self._radix_bits = model, vector_lanes, radix_bits
        self._built: dict[Variant, dict[str, Any]] = {}

    def get(self, variant: Variant) -> dict[str, Any]:
        """Kernels by name."""
        if variant not in self._built:
            m, c = self._model, self._model.calibration
            defines: dict[str, int | float] = {
                "LANES_IN_VECTOR": int(self._vector_lanes),
                "DIMENSIONS": c.dimensions,
                "IGNORED_AXIS": m.ignored_axis,
                "MIXED_FLUIDS": int(len(m.rest_density) > 1),
                "EXACT": int(m.exact),
                "ROW_BITS": ROW_BITS,
                "LIST_RUN": LIST_RUN,
                "RADIX_BITS": self._radix_bits,
                "SOLID_COLUMNS": SOLID_COLUMNS,
                **variant.defines,
                **kernel_defines(c),
            }
            flags = [*kernels.options(defines), *help_device(self._context.devices[0])]
            self._built[variant] = kernels_of(build(self._context, kernels.source(), *flags))
        return self._built[variant]

    def clear(self) -> None:
        self._built.clear()


@lru_cache(maxsize=MOST_PROGRAMS)
def build(context: Any, source: str, *flags: str) -> Any:
    """A program, shared by all simulations that ask for the same: loading takes 0.2 s."""
    import pyopencl as cl

    program = cl.Program(context, source)
    try:
        program.build(options=list(flags))
    except cl.RuntimeError as error:
        name = context.devices[0].name.strip()
        raise DeviceError(f"{name} could not build the kernels: {error}") from error
    return program


atexit.register(build.cache_clear)  # ahead of the driver's own end


def kernels_of(program: Any) -> dict[str, Any]:
    """Kernels by name, new ones: they hold arguments, so each simulation has its own.

    pyopencl's all_kernels() would give such as are never released, and with them their program.
    """
    import pyopencl as cl

    return {name: cl.Kernel(program, name) for name in program.kernel_names.split(";")}


def kernel_defines(c: Calibration) -> dict[str, int | float]:
    """Constants of the smoothing kernels and the calibration, as the sources name them."""
    # Sources write kernels as polynomials of q; here is what stands before them.
    w, dw = kernel(c.kernel, c.dimensions)
    peak = float(w(np.zeros(1))[0])
    sharpness = 1 / GAUSSIAN_WIDTH**2
    if c.kernel == "gaussian":
        peak /= 1 - math.exp(-sharpness)
    if c.kernel == "even":
        peak /= sum(EVEN)
    slope = {
        "even": 2 * peak,
        "wendland": 20 * peak,
        "poly6": -float(dw(np.zeros(1))[0]),
        "cubic": peak,
        "gaussian": 2 * peak * sharpness,
    }[c.kernel]
    return {
        **{f"KERNEL_{name.upper()}": int(name == c.kernel) for name in KERNELS},
        **{f"EVEN_{k}": value for k, value in enumerate(EVEN)},
        "GAUSSIAN_SHARPNESS": sharpness,
        "GAUSSIAN_TAIL": math.exp(-sharpness),
        "W_SCALE": peak / c.lattice_fill,
        "SLOPE_SCALE": slope / c.lattice_fill,
        "STIFFNESS": float(c.stiffness),
        "RELAXATION": float(c.relaxation),
        "CURL_SCALE": float(c.curl_scale),
        "TENSILE_REFERENCE": float(c.tensile_reference),
        "TENSILE_OFFSET": float(c.tensile_offset),
        "SUPPORT": float(c.support),
        "WALL_SAMPLES": WALL_SAMPLES,
    }
