#include "kernel.h"

#include <strings.h>

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
