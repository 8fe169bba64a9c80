/* sweep FILE LIST [OTHER]: many runs of I/O in one launch, so that starting processes costs no run anything.
 *
 * LIST has a line for each run:
 *
 *     NUMBER write|read posix|mpiio|hdf5 COLLECTIVE PIECE HOLE TOTAL CALL [KEY=VALUE ...]
 *
 * Every rank accesses TOTAL bytes in pieces of PIECE, CALL bytes at a time. The ranks' pieces lie side by
 * side, and HOLE bytes follow those of the last rank. Keys are hints of MPI-IO, those that begin with hdf5_
 * settings of HDF5, and ceph_stripe_count and ceph_stripe_unit a layout of CephFS. A file that is read, or
 * that has holes, is made before, under the name OTHER where it is given: the same file by another client, so
 * that this one has nothing of it cached. What is read is checked, and so is what is written: the holes have
 * to be as they were.
 *
 * Prints NUMBER and the seconds from open to close, a write synced, the maximum over ranks. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifdef WITH_HDF5
#include <hdf5.h>
#endif

#define MOST 32

struct run {
    long number, piece, hole, total, call;
    char operation[8], interface[8];
    int collective, count;
    char *keys[MOST], *values[MOST];
};

static int rank, ranks;
static unsigned char *data;

static void demand(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "sweep: %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static unsigned char value(long place) {
    return (unsigned char)(place * 2654435761u >> 13);
}

static long setting(const struct run *run, const char *key, long otherwise) {
    for (int i = 0; i < run->count; i++)
        if (strcmp(run->keys[i], key) == 0)
            return atol(run->values[i]);
    return otherwise;
}

/* Bytes from the first piece of a row to that of the next. */
static long stride(const struct run *run) {
    return run->piece * ranks + run->hole;
}

static long span(const struct run *run) {
    return run->total / run->piece * stride(run);
}

static int parsed(char *line, struct run *run) {
    int used = 0;
    memset(run, 0, sizeof *run);
    if (sscanf(line, "%ld %7s %7s %d %ld %ld %ld %ld%n", &run->number, run->operation, run->interface,
               &run->collective, &run->piece, &run->hole, &run->total, &run->call, &used) != 8)
        return 0;
    for (char *word = strtok(line + used, " \n"); word; word = strtok(NULL, " \n")) {
        char *equals = strchr(word, '=');
        demand(equals != NULL && run->count < MOST, "a word is no KEY=VALUE");
        *equals = 0;
        run->keys[run->count] = word;
        run->values[run->count++] = equals + 1;
    }
    return run->piece > 0 && run->hole >= 0 && run->call >= run->piece && run->call % run->piece == 0 &&
           run->total % run->call == 0 && run->total <= 1 << 30;
}

static void laid_out(const char *name, const struct run *run) {
    long count = setting(run, "ceph_stripe_count", 0), unit = setting(run, "ceph_stripe_unit", 4 << 20);
    char text[96];
    if (count == 0)
        return;
    snprintf(text, sizeof text, "stripe_unit=%ld stripe_count=%ld object_size=%d", unit, count, 4 << 20);
    demand(setxattr(name, "ceph.file.layout", text, strlen(text), 0) == 0, "the layout cannot be set");
}

/* Make the file: empty, or with values where it is read or has holes. */
static void made(const char *name, const struct run *run, int filled) {
    int file = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    demand(file >= 0, "the file cannot be made");
    laid_out(name, run);
    if (filled) {
        long size = span(run);
        unsigned char *whole = malloc((size_t)size);
        demand(whole != NULL, "no memory");
        for (long i = 0; i < size; i++)
            whole[i] = value(i);
        for (long done = 0; done < size;) {
            ssize_t now = write(file, whole + done, (size_t)(size - done));
            demand(now > 0, "the file cannot be written");
            done += now;
        }
        demand(fsync(file) == 0, "fsync");
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        free(whole);
    }
    close(file);
}

static long place_of(const struct run *run, long byte, int owner) {
    return byte / run->piece * stride(run) + owner * run->piece + byte % run->piece;
}

/* Whether the file holds what all ranks wrote, and the holes what they held. */
static int right(const char *name, const struct run *run) {
    long size = span(run), row = run->piece * ranks;
    unsigned char *whole = malloc((size_t)size);
    int file = open(name, O_RDONLY), good = whole != NULL && file >= 0;
    struct stat about;
    /* The last hole is in no rank's way: a file that was made empty ends before it. */
    long end = good && fstat(file, &about) == 0 && about.st_size < size ? size - run->hole : size;
    for (long done = 0; good && done < end;) {
        ssize_t now = pread(file, whole + done, (size_t)(end - done), done);
        good = now > 0;
        done += now;
    }
    for (long i = 0; good && i < end; i++)
        good = whole[i] == (unsigned char)(value(i) + (i % stride(run) < row ? 1 : 0));
    close(file);
    free(whole);
    return good;
}

