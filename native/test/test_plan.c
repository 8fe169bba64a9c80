/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "plan.h"

#include <stdlib.h>
#include <unistd.h>

#include "check.h"

static struct sw_plan plan;
static char error[256];

static bool parse(const char *text) {
    return sw_plan_parse(text, strlen(text), &plan, error, sizeof error);
}

static void refuses(const char *text, const char *expected) {
    CHECK(!parse(text));
    CHECK_TEXT(error, expected);
    CHECK(plan.count == 0 && !plan.settings && !plan.text);
}

static void whole_grammar(void) {
    CHECK(parse("stripewise-plan 1\n"
                "# a comment, then a blank line\n"
                "\n"
                "id  exp-7f3a.12 \n"
                "override yes\r\n"
                "hint romio_cb_write enable\n"
                "file *.h5\n"
                "layout  cephfs \t stripe_count   4\n"
                "hint\tcb_config_list  *:1, node a:2  \n"
                "hdf5 alignment 1048576\n"
                "env A b=c\n"
                "mca fcoll vulcan\n"
                "argument size 5"));
    CHECK_TEXT(plan.id, "exp-7f3a.12");
    CHECK(plan.override);
    CHECK(plan.count == 7);
    static const struct sw_setting expected[] = {
        {SW_HINT, "*", "romio_cb_write", "enable"},
        {SW_LAYOUT, "*.h5", "cephfs stripe_count", "4"},
        {SW_HINT, "*.h5", "cb_config_list", "*:1, node a:2"},
        {SW_HDF5, "*.h5", "alignment", "1048576"},
        {SW_ENV, "*.h5", "A", "b=c"},
        {SW_MCA, "*.h5", "fcoll", "vulcan"},
        {SW_ARGUMENT, "*.h5", "size", "5"},
    };
    for (size_t i = 0; i < plan.count; i++) {
        CHECK(plan.settings[i].carrier == expected[i].carrier);
        CHECK_TEXT(plan.settings[i].glob, expected[i].glob);
        CHECK_TEXT(plan.settings[i].key, expected[i].key);
        CHECK_TEXT(plan.settings[i].value, expected[i].value);
    }
    sw_plan_free(&plan);
}

static void header_alone(void) {
    CHECK(parse("stripewise-plan 1"));
    CHECK(plan.count == 0 && !plan.override && !*plan.id);
    sw_plan_free(&plan);
}

static void faults(void) {
    refuses("", "line 1: not \"stripewise-plan 1\"");
    refuses("stripewise-plan 10\n", "line 1: not \"stripewise-plan 1\"");
    refuses("\nstripewise-plan 1\n", "line 1: not \"stripewise-plan 1\"");
    refuses("stripewise-plan 1\nhint\n", "line 2: \"hint\" wants a name and a value");
    refuses("stripewise-plan 1\n\nhint a \t\n", "line 3: \"hint\" wants a name and a value");
    refuses("stripewise-plan 1\nlayout\n", "line 2: layout of \"\" is unknown; use lustre, cephfs or beegfs");
    refuses("stripewise-plan 1\nlayout lustre\n",
            "line 2: \"layout\" wants a file system, a name and a value");
    refuses("stripewise-plan 1\nlayout lustre pool\n", "line 2: \"layout\" wants a name and a value");
    refuses("stripewise-plan 1\nid\n", "line 2: \"id\" wants 1 to 128 bytes");
    refuses("stripewise-plan 1\nfile\n", "line 2: \"file\" wants a pattern of 1 to 1023 bytes");
    refuses("stripewise-plan 1\noverride maybe\n", "line 2: \"override\" wants yes or no");
    refuses("stripewise-plan 1\nHINT a b\n", "line 2: unknown word \"HINT\"");
    refuses("stripewise-plan 1\nhint a b\033\n", "line 2: a control character (byte 27)");
    CHECK(!sw_plan_parse("stripewise-plan 1\nhint a\0 b\n", 28, &plan, error, sizeof error));
    CHECK_TEXT(error, "line 2: a control character (byte 0)");
}

/* One byte below, at and above each limit. */
static void limits(void) {
    char *text = malloc(SW_MAX_PLAN_BYTES + 2);
    static const struct {
        const char *before, *after;
        size_t limit;
    } cases[] = {{"id ", "", SW_MAX_ID},
                 {"hint ", " v", SW_MAX_KEY},
                 {"hint k ", "", SW_MAX_VALUE},
                 {"file ", "", SW_MAX_VALUE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t size = cases[i].limit - 1; size <= cases[i].limit + 1; size++) {
            char word[2048];
            memset(word, 'x', size);
            word[size] = '\0';
            sprintf(text, SW_PLAN_HEADER "\n%s%s%s\n", cases[i].before, word, cases[i].after);
            CHECK(parse(text) == (size <= cases[i].limit));
            sw_plan_free(&plan);
        }
    for (size_t count = SW_MAX_SETTINGS - 1; count <= SW_MAX_SETTINGS + 1; count++) {
        char *end = text + sprintf(text, SW_PLAN_HEADER "\n");
        for (size_t i = 0; i < count; i++)
            end += sprintf(end, "hint k v\n");
        CHECK(parse(text) == (count <= SW_MAX_SETTINGS));
        CHECK(plan.count == (count <= SW_MAX_SETTINGS ? count : 0));
        sw_plan_free(&plan);
    }
    memset(text, '#', SW_MAX_PLAN_BYTES + 1);
    memcpy(text, SW_PLAN_HEADER "\n", strlen(SW_PLAN_HEADER) + 1);
    CHECK(sw_plan_parse(text, SW_MAX_PLAN_BYTES, &plan, error, sizeof error));
    sw_plan_free(&plan);
    CHECK(!sw_plan_parse(text, SW_MAX_PLAN_BYTES + 1, &plan, error, sizeof error));
    CHECK_TEXT(error, "larger than 1048576 bytes");
    free(text);
}

static void matching(void) {
    const struct sw_setting all = {SW_HINT, "*", "k", "v"}, base = {SW_HINT, "out.*", "k", "v"},
                            path = {SW_HINT, "/scratch/*/out.[0-9]", "k", "v"};
    CHECK(sw_setting_matches(&all, "/a/b"));
    CHECK(sw_setting_matches(&base, "/a/out.nc"));
    CHECK(!sw_setting_matches(&base, "/out.d/file"));
    CHECK(sw_setting_matches(&path, "/scratch/a/b/out.5"));
    CHECK(!sw_setting_matches(&path, "/scratch/a/out.x"));
}

static void reading(void) {
    char name[] = "/tmp/stripewise-plan-XXXXXX", *text;
    size_t size;
    int fd = mkstemp(name);
    CHECK(fd >= 0 && write(fd, "abc", 3) == 3);
    close(fd);
    CHECK(sw_plan_read(name, &text, &size, error, sizeof error) && size == 3 && memcmp(text, "abc", 3) == 0);
    free(text);
    unlink(name);
    CHECK(!sw_plan_read(name, &text, &size, error, sizeof error));
    CHECK_TEXT(error, "No such file or directory");
    CHECK(!sw_plan_read("/tmp", &text, &size, error, sizeof error));
    CHECK_TEXT(error, "not a regular file");
    CHECK(!sw_plan_read("/dev/zero", &text, &size, error, sizeof error));
    CHECK_TEXT(error, "not a regular file");
}

int main(void) {
    whole_grammar();
    header_alone();
    faults();
    limits();
    matching();
    reading();
    return failures;
}
