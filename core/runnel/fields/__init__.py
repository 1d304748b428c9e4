"""From an artist's mesh to a sparse signed distance field: docs/theory/fields.md.

    rasterize.field_of_mesh   triangles -> SparseField, in the frame of the mesh
    grid.SparseField          the field: tiles, leaves, sampling
    velocity                  velocities of a deforming mesh, and any other attribute, per voxel
    vdb                       .vdb files

Nothing is imported here: the modules load numba.
"""
