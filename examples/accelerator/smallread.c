#include "smallread.h"

#include <stdlib.h>
#include <string.h>

struct kept {
    int64_t start;
    int64_t length;
    unsigned char *data;
    struct kept *next; /* the longer unused ones follow */
};

struct smallread {
    struct smallread_settings settings;
    int64_t *bins; /* of the last reads, a ring; -1 where there was none */
    int64_t place;
    struct kept *first;
    int64_t bytes;
};

static int64_t at_least_one(int64_t value) {
    return value < 1 ? 1 : value;
}

struct smallread *smallread_new(const struct smallread_settings *settings) {
    struct smallread *file = calloc(1, sizeof *file);
    if (file == NULL)
        return NULL;
    file->settings.cluster_threshold = at_least_one(settings->cluster_threshold);
    file->settings.binsize = at_least_one(settings->binsize);
    file->settings.sequence_length = at_least_one(settings->sequence_length);
    file->settings.prefetch_size = at_least_one(settings->prefetch_size);
    if (file->settings.prefetch_size > SMALLREAD_BUDGET)
        file->settings.prefetch_size = SMALLREAD_BUDGET;
    file->bins = calloc((size_t)file->settings.sequence_length, sizeof *file->bins);
    if (file->bins == NULL) {
        free(file);
        return NULL;
    }
    for (int64_t i = 0; i < file->settings.sequence_length; i++)
        file->bins[i] = -1;
    return file;
}

static void forget(struct smallread *file, struct kept **link) {
    struct kept *gone = *link;
    *link = gone->next;
    file->bytes -= gone->length;
    free(gone->data);
    free(gone);
}

void smallread_drop(struct smallread *file) {
    while (file->first != NULL)
        forget(file, &file->first);
}

void smallread_free(struct smallread *file) {
    if (file == NULL)
        return;
    smallread_drop(file);
    free(file->bins);
    free(file);
}

bool smallread_get(struct smallread *file, int64_t offset, int64_t size, void *data) {
    for (struct kept **link = &file->first; *link != NULL; link = &(*link)->next) {
        struct kept *found = *link;
        if (offset < found->start || offset - found->start > found->length - size)
            continue;
        if (data != NULL && found->data != NULL)
            memcpy(data, found->data + (offset - found->start), (size_t)size);
        *link = found->next;
        found->next = file->first;
        file->first = found;
        return true;
    }
    return false;
}

bool smallread_note(struct smallread *file, int64_t offset, int64_t size, int64_t *start, int64_t *length) {
    if (size > file->settings.binsize || size > file->settings.prefetch_size)
        return false;
    int64_t bin = offset / file->settings.binsize, seen = 0;
    file->bins[file->place] = bin;
    file->place = (file->place + 1) % file->settings.sequence_length;
    for (int64_t i = 0; i < file->settings.sequence_length; i++)
        seen += file->bins[i] == bin;
    if (seen < file->settings.cluster_threshold)
        return false;
    *start = bin * file->settings.binsize;
    *length = file->settings.prefetch_size;
    /* A prefetch may be smaller than a bin: then it begins at the read, so that this one is answered by it.
     */
    if (offset + size > *start + *length)
        *start = offset;
    return true;
}

void smallread_keep(struct smallread *file, int64_t start, int64_t length, void *data) {
    struct kept *new = length > 0 ? malloc(sizeof *new) : NULL;
    if (new == NULL) {
        free(data);
        return;
    }
    /* What the new piece holds is never answered from an older one. */
    for (struct kept **link = &file->first; *link != NULL;) {
        if ((*link)->start >= start && (*link)->start + (*link)->length <= start + length)
            forget(file, link);
        else
            link = &(*link)->next;
    }
    *new = (struct kept){start, length, data, file->first};
    file->first = new;
    file->bytes += length;
    while (file->bytes > SMALLREAD_BUDGET && file->first->next != NULL) {
        struct kept **last = &file->first;
        while ((*last)->next != NULL)
            last = &(*last)->next;
        forget(file, last);
    }
}

void smallread_wrote(struct smallread *file, int64_t offset, int64_t size, const void *data) {
    for (struct kept **link = &file->first; *link != NULL;) {
        struct kept *piece = *link;
        int64_t low = offset > piece->start ? offset : piece->start;
        int64_t end = piece->start + piece->length;
        int64_t high = size > INT64_MAX - offset || offset + size > end ? end : offset + size;
        if (low >= high) {
            link = &piece->next;
        } else if (data == NULL) {
            forget(file, link);
        } else {
            if (piece->data != NULL)
                memcpy(piece->data + (low - piece->start), (const unsigned char *)data + (low - offset),
                       (size_t)(high - low));
            link = &piece->next;
        }
    }
}
