/* SPDX-License-Identifier: BSD-3-Clause
 * For compilers without libFuzzer. runner ROUNDS FILE...: gives the target each file, and ROUNDS mutations of
 * each from a fixed seed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST (1 << 16)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t state = 88172645463325252ull;

static uint64_t next_random(void) {
    state ^= state << 13; /* xorshift64 (Marsaglia 2003) */
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Gives the target a copy that is exactly as long, so that a sanitizer sees every read beyond it. */
static void give(const uint8_t *data, size_t size) {
    uint8_t *copy = size <= MOST ? malloc(size ? size : 1) : NULL;
    if (!copy)
        exit(1);
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static size_t mutate(uint8_t *data, size_t size) {
    static const char *const words[] = {"hint ", "layout ", "cephfs ",        "\n",  "\t",
                                        "# ",    "file *[", "override yes\n", "\xff"};
    if (size > MOST)
        return 0;
    for (uint64_t steps = 1 + next_random() % 4; steps; steps--) {
        size_t at = size ? next_random() % size : 0;
        const char *word = words[next_random() % (sizeof words / sizeof *words)];
        size_t added = strlen(word);
        switch (next_random() % 4) {
        case 0:
            if (size)
                data[at] = (uint8_t)next_random(); // NOLINT(clang-analyzer-security.ArrayBound): at < size
            break;
        case 1:
            size = at;
            break;
        case 2:
            if (size + added <= MOST) {
                memmove(data + at + added, data + at, size - at);
                for (size_t i = 0; i < added; i++)
                    data[at + i] = (uint8_t)word[i]; // NOLINT(clang-analyzer-security.ArrayBound)
                size += added;
            }
            break;
        default:
            if (size && 2 * size - at <= MOST) {
                memcpy(data + size, data + at, size - at);
                size += size - at;
            }
        }
    }
    return size;
}

int main(int argc, char **argv) {
    static uint8_t original[MOST], mutated[MOST];
    long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    for (int i = 2; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file) {
            perror(argv[i]);
            return 1;
        }
        size_t size = fread(original, 1, sizeof original, file);
        fclose(file);
        give(original, size);
        for (long round = 0; round < rounds; round++) {
            memcpy(mutated, original, size);
            give(mutated, mutate(mutated, size));
        }
    }
    return 0;
}
