/* interfaces posix|mpiio|hdf5 write|read FILE PIECE PIECES PHASES: checkpoints through one of three
 * interfaces.
 *
 * In each phase every rank writes or reads PIECES pieces of PIECE bytes, interleaved with those of the
 * others: by one call a piece, by one collective call, or as datasets of HDF5, each with an attribute. A
 * write is synced. With more than one phase each has a file of its own, FILE.0000 and so on. What is read is
 * written before, by the neighbour. Prints the seconds of each phase, the maximum over ranks, and the
 * bandwidth. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef WITH_HDF5
#include <hdf5.h>
#endif

#define DATASETS 8

static int rank, ranks;
static long piece, pieces;
static unsigned char *data;

static void demand(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "interfaces: %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void by_posix(const char *name, int writing, int owner) {
    int file = open(name, writing ? O_WRONLY : O_RDONLY);
    demand(file >= 0, "the file cannot be opened");
    for (long i = 0; i < pieces; i++) {
        off_t place = (off_t)(i * ranks + owner) * piece;
        void *own = data + i * piece;
        ssize_t done =
            writing ? pwrite(file, own, (size_t)piece, place) : pread(file, own, (size_t)piece, place);
        demand(done == piece, "a call was cut short");
    }
    demand(!writing || fsync(file) == 0, "fsync");
    close(file);
}

static void by_mpiio(const char *name, int writing, int owner) {
    MPI_File file;
    MPI_Datatype element, pattern;
    MPI_Type_contiguous((int)piece, MPI_BYTE, &element);
    MPI_Type_create_resized(element, 0, piece * ranks, &pattern);
    MPI_Type_commit(&pattern);
    int mode = writing ? MPI_MODE_WRONLY | MPI_MODE_CREATE : MPI_MODE_RDONLY;
    demand(MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &file) == MPI_SUCCESS, "MPI_File_open");
    MPI_File_set_view(file, owner * piece, MPI_BYTE, pattern, "native", MPI_INFO_NULL);
    int size = (int)(piece * pieces);
    int code = writing ? MPI_File_write_all(file, data, size, MPI_BYTE, MPI_STATUS_IGNORE)
                       : MPI_File_read_all(file, data, size, MPI_BYTE, MPI_STATUS_IGNORE);
    demand(code == MPI_SUCCESS, "the collective call");
    demand(!writing || MPI_File_sync(file) == MPI_SUCCESS, "MPI_File_sync");
    MPI_File_close(&file);
    MPI_Type_free(&pattern);
    MPI_Type_free(&element);
}

#ifdef WITH_HDF5
static void dataset(hid_t file, int number, int writing, int owner, hid_t transfer) {
    char name[16];
    hsize_t each = (hsize_t)(pieces / DATASETS), whole = each * (hsize_t)(piece * ranks),
            own = each * (hsize_t)piece;
    hsize_t start = (hsize_t)(owner * piece), stride = (hsize_t)(piece * ranks), block = (hsize_t)piece,
            one = 1;
    snprintf(name, sizeof name, "values%d", number);
    hid_t space = H5Screate_simple(1, &whole, NULL), memory = H5Screate_simple(1, &own, NULL), set;
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, &stride, &each, &block);
    if (writing) {
        hid_t single = H5Screate_simple(1, &one, NULL);
        set = H5Dcreate2(file, name, H5T_NATIVE_UCHAR, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        hid_t note = H5Acreate2(set, "number", H5T_NATIVE_INT, single, H5P_DEFAULT, H5P_DEFAULT);
        demand(H5Awrite(note, H5T_NATIVE_INT, &number) >= 0, "H5Awrite");
        H5Aclose(note);
        H5Sclose(single);
    } else {
        set = H5Dopen2(file, name, H5P_DEFAULT);
    }
    void *part = data + (hsize_t)number * own;
    herr_t code = writing ? H5Dwrite(set, H5T_NATIVE_UCHAR, memory, space, transfer, part)
                          : H5Dread(set, H5T_NATIVE_UCHAR, memory, space, transfer, part);
    demand(code >= 0, "the dataset");
    H5Dclose(set);
    H5Sclose(memory);
    H5Sclose(space);
}

static void by_hdf5(const char *name, int writing, int owner) {
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
    hid_t file =
        writing ? H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access) : H5Fopen(name, H5F_ACC_RDONLY, access);
    demand(file >= 0, "the HDF5 file");
    for (int i = 0; i < DATASETS; i++)
        dataset(file, i, writing, owner, transfer);
    demand(!writing || H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, "H5Fflush");
    H5Fclose(file);
    H5Pclose(transfer);
    H5Pclose(access);
}

#else
static void by_hdf5(const char *name, int writing, int owner) {
    (void)name, (void)writing, (void)owner;
    demand(0, "built without HDF5");
}
#endif

static void access_by(const char *interface, const char *name, int writing, int owner) {
    if (strcmp(interface, "posix") == 0)
        by_posix(name, writing, owner);
    else if (strcmp(interface, "mpiio") == 0)
        by_mpiio(name, writing, owner);
    else
        by_hdf5(name, writing, owner);
}

static void fill(int owner, int number) {
    for (long i = 0; i < piece * pieces; i++)
        data[i] = (unsigned char)(owner * 31 + number * 7 + i);
}

static double phase(const char *interface, int writing, const char *name, int number) {
    int neighbour = (rank + 1) % ranks;
    fill(rank, number);
    if (rank == 0) {
        int file = open(name, O_RDWR | O_CREAT, 0600);
        demand(file >= 0, "the file cannot be made");
        close(file);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (!writing) {
        access_by(interface, name, 1, rank);
        memset(data, 0, (size_t)(piece * pieces));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    double own = MPI_Wtime(), longest;
    access_by(interface, name, writing, writing ? rank : neighbour);
    own = MPI_Wtime() - own;
    for (long i = 0; !writing && i < piece * pieces; i++)
        demand(data[i] == (unsigned char)(neighbour * 31 + number * 7 + i), "wrong data");
    MPI_Allreduce(&own, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return longest;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int phases = argc > 6 ? atoi(argv[6]) : 0;
    piece = argc > 4 ? atol(argv[4]) : 0;
    pieces = argc > 5 ? atol(argv[5]) : 0;
    demand(argc == 7 && piece > 0 && pieces > 0 && pieces % DATASETS == 0 && piece * pieces <= 1 << 30 &&
               phases > 0,
           "usage: interfaces posix|mpiio|hdf5 write|read FILE PIECE PIECES PHASES; PIECES are eights");
    data = malloc((size_t)(piece * pieces));
    demand(data != NULL, "no memory");
    int writing = strcmp(argv[2], "write") == 0;
    double total = 0;
    for (int number = 0; number < phases; number++) {
        char name[4096];
        snprintf(name, sizeof name, phases > 1 ? "%s.%04d" : "%s", argv[3], number);
        double seconds = phase(argv[1], writing, name, number);
        if (rank == 0)
            printf("phase %d %.6f\n", number, seconds);
        total += seconds;
    }
    if (rank == 0)
        printf("%s bandwidth: %.4f MiB/s\n", argv[2],
               (double)(piece * pieces * ranks * phases) / total / 1048576.0);
    free(data);
    MPI_Finalize();
    return 0;
}
