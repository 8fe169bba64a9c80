/* SPDX-License-Identifier: BSD-3-Clause
 * Layouts of Lustre by the lfs command. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "input.h"
#include "layout_lustre_command.h"

/* What lfs getstripe prints, as YAML or on one line: labels, each with a value behind it. */
static bool parse_lfs(char *output, struct components *layout) {
    struct component next = {.end = TO_THE_END};
    bool extension = false, begun = false, told = false;
    char *rest = NULL, *label = strtok_r(output, " \t\n", &rest);
    while (label) {
        size_t length = strlen(label);
        char *value = NULL;
        bool is_label = length > 1 && label[length - 1] == ':';
        if (is_label) {
            label[length - 1] = '\0';
            value = strtok_r(NULL, " \t\n", &rest);
        }
        if (!is_label || !value) {
            label = value ? value : strtok_r(NULL, " \t\n", &rest);
            continue;
        }
        label += strncmp(label, "lmm_", 4) == 0 ? 4 : 0;
        size_t last = strlen(value) - 1;
        if (value[last] == ':') { /* a label without a value of its own */
            label = value;
            continue;
        }
        int64_t number = strtoll(value, NULL, 10);
        told |= strcmp(label, "stripe_count") == 0;
        layout->composite |= strncmp(label, "lcm", 3) == 0;
        if (strcmp(label, "lcme_id") == 0) {
            if (begun)
                sw_components_add(layout, &next, extension);
            next = (struct component){.end = TO_THE_END};
            begun = true;
            extension = false;
        } else if (strcmp(label, "lcme_flags") == 0) {
            extension = strstr(value, "extension") != NULL;
        } else if (strcmp(label, "lcme_extent.e_start") == 0) {
            next.start = number;
        } else if (strcmp(label, "lcme_extent.e_end") == 0) {
            next.end = strcmp(value, "EOF") == 0 ? TO_THE_END : number;
        } else if (strcmp(label, "stripe_count") == 0) {
            next.count = number;
        } else if (strcmp(label, "stripe_size") == 0) {
            next.size = number;
        } else if (strcmp(label, "extension_size") == 0) {
            next.extension = number;
        } else if (strcmp(label, "pattern") == 0) {
            next.on_mdt = strstr(value, "mdt") != NULL;
            next.overstriped = strstr(value, "overstriped") != NULL;
        } else if (strcmp(label, "pool") == 0) {
            snprintf(next.pool, sizeof next.pool, "%s", value);
        }
        label = strtok_r(NULL, " \t\n", &rest);
    }
    if (told)
        sw_components_add(layout, &next, extension);
    return told;
}

#define OUTPUT 262144 /* an object of a file takes about 70 bytes */

bool sw_lustre_command_read(const char *path, bool folder, struct components *layout) {
    char *output =
        mmap(NULL, OUTPUT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (output == MAP_FAILED)
        return false;
    char *const arguments[] = {"lfs", "getstripe", folder ? "-d" : "-y", (char *)path, NULL};
    bool found = sw_input_command(arguments, 0666, output, OUTPUT) == 0 && parse_lfs(output, layout);
    munmap(output, OUTPUT);
    return found;
}

/* The words of a command, the numbers among them in text. */
struct command {
    int count;
    size_t used;
    char *words[MOST_COMPONENTS * 12 + 8], text[MOST_COMPONENTS * 4 * 21];
};

static void add_word(struct command *command, const char *word) {
    command->words[command->count++] = (char *)word;
}

static void add_number(struct command *command, const char *option, int64_t number) {
    char *word = command->text + command->used;
    command->used +=
        (size_t)snprintf(word, sizeof command->text - command->used, "%lld", (long long)number) + 1;
    add_word(command, option);
    add_word(command, number == TO_THE_END ? "eof" : word);
}

static void say(struct command *command, const struct components *layout) {
    for (int i = 0; i < layout->count; i++) {
        const struct component *c = &layout->all[i];
        if (layout->composite)
            add_number(command, "-E", c->end);
        if (c->extension)
            add_number(command, "-z", c->extension);
        if (c->on_mdt) {
            add_word(command, "-L");
            add_word(command, "mdt");
            continue;
        }
        if (c->count)
            add_number(command, c->overstriped ? "-C" : "-c", c->count);
        if (c->size)
            add_number(command, "-S", c->size);
        if (*c->pool) {
            add_word(command, "-p");
            add_word(command, c->pool);
        }
    }
}

int sw_lustre_command_create(const char *path, mode_t mode, const struct components *layout,
                             const char *start, const char *template, char *output, size_t size) {
    struct command command = {0};
    add_word(&command, "lfs");
    add_word(&command, "setstripe");
    if (template) {
        add_word(&command, "--yaml");
        add_word(&command, template);
    } else {
        say(&command, layout);
    }
    if (!template && start) {
        add_word(&command, "-i");
        add_word(&command, start);
    }
    add_word(&command, path);
    return sw_input_command(command.words, mode, output, size);
}
