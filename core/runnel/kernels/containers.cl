// containers.cl: walls of a box-shaped container for all lanes of a cluster at once: what most clusters at walls are near.
// The same formulas as solid_share of solids.cl.

#if LANES_IN_VECTOR
#define WALL_TABLE(k, m) (real)(wall_in[k.s0].m, wall_in[k.s1].m, wall_in[k.s2].m, wall_in[k.s3].m, \
                                wall_in[k.s4].m, wall_in[k.s5].m, wall_in[k.s6].m, wall_in[k.s7].m)
#define IDS_I (uint8)(PARTICLE_ID(LANE(0)), PARTICLE_ID(LANE(1)), PARTICLE_ID(LANE(2)), PARTICLE_ID(LANE(3)), \
                      PARTICLE_ID(LANE(4)), PARTICLE_ID(LANE(5)), PARTICLE_ID(LANE(6)), PARTICLE_ID(LANE(7)))
#define LANE(k) (CLUSTER * CLUSTER_INDEX + (k))
#else
#define WALL_TABLE(k, m) wall_in[k].m
#define IDS_I PARTICLE_ID(get_global_id(0))
#endif

typedef struct { real fill, slope, shear; } half_space_t;

// half_space of solids.cl; the table begins with a full half space and ends with none.
FORCE_INLINE half_space_t half_space_lanes(__global const float4 *wall_in, real distance, real inverse_h)
{
    const real q = MIN(MAX((distance * inverse_h + 1.0f) * (0.5f * WALL_SAMPLES), (real)0.0f), (real)(WALL_SAMPLES - 1e-3f));
    const lanes_mask k = TO_INT(q), next = k + 1;
    const real part = q - TO_REAL(k);
    half_space_t v;
    const real fill = WALL_TABLE(k, x), slope = WALL_TABLE(k, y), shear = WALL_TABLE(k, z);
    v.fill = fill + part * (WALL_TABLE(next, x) - fill);
    v.slope = (slope + part * (WALL_TABLE(next, y) - slope)) * inverse_h;
    v.shear = shear + part * (WALL_TABLE(next, z) - shear);
    return v;
}

typedef struct { real room, slope, shear; } axis_t;

// container_axis of solids.cl.
FORCE_INLINE axis_t axis_lanes(__global const float4 *wall_in, real at, float half_size, real h, real inverse_h)
{
    axis_t axis = {(real)1.0f, (real)0.0f, (real)0.0f};
    const real off = MAX(at, -at);
    if (!ANY_LANE(half_size - off < h)) return axis;
    const half_space_t nearer = half_space_lanes(wall_in, half_size - off, inverse_h);
    axis.room = 1.0f - nearer.fill;
    axis.slope = nearer.slope;
    axis.shear = nearer.shear;
    if (ANY_LANE(half_size + off < h)) {
        const half_space_t other = half_space_lanes(wall_in, half_size + off, inverse_h);
        axis.slope = nearer.slope * (1.0f - other.fill) - other.slope * axis.room;
        axis.room *= 1.0f - other.fill;
        axis.shear += other.shear;
    }
    axis.slope = at < 0.0f ? -axis.slope : axis.slope;
    return axis;
}

FORCE_INLINE real3_t to_local_lanes(__global const float *s, real3_t v)
{
    const real3_t turned = {s[8] * v.x + s[9] * v.y + s[10] * v.z, s[11] * v.x + s[12] * v.y + s[13] * v.z,
                           s[14] * v.x + s[15] * v.y + s[16] * v.z};
    return turned;
}

FORCE_INLINE real3_t to_world_lanes(__global const float *s, real3_t v)
{
    const real3_t world = {s[8] * v.x + s[11] * v.y + s[14] * v.z, s[9] * v.x + s[12] * v.y + s[15] * v.z,
                           s[10] * v.x + s[13] * v.y + s[16] * v.z};
    return world;
}

FORCE_INLINE real3_t in_container(__global const float *s, real3_t x)
{
    const real3_t off = {x.x - s[17], x.y - s[18], x.z - s[19]};
    return to_local_lanes(s, off);
}

FORCE_INLINE real along_wall_lanes(real shear) { return 1.0f / (1.0f - MIN(shear, (real)0.5f)); }

// Room that a container leaves, and the gradient of what it takes. Mends the correction by pressure, if there is one.
FORCE_INLINE real container_room(
    __global const float *s, __global const float4 *wall_in, real3_t x, real h, real inverse_h, real3_t *gradient, real3_t *correction)
{
    const real3_t at = in_container(s, x);
    const axis_t a = axis_lanes(wall_in, at.x, s[5], h, inverse_h);
    const axis_t b = axis_lanes(wall_in, at.y, s[6], h, inverse_h);
    const axis_t d = axis_lanes(wall_in, at.z, s[7], h, inverse_h);
    const real3_t steep = {-a.slope * b.room * d.room, -a.room * b.slope * d.room, -a.room * b.room * d.slope};
    *gradient = to_world_lanes(s, steep);
    if (correction) {
        const real fa = along_wall_lanes(a.shear), fb = along_wall_lanes(b.shear), fd = along_wall_lanes(d.shear);
        real3_t by = to_local_lanes(s, *correction);
        by.x *= fb * fd; by.y *= fa * fd; by.z *= fa * fb;
        *correction = to_world_lanes(s, by);
    }
    return a.room * b.room * d.room;
}

FORCE_INLINE real within_room(real at, real room) { return MAX(-room, MIN(at, room)) - at; }

// Where particles have to go to be `distance` off the walls of a container.
FORCE_INLINE real3_t put_inside(__global const float *s, real3_t x, real distance)
{
    const real3_t at = in_container(s, x);
    // By how much, not to where: what is not in touch stays exactly where it is.
    const real3_t off = {within_room(at.x, MAX(s[5] - distance, (real)0.0f)), within_room(at.y, MAX(s[6] - distance, (real)0.0f)),
                         within_room(at.z, MAX(s[7] - distance, (real)0.0f))};
    const real3_t by = to_world_lanes(s, off);
    x.x += by.x; x.y += by.y; x.z += by.z;
    return x;
}
