// neighbors.cl: sort along the curve, table of occupied rows of cells. lists.cl searches it.
//
// A cell is a cube of the largest kernel radius h_max; where radii differ, smaller particles live in
// finer levels (cell size h_max / 2^level, P003 5.4.2), so a search never scans many tiny particles
// through a coarse cell. Keys hold the level, the cell on a Z-curve over blocks of cells with rows
// inside a block (21 bits per axis in all), and where bits are left the place along x in the cell.
// The grid is sparse: a hash table of occupied rows of eight cells, so memory follows particles, not extent.
//
// Defines beside common.cl: ROW_BITS (at least 3), FINE_BITS, LEVELS, INDEXED.

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
    if (v < 2) return v;  // most scenes span few blocks
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

// What is sorted: keys, with their particles in an array beside them; or, where keys are short, both in one word, the key above
// (above = 32, else 0).
#define KEY_OF(word, above) ((word) >> (above))

__kernel void make_keys(
    __global const float4 *x_in, __global const float4 *v_in, __global const float4 *material_in,
    __global ulong *key_out, __global uint *index_out,
    const uint count, const float dt, const uint above, const grid_t grid)
{
    const uint i = get_global_id(0);
    if (i >= count) return;
    if (above == 0) index_out[i] = i;
    const ulong below = above ? (ulong)i : 0UL;
    if (x_in[i].w < 0.0f) {  // dead: sorts behind all others
        key_out[i] = (EMPTY_KEY << above) | below;
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
    const ulong key = (cell << FINE_BITS) | (ulong)fine;
#else
    const ulong key = cell;
#endif
    key_out[i] = (key << above) | below;
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
    const uint count, const uint shift, const uint above, const uint tiles)
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
        if (above == 0) index_out[o] = index_in[i];
    }
}

__kernel void reorder(
    __global const ulong *key_in, __global const uint *index_in, __global const float4 *x_in, __global const float4 *v_in, __global const float4 *material_in,
    __global float4 *x_out, __global float4 *v_out, __global float4 *material_out, const uint count,
    const uint above)
{
    const uint i = get_global_id(0);
    if (i >= count) return;
    const uint from = above ? (uint)key_in[i] : index_in[i];
    x_out[i] = x_in[from];
    v_out[i] = v_in[from];
    material_out[i] = material_in[from];
}

#if INDEXED
#define MEMBER(s) order_in[s]
#else
#define MEMBER(s) (s)
#endif

// ---- table of occupied rows -------------------------------------------------------------------------
// A row is eight cells along x, which lie side by side on the curve: its particles are one run, and so are
// those of any cells in a line. A slot holds the row's key and where each of its cells begins and ends.
#define ROW_CELLS 8
#define SLOT 12  // uints: key (2), first particle of each cell (8) and the end of the last (trap T8), unused
#define ROWS_MAX(mask) (((mask) + 1) / 2)  // half of the slots stay free
#define ROW_OF(key) ((key) >> (FINE_BITS + 3))
#define CELL_IN_ROW(key) ((uint)((key) >> FINE_BITS) & (ROW_CELLS - 1))

// One slot, and the one behind the table, which is empty; with the first the counters.
inline void clear_row(uint i, __global uint *rows_out, __global uint *used_out, uint slots)
{
    if (i <= slots) *(__global ulong *)(rows_out + SLOT * i) = EMPTY_KEY;
    if (i == slots) for (uint cell = 0; cell <= ROW_CELLS; ++cell) rows_out[SLOT * i + 2 + cell] = 0;
    if (i < 4) used_out[i] = 0;
}

