// walls.cl: walls for all lanes of a cluster at once: their share of the density, contact, and what bodies get back of that.
// Solid by solid in their order: containers (containers.cl), solid boxes and fields by eights, other solids for the lanes
// that are near enough. So are bodies that deform: their field has left the bytes of its clearance, and each place yields by itself.

#if LANES_IN_VECTOR
#define GATHER_AT(a, k) (real)((a)[k.s0], (a)[k.s1], (a)[k.s2], (a)[k.s3], (a)[k.s4], (a)[k.s5], (a)[k.s6], (a)[k.s7])
#define GATHER_INTS(a, k) (lanes_mask)((a)[k.s0], (a)[k.s1], (a)[k.s2], (a)[k.s3], (a)[k.s4], (a)[k.s5], (a)[k.s6], (a)[k.s7])
#else
#define GATHER_AT(a, k) (a)[k]
#define GATHER_INTS(a, k) (int)(a)[k]
#endif
#if BODIES
#define IS_FIELD(s) ((int)(s)[0] == FIELD && !DEFORMS(s))
#else
#define IS_FIELD(s) ((int)(s)[0] == FIELD)
#endif
#define IS_BLOCK(s) ((int)(s)[0] == BOX && (s)[1] > 0.0f && !IS_SHELL(s))

// ---- what bodies get back, as in reactions.cl: slots are those of the cluster ----
#if BODIES
#if LANES_IN_VECTOR
#define GIVEN_SLOTS 16  // lanes in a crowd of small bodies are at different ones
#else
#define GIVEN_SLOTS BODY_SLOTS
#endif
typedef struct {
    __global const float *bodies;
    int used, body[GIVEN_SLOTS];
    __global const float *row[GIVEN_SLOTS];  // that has a share; of a deformable body: the only one it has
    real3_t gradient[GIVEN_SLOTS], back[GIVEN_SLOTS];
    real3_t put;  // what contact moved the lanes by: their places round it, their momentum must not
} given_t;

#define NEW_GIVEN(table) given_t given_by_lanes; given_t *given = &given_by_lanes; given->bodies = table; given->used = 0; \
    given->put.x = given->put.y = given->put.z = (real)0.0f
#define GIVEN_ARGUMENT , given_t *given
#define PASS_GIVEN , given
#define GIVE(s, by) give(given, s, by)
#define YIELD_LANES(s, x, n) (BODY_OF(s) < 0 ? (real)1.0f : 1.0f / (1.0f + body_way_lanes(given->bodies + BODY_OF(s) * BODY_COLUMNS, 18, x, n)))
#define LANE_YIELD(s, x, n) yielding(given->bodies, s, x, n)

FORCE_INLINE int given_slot(given_t *g, int body)
{
    int k = 0;
    while (k < g->used && g->body[k] != body) ++k;
    if (k < g->used) return k;
    if (k == GIVEN_SLOTS) return GIVEN_SLOTS - 1;
    const real3_t none = {(real)0.0f, (real)0.0f, (real)0.0f};
    g->used = k + 1;
    g->body[k] = body;
    g->gradient[k] = g->back[k] = none;
    return k;
}

FORCE_INLINE void add_times(real3_t *sum, real by, real3_t v)
{
    sum->x += by * v.x; sum->y += by * v.y; sum->z += by * v.z;
}

FORCE_INLINE void give(given_t *g, __global const float *s, real3_t by)
{
    add_times(&g->put, (real)1.0f, by);
    if (BODY_OF(s) >= 0) add_times(g->back + given_slot(g, BODY_OF(s)), (real)-1.0f, by);
}

FORCE_INLINE void note_lanes(given_t *g, __global const float *s, real left, real3_t own, real room, real3_t unmended, const real3_t *mended)
{
    for (int k = 0; k < g->used; ++k) { g->gradient[k].x *= left; g->gradient[k].y *= left; g->gradient[k].z *= left; }
    if (BODY_OF(s) < 0 || !ANY_LANE(left != 1.0f)) return;
    const int k = given_slot(g, BODY_OF(s));
    g->row[k] = s;
    add_times(g->gradient + k, room, own);
    if (!mended) return;
    add_times(g->back + k, (real)1.0f, unmended);
    add_times(g->back + k, (real)-1.0f, *mended);
}

