#include "pattern.h"

/* SplitMix64 (Steele, Lea and Flood, 2014). */
static uint64_t draw(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static double draw_unit(uint64_t *state) {
    return (double)(draw(state) >> 11) * 0x1p-53;
}

static int64_t draw_below(uint64_t *state, int64_t bound) {
    return bound < 2 ? 0 : (int64_t)(draw_unit(state) * (double)bound);
}

struct walk walk_begin(const struct pattern *pattern) {
    return (struct walk){pattern, pattern->seed, 0, 0};
}

bool walk_next(struct walk *walk, struct access *access) {
    const struct pattern *p = walk->pattern;
    if (walk->done >= p->operations)
        return false;
    int64_t least = p->size / 2 < 1 ? 1 : p->size / 2;
    int64_t size = least + draw_below(&walk->state, p->size - least + 1);
    if (size > p->file_size)
        size = p->file_size;
    int64_t room = p->file_size - size + 1;
    if (p->burst < 1 || walk->done % p->burst == 0)
        walk->place = draw_below(&walk->state, room);
    access->read = draw_unit(&walk->state) < p->read_ratio;
    if (draw_unit(&walk->state) < p->stray)
        access->offset = draw_below(&walk->state, room);
    else
        access->offset = walk->place + draw_below(&walk->state, p->spread);
    if (access->offset >= room)
        access->offset = room - 1;
    access->size = size;
    walk->done++;
    return true;
}

unsigned char pattern_byte(uint64_t seed, int64_t offset) {
    uint64_t state = seed ^ (uint64_t)(offset / 8) * UINT64_C(0x2545f4914f6cdd1d);
    return (unsigned char)(draw(&state) >> (offset % 8 * 8));
}
