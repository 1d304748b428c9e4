// wide.cl: pair loops over two list entries at once, for CPUs whose vectors hold sixteen floats (AVX-512).
//
// Lanes 0 to 7 are a cluster's particles beside the neighbour of the first entry, lanes 8 to 15 the same particles beside that of
// the second. Sums of both halves are added at the end of a list, whose length is even (lists.cl).
// Only for one fluid of one size in the even kernel, which is what large scenes are; all else takes the loops of eight lanes.

#if defined(HAVE_AVX512) && defined(IN_FEWEST_OPERATIONS) && !MIXED_FLUIDS && !EXACT
#define WIDE 1
#define WIDE_FUNCTION FORCE_INLINE __attribute__((min_vector_width(512)))

typedef float16 wide;
typedef struct { wide x, y, z; } wide3_t;

WIDE_FUNCTION wide twice(float8 v) { return (wide)(v, v); }
inline float8 halves_added(wide v) { return v.lo + v.hi; }

WIDE_FUNCTION wide fused_wide(wide a, wide b, wide c)
{
    union { wide lanes; avx_float16 avx; } u = {a}, v = {b}, w = {c};
    u.avx = __builtin_ia32_vfmaddps512_mask(u.avx, v.avx, w.avx, -1, 4);
    return u.lanes;
}

// A number of each of two neighbours, eight times: what compilers make two loads and one shuffle of.
#define OF_TWO(xp, i, j, axis) ((wide)((float8)PLACE(xp, i, axis), (float8)PLACE(xp, j, axis)))

// As square_left, w_of and slope_of of common.cl.
WIDE_FUNCTION wide square_left_wide(wide3_t d, wide h2)
{
    const wide left = fused_wide(-d.x, d.x, fused_wide(-d.y, d.y, fused_wide(-d.z, d.z, h2)));
    return MAX(left, (wide)0.0f);
}

// Sum of W^ over a list, less the factor PAIR_W_SCALE.
WIDE_FUNCTION float8 sum_density_wide(real x, real y, real z, real h, real inverse_h, __global const float4 *xp_in, __global const uint *entry, __global const uint *end)
{
    const wide3_t at = {twice(x), twice(y), twice(z)};
    const wide h2 = twice(h * h), i2 = twice(inverse_h * inverse_h);
    const wide e2 = EVEN_2 * i2 * i2, e1 = EVEN_1 * i2;
    wide sum = (wide)0.0f;
    for (; entry < end; entry += 2) {
        const uint i = NEIGHBOR(entry[0]), j = NEIGHBOR(entry[1]);
        const wide3_t d = {at.x - OF_TWO(xp_in, i, j, 0), at.y - OF_TWO(xp_in, i, j, 1), at.z - OF_TWO(xp_in, i, j, 2)};
        const wide t = square_left_wide(d, h2), t2 = t * t;
        sum = fused_wide(t2 * t2, fused_wide(t, fused_wide(t, e2, e1), (wide)EVEN_0), sum);
    }
    return halves_added(sum);
}

// Corrections of a list's entries, less the factor PAIR_SLOPE_SCALE; `acts`: with the tensile correction of correction.cl.
WIDE_FUNCTION void add_corrections_wide(
    const int acts, real3_t at_8, real p_8, real h, real inverse_h, real sigma,
    __global const float4 *xp_in, __global const float8 *reach_in, __global const uint *entry, __global const uint *end, wide3_t *total)
{
    const wide3_t at = {twice(at_8.x), twice(at_8.y), twice(at_8.z)};
    const wide p = twice(p_8), i2 = twice(inverse_h * inverse_h);
    const wide s2 = -6.0f * EVEN_2 * i2 * i2, s1 = -5.0f * EVEN_1 * i2;
    const wide w2 = EVEN_2 * i2 * i2, w1 = EVEN_1 * i2;
    const wide unit = twice(PAIR_W_UNIT(inverse_h) * (W_SCALE / TENSILE_REFERENCE)), both_sigma = twice(2.0f * sigma);
    wide3_t sum = *total;
    for (; entry < end; entry += 2) {
        const uint first = entry[0], second = entry[1], i = NEIGHBOR(first), j = NEIGHBOR(second);
        const wide3_t d = {at.x - OF_TWO(xp_in, i, j, 0), at.y - OF_TWO(xp_in, i, j, 1), at.z - OF_TWO(xp_in, i, j, 2)};
        const wide t = square_left_wide(d, (wide)(REACH_SQUARE(first, h), REACH_SQUARE(second, h))), t2 = t * t;
        wide both = p + OF_TWO(xp_in, i, j, 3);
        if (acts) {
            const wide w = fused_wide(t, fused_wide(t, w2, w1), (wide)EVEN_0) * (t2 * t2) * unit, square = w * w;
            both -= both_sigma * MAX(square * square - TENSILE_OFFSET, (wide)0.0f);
        }
        const wide factor = both * (fused_wide(t, fused_wide(t, s2, s1), (wide)(-4.0f * EVEN_0)) * (t2 * t));
        sum.x = fused_wide(factor, d.x, sum.x);
        sum.y = fused_wide(factor, d.y, sum.y);
        sum.z = fused_wide(factor, d.z, sum.z);
    }
    *total = sum;
}
#endif
