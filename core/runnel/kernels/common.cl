// common.cl: types, lanes and smoothing kernels shared by all passes.
//
// Particles are sorted along a space-filling curve and taken eight at a time. A *cluster* of eight
// shares one list of neighbours j; its eight particles i are the lanes of a vector.
//   LANES_IN_VECTOR 1: a work-item is a cluster, `real` is float8 (CPUs: explicit SIMD)
//   LANES_IN_VECTOR 0: a work-item is a particle, `real` is float (GPUs: eight items share a list)
// The same pass source serves both.
//
// Defines: LANES_IN_VECTOR, DIMENSIONS, KERNEL_{EVEN,WENDLAND,POLY6,CUBIC,GAUSSIAN}, MIXED_SIZES, MIXED_FLUIDS,
// and the constants of solver/calibration.py.

// CPU runtimes built on clang: its own builtins become instructions, where OpenCL's are calls. Elsewhere they may not exist.
#if defined(__clang__) && (defined(__x86_64__) || defined(__aarch64__))
#define INLINES_BUILTINS 1
#else
#define INLINES_BUILTINS 0
#endif

// Kernels whose work-items are wide enough. Without the hint Intel's compiler spreads vectors of eight over eight work-items more:
// five times slower, and wrong near fields.
#if LANES_IN_VECTOR
#define LANES_KERNEL __kernel __attribute__((vec_type_hint(float8)))
#else
#define LANES_KERNEL __kernel
#endif

#define CLUSTER 8
#define EMPTY_KEY 0xffffffffffffffffUL

// Written as comparisons: some CPU runtimes call max() and min() instead of inlining them.
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))

#if LANES_IN_VECTOR
// Eight floats at any address. Some CPU runtimes call vload8() instead of inlining it.
#if INLINES_BUILTINS
typedef float8 __attribute__((aligned(4))) loose_float8;
#define LOAD8(a) (*(const loose_float8 *)(a))
#define LOAD8_GLOBAL(a) (*(__global const loose_float8 *)(a))
#define STORE8_GLOBAL(value, a) (*(__global loose_float8 *)(a) = (value))
typedef uint8 __attribute__((aligned(4))) loose_uint8;
#define STORE8(value, a) (*(loose_float8 *)(a) = (value))
#define STORE8_INDICES(value, a) (*(loose_uint8 *)(a) = (value))
#define LOAD8_INDICES(a) (*(const loose_uint8 *)(a))
#define BYTES_TO_UINTS(v) __builtin_convertvector(v, uint8)
#else
#define LOAD8(a) vload8(0, a)
#define LOAD8_GLOBAL(a) vload8(0, a)
#define STORE8_GLOBAL(value, a) vstore8(value, 0, a)
#define STORE8(value, a) vstore8(value, 0, a)
#define STORE8_INDICES(value, a) vstore8(value, 0, a)
#define LOAD8_INDICES(a) vload8(0, a)
#define BYTES_TO_UINTS(v) convert_uint8(v)
#endif
typedef float8 real;
typedef int8 lanes_mask;
#define CLUSTER_INDEX ((uint)get_global_id(0))
#define GATHER(a, m) (real)(a[0].m, a[1].m, a[2].m, a[3].m, a[4].m, a[5].m, a[6].m, a[7].m)
#define LOAD(a, m) GATHER(((a) + CLUSTER * CLUSTER_INDEX), m)
#define LOAD_FLOAT(a) LOAD8_GLOBAL((a) + CLUSTER * CLUSTER_INDEX)
#define STORE_FLOAT(value, a) STORE8_GLOBAL(value, (a) + CLUSTER * CLUSTER_INDEX)
#define SCATTER(a, m, v) do { a[0].m = v.s0; a[1].m = v.s1; a[2].m = v.s2; a[3].m = v.s3; \
                              a[4].m = v.s4; a[5].m = v.s5; a[6].m = v.s6; a[7].m = v.s7; } while (0)
