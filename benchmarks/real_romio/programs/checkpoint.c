/* A checkpoint as a user would write it: each rank owns every n-th kilobyte of one shared file. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1024, STEPS = 4 };

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *path = argc > 1 ? argv[1] : "checkpoint.dat";
    const int mebibytes = argc > 2 ? atoi(argv[2]) : 32;
    const int pieces = mebibytes * 1024 / ranks / STEPS;

    MPI_Datatype column;
    MPI_Type_vector(pieces, PIECE, PIECE * ranks, MPI_BYTE, &column);
    MPI_Type_commit(&column);
    char *state = malloc((size_t)pieces * PIECE);
    memset(state, 'a' + rank, (size_t)pieces * PIECE);

    MPI_File file;
    if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file)) {
        fprintf(stderr, "cannot open %s\n", path);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int step = 0; step < STEPS; step++) {
        const MPI_Offset start = ((MPI_Offset)step * pieces * ranks + rank) * PIECE;
        MPI_File_set_view(file, start, MPI_BYTE, column, "native", MPI_INFO_NULL);
        MPI_File_write_all(file, state, pieces * PIECE, MPI_BYTE, MPI_STATUS_IGNORE);
    }
    MPI_File_close(&file);

    MPI_Type_free(&column);
    free(state);
    MPI_Finalize();
    return 0;
}
