/* tile FILE STEPS ROWS COLUMNS: each rank has a tile of a matrix of reals, and writes it collectively into
 * one file, step after step, as programs do that show or filter images in parallel. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void demand(int code, const char *call) {
    if (code == MPI_SUCCESS)
        return;
    fprintf(stderr, "%s fails\n", call);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks, sides[2] = {0, 0};
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    demand(argc == 5 ? MPI_SUCCESS : MPI_ERR_ARG, "tile FILE STEPS ROWS COLUMNS");
    MPI_Dims_create(ranks, 2, sides); /* the longer side first: tiles beside one another share rows */
    const int grid[2] = {sides[1], sides[0]};
    const int steps = atoi(argv[2]), tile[2] = {atoi(argv[3]), atoi(argv[4])};
    const int whole[2] = {grid[0] * tile[0], grid[1] * tile[1]};
    const int start[2] = {rank / grid[1] * tile[0], rank % grid[1] * tile[1]};
    const int count = tile[0] * tile[1];
    double *data = malloc((size_t)count * sizeof *data);
    for (int i = 0; i < count; i++)
        data[i] = rank + i;
    MPI_Datatype type;
    MPI_Type_create_subarray(2, whole, tile, start, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    MPI_File file;
    demand(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file),
           "open");
    for (int step = 0; step < steps; step++) {
        const MPI_Offset place = (MPI_Offset)step * whole[0] * whole[1] * (MPI_Offset)sizeof *data;
        demand(MPI_File_set_view(file, place, MPI_DOUBLE, type, "native", MPI_INFO_NULL), "set_view");
        demand(MPI_File_write_all(file, data, count, MPI_DOUBLE, MPI_STATUS_IGNORE), "write_all");
    }
    MPI_File_close(&file);
    MPI_Type_free(&type);
    free(data);
    MPI_Finalize();
    return 0;
}
