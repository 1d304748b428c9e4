// neighbors.cl: sort along the curve, table of occupied cells, one neighbour list per cluster.
//
// A cell is a cube of the largest kernel radius h_max; where radii differ, smaller particles live in
// finer levels (cell size h_max / 2^level, P003 5.4.2), so a search never scans many tiny particles
// through a coarse cell. Keys hold the level, the cell on a Z-curve over blocks of cells with rows
// inside a block (21 bits per axis in all), and where bits are left the place along x in the cell.
// The grid is sparse: a hash table of occupied cells, so memory follows particles, not extent.
//
// Defines beside common.cl: ROW_BITS (0: pure Z-curve), FINE_BITS, LEVELS, INDEXED, LIST_MAX.

typedef struct {
    float inverse_cell;   // 1 / h_max
    int low_x, low_y, low_z;  // lowest cell of level 0
    int bits;             // significant bits per axis of level 0
    int level_shift;      // bits below the level in a cell's key
} grid_t;

inline int floor_int(float x)
{
    const int i = (int)x;
    return i - (x < (float)i);
}

// Spreads the low 21 bits of v to every third bit (P004 6.2; shifts beat tables on all devices tried).
inline ulong spread_bits(ulong v)
{
    v &= 0x1fffffUL;
    v = (v | (v << 32)) & 0x1f00000000ffffUL;
    v = (v | (v << 16)) & 0x1f0000ff0000ffUL;
    v = (v | (v << 8)) & 0x100f00f00f00f00fUL;
    v = (v | (v << 4)) & 0x10c30c30c30c30c3UL;
    v = (v | (v << 2)) & 0x1249249249249249UL;
    return v;
}

#define ROW_MASK ((1 << ROW_BITS) - 1)
inline ulong key_x(int x) { return (spread_bits((ulong)(x >> ROW_BITS)) << (3 * ROW_BITS)) | (ulong)(x & ROW_MASK); }
inline ulong key_y(int y) { return (spread_bits((ulong)(y >> ROW_BITS)) << (3 * ROW_BITS + 1)) | ((ulong)(y & ROW_MASK) << ROW_BITS); }
inline ulong key_z(int z) { return (spread_bits((ulong)(z >> ROW_BITS)) << (3 * ROW_BITS + 2)) | ((ulong)(z & ROW_MASK) << (2 * ROW_BITS)); }

inline int level_of(float h, float inverse_cell)
{
    int level = 0;
#if LEVELS > 1
    float ratio = h * inverse_cell * 1.0001f;  // a particle just at a level's size belongs to it
    while (ratio <= 0.5f && level < LEVELS - 1) { ratio *= 2.0f; ++level; }
#endif
    return level;
}

inline ulong level_key(int level, const grid_t grid)
{
    return LEVELS > 1 ? (ulong)level << grid.level_shift : 0UL;
}

// ---- keys -------------------------------------------------------------------------------------
// v += dt a (see forces.cl), then the extent of the predicted cells per tile, then keys.
__kernel void predicted_bounds(
    __global const float4 *x_in, __global const float4 *v_in,
    __global int *bounds_out,      // 8 per tile: low xyz, high xyz, first bad particle, -
    const uint count, const uint tiles, const float dt, const float inverse_cell)
{
    const uint tile = get_global_id(0);
    if (tile >= tiles) return;
    const uint begin = (uint)((ulong)count * tile / tiles), end = (uint)((ulong)count * (tile + 1) / tiles);
    float3 low = (float3)(1e30f), high = (float3)(-1e30f);
    int bad = INT_MAX;
    for (uint i = begin; i < end; ++i) {
        if (x_in[i].w < 0.0f) continue;  // dead
        const float3 p = x_in[i].xyz + dt * v_in[i].xyz;
        if (is_bad(p.x) || is_bad(p.y) || is_bad(p.z)) { bad = MIN(bad, (int)i); continue; }
        low.x = MIN(low.x, p.x); low.y = MIN(low.y, p.y); low.z = MIN(low.z, p.z);
        high.x = MAX(high.x, p.x); high.y = MAX(high.y, p.y); high.z = MAX(high.z, p.z);
    }
    // Saturated: the host refuses extents of more than 2^21 cells before they are used.
    low = clamp(low * inverse_cell, -1e9f, 1e9f);
    high = clamp(high * inverse_cell, -1e9f, 1e9f);
    __global int *o = bounds_out + 8 * tile;
    o[0] = floor_int(low.x); o[1] = floor_int(low.y); o[2] = floor_int(low.z);
    o[3] = floor_int(high.x); o[4] = floor_int(high.y); o[5] = floor_int(high.z);
    o[6] = bad; o[7] = 0;
}

