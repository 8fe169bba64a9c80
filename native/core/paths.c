/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "paths.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *sw_path_without_prefix(const char *name) {
    size_t length = 0;
    while (isalnum((unsigned char)name[length]) || name[length] == '_')
        length++;
    return length >= 2 && name[length] == ':' ? name + length + 1 : name;
}

bool sw_path_absolute(const char *name, char *path, size_t size) {
    name = sw_path_without_prefix(name);
    size_t used = 0;
    if (*name != '/') {
        const char *folder = size < 2 || !path ? NULL : getcwd(path, size - 1);
        if (!folder)
            return false;
        used = strlen(folder);
        if (used > 1)
            path[used++] = '/';
        while (strncmp(name, "./", 2) == 0)
            name += 2;
    }
    int length = snprintf(path + used, size - used, "%s", name);
    return length > 0 && (size_t)length < size - used;
}
