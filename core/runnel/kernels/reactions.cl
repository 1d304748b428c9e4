// reactions.cl: what bodies do to a particle, and what they get back. docs/theory/bodies.md. Twin: backends/reference.
// Only with BODIES; without it, the macros that passes use mean nothing.

#if BODIES
#define BODY_COLUMNS 24
#define BODY_SLOTS 4
#define BODY_OF(s) ((int)(s)[31] - 1)  // -1: none
#define DEFORMS(s) (as_uint((s)[29]) != 0U)
#define NO_REACTION (float4)(0.0f, 0.0f, 0.0f, -1.0f)  // ends the slots of a particle

// Of one particle: the bodies near it, and the changes that come back to them.
typedef struct {
    __global const float *bodies;
    int used, body[BODY_SLOTS];
    float3 back[BODY_SLOTS];
} reaction_t;

#define NEW_REACTION(table) reaction_t reaction_of_particle; reaction_t *reaction = &reaction_of_particle; \
    reaction->bodies = table; reaction->used = 0
#define REACTION_ARGUMENT , reaction_t *reaction
#define PASS_REACTION , reaction
#define BODY_TABLE __global const float *bodies,
#define REACT(s, by) react(reaction, s, by)
#define YIELD(s, x, n) yielding(reaction->bodies, s, x, n)

// Where more bodies meet at one particle than there are slots, the last one gets what is left: nothing is lost.
inline int body_slot(reaction_t *r, int body)
{
    int k = 0;
    while (k < r->used && r->body[k] != body) ++k;
    if (k < r->used) return k;
    if (k == BODY_SLOTS) return BODY_SLOTS - 1;
    r->used = k + 1;
    r->body[k] = body;
    r->back[k] = (float3)(0.0f);
    return k;
}

inline void react(reaction_t *r, __global const float *s, float3 by)
{
    if (BODY_OF(s) >= 0 && dot3(by, by) > 0.0f) r->back[body_slot(r, BODY_OF(s))] -= by;
}

inline float3 body_turn(__global const float *b, float3 x, float3 g)
{
    const float3 t = cross3(x - (float3)(b[0], b[1], b[2]), g);
    return (float3)(b[3] * t.x + b[4] * t.y + b[5] * t.z, b[6] * t.x + b[7] * t.y + b[8] * t.z, b[9] * t.x + b[10] * t.y + b[11] * t.z);
}

#define ABSOLUTE(a) MAX(a, -(a))

// How far a body goes along g at x if all that push it do so as one; columns from `first` on.
inline float body_way(__global const float *b, int first, float3 x, float3 g)
{
    const float3 t = body_turn(b, x, g);
    return ABSOLUTE(g.x) * b[first] + ABSOLUTE(g.y) * b[first + 1] + ABSOLUTE(g.z) * b[first + 2]
         + ABSOLUTE(t.x) * b[first + 3] + ABSOLUTE(t.y) * b[first + 4] + ABSOLUTE(t.z) * b[first + 5];
}

// The same of a deformable body, whose vertices yield each by itself: to pressure, to contact. It stands in the world.
inline float3 vertex_way(__global const float *s, float3 x)
{
    return sample_words(FIRST_FIELD(s), as_uint(s[29]) - as_uint(s[26]), x);
}

// Share of a change along n that a particle makes, the rest being the body's.
inline float yielding(__global const float *bodies, __global const float *s, float3 x, float3 n)
{
    if (BODY_OF(s) < 0) return 1.0f;
    if (DEFORMS(s)) return 1.0f / (1.0f + vertex_way(s, x).y);
    return 1.0f / (1.0f + body_way(bodies + BODY_OF(s) * BODY_COLUMNS, 18, x, n));
}

// Slots of all particles, slot by slot: (what comes back, body); body -1: none, nor in later slots.
inline void store_reaction(reaction_t *r, __global float4 *back_out, uint i, uint stride, float weight)
{
    for (int k = 0; k < r->used; ++k) back_out[k * stride + i] = (float4)(weight * r->back[k], (float)r->body[k]);
    if (r->used < BODY_SLOTS) back_out[r->used * stride + i] = NO_REACTION;
}
#else
#define NEW_REACTION(table)
#define REACTION_ARGUMENT
#define PASS_REACTION
#define BODY_TABLE
#define REACT(s, by)
#define YIELD(s, x, n) 1.0f
#endif
