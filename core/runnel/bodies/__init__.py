"""Bodies that the fluid moves: docs/theory/bodies.md. Imported only where a scene has some."""
