/* What can be known of the test file without the backend: whether it can be used, and whether a write reached
 * it. */
#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *path_of(const struct options *options, const char *name) {
    return mpi_prefixed(options->api, name) ? strchr(name, ':') + 1 : name;
}

static int check_folder(const char *path, char *reason) {
    char folder[TEXT_MAX];
    struct stat status;
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder ? 1 : 0] = '\0';
    if (stat(slash != NULL ? folder : ".", &status) != 0)
        return refuse(reason, "--file: the folder of %s: %s; make it first", path, strerror(errno));
    if (!S_ISDIR(status.st_mode))
        return refuse(reason, "--file: %s is not a directory", folder);
    return 0;
}

/* A file to write needs its folder, and deletes only regular files; a file only to be read must be there. */
static int check_one(const struct options *options, const char *path, char *reason) {
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return refuse(reason, "--file: %s is a directory; name a file in it", path);
    if (!options->write && access(path, R_OK) != 0)
        return refuse(reason, "--file: cannot read %s: %s; write it first with -w -k", path, strerror(errno));
    if (options->write && !options->existing && lstat(path, &status) == 0 && !S_ISREG(status.st_mode) &&
        !S_ISLNK(status.st_mode))
        return refuse(reason, "--file: %s is not a regular file; only --existing writes into such a file",
                      path);
    return 0;
}

int file_check_before(const struct job *job, const struct options *options, char *reason) {
    if (options->file[0] == '\0')
        return refuse(reason, "no test file; name one with -o PATH");
    const char *path = path_of(options, options->file);
    if (options->write && check_folder(path, reason) != 0)
        return -1;
    if (!options->file_per_process)
        return check_one(options, path, reason);
    char name[TEXT_MAX + 16];
    for (int rank = 0; rank < job->ranks; rank++) {
        snprintf(name, sizeof name, "%s.%08d", path, rank);
        if (check_one(options, name, reason) != 0)
            return -1;
    }
    return 0;
}

/*
 * Open MPI's OMPIO (seen in 5.0) returns success and the full count from collective writes to a full disk, so
 * a write is only believed if the file has its size. Opening it makes NFS ask the server for that.
 */
int file_check_after(const struct session *session, struct fault *fault) {
    const char *path = path_of(session->options, session->path);
    const int64_t expected = session->options->geometry.file_bytes;
    struct stat status;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return fault_set(fault, "open after the write", path, "%s", strerror(errno));
    const int failed = fstat(descriptor, &status);
    close(descriptor);
    if (failed != 0)
        return fault_set(fault, "fstat", path, "%s", strerror(errno));
    if (S_ISREG(status.st_mode) && (int64_t)status.st_size < expected)
        return fault_set(
            fault, "write", path,
            "the file has %lld of %lld bytes although no call reported an error; is the disk full?",
            (long long)status.st_size, (long long)expected);
    return 0;
}
