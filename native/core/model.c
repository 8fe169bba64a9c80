/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "model.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "input.h"

/* A file holds a program or a tree once, and names it as often as it likes. */
#define MOST_STEPS (1u << 26)
#define NODES_A_STEP 16 /* a prediction passes few nodes of a tree */

static const size_t entry_sizes[SW_SECTIONS] = {
#define X(name, type, section) [section] = sizeof(type),
    SW_MODEL_SECTIONS(X)
#undef X
};

_Static_assert(sizeof(struct sw_model_input) == 80 && sizeof(struct sw_model_member) == 64 &&
                   sizeof(struct sw_model_header) == 120,
               "laid out as in the file");

/* What an instruction needs on the stack; it leaves one number in its place. */
static uint32_t takes(uint32_t op) {
    return op <= SW_OP_OUTPUT ? 0 : op <= SW_OP_NOT ? 1 : op < SW_OP_SELECT ? 2 : 3;
}

static bool is_text(const struct sw_model *model, uint32_t offset) {
    return offset < model->counts[SW_STRINGS];
}

static bool is_span(uint32_t first, uint32_t count, uint32_t limit) {
    return first <= limit && count <= limit - first;
}

enum use { IN_RULE, IN_RESULT };

/* May the program stand here, reading no tunable from this input on (of the inputs, not of the tunables)? */
static bool is_program(struct sw_model *model, uint32_t program, enum use use, uint32_t tunables_below) {
    if (program >= model->counts[SW_PROGRAMS])
        return false;
    struct sw_model_program at = model->programs[program];
    size_t depth = 0;
    model->steps += at.length;
    if (model->steps > MOST_STEPS)
        return false;
    for (uint32_t i = at.first; i < at.first + at.length; i++) {
        uint32_t op = model->code[i] >> 24, operand = model->code[i] & 0xffffffu;
        if (op >= SW_OPCODES || depth < takes(op))
            return false;
        if (op == SW_OP_INPUT &&
            (operand >= model->counts[SW_INPUTS] ||
             (operand >= tunables_below && model->inputs[operand].kind == SW_INPUT_TUNABLE)))
            return false;
        if (op == SW_OP_CONSTANT && operand >= model->counts[SW_CONSTANTS])
            return false;
        if ((op == SW_OP_OUTPUT || op == SW_OP_EXP) && use != IN_RESULT)
            return false;
        depth = depth - takes(op) + 1;
        if (depth > SW_ARTIFACT_STACK)
            return false;
    }
    return depth == 1;
}

static const char *check_inputs(struct sw_model *model) {
    uint32_t tunables = 0, count = model->counts[SW_INPUTS];
    if (count > SW_MAX_INPUTS)
        return "too many inputs";
    for (uint32_t i = 0; i < count; i++) {
        const struct sw_model_input *input = &model->inputs[i];
        bool tunable = input->kind == SW_INPUT_TUNABLE;
        tunables += tunable;
        if (input->kind >= SW_INPUT_KINDS || !is_text(model, input->name) || !is_text(model, input->role) ||
            !is_text(model, input->unit) || !is_text(model, input->layer) || !is_text(model, input->key))
            return "an input is damaged";
        if (!is_span(input->first_value, input->values, model->counts[SW_VALUES]) ||
            (tunable && !input->values) || (input->values ? input->initial >= input->values : input->initial))
            return "values of an input are damaged";
        if (input->carrier > SW_ADVICE || !isfinite(input->factor) || !isfinite(input->cost))
            return "an input is damaged";
        bool rules = (input->free == SW_ARTIFACT_NONE || is_program(model, input->free, IN_RULE, 0)) &&
                     (input->active == SW_ARTIFACT_NONE || is_program(model, input->active, IN_RULE, i)) &&
                     (input->same == SW_ARTIFACT_NONE || is_program(model, input->same, IN_RULE, i + 1));
        if (!rules)
            return "a rule of an input is damaged";
    }
    if (tunables > SW_MAX_TUNABLES)
        return "too many tunables";
    for (uint32_t i = 0; i < model->counts[SW_VALUES]; i++)
        if (!isfinite(model->values[i].number) || !is_text(model, model->values[i].spelling))
            return "a value is damaged";
    return NULL;
}

