"""Panels without a window: all they draw exists in this Blender, in every state of a system."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.blender.shots import begin, until

SOURCES = Path(__file__).resolve().parents[2] / "blender_addon"


class Layout:
    """Takes what Blender's layout takes, and looks up every name in Blender's own tables."""

    def __init__(self, bpy: Any, drawn: list[str]) -> None:
        self.__dict__.update(bpy=bpy, drawn=drawn)
        self.__dict__["functions"] = bpy.types.UILayout.bl_rna.functions

    def __setattr__(self, name: str, value: Any) -> None:
        assert name in self.bpy.types.UILayout.bl_rna.properties, name

    def __getattr__(self, name: str) -> Any:
        known = set(self.functions[name].parameters.keys())

        def call(*arguments: Any, **named: Any) -> Any:
            assert set(named) <= known, (name, named)
            own = type(self).__dict__.get(f"_{name}", type(self)._box)
            return own(self, *arguments, **named)

        return call

    def _box(self, *arguments: Any, **named: Any) -> Layout:
        self.drawn.append(str(named.get("text", "")))
        return self

    def _prop(self, data: Any, name: str, **named: Any) -> None:
        assert name in data.bl_rna.properties, name
        self.drawn.append(data.bl_rna.properties[name].name)

    def _operator(self, name: str, **named: Any) -> Any:
        self.drawn.extend((name, str(named.get("text", ""))))
        group, word = name.split(".")
        properties = getattr(getattr(self.bpy.ops, group), word).get_rna_type().properties
        return Arguments(set(properties.keys()))

    def _menu(self, name: str, **named: Any) -> None:
        assert hasattr(self.bpy.types, name), name


class Arguments:
    """Arguments of an operator that a button sets."""

    def __init__(self, known: set[str]) -> None:
        self.__dict__["known"] = known

    def __setattr__(self, name: str, value: Any) -> None:
        assert name in self.known, name


def draw_all(bpy: Any) -> list[str]:
    from blender_addon import panels

    drawn: list[str] = []
    kinds = ("RUNNEL_PT", "RUNNEL_MT") if bpy.context.scene.runnel.systems else ("RUNNEL_PT",)
    for cls in panels.CLASSES:
        if hasattr(cls, "draw") and cls.__name__.startswith(kinds):
            if getattr(cls, "poll", lambda context: True)(bpy.context):
                cls.draw(SimpleNamespace(layout=Layout(bpy, drawn)), bpy.context)
    panels.draw_status(SimpleNamespace(layout=Layout(bpy, drawn)), bpy.context)
    return drawn


@pytest.mark.parametrize(
    "role", ["NONE", "FLUID", "EMITTER", "COLLIDER", "RIGID", "SOFT", "SINK", "FORCE", "DOMAIN"]
)
def test_every_role_draws_its_knobs(addon: Any, bpy: Any, role: str) -> None:
    from blender_addon import properties
    from blender_addon.knobs import SECTIONS

    properties.add_system(bpy.context.scene)
    properties.add_system(bpy.context.scene)
    bpy.ops.mesh.primitive_cube_add()
    bpy.ops.runnel.set_role(role=role)
    drawn = draw_all(bpy)
    if role != "NONE":
        section = SECTIONS[role]
        for spec in section.specs(section.first + section.more):
            assert spec.label in drawn or any(spec.label in text for text in drawn)


def test_all_states_of_a_bake_are_drawn(addon: Any, bpy: Any, tmp_path: Path) -> None:
    """Nothing yet, unsaved, reading, simulating, paused, failed."""
    from blender_addon import bake

    bpy.ops.mesh.primitive_cube_add()
    assert "runnel.quick_liquid" in draw_all(bpy)
    bpy.ops.runnel.quick_liquid(particles=200)
    assert "wm.save_mainfile" in draw_all(bpy)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "shot.blend"))
    assert "runnel.bake" in draw_all(bpy)
    system = bpy.context.scene.runnel.active_system()
    task = bake.Task(system)
    task.begin(bpy.context)
    task.read(bpy.context, seconds=0.0)
    assert any(text.startswith("Reading") for text in draw_all(bpy))
    task.stop()
    task = begin(bpy)
    until(task, lambda: task.job.frames_done >= 1)
    assert any(text.startswith("Simulating, frame") for text in draw_all(bpy))
    bpy.ops.runnel.pause()
    assert "Resume" in draw_all(bpy)
    os.kill(task.job.pid, signal.SIGKILL)
    until(task, lambda: task.ended or task.job.status is not None)
    drawn = draw_all(bpy)
    assert any("SIGKILL" in text for text in drawn)
    assert "runnel.show_log" in drawn
    bpy.data.objects["Cube"].runnel.role = "EMITTER"
    task = begin(bpy)
    assert task.failed
    assert "runnel.select" in draw_all(bpy)


def test_icons_exist(bpy: Any) -> None:
    """Blender refuses an unknown icon, and drops some between versions."""
    known = bpy.types.UILayout.bl_rna.functions["label"].parameters["icon"].enum_items.keys()
    used = set()
    for path in SOURCES.rglob("*.py"):
        used |= set(re.findall(r'icon="([A-Z_0-9]+)"', path.read_text(encoding="utf-8")))
    from blender_addon.properties import ICONS

    assert used | set(ICONS.values()) <= set(known)
