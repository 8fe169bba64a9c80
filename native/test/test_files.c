/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "files.h"

#include "check.h"
#include "file_system.h"
#include "plan.h"
#include "wire.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void arena(void) {
    struct sw_arena memory;
    CHECK(sw_arena_open(&memory, 1 << 16));
    char *first = sw_arena_take(&memory, 100);
    memset(first, 'x', 100);
    sw_arena_give(&memory, first, 100);
    char *again = sw_arena_take(&memory, 120);
    CHECK(again == first && again[0] == 0 && again[99] == 0); /* one size class, and zeroed */
    CHECK(!sw_arena_take(&memory, (size_t)1 << 30));
    const char *word = sw_arena_intern(&memory, "enable");
    char copy[] = "enable";
    CHECK(word == sw_arena_intern(&memory, copy) && word != copy);
    CHECK(!sw_arena_intern(&memory, NULL));
    int taken = 0;
    while (sw_arena_take(&memory, 4096))
        taken++;
    CHECK(taken > 0 && taken <= 16 && memory.used <= memory.size);
    sw_arena_close(&memory);
}

static int evicted;
static void count_eviction(struct sw_file *file) {
    evicted += file != NULL;
}

static void limited_records(void) {
    struct sw_files files;
    char path[64];
    CHECK(sw_files_open(&files, SW_MEMORY_BUDGET, 10, 10));
    files.evict = count_eviction;
    struct sw_file *held = sw_files_get(&files, "/held");
    for (int i = 0; i < 100; i++) {
        sprintf(path, "/file.%d", i);
        struct sw_file *file = sw_files_get(&files, path);
        CHECK_TEXT(file->path, path);
        CHECK(file == sw_files_get(&files, path));
        sw_file_count(&files, file, SW_OP_write, 7, 1);
        sw_files_put(file);
        sw_files_put(file);
    }
    CHECK(files.count == 10 && evicted == 91);
    CHECK(held == sw_files_get(&files, "/held")); /* open ones stay */
    CHECK(files.other->calls[SW_OP_write]->count == 91 && files.other->calls[SW_OP_write]->bytes == 637);
    CHECK(files.other->calls[SW_OP_write]->time_max == 91);
    sw_files_close(&files);
}

/* A thousand files with every operation used: the budget holds, and nothing is lost from the sums. */
static void budget(void) {
    struct sw_files files;
    char path[64];
    CHECK(sw_files_open(&files, SW_MEMORY_BUDGET, SW_MAX_FILES, SW_MAX_DATASETS));
    for (int i = 0; i < SW_MAX_FILES; i++) {
        sprintf(path, "/some/longer/folder/name/file.%d", i);
        struct sw_file *file = sw_files_get(&files, path);
        for (int op = 0; op < SW_OPERATIONS; op++)
            sw_file_count(&files, file, (enum sw_op)op, 1, 1);
        sw_file_count_posix(&files, file, &(struct sw_beneath_call){4096, 1, true, 0}, 1);
        sw_files_put(file);
    }
    CHECK(files.arena.live <= SW_MEMORY_BUDGET && files.arena.used <= SW_MEMORY_BUDGET);
    uint64_t writes = 0, posix = 0;
    for (struct sw_file *file = files.oldest; file; file = file->newer) {
        writes += file->calls[SW_OP_write] ? file->calls[SW_OP_write]->count : 0;
        posix += file->posix[1] ? file->posix[1]->count : 0;
    }
    CHECK(writes == SW_MAX_FILES && posix == SW_MAX_FILES);
    sw_files_close(&files);
}

static void fill(struct sw_files *files, const char *path, int64_t start) {
    struct sw_file *file = sw_files_get(files, path);
    file->facts.opens = 1;
    file->facts.ranks = 4;
    file->facts.nodes = 1;
    file->facts.write_span = (struct sw_span){start, start + 10};
    file->driver = sw_arena_intern(&files->arena, "UFS");
    file->info = sw_arena_intern(&files->arena, "cb_nodes\n2\n");
    sw_file_count(files, file, SW_OP_write_at, 100, 3);
    sw_file_count_posix(files, file, &(struct sw_beneath_call){100, 1u << SW_DURING_INDEPENDENT, true, 0}, 1);
    struct sw_result *results = sw_file_results(files, file, 1);
    results[0] =
        (struct sw_result){.carrier = SW_HINT, .outcome = SW_APPLIED, .key = "cb_nodes", .requested = "2"};
    sw_files_put(file);
}

static void wire(void) {
    struct sw_files here, there, merged;
    struct sw_job job = {.ranks_reported = 1, .nodes = 1, .elapsed = 50}, total = {0};
    struct sw_bytes bytes = {0};
    CHECK(sw_files_open(&here, SW_MEMORY_BUDGET, 100, 10) &&
          sw_files_open(&there, SW_MEMORY_BUDGET, 100, 10) &&
          sw_files_open(&merged, SW_MEMORY_BUDGET, 100, 10));
    fill(&here, "/shared", 5);
    fill(&there, "/shared", 100);
    fill(&there, "/own", 7);
    sw_job_times(&job, &there);
    CHECK(job.io_time == 6);
    CHECK(job.read_time + job.write_time <= job.io_time);
    sw_files_include(&merged, &here, SW_SAME_NODE);
    sw_wire_pack(&bytes, &job, &there);
    CHECK(!bytes.failed && sw_wire_merge(bytes.data, bytes.size, &total, &merged, SW_OTHER_NODE));
    CHECK(total.ranks_reported == 1 && total.nodes == 1 && total.elapsed == 50);
    struct sw_file *file = sw_files_get(&merged, "/shared");
    CHECK(file->facts.opens == 2 && file->facts.nodes == 2 && file->facts.ranks == 4);
    CHECK(file->facts.write_span.start == 5 && file->facts.write_span.end == 110);
    CHECK(file->calls[SW_OP_write_at]->count == 2 && file->calls[SW_OP_write_at]->time_max == 3);
    CHECK(file->posix[1]->ranks == 2);
    CHECK_TEXT(file->driver, "UFS");
    CHECK(file->result_count == 1 && file->results[0].outcome == SW_APPLIED && !file->results[0].given);
    CHECK_TEXT(file->results[0].requested, "2");
    CHECK_TEXT(sw_files_get(&merged, "/own")->info, "cb_nodes\n2\n");
    /* Cut anywhere, it is refused or merged in part, and never read beyond its end (the copy is exactly as
     * long). */
    for (size_t size = 0; size < bytes.size; size++) {
        char *cut = malloc(size ? size : 1);
        memcpy(cut, bytes.data, size);
        sw_wire_merge(cut, size, &total, &merged, SW_SAME_NODE);
        free(cut);
    }
    free(bytes.data);
    sw_files_close(&here);
    sw_files_close(&there);
    sw_files_close(&merged);
}

