// velocity.cl: forces, velocities from positions, wall response, viscosity, vorticity, removal.
// docs/theory/equations.md: forces, contact, (5), vorticity. Twin: backends/reference.
//
// x: (position, expiry [s]; below 0 once dead). v: (velocity, pressure [Pa]).

#define WIND 0
#define POINT 1
#define VORTEX 2
#define FORCE_COLUMNS 12

inline float3 force_acceleration(__global const float *f, float3 x, float3 v, float dt)
{
    const float3 vector = (float3)(f[3], f[4], f[5]);
    const int kind = (int)f[0];
    if (kind == WIND) return MIN(f[1], 1.0f / dt) * (vector - v);  // at most to the wind's own velocity
    const float3 offset = (float3)(f[6], f[7], f[8]) - x;
    const float distance = length(offset);
    const float weight = f[2] > 1e30f ? 1.0f : MAX(0.0f, 1.0f - distance / f[2]);
    const float3 direction = kind == POINT ? offset : cross(vector, -offset);
    const float length_d = length(direction);
    return length_d > 1e-12f ? f[1] * weight / length_d * direction : (float3)(0.0f);
}

LANES_KERNEL void apply_forces(
    __global const float4 *x_in, __global float4 *v,
    __global const float *forces, const uint force_count, const float4 gravity, const uint count, const float dt)
{
    const uint i = get_global_id(0);
    if (i >= count) return;
    const float3 x = x_in[i].xyz;
    float4 velocity = v[i];
    float3 a = gravity.xyz;
    for (uint f = 0; f < force_count; ++f) a += force_acceleration(forces + f * FORCE_COLUMNS, x, velocity.xyz, dt);
    velocity.xyz += dt * in_scene_plane(a);
    v[i] = velocity;
}

// ---- velocity fields: nodes of (w u, w), x fastest; origin and 1/voxel ----
inline float4 flow_at(__global const float4 *flow, const int4 dims, const float4 place, const float3 x)
{
    const float3 q = (x - place.xyz) * place.w;
    const float3 last = (float3)((float)(dims.x - 1), (float)(dims.y - 1), (float)(dims.z - 1));
    if (!(q.x >= 0.0f && q.y >= 0.0f && q.z >= 0.0f && q.x < last.x && q.y < last.y && q.z < last.z)) return (float4)(0.0f);
    // Devices may assume that there is no NaN: an index has to be held inside by itself.
    const int i = clamp((int)q.x, 0, dims.x - 2), j = clamp((int)q.y, 0, dims.y - 2), k = clamp((int)q.z, 0, dims.z - 2);
    const float fx = q.x - (float)i, fy = q.y - (float)j, fz = q.z - (float)k;
    const size_t row = dims.x, plane = row * dims.y;
    __global const float4 *at = flow + k * plane + j * row + i;
    const float4 a = mix(mix(at[0], at[1], fx), mix(at[row], at[row + 1], fx), fy);
    const float4 b = mix(mix(at[plane], at[plane + 1], fx), mix(at[plane + row], at[plane + row + 1], fx), fy);
    return mix(a, b, fz);
}

// change = dt min(strength, 1/dt)
__kernel void follow(
    __global const float4 *x_in, __global float4 *v,
    __global const float4 *before, const int4 dims, const float4 place,
    __global const float4 *after, const int4 dims_after, const float4 place_after,
    const float share, const float change, const uint count)
{
    const uint i = get_global_id(0);
    if (i >= count) return;
    float4 now = flow_at(before, dims, place, x_in[i].xyz);
    if (share > 0.0f) now = mix(now, flow_at(after, dims_after, place_after, x_in[i].xyz), share);
    float4 velocity = v[i];
    velocity.xyz += in_scene_plane(change * (now.xyz - now.w * velocity.xyz));
    v[i] = velocity;
}

