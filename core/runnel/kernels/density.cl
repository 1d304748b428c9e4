// density.cl: the density constraint and its multipliers. docs/theory/equations.md (1), (2).
// Twin: backends/reference.

// V_j W^_ij of one neighbour, and the lowest rest density among them.
inline void add_neighbor(
    uint j, real x, real y, real z, real h, real inverse_h, float2 same,
    __global const float4 *xp_in, __global const float4 *material_in, __global const float8 *fluids_in,
    real *fill, real *lowest)
{
    const float h_j = KERNEL_RADIUS_J(j);
    const real3_t d = {x - PLACE(xp_in, j, 0), y - PLACE(xp_in, j, 1), z - PLACE(xp_in, j, 2)};
#ifdef IN_FEWEST_OPERATIONS
    const real t = square_left(d, h * h), t2 = t * t;
    *fill = fused(t2 * t2, w_of(t, inverse_h * inverse_h), *fill);
#else
    *fill += WEIGHT_J(j) * pair_w(d, h, inverse_h, h_j);
#endif
#if MIXED_FLUIDS
    const real rho_j = (real)FLUID_J(j, RHO0);
    *lowest = (square_of(d) < MAX(h * h, (real)(h_j * h_j)) && rho_j < *lowest) ? rho_j : *lowest;
#endif
}

#if EXACT
// Terms of the exact denominator: sum V_j^2/m_j |grad W^|^2 and sum V_j grad W^ (P001 eq. 14).
inline void add_gradient(
    uint j, real x, real y, real z, real h, real inverse_h, float2 same,
    __global const float4 *xp_in, __global const float4 *material_in, __global const float8 *fluids_in,
    real *gx, real *gy, real *gz, real *square)
{
    const real3_t d = {x - PLACE(xp_in, j, 0), y - PLACE(xp_in, j, 1), z - PLACE(xp_in, j, 2)};
    const real g = WEIGHT_J(j) * pair_slope(d, h, inverse_h, KERNEL_RADIUS_J(j)) * PAIR_SLOPE_SCALE(inverse_h);
    *gx += g * d.x;
    *gy += g * d.y;
    *gz += g * d.z;
    *square += g * g * square_of(d) / (FLUID_J(j, RHO0) * VOLUME_J(j));
}
#endif