__kernel void make_keys(
    __global const float4 *x_in, __global const float4 *v_in, __global const float4 *material_in,
    __global ulong *key_out, __global uint *index_out,
    const uint count, const float dt, const grid_t grid)
{
    const uint i = get_global_id(0);
    if (i >= count) return;
    index_out[i] = i;
    if (x_in[i].w < 0.0f) {  // dead: sorts behind all others
        key_out[i] = EMPTY_KEY;
        return;
    }
    const float3 p = x_in[i].xyz + dt * v_in[i].xyz;
    const int level = level_of(material_in[i].x, grid.inverse_cell);
    const float scale = grid.inverse_cell * (float)(1 << level);
    const float ux = p.x * scale;
    const int cx = floor_int(ux);
    const ulong cell = key_x(cx - (grid.low_x << level)) | key_y(floor_int(p.y * scale) - (grid.low_y << level))
        | key_z(floor_int(p.z * scale) - (grid.low_z << level)) | level_key(level, grid);
#if FINE_BITS > 0
    int fine = (int)((ux - (float)cx) * (float)(1 << FINE_BITS));
    fine = MAX(0, MIN(fine, (1 << FINE_BITS) - 1));
    key_out[i] = (cell << FINE_BITS) | (ulong)fine;
#else
    key_out[i] = cell;
#endif
}

// ---- stable radix sort, least significant digit first; one work-item per tile ---------------------
#define DIGITS (1 << RADIX_BITS)
__kernel void sort_count(
    __global const ulong *key_in, __global uint *histogram_out,
    const uint count, const uint shift, const uint tiles)
{
    const uint tile = get_global_id(0);
    if (tile >= tiles) return;
    const uint begin = (uint)((ulong)count * tile / tiles), end = (uint)((ulong)count * (tile + 1) / tiles);
    uint counts[DIGITS];
    for (uint d = 0; d < DIGITS; ++d) counts[d] = 0;
    for (uint i = begin; i < end; ++i) counts[(key_in[i] >> shift) & (DIGITS - 1)]++;
    for (uint d = 0; d < DIGITS; ++d) histogram_out[d * tiles + tile] = counts[d];
}

__kernel void sort_scan(__global uint *histogram, const uint tiles)
{
    if (get_global_id(0) > 0) return;
    uint sum = 0;
    for (uint i = 0; i < DIGITS * tiles; ++i) {
        const uint c = histogram[i];
        histogram[i] = sum;
        sum += c;
    }
}

__kernel void sort_scatter(
    __global const ulong *key_in, __global const uint *index_in,
    __global ulong *key_out, __global uint *index_out, __global const uint *histogram_in,
    const uint count, const uint shift, const uint tiles)
{
    const uint tile = get_global_id(0);
    if (tile >= tiles) return;
    const uint begin = (uint)((ulong)count * tile / tiles), end = (uint)((ulong)count * (tile + 1) / tiles);
    uint offsets[DIGITS];
    for (uint d = 0; d < DIGITS; ++d) offsets[d] = histogram_in[d * tiles + tile];
    for (uint i = begin; i < end; ++i) {
        const ulong key = key_in[i];
        const uint o = offsets[(key >> shift) & (DIGITS - 1)]++;
        key_out[o] = key;
        index_out[o] = index_in[i];
    }
}

__kernel void reorder(__global const uint *index_in, __global const float4 *a_in, __global float4 *a_out, const uint count)
{
    const uint i = get_global_id(0);
    if (i < count) a_out[i] = a_in[index_in[i]];
}