// ---- fast particles: what would pass through a solid within the step is stopped at its surface ----
#define MARCH_STEPS 96
#define MARCH_GAP 0.5f    // of the radius: as near as that, the surface is reached
#define MARCH_LEAST 0.25f  // of the radius: no step is shorter
#define MARCH_DEEPEST -0.5f  // of the radius: what is jammed that deep still has a side to stay on

#define MARCH_GROUP 8U    // particles of a work-item: those side by side in memory mostly are so in space

typedef struct { float time; float3 normal, u; uint solid; } march_t;  // when a solid is met, its normal, way in the step, number

// Of all solids, some cannot be passed.
#define NO_SOLID_AHEAD(ahead, row) ((ahead)->count > FEW_SOLIDS && !can_be_passed(row))

// Solids that a group of particles may meet in a step. reach: how far from the centre something may be that any of it meets.
inline void find_ahead(__global const float *solids, uint solid_count, float3 centre, float reach, few_t *ahead)
{
    uint count = 0;
    for (uint s = 0; s < solid_count; ++s) {
        __global const float *row = solids + s * SOLID_COLUMNS;
        if (!can_be_passed(row) || is_beyond(row, centre, reach) || solid_clearance(row, centre) >= reach) continue;
        if (count < FEW_SOLIDS) ahead->at[count] = (ushort)s;
        ++count;
    }
    ahead->count = count > FEW_SOLIDS ? MAX(solid_count, FEW_SOLIDS + 1U) : count;
}

// Where a particle at p, with `left` of the step to go and moving by `way` in all of it, meets which solid next.
// Solids stand where they end up: seen from there, a point at rest on a solid comes from p + u dt left.
inline march_t nearest_ahead(__global const float *solids, const few_t *ahead, float3 p, float3 way, float left, float dt, float radius)
{
    march_t first = {3e38f, (float3)(0.0f), (float3)(0.0f), 0U};
    for (uint k = 0; k < ahead->count; ++k) {
        const uint s = ONE_OF(ahead, k);
        __global const float *row = solids + s * SOLID_COLUMNS;
        if (NO_SOLID_AHEAD(ahead, row)) continue;
        const float3 u = dt * solid_velocity(row, p);
        float3 n;
        const float phi = solid_distance(row, p + left * u, &n);
        const float3 relative = way - u;
        const float speed = length3(relative);
        const int hit = phi < MARCH_GAP * radius && dot3(relative, n) < -1e-4f * speed;
        const float time = hit ? 0.0f : MAX(phi - MARCH_GAP * radius, MARCH_LEAST * radius) / MAX(speed, 1e-20f);
        if (time < first.time) { first.time = time; first.normal = n; first.u = u; first.solid = s; }
    }
    return first;
}

// Whether any of the solids is near enough, and the way long enough, to be passed through.
inline int is_fast(__global const float *solids, const few_t *ahead, float3 p, float3 way, float dt, float radius)
{
    for (uint k = 0; k < ahead->count; ++k) {
        __global const float *row = solids + ONE_OF(ahead, k) * SOLID_COLUMNS;
        if (NO_SOLID_AHEAD(ahead, row)) continue;
        const float3 u = dt * solid_velocity(row, p);
        const float length = length3(way - u);
        if (length <= radius || solid_clearance(row, p + u) >= length + radius) continue;
        float3 n;
        const float phi = solid_distance(row, p + u, &n);
        if (phi > MARCH_DEEPEST * radius && phi < length + radius) return 1;
    }
    return 0;
}

// Does contact alone bring x back to where it came from? Then nothing has to be done here.
inline int comes_back(__global const float *solids, const few_t *ahead, float3 x, float3 normal, float radius)
{
    for (uint k = 0; k < ahead->count; ++k) {
        __global const float *row = solids + ONE_OF(ahead, k) * SOLID_COLUMNS;
        float3 n;
        if (NO_SOLID_AHEAD(ahead, row)) continue;
        const float phi = solid_distance(row, x, &n);
        // In what may be thin, not far from the surface: pressure would push it on to the other side.
        const float deepest = (int)row[0] == FIELD || IS_SHELL(row) ? -0.5f : -2.0f;
        if (phi < radius) return phi > deepest * radius && dot3(n, normal) > 0.8f;
    }
    return 0;
}

