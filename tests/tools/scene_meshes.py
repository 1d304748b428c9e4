"""Makes the meshes and maps of the shipped scenes: `python -m tests.tools.scene_meshes`.

Everything is drawn here from formulas, kept coarse so that the files stay small. Parts of a mesh
overlap where that is simpler: a field takes their union.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Part = tuple[Floats, NDArray[np.int64]]  # vertices, triangles

FOLDER = Path(__file__).resolve().parents[2] / "core" / "runnel" / "scenes" / "meshes"
WAVES = 49  # frames of the fin


# --- parts ----------------------------------------------------------------------------------------


def joined(*parts: Part) -> Part:
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in parts)])
    triangles = [t + start for (_, t), start in zip(parts, starts, strict=False)]
    return np.concatenate([v for v, _ in parts]), np.concatenate(triangles)


def grid(rows: int, columns: int, wrap: bool) -> NDArray[np.int64]:
    """Triangles of rows x columns places, the columns closed to a ring if wrap."""
    last = columns if wrap else columns - 1
    i, j = np.meshgrid(np.arange(rows - 1), np.arange(last), indexing="ij")
    a, b = i * columns + j, i * columns + (j + 1) % columns
    quads = np.stack([a, b, b + columns, a, b + columns, a + columns], axis=-1)
    return quads.reshape(-1, 3)


def lathe(profile: list[tuple[float, float]], columns: int = 24, closed: bool = True) -> Part:
    """A profile (radius, height) turned about z. Closed: its ends are joined too."""
    points = np.array(profile, float)
    if closed:
        points = np.concatenate([points, points[:1]])
    angle = 2 * np.pi * np.arange(columns) / columns
    ring = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    vertices = points[:, None, :1] * ring + points[:, None, 1:] * [0.0, 0.0, 1.0]
    return vertices.reshape(-1, 3), grid(len(points), columns, True)


def ball(center: Floats | list[float], radii: Floats | list[float], columns: int = 12) -> Part:
    """An ellipsoid."""
    rows = columns // 2 + 1
    bow = np.linspace(-np.pi / 2, np.pi / 2, rows)
    vertices, triangles = lathe(list(zip(np.cos(bow), np.sin(bow), strict=True)), columns, False)
    return vertices * radii + center, triangles


def limb(start: list[float], end: list[float], first: float, last: float) -> Part:
    """A cone with round ends from start to end."""
    a, b = np.array(start), np.array(end)
    length = float(np.linalg.norm(b - a))
    bow = np.linspace(0, np.pi / 2, 4)
    low = [(first * np.sin(t), -first * np.cos(t)) for t in bow]
    high = [(last * np.cos(t), length + last * np.sin(t)) for t in bow]
    vertices, triangles = lathe(low + high, 10, False)
    z = (b - a) / length
    x = np.cross(z, np.eye(3)[int(np.argmin(np.abs(z)))])
    x /= np.linalg.norm(x)
    return a + vertices @ np.stack([x, np.cross(z, x), z]), triangles


def box(low: list[float], high: list[float]) -> Part:
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
    quads = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    triangles = np.array([t for q in quads for t in (q[:3], [q[0], q[2], q[3]])])
    return np.array(low) + corners * (np.array(high) - low), triangles


# --- meshes ---------------------------------------------------------------------------------------


def bear() -> Part:
    """A bear on all fours, 0.6 m long, its nose along x."""
    legs = [
        limb([x, y, 0.22], [x + 0.02, 1.15 * y, 0.04], 0.055, 0.045)
        for x in (-0.16, 0.14) for y in (-0.09, 0.09)
    ]  # fmt: skip
    ears = [ball([0.25, y, 0.47], [0.032, 0.04, 0.04], 10) for y in (-0.075, 0.075)]
    return joined(
        ball([0.0, 0, 0.27], [0.24, 0.135, 0.13], 18), ball([0.16, 0, 0.31], [0.11, 0.1, 0.1]),
        ball([0.27, 0, 0.38], [0.1, 0.095, 0.09], 16), limb([0.3, 0, 0.36], [0.38, 0, 0.34], 0.05,
        0.035), ball([-0.24, 0, 0.33], [0.035, 0.035, 0.035], 8), *legs, *ears,
    )  # fmt: skip


def cobbles() -> Part:
    """Stones on a slab of 1 x 0.6 m with a drain of 0.2 x 0.2 m and two bars in it."""
    rng = np.random.default_rng(17)
    stones = []
    for i in range(8):
        for j in range(5):
            x, y = 0.0625 + 0.125 * i, 0.06 + 0.12 * j
            if abs(x - 0.7) < 0.14 and abs(y - 0.3) < 0.13:
                continue
            turn = rng.uniform(-0.02, 0.02, 2)
            size = rng.uniform([0.055, 0.052, 0.035], [0.066, 0.062, 0.05])
            stones.append(ball([x + turn[0], y + turn[1], 0.0], size, 10))
    slab = [
        box([0, 0, -0.1], [0.6, 0.6, 0.01]), box([0.8, 0, -0.1], [1, 0.6, 0.01]),
        box([0.6, 0, -0.1], [0.8, 0.2, 0.01]), box([0.6, 0.4, -0.1], [0.8, 0.6, 0.01]),
    ]  # fmt: skip
    bars = [box([x - 0.015, 0.19, -0.04], [x + 0.015, 0.41, 0.01]) for x in (0.667, 0.733)]
    return joined(*slab, *bars, *stones)


def scallop() -> Part:
    """An open, ribbed half shell, 0.5 m across: one layer of triangles."""
    u, v = np.meshgrid(np.linspace(0.02, 1, 10), np.arange(40) / 40, indexing="ij")
    angle = 2 * np.pi * v
    radius = 0.25 * u * (1 + 0.05 * u * np.cos(10 * angle))
    height = 0.16 * u**2 + 0.012 * u * np.cos(10 * angle) - 0.05 * u * np.cos(angle)
    vertices = np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=-1)
    middle = np.array([[0.0, 0.0, 0.0]])
    first = np.arange(40)
    fan = np.stack([np.full(40, 400), (first + 1) % 40, first], axis=1)
    return np.concatenate([vertices.reshape(-1, 3), middle]), np.concatenate(
        [grid(10, 40, True), fan]
    )


def glass() -> Part:
    """A tumbler with a foot: solid glass, 0.3 m high."""
    inner = [(0.0, 0.05), (0.06, 0.052), (0.085, 0.09), (0.1, 0.18), (0.105, 0.3)]
    outer = [(0.135, 0.3), (0.13, 0.18), (0.115, 0.08), (0.1, 0.0), (0.0, 0.0)]
    return lathe(inner + outer, 32)


def fin(frame: int) -> Part:
    """A bending paddle in the x-z plane, at a frame from 1; still at its foot."""
    height, width, depth = np.meshgrid(
        np.linspace(0, 0.4, 9), np.array([-0.2, 0.2]), np.array([-0.03, 0.03]), indexing="ij"
    )
    share = (height / 0.4) ** 2
    phase = 2 * np.pi * (frame - 1) / 24
    ramp = min(1.0, (frame - 1) / 12, (WAVES - frame) / 6)
    sway = 0.16 * ramp * share * np.sin(phase - 1.2 * height / 0.4)
    tube = [(0, 0), (1, 0), (1, 1), (0, 1)]  # around each cross section
    places = np.stack([depth + sway, width, height], axis=-1)
    vertices = np.stack([places[:, j, k] for j, k in tube], axis=1).reshape(-1, 3)
    last = len(vertices) - 4
    caps = np.array([[0, 2, 1], [0, 3, 2], [last, last + 1, last + 2], [last, last + 2, last + 3]])
    return vertices, np.concatenate([grid(9, 4, True), caps])


def wall() -> tuple[Part, Floats]:
    """A wall of 1.2 x 0.8 m with a ledge, and its texture coordinates (vertices, 2)."""
    profile = np.array([[0, 0], [0, 0.3], [-0.08, 0.33], [-0.08, 0.36], [0, 0.4], [0, 0.8]])
    y = np.linspace(-0.6, 0.6, 13)
    along = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(profile, axis=0), axis=1))])
    vertices = [[x, at, z] for x, z in profile for at in y]
    uvs = [[(at + 0.6) / 1.2, v / along[-1]] for v in along for at in y]
    return (np.array(vertices), grid(len(profile), len(y), False)), np.array(uvs)


def plate() -> tuple[Part, Floats]:
    """A sheet of 1 x 0.8 m, unwrapped as it lies."""
    x, y = np.meshgrid(np.linspace(0, 1, 6), np.linspace(-0.4, 0.4, 5), indexing="ij")
    vertices = np.stack([x, y, 0 * x], axis=-1).reshape(-1, 3)
    return (vertices, grid(6, 5, False)), vertices[:, :2] * [1, 1.25] + [0, 0.5]


def curtain() -> Part:
    """Cloth across x, 0.8 m wide and 0.9 m high, hung from z = 0."""
    z, y = np.meshgrid(np.linspace(0, -0.9, 19), np.linspace(-0.4, 0.4, 17), indexing="ij")
    return np.stack([0 * y, y, z], axis=-1).reshape(-1, 3), grid(19, 17, False)


def soft_ball(radius: float = 0.18, rounds: int = 3) -> Part:
    """An icosahedron, its faces divided in four again and again, on a sphere: even triangles."""
    t = (1 + np.sqrt(5)) / 2
    corners = [[0, a, b * t] for a in (-1, 1) for b in (-1, 1)]
    vertices = np.array([np.roll(c, k) for k in range(3) for c in corners])
    edge = np.linalg.norm(vertices[:, None] - vertices[None], axis=2)
    faces = [
        (i, j, k)
        for i in range(12) for j in range(i + 1, 12) for k in range(j + 1, 12)
        if max(edge[i, j], edge[j, k], edge[i, k]) < 2.1
    ]  # fmt: skip
    outward = [np.linalg.det(vertices[list(f)]) > 0 for f in faces]
    triangles = np.array([f if o else f[::-1] for f, o in zip(faces, outward, strict=True)])
    for _ in range(rounds):
        sides = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
        pairs, number = np.unique(sides, axis=0, return_inverse=True)
        m = len(vertices) + number.reshape(-1, 3)
        vertices = np.concatenate([vertices, vertices[pairs].sum(axis=1)])
        vertices /= np.linalg.norm(vertices, axis=1, keepdims=True)
        a, b, c = triangles.T
        new = [[a, m[:, 0], m[:, 2]], [b, m[:, 1], m[:, 0]], [c, m[:, 2], m[:, 1]], list(m.T)]
        triangles = np.concatenate([np.stack(corner, axis=1) for corner in new])
    return radius * vertices / np.linalg.norm(vertices, axis=1, keepdims=True), triangles


# --- files ----------------------------------------------------------------------------------------


def obj(part: Part, uvs: Floats | None = None) -> str:
    """Text of an OBJ file, tenths of a millimetre."""

    def number(value: float) -> str:
        text = f"{value:.4f}".rstrip("0").rstrip(".")
        return "0" if text == "-0" else text

    vertices, triangles = part
    lines = ["v " + " ".join(map(number, vertex)) for vertex in vertices]
    if uvs is not None:
        lines += ["vt " + " ".join(map(number, uv)) for uv in uvs]
    for corners in triangles + 1:
        lines.append("f " + " ".join(f"{c}/{c}" if uvs is not None else f"{c}" for c in corners))
    return "\n".join(lines) + "\n"


def files() -> dict[str, bytes]:
    """All files by name."""
    from PIL import Image

    meshes = {"bear": bear(), "cobbles": cobbles(), "scallop": scallop(), "glass": glass()}
    meshes |= {"curtain": curtain(), "soft_ball": soft_ball()}
    meshes |= {f"fin_{n:04d}": fin(n) for n in range(1, WAVES + 1)}
    texts = {f"{name}.obj": obj(part) for name, part in meshes.items()}
    texts |= {"wall.obj": obj(*wall()), "plate.obj": obj(*plate())}
    result = {name: text.encode() for name, text in texts.items()}
    zones = np.zeros((64, 64), np.uint8)
    zones[:32] = 255  # the upper half of the image: y above 0
    path = FOLDER / "plate_friction.png"
    FOLDER.mkdir(exist_ok=True)
    Image.fromarray(zones).save(path)
    return result | {path.name: path.read_bytes()}


def main() -> None:
    for name, data in files().items():
        (FOLDER / name).write_bytes(data)


if __name__ == "__main__":
    main()
