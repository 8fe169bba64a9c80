/* SPDX-License-Identifier: BSD-3-Clause
 * Evidence: what one phase did, and not what was done to the file before it; over ranks, and as text. */
#include "evidence.h"

#include <string.h>

#include "check.h"

static void write_once(struct sw_files *files, struct sw_file *file, uint64_t bytes) {
    struct sw_event event = {
        .op = SW_OP_write_all, .bytes = bytes, .began = 0, .ended = 500000000, .messages = 2};
    struct sw_beneath_call call = {.size = bytes / 2, .during = 1u << SW_DURING_COLLECTIVE, .write = true};
    sw_file_count_event(files, file, &event, &call, 1);
}

int main(void) {
    struct sw_files files;
    struct sw_evidence before, now, none = {.transfers = 0};
    char text[400], small[60];
    CHECK(sw_files_open(&files, 1 << 20, 8, 8));
    struct sw_file *file = sw_files_get(&files, "/a");
    write_once(&files, file, 4096);
    sw_evidence_from(file, &before);
    write_once(&files, file, 1000);
    sw_evidence_until(file, &now);
    sw_evidence_since(&now, &before);
    sw_evidence_add(&now, &none);
    file->application = "cb_config_list\n*: 2\n";
    sw_evidence_print(&now, file, text, sizeof text);
    /* The larger call came before the phase. */
    CHECK_TEXT(text, "write.collective=1,1000,1,1000,2,0.5 write.system=1,500,1,500,0,0 "
                     "write.within_collective=1,500,1,500,0,0 own.cb_config_list=*:_2");
    sw_evidence_print(&now, file, small, sizeof small);
    CHECK_TEXT(small, "write.collective=1,1000,1,1000,2,0.5");
    write_once(&files, file, 2000);
    sw_evidence_until(file, &now);
    sw_evidence_since(&now, &before);
    sw_evidence_add(&now, &now);
    CHECK(now.parts[1][SW_SAW_COLLECTIVE].count == 4 && now.parts[1][SW_SAW_COLLECTIVE].ranks == 2);
    CHECK(now.parts[1][SW_SAW_SYSTEM].largest == 1000);
    sw_files_put(file);
    sw_files_close(&files);
    return failures != 0;
}