// Velocity of a particle at `start` that meets solids, as they stop it; w: the normal speed it lost. met: the first of them.
inline float4 stopped_velocity(
    __global const float *solids, const few_t *ahead, float3 start, float3 velocity, float dt, float radius, uint *met REACTION_ARGUMENT)
{
    float3 p = start, way = dt * velocity, hit = (float3)(0.0f);
    float left = 1.0f, lost = 0.0f;
    for (uint k = 0; k < MARCH_STEPS && left > 0.0f; ++k) {
        const march_t next = nearest_ahead(solids, ahead, p, way, left, dt, radius);
        if (next.time == 0.0f) {  // reached: the rest of the way goes along the surface
            const float into = dot3(way - next.u, next.normal);
            if (lost == 0.0f) { hit = next.normal; *met = next.solid; }
            lost = MAX(lost, -into / dt);
            way -= into * next.normal;
            continue;
        }
        const float time = MIN(next.time, left);
        p += time * way;
        left -= time;
    }
    if (lost == 0.0f || comes_back(solids, ahead, start + dt * velocity, hit, radius)) return (float4)(velocity, 0.0f);
    const float share = YIELD(solids + *met * SOLID_COLUMNS, p, hit);
    return (float4)((1.0f - share) * velocity + share * (in_scene_plane(p - start) / dt), share * lost);
}

// fastest: no point of a solid moves faster [m/s].
// v.w, free until the end of the step, tells the wall response how fast a stopped particle was: the normal speed it lost.
// near_out, made anew with the lists, tells which groups of particles give something back to bodies: a group is a cluster.
LANES_KERNEL void stop_at_solids(
#if BODIES
    __global const float8 *fluids_in,
#endif
    __global const float4 *material_in, __global const float4 *x_in, __global float4 *v,
    __global const float *solids, const uint solid_count, BODY_TABLE
#if BODIES
    __global float4 *back_out, __global uint *near_out,
#endif
    const uint count, const float dt, const float fastest)
{
    const uint first = get_global_id(0) * MARCH_GROUP, end = MIN(first + MARCH_GROUP, count);
    uint fast = 0;  // bits of those that are: of most, contact finds the solids
#if BODIES
    if (first < count) near_out[get_global_id(0)] = 0;
#endif
    float3 low = (float3)(3e38f), high = (float3)(-3e38f);
    float reach = 0.0f;
    for (uint i = first; i < end; ++i) {
        const float radius = material_in[i].x / SUPPORT, way = dt * (length3(v[i].xyz) + fastest);
        v[i].w = 0.0f;
        if (way <= radius) continue;
        fast |= 1U << (i - first);
        const float3 x = x_in[i].xyz;
        low = (float3)(MIN(low.x, x.x), MIN(low.y, x.y), MIN(low.z, x.z));
        high = (float3)(MAX(high.x, x.x), MAX(high.y, x.y), MAX(high.z, x.z));
        reach = MAX(reach, way + dt * fastest + 2.0f * radius);  // pushed by one solid, it may meet another
    }
    if (!fast) return;
    few_t ahead;
    find_ahead(solids, solid_count, 0.5f * (low + high), 0.5f * length3(high - low) + reach, &ahead);
    if (ahead.count == 0) return;
#if BODIES
    for (uint i = first; i < end; ++i) back_out[i] = NO_REACTION;
#endif
    for (uint i = first; i < end; ++i) {
        if (!(fast & (1U << (i - first)))) continue;
        const float radius = material_in[i].x / SUPPORT;
        const float3 start = x_in[i].xyz, before = v[i].xyz;
        if (!is_fast(solids, &ahead, start, dt * before, dt, radius)) continue;
        NEW_REACTION(bodies);
        uint met = 0;
        const float4 after = stopped_velocity(solids, &ahead, start, before, dt, radius, &met PASS_REACTION);
        if (after.w <= 0.0f) continue;
        v[i] = after;
#if BODIES
        const float mass = fluids_in[PHASE(i)].RHO0 * material_in[i].y;
        back_out[i] = (float4)(mass * (before - after.xyz), (float)BODY_OF(solids + met * SOLID_COLUMNS));
        near_out[get_global_id(0)] |= NEAR_BIT(met);
#endif
    }
}

