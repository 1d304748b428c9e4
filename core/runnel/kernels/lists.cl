// lists.cl: one neighbour list per cluster, from the table of occupied rows (neighbors.cl).
//
// j belongs to the list if it lies within max(h_i, h_j) of any of the eight. An entry is j and, above it, one bit per lane: is j in
// reach of that lane now? Entries of pairs that the tensile correction acts on (closer than the spacing at rest) come first.
// Defines beside common.cl: LEVELS, INDEXED, LIST_MAX (candidates of one cluster; more means a collapsed state, reported by the host).

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

#if MASKED_LISTS
#define ENTRIES(at, lanes) ((at) | ((lanes) << 24))
#else
#define ENTRIES(at, lanes) (at)
#endif
#if INDEXED && MASKED_LISTS
#define OF_MEMBER(entry) (order_in[(entry) & 0xffffffU] | ((entry) & 0xff000000U))
#else
#define OF_MEMBER(entry) MEMBER(entry)
#endif

#if LANES_IN_VECTOR
// Runs of particles to look at, cut into batches of eight.
#define BATCH 8
#define BATCHES 128
typedef struct { uint at[BATCHES + 8], last[BATCHES + 8], count; } batches_t;

inline void add_run(batches_t *batches, uint at, uint last)
{
    const uint8 steps = (uint8)(0, 8, 16, 24, 32, 40, 48, 56);
    STORE8_INDICES(steps + at, batches->at + batches->count);
    STORE8_INDICES((uint8)(last), batches->last + batches->count);
    batches->count += (MIN(last - at, 64U) + BATCH - 1) / BATCH;
}

// Candidates of a cluster, by their place in sorted order: those within reach of a box around it. Then what is left of them.
typedef struct {
    float x[LIST_MAX + 2 * BATCH], y[LIST_MAX + 2 * BATCH], z[LIST_MAX + 2 * BATCH];
    uint at[LIST_MAX + 2 * BATCH], count, crowded;
    uint close[LIST_MAX + 2 * BATCH], close_count, far[LIST_MAX + 2 * BATCH], far_count;
} candidates_t;

// Those of eight whose bit is set, side by side; the rest of the eight is of no meaning.
inline void keep_floats(float8 v, uint8 places, float *out) { STORE8(PERMUTE(v, places), out); }
inline void keep_indices(uint8 v, uint8 places, uint *out) { STORE8_INDICES(as_uint8(PERMUTE(as_float8(v), places)), out); }

// Without branches: which candidates are near is hard to foretell.
inline void test_batches(
    batches_t *batches, candidates_t *c, __global const float *sorted, uint stride, __global const ulong *set_bits, box_t b, float reach2)
{
    const uint batch_count = batches->count;
    uint count = c->count, crowded = 0;
    for (uint k = 0; k < batch_count; ++k) {
        const uint at = batches->at[k], left = batches->last[k] - at;
        const float8 x = LOAD8_GLOBAL(sorted + at), y = LOAD8_GLOBAL(sorted + stride + at), z = LOAD8_GLOBAL(sorted + 2 * stride + at);
        const float8 ex = MAX(MAX(b.low.x - x, x - b.high.x), (float8)(0.0f));
        const float8 ey = MAX(MAX(b.low.y - y, y - b.high.y), (float8)(0.0f));
        const float8 ez = MAX(MAX(b.low.z - z, z - b.high.z), (float8)(0.0f));
        const uint near = bits_of(ex * ex + ey * ey + ez * ez < reach2) & (left >= BATCH ? 0xffU : (1U << left) - 1U);
        const uint8 places = BYTES_TO_UINTS(as_uchar8(set_bits[near]));
        keep_floats(x, places, c->x + count);
        keep_floats(y, places, c->y + count);
        keep_floats(z, places, c->z + count);
        STORE8_INDICES(places + at, c->at + count);
        count += POPCOUNT(near);
        crowded |= count >= LIST_MAX;
        count = MIN(count, (uint)LIST_MAX);
    }
    c->crowded |= crowded;
    c->count = count;
    batches->count = 0;
}

