"""A strict reader of Houdini's DialogScript: what it does not know is an error.

Written from files that Houdini wrote, not from our writer.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

# Components of a value, and the names they get.
SUFFIXES = {
    "vector2": "xy", "vector": "xyz", "intvector2": "xy", "intvector": "xyz", "color": "rgb",
}  # fmt: skip
PLAIN = {
    "toggle", "float", "integer", "string", "ordinal", "button", "separator", "label", "file",
    "directory", "geometry", "oppath", "log",
}  # fmt: skip
NUMBERS = {"float", "integer", "log", *SUFFIXES}
GROUPS = {"group", "groupsimple", "groupcollapsible", "groupradio"}
FLAGS = {"invisible", "nolabel", "joinnext"}
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*#?")
_TOKEN = re.compile(r'"((?:[^"\\\n]|\\.)*)"|([{}\[\]])|([^\s"{}\[\]]+)')


class DialogError(Exception):
    """What is wrong with a DialogScript, and where."""


@dataclass
class Entry:
    """A parameter or a folder."""

    kind: str  # parm, multiparm, group, ...
    name: str = ""
    label: str = ""
    type: str = ""
    flags: set[str] = field(default_factory=set)
    size: int = 1
    default: list[str] = field(default_factory=list)
    expression: str = ""
    help: str = ""
    menu: list[tuple[str, str]] = field(default_factory=list)
    menu_script: str = ""
    disablewhen: str = ""
    hidewhen: str = ""
    range: list[tuple[float, bool]] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    children: list[Entry] = field(default_factory=list)
    row_of: str = ""  # the multiparm that it is a row of

    @property
    def components(self) -> list[str]:
        """Names of the channels."""
        if self.type in SUFFIXES:
            return [self.name + letter for letter in SUFFIXES[self.type]]
        return [self.name] if self.size == 1 else [f"{self.name}{i + 1}" for i in range(self.size)]


@dataclass
class Dialog:
    name: str
    script: str
    label: str
    inputs: list[str]
    entries: list[Entry]

    def all(self) -> Iterator[Entry]:
        """Folders and parameters, from the top down."""
        yield from _walk(self.entries)

    @property
    def parms(self) -> dict[str, Entry]:
        return {e.name: e for e in self.all() if e.kind in ("parm", "multiparm")}


def _walk(entries: list[Entry]) -> Iterator[Entry]:
    for entry in entries:
        yield entry
        yield from _walk(entry.children)


# --- reading ----------------------------------------------------------------------------------


class _Tokens:
    """Words, quoted texts (as `"text`) and brackets, each with its line."""

    def __init__(self, text: str) -> None:
        self._found: list[tuple[int, str]] = []
        for number, line in enumerate(text.split("\n"), 1):
            if not line.startswith("#"):
                self._found += [(number, token) for token in self._of_line(number, line)]
        self._at = 0

    def _of_line(self, number: int, line: str) -> Iterator[str]:
        at = 0
        while at < len(line):
            if line[at] in " \t":
                at += 1
                continue
            match = _TOKEN.match(line, at)
            if match is None:
                raise DialogError(f"line {number}: a quote is not closed")
            at = match.end()
            yield match[0] if match[1] is None else '"' + re.sub(r"\\(.)", r"\1", match[1])

    @property
    def line(self) -> int:
        return self._found[min(self._at, len(self._found) - 1)][0]

    def peek(self) -> str:
        if self._at >= len(self._found):
            raise DialogError("ends too early: a bracket is not closed")
        return self._found[self._at][1]

    def next(self) -> str:
        token = self.peek()
        self._at += 1
        return token

    def expect(self, token: str) -> None:
        found = self.next()
        if found != token:
            raise self.error(f"{token} expected, not {found}")

    def text(self) -> str:
        token = self.next()
        if not token.startswith('"'):
            raise self.error(f"a quoted text expected, not {token}")
        return token[1:]

    def finish(self) -> None:
        if self._at < len(self._found):
            raise self.error("something follows the last bracket")

    def error(self, words: str) -> DialogError:
        return DialogError(f"line {self.line}: {words}")


def read_dialog(text: str) -> Dialog:
    """Parse and check a DialogScript."""
    tokens = _Tokens(text)
    dialog = Dialog("", "", "", [], [])
    tokens.expect("{")
    while tokens.peek() != "}":
        word = tokens.next()
        if word in ("name", "script"):
            setattr(dialog, word, tokens.next())
        elif word == "label":
            dialog.label = tokens.text()
        elif word == "help":
            _expect_all(tokens, "{", '"', "}")
        elif word == "inputlabel":
            number = tokens.next()
            if number != str(len(dialog.inputs) + 1):
                raise tokens.error(f"inputlabel {number} is out of order")
            dialog.inputs.append(tokens.text())
        else:
            dialog.entries.append(_entry(tokens, word, ""))
    tokens.expect("}")
    tokens.finish()
    _check(dialog)
    return dialog


def _expect_all(tokens: _Tokens, *expected: str) -> None:
    for token in expected:
        tokens.expect(token)


def _entry(tokens: _Tokens, kind: str, row_of: str) -> Entry:
    if kind not in GROUPS | {"parm", "multiparm"}:
        raise tokens.error(f"unknown word {kind}")
    entry = Entry(kind, row_of=row_of)
    tokens.expect("{")
    seen: set[str] = set()
    while tokens.peek() != "}":
        word = tokens.next()
        if word in GROUPS | {"parm", "multiparm"}:
            if kind == "parm":
                raise tokens.error(f"{word} inside of a parm")
            row = entry.name if kind == "multiparm" else row_of
            entry.children.append(_entry(tokens, word, row))
            continue
        if word in seen and word not in ("parmtag", "grouptag"):
            raise tokens.error(f"{word} is given twice")
        seen.add(word)
        _key(tokens, entry, word)
    tokens.expect("}")
    needed = {"name", "label"} | ({"type", "default"} if kind == "parm" else set())
    if needed - seen:
        raise tokens.error(f"{kind} {entry.name} lacks {', '.join(sorted(needed - seen))}")
    return entry


def _key(tokens: _Tokens, entry: Entry, word: str) -> None:
    if word in ("name", "label", "help", "disablewhen", "hidewhen"):
        setattr(entry, word, tokens.text())
    elif word in FLAGS:
        entry.flags.add(word)
    elif word == "type":
        entry.type = tokens.next()
    elif word == "size":
        entry.size = _whole(tokens)
    elif word == "default" and entry.kind == "multiparm":
        entry.default = [str(_whole(tokens))]
    elif word == "default":
        _default(tokens, entry)
    elif word in ("menu", "menureplace", "menutoggle"):
        _menu(tokens, entry)
    elif word == "range":
        tokens.expect("{")
        entry.range = [_end(tokens), _end(tokens)]
        tokens.expect("}")
    elif word in ("parmtag", "grouptag"):
        tokens.expect("{")
        key, value = tokens.text(), tokens.text()
        if key in entry.tags:
            raise tokens.error(f"tag {key} is given twice")
        entry.tags[key] = value
        tokens.expect("}")
    else:
        raise tokens.error(f"unknown key {word}")


def _whole(tokens: _Tokens) -> int:
    word = tokens.next()
    if not word.isdigit():
        raise tokens.error(f"a whole number expected, not {word}")
    return int(word)


def _default(tokens: _Tokens, entry: Entry) -> None:
    tokens.expect("{")
    if tokens.peek() == "[":
        tokens.next()
        entry.expression = tokens.text()
        language = tokens.next()
        if language not in ("hscript-expr", "python-expr"):
            raise tokens.error(f"unknown language {language}")
        tokens.expect("]")
    else:
        while tokens.peek() != "}":
            entry.default.append(tokens.text())
    tokens.expect("}")


def _menu(tokens: _Tokens, entry: Entry) -> None:
    tokens.expect("{")
    lines = []
    while tokens.peek() == "[":
        tokens.next()
        lines.append(tokens.text())
        tokens.expect("]")
    if lines:
        _expect_all(tokens, "language", "python")
        entry.menu_script = "\n".join(lines)
    while tokens.peek() != "}":
        entry.menu.append((tokens.text(), tokens.text()))
    tokens.expect("}")


def _end(tokens: _Tokens) -> tuple[float, bool]:
    word = tokens.next()
    try:
        return float(word.removesuffix("!")), word.endswith("!")
    except ValueError:
        raise tokens.error(f"a range needs numbers, not {word}") from None


# --- checking ---------------------------------------------------------------------------------


def _check(dialog: Dialog) -> None:
    _check_names(dialog)
    parms = dialog.parms
    for entry in dialog.all():
        if entry.kind == "parm":
            _check_parm(entry)
        elif entry.kind != "group" and entry.kind != "multiparm":
            if entry.tags.get("group_type") != entry.kind.removeprefix("group"):
                raise DialogError(f"{entry.name}: group_type does not fit {entry.kind}")
        for condition in (entry.disablewhen, entry.hidewhen):
            if condition:
                _check_condition(entry, condition, parms)


def _check_names(dialog: Dialog) -> None:
    taken: dict[str, str] = {}
    for entry in dialog.all():
        if not NAME.fullmatch(entry.name):
            raise DialogError(f"{entry.name!r} is no name of a parameter")
        if ("#" in entry.name) != bool(entry.row_of):
            raise DialogError(f"{entry.name}: # stands in the rows of a multiparm, and only there")
        for name in {entry.name, *entry.components}:
            if name in taken:
                raise DialogError(f"{name} is declared twice: in {taken[name]} and {entry.name}")
            taken[name] = entry.name


def _check_parm(entry: Entry) -> None:
    if entry.type not in PLAIN | set(SUFFIXES):
        raise DialogError(f"{entry.name}: unknown type {entry.type}")
    size = len(SUFFIXES.get(entry.type, "1"))
    if entry.size != size:
        raise DialogError(f"{entry.name}: {entry.type} has {size} components, not {entry.size}")
    if not entry.expression:
        _check_default(entry)
    if entry.range and not entry.range[0][0] < entry.range[1][0]:
        raise DialogError(f"{entry.name}: the range is empty")
    if not entry.help and "invisible" not in entry.flags and entry.type not in ("separator",):
        raise DialogError(f"{entry.name}: has no tooltip")
    if "script_callback" in entry.tags:
        if entry.tags.get("script_callback_language") != "python":
            raise DialogError(f"{entry.name}: the callback's language is not python")
        _compiles(entry, entry.tags["script_callback"])
    elif entry.type == "button":
        raise DialogError(f"{entry.name}: a button without a callback")
    if entry.menu_script:
        body = entry.menu_script.replace("\n", "\n    ")
        _compiles(entry, f"def menu(kwargs):\n    {body}")


def _check_default(entry: Entry) -> None:
    if len(entry.default) != entry.size:
        count = len(entry.default)
        raise DialogError(f"{entry.name}: {count} defaults for {entry.size} components")
    tokens = [token for token, _ in entry.menu]
    if len(set(tokens)) < len(tokens):
        raise DialogError(f"{entry.name}: the menu has a token twice")
    if tokens and entry.default[0] not in tokens:
        raise DialogError(f"{entry.name}: the default {entry.default[0]} is not in the menu")
    if entry.type not in NUMBERS | {"toggle"}:
        return
    for i, text in enumerate(entry.default):
        try:
            value = float(text)
        except ValueError:
            raise DialogError(f"{entry.name}: the default {text!r} is no number") from None
        if entry.type.startswith("int") and not value.is_integer():
            raise DialogError(f"{entry.name}: the default {text!r} is not whole")
        if entry.range and not _fits(entry, value):
            raise DialogError(f"{entry.name}: default {i} is beyond a locked end of the range")


def _fits(entry: Entry, value: float) -> bool:
    (low, low_locked), (high, high_locked) = entry.range
    return not (low_locked and value < low) and not (high_locked and value > high)


def _compiles(entry: Entry, code: str) -> None:
    try:
        ast.parse(code)
    except SyntaxError as error:
        raise DialogError(f"{entry.name}: {error.msg} in {code!r}") from None


def _check_condition(entry: Entry, condition: str, parms: dict[str, Entry]) -> None:
    """{ a == 1 b != two } { c == 0 }"""
    clauses = re.findall(r"\{([^{}]*)\}", condition)
    if not clauses or re.sub(r"\{[^{}]*\}", "", condition).strip():
        raise DialogError(f"{entry.name}: {condition!r} is no condition")
    for clause in clauses:
        words = clause.split()
        if not words or len(words) % 3:
            raise DialogError(f"{entry.name}: {clause!r} is no condition")
        for name, relation, value in zip(words[::3], words[1::3], words[2::3], strict=True):
            if relation not in ("==", "!=", "<", ">", "<=", ">="):
                raise DialogError(f"{entry.name}: unknown relation {relation}")
            _check_term(entry, name, value, parms)


def _check_term(entry: Entry, name: str, value: str, parms: dict[str, Entry]) -> None:
    other = parms.get(name)
    if other is None:
        raise DialogError(f"{entry.name}: there is no parameter {name} to depend on")
    if other.row_of and other.row_of != entry.row_of:
        raise DialogError(f"{entry.name}: {name} is in the rows of another multiparm")
    if other is entry:
        raise DialogError(f"{entry.name}: depends on itself")
    if other.menu and value not in [token for token, _ in other.menu]:
        raise DialogError(f"{entry.name}: {name} is never {value}")
    if other.type == "toggle" and value not in ("0", "1"):
        raise DialogError(f"{entry.name}: {name} is never {value}")