FORCE_INLINE real body_way_lanes(__global const float *b, int first, real3_t x, real3_t g)
{
    const real3_t a = {x.x - b[0], x.y - b[1], x.z - b[2]};
    const real3_t t = {a.y * g.z - a.z * g.y, a.z * g.x - a.x * g.z, a.x * g.y - a.y * g.x};
    const real tx = b[3] * t.x + b[4] * t.y + b[5] * t.z, ty = b[6] * t.x + b[7] * t.y + b[8] * t.z, tz = b[9] * t.x + b[10] * t.y + b[11] * t.z;
    return ABSOLUTE(g.x) * b[first] + ABSOLUTE(g.y) * b[first + 1] + ABSOLUTE(g.z) * b[first + 2]
         + ABSOLUTE(tx) * b[first + 3] + ABSOLUTE(ty) * b[first + 4] + ABSOLUTE(tz) * b[first + 5];
}

// B_i: how far bodies yield to the pressure of a particle and of all others with it.
FORCE_INLINE real pressure_yield(given_t *given, real3_t x)
{
    real way = (real)0.0f;
    for (int k = 0; k < given->used; ++k) {
        const real3_t g = given->gradient[k];
        if (DEFORMS(given->row[k])) {
            const real square = g.x * g.x + g.y * g.y + g.z * g.z;
            FOR_LANES if (LANE_OF(square) > 0.0f)
                LANE_OF(way) += root_of(LANE_OF(square)) * vertex_way(given->row[k], (float3)(LANE_OF(x.x), LANE_OF(x.y), LANE_OF(x.z))).x;
        } else {
            way += body_way_lanes(given->bodies + given->body[k] * BODY_COLUMNS, 12, x, g);
        }
    }
    return way;
}

// As store_reaction; mass: of the lanes.
FORCE_INLINE void store_given(given_t *given, __global float4 *back_out, uint stride, real mass, uint count)
{
    FOR_LANES {
        const uint i = LANE_PARTICLE;
        if (i >= count) continue;
        int used = 0;
        float3 last = (float3)(0.0f);  // in the last slot: one more body than there are slots adds to it, that nothing is lost
        for (int k = 0; k < given->used; ++k) {
            const real3_t b = given->back[k];
            const float3 own = (float3)(LANE_OF(b.x), LANE_OF(b.y), LANE_OF(b.z));
            if (dot3(own, own) == 0.0f) continue;
            last = used < BODY_SLOTS ? own : last + own;
            used = MIN(used + 1, BODY_SLOTS);
            back_out[(used - 1) * stride + i] = (float4)(LANE_OF(mass) * last, (float)given->body[k]);
        }
        if (used < BODY_SLOTS) back_out[used * stride + i] = NO_REACTION;
    }
}
#else
#define NEW_GIVEN(table)
#define GIVEN_ARGUMENT
#define PASS_GIVEN
#define GIVE(s, by)
#define YIELD_LANES(s, x, n) (real)1.0f
#define LANE_YIELD(s, x, n) 1.0f
#endif

// Two neighbours along x, each with both its numbers, lie side by side: a load for each lane.
typedef struct { real distance, wall, next_distance, next_wall; } pairs_t;
#if LANES_IN_VECTOR && INLINES_BUILTINS
typedef float4 __attribute__((aligned(4))) loose_float4;
#define FOUR_AT(a, k) (*(__global const loose_float4 *)((a) + (k)))
FORCE_INLINE pairs_t pairs_at(__global const float *a, lanes_mask k)
{
    const float16 low = (float16)(FOUR_AT(a, k.s0), FOUR_AT(a, k.s1), FOUR_AT(a, k.s2), FOUR_AT(a, k.s3));
    const float16 high = (float16)(FOUR_AT(a, k.s4), FOUR_AT(a, k.s5), FOUR_AT(a, k.s6), FOUR_AT(a, k.s7));
    const pairs_t v = {EVERY_FOURTH(low, high, 0), EVERY_FOURTH(low, high, 1), EVERY_FOURTH(low, high, 2), EVERY_FOURTH(low, high, 3)};
    return v;
}
#else
FORCE_INLINE pairs_t pairs_at(__global const float *a, lanes_mask k)
{
    const pairs_t v = {GATHER_AT(a, k), GATHER_AT(a + 1, k), GATHER_AT(a + 2, k), GATHER_AT(a + 3, k)};
    return v;
}
#endif

