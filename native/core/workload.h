/* SPDX-License-Identifier: BSD-3-Clause
 * What is known of the I/O on a file that is about to be opened, in the words of the workload, and as the
 * inputs of a model. */
#ifndef STRIPEWISE_WORKLOAD_H
#define STRIPEWISE_WORKLOAD_H

#include "arena.h"
#include "model.h"

enum sw_word {
    SW_WORD_OPERATION, /* texts up to SW_WORD_API, numbers after it */
    SW_WORD_LAYOUT,
    SW_WORD_DRIVER,
    SW_WORD_FILE_SYSTEM,
    SW_WORD_API,
    SW_WORD_NODES,
    SW_WORD_PROCESSES,
    SW_WORD_PROCESSES_PER_NODE,
    SW_WORD_FILE_SIZE,
    SW_WORD_TRANSFER_SIZE,
    SW_WORD_PIECE_SIZE,
    SW_WORD_COLLECTIVE, /* truths: 0 or 1 */
    SW_WORD_FILE_PER_PROCESS,
    SW_WORDS
};
extern const char *const sw_word_names[SW_WORDS];

#define SW_WORD_LENGTH 32
#define SW_MAX_EXTRA 8

struct sw_workload {
    bool known[SW_WORDS];
    double number[SW_WORDS];
    char text[SW_WORD_API + 1][SW_WORD_LENGTH];
    struct { /* of columns that no word names */
        char name[SW_WORD_LENGTH], value[SW_WORD_LENGTH];
    } extra[SW_MAX_EXTRA];
    unsigned extras;
};

/* Sets a word, or a column's value, from text; sizes may have a unit (k, MiB, "4 GiB"). False, with what is
 * wrong in error, if the text is none for that word. */
bool sw_workload_set(struct sw_workload *workload, const char *name, const char *value, char *error,
                     size_t error_size);
void sw_workload_number(struct sw_workload *workload, enum sw_word word, double number);
void sw_workload_text(struct sw_workload *workload, enum sw_word word, const char *text);

/* Takes over what is unknown so far. */
void sw_workload_fill(struct sw_workload *workload, const struct sw_workload *from);

/* Writes the known words as "name=value name=value". */
void sw_workload_print(const struct sw_workload *workload, char *text, size_t size);

/* A model's inputs for a workload: of tunables the one that acts if nothing is set. Bits in unknown: inputs
 * of which nothing is known. False, with the reason in error, if the model never saw such a workload. */
struct sw_inputs {
    double values[SW_MAX_INPUTS];
    uint64_t unknown;
};
bool sw_workload_inputs(const struct sw_workload *workload, const struct sw_model *model,
                        struct sw_inputs *inputs, char *error, size_t error_size);

/* The number of the value that is spelled so; false if the input has none (and the text is not a plain
 * number). */
bool sw_input_number(const struct sw_model *model, uint32_t input, const char *spelling, double *number);

/* ---- history ----
 * What this program did to files of a name before: a checkpoint looks like the one before it. Names are
 * compared with their digits folded. */

/* Writes the name with every run of digits as one "#". False if it does not fit. */
bool sw_fold_digits(const char *name, char *folded, size_t size);

#define SW_HISTORY_FAMILIES 128

struct sw_past {
    const char *name; /* folded, interned; NULL: free */
    bool write;
    uint64_t used; /* when it was last asked for or learned, in calls */
    double file_size, transfer_size;
    double stored; /* bytes of the file on storage; filters make them differ from file_size. 0: unknown */
    signed char collective, strided; /* -1: unknown */
    uint32_t opens;
};

struct sw_history {
    sw_lock lock;
    uint64_t clock;
    struct sw_past families[SW_HISTORY_FAMILIES];
};

/* Remembers one open of a file. past: what it was, its name the file's own. The least recently used family
 * makes room. */
void sw_history_learn(struct sw_history *history, struct sw_arena *arena, const char *path,
                      struct sw_past past);

/* Fills what is unknown of a workload from the last open of this kind. stored: bytes of the file that is
 * about to be read, which holds as much per byte as the last one did; 0: it is written, and as large as the
 * last. */
void sw_history_recall(struct sw_history *history, const char *path, bool write, double stored,
                       struct sw_workload *workload);

#endif
