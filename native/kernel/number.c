/* Numbers as users write them: sizes with binary units, seeds, reals; the mixing of bits that all random
 * choices share; and datatypes of many bytes. */
#include "kernel.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

uint64_t mix64(uint64_t value) {
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

static const struct {
    const char *name;
    int shift;
} units[] = {{"", 0},     {"b", 0},  {"k", 10},   {"kib", 10}, {"m", 20},
             {"mib", 20}, {"g", 30}, {"gib", 30}, {"t", 40},   {"tib", 40}};

const char *parse_size(const char *text, int64_t *bytes) {
    static const char *const malformed = "is not a size; write it like 512, 1k, 4m, 1g or \"64 MiB\"";
    while (isspace((unsigned char)*text))
        text++;
    if (*text == '-')
        return "is negative";
    if (!isdigit((unsigned char)*text))
        return malformed;
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno == ERANGE)
        return "is too large";
    while (isspace((unsigned char)*end))
        end++;
    size_t length = strlen(end);
    while (length > 0 && isspace((unsigned char)end[length - 1]))
        length--;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strlen(units[i].name) != length || strncasecmp(end, units[i].name, length) != 0)
            continue;
        if (__builtin_mul_overflow((int64_t)number, (int64_t)1 << units[i].shift, bytes))
            return "is too large";
        return NULL;
    }
    if (length == 2 && tolower((unsigned char)end[1]) == 'b' &&
        strchr("kmgt", tolower((unsigned char)end[0])))
        return "has a decimal unit; sizes are binary: write k, m, g, t or KiB, MiB, GiB, TiB";
    return malformed;
}

const char *parse_seed(const char *text, uint64_t *seed) {
    if (!isdigit((unsigned char)*text))
        return "is not a whole number";
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno == ERANGE)
        return "is too large";
    if (*end != '\0')
        return "is not a whole number";
    *seed = number;
    return NULL;
}

const char *parse_real(const char *text, double *value) {
    char *end = NULL;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(number))
        return "is not a number";
    if (number < 0)
        return "is negative";
    *value = number;
    return NULL;
}

void mpi_bytes(int64_t bytes, MPI_Datatype *type, int *count) {
    const int chunk = 1 << 30;
    if (bytes <= INT_MAX) {
        *type = MPI_BYTE;
        *count = (int)bytes;
        return;
    }
    MPI_Datatype chunk_type, chunks;
    MPI_Type_contiguous(chunk, MPI_BYTE, &chunk_type);
    MPI_Type_contiguous((int)(bytes / chunk), chunk_type, &chunks);
    int lengths[2] = {1, (int)(bytes % chunk)};
    MPI_Aint places[2] = {0, (MPI_Aint)(bytes - bytes % chunk)};
    MPI_Datatype parts[2] = {chunks, MPI_BYTE};
    MPI_Type_create_struct(lengths[1] > 0 ? 2 : 1, lengths, places, parts, type);
    MPI_Type_commit(type);
    MPI_Type_free(&chunks);
    MPI_Type_free(&chunk_type);
    *count = 1;
}