// ---- fields ----
typedef struct { real3_t q; lanes_mask i, j, k, tile, inside; } voxel_t;  // place in voxels; the nearest voxel of the table, its tile

FORCE_INLINE voxel_t voxel_lanes(__global const float *s, __global const float *f, real3_t x)
{
    __global const int *words = (__global const int *)f;
    const int nx = words[6], ny = words[7], nz = words[8];
    const real3_t at = in_container(s, x);
    const float per = f[3] / s[5];
    voxel_t v;
    v.q.x = per * at.x - f[0] * f[3]; v.q.y = per * at.y - f[1] * f[3]; v.q.z = per * at.z - f[2] * f[3];
    v.inside = (v.q.x >= 0.0f) & (v.q.y >= 0.0f) & (v.q.z >= 0.0f)
        & (v.q.x < (real)(8 * nx)) & (v.q.y < (real)(8 * ny)) & (v.q.z < (real)(8 * nz));
    // Beyond the table: any voxel of it, which will not count.
    v.i = v.inside ? TO_INT(v.q.x) : (lanes_mask)(0);
    v.j = v.inside ? TO_INT(v.q.y) : (lanes_mask)(0);
    v.k = v.inside ? TO_INT(v.q.z) : (lanes_mask)(0);
    v.tile = ((v.k >> 3) * ny + (v.j >> 3)) * nx + (v.i >> 3);
    return v;
}

// field_clearance of fields.cl [m, of the world].
FORCE_INLINE real clearance_lanes(__global const float *s, __global const float *f, voxel_t v)
{
    __global const uchar *bytes = (__global const uchar *)(f + as_uint(f[14]));
    const lanes_mask cell = (v.tile << 6) + ((v.k & 6) << 3) + ((v.j & 6) << 1) + ((v.i & 6) >> 1);
    real least = (0.25f * f[9] * s[5]) * TO_REAL(GATHER_INTS(bytes, cell));
    if (ANY_LANE(!v.inside)) {
        const float3 size = table_size(f);
        const real ox = MAX(MAX(-v.q.x, v.q.x - size.x), (real)0.0f), oy = MAX(MAX(-v.q.y, v.q.y - size.y), (real)0.0f);
        const real oz = MAX(MAX(-v.q.z, v.q.z - size.z), (real)0.0f);
        const real off = s[5] * (f[4] + f[12] + f[9] * root(ox * ox + oy * oy + oz * oz + 1e-24f));
        least = v.inside ? least : f[5] < 0.0f ? -off : off;
    }
    return least;
}

// Of a row: of both fields of a deforming mesh.
FORCE_INLINE real row_clearance_lanes(__global const float *s, real3_t x)
{
    __global const float *f = FIRST_FIELD(s), *g = SECOND_FIELD(s);
    const real a = clearance_lanes(s, f, voxel_lanes(s, f, x));
    if (s[6] == 0.0f) return a;
    const real b = clearance_lanes(s, g, voxel_lanes(s, g, x));
    return MIN(a, b);
}

typedef struct { real distance; real3_t gradient; real clear; } wall_t;  // clear: at least how far the solid is, 0 if not known
#define UNSEEN -1e30f  // a distance: deep in the solid, where the way out is not to be seen from the values around
#define FAR 1e30f

