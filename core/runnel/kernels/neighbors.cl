// neighbors.cl: sort along the curve, table of occupied cells, one neighbour list per cluster.
//
// A cell is a cube of the largest kernel radius h_max; where radii differ, smaller particles live in
// finer levels (cell size h_max / 2^level, P003 5.4.2), so a search never scans many tiny particles
// through a coarse cell. Keys hold the level, the cell on a Z-curve over blocks of cells with rows
// inside a block (21 bits per axis in all), and where bits are left the place along x in the cell.
// The grid is sparse: a hash table of occupied rows of eight cells, so memory follows particles, not extent.
//
// Defines beside common.cl: ROW_BITS (at least 3), FINE_BITS, LEVELS, INDEXED, LIST_MAX.

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

#if INDEXED
#define MEMBER(s) order_in[s]
#else
#define MEMBER(s) (s)
#endif

// x* = x + dt v (P001 algorithm 1), and its coordinates once more in sorted order, each in an array of
// its own (`stride` apart), for the search. Rows past the last particle are ghosts: far from everything,
// so that lanes which stand for nobody compute zeros.
__kernel void place_predicted(
    __global const float4 *x_in, __global float4 *v, __global float4 *material, __global const uint *order_in,
    __global float4 *xp_out, __global float4 *xp_other_out, __global float *sorted_out,
    __global float *pressure_out, __global float2 *fill_out,
    const uint count, const uint padded, const uint stride, const float dt, const float2 same)
{
    const uint i = get_global_id(0);
    if (i >= padded) return;
    pressure_out[i] = 0.0f;
    if (i < count) {
        xp_out[i] = (float4)(x_in[i].xyz + dt * v[i].xyz, 0.0f);
        const uint j = MEMBER(i);
        const float3 p = x_in[j].xyz + dt * v[j].xyz;
        sorted_out[i] = p.x;
        sorted_out[stride + i] = p.y;
        sorted_out[2 * stride + i] = p.z;
        return;
    }
    const float4 ghost = (float4)(1e9f, 1e9f, 1e9f, 0.0f);
    xp_out[i] = ghost;
    xp_other_out[i] = ghost;
    v[i] = (float4)(0.0f);
    material[i] = (float4)(same.x, same.y, as_float(0U), as_float(0U));
    fill_out[i] = (float2)(1.0f);
}

// ---- table of occupied rows -------------------------------------------------------------------------
// A row is eight cells along x, which lie side by side on the curve: its particles are one run, and so are
// those of any cells in a line. A slot holds the row's key and where each of its cells begins and ends.
#define ROW_CELLS 8
#define SLOT 12  // uints: key (2), first particle of each cell (8) and the end of the last (trap T8), unused
#define ROWS_MAX(mask) (((mask) + 1) / 2)  // half of the slots stay free
#define ROW_OF(key) ((key) >> (FINE_BITS + 3))
#define CELL_IN_ROW(key) ((uint)((key) >> FINE_BITS) & (ROW_CELLS - 1))

inline uint slot_of(ulong row, uint mask)
{
    return (uint)((row * 0x9E3779B97F4A7C15UL) >> 32) & mask;
}

__kernel void clear_rows(__global uint *rows_out, const uint slots)
{
    const uint i = get_global_id(0);
    if (i < slots) *(__global ulong *)(rows_out + SLOT * i) = EMPTY_KEY;
}

// The first particle of each row enters it. used[2] counts the rows: beyond half of the slots the
// host makes the table larger and starts over.
__kernel void fill_rows(
    __global const ulong *key_in, __global uint *rows, volatile __global uint *used, const uint count, const uint mask)
{
    const uint i = get_global_id(0);
    if (i >= count) return;
    const ulong row = ROW_OF(key_in[i]);
    if (i > 0 && ROW_OF(key_in[i - 1]) == row) return;
    if (atomic_inc(used + 2) >= ROWS_MAX(mask)) return;
    uint slot = slot_of(row, mask);
    while (atom_cmpxchg((volatile __global ulong *)(rows + SLOT * slot), EMPTY_KEY, row) != EMPTY_KEY) slot = (slot + 1) & mask;
    __global uint *begins = rows + SLOT * slot + 2;
    uint cell = 0, at = i;
    for (; at < count && ROW_OF(key_in[at]) == row; ++at) {
        const uint here = CELL_IN_ROW(key_in[at]);
        while (cell <= here) begins[cell++] = at;
    }
    while (cell <= ROW_CELLS) begins[cell++] = at;
}