// weights: of the last change and of the residual (Chebyshev iteration, solver/acceleration.py).
LANES_KERNEL void compute_pressure(
    // model
    __global const float8 *fluids_in, __global const float4 *wall_in, const float2 same,
    // state
    __global const float4 *material_in, __global float4 *xp,
    __global float *pressure, __global float *fluid_fill_out, __global float *fill_out, __global float4 *kept_out, __global float *clear,
    // neighbours
    __global const uint *list_in, __global const uint2 *list_range_in, __global const uint *near_in,
    // solids
    __global const float *solids, const uint solid_count,
    const uint fields, const uint known,  // walls.cl: bits of fields; the same once `clear` tells of them, not in the first iteration
    BODY_TABLE
    const uint count, const float2 weights, const float tension,
    // solver/coarse.py: what long waves add in each iteration, their compression, how much of that is still to come
    __global const float *coarse_in, __global const float *smooth_in, const float to_come)
{
    if (CLUSTER_INDEX * CLUSTER >= count) return;
    const rows_t own = LOAD_ROWS(xp);
    const real x = own.x, y = own.y, z = own.z, last = own.w;
    const real h = KERNEL_RADIUS_I, inverse_h = 1.0f / h;
    const real rho0 = FLUID_I(RHO0);
    const uint2 range = list_range_in[CLUSTER_INDEX];
    real sum = (real)0.0f, lowest = rho0;
#if EXACT
    real gx = (real)0.0f, gy = (real)0.0f, gz = (real)0.0f, square = (real)0.0f;
#endif
#if WIDE
    sum = sum_density_wide(x, y, z, h, inverse_h, xp, list_in + range.x, list_in + LIST_END(range));
#else
    for (uint k = range.x; k < LIST_END(range); ++k) {
        const uint j = NEIGHBOR(list_in[k]);
        add_neighbor(j, x, y, z, h, inverse_h, same, xp, material_in, fluids_in, &sum, &lowest);
#if EXACT
        add_gradient(j, x, y, z, h, inverse_h, same, xp, material_in, fluids_in, &gx, &gy, &gz, &square);
#endif
    }
#endif
    const real fluid = sum * PAIR_W_SCALE(inverse_h);

    real fill = fluid;
#if BODIES
    real yield = (real)0.0f;
#endif
    const uint near = near_in[CLUSTER_INDEX] & ~TWIN_BIT;
    if (near) {
        const real3_t at = {x, y, z};
        real3_t slope;
        NEW_GIVEN(bodies);
        const uint felt = solids_within(near, known, clear_lanes(clear, near, known), h);
        real least = (real)FAR;
        fill += walls_share(solids, solid_count, felt, wall_in, at, h, inverse_h, kept_out, &least, &slope, 0 PASS_GIVEN);
        if (felt & fields) STORE_FLOAT(least, clear);
#if EXACT
        gx += slope.x; gy += slope.y; gz += slope.z;
#endif
#if BODIES
        yield = pressure_yield(given, at);
#endif
    }

    // (2): K rhomin, softer where compression brings more neighbours
    const real stiffness = STIFFNESS * h * h;
    const real c = fill - 1.0f;
#if EXACT
    const real volume = VOLUME_I;
    const real denominator = volume * (square + (gx * gx + gy * gy + gz * gz) / (rho0 * volume)
                                       + 0.01f / (rho0 * volume * stiffness));
    real per_compression = 1.0f / denominator;
#else
    const real crowd = MAX(fill, (real)1.0f);
    real per_compression = lowest * stiffness / (crowd * crowd * crowd);
#endif
#if BODIES
    if (ANY_LANE(yield > 0.0f)) per_compression /= 1.0f + per_compression * yield;  // what bodies yield, pressure need not do
#endif
    const real before = LOAD_FLOAT(pressure);
    // Multipliers add up over the iterations of a step: never above what tension allows, so that
    // an iteration that went too far is taken back.
    real last_total = before + weights.x * last, rest = c;
    if (to_come > 0.0f) {
        last_total += (1.0f - weights.x) * LOAD_FLOAT(coarse_in);  // it has no momentum
        rest -= to_come * LOAD_FLOAT(smooth_in);
    }
    const real total = MIN(last_total - weights.y * per_compression * rest,
                           tension * lowest * stiffness * FLUID_I(ATTRACTION));
    const real change = total - before;
    STORE_FLOAT(total, pressure);
    STORE(change, xp, w);  // neighbours read places only
    STORE_FLOAT(fluid, fluid_fill_out);
    STORE_FLOAT(fill, fill_out);
}

// The first part of what long waves add (solver/coarse.py). It takes pressure away, but never pulls.
LANES_KERNEL void add_coarse(__global float4 *xp, __global float *pressure, __global const float *coarse_in, const uint count)
{
    const uint i = get_global_id(0);
    if (i >= count) return;
    const float before = pressure[i];
    const float total = MIN(before + coarse_in[i], MAX(before, 0.0f));
    pressure[i] = total;
    xp[i].w += total - before;
}

// Mean and largest compression, per tile; summed by the host in a fixed order.
LANES_KERNEL void sum_compression(__global const float *fill_in, __global float2 *tile_out, const uint count, const uint tiles)
{
    const uint tile = get_global_id(0);
    if (tile >= tiles) return;
    const uint begin = (uint)((ulong)count * tile / tiles), end = (uint)((ulong)count * (tile + 1) / tiles);
    float sum = 0.0f, largest = 0.0f;
    for (uint i = begin; i < end; ++i) {
        const float c = MAX(fill_in[i] - 1.0f, 0.0f);
        sum += c;
        largest = MAX(largest, c);
    }
    tile_out[tile] = (float2)(sum, largest);
}
