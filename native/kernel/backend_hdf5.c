/* HDF5: the file's bytes are one contiguous dataset; a call selects its pieces there as hyperslabs. */
#include "kernel.h"

#include <hdf5.h>
#include <stdlib.h>

#define DATASET "data"

struct hdf5_file {
    hid_t file, dataset, places, memory, transfer;
};

static herr_t take_innermost(unsigned depth, const H5E_error2_t *error, void *text) {
    if (depth == 0 && error->desc != NULL)
        snprintf(text, REASON_MAX, "%s", error->desc);
    return 0;
}

/* What the deepest call complained of: the MPI's own words where it was MPI-IO's. */
static int hdf5_fault(struct fault *fault, const char *call, const char *path) {
    char text[REASON_MAX] = "it failed and gives no reason";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_innermost, text);
    return fault_set(fault, call, path, "%s", text);
}

static hid_t access_list(const struct options *options) {
    MPI_Info info = mpi_info(&options->hints);
    const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(list, options->file_per_process ? MPI_COMM_SELF : MPI_COMM_WORLD, info);
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
    return list;
}

/* Space is allocated when the dataset is made, as always in parallel, and not filled, as IOR has it: a fill
 * would write everything twice. */
static hid_t make_dataset(hid_t file, hsize_t bytes) {
    const hid_t space = H5Screate_simple(1, &bytes, NULL), list = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_fill_time(list, H5D_FILL_TIME_NEVER);
    const hid_t dataset = H5Dcreate2(file, DATASET, H5T_NATIVE_UCHAR, space, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Pclose(list);
    H5Sclose(space);
    return dataset;
}

static int check_dataset(const struct session *session, hid_t places, struct fault *fault) {
    const int64_t wanted = session->options->geometry.file_bytes;
    const hssize_t there = H5Sget_simple_extent_npoints(places);
    if (there < wanted)
        return fault_set(fault, "H5Dopen2", session->path,
                         "the dataset " DATASET " has %lld of %lld bytes; write it with the same sizes first",
                         (long long)there, (long long)wanted);
    return 0;
}

static int hdf5_open(struct session *session, void **handle, struct fault *fault) {
    const struct options *options = session->options;
    const bool writing = session->operation == OPERATION_WRITE;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* its many lines are for nobody: hdf5_fault tells what matters */
    struct hdf5_file *file = malloc(sizeof *file);
    if (file == NULL)
        return fault_set(fault, "malloc", session->path, "out of memory");
    const hid_t list = access_list(options);
    file->file = writing ? H5Fcreate(session->path, H5F_ACC_TRUNC, H5P_DEFAULT, list)
                         : H5Fopen(session->path, H5F_ACC_RDONLY, list);
    if (file->file < 0) {
        hdf5_fault(fault, writing ? "H5Fcreate" : "H5Fopen", session->path);
        H5Pclose(list);
        free(file);
        return -1;
    }
    H5Pclose(list);
    file->dataset = writing ? make_dataset(file->file, (hsize_t)options->geometry.file_bytes)
                            : H5Dopen2(file->file, DATASET, H5P_DEFAULT);
    if (file->dataset < 0) {
        hdf5_fault(fault, writing ? "H5Dcreate2" : "H5Dopen2", session->path);
        H5Fclose(file->file);
        free(file);
        return -1;
    }
    const hsize_t bytes = (hsize_t)options->geometry.transfer;
    file->places = H5Dget_space(file->dataset);
    file->memory = H5Screate_simple(1, &bytes, NULL);
    file->transfer = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_dxpl_mpio(file->transfer, options->collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    *handle = file;
    return check_dataset(session, file->places, fault);
}

/* A call's pieces in rising order: as many as are alike and evenly spaced make one hyperslab. */
static herr_t select_call(const struct session *session, hid_t places, int64_t call) {
    const struct pattern *pattern = &session->pattern;
    const int64_t end = (call + 1) * session->options->geometry.transfer;
    H5S_seloper_t how = H5S_SELECT_SET;
    for (int64_t position = end - session->options->geometry.transfer; position < end;) {
        int64_t offset, next = 0, count = 1, step = 0;
        const int64_t piece = pattern_run(pattern, position, &offset);
        for (position += piece; position < end; position += piece, count++) {
            if (pattern_run(pattern, position, &next) != piece)
                break;
            if (count == 1)
                step = next - offset;
            if (next != offset + count * step)
                break;
        }
        const hsize_t start = (hsize_t)offset, stride = (hsize_t)(count > 1 ? step : piece);
        const hsize_t times = (hsize_t)count, block = (hsize_t)piece;
        if (H5Sselect_hyperslab(places, how, &start, &stride, &times, &block) < 0)
            return -1;
        how = H5S_SELECT_OR;
    }
    return 0;
}

static int hdf5_transfer(struct session *session, void *handle, int64_t call, void *buffer,
                         struct fault *fault) {
    const struct hdf5_file *file = handle;
    const bool writing = session->operation == OPERATION_WRITE;
    if (select_call(session, file->places, call) < 0)
        return hdf5_fault(fault, "H5Sselect_hyperslab", session->path);
    const herr_t done =
        writing
            ? H5Dwrite(file->dataset, H5T_NATIVE_UCHAR, file->memory, file->places, file->transfer, buffer)
            : H5Dread(file->dataset, H5T_NATIVE_UCHAR, file->memory, file->places, file->transfer, buffer);
    return done < 0 ? hdf5_fault(fault, writing ? "H5Dwrite" : "H5Dread", session->path) : 0;
}

static int hdf5_sync(struct session *session, void *handle, struct fault *fault) {
    const struct hdf5_file *file = handle;
    return H5Fflush(file->file, H5F_SCOPE_GLOBAL) < 0 ? hdf5_fault(fault, "H5Fflush", session->path) : 0;
}

static int hdf5_close(struct session *session, void *handle, struct fault *fault) {
    struct hdf5_file *file = handle;
    H5Pclose(file->transfer);
    H5Sclose(file->memory);
    H5Sclose(file->places);
    if (H5Dclose(file->dataset) < 0)
        hdf5_fault(fault, "H5Dclose", session->path);
    if (H5Fclose(file->file) < 0)
        hdf5_fault(fault, "H5Fclose", session->path);
    free(file);
    return fault->call[0] != '\0' ? -1 : 0;
}

const struct backend backend_hdf5 = {
    .name = "hdf5",
    .collective = true,
    .stores = true,
    .open = hdf5_open,
    .transfer = hdf5_transfer,
    .sync = hdf5_sync,
    .close = hdf5_close,
    .remove = mpi_remove,
};
