"""Enumerations."""

from __future__ import annotations


class EnumValue:
    def __init__(self, *args, **kwargs) -> None:
        self._name = args[0]

    def name(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return self._name


class attribType:
    Global = EnumValue("Global")
    Point = EnumValue("Point")
    Prim = EnumValue("Prim")
    Vertex = EnumValue("Vertex")


class attribScope:
    Private = EnumValue("Private")
    Public = EnumValue("Public")


class groupScope:
    Private = EnumValue("Private")
    Public = EnumValue("Public")


class attribData:
    Dict = EnumValue("Dict")
    Float = EnumValue("Float")
    Int = EnumValue("Int")
    String = EnumValue("String")


class numericData:
    Float16 = EnumValue("Float16")
    Float32 = EnumValue("Float32")
    Float64 = EnumValue("Float64")
    Int16 = EnumValue("Int16")
    Int32 = EnumValue("Int32")
    Int64 = EnumValue("Int64")
    Int8 = EnumValue("Int8")
    UInt8 = EnumValue("UInt8")


class primType:
    AlembicRef = EnumValue("AlembicRef")
    PackedFragment = EnumValue("PackedFragment")
    PackedPrim = EnumValue("PackedPrim")
    PackedGeometry = EnumValue("PackedGeometry")
    Polygon = EnumValue("Polygon")
    Sphere = EnumValue("Sphere")
    VDB = EnumValue("VDB")
    Volume = EnumValue("Volume")


class vdbData:
    Boolean = EnumValue("Boolean")
    Float = EnumValue("Float")
    Int = EnumValue("Int")
    Vector3 = EnumValue("Vector3")


class hipFileEventType:
    AfterClear = EnumValue("AfterClear")
    AfterLoad = EnumValue("AfterLoad")
    BeforeClear = EnumValue("BeforeClear")
    BeforeLoad = EnumValue("BeforeLoad")


class severityType:
    Error = EnumValue("Error")
    Message = EnumValue("Message")
    Warning = EnumValue("Warning")
