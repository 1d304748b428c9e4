// fields.cl: sparse distance fields, sampled. Layout: fields/packed.py; formulas: docs/theory/fields.md.
// They lie behind the rows of the solids, in the same buffer; a row says how far. Twin: backends/reference.

#define FIELD_HEADER 16
#define FIELD_EDGE 9  // values along a leaf

// A unit vector along v; 0 stays 0.
inline float3 direction_of(float3 v)
{
    const float square = dot3(v, v);
    return square > 1e-20f ? v / root_of(square) : (float3)(0.0f);
}

// Beyond the table, q in voxels: at least as far as its box. The way to the box leads into the fluid of a container.
inline float beyond_table(__global const float *f, float3 q, float3 size, float3 *gradient)
{
    const float3 off = (float3)(MAX(0.0f, MIN(q.x, size.x)) - q.x, MAX(0.0f, MIN(q.y, size.y)) - q.y, MAX(0.0f, MIN(q.z, size.z)) - q.z);
    const float side = f[5] < 0.0f ? -1.0f : 1.0f;
    *gradient = -side * direction_of(off);
    return side * (f[4] + f[12] + length3(off) * f[9]);
}

// A tile without a leaf, whose entry says how many tiles away the nearest one is.
inline float far_tile(__global const float *f, int entry, float3 *gradient)
{
    const int code = -1 - entry, way = (code >> 1) & 31;
    const float side = code & 1 ? -1.0f : 1.0f;
    *gradient = -side * direction_of((float3)((float)(way % 3 - 1), (float)(way / 3 % 3 - 1), (float)(way / 9 - 1)));
    return side * (f[4] + 8.0f * (float)((code >> 6) - 1) * f[9]);
}

typedef struct { int entry; uint corner; float3 part; } cell_t;  // leaf or code; first value of the cell; place in it

// The cell of a point, q in voxels from the first. 0 beyond the table.
inline int find_cell(__global const float *f, float3 q, float3 size, cell_t *cell)
{
    if (!(q.x >= 0.0f && q.y >= 0.0f && q.z >= 0.0f && q.x < size.x && q.y < size.y && q.z < size.z)) return 0;
    __global const int *words = (__global const int *)f;
    const int i = (int)q.x, j = (int)q.y, k = (int)q.z;
    cell->entry = words[FIELD_HEADER + ((k >> 3) * words[7] + (j >> 3)) * words[6] + (i >> 3)];
    cell->corner = (uint)(((k & 7) * FIELD_EDGE + (j & 7)) * FIELD_EDGE + (i & 7));
    cell->part = q - (float3)((float)i, (float)j, (float)k);
    return 1;
}

inline float3 table_size(__global const float *f)
{
    __global const int *words = (__global const int *)f;
    return 8.0f * (float3)((float)words[6], (float)words[7], (float)words[8]);
}

// The two numbers of a voxel: its distance, and that of the flat wall which fills as much around it (fields/walls.py).
#define DISTANCE 10
#define WALL 13
// They lie side by side: who asks for one soon asks for the other.
#define LEAF_OF(f, channel, cell) ((f) + as_uint((f)[channel]) + (uint)(cell).entry * 1458U)

// Deep in a leaf all values are -band: its corners still tell where the surface is.
inline float3 coarse_gradient(__global const float *v)
{
    const float3 low = (float3)(v[16] - v[0], v[144] - v[0], v[1296] - v[0]);
    const float3 high = (float3)(v[1456] - v[1440], v[1456] - v[1312], v[1456] - v[160]);
    return low + high;
}

// Distance [m] at a point of the field's frame, and the gradient, not of unit length. channel: DISTANCE or WALL.
inline float sample_field(__global const float *f, const int channel, float3 point, float3 *gradient)
{
    const float3 q = (point - (float3)(f[0], f[1], f[2])) * f[3], size = table_size(f);
    cell_t c;
    if (!find_cell(f, q, size, &c)) return beyond_table(f, q, size, gradient);
    if (c.entry < 0) return far_tile(f, c.entry, gradient);
    __global const float *leaf = LEAF_OF(f, channel, c), *v = leaf + 2U * c.corner;
    const float a000 = v[0], a010 = v[18], a001 = v[162], a011 = v[180];
    const float d00 = v[2] - a000, d10 = v[20] - a010, d01 = v[164] - a001, d11 = v[182] - a011;
    const float x00 = a000 + c.part.x * d00, x10 = a010 + c.part.x * d10, x01 = a001 + c.part.x * d01, x11 = a011 + c.part.x * d11;
    const float y0 = x00 + c.part.y * (x10 - x00), y1 = x01 + c.part.y * (x11 - x01);
    const float e0 = d00 + c.part.y * (d10 - d00), e1 = d01 + c.part.y * (d11 - d01);
    const float phi = y0 + c.part.z * (y1 - y0);
    *gradient = f[3] * (float3)(e0 + c.part.z * (e1 - e0), (x10 - x00) + c.part.z * ((x11 - x01) - (x10 - x00)), y1 - y0);
    if (phi < 0.0f && dot3(*gradient, *gradient) < 1e-12f) *gradient = coarse_gradient(leaf);
    return phi;
}

