/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "report.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "json.h"

static char *printed;
static size_t printed_size;

static struct sw_json start(void) {
    free(printed);
    printed = NULL;
    return (struct sw_json){open_memstream(&printed, &printed_size), false};
}

static void values(void) {
    struct sw_json json = start();
    sw_json_open(&json, NULL, '{');
    sw_json_text(&json, "text", "a\"b\\c\n\x7f");
    sw_json_text(&json, "null", NULL);
    sw_json_unsigned(&json, "big", UINT64_MAX);
    sw_json_integer(&json, "small", INT64_MIN);
    sw_json_open(&json, "list", '[');
    sw_json_bool(&json, NULL, true);
    sw_json_bool(&json, NULL, false);
    sw_json_close(&json, ']');
    sw_json_decimal(&json, "seconds", -1500000000, 9);
    sw_json_decimal(&json, "less", 7, 6);
    sw_json_close(&json, '}');
    fclose(json.file);
    CHECK_TEXT(
        printed,
        "{\"text\":\"a\\\"b\\\\c\\u000a\\u007f\",\"null\":null,\"big\":18446744073709551615,"
        "\"small\":-9223372036854775808,\"list\":[true,false],\"seconds\":-1.500000000,\"less\":0.000007}");
}

/* Well-formed UTF-8 stays; every byte that is not part of any becomes a lone low surrogate. */
static void encodings(void) {
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"\xc3\xa9", "\"\xc3\xa9\""},
        {"\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\""},
        {"\xff", "\"\\udcff\""},
        {"a\xc3", "\"a\\udcc3\""},
        {"\xe2\x82", "\"\\udce2\\udc82\""},
        {"\xc0\xaf", "\"\\udcc0\\udcaf\""},                       /* overlong */
        {"\xed\xa0\x80", "\"\\udced\\udca0\\udc80\""},            /* a surrogate */
        {"\xf4\x90\x80\x80", "\"\\udcf4\\udc90\\udc80\\udc80\""}, /* beyond U+10FFFF */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sw_json json = start();
        sw_json_text(&json, NULL, cases[i].text);
        fclose(json.file);
        CHECK_TEXT(printed, cases[i].expected);
    }
}

static struct sw_files files;

static struct sw_report report(void) {
    return (struct sw_report){
        .mode = "observe", .default_io = "romio", .ranks = 2, .job = {.ranks_reported = 1}, .files = &files};
}

static void add(const char *path, int64_t start_time, int64_t end_time) {
    struct sw_file *file = sw_files_get(&files, path);
    file->facts.opens = 1;
    file->facts.write_span = (struct sw_span){start_time, end_time};
    sw_file_count(&files, file, SW_OP_write, 1048576, 1);
    sw_files_put(file);
}

/* 3 MiB over the union of [0, 2] s, [1, 3] s and [5, 6] s: 0.75 MiB/s. */
static void bandwidth(void) {
    struct sw_json json = start();
    CHECK(sw_files_open(&files, SW_MEMORY_BUDGET, 100, 10));
    add("/c", 5000000000, 6000000000);
    add("/a", 0, 2000000000);
    add("/b", 1000000000, 3000000000);
    struct sw_report it = report();
    sw_report_print(&it, json.file);
    fclose(json.file);
    CHECK(strstr(printed, "\"write_bandwidth\":0.750000"));
    CHECK(strstr(printed, "\"read_bandwidth\":null"));
    CHECK(strstr(printed, "\"complete\":false"));
    CHECK(strstr(printed, "\"io\":\"romio\""));
    CHECK(!strstr(printed, SW_OTHER_FILES));
    CHECK(!strstr(printed, "\"online\""));
}

/* What was learned of a family stands in the report; a place that no family has does not. */
static void learned(void) {
    struct sw_family families[2] = {{.name = "/c.#", .write = true, .pattern = 'C', .asked = true}};
    sw_family_add(&families[0], "", 0);
    sw_family_add(&families[0], "hint cb_nodes 2", log(1.5));
    for (int phase = 0; phase < 4; phase++) {
        uint32_t choice = sw_family_pick(&families[0]);
        sw_family_learn(&families[0], choice, 1048576, choice ? 0.25 : 0.5);
    }
    sw_family_pick(&families[0]);
    struct sw_json json = start();
    struct sw_report it = report();
    it.families = families;
    it.family_count = 2;
    sw_report_print(&it, json.file);
    fclose(json.file);
    const char *online = strstr(printed, "\"online\":");
    CHECK(online);
    CHECK_TEXT(online,
               "\"online\":[{\"site\":\"/c.#\",\"operation\":\"write\",\"collective\":true,\"strided\":true,"
               "\"phases\":4,\"reopened\":0,\"settled\":true,\"choice\":1,\"why\":null,\"candidates\":["
               "{\"settings\":\"\",\"phases\":2,\"bandwidth\":2.000000,\"predicted\":null,\"dropped\":false},"
               "{\"settings\":\"hint cb_nodes 2\",\"phases\":2,\"bandwidth\":4.000000,\"predicted\":1.500000,"
               "\"dropped\":false}]}]}\n");
}

static void writing(void) {
    char folder[] = "/tmp/stripewise-report-XXXXXX", path[64], error[200];
    struct sw_report it = report();
    struct stat status;
    CHECK(mkdtemp(folder));
    sprintf(path, "%s/report.json", folder);
    CHECK(sw_report_write(&it, path, error, sizeof error) && stat(path, &status) == 0 &&
          status.st_size > 100);
    CHECK(sw_report_write(&it, path, error, sizeof error)); /* in its place */
    it.each = true;
    char second[80], third[80];
    sprintf(second, "%s.2", path);
    sprintf(third, "%s.3", path);
    CHECK(sw_report_write(&it, path, error, sizeof error) && stat(second, &status) == 0);
    CHECK(sw_report_write(&it, path, error, sizeof error) && stat(third, &status) == 0 &&
          status.st_size > 100);
    it.each = false;
    unlink(second);
    unlink(third);
    unlink(path);
    CHECK(!sw_report_write(&it, folder, error, sizeof error));
    CHECK_TEXT(error, "Is a directory");
    CHECK(!sw_report_write(&it, "/dev/full", error, sizeof error));
    CHECK_TEXT(error, "No space left on device");
    CHECK(stat("/dev/full", &status) == 0 && S_ISCHR(status.st_mode));
    sprintf(path, "%s/none/report.json", folder);
    CHECK(!sw_report_write(&it, path, error, sizeof error));
    CHECK_TEXT(error, "No such file or directory");
    CHECK(rmdir(folder) == 0); /* nothing was left in it */
}

int main(void) {
    setlocale(LC_ALL, ""); /* as a program may: a decimal comma must not reach the report */
    values();
    encodings();
    bandwidth();
    learned();
    writing();
    sw_files_close(&files);
    free(printed);
    return failures;
}
