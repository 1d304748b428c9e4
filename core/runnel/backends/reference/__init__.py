"""The equations in plain numba on the CPU: truth for tests, fallback without OpenCL."""

from .backend import ReferenceBackend

__all__ = ["ReferenceBackend"]