// x* = x + dt v (P001 algorithm 1), and its coordinates once more in sorted order, each in an array of
// its own (`stride` apart), for the search. Rows past the last particle are ghosts: far from everything,
// so that lanes which stand for nobody compute zeros. They fill up the last cluster, and one more that no pass writes to: the first of
// that stands in lists of uneven length. Clears the table of rows and its counters on the way.
LANES_KERNEL void place_predicted(
    __global const float4 *x_in, __global float4 *v, __global float4 *material, __global uint *order,
    __global float4 *xp_out, __global float4 *xp_other_out, __global float *sorted_out,
    __global float *pressure_out, __global float *fluid_fill_out, __global float *fill_out,
    __global uint *rows_out, __global uint *used_out,
    const uint count, const uint padded, const uint slots, const uint stride, const float dt, const float2 same)
{
    clear_row(get_global_id(0), rows_out, used_out, slots);
    if (CLUSTER_INDEX * CLUSTER >= padded) return;
    const rows_t x = LOAD_ROWS(x_in), u = LOAD_ROWS(v);
    const rows_t p = {fused((real)dt, u.x, x.x), fused((real)dt, u.y, x.y), fused((real)dt, u.z, x.z), (real)0.0f};
    STORE_ROWS(p, xp_out);
    STORE_FLOAT((real)0.0f, pressure_out);
    if (!INDEXED) {
        STORE_FLOAT(p.x, sorted_out);
        STORE_FLOAT(p.y, sorted_out + stride);
        STORE_FLOAT(p.z, sorted_out + 2 * stride);
        if ((CLUSTER_INDEX + 1) * CLUSTER <= count) return;
    }
    FOR_LANES {
        const uint i = LANE_PARTICLE;
        if (i < count) {
            if (!INDEXED) continue;
            const uint j = order[i];
            const float3 at = x_in[j].xyz, by = v[j].xyz;
            sorted_out[i] = at.x + dt * by.x;
            sorted_out[stride + i] = at.y + dt * by.y;
            sorted_out[2 * stride + i] = at.z + dt * by.z;
            continue;
        }
        const float4 ghost = (float4)(1e9f, 1e9f, 1e9f, 0.0f);
        order[i] = i;
        xp_out[i] = ghost;
        xp_other_out[i] = ghost;
        v[i] = (float4)(0.0f);
        material[i] = (float4)(same.x, same.y, as_float(0U), as_float(0U));
        fluid_fill_out[i] = fill_out[i] = 1.0f;
    }
}

inline uint slot_of(ulong row, uint mask)
{
    return (uint)((row * 0x9E3779B97F4A7C15UL) >> 32) & mask;
}

// Anew, when the table or the lists turned out too small.
__kernel void clear_rows(__global uint *rows_out, __global uint *used_out, const uint slots)
{
    clear_row(get_global_id(0), rows_out, used_out, slots);
}

// The first particle of each row enters it. used[2] counts the rows: beyond half of the slots the
// host makes the table larger and starts over.
__kernel void fill_rows(
    __global const ulong *key_in, __global uint *rows, volatile __global uint *used, const uint count, const uint mask, const uint above)
{
    const uint i = get_global_id(0);
    if (i >= count) return;
    const ulong row = ROW_OF(KEY_OF(key_in[i], above));
    if (i > 0 && ROW_OF(KEY_OF(key_in[i - 1], above)) == row) return;
    if (atomic_inc(used + 2) >= ROWS_MAX(mask)) return;
    uint slot = slot_of(row, mask);
    while (atom_cmpxchg((volatile __global ulong *)(rows + SLOT * slot), EMPTY_KEY, row) != EMPTY_KEY) slot = (slot + 1) & mask;
    __global uint *begins = rows + SLOT * slot + 2;
    uint cell = 0, at = i;
    for (; at < count && ROW_OF(KEY_OF(key_in[at], above)) == row; ++at) {
        const uint here = CELL_IN_ROW(KEY_OF(key_in[at], above));
        while (cell <= here) begins[cell++] = at;
    }
    while (cell <= ROW_CELLS) begins[cell++] = at;
}

// Where the cells of a row begin; of one that holds nothing, the row behind the table, which is empty.
inline __global const uint *find_row(ulong row, __global const uint *rows, uint mask)
{
    uint slot = slot_of(row, mask);
    for (;;) {
        const ulong there = *(__global const ulong *)(rows + SLOT * slot);
        if (there == row) return rows + SLOT * slot + 2;
        if (there == EMPTY_KEY) return rows + SLOT * (mask + 1) + 2;
        slot = (slot + 1) & mask;
    }
}
