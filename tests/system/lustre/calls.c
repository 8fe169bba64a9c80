/* Writes or reads a file in one MPI call, again and again: calls CASES. Each line of the file CASES is
 *
 *     FILE WAY LAYOUT PIECES PIECE HOLE [KEY=VALUE ...]
 *
 * WAY: write, read, write_all, read_all (collective). LAYOUT: strided (the ranks' pieces take turns, then a
 * hole) or segmented (each rank has a range of its own, a hole after each piece). What follows are hints. A
 * byte of the file has the value content(offset). Rank 0 prints what the library says of the file: FILE
 * KEY=VALUE ..., and "FILE wrong" where bytes that were read are not those. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char content(MPI_Offset offset) {
    return (char)(offset * 7 + offset / 251);
}

static void tell(MPI_File file, const char *name) {
    char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
    int keys, found;
    MPI_Info info;
    MPI_File_get_info(file, &info);
    MPI_Info_get_nkeys(info, &keys);
    printf("%s", name);
    for (int i = 0; i < keys; i++) {
        MPI_Info_get_nthkey(info, i, key);
        MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
        for (char *c = value; *c; c++)
            *c = *c == ' ' ? ',' : *c;
        printf(" %s=%s", key, value);
    }
    printf("\n");
    MPI_Info_free(&info);
}

static int one(char *line, int rank, int ranks) {
    char *name = strtok(line, " \n"), *way = strtok(NULL, " \n"), *layout = strtok(NULL, " \n");
    long pieces = atol(strtok(NULL, " \n")), piece = atol(strtok(NULL, " \n")),
         hole = atol(strtok(NULL, " \n"));
    int strided = strcmp(layout, "strided") == 0, writes = strncmp(way, "write", 5) == 0, wrong = 0;
    long stride = strided ? ranks * piece + hole : piece + hole;
    MPI_Offset start = strided ? rank * piece : (MPI_Offset)rank * pieces * stride;
    MPI_Info info;
    MPI_Info_create(&info);
    for (char *hint = strtok(NULL, " \n"); hint; hint = strtok(NULL, " \n")) {
        char *value = strchr(hint, '=');
        *value = '\0';
        MPI_Info_set(info, hint, value + 1);
    }
    char *data = malloc((size_t)(pieces * piece));
    for (long i = 0; writes && i < pieces * piece; i++)
        data[i] = content(start + i / piece * stride + i % piece);

    MPI_Datatype view;
    MPI_Type_vector((int)pieces, (int)piece, (int)stride, MPI_BYTE, &view);
    MPI_Type_commit(&view);
    MPI_File file;
    if (MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file) != MPI_SUCCESS) {
        fprintf(stderr, "cannot open %s\n", name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        tell(file, name);
    /* Where all is one piece the view is, too: the library's way for that is another. */
    if (hole || strided)
        MPI_File_set_view(file, start, MPI_BYTE, view, "native", MPI_INFO_NULL);
    MPI_Offset at = hole || strided ? 0 : start;
    int bytes = (int)(pieces * piece), code;
    if (strcmp(way, "write_all") == 0)
        code = MPI_File_write_at_all(file, at, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    else if (strcmp(way, "read_all") == 0)
        code = MPI_File_read_at_all(file, at, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    else if (writes)
        code = MPI_File_write_at(file, at, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    else
        code = MPI_File_read_at(file, at, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    for (long i = 0; i < pieces * piece; i++)
        wrong |= data[i] != content(start + i / piece * stride + i % piece);
    MPI_File_close(&file);
    if (code != MPI_SUCCESS || wrong)
        printf("%s wrong\n", name);
    MPI_Type_free(&view);
    MPI_Info_free(&info);
    free(data);
    return code != MPI_SUCCESS || wrong;
}

int main(int argc, char **argv) {
    int rank, ranks, wrong = 0;
    char line[4096];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    FILE *cases = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (!cases) {
        fprintf(stderr, "calls CASES\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    while (fgets(line, sizeof line, cases))
        wrong |= one(line, rank, ranks);
    fclose(cases);
    MPI_Finalize();
    return wrong;
}
