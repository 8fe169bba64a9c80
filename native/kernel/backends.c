#include <string.h>
#include <strings.h>

#include "kernel.h"

#ifdef STRIPEWISE_HDF5
#define HDF5_NAME "hdf5, "
#define HDF5_BACKEND &backend_hdf5,
#else
#define HDF5_NAME
#define HDF5_BACKEND
#endif

static const struct backend *const backends[] = {&backend_posix, &backend_mpiio,
                                                 HDF5_BACKEND & backend_dummy};

const struct backend *backend_find(const char *name) {
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++)
        if (strcasecmp(backends[i]->name, name) == 0)
            return backends[i];
    return NULL;
}

const char *backend_names(void) {
    return "posix, mpiio, " HDF5_NAME "dummy";
}

bool backend_left_out(const char *name) {
    return strcasecmp(name, "hdf5") == 0 && backend_find(name) == NULL;
}

const char *layout_name(enum layout layout) {
    static const char *const names[LAYOUT_COUNT] = {"segmented", "strided", "random", "tile"};
    return names[layout];
}

/* ---- what the backends above MPI-IO share: its faults, its hints, its names of files ---- */

int mpi_fault(struct fault *fault, const char *call, const char *path, int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return fault_set(fault, call, path, "%s", text);
}

MPI_Info mpi_info(const struct hints *hints) {
    MPI_Info info = MPI_INFO_NULL;
    if (hints->count > 0)
        MPI_Info_create(&info);
    for (int i = 0; i < hints->count; i++)
        MPI_Info_set(info, hints->list[i].key, hints->list[i].value);
    return info;
}

int mpi_remove(const char *path, struct fault *fault) {
    int code = MPI_File_delete(path, MPI_INFO_NULL), class = MPI_SUCCESS;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    if (class != MPI_SUCCESS && class != MPI_ERR_NO_SUCH_FILE)
        return mpi_fault(fault, "MPI_File_delete", path, code);
    return 0;
}

bool mpi_prefixed(const char *api, const char *path) {
    const char *colon = strchr(path, ':'), *slash = strchr(path, '/');
    return (strcmp(api, "mpiio") == 0 || strcmp(api, "hdf5") == 0) && colon != NULL &&
           (slash == NULL || colon < slash);
}