#define STORE(value, a, m) SCATTER(((a) + CLUSTER * CLUSTER_INDEX), m, value)
// All four numbers of the cluster's rows, by whole vectors and shuffles where compilers know them.
#if INLINES_BUILTINS
typedef float16 __attribute__((aligned(16))) four_rows;
#define EVERY_FOURTH(a, b, k) __builtin_shufflevector(a, b, k, 4 + k, 8 + k, 12 + k, 16 + k, 20 + k, 24 + k, 28 + k)
#define LOAD_ROWS(a) load_rows((__global const four_rows *)((a) + CLUSTER * CLUSTER_INDEX))
#define STORE_ROWS(rows, a) store_rows(rows, (__global four_rows *)((a) + CLUSTER * CLUSTER_INDEX))
#else
#define LOAD_ROWS(a) ((rows_t){LOAD(a, x), LOAD(a, y), LOAD(a, z), LOAD(a, w)})
#define STORE_ROWS(rows, a) \
    do { STORE((rows).x, a, x); STORE((rows).y, a, y); STORE((rows).z, a, z); STORE((rows).w, a, w); } while (0)
#endif
#define FOR_LANES for (uint lane = 0; lane < CLUSTER; ++lane)
#define LANE_PARTICLE (CLUSTER * CLUSTER_INDEX + lane)
#define SUM_LANES(v) (((v.s0 + v.s1) + (v.s2 + v.s3)) + ((v.s4 + v.s5) + (v.s6 + v.s7)))
#define LANE_OF(v) (((float *)&v)[lane])
#define FLAG_OF(v) (((int *)&v)[lane])
typedef uint8 lanes_uint;
#if INLINES_BUILTINS
#define TO_INT(v) __builtin_convertvector(v, int8)
#define TO_REAL(v) __builtin_convertvector(v, float8)
// Eight words, each of a number that counts up below, and one above it.
#define STORE_WORDS(upper, first, a) \
    (((__global ulong8 *)(a))[CLUSTER_INDEX] = __builtin_convertvector(upper, ulong8) << 32 | ((ulong8)(0, 1, 2, 3, 4, 5, 6, 7) + (ulong)(first)))
#else
#define TO_INT(v) convert_int8_rtz(v)
#define TO_REAL(v) convert_float8(v)
#endif
#else
typedef uint lanes_uint;
#define TO_INT(v) ((int)(v))
#define TO_REAL(v) ((float)(v))
#define ANY_LANE(condition) (condition)
typedef float real;
typedef int lanes_mask;
#define CLUSTER_INDEX ((uint)get_global_id(0) / CLUSTER)
#define LOAD(a, m) ((a)[get_global_id(0)].m)
#define LOAD_FLOAT(a) ((a)[get_global_id(0)])
#define STORE_FLOAT(value, a) ((a)[get_global_id(0)] = (value))
#define STORE(value, a, m) ((a)[get_global_id(0)].m = (value))
#define LOAD_ROWS(a) ((rows_t){LOAD(a, x), LOAD(a, y), LOAD(a, z), LOAD(a, w)})
#define STORE_ROWS(rows, a) ((a)[get_global_id(0)] = (float4)((rows).x, (rows).y, (rows).z, (rows).w))
#define FOR_LANES for (uint lane = 0; lane < 1; ++lane)
#define LANE_PARTICLE ((uint)get_global_id(0))
#define LANE_OF(v) (v)
#define FLAG_OF(v) (v)
#endif

