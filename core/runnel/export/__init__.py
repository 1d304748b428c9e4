"""Files for other programs, made from a cache: `runnel export`.

One module per format; frames.py reads and converts, one frame in memory at a time.
docs/guide/export.md says how each program reads the files.
"""

from .frames import export_frames
from .options import FORMATS, ExportOptions

__all__ = ["FORMATS", "ExportOptions", "export_frames"]
