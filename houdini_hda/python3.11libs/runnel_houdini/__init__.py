"""Runnel in Houdini: what the digital assets of houdini_hda call."""
