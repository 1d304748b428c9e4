"""The solver on OpenCL devices."""

from .passes import OpenCLBackend

__all__ = ["OpenCLBackend"]