// x* = x + dt v (P001 algorithm 1). Rows past the last particle are ghosts: far from everything, so
// that lanes and list ends which stand for nobody compute zeros.
__kernel void place_predicted(
    __global const float4 *x_in, __global float4 *v, __global float4 *material,
    __global float4 *xp_out, __global float4 *xp_other_out, __global float4 *push_out,
    __global float *pressure_out, __global float2 *fill_out,
    const uint count, const uint padded, const float dt, const float2 same)
{
    const uint i = get_global_id(0);
    if (i >= padded) return;
    push_out[i] = (float4)(0.0f);
    if (i < count) {
        xp_out[i] = (float4)(x_in[i].xyz + dt * v[i].xyz, 0.0f);
        pressure_out[i] = 0.0f;
        return;
    }
    const float4 ghost = (float4)(1e9f, 1e9f, 1e9f, 0.0f);
    xp_out[i] = ghost;
    xp_other_out[i] = ghost;
    v[i] = (float4)(0.0f);
    material[i] = (float4)(same.x, same.y, as_float(0U), as_float(0U));
    pressure_out[i] = 0.0f;
    fill_out[i] = (float2)(1.0f);
}

// ---- table of occupied cells ----------------------------------------------------------------------
inline uint slot_of(ulong cell, uint mask)
{
    return (uint)((cell * 0x9E3779B97F4A7C15UL) >> 32) & mask;
}

__kernel void clear_cells(__global ulong *cell_key_out, const uint slots)
{
    const uint i = get_global_id(0);
    if (i < slots) cell_key_out[i] = EMPTY_KEY;
}

// The first particle of each cell enters the cell's range (trap T8: the range ends where the next begins).
__kernel void fill_cells(
    __global const ulong *key_in, __global ulong *cell_key, __global uint2 *cell_range_out,
    const uint count, const uint mask)
{
    const uint i = get_global_id(0);
    if (i >= count) return;
    const ulong cell = key_in[i] >> FINE_BITS;
    if (i > 0 && (key_in[i - 1] >> FINE_BITS) == cell) return;
    uint end = i + 1;
    while (end < count && (key_in[end] >> FINE_BITS) == cell) ++end;
    uint slot = slot_of(cell, mask);
    for (;;) {  // ends: the table has at least twice as many slots as particles
        const ulong before = atom_cmpxchg((volatile __global ulong *)(cell_key + slot), EMPTY_KEY, cell);
        if (before == EMPTY_KEY) {
            cell_range_out[slot] = (uint2)(i, end);
            return;
        }
        slot = (slot + 1) & mask;
    }
}

inline uint2 find_cell(ulong cell, __global const ulong *cell_key, __global const uint2 *cell_range, uint mask)
{
    uint slot = slot_of(cell, mask);
    for (;;) {
        const ulong there = cell_key[slot];
        if (there == cell) return cell_range[slot];
        if (there == EMPTY_KEY) return (uint2)(0, 0);
        slot = (slot + 1) & mask;
    }
}

// ---- neighbour lists ------------------------------------------------------------------------------
// One work-item per cluster on every device: j belongs to the list if it lies within
// max(h_i, h_j) of any of the eight. Lists end on an even length, padded with the ghost `count`,
// so that passes take pairs of j. near_out: bit s set when solid s may matter to the cluster.
#define SPAN_MAX 16     // cells along x of a compact search box
// LIST_MAX: of one cluster; more means a collapsed state, reported by the host

#if INDEXED
#define MEMBER(s) order_in[s]
#else
#define MEMBER(s) (s)
#endif

typedef struct {
    float x[CLUSTER], y[CLUSTER], z[CLUSTER], h[CLUSTER];
    float3 low, high;  // of the members
    float reach;       // largest h of the members
    uint size;
} cluster_t;

inline void load_cluster(cluster_t *c, __global const float4 *xp, __global const float4 *material, uint first, uint count)
{
    c->size = MIN((uint)CLUSTER, count - first);
    c->low = (float3)(1e30f); c->high = (float3)(-1e30f); c->reach = 0.0f;
    for (uint k = 0; k < CLUSTER; ++k) {
        const uint i = first + MIN(k, c->size - 1);
        const float4 p = xp[i];
        c->x[k] = p.x; c->y[k] = p.y; c->z[k] = p.z;
        c->h[k] = material[i].x;
        c->low.x = MIN(c->low.x, p.x); c->low.y = MIN(c->low.y, p.y); c->low.z = MIN(c->low.z, p.z);
        c->high.x = MAX(c->high.x, p.x); c->high.y = MAX(c->high.y, p.y); c->high.z = MAX(c->high.z, p.z);
        c->reach = MAX(c->reach, c->h[k]);
    }
}

