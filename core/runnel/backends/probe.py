"""Asks OpenCL about its devices, or tries one, in a process of its own: drivers may crash.

Run as a script, it imports nothing of ours but runs pocl.py beside it: `probe.py SYS_PATH list`, or
`probe.py SYS_PATH try PLATFORM DEVICE` (counted from 0). The last line on stdout is JSON.
"""

from __future__ import annotations

import json
import math
import runpy
import sys
from pathlib import Path
from typing import Any

# Uses what every pass of the solver relies on: local memory, a barrier, functions of libm.
SOURCE = """
__kernel void probe(__global const float *x_in, __global float *y_out, __local float *tile)
{
    const uint i = get_global_id(0), l = get_local_id(0), n = get_local_size(0);
    tile[l] = x_in[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    const float next = tile[(l + 1) % n];
    y_out[i] = sqrt(next) + cos(x_in[i]) + pow(next, 1.5f);
}
"""
COUNT, GROUP = 64, 8


def devices() -> list[dict[str, Any]]:
    """Fields of devices.DeviceInfo for each device that the loader shows."""
    import pyopencl as cl

    found = []
    for p, platform in enumerate(cl.get_platforms()):
        for d, device in enumerate(platform.get_devices()):
            found.append(
                {
                    "name": device.name.strip(),
                    "platform": platform.name.strip(),
                    "version": device.version.strip(),
                    "driver": device.driver_version.strip(),
                    "kind": _kind(platform.name, device.type),
                    "compute_units": device.max_compute_units,
                    "memory": device.global_mem_size,
                    "largest_buffer": device.max_mem_alloc_size,
                    "local_memory": device.local_mem_size,
                    "shares_memory": bool(device.host_unified_memory),
                    "int64_atomics": "cl_khr_int64_base_atomics" in device.extensions.split(),
                    "platform_index": p,
                    "device_index": d,
                }
            )
    return found


def _kind(platform: str, bits: int) -> str:
    import pyopencl as cl

    if "oclgrind" in platform.lower():  # interprets kernels, claims to be of every kind
        return "simulator"
    if bits & cl.device_type.GPU:
        return "gpu"
    return "cpu" if bits & cl.device_type.CPU else "other"


def attempt(platform_index: int, device_index: int) -> dict[str, Any]:
    """Builds and runs a kernel; returns the widths the compiler chose, or raises."""
    import numpy as np
    import pyopencl as cl

    device = cl.get_platforms()[platform_index].get_devices()[device_index]
    runpy.run_path(str(Path(__file__).with_name("pocl.py")))["help_device"](device)
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, SOURCE).build().probe
    x = np.linspace(0.5, 2.0, COUNT, dtype=np.float32)
    y = np.zeros_like(x)
    flags = cl.mem_flags
    x_in = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x)
    y_out = cl.Buffer(context, flags.WRITE_ONLY, y.nbytes)
    kernel(queue, (COUNT,), (GROUP,), x_in, y_out, cl.LocalMemory(4 * GROUP))
    cl.enqueue_copy(queue, y, y_out)
    queue.finish()
    for i in range(COUNT):
        following = float(x[i - i % GROUP + (i + 1) % GROUP])
        expected = math.sqrt(following) + math.cos(float(x[i])) + following**1.5
        if not math.isclose(float(y[i]), expected, rel_tol=1e-4):
            raise ArithmeticError(f"a test kernel gave {y[i]:g} where {expected:g} is right")
    multiple = cl.kernel_work_group_info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE
    return {
        "preferred_multiple": int(kernel.get_work_group_info(multiple, device)),
        "subgroup_size": _subgroup_size(kernel, device),
    }


def _subgroup_size(kernel: Any, device: Any) -> int:
    import pyopencl as cl

    if "subgroups" not in device.extensions:
        return 0
    what = cl.kernel_sub_group_info.MAX_SUB_GROUP_SIZE_FOR_NDRANGE
    try:
        return int(kernel.get_sub_group_info(device, what, [64]))
    except cl.Error:
        return 0  # announced, but the query is not answered


def main(arguments: list[str]) -> int:
    sys.path[:] = json.loads(arguments[0])
    result: Any
    try:
        if arguments[1] == "list":
            result = devices()
        else:
            result = attempt(int(arguments[2]), int(arguments[3]))
    except Exception as error:  # whatever a driver comes up with is the answer
        result = {"error": f"{type(error).__name__}: {error}".strip()}
    sys.stdout.write("\n" + json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