inline __global const uint *find_row(ulong row, __global const uint *rows, uint mask)
{
    uint slot = slot_of(row, mask);
    for (;;) {
        const ulong there = *(__global const ulong *)(rows + SLOT * slot);
        if (there == row) return rows + SLOT * slot + 2;
        if (there == EMPTY_KEY) return 0;
        slot = (slot + 1) & mask;
    }
}

// ---- neighbour lists ------------------------------------------------------------------------------
// One work-item per cluster: j belongs to the list if it lies within max(h_i, h_j) of any of the eight.
// An entry is j and, above it, one bit per lane: is j in reach of that lane now?
// near_out: bit s set when solid s may matter to the cluster.
// LIST_MAX: candidates of one cluster; more means a collapsed state, reported by the host.
typedef struct {
    float x[CLUSTER], y[CLUSTER], z[CLUSTER], h[CLUSTER];
    uint size;
} cluster_t;

typedef struct { float3 low, high; float reach; } box_t;  // reach: largest h of those inside

inline void load_cluster(cluster_t *c, __global const float4 *xp, __global const float4 *material, uint first, uint count)
{
    c->size = MIN((uint)CLUSTER, count - first);
    for (uint k = 0; k < CLUSTER; ++k) {
        const uint i = first + k;  // past the end: a ghost
        const float4 p = xp[i];
        c->x[k] = p.x; c->y[k] = p.y; c->z[k] = p.z;
        c->h[k] = material[i].x;
    }
}

inline box_t join(const cluster_t *c, box_t b, uint k)
{
    b.low.x = MIN(b.low.x, c->x[k]); b.low.y = MIN(b.low.y, c->y[k]); b.low.z = MIN(b.low.z, c->z[k]);
    b.high.x = MAX(b.high.x, c->x[k]); b.high.y = MAX(b.high.y, c->y[k]); b.high.z = MAX(b.high.z, c->z[k]);
    b.reach = MAX(b.reach, c->h[k]);
    return b;
}

inline float searched_volume(box_t b)
{
    const float3 e = b.high - b.low + 2.0f * b.reach;
    return e.x * e.y * e.z;  // in 2D all have the same third extent
}

// A cluster that straddles a jump of the curve falls into groups, each searched by itself: a member
// opens a group where that is less work than making the present one larger. Returns the group's end.
inline uint next_group(const cluster_t *c, uint begin, int compact, box_t *box)
{
    const box_t nothing = {(float3)(1e30f), (float3)(-1e30f), 0.0f};
    if (compact) return c->size;  // *box is that of all members
    *box = join(c, nothing, begin);
    uint end = begin + 1;
    for (; end < c->size; ++end) {
        const box_t larger = join(c, *box, end);
        if (searched_volume(larger) > searched_volume(*box) + searched_volume(join(c, nothing, end))) break;
        *box = larger;
    }
    return end;
}

// Cells that a box reaches into on one level of the grid.
typedef struct {
    int3 base, low, high;  // cells from the grid's lowest on
    float inverse, size, reach2;
    ulong bits;
} span_t;

inline span_t span_of(box_t b, int level, const grid_t grid)
{
    span_t s;
    s.inverse = grid.inverse_cell * (float)(1 << level);
    s.size = 1.0f / s.inverse;
    s.bits = level_key(level, grid);
    s.base = (int3)(grid.low_x << level, grid.low_y << level, grid.low_z << level);
    // A particle of this level reaches no farther than one cell of it.
    const float reach = MAX(b.reach, MIXED_SIZES ? s.size : 0.0f) * 1.0001f;
    s.reach2 = reach * reach;
    // Nothing lies outside the grid, and keys of such cells would wrap around.
    const int top = (1 << (grid.bits + level)) - 1;
#define LOWEST(m) MAX(floor_int((b.low.m - reach) * s.inverse) - s.base.m, 0)
#define HIGHEST(m) MIN(floor_int((b.high.m + reach) * s.inverse) - s.base.m, top)
    s.low = (int3)(LOWEST(x), LOWEST(y), LOWEST(z));
    s.high = (int3)(HIGHEST(x), HIGHEST(y), HIGHEST(z));
    return s;
}

inline float gap(float low, float high, float at, float size) { return MAX(0.0f, MAX(low - at - size, at - high)); }

#if LANES_IN_VECTOR
// One bit per lane.
inline uint bits_of(int8 inside)
{
#ifdef HAVE_AVX_RSQRT
    union { int8 lanes; avx_float8 avx; } u;
    u.lanes = inside;
    return (uint)__builtin_ia32_movmskps256(u.avx);
#else
    const int8 b = inside & (int8)(1, 2, 4, 8, 16, 32, 64, 128);
    return (uint)(((b.s0 | b.s1) | (b.s2 | b.s3)) | ((b.s4 | b.s5) | (b.s6 | b.s7)));
#endif
}

