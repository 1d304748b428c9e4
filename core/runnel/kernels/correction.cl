// correction.cl: position corrections and contact. docs/theory/equations.md (3), (4), walls.
// Twin: backends/reference.

// (4): pairs closer than the rest spacing repel.
inline real tensile_correction(
    uint j, real3_t d, real h, real inverse_h, float h_j, real rho0, real sigma, float tensile,
    __global const float4 *material_in, __global const float8 *fluids_in)
{
#if MIXED_SIZES
    const real w = pair_w(d, h, inverse_h, h_j)
        / (0.5f * TENSILE_REFERENCE * (power_of_dimension(inverse_h) + 1.0f / power_of_dimension((real)h_j)));
#else
    const real w = pair_w(d, h, inverse_h, h_j) * (PAIR_W_UNIT(inverse_h) * (W_SCALE / TENSILE_REFERENCE));
#endif
    const real w2 = w * w;
    const real excess = MAX(w2 * w2 - TENSILE_OFFSET, (real)0.0f);
#if MIXED_FLUIDS || MIXED_SIZES
    const real sigma_j = (real)(tensile * RELAXATION * STIFFNESS * FLUID_J(j, TENSILE) * FLUID_J(j, RHO0) * h_j * h_j);
    // Between densities the weaker of both, as for the stiffness.
    const real differ = rho0 - FLUID_J(j, RHO0);
    const real both = differ == 0.0f ? sigma + sigma_j : 2.0f * MIN(sigma, sigma_j);
#else
    const real both = 2.0f * sigma;
#endif
    return -both * excess;
}

// `acts` is known at each call: two versions of the loop, of which the one without is shorter.
inline void add_correction(
    const int acts, float tensile, uint entry, real x, real y, real z, real p, real h, real inverse_h, real rho0, real sigma, float2 same,
    __global const float4 *xp_in, __global const float4 *material_in, __global const float8 *fluids_in, __global const real *reach_in,
    real3_t *sum)
{
    const uint j = NEIGHBOR(entry);
    const float4 q = xp_in[j];
    const float h_j = KERNEL_RADIUS_J(j);
    const real3_t d = {x - q.x, y - q.y, z - q.z};
    real both = p + q.w;
    if (acts) both += tensile_correction(j, d, h, inverse_h, h_j, rho0, sigma, tensile, material_in, fluids_in);
#ifdef IN_FEWEST_OPERATIONS
    const real factor = both * slope_of(square_left(d, REACH_SQUARE(entry, h)), inverse_h * inverse_h);
#else
    const real factor = where_listed(entry, WEIGHT_J(j) * both * pair_slope(d, h, inverse_h, h_j));
#endif
    sum->x = fused(factor, d.x, sum->x);
    sum->y = fused(factor, d.y, sum->y);
    sum->z = fused(factor, d.z, sum->z);
}

// Twins at one place have no direction to part in: they take one from their ids, and keep their centre of mass.
inline float3 part_twins(
    uint i, uint first, uint end, __global const uint *list_in, __global const float4 *xp_in, __global const float4 *material_in,
    __global const float8 *fluids_in)
{
    const float4 at = xp_in[i];
    const uint id = PARTICLE_ID(i);
    const float mass = fluids_in[PHASE(i)].RHO0 * material_in[i].y;
    float3 sum = (float3)(0.0f);
    for (uint k = first; k < end; ++k) {
        const uint j = NEIGHBOR(list_in[k]);
        const float3 apart = at.xyz - xp_in[j].xyz;
        const float h = MIN(material_in[i].x, material_in[j].x);
        if (j == i || dot3(apart, apart) >= 1e-10f * h * h) continue;
        const uint other = PARTICLE_ID(j);
        const float mass_j = fluids_in[PHASE(j)].RHO0 * material_in[j].y;
        const float share = 2.0f * mass_j / (mass + mass_j);
        const float sign = id < other ? 1.0f : -1.0f;
        sum += sign * share * 0.03f * h * hash_direction(MIN(id, other) * 0x9E3779B9U + MAX(id, other));
    }
    return sum;
}

// Share of r added to the contact distance: no two particles on one plane (row A17, P003 3.2.5).
inline float contact_distance(float h, uint id)
{
    return (h / SUPPORT) * (1.0f + 0.01f * (float)(hash_uint(id) >> 8) * (1.0f / 16777216.0f));
}

