"""What a knob is: type, unit, ranges, default, help; how a value of it is read and checked.

The knobs themselves are declared in `params` and `scene`.
"""

from __future__ import annotations

import builtins
import dataclasses
import math
import numbers
import re
import types
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from .errors import SceneError

Range = tuple[float | None, float | None]

NO_RANGE: Final[Range] = (None, None)
REQUIRED: Final = dataclasses.MISSING


@dataclass(frozen=True)
class Spec:
    """What is known about one knob."""

    name: str
    type: builtins.type  # of one component: float, int, bool, str; dict for shapes, keyframes
    size: int  # 1: a scalar; n: a vector; 0: a list of any length
    default: Any  # REQUIRED if it must be given
    optional: bool  # may be None: switched off or derived
    words: tuple[str, ...]  # words allowed in place of a number: "auto"
    choices: tuple[Any, ...] | None  # of a shape: the kinds of shapes
    soon: tuple[str, ...]  # choices of the format that this version does not support yet
    unit: str
    hard: Range  # refused outside
    soft: Range  # range of a slider
    label: str
    help: str
    default_text: str  # in words, where the default depends on something
    pattern: str  # regular expression of a text
    pattern_text: str
    ordered: bool  # of a pair: the first may not exceed the second
    nested: tuple[builtins.type, ...]  # dataclasses of a shape or a keyframe

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def flag(self) -> str:
        """Command line flag."""
        return "--" + self.name.replace("_", "-")

    @property
    def help_with_unit(self) -> str:
        return f"{self.help} [{self.unit}]" if self.unit else self.help

    @property
    def hard_min_is_soft_min(self) -> bool:
        return self.hard[0] is not None and self.hard[0] == self.soft[0]

    @property
    def hard_max_is_soft_max(self) -> bool:
        return self.hard[1] is not None and self.hard[1] == self.soft[1]

    def read(self, value: Any, key: str) -> Any:
        """The value checked and in its Python type; `key` is its path for messages."""
        if value is None and self.optional:
            return None
        if self.size == 1:
            return self._read_one(value, key)
        if not isinstance(value, list | tuple):
            raise SceneError(f"must be {self.kind_text}.{self._about}", key=key, value=value)
        if self.size and len(value) != self.size:
            raise SceneError(
                f"must be {self.kind_text}, not a list of {len(value)}.{self._about}",
                key=key,
                value=value,
            )
        result = tuple(self._read_one(v, f"{key}[{i}]") for i, v in enumerate(value))
        if self.ordered and result[0] > result[1]:
            raise SceneError(
                f"the first must not be above the second.{self._about}", key=key, value=value
            )
        return result

    @property
    def supported(self) -> tuple[Any, ...]:
        """The choices this version supports."""
        return tuple(c for c in self.choices or () if c not in self.soon)

    @property
    def kind_text(self) -> str:
        """What a value looks like, for people."""
        one, many = {
            float: ("a number", "numbers"),
            int: ("a whole number", "whole numbers"),
            bool: ("true or false", "true or false"),
            str: ("a text", "texts"),
            dict: ("a table", "tables"),
        }[self.type]
        if self.choices is not None:
            one = many = "one of " + ", ".join(toml_text(c) for c in self.supported)
        words = "".join(f" or {toml_text(w)}" for w in self.words)
        if self.size == 1:
            return one + words
        return f"a list of {self.size} {many}" if self.size else f"a list of {many}"

    def check_choice(self, value: Any, key: str) -> None:
        """Refuse what is none of the choices, or not supported yet."""
        if self.choices is None or value in self.supported:
            return
        if value in self.soon:
            choices = ", ".join(toml_text(c) for c in self.supported)
            message = f"is not in this version of Runnel, which supports {choices}."
        else:
            message = f"must be {self.kind_text}."
        raise SceneError(message + self._about, key=key, value=value)

    @property
    def range_text(self) -> str:
        """The hard range for people, empty if there is none."""
        low, high = (None if end is None else number_text(end) for end in self.hard)
        unit = f" {self.unit}" if self.unit else ""
        if low is not None and high is not None:
            return f"between {low} and {high}{unit}"
        if low is not None:
            return f"at least {low}{unit}"
        return "" if high is None else f"at most {high}{unit}"

    @property
    def _about(self) -> str:
        return f" {self.label}: {self.help_with_unit}" if self.help else ""

    def _read_one(self, value: Any, key: str) -> Any:
        if isinstance(value, str) and value in self.words:
            return value
        if self.type is float or self.type is int:
            value = self._number(value, key)
        elif not isinstance(value, self.type):
            raise SceneError(f"must be {self.kind_text}.{self._about}", key=key, value=value)
        self.check_choice(value, key)
        if self.pattern and not re.fullmatch(self.pattern, str(value)):
            raise SceneError(f"must be {self.pattern_text}.{self._about}", key=key, value=value)
        return value

    def _number(self, value: Any, key: str) -> float | int:
        """A finite number within the hard range; numpy's scalars pass, bool does not."""
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise SceneError(f"must be {self.kind_text}.{self._about}", key=key, value=value)
        try:
            number = float(value) + 0.0  # -0.0 becomes 0.0: one digest for equal scenes
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise SceneError(f"must be a finite number.{self._about}", key=key, value=value)
        if self.type is int and not number.is_integer():
            raise SceneError(f"must be {self.kind_text}.{self._about}", key=key, value=value)
        low, high = self.hard
        if (low is not None and number < low) or (high is not None and number > high):
            raise SceneError(f"must be {self.range_text}.{self._about}", key=key, value=value)
        return int(number) if self.type is int else number