// sample_field of fields.cl for the lanes `within`, in the world; others are `none` off. channel: DISTANCE or WALL.
FORCE_INLINE wall_t sample_lanes(__global const float *s, __global const float *f, const int channel, voxel_t v, lanes_mask within, real none)
{
    __global const int *table = (__global const int *)f + FIELD_HEADER;
    const lanes_mask entry = GATHER_INTS(table, v.tile), leaf = within & v.inside & (entry >= 0);
    const lanes_mask zero = (lanes_mask)(0), solid = v.inside ? (-1 - entry) & 1 : (lanes_mask)(f[5] < 0.0f);
    wall_t w = {(within & (solid != 0)) ? (real)UNSEEN : none, {(real)0.0f, (real)0.0f, (real)0.0f}, (real)0.0f};
    if (!ANY_LANE(leaf)) return w;
    const lanes_mask at = (leaf ? entry : zero) * 1458  // there is a leaf 0 then
        + 2 * (((v.k & 7) * FIELD_EDGE + (v.j & 7)) * FIELD_EDGE + (v.i & 7));
    const real px = v.q.x - TO_REAL(v.i), py = v.q.y - TO_REAL(v.j), pz = v.q.z - TO_REAL(v.k);
    __global const float *p = f + as_uint(f[DISTANCE]);
    const pairs_t v00 = pairs_at(p, at), v10 = pairs_at(p + 18, at), v01 = pairs_at(p + 162, at), v11 = pairs_at(p + 180, at);
#define VALUE(v) (channel == WALL ? (v).wall : (v).distance)
#define RISE(v) (channel == WALL ? (v).next_wall - (v).wall : (v).next_distance - (v).distance)
    const real a000 = VALUE(v00), a010 = VALUE(v10), a001 = VALUE(v01), a011 = VALUE(v11);
    const real d00 = RISE(v00), d10 = RISE(v10), d01 = RISE(v01), d11 = RISE(v11);
    const real x00 = a000 + px * d00, x10 = a010 + px * d10, x01 = a001 + px * d01, x11 = a011 + px * d11;
    const real y0 = x00 + py * (x10 - x00), y1 = x01 + py * (x11 - x01);
    const real e0 = d00 + py * (d10 - d00), e1 = d01 + py * (d11 - d01);
    const real3_t own = {f[3] * (e0 + pz * (e1 - e0)), f[3] * ((x10 - x00) + pz * ((x11 - x01) - (x10 - x00))), f[3] * (y1 - y0)};
    w.gradient = to_world_lanes(s, own);
#if IGNORED_AXIS == 1
    w.gradient.y = (real)0.0f;
#elif IGNORED_AXIS == 2
    w.gradient.z = (real)0.0f;
#endif
    const real steep = own.x * own.x + own.y * own.y + own.z * own.z, distance = s[5] * (y0 + pz * (y1 - y0));
    const real seen = ((distance < 0.0f) & (steep < 1e-12f)) ? (real)UNSEEN : distance;
    w.distance = leaf ? seen : w.distance;
    if (channel == WALL) {
        const real c00 = v00.distance + px * (v00.next_distance - v00.distance), c10 = v10.distance + px * (v10.next_distance - v10.distance);
        const real c01 = v01.distance + px * (v01.next_distance - v01.distance), c11 = v11.distance + px * (v11.next_distance - v11.distance);
        const real c0 = c00 + py * (c10 - c00), c1 = c01 + py * (c11 - c01);
        // Half a voxel less: interpolated distances are up to a quarter off, here and where the lane goes.
        w.clear = leaf ? s[5] * (c0 + pz * (c1 - c0) - 0.5f * f[9]) : (real)0.0f;
    }
    return w;
}

// field_distance of fields.cl in the world, between two fields. Where one has a leaf and the other none, lanes are UNSEEN.
FORCE_INLINE wall_t mixed_lanes(__global const float *s, wall_t first, wall_t second, real none)
{
    const float share = s[6];
    const real band = (real)(s[5] * FIRST_FIELD(s)[4]), later = (real)(s[5] * SECOND_FIELD(s)[4]);
    const real p = first.distance, a = MAX(-band, MIN(p, band)), q = second.distance, b = MAX(-later, MIN(q, later));
    const lanes_mask cut = (a != p) & (b != q) & ((a < 0.0f) == (b < 0.0f)), far = (p == FAR) & (q == FAR);
    const lanes_mask unseen = (p == UNSEEN) | (q == UNSEEN) | (((p == FAR) | (q == FAR)) & !far);
    const real nearer = a < 0.0f ? MAX(p, q) : MIN(p, q), mixed = cut ? nearer : a + share * (b - a);
    const real3_t g = first.gradient, n = second.gradient;
    const wall_t w = {far ? none : unseen ? (real)UNSEEN : mixed,
                      {g.x + share * (n.x - g.x), g.y + share * (n.y - g.y), g.z + share * (n.z - g.z)},
                      MIN(first.clear, second.clear)};
    return w;
}

