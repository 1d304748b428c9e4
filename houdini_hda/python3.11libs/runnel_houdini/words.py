"""Words and pictures of the nodes that are not made from declarations: help cards, icons."""

from __future__ import annotations

_ABOUT = {
    "fluid_solver": """
Wire a closed surface or points into the first input, colliders into the second, and press play.
Units are metres, kilograms and seconds. Frames are simulated when they are asked for and kept in
memory; going back is free, and a changed setting starts anew. Press Esc to stop: frames that are
complete stay.

Points come out with P, v, pscale (the radius), id, phase, density, age and Cd, in a group for each
fluid. Frames can also be simulated to disk, in a process of its own or on a farm; the node then
reads them.

:tip:
    Points of the source may carry viscosity and surfacetension: they scale the fluid's own.
""",
    "fluid_source": """
Put it between a shape and the first input of the solver, and merge as many as you like. The
settings travel as primitive attributes whose names start with runnel_.
""",
    "fluid_collider": """
Put it between a shape and the second, third or fourth input of the solver, and merge as many as you
like. A Body Type of Rigid or Deformable makes it a body in any of them.
The settings travel as primitive attributes whose names start with runnel_.
""",
    "fluid_cache": """
Reads what `Simulate to Disk`, the command line (`runnel run`) or a farm wrote, also while it is
being written: frames that are complete are there.
""",
    "fluid_surface": """
Turns particles into closed polygons with N and v. Particles may differ in size.
""",
}

_DROP = "M32 6 C32 6 12 30 12 42 A20 20 0 0 0 52 42 C52 30 32 6 32 6 Z"
_MARKS = {
    "fluid_solver": '<path d="M22 42 a10 10 0 0 0 10 10" {stroke}/>',
    "fluid_source": '<path d="M32 30 v20 m-8 -8 l8 8 l8 -8" {stroke}/>',
    "fluid_collider": '<rect x="24" y="36" width="16" height="16" {stroke}/>',
    "fluid_cache": '<path d="M22 36 h20 M22 44 h20 M22 52 h20" {stroke}/>',
    "fluid_surface": '<path d="M20 44 q6 -8 12 0 t12 0" {stroke}/>',
}
_STROKE = 'fill="none" stroke="#ffffff" stroke-width="4" stroke-linecap="round"'


def about(name: str) -> str:
    """Text of a node's help card above its parameters."""
    return _ABOUT[name]


def icon(name: str) -> str:
    """SVG of a node's icon."""
    mark = _MARKS[name].format(stroke=_STROKE)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<svg xmlns="http://www.w3.org/2000/svg" width="64" height="64" viewBox="0 0 64 64">\n'
        f'  <path d="{_DROP}" fill="#2f86c8"/>\n'
        f"  {mark}\n"
        "</svg>\n"
    )
