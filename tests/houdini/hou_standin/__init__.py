"""A stand-in for Houdini's `hou` module, as far as the adapter uses it.

Geometry is real: numpy arrays that live as Houdini's do. Names, parameters and defaults are those
of Houdini's own type stubs; test_standin.py checks every one. What a test needs beside them begins
with an underscore. `world` holds what Houdini itself does: the clock, nodes that cook, Esc.
"""

from __future__ import annotations

from .enums import (
    EnumValue,
    attribData,
    attribScope,
    attribType,
    groupScope,
    hipFileEventType,
    numericData,
    primType,
    severityType,
    vdbData,
)
from .errors import (
    Error,
    GeometryPermissionError,
    InvalidInput,
    InvalidSize,
    NodeError,
    NodeWarning,
    OperationFailed,
    OperationInterrupted,
)
from .geometry import (
    VDB,
    Attrib,
    Geometry,
    PackedGeometry,
    PackedPrim,
    Point,
    PointGroup,
    Polygon,
    Prim,
    PrimGroup,
    Vertex,
)
from .nodes import Node, OpNode, OpNodeTypeCategory, OpVerb, Parm, ParmTuple, SopNode, SopVerb
from .scene import (
    InterruptableOperation,
    applicationVersion,
    fps,
    frame,
    hipFile,
    intFrame,
    isUIAvailable,
    pwd,
    sopNodeTypeCategory,
    text,
    time,
    ui,
)
from .vdb import BoundingBox

__all__ = [
    "VDB",
    "Attrib",
    "BoundingBox",
    "EnumValue",
    "Error",
    "Geometry",
    "GeometryPermissionError",
    "InterruptableOperation",
    "InvalidInput",
    "InvalidSize",
    "Node",
    "NodeError",
    "NodeWarning",
    "OpNode",
    "OpNodeTypeCategory",
    "OpVerb",
    "OperationFailed",
    "OperationInterrupted",
    "PackedGeometry",
    "PackedPrim",
    "Parm",
    "ParmTuple",
    "Point",
    "PointGroup",
    "Polygon",
    "Prim",
    "PrimGroup",
    "SopNode",
    "SopVerb",
    "Vertex",
    "applicationVersion",
    "attribData",
    "attribScope",
    "attribType",
    "fps",
    "frame",
    "groupScope",
    "hipFile",
    "hipFileEventType",
    "intFrame",
    "isUIAvailable",
    "numericData",
    "primType",
    "pwd",
    "severityType",
    "sopNodeTypeCategory",
    "text",
    "time",
    "ui",
    "vdbData",
]
