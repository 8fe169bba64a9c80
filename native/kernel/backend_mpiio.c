/* MPI-IO: explicit offsets, collective or independent; through a file view where a call is not contiguous. */
#include "kernel.h"

#include <limits.h>
#include <stdlib.h>

struct mpiio_file {
    MPI_File file;
    MPI_Datatype memory; /* one call's bytes, contiguous */
    int count;
};

/* The rank's pieces: one piece, then a gap as long as the other ranks' pieces. */
static MPI_Datatype strided_type(const struct geometry *geometry) {
    MPI_Datatype bytes, piece, strided;
    int count;
    mpi_bytes(geometry->piece, &bytes, &count);
    MPI_Type_contiguous(count, bytes, &piece);
    MPI_Type_create_resized(piece, 0, (MPI_Aint)(geometry->piece * geometry->sharers), &strided);
    MPI_Type_commit(&strided);
    MPI_Type_free(&piece);
    if (bytes != MPI_BYTE)
        MPI_Type_free(&bytes);
    return strided;
}

static MPI_Datatype tile_type(const struct tile *tile, int64_t owner) {
    const int64_t step_x = tile->size_x - tile->overlap_x, step_y = tile->size_y - tile->overlap_y;
    int array[2] = {(int)(tile->tiles_y * step_y + tile->overlap_y),
                    (int)(tile->tiles_x * step_x + tile->overlap_x)};
    int part[2] = {(int)tile->size_y, (int)tile->size_x};
    int start[2] = {(int)(owner / tile->tiles_x * step_y), (int)(owner % tile->tiles_x * step_x)};
    MPI_Datatype element, subarray;
    MPI_Type_contiguous((int)tile->element, MPI_BYTE, &element);
    MPI_Type_create_subarray(2, array, part, start, MPI_ORDER_C, element, &subarray);
    MPI_Type_commit(&subarray);
    MPI_Type_free(&element);
    return subarray;
}

static int set_view(struct session *session, MPI_File file, struct fault *fault) {
    const struct geometry *geometry = &session->options->geometry;
    const bool tile = geometry->layout == LAYOUT_TILE;
    MPI_Datatype type = tile ? tile_type(&geometry->tile, session->pattern.owner) : strided_type(geometry);
    MPI_Offset start = tile ? 0 : (MPI_Offset)(session->pattern.owner * geometry->piece);
    int code = MPI_File_set_view(file, start, MPI_BYTE, type, "native", MPI_INFO_NULL);
    MPI_Type_free(&type);
    return code == MPI_SUCCESS ? 0 : mpi_fault(fault, "MPI_File_set_view", session->path, code);
}

static int mpiio_open(struct session *session, void **handle, struct fault *fault) {
    const struct options *options = session->options;
    struct mpiio_file opened;
    MPI_Info info = mpi_info(&options->hints);
    const int mode =
        session->operation == OPERATION_WRITE ? MPI_MODE_CREATE | MPI_MODE_WRONLY : MPI_MODE_RDONLY;
    int code = MPI_File_open(options->file_per_process ? MPI_COMM_SELF : MPI_COMM_WORLD, session->path, mode,
                             info, &opened.file);
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
    if (code != MPI_SUCCESS)
        return mpi_fault(fault, "MPI_File_open", session->path, code);
    mpi_bytes(options->geometry.transfer, &opened.memory, &opened.count);
    struct mpiio_file *file = malloc(sizeof *file);
    if (file != NULL)
        *file = opened;
    *handle = file;
    if (options->geometry.view && set_view(session, opened.file, fault) != 0)
        return -1;
    return file != NULL ? 0 : fault_set(fault, "malloc", session->path, "out of memory");
}

static int mpiio_transfer(struct session *session, void *handle, int64_t call, void *buffer,
                          struct fault *fault) {
    const struct mpiio_file *file = handle;
    const struct options *options = session->options;
    const bool writing = session->operation == OPERATION_WRITE;
    MPI_Status status;
    MPI_Count moved = 0;
    int64_t offset = call * options->geometry.transfer;
    const char *name;
    int code;
    if (!options->geometry.view)
        pattern_run(&session->pattern, offset, &offset);
    if (writing && options->collective) {
        name = "MPI_File_write_at_all";
        code = MPI_File_write_at_all(file->file, offset, buffer, file->count, file->memory, &status);
    } else if (writing) {
        name = "MPI_File_write_at";
        code = MPI_File_write_at(file->file, offset, buffer, file->count, file->memory, &status);
    } else if (options->collective) {
        name = "MPI_File_read_at_all";
        code = MPI_File_read_at_all(file->file, offset, buffer, file->count, file->memory, &status);
    } else {
        name = "MPI_File_read_at";
        code = MPI_File_read_at(file->file, offset, buffer, file->count, file->memory, &status);
    }
    if (code != MPI_SUCCESS)
        return mpi_fault(fault, name, session->path, code);
    MPI_Get_elements_x(&status, MPI_BYTE, &moved);
    if ((int64_t)moved != options->geometry.transfer)
        return fault_set(fault, name, session->path, "call %lld moved %lld of %lld bytes%s", (long long)call,
                         (long long)moved, (long long)options->geometry.transfer,
                         writing ? "" : "; the file is shorter than the pattern");
    return 0;
}

static int mpiio_sync(struct session *session, void *handle, struct fault *fault) {
    const struct mpiio_file *file = handle;
    int code = MPI_File_sync(file->file);
    return code == MPI_SUCCESS ? 0 : mpi_fault(fault, "MPI_File_sync", session->path, code);
}

static int mpiio_close(struct session *session, void *handle, struct fault *fault) {
    struct mpiio_file *file = handle;
    int code = MPI_File_close(&file->file);
    if (file->memory != MPI_BYTE)
        MPI_Type_free(&file->memory);
    free(file);
    return code == MPI_SUCCESS ? 0 : mpi_fault(fault, "MPI_File_close", session->path, code);
}

const struct backend backend_mpiio = {
    .name = "mpiio",
    .collective = true,
    .stores = true,
    .open = mpiio_open,
    .transfer = mpiio_transfer,
    .sync = mpiio_sync,
    .close = mpiio_close,
    .remove = mpi_remove,
};
