/* Times strided MPI-IO under one set of hints after another, within one launch: mpiexec -n N romio_sweep PLAN
 * FOLDER.
 *
 * A line of PLAN is: number operation collective piece_size calls bytes_per_call hints, where operation is
 * read or write, collective 0 or 1, bytes_per_call those of one rank, and hints key=value pairs joined by ';'
 * (or '-'). Each line opens a file anew under its hints, moves the data, and closes it. Printed are the
 * number and the seconds from the first open to the last close, the slowest rank's. A written file is new and
 * is deleted outside the timed part; files to read are written before, and what is read is compared with what
 * was written.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_LINE 1024

static int rank, ranks;

struct work {
    long number, piece, calls, bytes;
    char operation[8], hints[512];
    int collective;
};

static void stop(const char *what, const char *detail) {
    fprintf(stderr, "romio_sweep: %s %s\n", what, detail);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, text, &length);
    stop(what, text);
}

static MPI_Info info_of(char *hints) {
    MPI_Info info;
    MPI_Info_create(&info);
    if (strcmp(hints, "-") == 0)
        return info;
    for (char *pair = strtok(hints, ";"); pair != NULL; pair = strtok(NULL, ";")) {
        char *value = strchr(pair, '=');
        if (value == NULL)
            stop("not key=value:", pair);
        *value++ = '\0';
        MPI_Info_set(info, pair, value);
    }
    return info;
}

/* Each byte says where it lies, so that a piece read from a wrong place is noticed. */
static void fill(unsigned char *data, const struct work *w, long call) {
    for (long i = 0; i < w->bytes; i++) {
        long piece = (call * w->bytes + i) / w->piece;
        long offset = (piece * ranks + rank) * w->piece + i % w->piece;
        data[i] = (unsigned char)(offset ^ (offset >> 8) ^ (offset >> 16));
    }
}

static double transfer(const struct work *w, const char *path, int write, unsigned char **data) {
    MPI_File file;
    MPI_Datatype view;
    MPI_Status status;
    long pieces = w->bytes / w->piece;
    char hints[sizeof w->hints];
    strcpy(hints, w->hints);
    MPI_Info info = info_of(hints);
    int mode = write ? MPI_MODE_CREATE | MPI_MODE_RDWR : MPI_MODE_RDONLY;
    MPI_Type_vector((int)(pieces * w->calls), (int)w->piece, (int)(w->piece * ranks), MPI_BYTE, &view);
    MPI_Type_commit(&view);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    check(MPI_File_open(MPI_COMM_WORLD, path, mode, info, &file), "cannot open");
    check(MPI_File_set_view(file, (MPI_Offset)rank * w->piece, MPI_BYTE, view, "native", info),
          "cannot set a view");
    for (long call = 0; call < w->calls; call++) {
        int count = (int)w->bytes, code;
        if (w->collective)
            code = write ? MPI_File_write_all(file, data[call], count, MPI_BYTE, &status)
                         : MPI_File_read_all(file, data[call], count, MPI_BYTE, &status);
        else
            code = write ? MPI_File_write(file, data[call], count, MPI_BYTE, &status)
                         : MPI_File_read(file, data[call], count, MPI_BYTE, &status);
        check(code, "cannot transfer");
    }
    check(MPI_File_close(&file), "cannot close");
    double seconds = MPI_Wtime() - start, slowest;
    MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Type_free(&view);
    MPI_Info_free(&info);
    return slowest;
}

static void run(const struct work *w, const char *folder) {
    char path[1024];
    int reading = strcmp(w->operation, "read") == 0;
    struct work plain = *w;
    unsigned char **data = malloc((size_t)w->calls * sizeof *data);
    unsigned char *expected = malloc((size_t)w->bytes);
    if (data == NULL || expected == NULL)
        stop("no memory", "");
    for (long call = 0; call < w->calls; call++) {
        if ((data[call] = malloc((size_t)w->bytes)) == NULL)
            stop("no memory", "");
        fill(data[call], w, call);
    }
    snprintf(path, sizeof path, "%s/sweep.%s.%ld.%ld", folder, w->operation, w->piece, w->calls * w->bytes);
    if (reading) {
        int there = rank == 0 && access(path, F_OK) == 0;
        MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD);
        plain.collective = 1;
        strcpy(plain.hints, "romio_cb_write=enable");
        if (!there)
            transfer(&plain, path, 1, data);
        for (long call = 0; call < w->calls; call++)
            memset(data[call], 0, (size_t)w->bytes);
    }
    double seconds = transfer(w, path, !reading, data);
    if (reading) {
        for (long call = 0; call < w->calls; call++) {
            fill(expected, w, call);
            if (memcmp(expected, data[call], (size_t)w->bytes) != 0)
                stop("read something else than was written:", path);
        }
    } else if (rank == 0) {
        struct stat found;
        if (stat(path, &found) != 0 || found.st_size != (off_t)ranks * w->calls * w->bytes)
            stop("wrong size:", path);
        unlink(path);
    }
    if (rank == 0)
        printf("%ld %.9f\n", w->number, seconds);
    for (long call = 0; call < w->calls; call++)
        free(data[call]);
    free(data);
    free(expected);
}

int main(int argc, char **argv) {
    char line[MOST_LINE];
    struct work w;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 3)
        stop("use:", "romio_sweep PLAN FOLDER");
    FILE *plan = fopen(argv[1], "r");
    if (plan == NULL)
        stop("cannot read", argv[1]);
    while (fgets(line, sizeof line, plan) != NULL) {
        if (sscanf(line, "%ld %7s %d %ld %ld %ld %511s", &w.number, w.operation, &w.collective, &w.piece,
                   &w.calls, &w.bytes, w.hints) != 7)
            stop("cannot understand", line);
        run(&w, argv[2]);
    }
    fclose(plan);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
