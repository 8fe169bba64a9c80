/* ghosts PREFIX PHASES ROWS BYTES: a block of a field with ghost cells around it, as solvers on grids have.
 * In each phase the ranks write the inside of their blocks, which lie beside one another, into PREFIX.NNNN in
 * one collective call: ROWS rows of BYTES, between ghost cells in memory, in turns with the rows of the
 * others in the file. Prints "phase NUMBER SECONDS", from open to close, the maximum over ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define GHOST 16 /* bytes on each side of a row, and rows above and below */

static int rank, ranks;

static MPI_Datatype part_of(const int whole[2], const int part[2], const int from[2]) {
    MPI_Datatype type;
    MPI_Type_create_subarray(2, whole, part, from, MPI_ORDER_C, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    return type;
}

static double phase(const char *path, const char *block, MPI_Datatype inside, MPI_Datatype mine) {
    MPI_File file;
    double start, own, longest;
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file) !=
        MPI_SUCCESS) {
        fprintf(stderr, "cannot open %s\n", path);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
    MPI_File_set_view(file, 0, MPI_BYTE, mine, "native", MPI_INFO_NULL);
    MPI_File_write_at_all(file, 0, block, 1, inside, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    own = MPI_Wtime() - start;
    MPI_Allreduce(&own, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return longest;
}

int main(int argc, char **argv) {
    char path[4096];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 5) {
        fprintf(stderr, "ghosts PREFIX PHASES ROWS BYTES\n");
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
    const int phases = atoi(argv[2]), part[2] = {atoi(argv[3]), atoi(argv[4])};
    const int block[2] = {part[0] + 2 * GHOST, part[1] + 2 * GHOST}, around[2] = {GHOST, GHOST};
    const int whole[2] = {part[0], part[1] * ranks}, place[2] = {0, part[1] * rank};
    const size_t size = (size_t)block[0] * (size_t)block[1];
    const MPI_Datatype inside = part_of(block, part, around), mine = part_of(whole, part, place);
    char *data = malloc(size);
    for (int number = 0; number < phases; number++) {
        for (size_t i = 0; i < size; i++)
            data[i] = (char)(rank * 31 + number * 7 + (int)(i % 251));
        snprintf(path, sizeof path, "%s.%04d", argv[1], number);
        const double seconds = phase(path, data, inside, mine);
        if (rank == 0)
            printf("phase %d %.9f\n", number, seconds);
    }
    free(data);
    MPI_Finalize();
    return 0;
}
