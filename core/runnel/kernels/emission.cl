// emission.cl: what is needed where fluid comes in. docs/theory/equations.md: emitters. Twin: backends/reference.

// Velocity of the particles in a nozzle: that of the stream, but for `slack` of its speed, whatever acted on them.
// held_in: their ids, rising; few beside all particles, so most are told apart by the first comparison.
__kernel void hold_velocities(
    __global const float4 *material_in, __global float4 *v,
    __global const uint *held_in, __global const float4 *held_velocity_in, const uint held_count,
    const uint count, const float slack)
{
    const uint i = get_global_id(0);
    if (i >= count) return;
    const uint id = PARTICLE_ID(i);
    if (id < held_in[0] || id > held_in[held_count - 1]) return;
    uint low = 0, high = held_count - 1;  // the first that is not below id
    while (low < high) {
        const uint middle = (low + high) / 2;
        if (held_in[middle] < id) low = middle + 1; else high = middle;
    }
    if (held_in[low] != id) return;
    const float3 stream = held_velocity_in[low].xyz, off = v[i].xyz - stream;
    const float most = slack * length3(stream), way = length3(off);
    if (way > most) v[i].xyz = stream + (most / way) * off;
}

// Positions in any of the boxes (low, high), in no particular order; `used` counts all of them, also those beyond `capacity`.
__kernel void gather_inside(
    __global const float4 *x_in, __global const float4 *boxes_in, const uint box_count,
    __global float4 *found_out, volatile __global uint *used, const uint capacity, const uint count)
{
    const uint i = get_global_id(0);
    if (i >= count) return;
    const float4 x = x_in[i];
    if (x.w < 0.0f) return;  // dead
    for (uint b = 0; b < box_count; ++b) {
        const float4 low = boxes_in[2 * b], high = boxes_in[2 * b + 1];
        if (x.x < low.x || x.y < low.y || x.z < low.z || x.x > high.x || x.y > high.y || x.z > high.z) continue;
        const uint place = atomic_inc(used);
        if (place < capacity) found_out[place] = x;
        return;
    }
}