static const char *check_rules(struct sw_model *model) {
    for (uint32_t i = 0; i < model->counts[SW_CONSTRAINTS]; i++)
        if (!is_program(model, model->constraints[i], IN_RULE, UINT32_MAX))
            return "a constraint is damaged";
    for (uint32_t i = 0; i < model->counts[SW_DERIVED]; i++) {
        const struct sw_model_derived *derived = &model->derived[i];
        if (derived->carrier > SW_ADVICE || !is_text(model, derived->layer) ||
            !is_text(model, derived->key) || !is_text(model, derived->template) ||
            !is_program(model, derived->value, IN_RULE, UINT32_MAX) ||
            (derived->active != SW_ARTIFACT_NONE && !is_program(model, derived->active, IN_RULE, UINT32_MAX)))
            return "a derived setting is damaged";
    }
    return NULL;
}

/* A preorder walk with the end of every open left subtree on a stack. */
static const char *check_tree(const struct sw_model_node *nodes, uint32_t count, uint32_t cuts) {
    uint32_t ends[SW_ARTIFACT_DEPTH];
    size_t depth = 1;
    ends[0] = count;
    for (uint32_t i = 0; i < count; i++) {
        const struct sw_model_node *node = &nodes[i];
        if (!depth)
            return "a tree is damaged";
        uint32_t end = ends[depth - 1];
        if (!node->right) {
            if (end != i + 1 || !isfinite(sw_model_leaf(node)))
                return "a tree is damaged";
            depth--;
        } else {
            if (node->what >= cuts || node->right <= i + 1 || node->right >= end)
                return "a tree is damaged";
            if (depth == SW_ARTIFACT_DEPTH)
                return "a tree is too deep";
            ends[depth++] = node->right;
        }
    }
    return depth ? "a tree is damaged" : NULL;
}

static const char *check_network(struct sw_model *model, const struct sw_model_member *member) {
    uint32_t width = member->features;
    for (uint32_t i = 0; i < member->blocks; i++) {
        const struct sw_model_block *layer = &model->blocks[member->first_block + i];
        if (layer->inputs != width || !layer->outputs || layer->outputs > SW_MAX_LAYER || layer->count > 1)
            return "a layer is damaged";
        /* at most 4096 * 4097 weights: no overflow */
        if (!is_span(layer->first, layer->outputs * (layer->inputs + 1), model->counts[SW_WEIGHTS]))
            return "a layer is damaged";
        model->steps += (uint64_t)layer->outputs * (layer->inputs + 1);
        width = layer->outputs;
    }
    return member->blocks && width == 1 ? NULL : "a network is damaged";
}

static const char *check_members(struct sw_model *model) {
    if (!model->counts[SW_MEMBERS])
        return "it contains no model";
    for (uint32_t i = 0; i < model->counts[SW_MEMBERS]; i++) {
        const struct sw_model_member *member = &model->members[i];
        if (member->kind >= SW_MEMBER_KINDS || !isfinite(member->weight) || !isfinite(member->base) ||
            !isfinite(member->scale) || member->features > SW_MAX_FEATURES ||
            !is_span(member->first_feature, member->features, model->counts[SW_FEATURES]) ||
            !is_span(member->first_block, member->blocks, model->counts[SW_BLOCKS]) ||
            !is_span(member->first_cut, member->cuts, model->counts[SW_CUTS]) ||
            !is_program(model, member->post, IN_RESULT, UINT32_MAX) ||
            (member->gate != SW_ARTIFACT_NONE && !is_program(model, member->gate, IN_RULE, UINT32_MAX)))
            return "a member is damaged";
        for (uint32_t f = 0; f < member->features; f++)
            if (!is_program(model, model->features[member->first_feature + f], IN_RULE, UINT32_MAX))
                return "a feature is damaged";
        model->steps += member->cuts;
        for (uint32_t c = 0; c < member->cuts; c++) {
            const struct sw_model_cut *cut = &model->cuts[member->first_cut + c];
            if (cut->feature >= member->features || !isfinite(cut->threshold))
                return "a cut is damaged";
        }
        const char *problem = member->kind == SW_MEMBER_NETWORK ? check_network(model, member) : NULL;
        for (uint32_t b = 0; !problem && member->kind == SW_MEMBER_TREES && b < member->blocks; b++) {
            struct sw_model_block tree = model->blocks[member->first_block + b];
            if (!tree.count || !is_span(tree.first, tree.count, model->counts[SW_NODES]))
                return "a tree is damaged";
            model->steps += 1 + tree.count / NODES_A_STEP;
            if (model->steps > MOST_STEPS)
                break;
            problem = check_tree(model->nodes + tree.first, tree.count, member->cuts);
        }
        if (problem)
            return problem;
    }
    for (uint32_t i = 0; i < model->counts[SW_WEIGHTS]; i++)
        if (!isfinite(model->weights[i]))
            return "a weight is not finite";
    return NULL;
}