// Of the candidates, those in reach of a lane of `own` and of none of `earlier`, eight at a time. Returns how often one coincides with
// a member: each member does with itself.
inline uint keep_exact(
    candidates_t *candidates, const cluster_t *c, uint own, uint earlier, __global const ulong *set_bits,
    float largest, __global const float4 *material_in, __global const uint *order_in)
{
    const uint count = candidates->count;
    uint close_count = candidates->close_count, far_count = candidates->far_count, met = 0, crowded = 0;
    for (uint k = 0; k < count; k += BATCH) {
        const float8 x = LOAD8(candidates->x + k), y = LOAD8(candidates->y + k), z = LOAD8(candidates->z + k);
        const uint valid = count - k >= BATCH ? 0xffU : (1U << (count - k)) - 1U;
#if MIXED_SIZES
        float h_j[BATCH];
        for (uint m = 0; m < BATCH; ++m) h_j[m] = valid >> m & 1U ? material_in[MEMBER(candidates->at[k + m])].x : 0.0f;
        const float8 other = LOAD8(h_j), other2 = other * other;
#endif
        int8 lanes = (int8)(0);
        float8 nearest = (float8)(1e30f);
        for (uint i = 0; i < CLUSTER; ++i) {
            const float8 dx = x - c->x[i], dy = y - c->y[i], dz = z - c->z[i];
            const float8 r2 = dx * dx + dy * dy + dz * dz;
            const float h2 = c->h[i] * c->h[i];
#if MIXED_SIZES
            lanes |= (r2 < MAX(other2, (float8)h2)) & (int8)(1 << i);
#else
            lanes |= (r2 < h2) & (int8)(1 << i);
#endif
            nearest = MIN(nearest, r2);
        }
        const uint kept = bits_of(((lanes & (int8)(int)own) != 0) & ((lanes & (int8)(int)earlier) == 0)) & valid;
        const float h2 = largest * largest;
        const uint is_close = MIXED_SIZES ? kept : bits_of(nearest < CLOSE_SQUARE * h2) & kept, is_far = kept & ~is_close;
        if (bits_of(nearest < 1e-10f * h2) & kept) {  // only batches with members, but for twins
            for (uint i = 0; i < CLUSTER; ++i) {
                const float8 dx = x - c->x[i], dy = y - c->y[i], dz = z - c->z[i];
                met += POPCOUNT(bits_of(dx * dx + dy * dy + dz * dz < 1e-10f * c->h[i] * c->h[i]) & kept);
            }
        }
        const uint8 entries = ENTRIES(LOAD8_INDICES(candidates->at + k), as_uint8(lanes));
        keep_indices(entries, BYTES_TO_UINTS(as_uchar8(set_bits[is_close])), candidates->close + close_count);
        keep_indices(entries, BYTES_TO_UINTS(as_uchar8(set_bits[is_far])), candidates->far + far_count);
        // Groups add up: each may have as many as there is room for.
        close_count += POPCOUNT(is_close);
        far_count += POPCOUNT(is_far);
        crowded |= MAX(close_count, far_count) >= LIST_MAX;
        close_count = MIN(close_count, (uint)LIST_MAX);
        far_count = MIN(far_count, (uint)LIST_MAX);
    }
    candidates->crowded |= crowded;
    candidates->close_count = close_count;
    candidates->far_count = far_count;
    candidates->count = 0;
    return met;
}
#else
inline int in_reach_of_box(float3 x, box_t b, float reach2)
{
    const float ex = MAX(MAX(b.low.x - x.x, x.x - b.high.x), 0.0f);
    const float ey = MAX(MAX(b.low.y - x.y, x.y - b.high.y), 0.0f);
    const float ez = MAX(MAX(b.low.z - x.z, x.z - b.high.z), 0.0f);
    return ex * ex + ey * ey + ez * ez < reach2;
}

// Lanes that p, of kernel radius h, is in reach of; bit 8: one of them is close. Also notes members that coincide with p.
inline uint lanes_in_reach(const cluster_t *c, float3 p, float h, uchar *twins)
{
    uint bits = 0;
    for (uint k = 0; k < CLUSTER; ++k) {
        const float dx = c->x[k] - p.x, dy = c->y[k] - p.y, dz = c->z[k] - p.z;
        const float r2 = dx * dx + dy * dy + dz * dz, ch2 = c->h[k] * c->h[k];
        bits |= (uint)(r2 < MAX(ch2, MIXED_SIZES ? h * h : 0.0f)) << k;
        if (MIXED_SIZES || r2 < CLOSE_SQUARE * ch2) bits |= 1U << CLUSTER;
        twins[k] += r2 < ch2 * 1e-10f;
    }
    return bits;
}
#endif

// Rows of cells that a box may reach into, at y and z.
#define FOR_ROWS(box, s) for (int z = (s).low.z; z <= (s).high.z; ++z) for (int y = (s).low.y; y <= (s).high.y; ++y)
#define ROW_KEY(row, y, z, s) ((key_x((row) << 3) | key_y(y) | key_z(z) | (s).bits) >> 3)

// Cells x.s0 to x.s1 of a row at (y, z) are within reach; none if s0 > s1.
inline int2 cells_in_reach(box_t b, span_t s, int y, int z)
{
    const float gy = gap(b.low.y, b.high.y, (float)(y + s.base.y) * s.size, s.size);
    const float gz = gap(b.low.z, b.high.z, (float)(z + s.base.z) * s.size, s.size);
    const float left = s.reach2 - gy * gy - gz * gz;
    if (left < 0.0f) return (int2)(0, -1);
    const float half_width = root_of(left);
    return (int2)(MAX(floor_int((b.low.x - half_width) * s.inverse) - s.base.x, s.low.x),
                  MIN(floor_int((b.high.x + half_width) * s.inverse) - s.base.x, s.high.x));
}

