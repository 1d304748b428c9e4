"""A stand-in for `ld -shared`, for machines without one: links OpenCL kernels, nothing else.

PoCL turns each kernel into an x86-64 object file and lets clang's driver call `ld` on it, with
`-lgcc -lc` behind; where `ld` or the libraries' development files are missing it aborts the whole
process. This module links such objects into a shared object by itself. What a kernel does not
define (memcpy, sinf) is imported from libc, libm and libgcc_s when the result is loaded.

    needed()          does this machine lack what PoCL calls?
    install(folder)   writes an executable `ld` into the folder that runs this file

It runs alone, outside of the package, so it imports nothing of ours. The format: System V ABI,
chapters 4 and 5, and its AMD64 supplement, tables 4.9 to 4.11.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PAGE = 4096

# Section kinds, flags and special section numbers.
SHT_PROGBITS, SHT_SYMTAB, SHT_RELA, SHT_NOBITS = 1, 2, 4, 8
SHT_INIT_ARRAY, SHT_FINI_ARRAY, SHT_X86_64_UNWIND = 14, 15, 0x70000001
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS = 1, 2, 4, 0x400
SHN_UNDEF, SHN_ABS, SHN_COMMON = 0, 0xFFF1, 0xFFF2

# Symbol binding and visibility.
STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
STV_DEFAULT, STV_PROTECTED = 0, 3

# Relocations that position-independent code of the small model uses; S symbol, A addend, P place.
R_NONE, R_64, R_PC32, R_PLT32, R_GLOB_DAT, R_RELATIVE = 0, 1, 2, 4, 6, 8
R_GOTPCREL, R_PC64, R_GOTPCRELX, R_REX_GOTPCRELX = 9, 24, 41, 42
GOT_RELATIVE = (R_GOTPCREL, R_GOTPCRELX, R_REX_GOTPCRELX)

# Entries of the dynamic section.
DT_NULL, DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA = 0, 1, 4, 5, 6, 7
DT_RELASZ, DT_RELAENT, DT_STRSZ, DT_SYMENT, DT_BIND_NOW = 8, 9, 10, 11, 24

# Segments.
PT_LOAD, PT_DYNAMIC, PT_GNU_STACK = 1, 2, 0x6474E551
PF_X, PF_W, PF_R = 1, 2, 4

EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
SHDR = struct.Struct("<IIQQQQIIQQ")
PHDR = struct.Struct("<IIQQQQQQ")
SYM = struct.Struct("<IBBHQQ")
RELA = struct.Struct("<QQq")
DYN = struct.Struct("<QQ")


class LinkError(Exception):
    """The input is nothing this linker can do; `ld` proper is needed."""


@dataclass(eq=False)
class Symbol:
    """A name for a place in a section, or for something to import (`section` is None)."""

    name: str
    binding: int
    info: int
    visibility: int
    section: Section | None
    value: int
    size: int
    absolute: bool = False

    @property
    def imported(self) -> bool:
        return self.section is None and not self.absolute

    @property
    def address(self) -> int:
        return self.value if self.section is None else self.section.address + self.value


@dataclass
class Relocation:
    """Write what `kind` says about `symbol` + `addend` at `offset` of the section."""

    offset: int
    kind: int
    symbol: Symbol
    addend: int


@dataclass(eq=False)
class Section:
    """Bytes that end up in memory. `address` is set by the layout."""

    flags: int
    align: int
    size: int
    data: bytes  # empty if all zero
    relocations: list[Relocation] = field(default_factory=list)
    address: int = 0


@dataclass
class ObjectFile:
    sections: list[Section]
    symbols: list[Symbol]


def align(value: int, boundary: int) -> int:
    return -(-value // boundary) * boundary


# --- reading --------------------------------------------------------------------------------------


def read_object(data: bytes) -> ObjectFile:
    """Reads a relocatable x86-64 object."""
    if len(data) < EHDR.size or data[:6] != b"\x7fELF\x02\x01":
        raise LinkError("not a 64-bit little-endian ELF file")
    header = EHDR.unpack_from(data)
    kind, machine, table, count = header[1], header[2], header[6], header[12]
    if (kind, machine) != (1, 62):
        raise LinkError(f"not an x86-64 object (ELF type {kind}, machine {machine})")
    headers = [SHDR.unpack_from(data, table + SHDR.size * k) for k in range(count)]
    sections = {k: s for k, h in enumerate(headers) if (s := _section(data, h)) is not None}
    symbols: list[Symbol] = []
    for h in headers:
        if h[1] == SHT_SYMTAB:
            symbols = _symbols(data, h, headers[h[6]], sections)
    for h in headers:
        if h[1] == SHT_RELA and h[7] in sections:
            sections[h[7]].relocations += [
                Relocation(offset, info & 0xFFFFFFFF, symbols[info >> 32], addend)
                for offset, info, addend in RELA.iter_unpack(data[h[4] : h[4] + h[5]])
            ]
    return ObjectFile(list(sections.values()), symbols)


def _section(data: bytes, header: tuple[int, ...]) -> Section | None:
    """The section if it occupies memory."""
    _, kind, flags, _, offset, size, _, _, boundary, _ = header
    if not flags & SHF_ALLOC:
        return None
    if flags & SHF_TLS:
        raise LinkError("thread-local storage is not supported")
    if kind in (SHT_INIT_ARRAY, SHT_FINI_ARRAY) and size:
        raise LinkError("constructors and destructors are not supported")
    if kind not in (SHT_PROGBITS, SHT_NOBITS, SHT_X86_64_UNWIND):
        return None
    content = b"" if kind == SHT_NOBITS else data[offset : offset + size]
    return Section(flags, max(1, boundary), size, content)


def _symbols(
    data: bytes,
    header: tuple[int, ...],
    strings: tuple[int, ...],
    sections: dict[int, Section],
) -> list[Symbol]:
    names = data[strings[4] : strings[4] + strings[5]]
    result: list[Symbol] = []
    for name, info, other, index, value, size in SYM.iter_unpack(data[header[4] :][: header[5]]):
        text = names[name : names.index(b"\0", name)].decode()
        section = sections.get(index)
        if index == SHN_COMMON:  # an uninitialised global; value is its alignment
            section = Section(SHF_ALLOC | SHF_WRITE, max(1, value), size, b"")
            sections[-1 - len(result)] = section
            value = 0
        result.append(
            Symbol(text, info >> 4, info, other & 3, section, value, size, index == SHN_ABS)
        )
    return result


# --- resolving ------------------------------------------------------------------------------------


class Names:
    """Which symbol each global name means."""

    def __init__(self, objects: Iterable[ObjectFile]) -> None:
        self.defined: dict[str, Symbol] = {}
        self.imports: dict[str, Symbol] = {}
        symbols = [s for o in objects for s in o.symbols if s.binding != STB_LOCAL and s.name]
        for symbol in symbols:
            if not symbol.imported:
                self._define(symbol)
        for symbol in symbols:
            # clang names the table it addresses relative to; nothing refers to it by itself.
            if symbol.imported and symbol.name not in (*self.defined, "_GLOBAL_OFFSET_TABLE_"):
                self.imports.setdefault(symbol.name, symbol)

    def _define(self, symbol: Symbol) -> None:
        other = self.defined.get(symbol.name)
        if other is None or (other.binding == STB_WEAK and symbol.binding == STB_GLOBAL):
            self.defined[symbol.name] = symbol
        elif other.binding == symbol.binding == STB_GLOBAL:
            raise LinkError(f"{symbol.name} is defined twice")

    def resolve(self, symbol: Symbol) -> Symbol:
        """The one symbol that stands for this reference."""
        if symbol.binding == STB_LOCAL:
            return symbol
        found = self.defined.get(symbol.name) or self.imports.get(symbol.name)
        if found is None:
            raise LinkError(f"{symbol.name} cannot be resolved")
        return found

    def exported(self) -> list[Symbol]:
        visible = (STV_DEFAULT, STV_PROTECTED)
        return [s for s in self.defined.values() if s.visibility in visible]


# --- writing --------------------------------------------------------------------------------------


class SharedObject:
    """Lays objects out in memory and writes the result; file offsets equal addresses.

    read-only    headers, hash, symbols, strings, relocations, constants
    executable   code, one jump for each imported function
    writable     dynamic section, addresses of symbols (GOT), data
    """

    HEADERS = EHDR.size + 5 * PHDR.size

    def __init__(self, objects: Sequence[ObjectFile]) -> None:
        self.names = Names(objects)
        self.sections = [s for o in objects for s in o.sections]
        self.imports = list(self.names.imports.values())
        self.exports = self.names.exported()
        self.strings = bytearray(b"\0")
        self.libraries = [self._string(name) for name in self._libraries()]
        self.name_offsets = [self._string(s.name) for s in self.imports + self.exports]
        self.got: dict[Symbol, int] = dict.fromkeys(self.imports, 0)
        self.plt: dict[Symbol, int] = {}
        self.dynamic_relocations: list[tuple[int, int, int]] = []
        room = self._collect()
        self._lay_out(room)
        self.image = bytearray(self.end)

    def _libraries(self) -> list[str]:
        # Arithmetic the processor lacks (128-bit division, half floats) is named __something.
        helpers = any(s.name.startswith("__") for s in self.imports)
        return ["libm.so.6", "libc.so.6"] + ["libgcc_s.so.1"] * helpers

    def _string(self, text: str) -> int:
        offset = len(self.strings)
        self.strings += text.encode() + b"\0"
        return offset

    def _collect(self) -> int:
        """Finds what needs a GOT entry; returns how many dynamic relocations there will be."""
        absolute = 0
        for section in self.sections:
            for relocation in section.relocations:
                relocation.symbol = self.names.resolve(relocation.symbol)
                absolute += relocation.kind == R_64
                if relocation.kind in GOT_RELATIVE:
                    self.got.setdefault(relocation.symbol, 0)
        return absolute + len(self.got)

    def _lay_out(self, relocations: int) -> None:
        symbols = 1 + len(self.imports) + len(self.exports)
        self.hash_at = align(self.HEADERS, 8)
        self.symbols_at = align(self.hash_at + 4 * (3 + symbols), 8)
        self.strings_at = self.symbols_at + SYM.size * symbols
        self.relocations_at = align(self.strings_at + len(self.strings), 8)
        end = self.relocations_at + RELA.size * relocations
        self.read_end = self._place(end, lambda f: not f & (SHF_EXECINSTR | SHF_WRITE))

        self.code_at = align(self.read_end, PAGE)
        end = align(self._place(self.code_at, lambda f: bool(f & SHF_EXECINSTR)), 16)
        for k, symbol in enumerate(self.imports):
            self.plt[symbol] = end + 16 * k
        self.code_end = end + 16 * len(self.imports)

        self.data_at = align(self.code_end, PAGE)
        self.dynamic_size = DYN.size * (10 + len(self.libraries))
        got_at = self.data_at + self.dynamic_size
        for k, symbol in enumerate(self.got):
            self.got[symbol] = got_at + 8 * k
        end = got_at + 8 * len(self.got)
        writable_only = SHF_WRITE | SHF_EXECINSTR
        self.end = self._place(end, lambda f: f & writable_only == SHF_WRITE)

    def _place(self, position: int, wanted: Callable[[int], bool]) -> int:
        for section in self.sections:
            if wanted(section.flags):
                position = align(position, section.align)
                section.address = position
                position += section.size
        return position

    def write(self) -> bytes:
        for section in self.sections:
            self.image[section.address : section.address + len(section.data)] = section.data
        self._write_imports()
        for section in self.sections:
            for relocation in section.relocations:
                self._relocate(section.address + relocation.offset, relocation)
        self._write_symbols()
        for k, (offset, info, addend) in enumerate(self.dynamic_relocations):
            RELA.pack_into(self.image, self.relocations_at + RELA.size * k, offset, info, addend)
        self._write_dynamic()
        self._write_headers()
        return bytes(self.image)

    def _symbol_index(self, symbol: Symbol) -> int:
        return 1 + self.imports.index(symbol)

    def _write_imports(self) -> None:
        for symbol, place in self.got.items():
            if symbol.imported:
                index = self._symbol_index(symbol)
                self.dynamic_relocations.append((place, index << 32 | R_GLOB_DAT, 0))
            else:
                self._write_address(place, symbol.address)
        for symbol, place in self.plt.items():  # jmp *got(%rip)
            struct.pack_into("<Hi", self.image, place, 0x25FF, self.got[symbol] - (place + 6))

    def _write_address(self, place: int, address: int) -> None:
        """An address inside this object; the loader adds where the object came to lie."""
        struct.pack_into("<q", self.image, place, address)
        self.dynamic_relocations.append((place, R_RELATIVE, address))

    def _relocate(self, place: int, relocation: Relocation) -> None:
        symbol, addend = relocation.symbol, relocation.addend
        match relocation.kind:
            case 2 | 4:  # R_PC32, R_PLT32: S + A - P, by way of the jump if imported
                target = self.plt[symbol] if symbol.imported else symbol.address
                self._write_relative("<i", place, target + addend - place, symbol)
            case 24:  # R_PC64
                target = self.plt[symbol] if symbol.imported else symbol.address
                self._write_relative("<q", place, target + addend - place, symbol)
            case 9 | 41 | 42:  # GOT_RELATIVE: G + A - P
                self._write_relative("<i", place, self.got[symbol] + addend - place, symbol)
            case 1 if symbol.imported:  # R_64: S + A
                index = self._symbol_index(symbol)
                self.dynamic_relocations.append((place, index << 32 | R_64, addend))
            case 1:
                self._write_address(place, symbol.address + addend)
            case 0:
                pass
            case kind:
                raise LinkError(f"relocation {kind} of {symbol.name or 'a section'} is unknown")

    def _write_relative(self, layout: str, place: int, value: int, symbol: Symbol) -> None:
        try:
            struct.pack_into(layout, self.image, place, value)
        except struct.error:
            raise LinkError(f"{symbol.name or 'a section'} is too far away") from None

    def _write_symbols(self) -> None:
        count = 1 + len(self.imports) + len(self.exports)
        # One bucket whose chain visits every symbol: kernels have a handful.
        chain = [*range(2, count), 0] if count > 1 else []
        table = [1, count, min(1, count - 1), 0, *chain]
        struct.pack_into(f"<{len(table)}I", self.image, self.hash_at, *table)
        place = self.symbols_at
        for symbol, name in zip(self.imports + self.exports, self.name_offsets, strict=True):
            place += SYM.size  # the first entry stays empty
            # Loaders only ask whether the section number is undefined, absolute, or neither.
            section = SHN_UNDEF if symbol.imported else SHN_ABS if symbol.absolute else 1
            row = (name, symbol.info, symbol.visibility, section, symbol.address, symbol.size)
            SYM.pack_into(self.image, place, *row)
        self.image[self.strings_at : self.strings_at + len(self.strings)] = self.strings

    def _write_dynamic(self) -> None:
        entries = [(DT_NEEDED, name) for name in self.libraries] + [
            (DT_HASH, self.hash_at),
            (DT_STRTAB, self.strings_at),
            (DT_STRSZ, len(self.strings)),
            (DT_SYMTAB, self.symbols_at),
            (DT_SYMENT, SYM.size),
            (DT_RELA, self.relocations_at),
            (DT_RELASZ, RELA.size * len(self.dynamic_relocations)),
            (DT_RELAENT, RELA.size),
            (DT_BIND_NOW, 0),
            (DT_NULL, 0),
        ]
        for k, entry in enumerate(entries):
            DYN.pack_into(self.image, self.data_at + DYN.size * k, *entry)

    def _write_headers(self) -> None:
        magic = b"\x7fELF\x02\x01\x01"
        header = (3, 62, 1, 0, EHDR.size, 0, 0, EHDR.size, PHDR.size, 5, SHDR.size, 0, 0)
        EHDR.pack_into(self.image, 0, magic, *header)
        segments = [
            (PT_LOAD, PF_R, 0, self.read_end, PAGE),
            (PT_LOAD, PF_R | PF_X, self.code_at, self.code_end - self.code_at, PAGE),
            (PT_LOAD, PF_R | PF_W, self.data_at, self.end - self.data_at, PAGE),
            (PT_DYNAMIC, PF_R | PF_W, self.data_at, self.dynamic_size, 8),
            (PT_GNU_STACK, PF_R | PF_W, 0, 0, 16),
        ]
        for k, (kind, flags, start, size, boundary) in enumerate(segments):
            row = (kind, flags, start, start, start, size, size, boundary)
            PHDR.pack_into(self.image, EHDR.size + PHDR.size * k, *row)


def link(objects: Sequence[bytes]) -> bytes:
    """Links relocatable objects into one shared object."""
    return SharedObject([read_object(data) for data in objects]).write()


# --- as a command ---------------------------------------------------------------------------------

# Options of ld that take the next argument.
WITH_VALUE = ("-m", "-z", "-h", "-soname", "-dynamic-linker", "-plugin", "-rpath", "-e", "-u")


def main(arguments: Sequence[str]) -> int:
    """Understands as much of ld's command line as clang's driver uses. Returns the exit status."""
    output, inputs = "a.out", []
    words = iter(arguments)
    for word in words:
        if word == "-o":
            output = next(words, output)
        elif word in WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            inputs.append(word)
    try:
        if "-shared" not in arguments:
            raise LinkError("only -shared is supported")
        if not inputs:
            raise LinkError("no input files")
        image = link([Path(name).read_bytes() for name in inputs])
        Path(output).write_bytes(image)
        os.chmod(output, 0o755)
    except (LinkError, OSError) as error:
        sys.stderr.write(f"runnel's ld: {error}; install binutils and gcc for the real one\n")
        return 1
    return 0


# --- providing it ---------------------------------------------------------------------------------

LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64", "/lib")
GCC_FOLDERS = ("/usr/lib/gcc", "/usr/lib64/gcc", "/usr/local/lib/gcc")


def missing(path: str | None = None, root: Path = Path("/")) -> str:
    """What PoCL's link step would not find on this machine, "" if nothing.

    `path` replaces $PATH; files are looked up below `root`.
    """
    import shutil  # would double the time of a link

    if shutil.which("ld", path=path) is None:
        return "ld"
    if not any((root / f.lstrip("/") / "libc.so").exists() for f in LIBRARY_FOLDERS):
        return "libc.so (development files of libc)"
    if not any(any((root / f.lstrip("/")).glob("*/*/libgcc.a")) for f in GCC_FOLDERS):
        return "libgcc.a (development files of gcc)"
    return ""


def needed(path: str | None = None) -> bool:
    """True where PoCL may run but cannot link; `path` replaces $PATH."""
    return sys.platform == "linux" and os.uname().machine == "x86_64" and bool(missing(path))


def install(folder: Path, interpreter: str = sys.executable) -> Path:
    """Writes `folder`/ld, which runs this file; returns it. Safe when several processes do it."""
    folder.mkdir(parents=True, exist_ok=True)
    launcher = folder / "ld"
    # By way of sh: a #! line has no room for long paths nor for spaces in them.
    # Imported rather than run as a script: its compiled form is kept then, which halves the time.
    here = str(Path(__file__).parent)
    code = (
        f"import sys; sys.path.append({here!r}); import linker; sys.exit(linker.main(sys.argv[1:]))"
    )
    command = " ".join(_quoted(word) for word in (interpreter, "-I", "-S", "-c", code))
    text = f'#!/bin/sh\nexec {command} "$@"\n'
    if not (launcher.exists() and launcher.read_text() == text and os.access(launcher, os.X_OK)):
        draft = folder / f"ld.{os.getpid()}"
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(launcher)
    return launcher


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
