/* SPDX-License-Identifier: BSD-3-Clause
 * BeeGFS keeps the pattern of new files on their folder, and beegfs-ctl alone sets it: the runtime reads
 * layouts and leaves setting them to the launcher. */
#include "file_system.h"
#include "input.h"

#include <stdlib.h>
#include <string.h>

/* "+ Chunksize: 512K" and "+ Number of storage targets: desired: 4; actual: 4" of beegfs-ctl --getentryinfo.
 */
static bool beegfs_read(const char *path, struct sw_layout *layout) {
    char output[2048], *unit;
    char *const arguments[] = {"beegfs-ctl", "--getentryinfo", (char *)path, NULL};
    if (sw_input_command(arguments, 0666, output, sizeof output) != 0)
        return false;
    const char *targets = strstr(output, "desired:"), *chunk = strstr(output, "Chunksize:");
    if (targets)
        layout->numbers[0] = strtoll(targets + strlen("desired:"), NULL, 10);
    if (chunk) {
        int64_t size = strtoll(chunk + strlen("Chunksize:"), &unit, 10);
        int shift = *unit == 'K' ? 10 : *unit == 'M' ? 20 : *unit == 'G' ? 30 : 0;
        if (size >= 0 && size <= INT64_MAX >> shift)
            layout->numbers[1] = size << shift;
    }
    return targets || chunk;
}

static void beegfs_parent(const char *folder, struct sw_parent *parent) {
    beegfs_read(folder, &parent->layout);
}

static bool beegfs_holds(const char *path, const char *name, const char *folder) {
    (void)path, (void)folder;
    return strcmp(name, SW_LAYOUT_BEEGFS) == 0;
}

const struct sw_file_system sw_beegfs = {
    .name = SW_LAYOUT_BEEGFS,
    .keys = {{.name = SW_KEY_STRIPE_COUNT, .role = "stripe_count"},
             {.name = SW_KEY_CHUNK_SIZE, .role = "stripe_size"},
             {.name = SW_KEY_POOL, .text = true}},
    .holds = beegfs_holds,
    .read = beegfs_read,
    .parent = beegfs_parent,
    .instead =
        "BeeGFS sets layouts on folders: run beegfs-ctl --setpattern on the file's folder before the program",
};