// One work-item per cluster. near_out: bit s set when solid s may matter to the cluster; range: first entry, entries, and
// above them how many are close.
LANES_KERNEL void build_lists(
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
    box_t whole = {(float3)(1e30f), (float3)(-1e30f), 0.0f};
    for (uint k = 0; k < c.size; ++k) whole = join(&c, whole, k);
    const box_t point = {whole.low, whole.low, whole.reach};
    const int compact = searched_volume(whole) < 4.0f * searched_volume(point);
    uint length = 0, close = 0, start = 0, fits = 0, crowded = 0;
    int coincide = 0;  // some member has a twin at its own place (each member meets itself once)

#if LANES_IN_VECTOR
    batches_t batches;
    candidates_t candidates;
    batches.count = candidates.count = candidates.close_count = candidates.far_count = candidates.crowded = 0;
    uint met = 0;
    for (uint begin = 0, end; begin < c.size; begin = end) {
        box_t box = whole;
        end = next_group(&c, begin, compact, &box);
        // Lanes of groups: each j is taken by the first in reach.
        const uint earlier = (1U << begin) - 1U, own = ((1U << end) - 1U) & ~earlier;
        for (int level = 0; level < LEVELS; ++level) {
            const span_t s = span_of(box, level, grid);
            FOR_ROWS(box, s) {
                const int2 cells = cells_in_reach(box, s, y, z);
                for (int row = cells.x >> 3; row <= cells.y >> 3; ++row) {
                    __global const uint *begins = find_row(ROW_KEY(row, y, z, s), rows_in, mask);
                    const uint last = begins[MIN(cells.y - (row << 3), ROW_CELLS - 1) + 1];
                    uint at = begins[MAX(cells.x - (row << 3), 0)];
                    do {
                        add_run(&batches, at, last);
                        if (batches.count > BATCHES - BATCH) test_batches(&batches, &candidates, sorted_in, stride, set_bits_in, box, s.reach2);
                        at += 64;
                    } while (at < last);
                }
            }
            test_batches(&batches, &candidates, sorted_in, stride, set_bits_in, box, s.reach2);
        }
        met += keep_exact(&candidates, &c, own, earlier, set_bits_in, whole.reach, material_in, order_in);
    }
    coincide = met > c.size;
    crowded = candidates.crowded;
    close = candidates.close_count;
    length = close + candidates.far_count;
    start = atomic_add(used, length);
    fits = start + length <= capacity;
    if (fits) {
        for (uint k = 0; k < close; ++k) list_out[start + k] = OF_MEMBER(candidates.close[k]);
        for (uint k = close; k < length; ++k) list_out[start + k] = OF_MEMBER(candidates.far[k - close]);
    }
#else
    // GPUs, short of private memory, search twice and count first.
    uchar twins[CLUSTER];
    uint close_at = 0, far_at = 0;
    for (int phase = 0; phase < 2; ++phase) {
        for (uint k = 0; k < CLUSTER; ++k) twins[k] = 0;
        if (phase == 1) {
            length = close_at + far_at;
            close = close_at;
            start = atomic_add(used, length);
            fits = start + length <= capacity && length < LIST_MAX;
            crowded = length >= LIST_MAX;
            far_at = close;
            close_at = 0;
        }
        for (uint begin = 0, end; begin < c.size; begin = end) {
            box_t box = whole;
            end = next_group(&c, begin, compact, &box);
            const uint earlier = (1U << begin) - 1U, own = ((1U << end) - 1U) & ~earlier;
            for (int level = 0; level < LEVELS; ++level) {
                const span_t s = span_of(box, level, grid);
                FOR_ROWS(box, s) {
                    const int2 cells = cells_in_reach(box, s, y, z);
                    for (int row = cells.x >> 3; row <= cells.y >> 3; ++row) {
                        __global const uint *begins = find_row(ROW_KEY(row, y, z, s), rows_in, mask);
                        const uint last = begins[MIN(cells.y - (row << 3), ROW_CELLS - 1) + 1];
                        for (uint at = begins[MAX(cells.x - (row << 3), 0)]; at < last; ++at) {
                            const float3 p = (float3)(sorted_in[at], sorted_in[stride + at], sorted_in[2 * stride + at]);
                            if (!in_reach_of_box(p, box, s.reach2)) continue;
                            const uint j = MEMBER(at), lanes = lanes_in_reach(&c, p, MIXED_SIZES ? material_in[j].x : 0.0f, twins);
                            if (!(lanes & own) || (lanes & earlier)) continue;
                            const uint is_close = lanes >> CLUSTER, place = is_close ? close_at : far_at;
                            if (phase == 1 && fits) list_out[start + place] = ENTRY(j, lanes & 0xffU);
                            close_at += is_close;
                            far_at += 1U - is_close;
                        }
                    }
                }
            }
        }
    }
    for (uint k = 0; k < c.size; ++k) coincide |= twins[k] > 1;
#endif

    // Members move by less than h in a step's corrections, or the step fails in other ways.
    const uint near = solids_near(solids, solid_count, whole.low, whole.high, 2.0f * whole.reach);
    near_out[cluster] = near | (coincide ? TWIN_BIT : 0U);
    if (crowded) atomic_or(used + 1, 1U);
    list_range_out[cluster] = fits ? (uint2)(start, length | close << 16) : (uint2)(0);
}
