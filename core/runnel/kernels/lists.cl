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
        c->h[k] = material[MIXED_SIZES ? i : 0].x;  // spares reading all of them
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
inline uint next_group(const cluster_t *c, uint begin, box_t *box)
{
    const box_t nothing = {(float3)(1e30f), (float3)(-1e30f), 0.0f};
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
// Candidates are tested a vector at a time, those that pass packed side by side.
#ifdef HAVE_AVX512
#define BATCH 16
typedef float16 batch_t;
typedef int16 batch_flags;
typedef uint16 batch_uint;
typedef uint packing_t;  // a bit for each that is kept
#define LOAD_BATCH(a) (*(const loose_float16 *)(a))
#define LOAD_BATCH_GLOBAL(a) (*(__global const loose_float16 *)(a))
#define LOAD_BATCH_INDICES(a) (*(const loose_uint16 *)(a))
#define STORE_BATCH(value, a) (*(loose_float16 *)(a) = (value))
#define STORE_BATCH_INDICES(value, a) (*(loose_uint16 *)(a) = (value))
#define BATCH_BITS(flags) bits_of_16(flags)
#define PACKING(bits) (bits)
#define PACK(v, packing) packed_16(v, packing)
#define BATCH_PLACES ((uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#else
#define BATCH 8
typedef float8 batch_t;
typedef int8 batch_flags;
typedef uint8 batch_uint;
typedef uint8 packing_t;  // for each place the one that comes there
#define LOAD_BATCH(a) LOAD8(a)
#define LOAD_BATCH_GLOBAL(a) LOAD8_GLOBAL(a)
#define LOAD_BATCH_INDICES(a) LOAD8_INDICES(a)
#define STORE_BATCH(value, a) STORE8(value, a)
#define STORE_BATCH_INDICES(value, a) STORE8_INDICES(value, a)
#define BATCH_BITS(flags) bits_of(flags)
#define PACKING(bits) BYTES_TO_UINTS(as_uchar8(set_bits[bits]))
#define PACK(v, packing) PERMUTE(v, packing)
#define BATCH_PLACES ((uint8)(0, 1, 2, 3, 4, 5, 6, 7))
#endif
#define AS_FLOATS(v) ((union { batch_uint u; batch_t f; }){.u = (v)}.f)
#define AS_INDICES(v) ((union { batch_t f; batch_uint u; }){.f = (v)}.u)
#define PACK_INDICES(v, packing) AS_INDICES(PACK(AS_FLOATS(v), packing))
#define FIRST_BITS(n) ((n) >= BATCH ? (1U << BATCH) - 1U : (1U << (n)) - 1U)

// Runs of particles to look at, cut into batches.
#define BATCHES 128
typedef struct { uint at[BATCHES + 8], last[BATCHES + 8], count; } batches_t;

// Candidates of a cluster, by their place in sorted order: those within reach of a box around it. Then what is left of them.
#define CANDIDATES (2 * LIST_MAX)  // of two clusters
typedef struct {
    float x[CANDIDATES + 2 * BATCH], y[CANDIDATES + 2 * BATCH], z[CANDIDATES + 2 * BATCH];
    uint at[CANDIDATES + 2 * BATCH], count, crowded;
    uint close[LIST_MAX + 2 * BATCH], close_count, far[LIST_MAX + 2 * BATCH], far_count;
} candidates_t;

// Without branches: which candidates are near is hard to foretell.
BATCH_FUNCTION void test_batches(
    batches_t *batches, candidates_t *c, __global const float *sorted, uint stride, __global const ulong *set_bits, box_t b, float reach2)
{
    const uint batch_count = batches->count;
    uint count = c->count, crowded = 0;
    for (uint k = 0; k < batch_count; ++k) {
        const uint at = batches->at[k], left = batches->last[k] - at;
        const batch_t x = LOAD_BATCH_GLOBAL(sorted + at), y = LOAD_BATCH_GLOBAL(sorted + stride + at);
        const batch_t z = LOAD_BATCH_GLOBAL(sorted + 2 * stride + at);
        const batch_t ex = MAX(MAX(b.low.x - x, x - b.high.x), (batch_t)(0.0f));
        const batch_t ey = MAX(MAX(b.low.y - y, y - b.high.y), (batch_t)(0.0f));
        const batch_t ez = MAX(MAX(b.low.z - z, z - b.high.z), (batch_t)(0.0f));
        const uint near = BATCH_BITS(ex * ex + ey * ey + ez * ez < reach2) & FIRST_BITS(left);
        const packing_t packing = PACKING(near);
        STORE_BATCH(PACK(x, packing), c->x + count);
        STORE_BATCH(PACK(y, packing), c->y + count);
        STORE_BATCH(PACK(z, packing), c->z + count);
        STORE_BATCH_INDICES(PACK_INDICES(BATCH_PLACES, packing) + at, c->at + count);
        count += POPCOUNT(near);
        crowded |= count >= CANDIDATES;
        count = MIN(count, (uint)CANDIDATES);
    }
    c->crowded |= crowded;
    c->count = count;
    batches->count = 0;
}

inline void add_run(
    batches_t *batches, uint at, uint last, candidates_t *c, __global const float *sorted, uint stride, __global const ulong *set_bits,
    box_t b, float reach2)
{
    const uint8 steps = BATCH * (uint8)(0, 1, 2, 3, 4, 5, 6, 7);
    for (; at < last; at += 8 * BATCH) {
        STORE8_INDICES(steps + at, batches->at + batches->count);
        STORE8_INDICES((uint8)(last), batches->last + batches->count);
        batches->count += (MIN(last - at, 8U * BATCH) + BATCH - 1) / BATCH;
        if (batches->count > BATCHES - 8) test_batches(batches, c, sorted, stride, set_bits, b, reach2);
    }
}

// Of the candidates, those in reach of a lane of `own` and of none of `earlier`. Returns how often one coincides with
// a member: each member does with itself.
BATCH_FUNCTION uint keep_exact(
    candidates_t *candidates, const cluster_t *c, uint own, uint earlier, __global const ulong *set_bits,
    float largest, __global const float4 *material_in, __global const uint *order_in)
{
    const uint count = candidates->count;
    uint close_count = candidates->close_count, far_count = candidates->far_count, met = 0, crowded = 0;
    for (uint k = 0; k < count; k += BATCH) {
        const batch_t x = LOAD_BATCH(candidates->x + k), y = LOAD_BATCH(candidates->y + k), z = LOAD_BATCH(candidates->z + k);
        const uint valid = FIRST_BITS(count - k);
#if MIXED_SIZES
        float h_j[BATCH];
        for (uint m = 0; m < BATCH; ++m) h_j[m] = valid >> m & 1U ? material_in[MEMBER(candidates->at[k + m])].x : 0.0f;
        const batch_t other = LOAD_BATCH(h_j), other2 = other * other;
#endif
        batch_flags lanes = (batch_flags)(0);
        batch_t nearest = (batch_t)(1e30f);
        for (uint i = 0; i < CLUSTER; ++i) {
            const batch_t dx = x - c->x[i], dy = y - c->y[i], dz = z - c->z[i];
            const batch_t r2 = dx * dx + dy * dy + dz * dz;
            const float h2 = c->h[i] * c->h[i];
#if MIXED_SIZES
            lanes |= (r2 < MAX(other2, (batch_t)h2)) & (batch_flags)(1 << i);
#else
            lanes |= (r2 < h2) & (batch_flags)(1 << i);
#endif
            nearest = MIN(nearest, r2);
        }
        const uint kept = BATCH_BITS(((lanes & (batch_flags)(int)own) != 0) & ((lanes & (batch_flags)(int)earlier) == 0)) & valid;
        const float h2 = largest * largest;
        const uint is_close = MIXED_SIZES ? kept : BATCH_BITS(nearest < CLOSE_SQUARE * h2) & kept, is_far = kept & ~is_close;
        if (BATCH_BITS(nearest < 1e-10f * h2) & kept) {  // only batches with members, but for twins
            for (uint i = 0; i < CLUSTER; ++i) {
                const batch_t dx = x - c->x[i], dy = y - c->y[i], dz = z - c->z[i];
                met += POPCOUNT(BATCH_BITS(dx * dx + dy * dy + dz * dz < 1e-10f * c->h[i] * c->h[i]) & kept);
            }
        }
        const batch_uint bits = (union { batch_flags i; batch_uint u; }){.i = lanes}.u;
        const batch_uint entries = ENTRIES(LOAD_BATCH_INDICES(candidates->at + k), bits);
        STORE_BATCH_INDICES(PACK_INDICES(entries, PACKING(is_close)), candidates->close + close_count);
        STORE_BATCH_INDICES(PACK_INDICES(entries, PACKING(is_far)), candidates->far + far_count);
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
    return met;
}

// Lists of some clusters that go out together: a work-item that asks for room in the list waits for all others that do.
typedef struct {
    uint entries[2 * LIST_MAX + 16], used;
    uint lengths[LIST_RUN];  // with the number of close ones above
    uint clusters;
} held_t;

inline void write_lists(
    held_t *held, uint first, __global uint *list_out, __global uint2 *list_range_out, volatile __global uint *used, uint capacity,
    __global const uint *order_in)
{
    uint start = atomic_add(used, held->used);
    const int fits = start + held->used <= capacity;
    if (fits)
        for (uint k = 0; k < held->used; ++k) list_out[start + k] = OF_MEMBER(held->entries[k]);
    for (uint k = 0; k < held->clusters; ++k) {
        list_range_out[first + k] = fits ? (uint2)(start, held->lengths[k]) : (uint2)(0);
        start += held->lengths[k] & 0xffffU;
    }
    held->used = held->clusters = 0;
}

// Takes over a cluster's entries, an even number of them (wide.cl): the last may be of a ghost.
inline void hold_list(held_t *held, const candidates_t *c, uint ghost)
{
    uint *out = held->entries + held->used;
    uint length = c->close_count + c->far_count;
    for (uint k = 0; k < c->close_count; k += 8) STORE8_INDICES(LOAD8_INDICES(c->close + k), out + k);
    for (uint k = 0; k < c->far_count; k += 8) STORE8_INDICES(LOAD8_INDICES(c->far + k), out + c->close_count + k);
    if (length & 1U) out[length++] = ghost;
    held->lengths[held->clusters++] = length | c->close_count << 16;
    held->used += length;
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

// Rows of cells that a box may reach into: at each z, as many neighbouring y as there are lanes.
#if LANES_IN_VECTOR
#define ROWS_AT_ONCE 8
#else
#define ROWS_AT_ONCE 1
#endif
#define FOR_ROWS(s) for (int z = (s).low.z; z <= (s).high.z; ++z) for (int y = (s).low.y; y <= (s).high.y; y += ROWS_AT_ONCE)
#define ROW_KEY(row, y, z, s) ((key_x((row) << 3) | key_y(y) | key_z(z) | (s).bits) >> 3)

typedef struct { lanes_mask first, last; } cells_t;

// Cells within reach of the rows at z and y, y + 1, ...; none where first > last.
inline cells_t cells_in_reach(box_t b, span_t s, int y, int z)
{
    const float gz = gap(b.low.z, b.high.z, (float)(z + s.base.z) * s.size, s.size);
    const real at = TO_REAL(LANE_NUMBERS + (y + s.base.y)) * s.size;
    const real gy = MAX(MAX(b.low.y - at - s.size, at - b.high.y), (real)0.0f);
    const real left = s.reach2 - gz * gz - gy * gy;
    const real half_width = root(MAX(left, (real)(1e-6f * s.reach2)));
    const lanes_mask first = floor_lanes((b.low.x - half_width) * s.inverse) - s.base.x;
    const lanes_mask last = floor_lanes((b.high.x + half_width) * s.inverse) - s.base.x;
    const cells_t cells = {MAX(first, (lanes_mask)s.low.x), left < 0.0f ? (lanes_mask)-1 : MIN(last, (lanes_mask)s.high.x)};
    return cells;
}

// A box around a cluster. Returns whether it is compact: else its members are searched in groups.
inline int box_around(const cluster_t *c, box_t *whole)
{
    const box_t nothing = {(float3)(1e30f), (float3)(-1e30f), 0.0f};
    *whole = nothing;
    for (uint k = 0; k < c->size; ++k) *whole = join(c, *whole, k);
    const box_t point = {whole->low, whole->low, whole->reach};
    return searched_volume(*whole) < 4.0f * searched_volume(point);
}

// Bits of the solids that may matter to a cluster. Members move by less than h in a step's corrections, or the step fails in other ways.
// Beside bodies those of a cluster that is not compact are asked one by one: at the ends of the curve's rows it reaches across the fluid.
inline uint near_bits(const cluster_t *c, box_t whole, int compact, int coincide, __global const float *solids, const few_t *few)
{
    uint near = coincide ? TWIN_BIT : 0U;
#if BODIES
    const box_t nothing = {(float3)(1e30f), (float3)(-1e30f), 0.0f};
    for (uint k = 0; k < c->size && !compact; ++k) {
        const box_t one = join(c, nothing, k);
        near |= solids_near(solids, few, one.low, one.high, 2.0f * whole.reach);
    }
    if (!compact) return near;
#endif
    return near | solids_near(solids, few, whole.low, whole.high, 2.0f * whole.reach);
}

#if LANES_IN_VECTOR
// Particles within reach of a box.
inline void find_candidates(
    batches_t *batches, candidates_t *candidates, box_t box, __global const float *sorted_in, uint stride, __global const uint *rows_in,
    uint mask, __global const ulong *set_bits_in, const grid_t grid)
{
    candidates->count = 0;
    for (int level = 0; level < LEVELS; ++level) {
        const span_t s = span_of(box, level, grid);
        FOR_ROWS(s) {
            const cells_t cells = cells_in_reach(box, s, y, z);
            const int lanes = MIN(s.high.y - y + 1, ROWS_AT_ONCE);
            for (int lane = 0; lane < lanes; ++lane) {
                // Rows of eight cells that follow each other on the curve are one run.
                const int first_cell = FLAG_OF(cells.first), last_cell = FLAG_OF(cells.last);
                uint at = 0, last = 0;
                for (int row = first_cell >> 3; row <= last_cell >> 3; ++row) {
                    __global const uint *begins = find_row(ROW_KEY(row, y + lane, z, s), rows_in, mask);
                    const uint from = begins[MAX(first_cell - (row << 3), 0)];
                    const uint to = begins[MIN(last_cell - (row << 3), ROW_CELLS - 1) + 1];
                    if (from == to) continue;
                    if (from != last) {
                        add_run(batches, at, last, candidates, sorted_in, stride, set_bits_in, box, s.reach2);
                        at = from;
                    }
                    last = to;
                }
                add_run(batches, at, last, candidates, sorted_in, stride, set_bits_in, box, s.reach2);
            }
        }
        test_batches(batches, candidates, sorted_in, stride, set_bits_in, box, s.reach2);
    }
}

// Solids that may matter to clusters of particles first..end. Where there are few, to look ahead gains nothing.
inline few_t solids_of_run(
    __global const float4 *xp_in, __global const float4 *material_in, uint first, uint end, __global const float *solids, uint solid_count)
{
    if (solid_count <= 3U) return all_solids(solid_count);
    float4 low = (float4)(1e30f), high = (float4)(-1e30f);
    float reach = 0.0f;
    for (uint i = first; i < end; ++i) {
        low = MIN(low, xp_in[i]);
        high = MAX(high, xp_in[i]);
        reach = MAX(reach, material_in[i].x);
    }
    return solids_around(solids, solid_count, low.xyz, high.xyz, 2.0f * reach);
}

inline box_t joined(box_t a, box_t b)
{
    const box_t both = {(float3)(MIN(a.low.x, b.low.x), MIN(a.low.y, b.low.y), MIN(a.low.z, b.low.z)),
                        (float3)(MAX(a.high.x, b.high.x), MAX(a.high.y, b.high.y), MAX(a.high.z, b.high.z)), MAX(a.reach, b.reach)};
    return both;
}
#endif

// near_out: bit s set when solid s may matter to the cluster; range: first entry, entries, and above them how many are close.
LANES_KERNEL void build_lists(
    __global const float4 *xp_in, __global const float4 *material_in, __global const uint *order_in,
    __global const float *sorted_in, __global const uint *rows_in,
    __global const ulong *set_bits_in,  // places of the bits set in a byte, a byte each, lowest first
    __global uint *list_out, __global uint2 *list_range_out, __global uint *near_out, volatile __global uint *used,
    __global const float *solids, const uint solid_count,
    const uint count, const uint stride, const uint mask, const uint capacity, const grid_t grid)
#if LANES_IN_VECTOR
// One work-item for LIST_RUN clusters. Two that follow each other mostly lie side by side: they are searched at once.
{
    if (used[2] > ROWS_MAX(mask)) return;  // the table is not complete
    const uint run = get_global_id(0) * LIST_RUN, run_end = MIN(run + LIST_RUN, (count + CLUSTER - 1) / CLUSTER);
    batches_t batches;
    candidates_t candidates;
    held_t held;
    const few_t few = solids_of_run(xp_in, material_in, run * CLUSTER, MIN(run_end * CLUSTER, count), solids, solid_count);
    batches.count = candidates.crowded = held.used = held.clusters = 0;
    for (uint cluster = run; cluster < run_end;) {
        cluster_t c[2];
        box_t box[2];
        uint together = 1;
        load_cluster(&c[0], xp_in, material_in, cluster * CLUSTER, count);
        const int compact = box_around(&c[0], &box[0]);
        if (compact && cluster + 1 < run_end) {
            load_cluster(&c[1], xp_in, material_in, (cluster + 1) * CLUSTER, count);
            if (box_around(&c[1], &box[1])
                && searched_volume(joined(box[0], box[1])) < 0.8f * (searched_volume(box[0]) + searched_volume(box[1]))) together = 2;
        }
        if (compact)
            find_candidates(&batches, &candidates, together == 2 ? joined(box[0], box[1]) : box[0], sorted_in, stride, rows_in, mask, set_bits_in, grid);
        for (uint k = 0; k < together; ++k, ++cluster) {
            uint met = 0;
            candidates.close_count = candidates.far_count = 0;
            if (compact) met = keep_exact(&candidates, &c[k], 0xffU, 0U, set_bits_in, box[k].reach, material_in, order_in);
            else for (uint begin = 0, end; begin < c[0].size; begin = end) {
                box_t part;
                end = next_group(&c[0], begin, &part);
                find_candidates(&batches, &candidates, part, sorted_in, stride, rows_in, mask, set_bits_in, grid);
                // Lanes of groups: each j is taken by the first in reach.
                const uint earlier = (1U << begin) - 1U, own = ((1U << end) - 1U) & ~earlier;
                met += keep_exact(&candidates, &c[0], own, earlier, set_bits_in, box[0].reach, material_in, order_in);
            }
            if (held.used > LIST_MAX) write_lists(&held, cluster - held.clusters, list_out, list_range_out, used, capacity, order_in);
            hold_list(&held, &candidates, (count + CLUSTER - 1) / CLUSTER * CLUSTER);
            near_out[cluster] = near_bits(&c[k], box[k], compact, met > c[k].size, solids, &few);  // each member meets itself once
        }
    }
    if (held.clusters) write_lists(&held, run_end - held.clusters, list_out, list_range_out, used, capacity, order_in);
    if (candidates.crowded) atomic_or(used + 1, 1U);
}
#else
// One work-item per cluster. Short of private memory, it searches twice and counts first.
{
    const uint cluster = get_global_id(0);
    const uint first = cluster * CLUSTER;
    if (first >= count) return;
    if (used[2] > ROWS_MAX(mask)) return;  // the table is not complete
    cluster_t c;
    load_cluster(&c, xp_in, material_in, first, count);
    box_t whole;
    const int compact = box_around(&c, &whole);
    uint length = 0, close = 0, start = 0, fits = 0, crowded = 0;
    int coincide = 0;  // some member has a twin at its own place
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
            end = compact ? c.size : next_group(&c, begin, &box);
            const uint earlier = (1U << begin) - 1U, own = ((1U << end) - 1U) & ~earlier;
            for (int level = 0; level < LEVELS; ++level) {
                const span_t s = span_of(box, level, grid);
                FOR_ROWS(s) {
                    const cells_t cells = cells_in_reach(box, s, y, z);
                    for (int row = cells.first >> 3; row <= cells.last >> 3; ++row) {
                        __global const uint *begins = find_row(ROW_KEY(row, y, z, s), rows_in, mask);
                        const uint last = begins[MIN(cells.last - (row << 3), ROW_CELLS - 1) + 1];
                        for (uint at = begins[MAX(cells.first - (row << 3), 0)]; at < last; ++at) {
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
    const few_t few = all_solids(solid_count);
    near_out[cluster] = near_bits(&c, whole, compact, coincide, solids, &few);
    if (crowded) atomic_or(used + 1, 1U);
    list_range_out[cluster] = fits ? (uint2)(start, length | close << 16) : (uint2)(0);
}
#endif
