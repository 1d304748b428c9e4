// solids.cl: distance to packed solids, what they add to the density, contact.
// Rows of SOLID_COLUMNS floats, columns as in backends/base.py. Twin: backends/reference.

#define PLANE 0
#define BOX 1
#define SPHERE 2
#define CYLINDER 3
#define FIELD 4
#define IS_SHELL(s) ((s)[28] > 0.0f)
#define IS_CONTAINER(s) ((int)(s)[0] == BOX && (s)[1] < 0.0f)  // whose walls act each by itself
#define TWIN_BIT 0x80000000U
// Up to 30 solids have a bit each; of more, those from 14 on share 16 bits in turn. Twin: backends/base.py.
#define NEAR_BIT(s) (1U << ((s) < 14U ? (s) : 14U + (((s) - 14U) & 15U)))
#define IS_NEAR(near, s) ((near) & NEAR_BIT(s))

inline float3 to_local(__global const float *s, float3 v)
{
    return (float3)(s[8] * v.x + s[9] * v.y + s[10] * v.z,
                    s[11] * v.x + s[12] * v.y + s[13] * v.z,
                    s[14] * v.x + s[15] * v.y + s[16] * v.z);
}

inline float3 to_world(__global const float *s, float3 v)
{
    return (float3)(s[8] * v.x + s[11] * v.y + s[14] * v.z,
                    s[9] * v.x + s[12] * v.y + s[15] * v.z,
                    s[10] * v.x + s[13] * v.y + s[16] * v.z);
}

inline float3 solid_origin(__global const float *s) { return (float3)(s[17], s[18], s[19]); }

inline float3 in_scene_plane(float3 v)
{
#if IGNORED_AXIS == 1
    v.y = 0.0f;
#elif IGNORED_AXIS == 2
    v.z = 0.0f;
#endif
    return v;
}

inline float3 solid_velocity(__global const float *s, float3 x)
{
    const float3 away = x - solid_origin(s);
    float3 u = (float3)(s[20], s[21], s[22]) + cross3((float3)(s[23], s[24], s[25]), away);
    if ((int)s[0] == FIELD && HAS_CHANNEL(SECOND_FIELD(s), VELOCITY))
        u += in_scene_plane(s[5] * to_world(s, sample_channel(SECOND_FIELD(s), VELOCITY, to_local(s, away) / s[5])));
    return u;
}

// Friction, bounce and stickiness of a solid at x.
inline float3 solid_surface(__global const float *s, float3 x)
{
    if ((int)s[0] != FIELD || !HAS_CHANNEL(SECOND_FIELD(s), SURFACE)) return (float3)(s[2], s[3], s[4]);
    return sample_channel(SECOND_FIELD(s), SURFACE, to_local(s, x - solid_origin(s)) / s[5]);
}

inline float3 safe_normal(float3 v, float length_v)
{
    return length_v > 1e-12f ? v / length_v : (float3)(1.0f, 0.0f, 0.0f);  // x counts in 2D too
}

// Distance to the box's surface, negative inside it, and the direction away from the box.
inline float box_distance(float3 x, float3 half_size, float3 *normal)
{
    const float3 side = (float3)(x.x < 0.0f ? -1.0f : 1.0f, x.y < 0.0f ? -1.0f : 1.0f, x.z < 0.0f ? -1.0f : 1.0f);
    const float3 q = x * side - half_size;
    if (q.x > 0.0f || q.y > 0.0f || q.z > 0.0f) {
        const float3 out = (float3)(MAX(q.x, 0.0f), MAX(q.y, 0.0f), MAX(q.z, 0.0f));
        const float d = length3(out);
        *normal = out / d * side;
        return d;
    }
    if (q.x >= q.y && q.x >= q.z) { *normal = (float3)(side.x, 0.0f, 0.0f); return q.x; }
    if (q.y >= q.z) { *normal = (float3)(0.0f, side.y, 0.0f); return q.y; }
    *normal = (float3)(0.0f, 0.0f, side.z);
    return q.z;
}

inline float cylinder_distance(float3 x, float radius, float half_length, float3 *normal)
{
    const float rho = root_of(x.x * x.x + x.y * x.y);
    const float3 radial = rho > 1e-12f ? (float3)(x.x / rho, x.y / rho, 0.0f) : (float3)(1.0f, 0.0f, 0.0f);
    const float3 axial = (float3)(0.0f, 0.0f, x.z < 0.0f ? -1.0f : 1.0f);
    const float a = rho - radius, b = MAX(x.z, -x.z) - half_length;
    if (a > 0.0f && b > 0.0f) {
        const float d = root_of(a * a + b * b);
        *normal = (radial * a + axial * b) / d;
        return d;
    }
    *normal = a > b ? radial : axial;
    return MAX(a, b);
}