inline real contact_lanes(real h, lanes_uint id)
{
    return (h / SUPPORT) * (1.0f + 0.01f * TO_REAL(hash_lanes(id) >> 8) * (1.0f / 16777216.0f));
}

// The wall mirrors the change dp of a particle's pressure, but never its tension: walls do not attract.
inline real mirrored_pressure(real total, real change)
{
    return MIN(total, (real)0.0f) - MIN(total - change, (real)0.0f);
}

#if BODIES
// What corrections have moved a cluster's particles by in this step, added up beside x*. x* + dx drops what is below half of its last
// digit; v = (x* - x)/dt would not get that, but the bodies that gave it would lose it. moved_xy: all x, then all y.
FORCE_INLINE void add_moved(real3_t by, __global float *moved_xy, __global float *moved_z, uint stride, uint begins)
{
    if (!begins) {
        by.x += LOAD_FLOAT(moved_xy); by.y += LOAD_FLOAT(moved_xy + stride); by.z += LOAD_FLOAT(moved_z);
    }
    STORE_FLOAT(by.x, moved_xy); STORE_FLOAT(by.y, moved_xy + stride); STORE_FLOAT(by.z, moved_z);
}
#endif

// push: what walls have moved particles by, of clusters near one. begins: the first iteration of a step.
// tensile: strength of s_ij, 0 after the first iteration of a step. It acts once: it is not bounded by a constraint, and adding it in
// every iteration would tear strong tension apart.
LANES_KERNEL void correct_positions(
    // model
    __global const float8 *fluids_in, __global const float4 *wall_in, __global const real *reach_in, const float2 same,
    // state
    __global const float4 *material_in, __global const float4 *xp_in, __global const float *pressure_in,
    __global const float *fluid_fill_in, __global const float *fill_in,
    __global float4 *xp_out, __global float4 *push, __global float *clear,  // xp_out: until then what walls.cl kept
    // neighbours
    __global const uint *list_in, __global const uint2 *list_range_in, __global const uint *near_in,
    // solids
    __global const float *solids, const uint solid_count,
    const uint telling,  // bits of those whose share tells that they are near
    const uint known,  // of those that `clear` tells of, walls.cl
    BODY_TABLE
#if BODIES
    __global float4 *back_out, __global float *moved_xy, __global float *moved_z, const uint stride, const uint body_bits,
#endif
    const uint count, const float tensile, const uint begins)
{
    if (CLUSTER_INDEX * CLUSTER >= count) return;
    const rows_t own = LOAD_ROWS(xp_in);
    const real x = own.x, y = own.y, z = own.z, p = own.w;
    const real h = KERNEL_RADIUS_I, inverse_h = 1.0f / h;
    const real rho0 = FLUID_I(RHO0);
    const real sigma = tensile * RELAXATION * STIFFNESS * FLUID_I(TENSILE) * rho0 * h * h;
    const uint2 range = list_range_in[CLUSTER_INDEX];
    const uint end = LIST_END(range);
    real3_t sum = {(real)0.0f, (real)0.0f, (real)0.0f};
    uint k = range.x;
#if WIDE
    const real3_t place = {x, y, z};
    wide3_t wide_sum = {(wide)0.0f, (wide)0.0f, (wide)0.0f};
    if (tensile > 0.0f) {
        const uint close_end = k + (CLOSE_END(range) - k + 1) / 2 * 2;  // what is not close adds nothing
        add_corrections_wide(1, place, p, h, inverse_h, sigma, xp_in, reach_in, list_in + k, list_in + close_end, &wide_sum);
        k = close_end;
    }
    add_corrections_wide(0, place, p, h, inverse_h, sigma, xp_in, reach_in, list_in + k, list_in + end, &wide_sum);
    sum.x = halves_added(wide_sum.x); sum.y = halves_added(wide_sum.y); sum.z = halves_added(wide_sum.z);
#else
    if (tensile > 0.0f)
        for (; k < CLOSE_END(range); ++k)
            add_correction(1, tensile, list_in[k], x, y, z, p, h, inverse_h, rho0, sigma, same, xp_in, material_in, fluids_in, reach_in, &sum);
    for (; k < end; ++k)
        add_correction(0, tensile, list_in[k], x, y, z, p, h, inverse_h, rho0, sigma, same, xp_in, material_in, fluids_in, reach_in, &sum);
#endif
    const real scale = PAIR_SLOPE_SCALE(inverse_h) / rho0;
    real dx = sum.x * scale, dy = sum.y * scale, dz = sum.z * scale;
#if BODIES
    real3_t exact = {dx, dy, dz};
#endif

    const uint near = near_in[CLUSTER_INDEX];
    const real way2 = dx * dx + dy * dy + dz * dz;
    const real off_fields = clear_lanes(clear, near, known);
    const uint felt = solids_within(near, known, off_fields, h);
    // The share of a wall in the density ends 1 - 1/SUPPORT of h off it. Where none is to be seen, those that tell are as far as
    // that, less the last digits, corners of boxes too, and fields h: only a long way meets one.
    const real free_way = h * (0.95f - 2.01f / SUPPORT);
    const int passes_by = !(felt & ~telling)
        && !ANY_LANE(LOAD_FLOAT(fill_in) != LOAD_FLOAT(fluid_fill_in) | way2 >= free_way * free_way);
    if (near && !passes_by) {
        NEW_GIVEN(bodies);
        const real3_t from = {x, y, z};  // where the pressure was measured
        real3_t by = {dx, dy, dz}, slope;
        real unused = (real)FAR;
        walls_share(solids, solid_count, felt, wall_in, from, h, inverse_h, xp_out, &unused, &slope, &by PASS_GIVEN);
        if (near & TWIN_BIT) {
            FOR_LANES {
                if (LANE_PARTICLE >= count) continue;
                const float3 apart = part_twins(LANE_PARTICLE, range.x, end, list_in, xp_in, material_in, fluids_in);
                LANE_OF(by.x) += apart.x; LANE_OF(by.y) += apart.y; LANE_OF(by.z) += apart.z;
            }
        }
        const real mirrored = 2.0f * mirrored_pressure(LOAD_FLOAT(pressure_in), p) / rho0;
        const real3_t before = {x + by.x, y + by.y, z + by.z};
        real3_t moved = {before.x + mirrored * slope.x, before.y + mirrored * slope.y, before.z + mirrored * slope.z};
#if BODIES
        for (int k = 0; k < given->used; ++k) add_times(given->back + k, -mirrored, given->gradient[k]);
#endif
        const uint met = solids_within(near, known, off_fields - longer_way(moved.x - x, moved.y - y, moved.z - z), 1.01f / SUPPORT * h);
        moved = hold_back_lanes(solids, solid_count, met, from, moved, h / SUPPORT PASS_GIVEN);
        moved = put_off_walls(solids, solid_count, met, moved, contact_lanes(h, IDS_I) PASS_GIVEN);
        dx = moved.x - x; dy = moved.y - y; dz = moved.z - z;
        const real3_t change = {moved.x - before.x, moved.y - before.y, moved.z - before.z};
        rows_t pushed = {change.x, change.y, change.z, (real)0.0f};
        if (!begins) {
            const rows_t so_far = LOAD_ROWS(push);
            pushed.x += so_far.x; pushed.y += so_far.y; pushed.z += so_far.z;
        }
        STORE_ROWS(pushed, push);
#if BODIES
        exact.x = fused(mirrored, slope.x, by.x) + given->put.x;
        exact.y = fused(mirrored, slope.y, by.y) + given->put.y;
        exact.z = fused(mirrored, slope.z, by.z) + given->put.z;
        if (near & body_bits) store_given(given, back_out, stride, rho0 * VOLUME_I, count);
#endif
    } else if (near) {
        const rows_t nothing = {(real)0.0f, (real)0.0f, (real)0.0f, (real)0.0f};
        if (begins) STORE_ROWS(nothing, push);
#if BODIES
        FOR_LANES if (near & body_bits && LANE_PARTICLE < count) back_out[LANE_PARTICLE] = NO_REACTION;
#endif
    }
#if BODIES
    add_moved(exact, moved_xy, moved_z, stride, begins);
#endif
    if (near & known) STORE_FLOAT(off_fields - longer_way(dx, dy, dz), clear);
    const rows_t moved_to = {x + dx, y + dy, z + dz, p};  // p: the next iteration's momentum
    STORE_ROWS(moved_to, xp_out);
}
