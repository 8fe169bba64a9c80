/* SPDX-License-Identifier: BSD-3-Clause
 * The artifacts of the fuzzer's corpus, made by tests/fixtures/make_artifacts.py: read, evaluated, and
 * refused when damaged. */
#define _GNU_SOURCE
#include "model.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

#ifndef CORPUS
#error "CORPUS names the folder of the artifacts"
#endif

static struct sw_model open_artifact(const char *name) {
    struct sw_model model;
    char path[4096], error[128] = "";
    snprintf(path, sizeof path, "%s/%s", CORPUS, name);
    if (!sw_model_read(path, &model, error, sizeof error)) {
        fprintf(stderr, "%s: %s\n", path, error);
        exit(1);
    }
    return model;
}

/* Two trees over log2(stripe_count) and log2(file_size / stripe_count): see make_artifacts.py. */
static void test_choice(void) {
    struct sw_model model = open_artifact("trees.swm");
    double inputs[SW_MAX_INPUTS] = {0};
    char error[128] = "";
    struct sw_choice choice;
    uint32_t operation = sw_model_find(&model, "operation", NULL),
             size = sw_model_find(&model, "file_size", NULL);
    uint32_t stripes = sw_model_find(&model, NULL, "stripe_count"),
             mode = sw_model_find(&model, NULL, "mode");
    if (operation >= SW_MAX_INPUTS || size >= SW_MAX_INPUTS || stripes >= SW_MAX_INPUTS ||
        mode >= SW_MAX_INPUTS)
        exit(1);
    CHECK(model.inputs[size].factor == 1024.0 * 1024 * 1024);
    CHECK(sw_model_code(&model, "nothing of the kind") == -1);
    inputs[operation] = sw_model_code(&model, "write");
    inputs[size] = 64;
    inputs[stripes] = 1;
    inputs[mode] = sw_model_code(&model, "slow");
    CHECK(inputs[operation] > 0 && inputs[mode] > 0);
    CHECK(sw_model_choose(&model, inputs, &choice, error, sizeof error));
    CHECK(choice.changed && choice.values[stripes] == 8 &&
          choice.values[mode] == sw_model_code(&model, "fast"));
    CHECK(fabs(choice.best / choice.current - exp(1.5)) < 1e-12);
    /* 4 stripe counts; "fast" means something from two stripes on only: 4 slow and 3 fast, one of them
     * forbidden. */
    CHECK(choice.combinations == 6);
    inputs[operation] = sw_model_code(&model, "read"); /* when stripes are as they are */
    CHECK(sw_model_choose(&model, inputs, &choice, error, sizeof error));
    CHECK(choice.values[stripes] == 1 && choice.combinations == 1 && !choice.changed);
    sw_model_free(&model);
}

static void test_network(void) {
    struct sw_model model = open_artifact("network.swm");
    const double x[3] = {1, -2, 3};
    struct sw_column column = {x, false};
    double values[3];
    CHECK(sw_model_predict(&model, 3, &column, values));
    /* relu(2 x) - relu(-x) + 0.5 */
    CHECK(values[0] == 2.5 && values[1] == -1.5 && values[2] == 6.5);
    sw_model_free(&model);
}

static void test_many_rows(void) {
    struct sw_model model = open_artifact("trees.swm");
    enum { ROWS = 3000 };
    static double stripes[ROWS], values[ROWS], single[1];
    double fixed[SW_MAX_INPUTS] = {0};
    struct sw_column columns[SW_MAX_INPUTS];
    uint32_t place = sw_model_find(&model, NULL, "stripe_count");
    fixed[sw_model_find(&model, "file_size", NULL)] = 64;
    for (uint32_t i = 0; i < model.counts[SW_INPUTS]; i++)
        columns[i] = (struct sw_column){&fixed[i], true};
    for (int row = 0; row < ROWS; row++)
        stripes[row] = 1 + row % 300;
    columns[place] = (struct sw_column){stripes, false};
    CHECK(sw_model_predict(&model, ROWS, columns, values));
    for (int row = 0; row < ROWS; row += 7) {
        columns[place] = (struct sw_column){&stripes[row], true};
        CHECK(sw_model_predict(&model, 1, columns, single));
        CHECK(single[0] == values[row]);
    }
    sw_model_free(&model);
}

static void test_damage(void) {
    struct sw_model good = open_artifact("trees.swm"), model;
    char error[128];
    unsigned char *copy = malloc(good.size);
    for (size_t at = 0; at < good.size; at++) {
        memcpy(copy, good.memory, good.size);
        copy[at] ^= 0x10;
        *error = '\0';
        CHECK(!sw_model_parse(copy, good.size, &model, error, sizeof error));
        CHECK(*error && !model.memory);
        CHECK(!sw_model_parse(good.memory, at, &model, error, sizeof error));
    }
    free(copy);
    CHECK(!sw_model_read("/nonexistent", &model, error, sizeof error));
    CHECK_TEXT(error, "No such file or directory");
    CHECK(!sw_model_read("/", &model, error, sizeof error));
    CHECK_TEXT(error, "not a regular file");
    sw_model_free(&good);
}

static char error[128];

static bool reads(const char *path) {
    struct sw_model model;
    *error = '\0';
    bool good = sw_model_read(path, &model, error, sizeof error);
    sw_model_free(&model);
    return good;
}

/* What others can have changed is not used: by its mode, its folder's, and its owner. */
static void test_owners(void) {
    struct sw_model good = open_artifact("trees.swm");
    char folder[] = "/tmp/sw-model-XXXXXX", path[64], link[64];
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.swm", folder);
    snprintf(link, sizeof link, "%s/b.swm", folder);
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(good.memory, good.size, 1, file) == 1 && fclose(file) == 0 &&
          symlink(path, link) == 0);
    sw_model_free(&good);
    CHECK(chmod(path, 0644) == 0 && reads(path) && reads(link));
    CHECK(chmod(path, 0664) == 0 && !reads(path) && !reads(link));
    CHECK_TEXT(error, "others can write it");
    CHECK(chmod(path, 0644) == 0 && chmod(folder, 0777) == 0 && !reads(path));
    CHECK_TEXT(error, "others can write its folder");
    CHECK(chmod(folder, 01777) == 0 && reads(path));
    if (geteuid() == 0) {
        CHECK(chown(path, 65534, 0) == 0 && !reads(path));
        CHECK_TEXT(error, "it belongs to another user than its folder");
        CHECK(!reads(link));
        CHECK(chown(folder, 65534, 0) == 0 && !reads(path)); /* anyone's, in a container */
        CHECK(chmod(folder, 0755) == 0 && reads(path));
    }
    unlink(link);
    unlink(path);
    rmdir(folder);
}

static void test_log2(void) {
    for (int exponent = -1074; exponent < 1024; exponent++)
        CHECK(sw_model_log2(ldexp(1, exponent)) == exponent);
    double x = 1e-300;
    for (int step = 0; step < 4000; step++, x *= 1.4)
        CHECK(fabs(sw_model_log2(x) - log2(x)) <= 1e-15 * (1 + fabs(log2(x))));
    CHECK(sw_model_log2(0) == -INFINITY && isnan(sw_model_log2(-1)) && sw_model_log2(INFINITY) == INFINITY);
}

int main(void) {
    test_choice();
    test_network();
    test_many_rows();
    test_damage();
    test_owners();
    test_log2();
    return failures != 0;
}
