// bodies.cl: sums over the particles at bodies, per tile; the host adds tiles in a fixed order.
// docs/theory/bodies.md. Twin: backends/reference.
#if BODIES
#define LOADS 12

inline void add_load(__global float *sums, __global const float *b, float3 x, float3 g, float weight)
{
    const float3 t = body_turn(b, x, g);
    sums[0] += weight * ABSOLUTE(g.x);
    sums[1] += weight * ABSOLUTE(g.y);
    sums[2] += weight * ABSOLUTE(g.z);
    sums[3] += weight * ABSOLUTE(t.x);
    sums[4] += weight * ABSOLUTE(t.y);
    sums[5] += weight * ABSOLUTE(t.z);
}

// Bits of the bodies that some particle of begin..end may be within h of: `near` knows them for a whole step, with room to spare.
inline uint bodies_close(
    __global const float *solids, uint solid_count, uint near, __global const float4 *xp_in, __global const float4 *material_in, uint begin, uint end)
{
    float3 low = (float3)(3e38f), high = (float3)(-3e38f);
    float reach = 0.0f;
    for (uint i = begin; i < end; ++i) {
        const float3 x = xp_in[i].xyz;
        low = (float3)(MIN(low.x, x.x), MIN(low.y, x.y), MIN(low.z, x.z));
        high = (float3)(MAX(high.x, x.x), MAX(high.y, x.y), MAX(high.z, x.z));
        reach = MAX(reach, material_in[i].x);
    }
    const float3 centre = 0.5f * (low + high);
    reach = 1.0001f * (reach + 0.5f * length3(high - low));
    uint close = 0;
    for (uint s = 0; s < solid_count; ++s) {
        __global const float *row = solids + s * SOLID_COLUMNS;
        if (!IS_NEAR(near, s) || BODY_OF(row) < 0 || is_beyond(row, centre, reach)) continue;
        if (solid_clearance(row, centre) < reach) close |= NEAR_BIT(s);
    }
    return close;
}

// What the fluid at x* can push each body by: volume times gradient (pressure), mass times normal (contact).
__kernel void weigh_bodies(
    __global const float8 *fluids_in, __global const float4 *wall_in, __global const float4 *material_in,
    __global const float4 *xp_in, __global const uint *near_in,
    __global const float *solids, const uint solid_count, __global const float *bodies,
    __global float *sums_out, const uint body_count, const uint body_bits, const uint count, const uint tiles)
{
    const uint tile = get_global_id(0);
    if (tile >= tiles) return;
    __global float *sums = sums_out + tile * body_count * LOADS;
    for (uint k = 0; k < body_count * LOADS; ++k) sums[k] = 0.0f;
    const uint clusters = (count + CLUSTER - 1) / CLUSTER;
    const uint begin = (uint)((ulong)clusters * tile / tiles), end = (uint)((ulong)clusters * (tile + 1) / tiles);
    for (uint c = begin; c < end; ++c) {
        const uint near = near_in[c] & ~TWIN_BIT;
        if (!(near & body_bits)) continue;
        const uint close = bodies_close(solids, solid_count, near, xp_in, material_in, CLUSTER * c, MIN(CLUSTER * (c + 1), count));
        if (!close) continue;
        for (uint i = CLUSTER * c; i < CLUSTER * (c + 1) && i < count; ++i) {
            const float3 x = xp_in[i].xyz;
            const float h = material_in[i].x, volume = material_in[i].y;
            int felt = 0;
            for (uint s = 0; s < solid_count; ++s) {
                __global const float *row = solids + s * SOLID_COLUMNS;
                if (!IS_NEAR(close, s) || BODY_OF(row) < 0 || is_beyond(row, x, h)) continue;
                float3 n;
                if (solid_distance(row, x, &n) >= h) continue;
                const uint body = (uint)BODY_OF(row);
                add_load(sums + body * LOADS + 6, bodies + body * BODY_COLUMNS, x, n, fluids_in[PHASE(i)].RHO0 * volume);
                felt = 1;
            }
            if (!felt) continue;
            NEW_REACTION(bodies);
            note_shares(solids, solid_count, near, wall_in, x, 1.0f / h, reaction);
            for (int k = 0; k < reaction->used; ++k)
                add_load(sums + reaction->body[k] * LOADS, bodies + reaction->body[k] * BODY_COLUMNS, x, reaction->gradient[k], volume);
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