// In 2D the plane of the scene cuts the field: the way to the surface within that plane is longer than that in space.
inline float section_distance(float phi, float band, float3 *normal)
{
#if IGNORED_AXIS >= 0
    const float3 flat = in_scene_plane(*normal);
    const float steep = length3(flat);
    *normal = direction_of(flat);
    if (MAX(phi, -phi) < band) phi /= MAX(steep, 0.5f);
#endif
    return phi;
}

// Signed distance from the fluid's side (negative in the solid) and the world normal into the fluid.
inline float solid_distance(__global const float *s, float3 x, float3 *normal)
{
    const float3 point = to_local(s, x - solid_origin(s));
    const int kind = (int)s[0];
    float3 n = (float3)(0.0f, 0.0f, 1.0f);
    if (kind == FIELD) {
        const float phi = s[5] * field_distance(s, DISTANCE, point / s[5], &n);
        *normal = to_world(s, direction_of(n));
        return section_distance(phi, s[5] * FIRST_FIELD(s)[4], normal);
    }
    float phi = point.z;  // PLANE
    if (kind == BOX) {
        phi = box_distance(point, (float3)(s[5], s[6], s[7]), &n);
    } else if (kind == SPHERE) {
        const float d = length3(point);
        n = safe_normal(point, d);
        phi = d - s[5];
    } else if (kind == CYLINDER) {
        phi = cylinder_distance(point, s[5], s[6], &n);
    }
    const float turn = IS_SHELL(s) && phi < 0.0f ? -1.0f : s[1];  // a shell has two sides
    *normal = to_world(s, n) * turn;
    return phi * turn - s[28];
}

// At most the distance: of a field, what is far from it is told at once.
inline float solid_clearance(__global const float *s, float3 x)
{
    float3 n;
    if ((int)s[0] != FIELD) return solid_distance(s, x, &n);
    return s[5] * row_clearance(s, to_local(s, x - solid_origin(s)) / s[5]) - s[30];
}

// Whether a solid box, sphere or cylinder is farther than `reach`: told at once. Of others nothing is known.
inline int is_beyond(__global const float *s, float3 x, float reach)
{
    const int kind = (int)s[0];
    const float3 away = x - solid_origin(s);
    if (s[1] < 0.0f || kind == PLANE || kind == FIELD) return 0;
    const float far = reach + s[28];
    if (kind == BOX) {
        const float corner = far + s[5] + s[6] + s[7];
        if (dot3(away, away) > corner * corner) return 1;
        const float3 at = to_local(s, away);
        return MAX(at.x, -at.x) > s[5] + far || MAX(at.y, -at.y) > s[6] + far || MAX(at.z, -at.z) > s[7] + far;
    }
    const float ball = far + (kind == SPHERE ? s[5] : s[5] + s[6]);
    return dot3(away, away) > ball * ball;
}

// Some of all solids, or all, where that would be more than FEW_SOLIDS or not worth the search.
#define FEW_SOLIDS 32U
typedef struct { uint count; ushort at[FEW_SOLIDS]; } few_t;
#define ONE_OF(few, k) ((few)->count > FEW_SOLIDS ? (k) : (uint)(few)->at[k])

inline few_t all_solids(uint solid_count)
{
    few_t few;
    few.count = solid_count;
    for (uint s = 0; s < MIN(solid_count, FEW_SOLIDS); ++s) few.at[s] = (ushort)s;
    return few;
}

// Those that solids_near may find with any box within low..high.
inline few_t solids_around(__global const float *solids, uint solid_count, float3 low, float3 high, float margin)
{
    // Half sizes and offsets of boxes inside add up to at most those of this one, axis by axis; their lengths to sqrt(2) of its.
    const float reach = 1.001f * (1.4143f * length3(0.5f * (high - low)) + margin);
    few_t few;
    few.count = 0;
    for (uint s = 0; s < solid_count; ++s) {
        if (is_beyond(solids + s * SOLID_COLUMNS, 0.5f * (low + high), reach)) continue;
        if (few.count == FEW_SOLIDS) return all_solids(solid_count);
        few.at[few.count++] = (ushort)s;
    }
    return few;
}