static void by_posix(const char *name, const struct run *run, int writing) {
    int file = open(name, writing ? O_WRONLY : O_RDONLY);
    demand(file >= 0, "the file cannot be opened");
    for (long byte = 0; byte < run->total; byte += run->piece) {
        off_t place = (off_t)place_of(run, byte, rank);
        ssize_t done = writing ? pwrite(file, data + byte, (size_t)run->piece, place)
                               : pread(file, data + byte, (size_t)run->piece, place);
        demand(done == run->piece, "a call was cut short");
    }
    demand(!writing || fsync(file) == 0, "fsync");
    close(file);
}

static MPI_Info hints(const struct run *run) {
    MPI_Info info;
    MPI_Info_create(&info);
    for (int i = 0; i < run->count; i++)
        if (strncmp(run->keys[i], "hdf5_", 5) != 0 && strncmp(run->keys[i], "ceph_", 5) != 0)
            MPI_Info_set(info, run->keys[i], run->values[i]);
    return info;
}

static void by_mpiio(const char *name, const struct run *run, int writing) {
    MPI_File file;
    MPI_Datatype element, pattern;
    MPI_Info info = hints(run);
    MPI_Type_contiguous((int)run->piece, MPI_BYTE, &element);
    MPI_Type_create_resized(element, 0, stride(run), &pattern);
    MPI_Type_commit(&pattern);
    /* Data sieving reads what it writes back. */
    int mode = writing ? MPI_MODE_RDWR : MPI_MODE_RDONLY, code = MPI_SUCCESS;
    demand(MPI_File_open(MPI_COMM_WORLD, name, mode, info, &file) == MPI_SUCCESS, "MPI_File_open");
    MPI_File_set_view(file, rank * run->piece, MPI_BYTE, pattern, "native", info);
    for (long byte = 0; code == MPI_SUCCESS && byte < run->total; byte += run->call) {
        int size = (int)run->call;
        MPI_Status *none = MPI_STATUS_IGNORE;
        if (run->collective)
            code = writing ? MPI_File_write_all(file, data + byte, size, MPI_BYTE, none)
                           : MPI_File_read_all(file, data + byte, size, MPI_BYTE, none);
        else
            code = writing ? MPI_File_write(file, data + byte, size, MPI_BYTE, none)
                           : MPI_File_read(file, data + byte, size, MPI_BYTE, none);
    }
    demand(code == MPI_SUCCESS, "an access failed");
    demand(!writing || MPI_File_sync(file) == MPI_SUCCESS, "MPI_File_sync");
    MPI_File_close(&file);
    MPI_Type_free(&pattern);
    MPI_Type_free(&element);
    MPI_Info_free(&info);
}

#ifdef WITH_HDF5
/* Datasets of CALL bytes a rank, each with an attribute; hdf5_chunk rows of all ranks' pieces are a chunk. */
static void dataset(hid_t file, const struct run *run, int number, int writing, hid_t create,
                    hid_t transfer) {
    char name[24];
    hsize_t rows = (hsize_t)(run->call / run->piece), row = (hsize_t)(run->piece * ranks);
    hsize_t whole = rows * row, own = (hsize_t)run->call, start = (hsize_t)(rank * run->piece);
    hsize_t block = (hsize_t)run->piece, one = 1;
    void *part = data + (hsize_t)number * own;
    snprintf(name, sizeof name, "values%d", number);
    hid_t space = H5Screate_simple(1, &whole, NULL), memory = H5Screate_simple(1, &own, NULL), set;
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, &row, &rows, &block);
    if (writing) {
        hid_t single = H5Screate_simple(1, &one, NULL);
        set = H5Dcreate2(file, name, H5T_NATIVE_UCHAR, space, H5P_DEFAULT, create, H5P_DEFAULT);
        hid_t note = H5Acreate2(set, "number", H5T_NATIVE_INT, single, H5P_DEFAULT, H5P_DEFAULT);
        demand(set >= 0 && note >= 0 && H5Awrite(note, H5T_NATIVE_INT, &number) >= 0, "an attribute");
        H5Aclose(note);
        H5Sclose(single);
    } else {
        int found = -1;
        set = H5Dopen2(file, name, H5P_DEFAULT);
        hid_t note = H5Aopen(set, "number", H5P_DEFAULT);
        demand(H5Aread(note, H5T_NATIVE_INT, &found) >= 0 && found == number, "an attribute");
        H5Aclose(note);
    }
    herr_t code = writing ? H5Dwrite(set, H5T_NATIVE_UCHAR, memory, space, transfer, part)
                          : H5Dread(set, H5T_NATIVE_UCHAR, memory, space, transfer, part);
    demand(code >= 0, "a dataset");
    H5Dclose(set);
    H5Sclose(memory);
    H5Sclose(space);
}

