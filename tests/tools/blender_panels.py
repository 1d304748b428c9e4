"""The page on the panels of the Blender add-on, made from the declarations behind them."""
# ruff: noqa: E501  rows of tables do not break

from __future__ import annotations

from blender_addon import knobs
from blender_addon.knobs import Section
from runnel.spec import Spec, number_text, toml_text

HEAD = """# Panels

Generated from the declarations in `core/runnel/params.py` and `blender_addon/knobs.py`: run `make docs` after changing them.

All of it is in the tab **Runnel** of the sidebar (`N`) of the 3D view; what belongs to an object is in its properties too. Lengths,
speeds and gravity are shown in the scene's units and leave Blender in SI. Knobs with a box in front are absent until it is ticked; the
default column says what holds then.

| panel | holds |
|---|---|
| Runnel | the systems of the scene, the spacing of particles, **Bake**, progress, takes |
| Object | the role of the active object and what belongs to it; **More** holds what most shots leave alone |
| Fluids | the liquids of the system |
| Check | warnings with buttons that fix or select; particles, memory, disk, time |
| Display | what of the cache is shown: [play back and render](playback.md) |
| Advanced | folder of the cache, frame range, device, memory limit, force fields, export; **Solver** and **Output** |
"""

SYSTEM = """
## Runnel

| button or knob | does |
|---|---|
| Quick Liquid | selected objects become fluid, in a box; without a selection a cube at the cursor does |
| Spacing | distance between particles; half of it is eight times the particles. Objects may have their own |
| Bake | exports the scene and simulates it in a process of its own. Goes on where a bake was stopped; a changed scene becomes a new take |
| Replace | simulates anew into the take that is shown |
| Branch | goes on from the current frame with the settings of now, in a new take; frames up to there are shared |
| Pause, Stop | hold the process still; end the bake at once, where it can go on later. `Esc` stops too, or ends playing the animation first |
| take_001 | the take that is shown; the menu has the others, and deletes |
"""


def page() -> str:
    parts = [HEAD, SYSTEM, "\n## Object\n"]
    parts += [_section(section, "###") for section in knobs.SECTIONS.values()]
    parts += [_section(section, "##") for section in (knobs.FLUID, knobs.SOLVER, knobs.OUTPUT)]
    parts.append(_section(knobs.WORLD, "##"))
    return "".join(parts)


def _section(section: Section, level: str) -> str:
    rows = [(spec, False) for spec in section.specs(section.first)]
    rows += [(spec, True) for spec in section.specs(section.more)]
    lines = ["", f"{level} {section.title}", ""]
    if section.help:
        lines += [section.help, ""]
    lines += [
        "| knob | under More | unit | default | range | what it does |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_row(spec, more) for spec, more in rows]
    return "\n".join(lines) + "\n"


def _row(spec: Spec, more: bool) -> str:
    cells = (spec.label, "yes" if more else "", spec.unit, _default(spec), _range(spec), spec.help)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(spec: Spec) -> str:
    if spec.default_text:
        return spec.default_text
    if spec.required:
        return "the system's"
    return "" if spec.default in (None, "") else toml_text(spec.default).strip('"')


def _range(spec: Spec) -> str:
    if spec.choices is not None:
        return ", ".join(str(choice) for choice in spec.supported)
    low, high = ("" if end is None else number_text(end) for end in spec.hard)
    return (
        f"{low} to {high}"
        if low and high
        else f"from {low}"
        if low
        else f"to {high}"
        if high
        else ""
    )
