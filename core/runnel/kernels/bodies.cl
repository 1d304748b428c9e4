// bodies.cl: sums over the particles at bodies, per tile; the host adds tiles in a fixed order.
// docs/theory/bodies.md. Twin: backends/reference.
#if BODIES
#define LOADS 12

#if LANES_IN_VECTOR
#define LANES 8U
#define LANES_AT(a, i, m) GATHER(((a) + (i)), m)
#else
#define LANES 1U
#define LANES_AT(a, i, m) (a)[i].m
#define SUM_LANES(v) (v)
#endif

// The sums over lanes that body_way_lanes weighs.
FORCE_INLINE void add_load(__global float *sums, __global const float *b, real3_t x, real3_t g, real weight)
{
    const real3_t a = {x.x - b[0], x.y - b[1], x.z - b[2]};
    const real3_t t = {a.y * g.z - a.z * g.y, a.z * g.x - a.x * g.z, a.x * g.y - a.y * g.x};
    for (int k = 0; k < 3; ++k) {
        const real turn = b[3 + 3 * k] * t.x + b[4 + 3 * k] * t.y + b[5 + 3 * k] * t.z, way = weight * (k == 0 ? g.x : k == 1 ? g.y : g.z);
        const real along = ABSOLUTE(way), about = weight * ABSOLUTE(turn);
        sums[k] += SUM_LANES(along);
        sums[3 + k] += SUM_LANES(about);
    }
}

// Normals of a solid where lanes are within h of it, elsewhere 0.
FORCE_INLINE real3_t normals_within(__global const float *s, real3_t x, real h)
{
    real3_t n = {(real)0.0f, (real)0.0f, (real)0.0f};
    if (IS_BLOCK(s)) {
        const wall_t w = block_wall(s, in_container(s, x));
        const lanes_mask within = w.distance < h;
        n.x = within ? w.gradient.x : n.x; n.y = within ? w.gradient.y : n.y; n.z = within ? w.gradient.z : n.z;
        return n;
    }
    FOR_LANES {
        const float3 at = (float3)(LANE_OF(x.x), LANE_OF(x.y), LANE_OF(x.z));
        float3 own;
        if (is_beyond(s, at, LANE_OF(h)) || solid_distance(s, at, &own) >= LANE_OF(h)) continue;
        LANE_OF(n.x) = own.x; LANE_OF(n.y) = own.y; LANE_OF(n.z) = own.z;
    }
    return n;
}

// What the fluid at x* can push each body by: volume times gradient (pressure), mass times normal (contact). Behind all sums: in which
// tiles bodies are near at all. unused: what walls_share keeps for a correction.
__kernel void weigh_bodies(
    __global const float8 *fluids_in, __global const float4 *wall_in, __global const float4 *material_in,
    __global const float4 *xp_in, __global float4 *unused, __global const uint *near_in,
    __global const float *solids, const uint solid_count, __global const float *bodies,
    __global float *sums_out, const uint body_count, const uint body_bits, const uint count, const uint tiles)
{
    const uint tile = get_global_id(0);
    if (tile >= tiles) return;
    __global float *sums = sums_out + tile * body_count * LOADS;
    for (uint k = 0; k < body_count * LOADS; ++k) sums[k] = 0.0f;
    __global float *met = sums_out + tiles * body_count * LOADS + tile;
    *met = 0.0f;
    const uint clusters = (count + CLUSTER - 1) / CLUSTER;
    const uint begin = (uint)((ulong)clusters * tile / tiles), end = (uint)((ulong)clusters * (tile + 1) / tiles);
    for (uint c = begin; c < end; ++c) {
        const uint near = near_in[c] & ~TWIN_BIT, last = MIN(CLUSTER * (c + 1), count);
        if (!(near & body_bits)) continue;
        *met = 1.0f;
        for (uint first = CLUSTER * c; first < last; first += LANES) {
            real3_t x = {LANES_AT(xp_in, first, x), LANES_AT(xp_in, first, y), LANES_AT(xp_in, first, z)};
            real h = LANES_AT(material_in, first, x), volume = LANES_AT(material_in, first, y), mass;
            FOR_LANES {  // what is no particle stands where the first is, and weighs nothing
                const uint i = MIN(first + lane, last - 1);
                if (first + lane >= last) {
                    LANE_OF(x.x) = xp_in[first].x; LANE_OF(x.y) = xp_in[first].y; LANE_OF(x.z) = xp_in[first].z;
                    LANE_OF(h) = material_in[first].x;
                    LANE_OF(volume) = 0.0f;
                }
                LANE_OF(mass) = fluids_in[PHASE(i)].RHO0 * LANE_OF(volume);
            }
            uint close = 0;  // `near` holds for a whole step, with room to spare
            for (uint s = 0; s < solid_count; ++s) {
                __global const float *row = solids + s * SOLID_COLUMNS;
                if (IS_NEAR(near, s) && BODY_OF(row) >= 0 && ANY_LANE(distance_bound(row, x.x, x.y, x.z, h) < h)) close |= NEAR_BIT(s);
            }
            if (!close) continue;
            real least = (real)FAR;
            real3_t slope;
            NEW_GIVEN(bodies);
            walls_share(solids, solid_count, near, wall_in, x, h, 1.0f / h, unused, &least, &slope, 0 PASS_GIVEN);
            for (int k = 0; k < given->used; ++k)
                add_load(sums + given->body[k] * LOADS, bodies + given->body[k] * BODY_COLUMNS, x, given->gradient[k], volume);
            for (uint s = 0; s < solid_count; ++s) {
                __global const float *row = solids + s * SOLID_COLUMNS;
                if (!IS_NEAR(close, s) || BODY_OF(row) < 0) continue;
                add_load(sums + BODY_OF(row) * LOADS + 6, bodies + BODY_OF(row) * BODY_COLUMNS, x, normals_within(row, x, h), mass);
            }
        }
    }
}