#define NUDGE 1e-3f  // of the distance of contact: a push below that is none

// Friction, bounce and stickiness of one wall with normal n at distance phi; u is the wall's own velocity.
// drift: what the step moved the particle by, over dt. share: of a velocity, that it may lose; below 1 at a body that yields.
inline float3 respond(
    float3 surface, float phi, float3 n, float3 u, float3 v, float3 v_before,
    float3 push, float contact, float dt, float rest_speed, float lost, float share, float3 *drift)
{
    const float friction = surface.x, bounce = surface.y, stickiness = surface.z;
    const float3 relative = v - u;
    if (phi >= 1.1f * contact) lost = 0.0f;
    const float before = dot3(v_before - u, n), arriving = lost > 0.0f ? -lost : before;
    const float pushed = dot3(push, n) + dt * MAX(before - arriving, 0.0f);
    float normal = dot3(relative, n);
    float3 tangent = relative - normal * n;
    if (pushed > 0.0f) {  // Coulomb: pressure against the wall counts, not contact alone
        const float speed = length3(tangent);
        const float keep = speed > 0.0f ? MAX(1.0f - share, 1.0f - friction * pushed / (dt * speed)) : 1.0f;
        tangent *= keep;
        // The way of this step too: or what friction holds would creep by g dt^2 in each. Not at bodies: their angular
        // momentum is exchanged where particles are.
        const float3 slip = *drift - u;
        if (share == 1.0f) *drift -= (1.0f - keep) * (slip - dot3(slip, n) * n);
    }
    if (phi < 1.1f * contact) {
        // A particle at rest arrives with what gravity gave it in this step: no bounce. Nor off a wall that did not push:
        // in turned containers rounding leaves a trace of one wall's push along the normals of the others.
        if (pushed > NUDGE * contact && -arriving > rest_speed) {
            normal = MAX(normal, (1.0f - share) * normal - share * bounce * arriving);
        }
        if (stickiness > 0.0f) {
            const float keep = 1.0f - share + share * pow(MAX(1.0f - stickiness, 0.0f), 60.0f * dt);
            tangent *= keep;
            if (normal > 0.0f) normal *= keep;
            const float3 slip = *drift - u;
            *drift -= (1.0f - keep) * (slip - MIN(dot3(slip, n), 0.0f) * n);
        }
    }
    return u + normal * n + tangent;
}

inline float3 wall_response(
    __global const float *solids, uint solid_count, uint near, float3 x, float3 v, float3 v_before,
    float3 push, float h, float contact, float dt, float rest_speed, float lost, float3 *drift REACTION_ARGUMENT)
{
    // No wall pushed: only stickiness can act.
    const int still = push.x == 0.0f && push.y == 0.0f && push.z == 0.0f && lost == 0.0f;
    for (uint s = 0; s < solid_count; ++s) {
        if (!IS_NEAR(near, s)) continue;
        __global const float *row = solids + s * SOLID_COLUMNS;
        const int field = (int)row[0] == FIELD, varied = field && HAS_CHANNEL(SECOND_FIELD(row), SURFACE);
        if (still && !varied && row[4] == 0.0f) continue;
        if (is_beyond(row, x, h) || (field && solid_clearance(row, x) >= h)) continue;
        const float3 surface = solid_surface(row, x);
        if (still && surface.z == 0.0f) continue;
        const float3 u = solid_velocity(row, x);
        const int faces = IS_CONTAINER(row) ? 3 : 1;
        for (int face = 0; face < faces; ++face) {
            float3 n;
            const float phi = faces == 3 ? face_distance(row, x, face, &n) : solid_distance(row, x, &n);
            const float own = can_be_passed(row) ? lost : 0.0f;
            if (phi < h) {
                const float3 unchanged = v;
                v = respond(surface, phi, n, u, v, v_before, push, contact, dt, rest_speed, own, YIELD(row, x, n), drift);
                REACT(row, v - unchanged);
            }
        }
    }
    return v;
}