static const char *check_all(struct sw_model *model) {
    if (!model->counts[SW_STRINGS] || model->strings[model->counts[SW_STRINGS] - 1] != '\0')
        return "its strings are damaged";
    for (uint32_t i = 0; i < model->counts[SW_CONSTANTS]; i++)
        if (!isfinite(model->constants[i]))
            return "a constant is not finite";
    for (uint32_t i = 0; i < model->counts[SW_PROGRAMS]; i++)
        if (!is_span(model->programs[i].first, model->programs[i].length, model->counts[SW_CODE]))
            return "a program is damaged";
    if (!is_text(model, model->name) || !is_text(model, model->identifier) ||
        !is_text(model, model->objective) || !is_text(model, model->unit) || !isfinite(model->reach) ||
        model->reach < 0 || model->measured + model->expected > model->counts[SW_CONSTRAINTS])
        return "its header is damaged";
    const char *problem = check_inputs(model);
    if (!problem)
        problem = check_rules(model);
    if (!problem && !is_program(model, model->result, IN_RESULT, UINT32_MAX))
        problem = "its result is damaged";
    if (!problem && !is_program(model, model->margin, IN_RULE, UINT32_MAX))
        problem = "its margin is damaged";
    return problem ? problem : check_members(model);
}

static uint64_t checksum(const void *memory, size_t size) {
    const uint64_t *words = memory;
    uint64_t sum = 0;
    for (size_t i = 4; i < size / 8; i++)
        sum += (2 * (uint64_t)(i - 4) + 1) * words[i];
    return sum;
}

/* Finds the sections; the file must end exactly after the last. */
static bool lay_out(struct sw_model *model) {
    const char *places[SW_SECTIONS];
    size_t at = sizeof(struct sw_model_header);
    for (int section = 0; section < SW_SECTIONS; section++) {
        size_t room = model->size - at, count = model->counts[section];
        if (count > room / entry_sizes[section])
            return false;
        places[section] = (const char *)model->memory + at;
        at += (count * entry_sizes[section] + 7) & ~(size_t)7;
        if (at > model->size)
            return false;
    }
#define X(name, type, section) model->name = (const void *)places[section];
    SW_MODEL_SECTIONS(X)
#undef X
    return at == model->size;
}

/* Checks an artifact and fills model, which takes over the memory (from malloc, aligned to 8 bytes). On
 * failure memory is freed, model is empty, and error says what is wrong. */
static bool adopt(void *memory, size_t size, struct sw_model *model, char *error, size_t error_size) {
    *model = (struct sw_model){.memory = memory, .size = size};
    const struct sw_model_header *header = memory;
    const char *problem = NULL;
    const uint16_t one = 1;
    if (size < sizeof *header || memcmp(header->magic, SW_ARTIFACT_MAGIC, sizeof header->magic) != 0) {
        problem = "it is not a model artifact";
    } else if (*(const unsigned char *)&one != 1) {
        problem = "this machine is big-endian";
    } else if (header->version != SW_ARTIFACT_VERSION) {
        snprintf(error, error_size, "it has version %u, this runtime reads %d", (unsigned)header->version,
                 SW_ARTIFACT_VERSION);
        sw_model_free(model);
        return false;
    } else if (header->size != size || size % 8) {
        problem = "it is cut off";
    } else if (header->flags & ~(SW_ARTIFACT_MAXIMIZE | SW_ARTIFACT_SIMULATED)) {
        problem = "its header is damaged";
    } else if (size > SW_MAX_ARTIFACT_BYTES) {
        problem = "it is too large";
    } else if (header->checksum != checksum(memory, size)) {
        problem = "its checksum is wrong";
    } else {
        memcpy(model->counts, header->counts, sizeof model->counts);
        model->flags = header->flags;
        model->name = header->name;
        model->identifier = header->identifier;
        model->objective = header->objective;
        model->unit = header->unit;
        model->result = header->result;
        model->margin = header->margin;
        model->reach = (double)header->reach;
        model->measured = header->measured;
        model->expected = header->expected;
        problem = lay_out(model) ? check_all(model) : "its sections are damaged";
        if (model->steps > MOST_STEPS)
            problem = "its predictions take too long";
    }
    if (!problem)
        return true;
    snprintf(error, error_size, "%s", problem);
    sw_model_free(model);
    return false;
}

