/* SPDX-License-Identifier: BSD-3-Clause
 * A program that asks Stripewise for settings, follows its advice, and prints what was decided: ask FILE
 * [MIB]. It is an ordinary MPI program: without the runtime it runs as any other.
 *
 *     mpicc -I native/include examples/ask.c -o ask
 *     stripewise run --model site.model -- mpiexec -n 4 ./ask checkpoint.dat */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "stripewise.h"

int main(int argc, char **argv) {
    const int amode = MPI_MODE_CREATE | MPI_MODE_WRONLY;
    struct stripewise_advice advice;
    char size[32], why[2048];
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    const char *name = argv[1];
    MPI_Offset share = (argc > 2 ? atoi(argv[2]) : 1) * (MPI_Offset)1048576;

    snprintf(size, sizeof size, "%lld", (long long)share * ranks);
    stripewise_expect(name, "file_size", size);
    stripewise_advise(MPI_COMM_WORLD, name, amode, &advice);
    MPI_Offset piece =
        advice.transfer_size > 0 && advice.transfer_size < share ? advice.transfer_size : share;

    MPI_Info info;
    MPI_Info_create(&info);
    int status = stripewise_fill(MPI_COMM_WORLD, name, amode, info);
    stripewise_explain(name, why, sizeof why);
    MPI_File file;
    MPI_File_open(MPI_COMM_WORLD, name, amode, info, &file);
    MPI_Info_free(&info);

    char *data = calloc(1, (size_t)piece);
    for (MPI_Offset done = 0; done < share; done += piece) {
        int count = (int)(share - done < piece ? share - done : piece);
        MPI_Offset offset = rank * share + done;
        if (advice.collective == 0)
            MPI_File_write_at(file, offset, data, count, MPI_BYTE, MPI_STATUS_IGNORE);
        else
            MPI_File_write_at_all(file, offset, data, count, MPI_BYTE, MPI_STATUS_IGNORE);
    }
    MPI_File_close(&file);
    free(data);
    if (rank == 0)
        printf("status %d, pieces of %lld bytes, collective %d, %.2f times as fast predicted\n%s\n", status,
               (long long)piece, advice.collective, advice.speedup, why);
    MPI_Finalize();
    return 0;
}