LANES_KERNEL void update_velocities(
    __global const float4 *material_in, __global float4 *xp, __global const float *pressure_in,
    __global const float4 *push_in, __global const uint *near_in,
    __global float4 *x, __global float4 *v,
    __global const float *solids, const uint solid_count, BODY_TABLE
#if BODIES
    __global const float8 *fluids_in, __global float4 *back_out, __global const float *moved_xy, __global const float *moved_z,
    const uint stride, const uint body_bits, const uint corrected,  // corrected: whether anything has been moved
#endif
    const uint holding,  // bits of solids that may act on what they did not push
    const uint count, const float dt, const float rest_speed, const uint stopped)
{
    if (CLUSTER_INDEX * CLUSTER >= count) return;
    const rows_t from = LOAD_ROWS(x), was = LOAD_ROWS(v);
    rows_t to = LOAD_ROWS(xp);
    const real inverse_dt = (real)(1.0f / dt);
#if BODIES
    // v + sum dx/dt: the rounding of x* + dx stays out of v too (correction.cl).
    real3_t velocity = {was.x, was.y, was.z};
    if (corrected) {
        velocity.x = fused(LOAD_FLOAT(moved_xy), inverse_dt, was.x);
        velocity.y = fused(LOAD_FLOAT(moved_xy + stride), inverse_dt, was.y);
        velocity.z = fused(LOAD_FLOAT(moved_z), inverse_dt, was.z);
    }
#else
    // (x* - x)/dt, written so that the rounding of x + dt v stays out of v.
    const real span = (real)dt;
    real3_t velocity = {was.x + (to.x - fused(span, was.x, from.x)) * inverse_dt, was.y + (to.y - fused(span, was.y, from.y)) * inverse_dt,
                        was.z + (to.z - fused(span, was.z, from.z)) * inverse_dt};
#endif
    const uint near = near_in[CLUSTER_INDEX] & ~TWIN_BIT;
    lanes_mask met = (lanes_mask)(near & holding ? -1 : 0);
    if (near && !(near & holding)) {
        const rows_t pushed = LOAD_ROWS(push_in);
        met = pushed.x != 0.0f | pushed.y != 0.0f | pushed.z != 0.0f;
        if (stopped) met |= was.w != 0.0f;
    }
#if BODIES
    FOR_LANES if (near & body_bits && !FLAG_OF(met) && LANE_PARTICLE < count) back_out[LANE_PARTICLE] = NO_REACTION;
#endif
    if (ANY_LANE(met)) {
        FOR_LANES {
            const uint i = LANE_PARTICLE;
            if (i >= count || !FLAG_OF(met)) continue;
            const float h = material_in[i].x;
            const float3 at = (float3)(LANE_OF(to.x), LANE_OF(to.y), LANE_OF(to.z));
            const float3 before = (float3)(LANE_OF(was.x), LANE_OF(was.y), LANE_OF(was.z));
            const float3 moved = (float3)(LANE_OF(velocity.x), LANE_OF(velocity.y), LANE_OF(velocity.z));
            float3 drift = moved;
            NEW_REACTION(bodies);
            const float3 after = wall_response(
                solids, solid_count, near, at, moved, before, push_in[i].xyz, h, contact_distance(h, PARTICLE_ID(i)), dt, rest_speed,
                stopped ? LANE_OF(was.w) : 0.0f, &drift PASS_REACTION);
#if BODIES
            if (near & body_bits)
                store_reaction(reaction, back_out, i, stride, fluids_in[PHASE(i)].RHO0 * material_in[i].y);
#endif
            const float3 back = dt * (moved - drift);
            LANE_OF(velocity.x) = after.x; LANE_OF(velocity.y) = after.y; LANE_OF(velocity.z) = after.z;
            LANE_OF(to.x) -= back.x; LANE_OF(to.y) -= back.y; LANE_OF(to.z) -= back.z;
        }
        STORE_ROWS(to, xp);
    }
    const rows_t place = {to.x, to.y, to.z, from.w};
    STORE_ROWS(place, x);
    // Pressure: what p pushes with on the lattice, where sum V x dW/dx is -1/CURL_SCALE instead of -1.
    const rows_t speed = {velocity.x, velocity.y, velocity.z, LOAD_FLOAT(pressure_in) * (-1.0f / (CURL_SCALE * dt * dt))};
    STORE_ROWS(speed, v);
}