// Of a row, as sample_lanes.
FORCE_INLINE wall_t sample_row_lanes(__global const float *s, const int channel, real3_t x, lanes_mask within, real none)
{
    __global const float *f = FIRST_FIELD(s), *g = SECOND_FIELD(s);
    if (s[6] == 0.0f) return sample_lanes(s, f, channel, voxel_lanes(s, f, x), within, none);
    const wall_t first = sample_lanes(s, f, channel, voxel_lanes(s, f, x), within, (real)FAR);
    return mixed_lanes(s, first, sample_lanes(s, g, channel, voxel_lanes(s, g, x), within, (real)FAR), none);
}

typedef struct { real room; real3_t gradient; } share_t;  // left by the solids so far, and the gradient of what they take

FORCE_INLINE void add_share(share_t *all, real left, real3_t own)
{
    all->gradient.x = all->gradient.x * left + own.x * all->room;
    all->gradient.y = all->gradient.y * left + own.y * all->room;
    all->gradient.z = all->gradient.z * left + own.z * all->room;
    all->room *= left;
}

// One lane of a solid of any kind.
FORCE_INLINE void lane_room(
    __global const float *s, __global const float4 *wall_in, uint lane, real3_t x, real inverse_h, real *left, real3_t *own, real3_t *correction)
{
    float3 by = (float3)(0.0f);
    if (correction) by = (float3)(LANE_OF(correction->x), LANE_OF(correction->y), LANE_OF(correction->z));
    const float3 at = (float3)(LANE_OF(x.x), LANE_OF(x.y), LANE_OF(x.z));
    const float4 one = solid_share(s, wall_in, at, LANE_OF(inverse_h), correction ? &by : 0);
    LANE_OF((*left)) = 1.0f - one.w;
    LANE_OF(own->x) = one.x; LANE_OF(own->y) = one.y; LANE_OF(own->z) = one.z;
    if (!correction) return;
    LANE_OF(correction->x) = by.x; LANE_OF(correction->y) = by.y; LANE_OF(correction->z) = by.z;
}

// A correction by the fluid along the wall whose distance grows by g.
FORCE_INLINE void mend_along(real3_t g, real shear, real3_t *correction)
{
    const real square = g.x * g.x + g.y * g.y + g.z * g.z, along = along_wall_lanes(shear);
    const real across = g.x * correction->x + g.y * correction->y + g.z * correction->z;
    const real normal = (1.0f - along) * (square > 1e-20f ? across / square : (real)0.0f);
    correction->x = along * correction->x + normal * g.x;
    correction->y = along * correction->y + normal * g.y;
    correction->z = along * correction->z + normal * g.z;
}

// ---- solid boxes ----
// block_axis of solids.cl: `room` is the box's share.
FORCE_INLINE axis_t block_axis_lanes(__global const float4 *wall_in, real at, float half_size, real h, real inverse_h)
{
    axis_t axis = {(real)1.0f, (real)0.0f, (real)0.0f};
    const real off = MAX(at, -at);
    if (!ANY_LANE(half_size - off < h)) return axis;  // deep between both faces
    const half_space_t nearer = half_space_lanes(wall_in, off - half_size, inverse_h);
    axis.room = nearer.fill;
    axis.slope = nearer.slope;
    if (ANY_LANE(half_size + off < h)) {
        const half_space_t other = half_space_lanes(wall_in, half_size + off, inverse_h);
        axis.room -= other.fill;
        axis.slope -= other.slope;
    }
    axis.slope = at < 0.0f ? -axis.slope : axis.slope;
    return axis;
}