def param(
    default: Any = REQUIRED,
    *,
    unit: str = "",
    hard: Range = NO_RANGE,
    soft: Range = NO_RANGE,
    label: str = "",
    help: str = "",
    choices: tuple[Any, ...] | None = None,
    soon: tuple[str, ...] = (),
    default_text: str = "",
    pattern: str = "",
    pattern_text: str = "",
    ordered: bool = False,
) -> Any:
    """A dataclass field that is a knob. Without a default it must be given in the scene.

    hard: values outside are refused, ends included. soft: where sliders end; hard's unless given.
    choices are taken from a Literal annotation by themselves. soon: those of the choices that
    are refused for now; taking a word out of here is all it takes to lift that.
    """
    notes = {
        "unit": unit,
        "hard": hard,
        "soft": tuple(h if s is None else s for s, h in zip(soft, hard, strict=True)),
        "label": label,
        "help": help,
        "choices": choices,
        "soon": soon,
        "default_text": default_text,
        "pattern": pattern,
        "pattern_text": pattern_text,
        "ordered": ordered,
    }
    if default is REQUIRED:
        return field(metadata={"param": notes})
    return field(default=default, metadata={"param": notes})


def specs(cls: type) -> list[Spec]:
    """The knobs of a dataclass, in order of declaration."""
    return list(_specs(cls))


@cache
def _specs(cls: type) -> tuple[Spec, ...]:
    hints = get_type_hints(cls)
    found = []
    for f in dataclasses.fields(cls):
        notes = f.metadata.get("param")
        if notes is not None:
            kind = _kind(hints[f.name])
            kind["choices"] = notes["choices"] or kind["choices"]
            label = notes["label"] or f.name.replace("_", " ").title()
            facts = {**notes, **kind, "name": f.name, "default": f.default, "label": label}
            found.append(Spec(**facts))
    return tuple(found)


def _kind(hint: Any) -> dict[str, Any]:
    """Component type, size, ... of an annotation."""
    optional, words, choices, size = False, (), None, 1
    if get_origin(hint) in (Union, types.UnionType):
        members = get_args(hint)
        optional = types.NoneType in members
        words = tuple(w for m in members if get_origin(m) is Literal for w in get_args(m))
        rest = [m for m in members if m is not types.NoneType and get_origin(m) is not Literal]
        if len(rest) > 1:  # a shape
            return {
                "type": dict,
                "size": 1,
                "optional": optional,
                "words": words,
                "choices": None,
                "nested": tuple(rest),
            }
        hint = rest[0]
    if get_origin(hint) is tuple:
        members = get_args(hint)
        size = 0 if members[-1] is Ellipsis else len(members)
        hint = members[0]
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        hint = type(choices[0])
    nested = (hint,) if dataclasses.is_dataclass(hint) else ()
    return {
        "type": dict if nested else hint,
        "size": size,
        "optional": optional,
        "words": words,
        "choices": choices,
        "nested": nested,
    }


def number_text(value: float) -> str:
    """A number for people: 0.01, 1e-6, 2147483647."""
    return re.sub(r"e([+-])0*", lambda m: "e" + m[1].strip("+"), f"{value:.12g}")


def toml_text(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(toml_text(v) for v in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else number_text(value)
