/* holes FILE read|write BLOCK HOLE PIECES: one process accesses blocks with holes between them by one MPI-IO
 * call, and prints its bandwidth from open to close, a write synced. A file that is read is made before, and
 * its pages are dropped from this node's cache. What is read is checked; a write must leave the holes as they
 * were. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned char value(long place) {
    return (unsigned char)(place * 2654435761u >> 13);
}

static void stop(const char *what) {
    fprintf(stderr, "%s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void made(const char *name, long span) {
    unsigned char *data = malloc((size_t)span);
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (!data || file < 0)
        stop("the file cannot be made");
    for (long i = 0; i < span; i++)
        data[i] = value(i);
    if (write(file, data, (size_t)span) != span || fsync(file) != 0)
        stop("the file cannot be written");
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
    free(data);
}

static long wrong(const char *name, long block, long hole, long span) {
    unsigned char *data = malloc((size_t)span);
    int file = open(name, O_RDONLY);
    long found = 0;
    if (!data || file < 0 || read(file, data, (size_t)span) != span)
        stop("the file cannot be read back");
    for (long i = 0; i < span; i++)
        found += data[i] != (unsigned char)(value(i) + (i % (block + hole) < block ? 1 : 0));
    close(file);
    free(data);
    return found;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    long block = argc > 3 ? atol(argv[3]) : 0, hole = argc > 4 ? atol(argv[4]) : 0,
         pieces = argc > 5 ? atol(argv[5]) : 0;
    if (argc != 6 || block < 1 || hole < 0 || pieces < 1 || block * pieces > 1 << 30)
        stop("usage: holes FILE read|write BLOCK HOLE PIECES");
    int reading = strcmp(argv[2], "read") == 0;
    long span = pieces * (block + hole), bytes = pieces * block, bad = 0;
    unsigned char *data = malloc((size_t)bytes);
    MPI_Datatype piece, pattern;
    MPI_File file;
    if (!data)
        stop("no memory");
    made(argv[1], span);
    for (long i = 0; i < bytes; i++)
        data[i] = (unsigned char)(value(i / block * (block + hole) + i % block) + 1);
    MPI_Type_contiguous((int)block, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, block + hole, &pattern);
    MPI_Type_commit(&pattern);
    double start = MPI_Wtime();
    if (MPI_File_open(MPI_COMM_WORLD, argv[1], reading ? MPI_MODE_RDONLY : MPI_MODE_RDWR, MPI_INFO_NULL,
                      &file) != MPI_SUCCESS)
        stop("the file cannot be opened");
    MPI_File_set_view(file, 0, MPI_BYTE, pattern, "native", MPI_INFO_NULL);
    int code = reading ? MPI_File_read(file, data, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE)
                       : MPI_File_write(file, data, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    if (!reading)
        MPI_File_sync(file);
    MPI_File_close(&file);
    double seconds = MPI_Wtime() - start;
    if (code != MPI_SUCCESS)
        stop("the access failed");
    if (reading)
        for (long i = 0; i < bytes; i++)
            bad += data[i] != value(i / block * (block + hole) + i % block);
    else
        bad = wrong(argv[1], block, hole, span);
    if (bad)
        stop("wrong data");
    printf("%s bandwidth: %.4f MiB/s\n", argv[2], (double)bytes / seconds / 1048576.0);
    MPI_Type_free(&pattern);
    MPI_Type_free(&piece);
    free(data);
    MPI_Finalize();
    return 0;
}