// ---- viscosity: XSPH, symmetric between phases (5) ----
inline void add_drag(
    uint entry, real x, real y, real z, real vx, real vy, real vz, real h, real inverse_h, real rho, real c, float2 same,
    __global const float4 *xp_in, __global const float4 *v_in, __global const float *fill_in,
    __global const float4 *material_in, __global const float8 *fluids_in, real3_t *sum)
{
    const uint j = NEIGHBOR(entry);
    const float4 q = xp_in[j];
    const float4 u = v_in[j];
    const real3_t d = {x - q.x, y - q.y, z - q.z};
    const float rho_j = FLUID_J(j, RHO0) * MAX(fill_in[j], 0.5f);
    const real damping = MIN(c, (real)FLUID_J(j, VISCOSITY));
    const real weight = where_listed(
        entry, damping * pair_w(d, h, inverse_h, KERNEL_RADIUS_J(j)) * (FLUID_J(j, RHO0) * WEIGHT_J(j)) / (rho + rho_j));
    sum->x += weight * (u.x - vx);
    sum->y += weight * (u.y - vy);
    sum->z += weight * (u.z - vz);
}

LANES_KERNEL void apply_viscosity(
    __global const float8 *fluids_in, const float2 same,
    __global const float4 *material_in, __global const float4 *xp_in, __global const float4 *v_in,
    __global const float *fill_in, __global float4 *v_out,
    __global const uint *list_in, __global const uint2 *list_range_in,
    const uint count, const float inverse_passes)
{
    if (CLUSTER_INDEX * CLUSTER >= count) return;
    const real x = LOAD(xp_in, x), y = LOAD(xp_in, y), z = LOAD(xp_in, z);
    const real vx = LOAD(v_in, x), vy = LOAD(v_in, y), vz = LOAD(v_in, z);
    const real h = KERNEL_RADIUS_I, inverse_h = 1.0f / h;
    const real own_fill = LOAD_FLOAT(fill_in);
    const real rho = FLUID_I(RHO0) * MAX(own_fill, (real)0.5f);
    const real c = FLUID_I(VISCOSITY);
    const uint2 range = list_range_in[CLUSTER_INDEX];
    real3_t sum = {(real)0.0f, (real)0.0f, (real)0.0f};
    // A pair is damped by the thinner of its fluids: what has no viscosity keeps its velocity, whatever is around it.
    const uint end = ANY_LANE(c > (real)0.0f) ? LIST_END(range) : range.x;
    for (uint k = range.x; k < end; ++k)
        add_drag(list_in[k], x, y, z, vx, vy, vz, h, inverse_h, rho, c, same, xp_in, v_in, fill_in, material_in, fluids_in, &sum);
    const real scale = 2.0f * inverse_passes * PAIR_W_SCALE(inverse_h);
    STORE((vx + sum.x * scale), v_out, x);
    STORE((vy + sum.y * scale), v_out, y);
    STORE((vz + sum.z * scale), v_out, z);
    STORE(LOAD(v_in, w), v_out, w);
}