// What sample_field gives, a quarter of a voxel less: interpolated distances may grow by more than the way.
inline float field_bound(__global const float *f, float3 point)
{
    const float3 q = (point - (float3)(f[0], f[1], f[2])) * f[3], size = table_size(f);
    float3 unused;
    cell_t c;
    if (!find_cell(f, q, size, &c)) return beyond_table(f, q, size, &unused);
    if (c.entry < 0) return far_tile(f, c.entry, &unused);
    __global const float *v = LEAF_OF(f, DISTANCE, c) + 2U * c.corner;
    const float x00 = v[0] + c.part.x * (v[2] - v[0]), x10 = v[18] + c.part.x * (v[20] - v[18]);
    const float x01 = v[162] + c.part.x * (v[164] - v[162]), x11 = v[180] + c.part.x * (v[182] - v[180]);
    const float y0 = x00 + c.part.y * (x10 - x00), y1 = x01 + c.part.y * (x11 - x01);
    return y0 + c.part.z * (y1 - y0) - 0.25f * f[9];
}

// At least how far the solid is (fields/clearance.py): also right where distances end at the band. One read, no leaf.
inline float field_clearance(__global const float *f, float3 point)
{
    const float3 q = (point - (float3)(f[0], f[1], f[2])) * f[3];
    __global const int *words = (__global const int *)f;
    const int i = (int)q.x, j = (int)q.y, k = (int)q.z, nx = words[6], ny = words[7];
    if (!(q.x >= 0.0f && q.y >= 0.0f && q.z >= 0.0f && (i >> 3) < nx && (j >> 3) < ny && (k >> 3) < words[8])) {
        float3 unused;
        return beyond_table(f, q, table_size(f), &unused);
    }
    const uint tile = (uint)(((k >> 3) * ny + (j >> 3)) * nx + (i >> 3));
    const uint cell = (uint)(((k >> 1) & 3) * 16 + ((j >> 1) & 3) * 4 + ((i >> 1) & 3));
    return 0.25f * f[9] * (float)((__global const uchar *)(f + as_uint(f[14])))[64U * tile + cell];
}

// Of a channel of three numbers; 0 where the field has none.
#define VELOCITY 11  // [m/s], in its frame
#define SURFACE 15   // friction, bounce, stickiness
#define HAS_CHANNEL(f, channel) (as_uint((f)[channel]) != 0U)
inline float3 sample_words(__global const float *f, uint start, float3 point)
{
    const float3 q = (point - (float3)(f[0], f[1], f[2])) * f[3];
    cell_t c;
    if (!start || !find_cell(f, q, table_size(f), &c) || c.entry < 0) return (float3)(0.0f);
    __global const float *v = f + start + 3U * ((uint)c.entry * 729U + c.corner);
    float3 sum = (float3)(0.0f);
    for (uint corner = 0; corner < 8; ++corner) {
        const uint x = corner & 1U, y = (corner >> 1) & 1U, z = corner >> 2;
        const float weight = (x ? c.part.x : 1.0f - c.part.x) * (y ? c.part.y : 1.0f - c.part.y) * (z ? c.part.z : 1.0f - c.part.z);
        __global const float *at = v + 3U * (x + 9U * y + 81U * z);
        sum += weight * (float3)(at[0], at[1], at[2]);
    }
    return sum;
}

inline float3 sample_channel(__global const float *f, const int channel, float3 point)
{
    return sample_words(f, as_uint(f[channel]), point);
}

// ---- of a row: two fields, mixed in time ----
#define FIRST_FIELD(s) ((s) + as_uint((s)[26]))
#define SECOND_FIELD(s) ((s) + as_uint((s)[27]))

inline float within_band(float phi, float band) { return MAX(-band, MIN(phi, band)); }

// Distance [m, of the field's frame] and its gradient.
inline float field_distance(__global const float *s, const int channel, float3 point, float3 *gradient)
{
    __global const float *f = FIRST_FIELD(s);
    float phi = sample_field(f, channel, point, gradient);
    if (s[6] > 0.0f) {
        float3 later;
        __global const float *g = SECOND_FIELD(s);
        const float next = sample_field(g, channel, point, &later), share = s[6];
        const float a = within_band(phi, f[4]), b = within_band(next, g[4]);
        // Where neither knows more than the side, the one that is nearer.
        if (a == phi || b == next || (a < 0.0f) != (b < 0.0f)) phi = a + share * (b - a);
        else phi = a < 0.0f ? MAX(phi, next) : MIN(phi, next);
        *gradient += share * (later - *gradient);
    }
    return phi;
}

inline float row_clearance(__global const float *s, float3 point)
{
    const float a = field_clearance(FIRST_FIELD(s), point);
    if (s[6] == 0.0f) return a;
    const float b = field_clearance(SECOND_FIELD(s), point);
    return MIN(a, b);
}

// At most the distance; where that is `enough`, it may be far less than it.
inline float row_bound(__global const float *s, float3 point, float enough)
{
    const float least = row_clearance(s, point);
    if (least >= enough) return least;
    const float a = field_bound(FIRST_FIELD(s), point);
    if (s[6] == 0.0f) return a;
    const float b = field_bound(SECOND_FIELD(s), point);
    return MIN(a, b);
}