// box_distance of solids.cl, in the world.
FORCE_INLINE wall_t block_wall(__global const float *s, real3_t at)
{
    const real qx = MAX(at.x, -at.x) - s[5], qy = MAX(at.y, -at.y) - s[6], qz = MAX(at.z, -at.z) - s[7];
    const real ox = MAX(qx, (real)0.0f), oy = MAX(qy, (real)0.0f), oz = MAX(qz, (real)0.0f);
    const real inner = MAX(qx, MAX(qy, qz)), d = root(MAX(ox * ox + oy * oy + oz * oz, (real)1e-30f)), inverse = 1.0f / d;
    const lanes_mask outside = inner > 0.0f, first = (qx >= qy) & (qx >= qz), second = !first & (qy >= qz);
    const real one = (real)1.0f, none = (real)0.0f;
    real3_t n = {outside ? ox * inverse : first ? one : none, outside ? oy * inverse : second ? one : none,
                 outside ? oz * inverse : (first | second) ? none : one};
    n.x = at.x < 0.0f ? -n.x : n.x;
    n.y = at.y < 0.0f ? -n.y : n.y;
    n.z = at.z < 0.0f ? -n.z : n.z;
    const wall_t w = {outside ? d : inner, to_world_lanes(s, n)};
    return w;
}

FORCE_INLINE lanes_mask block_within(__global const float *s, real3_t at, real distance)
{
    return (MAX(at.x, -at.x) - s[5] < distance) & (MAX(at.y, -at.y) - s[6] < distance) & (MAX(at.z, -at.z) - s[7] < distance);
}

FORCE_INLINE real block_room(
    __global const float *s, __global const float4 *wall_in, real3_t x, real h, real inverse_h, real3_t *own, real3_t *correction)
{
    const real3_t at = in_container(s, x);
    if (!ANY_LANE(block_within(s, at, h))) return (real)1.0f;
    const axis_t a = block_axis_lanes(wall_in, at.x, s[5], h, inverse_h);
    const axis_t b = block_axis_lanes(wall_in, at.y, s[6], h, inverse_h);
    const axis_t d = block_axis_lanes(wall_in, at.z, s[7], h, inverse_h);
    const real3_t steep = {a.slope * b.room * d.room, a.room * b.slope * d.room, a.room * b.room * d.slope};
    *own = to_world_lanes(s, steep);
    if (correction) {
        const wall_t w = block_wall(s, at);
        mend_along(w.gradient, half_space_lanes(wall_in, w.distance, inverse_h).shear, correction);
    }
    return 1.0f - a.room * b.room * d.room;
}

// Pressure asks how far lanes are from a field, and the correction after it asks the same at the same places: what the first finds
// is kept for the second where that will write its result.
FORCE_INLINE void keep_wall(wall_t w, __global float4 *kept)
{
    const rows_t rows = {w.gradient.x, w.gradient.y, w.gradient.z, w.distance};
    STORE_ROWS(rows, kept);
}

FORCE_INLINE wall_t kept_wall(__global const float4 *kept)
{
    const rows_t rows = LOAD_ROWS(kept);
    const wall_t w = {rows.w, {rows.x, rows.y, rows.z}, (real)0.0f};
    return w;
}

// clear: at least how far lanes are from all fields so far.
FORCE_INLINE wall_t field_wall(__global const float *s, real3_t x, real h, real *clear)
{
    const real least = row_clearance_lanes(s, x);
    const lanes_mask within = least < h;
    wall_t w = {h, {(real)0.0f, (real)0.0f, (real)0.0f}, (real)0.0f};
    if (ANY_LANE(within)) w = sample_row_lanes(s, WALL, x, within, h);
    const real more = MAX(least, w.clear);
    *clear = MIN(*clear, more);
    return w;
}