// ---- vorticity: P001 eq. 18, 19 ----
inline void add_curl(
    uint j, real x, real y, real z, real vx, real vy, real vz, real h, real inverse_h, float2 same,
    __global const float4 *xp_in, __global const float4 *v_in, __global const float4 *material_in, real3_t *sum)
{
    const float4 q = xp_in[j];
    const float4 u = v_in[j];
    const real3_t d = {x - q.x, y - q.y, z - q.z};
    const real g = WEIGHT_J(j) * pair_slope(d, h, inverse_h, KERNEL_RADIUS_J(j));
    const real ux = vx - u.x, uy = vy - u.y, uz = vz - u.z;
    // (v_i - v_j) x (x_i - x_j) dW/dr / r: a rotation Omega gives 2 Omega
    sum->x += g * (uy * d.z - uz * d.y);
    sum->y += g * (uz * d.x - ux * d.z);
    sum->z += g * (ux * d.y - uy * d.x);
}

LANES_KERNEL void compute_vorticity(
    const float2 same, __global const float4 *material_in, __global const float4 *xp_in, __global const float4 *v_in,
    __global float4 *vorticity_out, __global const uint *list_in, __global const uint2 *list_range_in, const uint count)
{
    if (CLUSTER_INDEX * CLUSTER >= count) return;
    const real x = LOAD(xp_in, x), y = LOAD(xp_in, y), z = LOAD(xp_in, z);
    const real vx = LOAD(v_in, x), vy = LOAD(v_in, y), vz = LOAD(v_in, z);
    const real h = KERNEL_RADIUS_I, inverse_h = 1.0f / h;
    const uint2 range = list_range_in[CLUSTER_INDEX];
    real3_t w = {(real)0.0f, (real)0.0f, (real)0.0f};
    for (uint k = range.x; k < LIST_END(range); ++k) {
        add_curl(NEIGHBOR(list_in[k]), x, y, z, vx, vy, vz, h, inverse_h, same, xp_in, v_in, material_in, &w);
    }
    const real scale = CURL_SCALE * PAIR_SLOPE_SCALE(inverse_h);
    w.x *= scale; w.y *= scale; w.z *= scale;
    const real square = w.x * w.x + w.y * w.y + w.z * w.z;
    STORE(w.x, vorticity_out, x);
    STORE(w.y, vorticity_out, y);
    STORE(w.z, vorticity_out, z);
    STORE(sqrt(square), vorticity_out, w);
}

inline void add_swirl(
    uint j, real x, real y, real z, real strength, real h, real inverse_h, float2 same,
    __global const float4 *xp_in, __global const float4 *vorticity_in, __global const float4 *material_in, real3_t *sum)
{
    const float4 q = xp_in[j];
    const real3_t d = {x - q.x, y - q.y, z - q.z};
    const real g = WEIGHT_J(j) * pair_slope(d, h, inverse_h, KERNEL_RADIUS_J(j)) * (vorticity_in[j].w - strength);
    sum->x = fused(g, d.x, sum->x);
    sum->y = fused(g, d.y, sum->y);
    sum->z = fused(g, d.z, sum->z);
}

// v += dt eps h (N x omega), N = eta/|eta|, eta the gradient of |omega| (P001 eq. 19)
LANES_KERNEL void apply_confinement(
    __global const float8 *fluids_in, const float2 same,
    __global const float4 *material_in, __global const float4 *xp_in, __global const float4 *vorticity_in, __global float4 *v,
    __global const uint *list_in, __global const uint2 *list_range_in, const uint count, const float dt)
{
    if (CLUSTER_INDEX * CLUSTER >= count) return;
    const real x = LOAD(xp_in, x), y = LOAD(xp_in, y), z = LOAD(xp_in, z);
    const real wx = LOAD(vorticity_in, x), wy = LOAD(vorticity_in, y), wz = LOAD(vorticity_in, z), strength = LOAD(vorticity_in, w);
    const real h = KERNEL_RADIUS_I, inverse_h = 1.0f / h;
    const uint2 range = list_range_in[CLUSTER_INDEX];
    real3_t eta = {(real)0.0f, (real)0.0f, (real)0.0f};
    for (uint k = range.x; k < LIST_END(range); ++k) {
        add_swirl(NEIGHBOR(list_in[k]), x, y, z, strength, h, inverse_h, same, xp_in, vorticity_in, material_in, &eta);
    }
    const real length2 = eta.x * eta.x + eta.y * eta.y + eta.z * eta.z;
    const real scale = length2 > 1e-30f
        ? dt * FLUID_I(VORTICITY) * h / root(MAX(length2, (real)1e-30f)) : (real)0.0f;
    const real vx = LOAD(v, x) + scale * (eta.y * wz - eta.z * wy);
    const real vy = LOAD(v, y) + scale * (eta.z * wx - eta.x * wz);
    const real vz = LOAD(v, z) + scale * (eta.x * wy - eta.y * wx);
    STORE(vx, v, x);
    STORE(vy, v, y);
    STORE(vz, v, z);
}

