/* SPDX-License-Identifier: BSD-3-Clause
 * From what is known of a file to settings: words, history, and the choice with the artifact of the fuzzer's
 * corpus (tests/fixtures/make_artifacts.py). */
#include "decide.h"
#include "workload.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"

#ifndef CORPUS
#error "CORPUS names the folder of the artifacts"
#endif

#define GIB 1073741824.0

static void set(struct sw_workload *workload, const char *name, const char *value) {
    char error[100] = "";
    if (!sw_workload_set(workload, name, value, error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        failures++;
    }
}

static void test_words(void) {
    struct sw_workload workload = {.extras = 0}, more = {.extras = 0};
    char error[100] = "", text[300];
    set(&workload, "file_size", "4 GiB");
    CHECK(workload.number[SW_WORD_FILE_SIZE] == 4 * GIB);
    set(&workload, "transfer_size", "64 MB"); /* as sizes.py reads it */
    CHECK(workload.number[SW_WORD_TRANSFER_SIZE] == 64e6);
    set(&workload, "transfer_size", "64k");
    CHECK(workload.number[SW_WORD_TRANSFER_SIZE] == 65536);
    set(&workload, "piece_size", "512");
    set(&workload, "collective", "yes");
    set(&workload, "layout", "strided");
    set(&workload, "pool", "flash");
    set(&workload, "pool", "disk");
    CHECK(workload.extras == 1);
    CHECK(!sw_workload_set(&workload, "file_size", "many", error, sizeof error) && *error);
    CHECK(!sw_workload_set(&workload, "file_size", "4 parsecs", error, sizeof error));
    CHECK(!sw_workload_set(&workload, "nodes", "-1", error, sizeof error));
    CHECK(!sw_workload_set(&workload, "collective", "perhaps", error, sizeof error));
    set(&more, "file_size", "1");
    set(&more, "operation", "read");
    set(&more, "pool", "tape");
    sw_workload_fill(&workload, &more);
    CHECK(workload.number[SW_WORD_FILE_SIZE] == 4 * GIB && strcmp(workload.extra[0].value, "disk") == 0);
    CHECK_TEXT(workload.text[SW_WORD_OPERATION], "read");
    sw_workload_print(&workload, text, sizeof text);
    CHECK_TEXT(
        text,
        "operation=read layout=strided file_size=4294967296 transfer_size=65536 piece_size=512 collective=1");
}

static void test_history(void) {
    static struct sw_history history;
    struct sw_arena arena;
    char folded[64];
    CHECK(sw_fold_digits("/a1/b22c333.d", folded, sizeof folded));
    CHECK_TEXT(folded, "/a#/b#c#.d");
    CHECK(sw_fold_digits("#1#23", folded, sizeof folded));
    CHECK_TEXT(folded, "####"); /* a # of the name stays what it is */
    CHECK(!sw_fold_digits("/abc", folded, 4));
    CHECK(sw_arena_open(&arena, 1 << 20));
    sw_history_learn(
        &history, &arena, "/run1/chk0001",
        (struct sw_past){.write = true, .file_size = 7, .transfer_size = 3, .collective = 1, .strided = 1});
    struct sw_workload workload = {.extras = 0}, other = {.extras = 0};
    sw_history_recall(&history, "/run1/chk0002", true, 0, &workload);
    CHECK(workload.number[SW_WORD_FILE_SIZE] == 7 && workload.number[SW_WORD_COLLECTIVE] == 1);
    CHECK_TEXT(workload.text[SW_WORD_LAYOUT], "strided");
    sw_history_recall(&history, "/run1/chk0002", false, 5, &other);
    CHECK(!other.known[SW_WORD_FILE_SIZE]);
    /* A compressed file is asked about as what it holds, in proportion to its size on storage. */
    struct sw_workload packed = {.extras = 0};
    sw_history_learn(&history, &arena, "/table1", (struct sw_past){.file_size = 96, .stored = 8});
    sw_history_recall(&history, "/table2", false, 4, &packed);
    CHECK(packed.number[SW_WORD_FILE_SIZE] == 48);
    for (int i = 0; i < 3 * SW_HISTORY_FAMILIES; i++) {
        char name[32];
        snprintf(name, sizeof name, "/x%c%c", 'a' + i % 26, 'a' + i / 26);
        sw_history_learn(&history, &arena, name, (struct sw_past){.write = true, .file_size = i});
        sw_history_recall(&history, "/run1/chk0003", true, 0, &other); /* what is in use stays */
    }
    CHECK(other.known[SW_WORD_FILE_SIZE]);
    sw_arena_close(&arena);
}

static const char *app_sets_mode(const void *context, enum sw_carrier carrier, const char *key) {
    return carrier == SW_HINT && strcmp(key, "mode") == 0 ? context : NULL;
}

static void test_decision(void) {
    struct sw_model model;
    struct sw_workload workload = {.extras = 0};
    struct sw_decision decision;
    struct sw_other others[4];
    size_t count = 4;
    char error[128], text[300];
    CHECK(sw_model_read(CORPUS "/trees.swm", &model, error, sizeof error));
    struct sw_scene scene = {.place = &sw_lustre, .layout = {1, {1, 1048576, -1}}, .layable = true};
    set(&workload, "operation", "write");
    set(&workload, "file_size", "64 GiB");
    sw_decide(&model, &workload, &scene, &decision, others, &count);
    CHECK(decision.verdict == SW_CHANGED && decision.combinations == 6 && fabs(decision.gain - 1.5) < 1e-12);
    CHECK(sw_settings_print(&decision.chosen, text, sizeof text));
    CHECK_TEXT(text, "hint list *:4;hint mode fast;layout lustre stripe_count 8");
    CHECK(count == 3); /* of six combinations the model tells four apart, one of them the default */
    CHECK(fabs(others[0].gain - 1.5) < 1e-12 && others[1].gain < others[0].gain &&
          others[2].gain < others[1].gain);

    count = 0;
    scene.place = &sw_cephfs; /* stripes are stripes, by their role */
    sw_decide(&model, &workload, &scene, &decision, NULL, NULL);
    CHECK(sw_settings_get(&decision.chosen, SW_LAYOUT, "cephfs stripe_count"));
    scene.place = &sw_lustre;

    scene.layable = false; /* "fast" means something from two stripes on only */
    sw_decide(&model, &workload, &scene, &decision, NULL, NULL);
    CHECK(decision.verdict == SW_KEPT && decision.chosen.count == 0 && decision.combinations == 1);
    CHECK_TEXT(decision.why, "no combination is predicted better than the present settings");
    scene.layout.numbers[0] = 8;
    sw_decide(&model, &workload, &scene, &decision, NULL, NULL);
    CHECK(sw_settings_print(&decision.chosen, text, sizeof text));
    CHECK_TEXT(text, "hint mode fast");
    scene.usual = app_sets_mode; /* the library has it anyway */
    scene.context = "fast";
    sw_decide(&model, &workload, &scene, &decision, NULL, NULL);
    CHECK(decision.verdict == SW_KEPT && decision.chosen.count == 0);
    scene.usual = NULL;

    scene.layable = true;
    scene.layout.numbers[0] = 1;
    scene.taken = app_sets_mode;
    scene.context = "slow";
    sw_decide(&model, &workload, &scene, &decision, NULL, NULL);
    CHECK(decision.verdict == SW_CHANGED && fabs(decision.gain - 1) < 1e-12);
    CHECK(!sw_settings_get(&decision.chosen, SW_HINT, "mode"));
    scene.taken = NULL;

    /* Nothing is known of the size, and no value of it was measured. */
    struct sw_workload unknown = {.extras = 0};
    set(&unknown, "operation", "write");
    sw_decide(&model, &unknown, &scene, &decision, NULL, NULL);
    CHECK(decision.verdict == SW_UNDECIDED);
    CHECK_TEXT(decision.why, "file_gib is unknown");
    set(&workload, "operation", "append");
    sw_decide(&model, &workload, &scene, &decision, NULL, NULL);
    CHECK(decision.verdict == SW_UNDECIDED);
    CHECK_TEXT(decision.why, "the model never saw access = append");

    /* Reading never restripes. */
    set(&workload, "operation", "read");
    sw_decide(&model, &workload, &scene, &decision, NULL, NULL);
    CHECK(decision.verdict == SW_KEPT && decision.combinations == 1);

    /* An unknown operation: the mean over both that were measured. */
    struct sw_workload either = {.extras = 0};
    set(&either, "file_size", "64 GiB");
    sw_decide(&model, &either, &scene, &decision, NULL, NULL);
    CHECK(decision.verdict != SW_UNDECIDED);
    sw_model_free(&model);
}

static void test_settings(void) {
    struct sw_decided_set set = {.count = 0}, read;
    char text[200];
    CHECK(sw_settings_put(&set, SW_LAYOUT, "lustre stripe_count", "4"));
    CHECK(sw_settings_put(&set, SW_HINT, "b", "with blanks"));
    CHECK(sw_settings_put(&set, SW_HINT, "a", "1") && sw_settings_put(&set, SW_HINT, "a", "2"));
    CHECK(!sw_settings_put(&set, SW_HINT, "a b", "1") && !sw_settings_put(&set, SW_HINT, "a", "1;2") &&
          !sw_settings_put(&set, SW_ENV, "a", "1") && !sw_settings_put(&set, SW_LAYOUT, "lustre", "1") &&
          !sw_settings_put(&set, SW_HINT, "a", ""));
    CHECK(sw_settings_print(&set, text, sizeof text));
    CHECK_TEXT(text, "hint a 2;hint b with blanks;layout lustre stripe_count 4");
    CHECK(sw_settings_parse(text, &read) && read.count == 3);
    CHECK_TEXT(sw_settings_get(&read, SW_HINT, "b"), "with blanks");
    CHECK(!sw_settings_print(&set, text, 20));
    CHECK(!sw_settings_parse("hint a 1;nonsense", &read) && read.count == 0);
    CHECK(!sw_settings_parse("hint a", &read) && !sw_settings_parse("layout lustre 4", &read));
}

int main(void) {
    test_words();
    test_history();
    test_decision();
    test_settings();
    return failures != 0;
}