FORCE_INLINE real field_room(
    __global const float *s, __global const float4 *wall_in, wall_t w, real3_t x, real h, real inverse_h, real3_t *own, real3_t *correction)
{
    if (!ANY_LANE(w.distance < h)) return (real)1.0f;
    const lanes_mask unseen = w.distance == UNSEEN;
    const half_space_t wall = half_space_lanes(wall_in, unseen ? h : w.distance, inverse_h);
    const real3_t g = w.gradient;
    real left = 1.0f - wall.fill;
    own->x = wall.slope * g.x; own->y = wall.slope * g.y; own->z = wall.slope * g.z;
    if (correction) mend_along(g, wall.shear, correction);
    if (ANY_LANE(unseen)) {
        FOR_LANES if (FLAG_OF(unseen)) lane_room(s, wall_in, lane, x, inverse_h, &left, own, correction);
    }
    return left;
}

// ---- all solids ----
// Most clusters with a field among their solids are farther than h from it all through the step. `clear` tells: where a pressure pass
// asked fields, at least how far each lane was from them; corrections take off what lanes moved by. known: bits of those fields.
FORCE_INLINE real clear_lanes(__global const float *clear, uint near, uint known)
{
    return near & known ? LOAD_FLOAT(clear) : (real)0.0f;
}

// A way's length, a little more: rounding must not add up to a wall that is missed.
FORCE_INLINE real longer_way(real dx, real dy, real dz) { return 1.001f * root(dx * dx + dy * dy + dz * dz + 1e-24f); }

// Solids that a lane may be within `reach` of.
FORCE_INLINE uint solids_within(uint near, uint known, real clear, real reach) { return ANY_LANE(clear < reach) ? near : near & ~known; }

// Share of the solids near a cluster in the density, and its gradient. Without a correction, keeps what it finds of the first field,
// and lowers `clear` to how far lanes are from fields at least; with one, mends that, and takes what was kept.
FORCE_INLINE real walls_share(
    __global const float *solids, uint solid_count, uint near, __global const float4 *wall_in, real3_t x, real h, real inverse_h,
    __global float4 *kept, real *clear, real3_t *gradient, real3_t *correction GIVEN_ARGUMENT)
{
    uint fields = 0;
    const real3_t none = {(real)0.0f, (real)0.0f, (real)0.0f};
    share_t all = {(real)1.0f, none};
    for (uint c = 0; c < solid_count; ++c) {
        if (!IS_NEAR(near, c)) continue;
        __global const float *s = solids + c * SOLID_COLUMNS;
        real left = (real)1.0f;
        real3_t own = none;
#if BODIES
        const real3_t unmended = correction ? *correction : none;
#endif
        if (IS_CONTAINER(s)) {
            left = container_room(s, wall_in, x, h, inverse_h, &own, correction);
        } else if (IS_BLOCK(s)) {
            left = block_room(s, wall_in, x, h, inverse_h, &own, correction);
        } else if (IS_FIELD(s)) {
            const wall_t w = correction && !fields ? kept_wall(kept) : field_wall(s, x, h, clear);
            if (!correction && !fields) keep_wall(w, kept);
            left = field_room(s, wall_in, w, x, h, inverse_h, &own, correction);
            fields = 1;
        } else {
            const lanes_mask within = distance_bound(s, x.x, x.y, x.z, h) < h;
            FOR_LANES if (FLAG_OF(within)) lane_room(s, wall_in, lane, x, inverse_h, &left, &own, correction);
        }
#if BODIES
        note_lanes(given, s, left, own, all.room, unmended, correction);
#endif
        add_share(&all, left, own);
    }
    *gradient = all.gradient;
    return 1.0f - all.room;
}