// ---- removal and survey ----
LANES_KERNEL void remove_particles(
    __global float4 *x, __global const float *sinks, const uint sink_count,
    const float4 low, const float4 high, const float time, const uint count)
{
    const uint i = get_global_id(0);
    if (i >= count) return;
    const float4 at = x[i];
    int dead = at.w <= time
        || at.x < low.x || at.y < low.y || at.z < low.z || at.x > high.x || at.y > high.y || at.z > high.z;
    for (uint s = 0; s < sink_count; ++s) {
        float3 n;
        dead |= solid_distance(sinks + s * SOLID_COLUMNS, at.xyz, &n) < 0.0f;
    }
    if (dead) x[i].w = -1.0f;
}

// Per tile: largest speed^2, first particle whose state is not finite, number of dead, -; and how many have which speed.
#define SPEED_BINS 64
#define FIRST_SPEED 214  // by the exponent of speed^2 and the bit below it: 2^-20 m^2/s^2
LANES_KERNEL void survey(
    __global const float4 *x_in, __global const float4 *v_in, __global float4 *tile_out, __global uint *speeds_out,
    const uint count, const uint tiles)
{
    const uint tile = get_global_id(0);
    if (tile >= tiles) return;
    const uint begin = (uint)((ulong)count * tile / tiles), end = (uint)((ulong)count * (tile + 1) / tiles);
    float fastest = 0.0f;
    uint bad = UINT_MAX, dead = 0, speeds[SPEED_BINS];
    int4 largest = (int4)(0);
    for (uint bin = 0; bin < SPEED_BINS; ++bin) speeds[bin] = 0;
    for (uint i = begin; i < end; ++i) {
        const float4 v = v_in[i], x = x_in[i];
        largest = largest_bits(largest_bits(largest, x), v);
        if (x.w < 0.0f) { ++dead; continue; }
        const float square = v.x * v.x + v.y * v.y + v.z * v.z;
        fastest = MAX(fastest, square);
        const int bin = (int)(as_uint(square) >> 22) - FIRST_SPEED;
        speeds[MAX(0, MIN(bin, SPEED_BINS - 1))]++;
    }
    if (any_is_bad(largest))
        for (uint i = begin; i < end && bad == UINT_MAX; ++i)
            if (any_is_bad(largest_bits(largest_bits((int4)(0), x_in[i]), v_in[i]))) bad = i;
    tile_out[tile] = (float4)(fastest, as_float(bad), as_float(dead), 0.0f);
    for (uint bin = 0; bin < SPEED_BINS; ++bin) speeds_out[tile * SPEED_BINS + bin] = speeds[bin];
}

// All tiles' numbers together, behind their other results: one small transfer to the host.
LANES_KERNEL void sum_speeds(__global const uint *speeds_in, __global uint *tile_out, const uint tiles)
{
    const uint bin = get_global_id(0);
    if (bin >= SPEED_BINS) return;
    uint sum = 0;
    for (uint tile = 0; tile < tiles; ++tile) sum += speeds_in[tile * SPEED_BINS + bin];
    tile_out[4 * tiles + bin] = sum;
}