// Of eight particles in sorted order, those within reach of the box.
inline uint box_candidates(__global const float *sorted, uint stride, uint at, box_t b, float reach2)
{
    const float8 x = LOAD8_GLOBAL(sorted + at), y = LOAD8_GLOBAL(sorted + stride + at), z = LOAD8_GLOBAL(sorted + 2 * stride + at);
    const float8 ex = MAX(MAX(b.low.x - x, x - b.high.x), (float8)(0.0f));
    const float8 ey = MAX(MAX(b.low.y - y, y - b.high.y), (float8)(0.0f));
    const float8 ez = MAX(MAX(b.low.z - z, z - b.high.z), (float8)(0.0f));
    return bits_of(ex * ex + ey * ey + ez * ez < reach2);
}

// Lanes that p, of kernel radius h, is in reach of. Also counts members that coincide with p.
inline uint lanes_in_reach(const cluster_t *c, float4 p, float h, int8 *twins)
{
    const float8 dx = LOAD8(c->x) - p.x, dy = LOAD8(c->y) - p.y, dz = LOAD8(c->z) - p.z, ch = LOAD8(c->h);
    const float8 r2 = dx * dx + dy * dy + dz * dz, ch2 = ch * ch;
#if MIXED_SIZES
    const float8 reach2 = MAX(ch2, (float8)(h * h));
#else
    const float8 reach2 = ch2;
#endif
    *twins -= r2 < ch2 * 1e-10f;
    return bits_of(r2 < reach2);
}
#define BATCH 8
typedef int8 twins_t;
#define TWINS_OF(t, k) (((int *)&t)[k])
#else
inline uint box_candidates(__global const float *sorted, uint stride, uint at, box_t b, float reach2)
{
    const float x = sorted[at], y = sorted[stride + at], z = sorted[2 * stride + at];
    const float ex = MAX(MAX(b.low.x - x, x - b.high.x), 0.0f);
    const float ey = MAX(MAX(b.low.y - y, y - b.high.y), 0.0f);
    const float ez = MAX(MAX(b.low.z - z, z - b.high.z), 0.0f);
    return ex * ex + ey * ey + ez * ez < reach2;
}

typedef struct { uint bits; uchar count[CLUSTER]; } twins_t;
inline uint lanes_in_reach(const cluster_t *c, float4 p, float h, twins_t *twins)
{
    uint bits = 0;
    for (uint k = 0; k < CLUSTER; ++k) {
        const float dx = c->x[k] - p.x, dy = c->y[k] - p.y, dz = c->z[k] - p.z;
        const float r2 = dx * dx + dy * dy + dz * dz, ch2 = c->h[k] * c->h[k];
        bits |= (uint)(r2 < MAX(ch2, MIXED_SIZES ? h * h : 0.0f)) << k;
        twins->count[k] += r2 < ch2 * 1e-10f;
    }
    return bits;
}
#define BATCH 1
#define TWINS_OF(t, k) (t.count[k])
#endif

// Vectors gather in private memory, then copy; GPUs, short of that, search twice and count first.
#define PHASES (LANES_IN_VECTOR ? 1 : 2)

