/* The one table that drives the command line, --help and the JSON's "options". */
#ifndef STRIPEWISE_OPTIONS_H
#define STRIPEWISE_OPTIONS_H

#include "kernel.h"

enum option_kind {
    KIND_FLAG,    /* bool */
    KIND_SIZE,    /* int64_t > 0, with units */
    KIND_COUNT,   /* int64_t > 0, with units */
    KIND_NUMBER,  /* int64_t >= 0, with units */
    KIND_SEED,    /* uint64_t */
    KIND_REAL,    /* double >= 0 */
    KIND_TEXT,    /* char[TEXT_MAX] */
    KIND_API,     /* char[16] */
    KIND_LAYOUT,  /* enum layout */
    KIND_RANDOM,  /* --random: another way to say --layout random */
    KIND_EFFECT,  /* struct effects: KEY=VALUE:FACTOR */
    KIND_SETTING, /* struct effects: KEY=VALUE */
    KIND_SOURCE   /* char[SETTING_MAX] */
};

enum option_group {
    GROUP_GENERAL,
    GROUP_SIZES,
    GROUP_TILE,
    GROUP_CALLS,
    GROUP_RUN,
    GROUP_DUMMY,
    GROUP_COUNT
};

struct option_row {
    const char *name; /* without the dashes */
    char letter;      /* 0: none */
    enum option_kind kind;
    enum option_group group;
    size_t offset; /* of the field in struct options */
    const char *argument;
    const char *help; /* a new line continues below the first */
};

extern const struct option_row option_table[];
extern const int option_rows;

#endif
