/* What the accelerator remembers of one file: which small reads came lately, and what it has loaded ahead of
 * others.
 *
 * Reads that fall close together ("a cluster") are noticed by counting, among the last reads, those in the
 * same bin of the file. When a bin has seen enough of them, one large read fetches it and what follows; later
 * reads are answered from memory. This part does no I/O and knows no clock, so that it can be tested and
 * simulated alone. */
#ifndef SMALLREAD_H
#define SMALLREAD_H

#include <stdbool.h>
#include <stdint.h>

struct smallread_settings {
    int64_t cluster_threshold; /* reads of a bin, among the last ones, that make it worth fetching */
    int64_t binsize;           /* bytes of a bin; a read of more is not small and passes by */
    int64_t sequence_length;   /* how many of the last reads are remembered */
    int64_t prefetch_size;     /* bytes fetched at once, from the bin's beginning */
};

/* Most bytes that are kept of one file; the longest unused go first. A fetch of more is cut to this. */
#define SMALLREAD_BUDGET (INT64_C(128) << 20)

struct smallread;

/* NULL where memory is short. The settings are copied; values below 1 count as 1. */
struct smallread *smallread_new(const struct smallread_settings *settings);
void smallread_free(struct smallread *file);

/* Forgets everything that was fetched; the reads remembered stay. */
void smallread_drop(struct smallread *file);

/* Whether size bytes at offset are in memory; then they are copied to data, unless that is NULL. */
bool smallread_get(struct smallread *file, int64_t offset, int64_t size, void *data);

/* Remembers a read, and says whether [*start, *start + *length) should be fetched now. */
bool smallread_note(struct smallread *file, int64_t offset, int64_t size, int64_t *start, int64_t *length);

/* Keeps what was fetched. data is malloced or NULL, and belongs to the file from now on. */
void smallread_keep(struct smallread *file, int64_t start, int64_t length, void *data);

/* Brings a write of the program into what is in memory. With data NULL the range is forgotten instead. */
void smallread_wrote(struct smallread *file, int64_t offset, int64_t size, const void *data);

#endif