// What particles got from bodies in the last pass, back to these: (linear, about the centre) per tile and body.
// slots: how many of each particle count.
__kernel void sum_reactions(
    __global const float4 *place_in, __global const float4 *back_in, __global const uint *near_in, __global const float *bodies,
    __global float *sums_out, const uint body_count, const uint body_bits, const uint slots,
    const uint count, const uint stride, const uint tiles)
{
    const uint tile = get_global_id(0);
    if (tile >= tiles) return;
    __global float *sums = sums_out + tile * body_count * LOADS;
    for (uint k = 0; k < body_count * LOADS; ++k) sums[k] = 0.0f;
    const uint clusters = (count + CLUSTER - 1) / CLUSTER;
    const uint begin = (uint)((ulong)clusters * tile / tiles), end = (uint)((ulong)clusters * (tile + 1) / tiles);
    for (uint c = begin; c < end; ++c) {
        if (!(near_in[c] & ~TWIN_BIT & body_bits)) continue;
        for (uint i = CLUSTER * c; i < CLUSTER * (c + 1) && i < count; ++i) {
            for (uint k = 0; k < slots; ++k) {
                const float4 back = back_in[k * stride + i];
                if (back.w < 0.0f) break;
                const uint body = (uint)back.w;
                __global const float *b = bodies + body * BODY_COLUMNS;
                const float3 turn = cross3(place_in[i].xyz - (float3)(b[0], b[1], b[2]), back.xyz);
                __global float *own = sums + body * LOADS;
                own[0] += back.x; own[1] += back.y; own[2] += back.z;
                own[3] += turn.x; own[4] += turn.y; own[5] += turn.z;
            }
        }
    }
}

// Rows of particles in some clusters, slot by slot. Of several slots those behind the last one in use hold what they held before:
// nobody is to see that.
__kernel void gather_rows(
    __global const uint *clusters, __global const float4 *rows_in, __global float4 *rows_out,
    const uint slots, const uint stride, const uint rows, const uint count)
{
    const uint k = get_global_id(0);
    if (k >= rows) return;
    const uint i = clusters[k / CLUSTER] * CLUSTER + k % CLUSTER;
    int ended = i >= count;
    for (uint s = 0; s < slots; ++s) {
        const float4 row = ended ? NO_REACTION : rows_in[s * stride + i];
        rows_out[s * rows + k] = row;
        ended |= slots > 1U && row.w < 0.0f;
    }
}

__kernel void gather_floats(__global const uint *rows, __global const float *values_in, __global float *values_out, const uint count)
{
    const uint k = get_global_id(0);
    if (k < count) values_out[k] = values_in[rows[k]];
}
#endif
