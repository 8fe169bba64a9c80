#include "option_table.h"

#include <string.h>

#define COLUMN 32

static const char *const titles[GROUP_COUNT] = {
    "General", "Layout and sizes", "Tiles (--layout tile)", "Calls", "Run", "Dummy (--api dummy)"};

static void print_row(const struct option_row *row) {
    char left[64];
    char letter[] = {row->letter != 0 ? '-' : ' ', row->letter != 0 ? row->letter : ' ',
                     row->letter != 0 ? ',' : ' ', '\0'};
    snprintf(left, sizeof left, "  %s --%s%s%s", letter, row->name, row->argument != NULL ? " " : "",
             row->argument != NULL ? row->argument : "");
    printf("%-*s ", COLUMN - 1, left);
    if (strlen(left) > COLUMN - 1)
        printf("\n%*s", COLUMN, "");
    for (const char *line = row->help;;) {
        size_t length = strcspn(line, "\n");
        printf("%.*s\n", (int)length, line);
        if (line[length] == '\0')
            return;
        line += length + 1;
        printf("%*s", COLUMN, "");
    }
}

void help_print(void) {
    puts("usage: mpiexec -n RANKS " KERNEL_NAME " -o PATH [options]\n\n"
         "Writes and reads a file with MPI-IO, POSIX or HDF5 in a chosen pattern, checks what it reads, and\n"
         "times open, access, sync and close apart (maxima over ranks between barriers).\n"
         "Sizes are binary: 512, 1k, 4m, 1g, \"64 MiB\".");
    for (int group = 0; group < GROUP_COUNT; group++) {
        printf("\n%s:\n", titles[group]);
        for (int i = 0; i < option_rows; i++)
            if (option_table[i].group == (enum option_group)group)
                print_row(&option_table[i]);
    }
    puts("\nContent: the 8-byte little-endian word i of file f (f: the rank with -F, else 0) is word i of "
         "the\n"
         "SplitMix64 sequence that starts from mix(seed + (f + 1) * 0x9e3779b97f4a7c15).\n\n"
         "Exit codes: 0 done; 1 an I/O error or wrong data; 2 wrong use.");
}
