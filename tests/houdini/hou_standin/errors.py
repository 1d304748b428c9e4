"""Exceptions."""

from __future__ import annotations


class Error(Exception):
    def __init__(self, *args) -> None:
        super().__init__(*args)


class OperationFailed(Error):
    pass


class InvalidInput(Error):
    pass


class InvalidSize(Error):
    pass


class GeometryPermissionError(Error):
    pass


class OperationInterrupted(Error):
    pass


class NodeError(Error):
    pass


class NodeWarning(Error):
    pass