/* A plan of the largest size, and what the runtime decided on besides. */
static void many_results(void) {
    enum { COUNT = SW_MAX_SETTINGS + SW_MAX_DECIDED };
    struct sw_files here, merged;
    struct sw_job job = {0}, total = {0};
    struct sw_bytes bytes = {0};
    CHECK(sw_files_open(&here, SW_MEMORY_BUDGET, 100, 10) &&
          sw_files_open(&merged, SW_MEMORY_BUDGET, 100, 10));
    struct sw_result *results = sw_file_results(&here, sw_files_get(&here, "/many"), COUNT);
    CHECK(results);
    for (int i = 0; results && i < COUNT; i++)
        results[i] = (struct sw_result){.key = "cb_nodes", .requested = "2"};
    sw_wire_pack(&bytes, &job, &here);
    CHECK(sw_wire_merge(bytes.data, bytes.size, &total, &merged, SW_OTHER_NODE));
    CHECK(sw_files_get(&merged, "/many")->result_count == COUNT);
    free(bytes.data);
    sw_files_close(&here);
    sw_files_close(&merged);
}

/* A number that no file has, from a command that somebody else installed. */
static void chunk_size_of_beegfs(void) {
    static const struct {
        const char *printed;
        int64_t size;
    } cases[] = {{"512K", 512 << 10}, {"9223372036854775807K", -1}, {"9007199254740993M", -1}, {"-5M", -1}};
    char folder[] = "/tmp/stripewise-test-XXXXXX", script[64];
    const char *path = getenv("PATH");
    char *before = strdup(path ? path : "");
    CHECK(mkdtemp(folder));
    snprintf(script, sizeof script, "%s/beegfs-ctl", folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FILE *file = fopen(script, "w");
        fprintf(file, "#!/bin/sh\necho '+ Chunksize: %s'\n", cases[i].printed);
        CHECK(fclose(file) == 0 && chmod(script, 0755) == 0 && setenv("PATH", folder, 1) == 0);
        struct sw_layout layout = SW_NO_LAYOUT;
        CHECK(sw_beegfs.read("/x", &layout) && layout.numbers[1] == cases[i].size);
    }
    setenv("PATH", before, 1);
    free(before);
    unlink(script);
    rmdir(folder);
}

static void paths(void) {
    char path[64], here[64];
    CHECK_TEXT(sw_path_without_prefix("ufs:/a"), "/a");
    CHECK_TEXT(sw_path_without_prefix("/a:b"), "/a:b");
    CHECK_TEXT(sw_path_without_prefix("c:b"), "c:b");
    CHECK(sw_path_absolute("lustre:/a/b", path, sizeof path));
    CHECK_TEXT(path, "/a/b");
    CHECK(chdir("/tmp") == 0 && getcwd(here, sizeof here));
    CHECK(sw_path_absolute("./x", path, sizeof path));
    CHECK(strncmp(path, here, strlen(here)) == 0);
    CHECK_TEXT(path + strlen(here), "/x");
    CHECK(chdir("/") == 0 && sw_path_absolute("x", path, sizeof path));
    CHECK_TEXT(path, "/x");
    CHECK(!sw_path_absolute("/0123456789", path, 5));
    CHECK(!sw_path_absolute("", path, sizeof path));
}

/* PnetCDF: a small header in one piece, tiles in many, and a view that shows all of the file in between. */
static void views(void) {
    struct sw_view view = {.set = true}, other = {.set = false};
    CHECK(sw_view_main(&view).bytes == 0);
    sw_view_count(&view, 1, 0, 500);
    for (int i = 0; i < 3; i++)
        sw_view_count(&view, 4096, 128, 4096);
    sw_view_count(&view, 8192, SW_UNKNOWN_PIECE, 8192);
    struct sw_view_use use = sw_view_main(&view);
    CHECK(use.filetype_size == 4096 && use.piece == 128 && use.bytes == 3 * 4096);
    sw_view_count(&other, 65536, 0, 100000);
    sw_view_merge(&view, &other);
    CHECK(view.set && view.in_one == 100500 && view.in_pieces == 3 * 4096 + 8192);
    use = sw_view_main(&view);
    CHECK(use.filetype_size == 65536 && use.piece == 0);
    for (int i = 0; i < 2 * SW_VIEW_USES; i++) /* more kinds than are kept apart: the rarest make room */
        sw_view_count(&view, i, 1, 1);
    CHECK(sw_view_main(&view).filetype_size == 65536);
}

int main(void) {
    arena();
    views();
    limited_records();
    budget();
    wire();
    many_results();
    chunk_size_of_beegfs();
    paths();
    return failures;
}
