/* SPDX-License-Identifier: BSD-3-Clause
 * The plan's parser on any bytes. With clang: -fsanitize=fuzzer,address; with any compiler: linked with
 * runner.c. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition) {
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sw_plan plan;
    char error[128] = "";
    if (!sw_plan_parse((const char *)data, size, &plan, error, sizeof error)) {
        demand(*error && plan.count == 0 && !plan.text);
        return 0;
    }
    demand(size >= strlen(SW_PLAN_HEADER) && plan.count <= SW_MAX_SETTINGS && strlen(plan.id) <= SW_MAX_ID);
    for (size_t i = 0; i < plan.count; i++) {
        const struct sw_setting *setting = &plan.settings[i];
        demand(*setting->key && strlen(setting->key) <= SW_MAX_KEY && *setting->value &&
               strlen(setting->value) <= SW_MAX_VALUE && *setting->glob);
        sw_setting_matches(setting, "/scratch/run/out.h5");
    }
    sw_plan_free(&plan);
    return 0;
}