// Bits of those whose surface may come within `margin` of the box low..high.
inline uint solids_near(__global const float *solids, const few_t *few, float3 low, float3 high, float margin)
{
    const float3 centre = 0.5f * (low + high), half_size = 0.5f * (high - low);
    const float reach = length3(half_size) + margin;
    uint near = 0;
    for (uint k = 0; k < few->count; ++k) {
        const uint s = ONE_OF(few, k);
        __global const float *row = solids + s * SOLID_COLUMNS;
        if (is_beyond(row, centre, reach)) continue;
        if (solid_clearance(row, centre) < reach) near |= NEAR_BIT(s);
    }
    return near;
}

// At most the distance to the solid's surface, for all lanes at once: to pass by what is `enough` off or more.
FORCE_INLINE real distance_bound(__global const float *s, real x, real y, real z, real enough)
{
    const real dx = x - s[17], dy = y - s[18], dz = z - s[19];
    const real lx = s[8] * dx + s[9] * dy + s[10] * dz;
    const real ly = s[11] * dx + s[12] * dy + s[13] * dz;
    const real lz = s[14] * dx + s[15] * dy + s[16] * dz;
    const int kind = (int)s[0];
    real phi = lz;  // PLANE
    if (kind == BOX) {
        const real qx = MAX(lx, -lx) - s[5], qy = MAX(ly, -ly) - s[6], qz = MAX(lz, -lz) - s[7];
        phi = MAX(qx, MAX(qy, qz));
    } else if (kind == SPHERE) {
        phi = root(lx * lx + ly * ly + lz * lz + 1e-24f) - s[5];
    } else if (kind == CYLINDER) {
        const real a = root(lx * lx + ly * ly + 1e-24f) - s[5], b = MAX(lz, -lz) - s[6];
        phi = MAX(a, b);
    } else if (kind == FIELD) {
        const float inverse = 1.0f / s[5];
        FOR_LANES {
            const float3 point = (float3)(LANE_OF(lx), LANE_OF(ly), LANE_OF(lz)) * inverse;
            LANE_OF(phi) = s[5] * row_bound(s, point, (LANE_OF(enough) + s[30]) * inverse) - s[30];
        }
        return phi;
    }
    return IS_SHELL(s) ? MAX(phi, -phi) - s[28] : phi * s[1];
}

// ---- what the solid adds to the density (docs/theory: walls) ----
// wall_in: (fill, slope, shear, -) of a half space by distance/h in -1..1, WALL_SAMPLES + 1 rows.
inline float4 half_space(__global const float4 *wall_in, float distance, float inverse_h)
{
    const float q = (distance * inverse_h + 1.0f) * (0.5f * WALL_SAMPLES);
    if (q <= 0.0f) return (float4)(1.0f, 0.0f, 1.0f, 0.0f);
    if (q >= (float)WALL_SAMPLES) return (float4)(0.0f);
    const int k = (int)q;
    const float4 a = wall_in[k], b = wall_in[k + 1];
    const float4 v = a + (q - (float)k) * (b - a);
    return (float4)(v.x, v.y * inverse_h, v.z, 0.0f);
}

// Along one axis of a container, between two walls: room left, its slope, and how much of the gradient along the walls they hide.
inline float3 container_axis(__global const float4 *wall_in, float x, float half_size, float inverse_h)
{
    if ((half_size - MAX(x, -x)) * inverse_h >= 1.0f) return (float3)(1.0f, 0.0f, 0.0f);
    const float4 a = half_space(wall_in, half_size + x, inverse_h), b = half_space(wall_in, half_size - x, inverse_h);
    return (float3)((1.0f - a.x) * (1.0f - b.x), b.y * (1.0f - a.x) - a.y * (1.0f - b.x), a.z + b.z);
}

// Of a solid box: share of what lies behind the near face less what lies behind the far one, and its slope.
inline float2 block_axis(__global const float4 *wall_in, float x, float half_size, float inverse_h)
{
    const float side = x < 0.0f ? -1.0f : 1.0f;
    const float4 a = half_space(wall_in, side * x - half_size, inverse_h), b = half_space(wall_in, side * x + half_size, inverse_h);
    return (float2)(a.x - b.x, side * (a.y - b.y));
}

// Beside a wall only part of the pressure gradient along the wall is seen: the fluid's share of it.
// Scaling the correction along the wall keeps a resting fluid from sinking there.
inline float along_wall(float shear) { return 1.0f / (1.0f - MIN(shear, 0.5f)); }

// Distance that counts for the density, the direction and the gradient of it.
inline float wall_distance(__global const float *s, float3 x, float3 *normal, float3 *gradient)
{
    if ((int)s[0] != FIELD) {
        const float phi = solid_distance(s, x, normal);
        *gradient = *normal;
        return phi;
    }
    float3 n;
    const float psi = s[5] * field_distance(s, WALL, to_local(s, x - solid_origin(s)) / s[5], &n);
    *gradient = in_scene_plane(to_world(s, n));
    *normal = direction_of(*gradient);
    return psi;
}