bool sw_model_parse(const void *data, size_t size, struct sw_model *model, char *error, size_t error_size) {
    *model = (struct sw_model){.memory = NULL};
    void *memory = size <= SW_MAX_ARTIFACT_BYTES ? malloc(size ? size : 1) : NULL;
    if (!memory) {
        snprintf(error, error_size, "%s", size > SW_MAX_ARTIFACT_BYTES ? "it is too large" : "out of memory");
        return false;
    }
    if (size)
        memcpy(memory, data, size);
    return adopt(memory, size, model, error, error_size);
}

/* Why a file is not to be used: others than its owner and root can have changed it or put it there. Staff
 * share models, so it may belong to another user if its folder does, too: the same rule as
 * checked_model in ownership.py. In a container NOBODY is anyone: where all can write, that tells nothing. */
#define NOBODY 65534
static const char *distrusted(int fd, const char *path) {
    char folder[PATH_MAX];
    struct stat file, named, around;
    const char *name = strrchr(path, '/');
    int written = name ? snprintf(folder, sizeof folder, "%.*s", (int)(name - path) + 1, path)
                       : snprintf(folder, sizeof folder, ".");
    if (written < 0 || (size_t)written >= sizeof folder || fstat(fd, &file) != 0 ||
        lstat(path, &named) != 0 || stat(folder, &around) != 0)
        return "its folder cannot be looked at";
    uid_t self = geteuid(),
          staff = around.st_uid == NOBODY && around.st_mode & S_IWOTH ? self : around.st_uid;
    if ((file.st_uid != self && file.st_uid != 0 && file.st_uid != staff) ||
        (named.st_uid != self && named.st_uid != 0 && named.st_uid != staff))
        return "it belongs to another user than its folder";
    if (file.st_mode & (S_IWGRP | S_IWOTH))
        return "others can write it";
    return around.st_mode & S_IWOTH && !(around.st_mode & S_ISVTX) ? "others can write its folder" : NULL;
}

bool sw_model_read(const char *path, struct sw_model *model, char *error, size_t error_size) {
    off_t there;
    *model = (struct sw_model){.memory = NULL};
    int fd = sw_input_open(path, &there, error, error_size);
    if (fd < 0)
        return false;
    const char *problem = there > SW_MAX_ARTIFACT_BYTES ? "it is too large" : distrusted(fd, path);
    if (problem) {
        close(fd);
        snprintf(error, error_size, "%s", problem);
        return false;
    }
    size_t size = (size_t)there;
    char *memory = sw_input_read(fd, 0, &size, error, error_size);
    return memory && adopt(memory, size, model, error, error_size);
}

void sw_model_free(struct sw_model *model) {
    free(model->memory);
    *model = (struct sw_model){.memory = NULL};
}

const char *sw_model_text(const struct sw_model *model, uint32_t offset) {
    return model->strings + offset;
}

uint32_t sw_model_find(const struct sw_model *model, const char *role, const char *name) {
    for (uint32_t i = 0; i < model->counts[SW_INPUTS]; i++)
        if (role ? strcmp(sw_model_text(model, model->inputs[i].role), role) == 0
                 : strcmp(sw_model_text(model, model->inputs[i].name), name) == 0)
            return i;
    return SW_ARTIFACT_NONE;
}

double sw_model_code(const struct sw_model *model, const char *text) {
    for (uint32_t at = 0; at < model->counts[SW_STRINGS]; at += (uint32_t)strlen(model->strings + at) + 1)
        if (strcmp(model->strings + at, text) == 0)
            return at;
    return -1;
}