// hold_back of solids.cl, from `from` to `to`.
FORCE_INLINE real3_t hold_back_lanes(__global const float *solids, uint solid_count, uint near, real3_t from, real3_t to, real radius GIVEN_ARGUMENT)
{
    const real wx = to.x - from.x, wy = to.y - from.y, wz = to.z - from.z;
    const lanes_mask long_way = wx * wx + wy * wy + wz * wz >= 0.25f * radius * radius;
    if (!ANY_LANE(long_way)) return to;
    FOR_LANES {
        if (!FLAG_OF(long_way)) continue;
        const float3 at = (float3)(LANE_OF(from.x), LANE_OF(from.y), LANE_OF(from.z));
        const float3 way = (float3)(LANE_OF(wx), LANE_OF(wy), LANE_OF(wz));
        NEW_REACTION(0);
        const float3 left = hold_back(solids, solid_count, near, at, way, LANE_OF(radius) PASS_REACTION), held = at + left;
#if BODIES
        LANE_OF(given->put.x) += left.x - way.x; LANE_OF(given->put.y) += left.y - way.y; LANE_OF(given->put.z) += left.z - way.z;
        for (int k = 0; k < reaction->used; ++k) {
            real3_t *back = given->back + given_slot(given, reaction->body[k]);
            LANE_OF(back->x) += reaction->back[k].x; LANE_OF(back->y) += reaction->back[k].y; LANE_OF(back->z) += reaction->back[k].z;
        }
#endif
        LANE_OF(to.x) = held.x; LANE_OF(to.y) = held.y; LANE_OF(to.z) = held.z;
    }
    return to;
}

// Where particles have to go to be `distance` off the solids near a cluster.
FORCE_INLINE real3_t put_off_walls(__global const float *solids, uint solid_count, uint near, real3_t x, real distance GIVEN_ARGUMENT)
{
    for (uint c = 0; c < solid_count; ++c) {
        if (!IS_NEAR(near, c)) continue;
        __global const float *s = solids + c * SOLID_COLUMNS;
        if (IS_CONTAINER(s)) {
            const real3_t from = x;
            x = put_inside(s, x, distance);
            const real3_t in = {x.x - from.x, x.y - from.y, x.z - from.z};
            GIVE(s, in);
            continue;
        }
        real3_t by = {(real)0.0f, (real)0.0f, (real)0.0f};
        lanes_mask within;  // what is asked lane by lane
        if (IS_BLOCK(s)) {
            const real3_t at = in_container(s, x);
            within = block_within(s, at, distance);
            if (!ANY_LANE(within)) continue;
            const wall_t w = block_wall(s, at);
            const real off = YIELD_LANES(s, x, w.gradient) * (distance - MIN(w.distance, distance));
            by.x = off * w.gradient.x; by.y = off * w.gradient.y; by.z = off * w.gradient.z;
            within = (lanes_mask)(0);
        } else if (IS_FIELD(s)) {
            within = row_clearance_lanes(s, x) < distance;
            if (!ANY_LANE(within)) continue;
#if IGNORED_AXIS < 0
            const wall_t w = sample_row_lanes(s, DISTANCE, x, within, distance);
            within = w.distance == UNSEEN;
            const real square = w.gradient.x * w.gradient.x + w.gradient.y * w.gradient.y + w.gradient.z * w.gradient.z;
            const real per = (within | (square <= 1e-20f)) ? (real)0.0f : 1.0f / root(MAX(square, (real)1e-20f));
            const real3_t n = {per * w.gradient.x, per * w.gradient.y, per * w.gradient.z};
            const real off = YIELD_LANES(s, x, n) * (distance - MIN(w.distance, distance));
            by.x = within ? (real)0.0f : off * n.x; by.y = within ? (real)0.0f : off * n.y; by.z = within ? (real)0.0f : off * n.z;
#endif
        } else {
            within = distance_bound(s, x.x, x.y, x.z, distance) < distance;
            if (!ANY_LANE(within)) continue;
        }
        if (ANY_LANE(within)) {
            FOR_LANES {
                if (!FLAG_OF(within)) continue;
                float3 n;
                const float3 at = (float3)(LANE_OF(x.x), LANE_OF(x.y), LANE_OF(x.z));
                const float off = LANE_OF(distance) - solid_distance(s, at, &n);
                if (off <= 0.0f) continue;
                const float3 way = LANE_YIELD(s, at, n) * off * n;
                LANE_OF(by.x) = way.x; LANE_OF(by.y) = way.y; LANE_OF(by.z) = way.z;
            }
        }
        x.x += by.x; x.y += by.y; x.z += by.z;
        GIVE(s, by);
    }
    return x;
}