// (gradient, share) of one solid at x. Also mends a correction by pressure there (along_wall), if one is given.
inline float4 solid_share(__global const float *s, __global const float4 *wall_in, float3 x, float inverse_h, float3 *correction)
{
    if (IS_CONTAINER(s)) {
        const float3 point = to_local(s, x - solid_origin(s));
        const float3 a = container_axis(wall_in, point.x, s[5], inverse_h);
        const float3 b = container_axis(wall_in, point.y, s[6], inverse_h);
        const float3 c = container_axis(wall_in, point.z, s[7], inverse_h);
        if (correction) {
            const float fa = along_wall(a.z), fb = along_wall(b.z), fc = along_wall(c.z);
            *correction = to_world(s, to_local(s, *correction) * (float3)(fb * fc, fa * fc, fa * fb));
        }
        return (float4)(-to_world(s, (float3)(a.y * b.x * c.x, a.x * b.y * c.x, a.x * b.x * c.y)), 1.0f - a.x * b.x * c.x);
    }
    float3 n, gradient;
    const float psi = wall_distance(s, x, &n, &gradient);
    const float4 v = half_space(wall_in, psi, inverse_h);
    if (correction) {
        const float normal = dot3(*correction, n);
        *correction = normal * n + along_wall(v.z) * (*correction - normal * n);
    }
    if ((int)s[0] == FIELD) return (float4)(v.y * gradient, v.x);
    if ((int)s[0] != BOX || IS_SHELL(s)) return (float4)(v.y * n, v.x);
    const float3 point = to_local(s, x - solid_origin(s));
    const float2 a = block_axis(wall_in, point.x, s[5], inverse_h);
    const float2 b = block_axis(wall_in, point.y, s[6], inverse_h);
    const float2 c = block_axis(wall_in, point.z, s[7], inverse_h);
    return (float4)(to_world(s, (float3)(a.y * b.x * c.x, a.x * b.y * c.x, a.x * b.x * c.y)), a.x * b.x * c.x);
}

// Distance to face `face` (0..2: the nearer one of each axis) of a container, and its normal.
inline float face_distance(__global const float *s, float3 x, int face, float3 *normal)
{
    const float3 at = to_local(s, x - solid_origin(s));
    const float c = face == 0 ? at.x : face == 1 ? at.y : at.z;
    const float side = c < 0.0f ? 1.0f : -1.0f;
    *normal = to_world(s, (float3)(face == 0 ? side : 0.0f, face == 1 ? side : 0.0f, face == 2 ? side : 0.0f));
    return s[5 + face] + side * c;
}

// Half spaces and hollows cannot be passed through: contact alone finds back.
inline int can_be_passed(__global const float *s)
{
    const int kind = (int)s[0];
    return kind == FIELD || IS_SHELL(s) || (kind != PLANE && s[1] > 0.0f);
}

// What of a way from x a solid leaves. As far as its surface is, nothing is in the way; from there it is looked at again, since in a
// crevice the nearest wall does not tell of the one across.
#define HOLD_LOOKS 16  // half radii, in the narrowest
inline float3 held_way(__global const float *row, float3 x, float3 by, float radius REACTION_ARGUMENT)
{
    float3 gone = (float3)(0.0f);
    for (int look = 0; look < HOLD_LOOKS; ++look) {
        float3 n;
        const float room = MAX(solid_distance(row, x + gone, &n), 0.0f), into = -dot3(by, n);
        if (into > room) {
            by += (into - room) * n;
            REACT(row, (into - room) * n);
        }
        const float left = length3(by), free = MAX(room, 0.5f * radius);
        if (left <= free) return gone + by;
        gone += free / left * by;
        by -= free / left * by;
    }
    return gone;
}

// A long correction by the fluid ends at the surface it leads to: a thin wall must not be jumped over.
inline float3 hold_back(__global const float *solids, uint solid_count, uint near, float3 x, float3 by, float radius REACTION_ARGUMENT)
{
    if (dot3(by, by) < 0.25f * radius * radius) return by;
    for (uint s = 0; s < solid_count; ++s) {
        __global const float *row = solids + s * SOLID_COLUMNS;
        if (IS_NEAR(near, s) && can_be_passed(row)) by = held_way(row, x, by, radius PASS_REACTION);
    }
    return by;
}
