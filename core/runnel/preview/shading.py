"""numba kernels in the world: rays, solids, and the light that reaches the camera."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .compiled import inlined, kernel, spiral
from .parts import Balls, Buffers, Floats, Ground, Look, Numbers, Shadow, Singles, Solids

Three = tuple[float, float, float]
Six = tuple[float, float, float, float, float, float]

SPHERE, BOX, CYLINDER, TRIANGLE = 0, 1, 2, 3
SHADOW_TAPS = spiral(20)


@inlined
def pixel_ray(camera: Floats, px: float, py: float) -> Six:
    """Origin and direction of the ray through a pixel; the parameter along it is the depth."""
    u = (px + 0.5 - camera[14] * 0.5) / camera[12]
    v = (camera[15] * 0.5 - py - 0.5) / camera[12]
    ox, oy, oz = camera[0], camera[1], camera[2]
    dx, dy, dz = camera[9], camera[10], camera[11]
    sx = u * camera[3] + v * camera[6]
    sy = u * camera[4] + v * camera[7]
    sz = u * camera[5] + v * camera[8]
    if camera[13] != 0.0:
        return ox + sx, oy + sy, oz + sz, dx, dy, dz
    return ox, oy, oz, dx + sx, dy + sy, dz + sz


@kernel
def hit_sphere(
    ox: float, oy: float, oz: float, dx: float, dy: float, dz: float, radius: float
) -> float:
    """Nearest positive parameter along a ray, or inf."""
    a = dx * dx + dy * dy + dz * dz
    b = ox * dx + oy * dy + oz * dz
    c = ox * ox + oy * oy + oz * oz - radius * radius
    root = b * b - a * c
    if root < 0.0:
        return math.inf
    t = (-b - math.sqrt(root)) / a
    return t if t > 0.0 else math.inf


@kernel
def hit_box(o: Floats, d: Floats, half: Floats) -> float:
    """As hit_sphere, for a box around the origin."""
    near, far = 0.0, math.inf
    for k in range(3):
        if abs(d[k]) < 1e-12:
            if abs(o[k]) > half[k]:
                return math.inf
        else:
            a, b = (-half[k] - o[k]) / d[k], (half[k] - o[k]) / d[k]
            near, far = max(near, min(a, b)), min(far, max(a, b))
    return near if 0.0 < near <= far else math.inf


@kernel
def hit_cylinder(
    ox: float, oy: float, oz: float, dx: float, dy: float, dz: float, radius: float, half: float
) -> float:
    """As hit_sphere, for a cylinder along local z with flat ends."""
    best = math.inf
    a = dx * dx + dy * dy
    b = ox * dx + oy * dy
    root = b * b - a * (ox * ox + oy * oy - radius * radius)
    if a > 1e-18 and root >= 0.0:
        t = (-b - math.sqrt(root)) / a
        if t > 0.0 and abs(oz + t * dz) <= half:
            best = t
    if abs(dz) > 1e-12:
        t = (-half - oz) / dz if dz > 0.0 else (half - oz) / dz
        x, y = ox + t * dx, oy + t * dy
        if 0.0 < t < best and x * x + y * y <= radius * radius:
            best = t
    return best


@inlined
def in_triangle(t: Floats, ray: Floats) -> tuple[float, float, float]:
    """Depth at which a ray meets the plane of a triangle, inf if it does not; weights of the
    second and third corner there."""
    ex, ey, ez = t[4] - t[1], t[5] - t[2], t[6] - t[3]
    fx, fy, fz = t[7] - t[1], t[8] - t[2], t[9] - t[3]
    px, py, pz = ray[4] * fz - ray[5] * fy, ray[5] * fx - ray[3] * fz, ray[3] * fy - ray[4] * fx
    area = ex * px + ey * py + ez * pz
    if abs(area) < 1e-30:
        return math.inf, 0.0, 0.0
    ox, oy, oz = ray[0] - t[1], ray[1] - t[2], ray[2] - t[3]
    b = (ox * px + oy * py + oz * pz) / area
    qx, qy, qz = oy * ez - oz * ey, oz * ex - ox * ez, ox * ey - oy * ex
    c = (ray[3] * qx + ray[4] * qy + ray[5] * qz) / area
    return (fx * qx + fy * qy + fz * qz) / area, b, c


@kernel
def hit_triangle(t: Floats, ray: Floats) -> float:
    """As hit_sphere; both sides count."""
    depth, b, c = in_triangle(t, ray)
    return depth if depth > 0.0 and b >= 0.0 and c >= 0.0 and b + c <= 1.0 else math.inf


@kernel
def triangle_normal(t: Floats, ray: Floats) -> Three:
    """Mixed normal towards the camera, also where the ray just misses."""
    _, b, c = in_triangle(t, ray)
    b, c = min(max(b, 0.0), 1.0), min(max(c, 0.0), 1.0)
    a = max(1.0 - b - c, 0.0)
    x = a * t[10] + b * t[13] + c * t[16]
    y = a * t[11] + b * t[14] + c * t[17]
    z = a * t[12] + b * t[15] + c * t[18]
    length = math.sqrt(x * x + y * y + z * z) + 1e-12
    if x * ray[3] + y * ray[4] + z * ray[5] > 0.0:
        length = -length
    return x / length, y / length, z / length


@kernel
def hit_solid(solid: Floats, ray: Floats) -> tuple[float, float, float, float]:
    """Depth at which a ray meets a solid, and the surface normal there, in the world."""
    o, d, n = np.empty(3), np.empty(3), np.zeros(3)
    for r in range(3):
        o[r] = d[r] = 0.0
        for c in range(3):
            o[r] += solid[4 + 3 * r + c] * (ray[c] - solid[13 + c])
            d[r] += solid[4 + 3 * r + c] * ray[3 + c]
    kind = int(solid[0])
    if kind == SPHERE:
        t = hit_sphere(o[0], o[1], o[2], d[0], d[1], d[2], solid[1])
    elif kind == BOX:
        t = hit_box(o, d, solid[1:4])
    else:
        t = hit_cylinder(o[0], o[1], o[2], d[0], d[1], d[2], solid[1], solid[2])
    if t == math.inf:
        return t, 0.0, 0.0, 0.0
    p = o + t * d
    if kind == SPHERE:
        n = p / solid[1]
    elif kind == BOX:
        face = np.argmax(np.abs(p) / solid[1:4])
        n[face] = 1.0 if p[face] > 0.0 else -1.0
    elif abs(p[2]) >= solid[2] * (1.0 - 1e-9):
        n[2] = 1.0 if p[2] > 0.0 else -1.0
    else:
        n[0], n[1] = p[0] / solid[1], p[1] / solid[1]
    m = solid[4:13]
    return (
        t,
        m[0] * n[0] + m[3] * n[1] + m[6] * n[2],
        m[1] * n[0] + m[4] * n[1] + m[7] * n[2],
        m[2] * n[0] + m[5] * n[1] + m[8] * n[2],
    )


@inlined
def noise(px: int, py: int) -> float:
    """Interleaved gradient noise 0..1 (Jimenez 2014): even to the eye, the same every time."""
    return (52.9829189 * ((0.06711056 * px + 0.00583715 * py) % 1.0)) % 1.0


@kernel
def trace_rows(
    first: int,
    last: int,
    camera: Floats,
    solids: Floats,
    windows: NDArray[np.int64],
    depth: Singles,
    who: Numbers,
) -> None:
    """Solids into depth and who, within their windows (left, right, top, bottom)."""
    ray = np.empty(6)
    for k in range(len(solids)):
        for py in range(max(first, windows[k, 2]), min(last, windows[k, 3])):
            for px in range(windows[k, 0], windows[k, 1]):
                ray[0], ray[1], ray[2], ray[3], ray[4], ray[5] = pixel_ray(camera, px, py)
                if solids[k, 0] == TRIANGLE:
                    t = hit_triangle(solids[k], ray)
                else:
                    t = hit_solid(solids[k], ray)[0]
                # Glass: only some of the samples see it.
                if t < depth[py, px] and solids[k, 19] > noise(px, py):
                    depth[py, px] = t
                    who[py, px] = -2 - k


@inlined
def lit_share(shadow: Shadow, p: Floats, spread: float, turn: float) -> float:
    """Share 0..1 of the key light that reaches a point; taps over `spread` map pixels."""
    light, seen = shadow.camera, shadow.depth
    x, y, z = p[0] - light[0], p[1] - light[1], p[2] - light[2]
    lx = light[14] * 0.5 + light[12] * (x * light[3] + y * light[4] + z * light[5])
    ly = light[15] * 0.5 - light[12] * (x * light[6] + y * light[7] + z * light[8])
    depth = x * light[9] + y * light[10] + z * light[11] - shadow.bias
    height, width = seen.shape
    cosine, sine = spread * math.cos(turn), spread * math.sin(turn)
    open_taps = 0
    for k in range(len(SHADOW_TAPS)):
        qx = int(math.floor(lx + SHADOW_TAPS[k, 0] * cosine - SHADOW_TAPS[k, 1] * sine))
        qy = int(math.floor(ly + SHADOW_TAPS[k, 0] * sine + SHADOW_TAPS[k, 1] * cosine))
        if not (0 <= qx < width and 0 <= qy < height) or seen[qy, qx] > depth:
            open_taps += 1
    return open_taps / len(SHADOW_TAPS)


@inlined
def contact_at(ground: Ground, a: float, b: float) -> float:
    """Soft ground shadow 0..1 at floor coordinates, bilinear; 0 outside of the map."""
    rows, columns = ground.contact.shape
    window = ground.window
    u = (a - window[0]) / (window[1] - window[0]) * columns - 0.5
    v = (b - window[2]) / (window[3] - window[2]) * rows - 0.5
    if u < 0.0 or v < 0.0 or u >= columns - 1 or v >= rows - 1:
        return 0.0
    i, j = int(u), int(v)
    fu, fv = u - i, v - j
    upper = ground.contact[j, i] * (1 - fu) + ground.contact[j, i + 1] * fu
    lower = ground.contact[j + 1, i] * (1 - fu) + ground.contact[j + 1, i + 1] * fu
    return upper * (1 - fv) + lower * fv


@inlined
def ball_normal(
    camera: Floats, u: float, v: float, soft: Singles, smooth: float, out: Floats
) -> None:
    """World normal of a ball at u, v in its disc, bent towards the smoothed surface."""
    w = math.sqrt(max(1.0 - u * u - v * v, 0.0))
    if soft[2] > 0.0:
        u += (soft[0] - u) * smooth
        v += (soft[1] - v) * smooth
        w += (soft[2] - w) * smooth
    length = math.sqrt(u * u + v * v + w * w) + 1e-12
    for c in range(3):
        out[c] = (u * camera[3 + c] + v * camera[6 + c] - w * camera[9 + c]) / length


@inlined
def floor_depth(ground: Ground, ray: Floats) -> float:
    """Depth of the floor along a ray; inf where it is not seen from above."""
    rate = ray[3 + ground.axis]
    if not ground.on or rate >= -1e-9:
        return math.inf
    t = (ground.height - ray[ground.axis]) / rate
    return t if t > 0.0 else math.inf


@inlined
def floor_light(
    look: Look, ground: Ground, p: Floats, lit: float, openness: float, out: Floats
) -> None:
    """Floor that fades into the backdrop (already in out) with distance from the scene."""
    a, b = p[0], p[3 - ground.axis]
    far = math.hypot(a - ground.center[0], b - ground.center[1]) / ground.radius
    share = min(max((2.6 - far) / 2.2, 0.0), 1.0)
    share = share * share * (3.0 - 2.0 * share)
    shade = (0.3 + 0.7 * lit) * (0.4 + 0.6 * openness) * (1.0 - 0.55 * contact_at(ground, a, b))
    for c in range(3):
        out[c] += (look.floor[c] * shade - out[c]) * share


@inlined
def surface_light(
    look: Look, base: Any, n: Floats, view: Three, lit: float, openness: float, out: Floats
) -> None:
    """Light that leaves a point of colour `base` with normal n towards the camera."""
    key, fill, facing, sky = 0.0, 0.0, 0.0, 0.5
    hx, hy, hz = (
        look.key_direction[0] + view[0],
        look.key_direction[1] + view[1],
        look.key_direction[2] + view[2],
    )
    half = n[0] * hx + n[1] * hy + n[2] * hz
    half /= math.sqrt(hx * hx + hy * hy + hz * hz) + 1e-12
    for c in range(3):
        key += n[c] * look.key_direction[c]
        fill += n[c] * look.fill_direction[c]
        facing += n[c] * view[c]
        sky += 0.5 * n[c] * look.up[c]
    key = max((key + 0.15) / 1.15, 0.0) * lit
    fill = max((fill + 0.3) / 1.3, 0.0) * openness
    rim = (1.0 - min(max(facing, 0.0), 1.0)) ** 4 * openness
    # Squared, Schlick's stand-in for half ** (2 sharpness).
    half = max(half, 0.0)
    half /= look.sharpness - look.sharpness * half + half
    gloss = look.gloss * lit * half * half
    for c in range(3):
        ambient = (look.sky[c] * sky + look.ground[c] * (1.0 - sky)) * openness
        diffuse = base[c] * (look.key[c] * key + look.fill[c] * fill + ambient)
        out[c] = diffuse + look.rim[c] * rim * (0.2 + base[c]) + look.key[c] * gloss


@inlined
def thing_light(
    view: Floats,
    look: Look,
    balls: Balls,
    solids: Solids,
    buffers: Buffers,
    px: int,
    py: int,
    ray: Floats,
    pixel: tuple[int, int],
    lit: float,
    n: Floats,
    out: Floats,
) -> None:
    """Light of the ball or solid at a sample; pixel is row, column in the picture."""
    seen = buffers.who[py, px]
    openness = buffers.openness[pixel]
    length = math.sqrt(ray[3] ** 2 + ray[4] ** 2 + ray[5] ** 2)
    towards = (-ray[3] / length, -ray[4] / length, -ray[5] / length)
    if seen >= 0:
        inverse = 1.0 / balls.reach[seen]
        u, v = (px + 0.5 - balls.x[seen]) * inverse, (balls.y[seen] - py - 0.5) * inverse
        rows, columns = buffers.soft.shape[0], buffers.soft.shape[1]
        soft = buffers.soft[min(pixel[0] // 2, rows - 1), min(pixel[1] // 2, columns - 1)]
        ball_normal(view, u, v, soft, look.smooth, n)
        surface_light(look, balls.color[seen], n, towards, lit, openness, out)
    else:
        solid = solids.rows[-2 - seen]
        if solid[0] == TRIANGLE:
            n[0], n[1], n[2] = triangle_normal(solid, ray)
        else:
            _, n[0], n[1], n[2] = hit_solid(solid, ray)
        surface_light(look, solids.color[-2 - seen], n, towards, lit, openness, out)


@inlined
def behind_light(
    look: Look,
    ground: Ground,
    shadow: Shadow,
    ray: Floats,
    openness: float,
    share: float,
    turn: float,
    p: Floats,
    out: Floats,
) -> None:
    """Light of floor and backdrop along a ray; share 0..1 runs down the picture."""
    for c in range(3):
        out[c] = look.top[c] * (1.0 - share) + look.bottom[c] * share
    z = floor_depth(ground, ray)
    if z != math.inf:
        along(ray, z, p)
        lit = lit_share(shadow, p, shadow.floor_spread, turn) if shadow.on else 1.0
        floor_light(look, ground, p, lit, openness, out)


@inlined
def along(ray: Floats, z: float, out: Floats) -> None:
    """Point at a depth."""
    for c in range(3):
        out[c] = ray[c] + z * ray[3 + c]


@kernel
def shade_rows(
    first: int,
    last: int,
    quality: int,
    view: Floats,
    look: Look,
    balls: Balls,
    solids: Solids,
    buffers: Buffers,
    shadow: Shadow,
    ground: Ground,
    out: Singles,
) -> None:
    """Rows of the picture, linear rgb 0..1, from quality x quality samples a pixel."""
    ray, p, n, light, behind = np.empty(6), np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    weight = 1.0 / (quality * quality)
    half = 0.5 * (quality - 1)
    for row in range(first, last):
        for column in range(out.shape[1]):
            # Rays and shadows are dear: the samples of a pixel share them where that is not seen.
            x, y = column * quality, row * quality
            ray[0], ray[1], ray[2], ray[3], ray[4], ray[5] = pixel_ray(view, x + half, y + half)
            floor = floor_depth(ground, ray)
            turn = 6.2831853 * noise(column, row)
            lit, lit_z, missed = 1.0, -math.inf, 0
            for c in range(3):
                out[row, column, c] = 0.0
            for py in range(y, y + quality):
                for px in range(x, x + quality):
                    z = float(buffers.depth[py, px])
                    if z >= floor:
                        missed += 1
                        continue
                    if shadow.on and abs(z - lit_z) > 2 * shadow.bias:
                        along(ray, z, p)
                        lit, lit_z = lit_share(shadow, p, shadow.spread, turn), z
                    pixel = (row, column)
                    thing_light(
                        view, look, balls, solids, buffers, px, py, ray, pixel, lit, n, light
                    )
                    for c in range(3):
                        out[row, column, c] += (1.0 - math.exp(-light[c])) * weight
            if missed > 0:
                share, openness = row / out.shape[0], buffers.openness[row, column]
                behind_light(look, ground, shadow, ray, openness, share, turn, p, behind)
                for c in range(3):
                    out[row, column, c] += (1.0 - math.exp(-behind[c])) * weight * missed