// Written out, for the same reason.
#if INLINES_BUILTINS
inline float root_of(float x) { return __builtin_sqrtf(x); }
#else
inline float root_of(float x) { return sqrt(x); }
#endif
inline float dot3(float3 a, float3 b) { return a.x * b.x + (a.y * b.y + a.z * b.z); }
inline float length3(float3 a) { return root_of(dot3(a, a)); }
inline float3 cross3(float3 a, float3 b)
{
    return (float3)(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}

#if INLINES_BUILTINS
#define FORCE_INLINE inline __attribute__((always_inline))
#define POPCOUNT(x) ((uint)__builtin_popcount(x))
#else
#define FORCE_INLINE inline
#define POPCOUNT(x) popcount(x)
#endif

// Square root of x > 0. x86 runtimes built on clang give the hardware's estimate of the reciprocal root
// (12 bits), sharpened by one Newton step; elsewhere the runtime's own root.
#if LANES_IN_VECTOR && defined(__has_builtin)
#if __has_builtin(__builtin_ia32_rsqrtps256)
#define HAVE_AVX_RSQRT 1
#endif
#endif
#ifdef HAVE_AVX_RSQRT
typedef float avx_float8 __attribute__((vector_size(32)));
inline real root(real x)
{
    union { real lanes; avx_float8 avx; } u;
    u.lanes = x;
    u.avx = __builtin_ia32_rsqrtps256(u.avx);
    const real r = x * u.lanes;
    return r * (1.5f - 0.5f * r * u.lanes);
}
#else
inline real root(real x) { return sqrt(x); }
#endif

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
#define ANY_LANE(condition) (bits_of(condition) != 0U)

// Element places[k] of v, for each lane k.
#if defined(HAVE_AVX_RSQRT) && defined(__AVX2__)
typedef int avx_int8 __attribute__((vector_size(32)));
inline float8 permuted(float8 v, uint8 places)
{
    union { float8 lanes; avx_float8 avx; } u = {v};
    union { uint8 lanes; avx_int8 avx; } p = {places};
    u.avx = __builtin_ia32_permvarsf256(u.avx, p.avx);
    return u.lanes;
}
#define PERMUTE(v, places) permuted(v, places)
#else
#define PERMUTE(v, places) shuffle(v, places)
#endif
#endif

// Vectors of sixteen, where they are one instruction.
#if LANES_IN_VECTOR && INLINES_BUILTINS && defined(__AVX512F__) && defined(__AVX512DQ__)
#define HAVE_AVX512 1
// Compilers tuned for the first of these CPUs halve such vectors unless a function insists.
#define BATCH_FUNCTION inline __attribute__((min_vector_width(512)))
typedef float avx_float16 __attribute__((vector_size(64)));
typedef int avx_int16 __attribute__((vector_size(64)));
typedef float16 __attribute__((aligned(4))) loose_float16;
typedef uint16 __attribute__((aligned(4))) loose_uint16;
BATCH_FUNCTION uint bits_of_16(int16 inside)
{
    union { int16 lanes; avx_int16 avx; } u = {inside};
    return (uint)__builtin_ia32_cvtd2mask512(u.avx) & 0xffffU;
}
// Those whose bit is set, side by side; then zeros.
BATCH_FUNCTION float16 packed_16(float16 v, uint bits)
{
    union { float16 lanes; avx_float16 avx; } u = {v}, none = {(float16)(0.0f)};
    u.avx = __builtin_ia32_compresssf512_mask(u.avx, none.avx, (ushort)bits);
    return u.lanes;
}
#else
#define BATCH_FUNCTION inline
#endif

// a b + c in one operation. Compilers fuse by themselves, but reorder sums first and miss some.
#if LANES_IN_VECTOR && defined(__has_builtin)
#if __has_builtin(__builtin_ia32_vfmaddps256) && defined(__FMA__)
#define HAVE_AVX_FMA 1
#endif
#endif
#ifdef HAVE_AVX_FMA
inline real fused(real a, real b, real c)
{
    union { real lanes; avx_float8 avx; } u = {a}, v = {b}, w = {c};
    u.avx = __builtin_ia32_vfmaddps256(u.avx, v.avx, w.avx);
    return u.lanes;
}
#else
inline real fused(real a, real b, real c) { return mad(a, b, c); }
#endif

typedef struct { real x, y, z; } real3_t;
typedef struct { real x, y, z, w; } rows_t;

#ifdef EVERY_FOURTH
FORCE_INLINE rows_t load_rows(__global const four_rows *at)
{
    const float16 a = at[0], b = at[1];
    const rows_t rows = {EVERY_FOURTH(a, b, 0), EVERY_FOURTH(a, b, 1), EVERY_FOURTH(a, b, 2), EVERY_FOURTH(a, b, 3)};
    return rows;
}
FORCE_INLINE void store_rows(rows_t rows, __global four_rows *at)
{
    const float16 xy = __builtin_shufflevector(rows.x, rows.y, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    const float16 zw = __builtin_shufflevector(rows.z, rows.w, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    at[0] = __builtin_shufflevector(xy, zw, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23);
    at[1] = __builtin_shufflevector(xy, zw, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31);
}
#endif

// ---- smoothing kernels of q^2 = (r/h)^2, normalised to the lattice: W^ = W / S0 (docs/theory) ----
// kernel_w * W_SCALE / h^D is W^;  kernel_slope * SLOPE_SCALE / h^(D+2) is (dW^/dr)/r. Both are 0 from q = 1 on.
#if KERNEL_EVEN
inline real even_w(real t)  // t = 1 - q^2, at least 0
{
    return fused(t, fused(t, (real)EVEN_2, (real)EVEN_1), (real)EVEN_0) * ((t * t) * (t * t));
}
inline real even_slope(real t)
{
    return (t * t) * t * fused(t, fused(t, (real)(-6.0f * EVEN_2), (real)(-5.0f * EVEN_1)), (real)(-4.0f * EVEN_0));
}
inline real kernel_w(real q2) { return even_w(MAX(1.0f - q2, (real)0.0f)); }
inline real kernel_slope(real q2) { return even_slope(MAX(1.0f - q2, (real)0.0f)); }
#elif KERNEL_WENDLAND
inline real kernel_w(real q2)
{
    const real s = MAX(1.0f - root(q2), (real)0.0f), s2 = s * s;
    return s2 * s2 * (5.0f - 4.0f * s);
}
inline real kernel_slope(real q2)
{
    const real s = MAX(1.0f - root(q2), (real)0.0f);
    return -s * s * s;
}
#elif KERNEL_POLY6
inline real kernel_w(real q2)
{
    const real t = MAX(1.0f - q2, (real)0.0f);
    return t * t * t;
}
inline real kernel_slope(real q2)
{
    const real q = root(q2), s = MAX(1.0f - q, (real)0.0f);  // spiky
    return -s * s / MAX(q, (real)1e-6f);
}
#elif KERNEL_CUBIC
inline real kernel_w(real q2)
{
    const real q = root(q2), outer = MAX(1.0f - q, (real)0.0f);
    const real inner = MAX(0.5f - q, (real)0.0f);  // 2(1-q)^3 - 8(1/2-q)^3 is the inner branch
    return 2.0f * outer * outer * outer - 8.0f * inner * inner * inner;
}
inline real kernel_slope(real q2)
{
    const real q = root(q2), outer = MAX(1.0f - q, (real)0.0f);
    const real inner = MAX(0.5f - q, (real)0.0f);
    return (-6.0f * outer * outer + 24.0f * inner * inner) / MAX(q, (real)1e-6f);
}
#elif KERNEL_GAUSSIAN
inline real kernel_w(real q2)
{
    const real value = exp(-GAUSSIAN_SHARPNESS * q2) - GAUSSIAN_TAIL;
    return q2 < 1.0f ? value : (real)0.0f;  // exactly 0: ghosts are 1e9 m away, and so are their differences
}
inline real kernel_slope(real q2)
{
    const real value = -exp(-GAUSSIAN_SHARPNESS * q2);
    return q2 < 1.0f ? value : (real)0.0f;
}
#endif

inline real power_of_dimension(real x) { return DIMENSIONS == 3 ? x * x * x : x * x; }
inline real power_of_8(real x) { return (x * x) * (x * x) * ((x * x) * (x * x)); }

// A well-mixed 32-bit hash: the source of every "random" direction, the same on all devices.
#define MIX(x) x ^= x >> 16; x *= 0x7feb352dU; x ^= x >> 15; x *= 0x846ca68bU; return x ^ (x >> 16)
inline uint hash_uint(uint x) { MIX(x); }
inline lanes_uint hash_lanes(lanes_uint x) { MIX(x); }

// Direction in the space of the scene, from a hash; not of unit length but never 0.
inline float3 hash_direction(uint seed)
{
    const uint a = hash_uint(seed), b = hash_uint(a), c = hash_uint(b);
    float3 u = (float3)((float)(a >> 8), (float)(b >> 8), (float)(c >> 8)) * (2.0f / 16777216.0f) - 1.0f;
    u += (u.x * u.x + u.y * u.y + u.z * u.z < 1e-4f) ? (float3)(0.5f, 0.5f, 0.5f) : (float3)(0.0f);
#if IGNORED_AXIS == 1
    u.y = 0.0f; u.x += u.x < 0.0f ? -0.1f : 0.1f;
#elif IGNORED_AXIS == 2
    u.z = 0.0f; u.x += u.x < 0.0f ? -0.1f : 0.1f;
#endif
    return u;
}

// ---- particles and fluids ----
// xp: predicted position, and the multiplier p that the next correction applies.
// material: (h [m], V [m^D], phase, id). fluids: (rho0, c, f, g, vorticity, -, -, -) per phase.
// Where all particles have one size (one fluid), the lanes and their neighbours take it from the
// argument `same` = (h, V) (from fluid 0): compilers then hoist everything that depends on it.
#if MIXED_SIZES
#define KERNEL_RADIUS_I LOAD(material_in, x)
#define VOLUME_I LOAD(material_in, y)
#define KERNEL_RADIUS_J(j) material_in[j].x
#define VOLUME_J(j) material_in[j].y
#else
#define KERNEL_RADIUS_I ((real)same.x)
#define VOLUME_I ((real)same.y)
#define KERNEL_RADIUS_J(j) same.x
#define VOLUME_J(j) same.y
#endif
// Of one size: less a factor that the passes put outside their loops, with PAIR_*_SCALE.
#if MIXED_SIZES
#define WEIGHT_J(j) VOLUME_J(j)
#else
#define WEIGHT_J(j) 1.0f
#endif
// One coordinate of xp[j], alone: while the density is summed, its fourth number is being written by others.
#define PLACE(xp, j, axis) (((__global const float *)((xp) + (j)))[axis])
#define PHASE(i) as_uint(material_in[i].z)
#define PARTICLE_ID(i) as_uint(material_in[i].w)
#if MIXED_FLUIDS
#define FLUID_J(j, m) fluids_in[PHASE(j)].m
#if LANES_IN_VECTOR
#define FLUID_OF(k, m) fluids_in[PHASE(CLUSTER * CLUSTER_INDEX + k)].m
#define FLUID_I(m) (real)(FLUID_OF(0, m), FLUID_OF(1, m), FLUID_OF(2, m), FLUID_OF(3, m), \
                          FLUID_OF(4, m), FLUID_OF(5, m), FLUID_OF(6, m), FLUID_OF(7, m))
#else
#define FLUID_I(m) fluids_in[PHASE(get_global_id(0))].m
#endif
#else
#define FLUID_J(j, m) fluids_in[0].m
#define FLUID_I(m) ((real)fluids_in[0].m)
#endif
#define RHO0 s0
#define VISCOSITY s1
#define ATTRACTION s2
#define TENSILE s3
#define VORTICITY s4

// Squared distance plus a trace where kernels take its root.
inline real square_of(real3_t d) { return d.x * d.x + (d.y * d.y + (d.z * d.z + (KERNEL_EVEN ? 0.0f : 1e-24f))); }

// Kernel value and slope of a pair at distance d, averaged over both sizes (P004 eq. 3, 4), lattice-normalised.
// Of one size: less a factor that the passes put outside their loops, PAIR_W_SCALE and PAIR_SLOPE_SCALE.
#if MIXED_SIZES
inline real pair_w(real3_t d, real h_i, real inverse_h_i, float h_j)
{
    const real r2 = square_of(d);
    const float inverse_h_j = 1.0f / h_j;
    return 0.5f * W_SCALE * (kernel_w(r2 * (inverse_h_i * inverse_h_i)) * power_of_dimension(inverse_h_i)
                             + kernel_w(r2 * (inverse_h_j * inverse_h_j)) * power_of_dimension((real)inverse_h_j));
}
inline real pair_slope(real3_t d, real h_i, real inverse_h_i, float h_j)
{
    const real r2 = square_of(d), square_i = inverse_h_i * inverse_h_i;
    const float inverse_h_j = 1.0f / h_j, square_j = inverse_h_j * inverse_h_j;
    return 0.5f * SLOPE_SCALE * (kernel_slope(r2 * square_i) * power_of_dimension(inverse_h_i) * square_i
                                 + kernel_slope(r2 * square_j) * power_of_dimension((real)inverse_h_j) * square_j);
}
#elif KERNEL_EVEN && MODERATE_RADII
#define IN_FEWEST_OPERATIONS 1
// In the fewest operations: h^2 t = h^2 - r^2 is not divided by h^2, so values come in units of h^8, slopes in units of
// h^6. Radii must not be extreme, or these powers leave the range of floats.
inline real square_left(real3_t d, real h2)
{
    const real left = fused(-d.x, d.x, fused(-d.y, d.y, fused(-d.z, d.z, h2)));
    return MAX(left, (real)0.0f);
}
inline real w_of(real t, real i2)  // less a factor t^4
{
    return fused(t, fused(t, EVEN_2 * i2 * i2, EVEN_1 * i2), (real)EVEN_0);
}
inline real slope_of(real t, real i2)
{
    return fused(t, fused(t, -6.0f * EVEN_2 * i2 * i2, -5.0f * EVEN_1 * i2), (real)(-4.0f * EVEN_0)) * ((t * t) * t);
}
inline real pair_w(real3_t d, real h, real inverse_h, float h_j)
{
    const real t = square_left(d, h * h), t2 = t * t;
    return w_of(t, inverse_h * inverse_h) * (t2 * t2);
}
inline real pair_slope(real3_t d, real h, real inverse_h, float h_j)
{
    return slope_of(square_left(d, h * h), inverse_h * inverse_h);
}
#define PAIR_W_UNIT(inverse_h) power_of_8(inverse_h)
#define PAIR_SLOPE_UNIT(inverse_h) (power_of_8(inverse_h) / ((inverse_h) * (inverse_h)))
#else
inline real pair_w(real3_t d, real h, real inverse_h, float h_j) { return kernel_w(square_of(d) * (inverse_h * inverse_h)); }
inline real pair_slope(real3_t d, real h, real inverse_h, float h_j) { return kernel_slope(square_of(d) * (inverse_h * inverse_h)); }
#endif

#ifndef PAIR_W_UNIT
#define PAIR_W_UNIT(inverse_h) ((real)1.0f)
#define PAIR_SLOPE_UNIT(inverse_h) ((real)1.0f)
#endif
#if MIXED_SIZES
#define PAIR_W_SCALE(inverse_h) ((real)1.0f)
#define PAIR_SLOPE_SCALE(inverse_h) ((real)1.0f)
#else
#define PAIR_W_SCALE(inverse_h) (same.y * W_SCALE * power_of_dimension(inverse_h) * PAIR_W_UNIT(inverse_h))
#define PAIR_SLOPE_SCALE(inverse_h) \
    (same.y * SLOPE_SCALE * power_of_dimension(inverse_h) * (inverse_h) * (inverse_h) * PAIR_SLOPE_UNIT(inverse_h))
#endif

// Closer than the spacing at rest, over h^2: what the tensile correction acts on.
#define CLOSE_SQUARE (4.0004f / (SUPPORT * SUPPORT))

// ---- neighbour lists: a range is (first entry, number of entries and, above it, how many of them are close) ----
#define LIST_END(range) ((range).x + ((range).y & 0xffffU))
#define CLOSE_END(range) ((range).x + ((range).y >> 16))

// ---- entries of neighbour lists: j, and above it a bit per lane that j is in reach of at the start of a step ----
// Corrections keep to those pairs: one that comes into reach later may stand in the list of one side
// only, and would push without being pushed. Beyond 2^24 particles there is no room for the bits.
#if MASKED_LISTS
#define ENTRY(j, lanes) ((j) | ((lanes) << 24))
#define NEIGHBOR(entry) ((entry) & 0xffffffU)
#if LANES_IN_VECTOR
inline real where_listed(uint entry, real value)
{
    const int8 sign = (int8)((int)entry) << (int8)(7, 6, 5, 4, 3, 2, 1, 0);  // negative where the lane's bit is set
    return sign < 0 ? value : (real)0.0f;
}
#else
inline real where_listed(uint entry, real value)
{
    return (entry >> (24 + get_global_id(0) % CLUSTER)) & 1U ? value : 0.0f;
}
#endif
#else
#define ENTRY(j, lanes) (j)
#define NEIGHBOR(entry) (entry)
inline real where_listed(uint entry, real value) { return value; }
#endif

// h^2 of the lanes that an entry is for; of others a number so low that nothing is in reach. Eight lanes read it from a table by
// the entry's bits: that takes no operation of the loop.
#if MASKED_LISTS && LANES_IN_VECTOR
#define REACH_SQUARE(entry, h) (reach_in[(entry) >> 24])
#elif MASKED_LISTS
#define REACH_SQUARE(entry, h) ((entry) >> (24 + get_global_id(0) % CLUSTER) & 1U ? (h) * (h) : -1e30f)
#else
#define REACH_SQUARE(entry, h) ((h) * (h))
#endif

// Bit tests: fast-math lets a compiler assume that isfinite() is always true.
inline int is_bad(float x) { return (as_uint(x) & 0x7f800000U) == 0x7f800000U; }
