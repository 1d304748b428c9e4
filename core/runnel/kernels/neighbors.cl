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

#if LANES_IN_VECTOR
#define LANE_NUMBERS ((int8)(0, 1, 2, 3, 4, 5, 6, 7))
inline int8 floor_lanes(float8 x)
{
    const int8 i = TO_INT(x);
    return i + (x < TO_REAL(i));  // true is -1
}
#else
#define LANE_NUMBERS 0
#define floor_lanes(x) floor_int(x)
#endif

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
// Bits of the numbers that have them largest, so far: is_bad() of that tells of them all. Not of the fourth, which is no coordinate.
inline int4 largest_bits(int4 so_far, float4 v)
{
    const int4 bits = as_int4(v) & (int4)(0x7fffffff, 0x7fffffff, 0x7fffffff, 0);
    return MAX(so_far, bits);
}
inline int any_is_bad(int4 largest) { return MAX(MAX(largest.x, largest.y), largest.z) >= 0x7f800000; }

// v += dt a (see forces.cl), then the extent of the predicted cells per tile, then keys.
__kernel void predicted_bounds(
    __global const float4 *x_in, __global const float4 *v_in,
    __global int *bounds_out,      // 8 per tile: low xyz, high xyz, first bad particle, -
    const uint count, const uint tiles, const float dt, const float inverse_cell)
{
    const uint tile = get_global_id(0);
    if (tile >= tiles) return;
    const uint begin = (uint)((ulong)count * tile / tiles), end = (uint)((ulong)count * (tile + 1) / tiles);
    float4 low = (float4)(1e30f), high = (float4)(-1e30f);
    int4 largest = (int4)(0);
    for (uint i = begin; i < end; ++i) {
        const float4 x = x_in[i], p = x + dt * v_in[i];
        if (x.w < 0.0f) continue;  // dead
        largest = largest_bits(largest, p);
        low = MIN(low, p);
        high = MAX(high, p);
    }
    int bad = INT_MAX;
    if (any_is_bad(largest))  // the host gives up, and says which
        for (uint i = begin; i < end && bad == INT_MAX; ++i)
            if (x_in[i].w >= 0.0f && any_is_bad(largest_bits((int4)(0), x_in[i] + dt * v_in[i]))) bad = (int)i;
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

inline ulong key_of(int x, int y, int z, int level, int fine, const grid_t grid)
{
    return ((key_x(x) | key_y(y) | key_z(z) | level_key(level, grid)) << FINE_BITS) | (ulong)fine;
}

LANES_KERNEL void make_keys(
    __global const float4 *x_in, __global const float4 *v_in, __global const float4 *material_in,
    __global ulong *key_out, __global uint *index_out,
    const uint count, const float dt, const uint above, const grid_t grid)
{
    if (CLUSTER_INDEX * CLUSTER >= count) return;
    const rows_t x = LOAD_ROWS(x_in), v = LOAD_ROWS(v_in);
    lanes_mask level = (lanes_mask)0;
    real scale = (real)grid.inverse_cell;
#if LEVELS > 1
    const real h = LOAD(material_in, x);
    FOR_LANES {
        FLAG_OF(level) = level_of(LANE_OF(h), grid.inverse_cell);
        LANE_OF(scale) = grid.inverse_cell * (float)(1 << FLAG_OF(level));
    }
#endif
    const real ux = fused((real)dt, v.x, x.x) * scale;
    const lanes_mask wx = floor_lanes(ux);
    const lanes_mask cx = wx - ((lanes_mask)grid.low_x << level);
    const lanes_mask cy = floor_lanes(fused((real)dt, v.y, x.y) * scale) - ((lanes_mask)grid.low_y << level);
    const lanes_mask cz = floor_lanes(fused((real)dt, v.z, x.z) * scale) - ((lanes_mask)grid.low_z << level);
    const lanes_mask in_cell = TO_INT((ux - TO_REAL(wx)) * (float)(1 << FINE_BITS));
    const lanes_mask fine = MAX((lanes_mask)0, MIN(in_cell, (lanes_mask)((1 << FINE_BITS) - 1)));
#ifdef STORE_WORDS
    // Where a scene spans two blocks of cells at most along each axis, there are no bits to spread.
    if (LEVELS == 1 && above && !ANY_LANE((cx | cy | cz) >> (ROW_BITS + 1) != 0 | x.w < 0.0f)) {
        const lanes_mask block = (cx >> ROW_BITS) | (cy >> ROW_BITS << 1) | (cz >> ROW_BITS << 2);
        const lanes_mask cell = (cx & ROW_MASK) | (cy & ROW_MASK) << ROW_BITS | (cz & ROW_MASK) << 2 * ROW_BITS | block << 3 * ROW_BITS;
        STORE_WORDS(cell << FINE_BITS | fine, CLUSTER * CLUSTER_INDEX, key_out);
        return;
    }
#endif
    FOR_LANES {
        const uint i = LANE_PARTICLE;
        if (i >= count) continue;
        if (above == 0) index_out[i] = i;
        const ulong below = above ? (ulong)i : 0UL;
        // Dead: behind all others.
        const ulong key = LANE_OF(x.w) < 0.0f ? EMPTY_KEY
            : key_of(FLAG_OF(cx), FLAG_OF(cy), FLAG_OF(cz), FLAG_OF(level), FLAG_OF(fine), grid);
        key_out[i] = (key << above) | below;
    }
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
