"""The inputs of a node at any frame, and whether they are still what they were."""

from __future__ import annotations

import hashlib
from typing import Any

import hou

from runnel import RunnelError

from .geometry import numeric_attributes, point_values, positions
from .volumes import facts, vdbs

Digest = bytes
SOURCE, COLLIDERS, FORCES, BODIES = range(4)


class Inputs:
    """The inputs of a node while it cooks a frame."""

    def __init__(self, node: hou.SopNode, frame: float) -> None:
        self._node = node
        self._frame = frame
        self._kept: dict[tuple[int, float], hou.Geometry | None] = {}
        self._moves: dict[int, bool] = {}

    @property
    def frame(self) -> float:
        """The frame that is being cooked."""
        return self._frame

    def at(self, index: int, frame: float) -> hou.Geometry | None:
        """Geometry of an input at a frame; None if nothing is wired."""
        if not self.moves(index):
            frame = self._frame
        if (index, frame) not in self._kept:
            # Cooking an input at another frame may change what it gives now: keep a copy of that,
            # and of no other frame but the last, since a gap may be long.
            if frame == self._frame:
                live = self._now(index)
                self._kept[index, frame] = None if live is None else live.freeze()
            else:
                self.at(index, self._frame)
                other = [key for key in self._kept if key[0] == index and key[1] != self._frame]
                for key in other:
                    del self._kept[key]
                self._kept[index, frame] = self._elsewhere(index, frame)
        return self._kept[index, frame]

    def forget(self) -> None:
        """The cook is over: let go of all geometry."""
        self._kept.clear()

    def _now(self, index: int) -> hou.Geometry | None:
        wired = self._node.inputs()
        return self._node.inputGeometry(index) if index < len(wired) else None

    def _elsewhere(self, index: int, frame: float) -> hou.Geometry | None:
        try:
            return self._node.inputGeometryAtFrame(frame, index)
        except hou.OperationInterrupted:
            raise
        except hou.Error as error:
            raise RunnelError(
                f"Input {index + 1} could not be cooked at frame {frame:g}: {error}"
            ) from error

    def moves(self, index: int) -> bool:
        """Whether an input depends on time. Asked once a cook: to answer, Houdini may cook it."""
        if index not in self._moves:
            wired = self._node.inputs()
            source = wired[index] if index < len(wired) else None
            self._moves[index] = isinstance(source, hou.OpNode) and source.isTimeDependent()
        return self._moves[index]

    def marks(self, index: int) -> tuple[Any, ...] | None:
        """Data ids of what an input gives now: while they stay, so does the geometry."""
        geo = self._now(index)
        if geo is None:
            return None
        attribs = (*geo.pointAttribs(), *geo.primAttribs(), *geo.globalAttribs())
        ids = tuple((a.name(), a.dataId()) for a in attribs)
        return (geo.topologyDataId(), geo.primitiveIntrinsicsDataId(), *ids)

    def digest(self, index: int) -> Digest:
        """Of what an input gives now: counts, and values of all attributes."""
        geo = self.at(index, self._frame)
        sum_of = hashlib.blake2b(digest_size=16)
        if geo is None:
            return sum_of.digest()
        counts = (geo.pointCount(), geo.primCount(), geo.vertexCount())
        sum_of.update(repr(counts).encode())
        sum_of.update(positions(geo).tobytes())
        for name in numeric_attributes(geo):
            values = point_values(geo, name)
            if values is not None:
                sum_of.update(name.encode() + b"\0" + values.tobytes())
        for attrib in geo.pointAttribs():
            if attrib.dataType() == hou.attribData.String and not attrib.isArrayType():
                sum_of.update("\0".join(geo.pointStringAttribValues(attrib.name())).encode())
        for attrib in geo.primAttribs():
            name, kind = attrib.name(), attrib.dataType()
            if attrib.isArrayType():
                continue
            sum_of.update(name.encode())
            if kind == hou.attribData.String:
                sum_of.update("\0".join(geo.primStringAttribValues(name)).encode())
            elif kind == hou.attribData.Float:
                sum_of.update(geo.primFloatAttribValuesAsString(name))
            elif kind == hou.attribData.Int:
                sum_of.update(geo.primIntAttribValuesAsString(name))
        for vdb in vdbs(geo):
            sum_of.update(facts(vdb).encode())
        details = {a.name(): geo.attribValue(a) for a in geo.globalAttribs()}
        sum_of.update(repr(sorted(details.items(), key=lambda pair: pair[0])).encode())
        return sum_of.digest()


class Watch:
    """Remembers what inputs were at frames that have been looked at."""

    def __init__(self) -> None:
        self._digests: dict[tuple[int, float | None], Digest] = {}
        self._marks: dict[tuple[int, float | None], tuple[Any, ...] | None] = {}
        self._moved: dict[int, bool] = {}

    def changed(self, inputs: Inputs, count: int) -> bool:
        """Whether an input is not what it was at this frame, or at any if it does not move."""
        result = False
        for index in range(count):
            moves = inputs.moves(index)
            result |= self._moved.setdefault(index, moves) != moves
            key = (index, inputs.frame if moves else None)
            marks = inputs.marks(index)
            if marks is not None and self._marks.get(key) == marks:
                continue
            before, self._marks[key] = self._marks.get(key), marks
            digest = inputs.digest(index)
            result |= self._digests.setdefault(key, digest) != digest
            if not moves and before is not None and marks is not None:
                result |= before[:2] != marks[:2]  # how points are connected, and what VDBs hold
        return result