static void by_hdf5(const char *name, const struct run *run, int writing) {
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
    hid_t create = H5Pcreate(H5P_DATASET_CREATE);
    MPI_Info info = hints(run);
    long alignment = setting(run, "hdf5_alignment", 1), chunk = setting(run, "hdf5_chunk", 0);
    long together = setting(run, "hdf5_collective_metadata", 0),
         block = setting(run, "hdf5_metadata_block", 0);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, info);
    H5Pset_dxpl_mpio(transfer, run->collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    if (alignment > 1)
        H5Pset_alignment(access, 1, (hsize_t)alignment);
    if (block > 0)
        H5Pset_meta_block_size(access, (hsize_t)block);
    H5Pset_coll_metadata_write(access, together != 0);
    H5Pset_all_coll_metadata_ops(access, together != 0);
    if (chunk > 0) {
        hsize_t size = (hsize_t)(chunk * run->piece * ranks);
        H5Pset_chunk(create, 1, &size);
        H5Pset_fill_time(create, H5D_FILL_TIME_NEVER);
    }
    /* Truncating keeps the file's layout. */
    hid_t file =
        writing ? H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access) : H5Fopen(name, H5F_ACC_RDONLY, access);
    demand(file >= 0, "the HDF5 file");
    for (int i = 0; i < run->total / run->call; i++)
        dataset(file, run, i, writing, create, transfer);
    demand(!writing || H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, "H5Fflush");
    H5Fclose(file);
    H5Pclose(create);
    H5Pclose(transfer);
    H5Pclose(access);
    MPI_Info_free(&info);
    if (writing) {
        /* HDF5 does not sync; the other interfaces do. */
        int plain = open(name, O_RDWR);
        demand(plain >= 0 && fsync(plain) == 0, "fsync");
        close(plain);
    }
}
#else
static void by_hdf5(const char *name, const struct run *run, int writing) {
    (void)name, (void)run, (void)writing;
    demand(0, "built without HDF5");
}
#endif

static void access_by(const char *name, const struct run *run, int writing) {
    if (strcmp(run->interface, "posix") == 0)
        by_posix(name, run, writing);
    else if (strcmp(run->interface, "mpiio") == 0)
        by_mpiio(name, run, writing);
    else
        by_hdf5(name, run, writing);
}

static double timed(const char *name, const char *other, const struct run *run) {
    int writing = strcmp(run->operation, "write") == 0, hdf5 = strcmp(run->interface, "hdf5") == 0;
    data = malloc((size_t)run->total);
    demand(data != NULL, "no memory");
    for (long i = 0; i < run->total; i++)
        data[i] = (unsigned char)(value(place_of(run, i, rank)) + writing);
    if (rank == 0) {
        demand(unlink(other) == 0 || errno == ENOENT, "the last file cannot be removed");
        made(other, run, !hdf5 && (!writing || run->hole > 0));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (!writing && hdf5) {
        by_hdf5(other, run, 1);
        int plain = open(name, O_RDONLY);
        posix_fadvise(plain, 0, 0, POSIX_FADV_DONTNEED);
        close(plain);
    }
    if (!writing)
        memset(data, 0, (size_t)run->total);
    MPI_Barrier(MPI_COMM_WORLD);
    double own = MPI_Wtime(), longest;
    access_by(name, run, writing);
    own = MPI_Wtime() - own;
    MPI_Allreduce(&own, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (long i = 0; !writing && i < run->total; i++)
        demand(data[i] == value(place_of(run, i, rank)), "wrong data were read");
    demand(!writing || hdf5 || rank != 0 || right(name, run), "wrong data were written");
    free(data);
    return longest;
}

int main(int argc, char **argv) {
    static char line[4096];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    demand(argc == 3 || argc == 4, "usage: sweep FILE LIST [OTHER]");
    FILE *list = fopen(argv[2], "r");
    demand(list != NULL, "the list cannot be opened");
    while (fgets(line, sizeof line, list)) {
        struct run run;
        demand(parsed(line, &run), "a line is no run");
        double seconds = timed(argv[1], argv[argc - 1 == 3 ? 3 : 1], &run);
        if (rank == 0) {
            printf("%ld %.6f\n", run.number, seconds);
            fflush(stdout);
        }
    }
    fclose(list);
    if (rank == 0)
        unlink(argv[1]);
    MPI_Finalize();
    return 0;
}