// Is p, of kernel radius h, within reach of a member? Also counts members that coincide with p.
inline int near_member(const cluster_t *c, float8 cx, float8 cy, float8 cz, float8 ch2, float4 p, float h, int8 *twins)
{
    const float8 dx = cx - p.x, dy = cy - p.y, dz = cz - p.z;
    const float8 r2 = dx * dx + dy * dy + dz * dz;
#if MIXED_SIZES
    const float8 reach2 = MAX(ch2, (float8)(h * h));
#else
    const float8 reach2 = ch2;
#endif
    *twins -= r2 < ch2 * 1e-10f;
#ifdef HAVE_AVX_RSQRT
    union { int8 lanes; avx_float8 avx; } inside;
    inside.lanes = r2 < reach2;
    return __builtin_ia32_movmskps256(inside.avx) != 0;
#else
    return any(r2 < reach2);
#endif
}

__kernel void build_lists(
    __global const float4 *xp_in, __global const float4 *material_in, __global const uint *order_in,
    __global const ulong *cell_key, __global const uint2 *cell_range,
    __global uint *list_out, __global uint2 *list_range_out, __global uint *near_out, volatile __global uint *used,
    __global const float *solids, const uint solid_count,
    const uint count, const uint mask, const uint capacity, const grid_t grid)
{
    const uint cluster = get_global_id(0);
    const uint first = cluster * CLUSTER;
    if (first >= count) return;
    cluster_t c;
    load_cluster(&c, xp_in, material_in, first, count);
    const float8 cx = vload8(0, c.x), cy = vload8(0, c.y), cz = vload8(0, c.z), ch = vload8(0, c.h), ch2 = ch * ch;
    int8 twins = (int8)(0);
    uint found[LIST_MAX + CLUSTER];
    uint length = 0;

    for (int level = 0; level < LEVELS; ++level) {
        const float inverse = grid.inverse_cell * (float)(1 << level);
        const float size = 1.0f / inverse;
        // A member of this level reaches no farther than one cell of it.
        const float reach = MAX(c.reach, MIXED_SIZES ? size : 0.0f);
        const int3 base = (int3)(grid.low_x << level, grid.low_y << level, grid.low_z << level);
        const ulong level_bits = level_key(level, grid);
        int x0 = floor_int((c.low.x - reach) * inverse), x1 = floor_int((c.high.x + reach) * inverse);
        int y0 = floor_int((c.low.y - reach) * inverse), y1 = floor_int((c.high.y + reach) * inverse);
        int z0 = floor_int((c.low.z - reach) * inverse), z1 = floor_int((c.high.z + reach) * inverse);
        // Nothing lies outside the grid, and keys of such cells would wrap around.
        const int top = 1 << (grid.bits + level);
        x0 = MAX(x0 - base.x, 0); x1 = MIN(x1 - base.x, top - 1);
        y0 = MAX(y0 - base.y, 0); y1 = MIN(y1 - base.y, top - 1);
        z0 = MAX(z0 - base.z, 0); z1 = MIN(z1 - base.z, top - 1);
        const float reach2 = reach * reach;
        // Cells of the box around all members, against cells around each of them.
        const float around = 2.0f * reach * inverse + 1.0f;
        const float3 span = (c.high - c.low) * inverse + around;
        if (span.x * span.y * span.z <= (float)c.size * around * around * around && x1 - x0 < SPAN_MAX) {
            ulong keys_x[SPAN_MAX];  // of the row of cells, and squares of their gaps to the members
            float gaps_x[SPAN_MAX];
            for (int x = x0; x <= x1; ++x) {
                const float at = (float)(x + base.x) * size;
                const float gap = MAX(0.0f, MAX(c.low.x - at - size, at - c.high.x));
                keys_x[x - x0] = key_x(x);
                gaps_x[x - x0] = gap * gap;
            }
            for (int z = z0; z <= z1; ++z) {
                const float fz = (float)(z + base.z) * size;
                const float gz = MAX(0.0f, MAX(c.low.z - fz - size, fz - c.high.z));
                const ulong kz = key_z(z) | level_bits;
                for (int y = y0; y <= y1; ++y) {
                    const float fy = (float)(y + base.y) * size;
                    const float gy = MAX(0.0f, MAX(c.low.y - fy - size, fy - c.high.y));
                    const float left = reach2 * 1.0001f - gy * gy - gz * gz;
                    if (left < 0.0f) continue;
                    const ulong kyz = key_y(y) | kz;
                    for (int x = 0; x <= x1 - x0; ++x) {
                        if (gaps_x[x] > left) continue;
                        const uint2 range = find_cell(keys_x[x] | kyz, cell_key, cell_range, mask);
                        for (uint s = range.x; s < range.y; ++s) {
                            const uint j = MEMBER(s);
                            found[length] = j;
                            length += near_member(&c, cx, cy, cz, ch2, xp_in[j], MIXED_SIZES ? material_in[j].x : 0.0f, &twins);
                            length = MIN(length, (uint)LIST_MAX);
                        }
                    }
                }
            }
        } else {
            // The cluster straddles a jump of the curve: walk the cells around each member; j is taken
            // by the first member that reaches it.
            for (uint k = 0; k < c.size; ++k) {
                const float own = MAX(c.h[k], MIXED_SIZES ? size : 0.0f);
                const int ax = MAX(floor_int((c.x[k] - own) * inverse) - base.x, 0), bx = MIN(floor_int((c.x[k] + own) * inverse) - base.x, top - 1);
                const int ay = MAX(floor_int((c.y[k] - own) * inverse) - base.y, 0), by = MIN(floor_int((c.y[k] + own) * inverse) - base.y, top - 1);
                const int az = MAX(floor_int((c.z[k] - own) * inverse) - base.z, 0), bz = MIN(floor_int((c.z[k] + own) * inverse) - base.z, top - 1);
                for (int z = az; z <= bz; ++z)
                for (int y = ay; y <= by; ++y)
                for (int x = ax; x <= bx; ++x) {
                    const uint2 range = find_cell(key_x(x) | key_y(y) | key_z(z) | level_bits, cell_key, cell_range, mask);
                    for (uint s = range.x; s < range.y; ++s) {
                        const uint j = MEMBER(s);
                        const float4 p = xp_in[j];
                        const float hj = MIXED_SIZES ? material_in[j].x : 0.0f;
                        int taken = 0, mine = 0;
                        for (uint w = 0; w <= k; ++w) {
                            const float dx = c.x[w] - p.x, dy = c.y[w] - p.y, dz = c.z[w] - p.z;
                            const float r2 = dx * dx + dy * dy + dz * dz;
                            const float reach_w = MAX(c.h[w], hj);
                            const int inside = r2 < reach_w * reach_w;
                            if (w < k) taken |= inside; else mine = inside;
                        }
                        if (!mine || taken) continue;
                        found[length] = j;
                        length += near_member(&c, cx, cy, cz, ch2, p, hj, &twins);
                        length = MIN(length, (uint)LIST_MAX);
                    }
                }
            }
        }
    }

    const uint near = solids_near(solids, solid_count, c.low, c.high, 2.0f * c.reach);
    // Bit 31: some member has a twin at its own place (each member meets itself once).
    int coincide = 0;
    for (uint k = 0; k < c.size; ++k) coincide |= ((int *)&twins)[k] > 1;
    near_out[cluster] = near | (coincide ? 0x80000000U : 0U);

    const uint complete = length < LIST_MAX;
    if (length & 1) found[length++] = count;
    const uint start = atomic_add(used, length);
    if (!complete) atomic_or(used + 1, 1U);
    const uint fits = start + length <= capacity;
    list_range_out[cluster] = (uint2)(fits ? start : 0, fits ? length : 0);
    if (fits) for (uint k = 0; k < length; ++k) list_out[start + k] = found[k];
}
