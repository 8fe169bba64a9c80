/* The accesses of a synthetic program: bursts of small reads and writes round places that move over the file.
 */
#ifndef PATTERN_H
#define PATTERN_H

#include <stdbool.h>
#include <stdint.h>

struct pattern {
    uint64_t seed;
    int64_t operations;
    double read_ratio;
    int64_t size; /* of one operation; each is between half of it and all of it */
    int64_t file_size;
    int64_t spread; /* bytes round a place in which a burst falls */
    int64_t burst;  /* operations before the program goes to another place */
    double stray;   /* share of operations that fall anywhere */
};

struct access {
    bool read;
    int64_t offset;
    int64_t size;
};

/* The accesses from the first to the last, the same on every machine. */
struct walk {
    const struct pattern *pattern;
    uint64_t state;
    int64_t done;
    int64_t place;
};

struct walk walk_begin(const struct pattern *pattern);
bool walk_next(struct walk *walk, struct access *access);

/* The content of the file before the first access. */
unsigned char pattern_byte(uint64_t seed, int64_t offset);

#endif
