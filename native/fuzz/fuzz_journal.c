/* SPDX-License-Identifier: BSD-3-Clause
 * The journal's reader, and that of settings, on any bytes. Checksums are put right first, so that what is
 * behind them is reached; what was read comes out the same when it is written and read again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "journal.h"
#include "plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition) {
    if (!condition)
        abort();
}

static void check_settings(const char *text) {
    struct sw_decided_set set, again;
    char written[SW_MAX_DECIDED * (SW_DECIDED_KEY + SW_DECIDED_VALUE + 16)], twice[sizeof written];
    if (!sw_settings_parse(text, &set)) {
        demand(set.count == 0);
        return;
    }
    demand(set.count <= SW_MAX_DECIDED && sw_settings_print(&set, written, sizeof written));
    demand(sw_settings_parse(written, &again) && again.count == set.count);
    demand(sw_settings_print(&again, twice, sizeof twice) && strcmp(written, twice) == 0);
}

static void take(const struct sw_phase *phase, void *context) {
    char line[SW_MAX_JOURNAL_LINE];
    struct sw_phase again;
    size_t length = sw_journal_line(phase, line, sizeof line);
    demand(length && sw_journal_parse(line, length - 1, &again));
    demand(strcmp(again.site, phase->site) == 0 && strcmp(again.settings, phase->settings) == 0 &&
           again.ranks == phase->ranks && again.bytes == phase->bytes && again.write == phase->write);
    check_settings(phase->settings);
    ++*(size_t *)context;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t records = 0;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    check_settings(text);
    for (size_t at = 0; at < size;) {
        size_t length = strcspn(text + at, "\n");
        length = length < size - at ? length : size - at;
        if (length >= 10)
            sw_journal_seal(text + at, length);
        at += length + 1;
    }
    size_t bad = sw_journal_each(text, size, take, &records);
    demand(bad + records <= size);
    free(text);
    return 0;
}
