/* SPDX-License-Identifier: BSD-3-Clause */
#include "history.h"

#include <string.h>

bool sw_fold_digits(const char *name, char *folded, size_t size) {
    size_t used = 0;
    for (; *name; name++) {
        bool digit = *name >= '0' && *name <= '9';
        if (digit && used && folded[used - 1] == '#' && name[-1] >= '0' && name[-1] <= '9')
            continue;
        if (used + 1 >= size)
            return false;
        folded[used++] = digit ? '#' : *name;
    }
    if (!size)
        return false;
    folded[used] = '\0';
    return true;
}

static struct sw_past *find(struct sw_history *history, const char *name, bool write) {
    for (size_t i = 0; i < SW_HISTORY_FAMILIES; i++)
        if (history->families[i].name && history->families[i].write == write &&
            strcmp(history->families[i].name, name) == 0)
            return &history->families[i];
    return NULL;
}

void sw_history_learn(struct sw_history *history, struct sw_arena *arena, const char *path,
                      struct sw_past past) {
    char folded[SW_MAX_PATH];
    if (!sw_fold_digits(path, folded, sizeof folded))
        return;
    sw_lock_take(&history->lock);
    struct sw_past *family = find(history, folded, past.write);
    if (!family) {
        family = &history->families[0];
        for (size_t i = 1; i < SW_HISTORY_FAMILIES; i++)
            if (history->families[i].used < family->used)
                family = &history->families[i];
        *family = (struct sw_past){.name = sw_arena_intern(arena, folded), .write = past.write};
    }
    past.name = family->name;
    past.opens = family->opens + 1;
    past.used = ++history->clock;
    *family = past;
    sw_lock_release(&history->lock);
}

void sw_history_recall(struct sw_history *history, const char *path, bool write, double stored,
                       struct sw_workload *workload) {
    char folded[SW_MAX_PATH];
    struct sw_workload seen = {.extras = 0};
    if (!sw_fold_digits(path, folded, sizeof folded))
        return;
    sw_lock_take(&history->lock);
    struct sw_past *family = find(history, folded, write);
    if (family) {
        family->used = ++history->clock;
        if (family->file_size > 0)
            sw_workload_number(&seen, SW_WORD_FILE_SIZE,
                               stored > 0 && family->stored > 0 ? stored * family->file_size / family->stored
                                                                : family->file_size);
        if (family->transfer_size > 0)
            sw_workload_number(&seen, SW_WORD_TRANSFER_SIZE, family->transfer_size);
        if (family->collective >= 0)
            sw_workload_number(&seen, SW_WORD_COLLECTIVE, family->collective);
        if (family->strided >= 0)
            sw_workload_text(&seen, SW_WORD_LAYOUT, family->strided ? "strided" : "segmented");
    }
    sw_lock_release(&history->lock);
    sw_workload_fill(workload, &seen);
}
