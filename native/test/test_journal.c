/* SPDX-License-Identifier: BSD-3-Clause
 * The journal: what is written is read, what is damaged is passed over, and a line that was cut off costs
 * itself only. */
#define _GNU_SOURCE
#include "journal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static struct sw_phase sample(void) {
    struct sw_phase phase = {.pattern = 'C',
                             .write = true,
                             .ranks = 64,
                             .nodes = 4,
                             .bytes = 4294967296.0,
                             .seconds = 12.5,
                             .time = 1700000000.25};
    snprintf(phase.site, sizeof phase.site, "/scratch/job#/a b\t%%\x7f.dat");
    snprintf(phase.settings, sizeof phase.settings, "hint cb_nodes 4;layout lustre stripe_count 8");
    snprintf(phase.workload, sizeof phase.workload, "operation=write nodes=4");
    snprintf(phase.program, sizeof phase.program, "solver");
    snprintf(phase.layout, sizeof phase.layout, "stripe_count=8");
    return phase;
}

static struct sw_phase found[8];
static size_t count;

static void take(const struct sw_phase *phase, void *context) {
    (void)context;
    if (count < 8)
        found[count] = *phase;
    count++;
}

static void test_round_trip(void) {
    struct sw_phase phase = sample(), read;
    char line[SW_MAX_JOURNAL_LINE];
    size_t length = sw_journal_line(&phase, line, sizeof line);
    CHECK(length > 100 && line[length - 1] == '\n' && !memchr(line, '\n', length - 1));
    CHECK(sw_journal_parse(line, length - 1, &read));
    CHECK_TEXT(read.site, phase.site);
    CHECK_TEXT(read.settings, phase.settings);
    CHECK_TEXT(read.workload, phase.workload);
    CHECK_TEXT(read.program, phase.program);
    CHECK_TEXT(read.layout, phase.layout);
    CHECK(read.write && read.pattern == 'C' && read.ranks == 64 && read.nodes == 4);
    CHECK(read.bytes == phase.bytes && read.seconds == phase.seconds && read.time == phase.time);
    CHECK(sw_journal_line(&phase, line, 64) == 0 && sw_journal_line(&phase, line, 4) == 0);
}

static void test_damage(void) {
    struct sw_phase phase = sample(), read;
    char line[SW_MAX_JOURNAL_LINE], damaged[SW_MAX_JOURNAL_LINE];
    size_t length = sw_journal_line(&phase, line, sizeof line) - 1;
    for (size_t at = 0; at < length; at++) {
        memcpy(damaged, line, length);
        damaged[at] ^= 4;
        CHECK(!sw_journal_parse(damaged, length, &read));
        CHECK(!sw_journal_parse(line, at, &read));
    }
}

static void test_file(void) {
    char path[] = "/tmp/test_journal.XXXXXX", error[100] = "", *text = NULL;
    size_t size = 0;
    struct sw_phase phase = sample();
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    unlink(path);
    CHECK(sw_journal_read(path, &text, &size, error, sizeof error) && !text && size == 0);
    CHECK(sw_journal_append(path, &phase));
    phase.seconds = 7;
    CHECK(sw_journal_append(path, &phase));
    CHECK(truncate(path, 0) == 0 && sw_journal_append(path, &phase) && sw_journal_append(path, &phase));
    CHECK(sw_journal_read(path, &text, &size, error, sizeof error));
    /* The second record is cut off; the third begins a line of its own. */
    CHECK(truncate(path, (off_t)size - 20) == 0);
    free(text);
    phase.seconds = 8;
    CHECK(sw_journal_append(path, &phase));
    CHECK(sw_journal_read(path, &text, &size, error, sizeof error));
    count = 0;
    CHECK(sw_journal_each(text, size, take, NULL) == 1);
    CHECK(count == 2 && found[0].seconds == 7 && found[1].seconds == 8);
    CHECK(memcmp(text, SW_JOURNAL_HEADER "\n", sizeof SW_JOURNAL_HEADER) == 0);
    free(text);
    unlink(path);
    close(fd);
    CHECK(!sw_journal_read("/", &text, &size, error, sizeof error));
    CHECK_TEXT(error, "not a regular file");
    CHECK(!sw_journal_append("/nonexistent/journal", &phase) && errno == ENOENT);
}

/* As another user's link may lead to: nothing is appended to a file that is not a journal. */
static void test_file_of_another_kind(void) {
    char path[] = "/tmp/test_journal.XXXXXX";
    struct stat status;
    struct sw_phase phase = sample();
    int fd = mkstemp(path);
    CHECK(write(fd, "thesis\n", 7) == 7 && !sw_journal_append(path, &phase) && errno == EINVAL);
    CHECK(fstat(fd, &status) == 0 && status.st_size == 7);
    CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, SW_JOURNAL_HEADER, 5, 0) == 5 &&
          sw_journal_append(path, &phase));
    close(fd);
    unlink(path);
}

static void test_only_the_end_of_a_long_one_is_read(void) {
    char path[] = "/tmp/test_journal.XXXXXX", error[100] = "", line[SW_MAX_JOURNAL_LINE], *text = NULL;
    struct sw_phase phase = sample();
    size_t size = 0, length = sw_journal_line(&phase, line, sizeof line),
           lines = SW_MAX_JOURNAL_READ / length + 10;
    FILE *file = fdopen(mkstemp(path), "w");
    CHECK(file != NULL);
    for (size_t i = 0; file && i < lines; i++)
        fwrite(line, 1, length, file);
    if (file)
        fclose(file);
    CHECK(sw_journal_read(path, &text, &size, error, sizeof error));
    CHECK(size % length == 0 && size <= SW_MAX_JOURNAL_READ && size > SW_MAX_JOURNAL_READ - 2 * length);
    count = 0;
    CHECK(sw_journal_each(text, size, take, NULL) == 0 && count == size / length);
    free(text);
    unlink(path);
}

int main(void) {
    test_round_trip();
    test_damage();
    test_file();
    test_file_of_another_kind();
    test_only_the_end_of_a_long_one_is_read();
    return failures != 0;
}
