#include "kernel.h"

#include <strings.h>

static const struct backend *const backends[] = {&backend_posix, &backend_mpiio, &backend_dummy};

const struct backend *backend_find(const char *name) {
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++)
        if (strcasecmp(backends[i]->name, name) == 0)
            return backends[i];
    return NULL;
}

const char *backend_names(void) {
    return "posix, mpiio, dummy";
}

const char *layout_name(enum layout layout) {
    static const char *const names[LAYOUT_COUNT] = {"segmented", "strided", "random", "tile"};
    return names[layout];
}
