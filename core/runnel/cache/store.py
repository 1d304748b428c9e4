"""Cache: one simulated shot on disk, written frame by frame, read in any order."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CacheError
from .files import plain, remove, sha256, share
from .manifest import (
    CHANNEL_NAME,
    COMPRESSIONS,
    FORMAT,
    FRAME_LIMIT,
    VERSION,
    Branch,
    Channel,
    FrameEntry,
    Manifest,
    read_manifest,
    text,
    write_manifest,
)
from .pack import Array, Damaged, Pack, explained, need_zstandard, write_pack
from .recovery import frame_path, layout_of, make_anew, numbered, take_frames

CHECKPOINTS_KEPT = 2
UNITS = {
    "position": "m",
    "velocity": "m/s",
    "radius": "m",
    "mass": "kg",
    "density": "kg/m^3",
    "age": "s",
    "vorticity": "1/s",
    "pressure": "Pa",
}

Checkpoint = tuple[int, dict[str, Array], dict[str, Any]]  # frame, arrays, meta


class Cache:
    """One simulated shot on disk. Any number of readers may follow one writer."""

    def __init__(self, directory: Path, manifest: Manifest, first: int | None = None) -> None:
        self.directory = directory
        self.manifest = manifest
        self._first = first  # frame that is wanted; before it checkpoints come without frames

    # ---- opening

    @classmethod
    def open(cls, directory: str | os.PathLike[str]) -> Cache:
        """Open what a run has written so far."""
        folder = Path(directory)
        return cls(folder, read_manifest(folder))

    @classmethod
    def create(
        cls,
        directory: str | os.PathLike[str],
        scene: Mapping[str, Any],
        *,
        digest: str = "",
        device: str = "",
        fps: float = 24.0,
        compression: str = "zlib",
        overwrite: bool = False,
        resume: bool = False,
        first: int | None = None,
        branch: Branch | None = None,
    ) -> Cache:
        """Open for writing; `last_frame` tells where a resumed run stands.

        A cache of the same scene starts anew unless `resume`; one of another scene is refused
        unless `overwrite`. Scenes that differ only in their last frame are the same. `digest`
        identifies the scene (default: of the whole dict). `first`: frames before it are not
        wanted, so that a run may go on from a checkpoint there. With `resume` a manifest that is
        lost or damaged is made anew from the frames.
        """
        folder = Path(directory)
        fresh = _new_manifest(folder, scene, digest, device, fps, compression)
        fresh.branch = branch
        cache = cls(folder, fresh, first)
        old = _previous(folder, fresh, overwrite, resume)
        covered = None
        if old is not None and resume and _same_scene(old, fresh):
            # The digest stays the one the frames and checkpoints on disk carry.
            fresh.digest, fresh.channels, fresh.branch = old.digest, old.channels, old.branch
            fresh.frames = cache._whole_frames(old.frames)
            covered = cache._last_covered()
        cache._remove_leftovers()
        write_manifest(folder, fresh)
        cache._remove_unlisted(covered)
        return cache

    @classmethod
    def branch(
        cls,
        directory: str | os.PathLike[str],
        parent: Cache,
        frame: int,
        scene: Mapping[str, Any],
        **settings: Any,
    ) -> Cache:
        """A new cache that shares all frames up to `frame` with another; `settings` as of create.

        The frames' files get a second name and are not copied. Neither cache needs the other: what
        one rewrites or loses, the other keeps.
        """
        folder = Path(directory)
        if folder.exists() and parent.directory.exists() and folder.samefile(parent.directory):
            raise CacheError(f"{folder}: a branch needs a folder of its own.")
        parent.entry(frame)
        entries = {n: e for n, e in parent.manifest.frames.items() if n <= frame}
        broken = entries.keys() - parent._whole_frames(entries).keys()
        if broken:
            raise CacheError(
                f"{parent.frame_path(min(broken))}: is missing or cut short; simulate it again "
                "with --resume before branching."
            )
        # From the first manifest on: what a kill leaves behind must not pass for a whole shot.
        origin = Branch(parent.directory.resolve().name, parent.manifest.digest, frame)
        cache = cls.create(folder, scene, branch=origin, **settings)
        with suppress(FileExistsError):
            (folder / "frames").mkdir(parents=True)
        for number in entries:
            share(parent.frame_path(number), cache.frame_path(number))
        cache.share_solids(parent, frame)
        cache._share_pictures(parent, frame)
        cache.manifest = dataclasses.replace(
            cache.manifest, channels=dict(parent.channels), frames=entries
        )
        write_manifest(folder, cache.manifest)
        return cache

    @classmethod
    def rebuild(
        cls,
        directory: str | os.PathLike[str],
        scene: Mapping[str, Any],
        *,
        digest: str = "",
        device: str = "",
        fps: float = 24.0,
        compression: str = "zlib",
        shared: Iterable[str] = (),
    ) -> Cache:
        """Write a new manifest from the sound frame files, for when the old one is lost.

        `shared`: digests of the scenes that a branch has its first frames from.
        """
        folder = Path(directory)
        manifest = _new_manifest(folder, scene, digest, device, fps, compression)
        take_frames(folder, manifest, {manifest.digest, *shared})
        write_manifest(folder, manifest)
        return cls(folder, manifest)

    def is_of(self, scene: Mapping[str, Any], digest: str) -> bool:
        """Whether `create` would take this for a cache of the scene."""
        new = dataclasses.replace(self.manifest, scene=plain(scene), digest=digest)
        return _same_scene(self.manifest, new)

    def goes_on(self, first: int) -> bool:
        """Whether `create` with `resume` would find a checkpoint here to go on from."""
        whole = self._whole_frames(self.manifest.frames)
        found = Cache(self.directory, dataclasses.replace(self.manifest, frames=whole), first)
        return found.read_checkpoint() is not None

    def refresh(self) -> None:
        """Look again: a writer may have gone on."""
        self.manifest = read_manifest(self.directory)

    # ---- looking

    @property
    def scene(self) -> dict[str, Any]:
        """The scene as plain dicts."""
        return self.manifest.scene

    @property
    def fps(self) -> float:
        return self.manifest.fps

    @property
    def channels(self) -> dict[str, Channel]:
        return self.manifest.channels

    @property
    def last_frame(self) -> int | None:
        """Latest finished frame; None when there is none."""
        return max(self.manifest.frames, default=None)

    def frames(self) -> list[int]:
        """Finished frames in order."""
        return sorted(self.manifest.frames)

    def entry(self, frame: int) -> FrameEntry:
        """What the manifest says about a frame."""
        found = self.manifest.frames.get(frame)
        if found is None:
            have = self.frames()
            extent = f"{have[0]} to {have[-1]}" if have else "none yet"
            raise CacheError(
                f"{self.directory}: frame {frame} is not in the cache; it holds {extent}."
            )
        return found

    def bounds(self) -> tuple[list[float], list[float]] | None:
        """Lowest and highest corner of all particles of all frames [m]."""
        boxes = [entry.bounds for entry in self.manifest.frames.values() if entry.bounds]
        if not boxes:
            return None
        corners = np.asarray(boxes)
        return corners[:, 0].min(axis=0).tolist(), corners[:, 1].max(axis=0).tolist()

    def info(self) -> dict[str, Any]:
        """What the cache holds, ready for JSON."""
        entries = [self.manifest.frames[frame] for frame in self.frames()]
        present, branch = set(self.manifest.frames), self.manifest.branch
        span = range(min(present), max(present) + 1) if present else range(0)
        return {
            "directory": str(self.directory),
            "format": f"{FORMAT} {VERSION}",
            "runnel": self.manifest.runnel,
            "scene": self.scene.get("name", ""),
            "scene_digest": self.manifest.digest,
            "device": self.manifest.device,
            "fps": self.fps,
            "compression": self.manifest.compression,
            "channels": {name: dataclasses.asdict(item) for name, item in self.channels.items()},
            "bytes": sum(entry.bytes for entry in entries),
            "branch": None if branch is None else dataclasses.asdict(branch),
            "missing": [frame for frame in span if frame not in present],
            "checkpoints": self.checkpoints(),
            "frames": [
                {
                    "frame": entry.frame,
                    "particles": entry.count,
                    "bytes": entry.bytes,
                    "channels": sorted(entry.checksums),
                    "report": entry.report,
                }
                for entry in entries
            ],
        }

    # ---- reading

    def read(self, frame: int, channels: Iterable[str] | None = None) -> dict[str, Array]:
        """Arrays of a frame, all channels or the named ones; raises CacheError on any damage."""
        names = None if channels is None else list(channels)
        entry = self.entry(frame)
        try:
            return self._read(entry, names)
        except CacheError:
            # Between our look at the manifest and now the run may have written the frame anew.
            self.refresh()
            if self.manifest.frames.get(frame) == entry:
                raise
            return self._read(self.entry(frame), names)

    def _read(self, entry: FrameEntry, names: list[str] | None) -> dict[str, Array]:
        wanted = list(entry.checksums) if names is None else names
        unknown = [name for name in wanted if name not in entry.checksums]
        if unknown:
            raise CacheError(
                f"{self.directory}: frame {entry.frame} has no channel {unknown[0]!r}; it has "
                f"{', '.join(sorted(entry.checksums)) or 'none'}. Add it to [output] channels and "
                "simulate again."
            )
        with Pack(self.frame_path(entry.frame), entry.bytes) as pack:
            return {
                name: pack.array(
                    name, self.channels[name].layout(entry.count), entry.checksums[name]
                )
                for name in wanted
            }

    def verify(self, frames: Iterable[int] | None = None, finite: bool = False) -> list[str]:
        """Read frames (default: all, checkpoints and solids), one at a time; one sentence per
        problem.

        `finite`: nan and inf are problems too.
        """
        problems = []
        for frame in self.frames() if frames is None else frames:
            try:
                entry = self.entry(frame)
                arrays = self._read(entry, None)
                with Pack(self.frame_path(frame), entry.bytes) as pack:
                    pack.header()
            except CacheError as error:
                problems.append(str(error))
                continue
            if finite:
                path = self.frame_path(frame)
                problems += [f"{path}: {text}" for text in _not_finite(arrays)]
        for frame in self.checkpoints() if frames is None else ():
            try:
                self._read_checkpoint(frame)
            except CacheError as error:
                problems.append(str(error))
        return problems + (self._solid_problems() if frames is None else [])

    def _solid_problems(self) -> list[str]:
        """Meshes of solids that are damaged; if none is, those that frames tell of and lack."""
        files, problems = solid_files(self.directory / "solids"), []
        name_of: dict[tuple[int, int | None, int | None], str] = {}
        for key in files:
            try:
                name_of[key] = _read_solid(self.solid_path(*key))[0]
            except CacheError as error:
                problems.append(str(error))
        if problems:
            return problems
        lost: dict[str, int] = {}  # the first frame of each
        for frame, entry in sorted(self.manifest.frames.items()):
            there = {
                name_of[index, own, end]
                for index, own, end in files
                if own is None and (end is None or end >= frame)
            }
            for name in (entry.report.get("poses") or {}).keys() - there:
                lost.setdefault(f"the mesh of {name!r}", frame)
        for index in {index for index, own, _ in files if own is not None}:
            for frame in self._lacking({own for k, own, _ in files if k == index}):
                lost.setdefault(self.solid_path(index, frame).name, frame)
        return [
            f"{self.directory / 'solids'}: {what} is missing, frame {frame} has it. Restore it "
            "from a copy, or simulate again; particles are not affected."
            for what, frame in sorted(lost.items(), key=lambda item: item[1])
        ]

    def _lacking(self, own: set[int | None]) -> list[int]:
        """Frames that lack the mesh of a solid that deforms: a branch's own all have it, those it
        shares if there is one before and one after."""
        known = {frame for frame in own if frame is not None}
        branch = self.manifest.branch
        start = branch.frame if branch else -FRAME_LIMIT - 1
        shared = {frame for frame in known if frame <= start}
        mine = known - shared
        return [
            frame
            for frame in self.frames()
            if frame not in known
            and (bool(mine) if frame > start else min(shared, default=frame) < frame < max(known))
        ]

    def cut_short(self) -> list[str]:
        """One sentence per frame whose file is missing or has another size; reads none of them."""
        problems = []
        for frame, entry in sorted(self.manifest.frames.items()):
            try:
                Pack(self.frame_path(frame), entry.bytes).__exit__()
            except CacheError as error:
                problems.append(str(error))
        return problems

    # ---- writing

    def write(
        self,
        frame: int,
        arrays: Mapping[str, Array],
        report: Any = None,
        units: Mapping[str, str] | None = None,
    ) -> FrameEntry:
        """Add a frame: arrays (n,) or (n, width) of numbers, and the numbers to report about it.

        A simulation goes forward: writing an earlier frame first forgets it and all after it.
        """
        if abs(frame) > FRAME_LIMIT:
            raise CacheError(f"frame is {frame}, allowed is -{FRAME_LIMIT} to {FRAME_LIMIT}.")
        ready = {name: _channel_array(name, array) for name, array in arrays.items()}
        count = _common_count(ready)
        table = self._extended_table(ready, units or {})
        last = self.last_frame
        if last is not None and frame <= last:
            self.truncate(frame - 1)
        bounds, numbers = _bounds(ready.get("position")), plain(report or {})
        header = {
            "format": "runnel-frame",
            "version": VERSION,
            "frame": frame,
            "count": count,
            "scene_digest": self.manifest.digest,
            "units": {name: table[name].unit for name in ready},
            "bounds": bounds,
            "report": numbers,
        }
        size, sums = write_pack(self.frame_path(frame), header, ready, self.manifest.compression)
        entry = FrameEntry(frame, count, size, sums, bounds, numbers)
        changed = dataclasses.replace(
            self.manifest, channels=table, frames={**self.manifest.frames, frame: entry}
        )
        write_manifest(self.directory, changed)
        self.manifest = changed
        return entry

    def truncate(self, last: int) -> None:
        """Forget all frames after `last`, as when a run continues from an earlier checkpoint."""
        kept = {frame: item for frame, item in self.manifest.frames.items() if frame <= last}
        if len(kept) < len(self.manifest.frames):
            changed = dataclasses.replace(self.manifest, frames=kept)
            write_manifest(self.directory, changed)  # first: no listed frame is ever missing
            self.manifest = changed
            self._remove_unlisted(last)

    def _extended_table(
        self, arrays: Mapping[str, Array], units: Mapping[str, str]
    ) -> dict[str, Channel]:
        table = dict(self.manifest.channels)
        for name, array in arrays.items():
            width = 1 if array.ndim == 1 else array.shape[1]
            known = table.get(name)
            unit = units.get(name, known.unit if known else UNITS.get(name, ""))
            table[name] = channel = Channel(array.dtype.name, width, unit)
            if known and (known.dtype, known.width) != (channel.dtype, channel.width):
                raise CacheError(
                    f"Channel {name!r} is {channel.dtype} x {channel.width}, earlier frames have "
                    f"{known.dtype} x {known.width}. Give the new one another name."
                )
        return table

    # ---- checkpoints

    def write_checkpoint(
        self,
        frame: int,
        arrays: Mapping[str, Array],
        meta: Mapping[str, Any],
        keep: int = CHECKPOINTS_KEPT,
    ) -> None:
        """Store the full state after a frame: arrays of any shape, meta of JSON values.

        The last `keep` stay, at least two, so that one survives whatever happens to the other.
        """
        ready = {name: _numbers(name, array) for name, array in arrays.items()}
        header = {
            "format": "runnel-checkpoint",
            "version": VERSION,
            "frame": frame,
            "scene_digest": self.manifest.digest,
            "meta": plain(meta),
        }
        write_pack(self.checkpoint_path(frame), header, ready, "none")
        for old in self.checkpoints()[: -max(keep, CHECKPOINTS_KEPT)]:
            remove(self.checkpoint_path(old))

    def checkpoints(self) -> list[int]:
        """Frames with a checkpoint, not yet examined."""
        return numbered(self.directory / "checkpoints", "checkpoint")

    def read_checkpoint(self, frame: int | None = None) -> Checkpoint | None:
        """Frame, arrays and meta of a checkpoint.

        Without `frame`: the newest sound one that belongs to this scene and from which no frame
        would be skipped, since it does not lie after the last finished one, or lies before the
        first that is wanted; None if there is none.
        """
        if frame is not None:
            return (frame, *self._read_checkpoint(frame))
        return next(self.sound_checkpoints(), None)

    def sound_checkpoints(self) -> Iterator[Checkpoint]:
        """Those of this scene from which no frame would be skipped, newest first."""
        last = self._last_covered()
        for candidate in reversed(self.checkpoints()):
            if last is not None and candidate <= last:
                with suppress(CacheError):
                    yield (candidate, *self._read_checkpoint(candidate))

    def _last_covered(self) -> int | None:
        """The last frame up to which all that are wanted are there."""
        ahead = () if self._first is None else (self._first - 1,)
        return max((*self.manifest.frames, *ahead), default=None)

    def _read_checkpoint(self, frame: int) -> tuple[dict[str, Array], dict[str, Any]]:
        path = self.checkpoint_path(frame)
        with explained(path), Pack(path) as pack:
            header = pack.header()
            if (header["format"], header["version"]) != ("runnel-checkpoint", VERSION):
                raise Damaged("is no checkpoint of this version")
            if (header["frame"], header["scene_digest"]) != (frame, self.manifest.digest):
                raise Damaged("belongs to another frame or scene")
            table = header["arrays"]
            arrays = {name: pack.array(name, layout_of(item)) for name, item in table.items()}
            return arrays, dict(header["meta"])

    # ---- solids

    def write_solid(
        self, index: int, name: str, vertices: Array, triangles: Array, frame: int | None = None
    ) -> None:
        """Keep the mesh of a collider or body; with `frame`: of one that deforms, in the world."""
        header = {"format": "runnel-solid", "version": VERSION, "name": name}
        arrays = {"vertices": vertices.astype("<f4"), "triangles": triangles.astype("<i4")}
        write_pack(self.solid_path(index, frame), header, arrays, self.manifest.compression)

    def solids(self, frame: int | None = None) -> list[int]:
        """Numbers of the solids there are, at a frame or at any."""
        numbers = sorted({index for index, _, _ in solid_files(self.directory / "solids")})
        if frame is None:
            return numbers
        return [index for index in numbers if self._solid_at(index, frame).exists()]

    def _solid_at(self, index: int, frame: int) -> Path:
        """The file that tells of a solid at a frame: its own, or the next that holds so long."""
        own = self.solid_path(index, frame)
        return own if own.exists() else self.still_path(index, frame)

    def still_path(self, index: int, frame: int) -> Path:
        """The file of a solid that does not deform, as it is at a frame."""
        found = solid_files(self.directory / "solids")
        ends = [end for number, _, end in found if number == index and end is not None]
        end = min((end for end in ends if end >= frame), default=None)
        return self.solid_path(index, until=end)

    def read_solid(self, index: int, frame: int) -> tuple[str, Array, Array, bool]:
        """Name, vertices (n, 3), triangles (m, 3) at a frame, and whether it deforms."""
        path = self._solid_at(index, frame)
        return *_read_solid(path), path == self.solid_path(index, frame)

    def share_solids(self, parent: Cache, frame: int) -> None:
        """Let the frames up to `frame` have the solids that the parent has there."""
        self.clear_solids()
        for index, own, end in solid_files(parent.directory / "solids"):
            source = parent.solid_path(index, own, end)
            if own is not None and own <= frame:
                share(source, self.solid_path(index, own))
            elif own is None and end is not None and end < frame:
                share(source, self.solid_path(index, until=end))
            elif own is None and source == parent.still_path(index, frame):
                share(source, self.solid_path(index, until=frame))

    def _share_pictures(self, parent: Cache, frame: int) -> None:
        """Bodies as meshes, and wet maps, of the frames that are shared."""
        for pattern in ("bodies/*_*.ply", "wetmaps/*/*.*.*"):
            for path in parent.directory.glob(pattern):
                number = re.search(r"[._](-?\d+)\.[a-z]+$", path.name)
                if number and int(number[1]) <= frame:
                    share(path, self.directory / path.relative_to(parent.directory))

    def clear_solids(self) -> None:
        """Before a run keeps its own."""
        for path in (self.directory / "solids").glob("solid_*.npz"):
            remove(path)

    # ---- files

    def solid_path(self, index: int, frame: int | None = None, until: int | None = None) -> Path:
        """File of a solid; of one that deforms, at a frame; of one that holds up to a frame."""
        number = "" if frame is None else f"_{frame:06d}"
        if until is not None:
            number = f"_to_{until:06d}"
        return self.directory / "solids" / f"solid_{index:03d}{number}.npz"

    def frame_path(self, frame: int) -> Path:
        return frame_path(self.directory, frame)

    def checkpoint_path(self, frame: int) -> Path:
        return self.directory / "checkpoints" / f"checkpoint_{frame:06d}.npz"

    def _whole_frames(self, entries: Mapping[int, FrameEntry]) -> dict[int, FrameEntry]:
        """Entries up to the first whose file is gone or cut short: a run continues before it."""
        whole = {}
        for frame in sorted(entries):
            try:
                size = self.frame_path(frame).stat().st_size
            except OSError:
                break
            if size != entries[frame].bytes:
                break
            whole[frame] = entries[frame]
        return whole

    def _remove_leftovers(self) -> None:
        """Files of a writer that was killed."""
        for folder in (self.directory, self.directory / "frames", self.directory / "checkpoints"):
            for path in (*folder.glob(".*.npz.*.tmp"), *folder.glob(".manifest.json.*.tmp")):
                remove(path)

    def _remove_unlisted(self, last: int | None) -> None:
        """Frames, and checkpoints after `last` (None: all), that are no longer ours to keep."""
        for frame in numbered(self.directory / "frames", "frame"):
            if frame not in self.manifest.frames:
                remove(self.frame_path(frame))
        for frame in self.checkpoints():
            if last is None or frame > last:
                remove(self.checkpoint_path(frame))


def _new_manifest(
    folder: Path,
    scene: Mapping[str, Any],
    digest: str,
    device: str,
    fps: float,
    compression: str,
) -> Manifest:
    if compression not in COMPRESSIONS:
        allowed = ", ".join(COMPRESSIONS)
        raise CacheError(f"compression is {compression!r}, allowed are {allowed}.")
    if compression == "zstd":
        need_zstandard(folder)  # complain before the simulation, not after its first frame
    data = plain(scene)
    return Manifest(
        scene=data,
        digest=digest or sha256(data),
        device=device,
        fps=float(fps),
        compression=compression,
        runnel=_own_version(),
    )


def _own_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("runnel")
    except PackageNotFoundError:
        return "unknown"


def _previous(folder: Path, fresh: Manifest, overwrite: bool, resume: bool) -> Manifest | None:
    """Manifest already in the folder; refuses to give up frames of another scene."""
    listed = (folder / "manifest.json").exists()
    if not listed and (overwrite or not numbered(folder / "frames", "frame")):
        return None
    try:
        old = read_manifest(folder)
    except CacheError as error:
        if resume:
            old = dataclasses.replace(fresh, channels={}, frames={})
            make_anew(folder, old)
        elif overwrite:
            return None
        elif listed:
            raise
        else:
            raise CacheError(
                f"{folder}: holds frames, and no manifest.json. Go on after them with --resume, "
                "choose another folder, or allow overwriting."
            ) from error
    if not (overwrite or _same_scene(old, fresh)):
        name = old.scene.get("name", "unnamed")
        raise CacheError(
            f"{folder}: holds {len(old.frames)} frames of another scene ({name!r}, or the same "
            "with other settings). Choose another folder, or allow overwriting."
        )
    return old


def _same_scene(old: Manifest, new: Manifest) -> bool:
    """Equal up to the last frame: a shot may be prolonged."""

    def story(scene: dict[str, Any]) -> dict[str, Any]:
        frames = scene.get("frames") or [1]
        return {**scene, "frames": frames[0] if isinstance(frames, list) else frames}

    return old.digest == new.digest or story(old.scene) == story(new.scene)


def _read_solid(path: Path) -> tuple[str, Array, Array]:
    """Name, vertices (n, 3), triangles (m, 3)."""
    with explained(path), Pack(path) as pack:
        header = pack.header()
        if header["format"] != "runnel-solid":
            raise Damaged("is no solid")
        table = header["arrays"]
        vertices, triangles = (
            pack.array(name, layout_of(table[name])) for name in ("vertices", "triangles")
        )
        if vertices.shape[1:] != (3,) or triangles.shape[1:] != (3,):
            raise Damaged("holds a mesh of another shape")
        if triangles.dtype.kind != "i" or not np.isfinite(vertices).all():
            raise Damaged("holds no proper mesh")
        if len(triangles) and not 0 <= triangles.min() <= triangles.max() < len(vertices):
            raise Damaged("holds triangles of vertices that are not there")
        return text(header, "name"), vertices, triangles


def solid_files(folder: Path) -> list[tuple[int, int | None, int | None]]:
    """Solids in a folder: number, the frame it is of, the last frame it holds for."""
    pattern = re.compile(r"solid_(\d{3,6})(?:_(-?\d{5,8})|_to_(-?\d{5,8}))?\.npz")
    found = (pattern.fullmatch(path.name) for path in folder.glob("solid_*.npz"))
    return sorted(
        (
            (int(m[1]), None if m[2] is None else int(m[2]), None if m[3] is None else int(m[3]))
            for m in found
            if m
        ),
        key=str,
    )


def _numbers(name: str, array: Array) -> Array:
    """Little-endian and C-contiguous."""
    array = np.asarray(array)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise CacheError(f"Channel {name!r} holds {array.dtype}; only real numbers can be stored.")
    shape = array.shape  # ascontiguousarray would turn () into (1,)
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(shape)


def _channel_array(name: str, array: Array) -> Array:
    """As stored in a frame: (n,) or (n, width) with width > 1."""
    if not CHANNEL_NAME.fullmatch(name):
        raise CacheError(
            f"Channel name {name!r}: allowed are 1 to 64 letters, digits and _, no digit first."
        )
    array = np.asarray(array)
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] == 0):
        raise CacheError(f"Channel {name!r} has shape {array.shape}, allowed: (n,), (n, width).")
    return _numbers(name, array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array)


def _common_count(arrays: Mapping[str, Array]) -> int:
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        raise CacheError(f"Channels of one frame differ in length: {counts}.")
    return next(iter(counts.values()), 0)


def _bounds(position: Array | None) -> list[list[float]] | None:
    if position is None or position.ndim != 2 or position.shape[1] != 3 or not len(position):
        return None
    corners = np.array([position.min(axis=0), position.max(axis=0)], dtype=np.float64)
    return corners.tolist() if np.isfinite(corners).all() else None


def _not_finite(arrays: Mapping[str, Array]) -> list[str]:
    problems = []
    for name, array in arrays.items():
        sound = np.isfinite(array)
        bad = np.flatnonzero(~(sound if array.ndim == 1 else sound.all(axis=1)))
        if bad.size:
            problems.append(
                f"{name!r} of particle {bad[0]} is not a finite number ({bad.size} particles)."
            )
    return problems