__kernel void build_lists(
    __global const float4 *xp_in, __global const float4 *material_in, __global const uint *order_in,
    __global const float *sorted_in, __global const uint *rows_in,
    __global const ulong *set_bits_in,  // places of the bits set in a byte, a byte each, lowest first
    __global uint *list_out, __global uint2 *list_range_out, __global uint *near_out, volatile __global uint *used,
    __global const float *solids, const uint solid_count,
    const uint count, const uint stride, const uint mask, const uint capacity, const grid_t grid)
{
    const uint cluster = get_global_id(0);
    const uint first = cluster * CLUSTER;
    if (first >= count) return;
    if (used[2] > ROWS_MAX(mask)) return;  // the table is not complete
    cluster_t c;
    load_cluster(&c, xp_in, material_in, first, count);
    twins_t twins;
#if LANES_IN_VECTOR
    uint found[LIST_MAX + BATCH + 1];
    twins = (int8)(0);
#endif
    uint length = 0, exact = 0, start = 0, fits = 0, crowded = 0;
    box_t whole = {(float3)(1e30f), (float3)(-1e30f), 0.0f};
    for (uint k = 0; k < c.size; ++k) whole = join(&c, whole, k);
    const box_t point = {whole.low, whole.low, whole.reach};
    const int compact = searched_volume(whole) < 4.0f * searched_volume(point);

    for (int phase = 0; phase < PHASES; ++phase) {
#if !LANES_IN_VECTOR
        for (uint k = 0; k < CLUSTER; ++k) twins.count[k] = 0;
        if (phase == 1) {
            start = atomic_add(used, length);
            fits = start + length <= capacity && length < LIST_MAX;
        }
        length = 0;
#endif
        for (uint begin = 0, end; begin < c.size; begin = end) {
            box_t box = whole;
            end = next_group(&c, begin, compact, &box);
            const uint earlier = (1U << begin) - 1U, own = ((1U << end) - 1U) & ~earlier;  // lanes of groups: each j is taken by the first in reach
            for (int level = 0; level < LEVELS; ++level) {
                const span_t s = span_of(box, level, grid);
                for (int z = s.low.z; z <= s.high.z; ++z) {
                    const float gz = gap(box.low.z, box.high.z, (float)(z + s.base.z) * s.size, s.size);
                    const ulong kz = key_z(z) | s.bits;
                    for (int y = s.low.y; y <= s.high.y; ++y) {
                        const float gy = gap(box.low.y, box.high.y, (float)(y + s.base.y) * s.size, s.size);
                        const float left = s.reach2 - gy * gy - gz * gz;
                        if (left < 0.0f) continue;
                        const ulong kyz = key_y(y) | kz;
                        const float half_width = root_of(left);
                        const int x0 = MAX(floor_int((box.low.x - half_width) * s.inverse) - s.base.x, s.low.x);
                        const int x1 = MIN(floor_int((box.high.x + half_width) * s.inverse) - s.base.x, s.high.x);
                        for (int row = x0 >> 3; row <= x1 >> 3; ++row) {
                            __global const uint *begins = find_row((key_x(row << 3) | kyz) >> 3, rows_in, mask);
                            if (!begins) continue;
                            const uint last = begins[MIN(x1 - (row << 3), ROW_CELLS - 1) + 1];
                            for (uint at = begins[MAX(x0 - (row << 3), 0)]; at < last; at += BATCH) {
                                const uint near = box_candidates(sorted_in, stride, at, box, s.reach2)
                                    & (at + BATCH <= last ? 0xffU : (1U << (last - at)) - 1U);
#if LANES_IN_VECTOR
                                // Without branches: which candidates are near is hard to foretell.
                                STORE8_INDICES(BYTES_TO_UINTS(as_uchar8(set_bits_in[near])) + at, found + length);
                                length += POPCOUNT(near);
#else
                                if (!near) continue;
                                const uint j = MEMBER(at);
                                const uint lanes = lanes_in_reach(&c, xp_in[j], MIXED_SIZES ? material_in[j].x : 0.0f, &twins);
                                if (!(lanes & own) || (lanes & earlier)) continue;
                                if (phase == 1 && fits) list_out[start + length] = ENTRY(j, lanes);
                                ++length;
#endif
                                crowded |= length >= LIST_MAX;
                                length = MIN(length, (uint)LIST_MAX);
                            }
                        }
                    }
                }
            }
#if LANES_IN_VECTOR
            const uint candidates = length;
            length = exact;
            for (uint k = exact; k < candidates; ++k) {
                const uint j = MEMBER(found[k]);
                const uint lanes = lanes_in_reach(&c, xp_in[j], MIXED_SIZES ? material_in[j].x : 0.0f, &twins);
                found[length] = ENTRY(j, lanes);
                length += (lanes & own) && !(lanes & earlier);
            }
            exact = length;
#endif
        }
    }

    // Members move by less than h in a step's corrections, or the step fails in other ways.
    const uint near = solids_near(solids, solid_count, whole.low, whole.high, 2.0f * whole.reach);
    // Bit 31: some member has a twin at its own place (each member meets itself once).
    int coincide = 0;
    for (uint k = 0; k < c.size; ++k) coincide |= TWINS_OF(twins, k) > 1;
    near_out[cluster] = near | (coincide ? TWIN_BIT : 0U);

    if (crowded) atomic_or(used + 1, 1U);
#if LANES_IN_VECTOR
    start = atomic_add(used, length);
    fits = start + length <= capacity;
    if (fits) for (uint k = 0; k < length; ++k) list_out[start + k] = found[k];
#endif
    list_range_out[cluster] = (uint2)(fits ? start : 0, fits ? length : 0);
}
