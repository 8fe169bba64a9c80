/* Says that the folder FAKE_LUSTRE is on Lustre, and answers the two ioctls by which ROMIO's Lustre driver
 * sets and reads layouts, for FAKE_OSTS storage targets (24) and a default layout of one stripe of 1 MiB.
 * Files hold their bytes themselves; a file's layout is in FILE.layout beside it: stripe count, stripe size,
 * first target. Appends to the file FAKE_LOG a line for each layout asked for, each open and each transfer:
 * RANK WHAT NUMBERS FILE. FAKE_NODES spreads the ranks over so many nodes, in their order, as far as ROMIO
 * can tell. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <lustre/lustre_user.h>

#define ANY 0xffff
#define STRIPE_UNIT 65536
#define DEFAULT_SIZE 1048576

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

#define NEXT(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

static bool is_below(const char *path) {
    const char *folder = getenv("FAKE_LUSTRE");
    size_t length = folder ? strlen(folder) : 0;
    return length && strncmp(path, folder, length) == 0 && (path[length] == '/' || !path[length]);
}

/* The path of an open file on the pretended file system. */
static bool path_of(int fd, char *path) {
    char link[64];
    int kept = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    errno = kept;
    if (length <= 0)
        return false;
    path[length] = '\0';
    return is_below(path);
}

static const char *base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void note(const char *path, const char *what, int64_t first, int64_t second, int64_t third) {
    static int log = -1;
    char line[PATH_MAX + 100];
    int kept = errno;
    if (log < 0 && getenv("FAKE_LOG"))
        log = NEXT(open)(getenv("FAKE_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    int length = snprintf(line, sizeof line, "%d %s %" PRId64 " %" PRId64 " %" PRId64 " %s\n",
                          number("PMI_RANK", 0), what, first, second, third, base(path));
    if (log >= 0 && write(log, line, (size_t)length) != length)
        abort();
    errno = kept;
}

static bool load(const char *path, unsigned *count, unsigned *size, unsigned *first) {
    char name[PATH_MAX + 8];
    snprintf(name, sizeof name, "%s.layout", path);
    FILE *file = fopen(name, "r");
    bool whole = file && fscanf(file, "%u %u %u", count, size, first) == 3;
    if (file)
        fclose(file);
    return whole;
}

static bool save(const char *path, unsigned count, unsigned size, unsigned first) {
    char name[PATH_MAX + 8];
    snprintf(name, sizeof name, "%s.layout", path);
    FILE *file = fopen(name, "wx");
    if (!file)
        return false;
    fprintf(file, "%u %u %u\n", count, size, first);
    return fclose(file) == 0;
}

static int fail(int reason) {
    errno = reason;
    return -1;
}

static int set_layout(const char *path, const struct lov_user_md *asked) {
    unsigned targets = (unsigned)number("FAKE_OSTS", 24), count = asked->lmm_stripe_count;
    unsigned size = asked->lmm_stripe_size ? asked->lmm_stripe_size : DEFAULT_SIZE;
    note(path, "setstripe", asked->lmm_stripe_count, asked->lmm_stripe_size, asked->lmm_stripe_offset);
    if (asked->lmm_magic != LOV_USER_MAGIC || size % STRIPE_UNIT ||
        (asked->lmm_stripe_offset != ANY && asked->lmm_stripe_offset >= targets))
        return fail(EINVAL);
    count = count == 0 ? 1 : count > targets ? targets : count;
    return save(path, count, size, asked->lmm_stripe_offset == ANY ? 0 : asked->lmm_stripe_offset)
               ? 0
               : fail(EEXIST);
}

static int get_layout(const char *path, struct lov_user_md *answer) {
    unsigned count, size, first;
    if (answer->lmm_magic != LOV_USER_MAGIC)
        return fail(EINVAL);
    if (!load(path, &count, &size, &first))
        return fail(ENODATA);
    answer->lmm_pattern = LOV_PATTERN_RAID0;
    answer->lmm_stripe_count = (uint16_t)count;
    answer->lmm_stripe_size = size;
    answer->lmm_stripe_offset = 0;
    return 0;
}

int ioctl(int fd, unsigned long request, ...) {
    char path[PATH_MAX];
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if ((request == LL_IOC_LOV_SETSTRIPE || request == LL_IOC_LOV_GETSTRIPE) && path_of(fd, path))
        return request == LL_IOC_LOV_SETSTRIPE ? set_layout(path, argument) : get_layout(path, argument);
    return NEXT(ioctl)(fd, request, argument);
}

/* Creating a file gives it the default layout, unless it is said that one is to come. */
static int opened(int fd, int flags) {
    char path[PATH_MAX];
    bool delayed = (flags & O_LOV_DELAY_CREATE) == O_LOV_DELAY_CREATE;
    int kept = errno;
    if (fd >= 0 && path_of(fd, path)) {
        note(path, "open", 0, 0, 0);
        if ((flags & O_CREAT) && !delayed)
            save(path, 1, DEFAULT_SIZE, 0);
    }
    errno = kept;
    return fd;
}

#define OPEN(name)                                                                                           \
    int name(const char *path, int flags, ...) {                                                             \
        va_list rest;                                                                                        \
        va_start(rest, flags);                                                                               \
        unsigned mode = flags & O_CREAT ? va_arg(rest, unsigned) : 0;                                        \
        va_end(rest);                                                                                        \
        return opened(NEXT(name)(path, flags & ~O_LOV_DELAY_CREATE, mode), flags);                           \
    }

OPEN(open)
OPEN(open64)

#define STATFS(name, type)                                                                                   \
    int name(const char *path, struct type *status) {                                                        \
        char real[PATH_MAX];                                                                                 \
        int code = NEXT(name)(path, status);                                                                 \
        if (code == 0 && realpath(path, real) && is_below(real))                                             \
            status->f_type = LL_SUPER_MAGIC;                                                                 \
        return code;                                                                                         \
    }

STATFS(statfs, statfs)
STATFS(statfs64, statfs64)

#define TRANSFER(name, what, buffer, offset_type)                                                            \
    ssize_t name(int fd, buffer data, size_t size, offset_type offset) {                                     \
        char path[PATH_MAX];                                                                                 \
        if (path_of(fd, path))                                                                               \
            note(path, what, offset, (int64_t)size, 0);                                                      \
        return NEXT(name)(fd, data, size, offset);                                                           \
    }

TRANSFER(pwrite, "write", const void *, off_t)
TRANSFER(pwrite64, "write", const void *, off64_t)
TRANSFER(pread, "read", void *, off_t)
TRANSFER(pread64, "read", void *, off64_t)

/* Which node a rank is on. */
int PMPI_Get_processor_name(char *name, int *length) {
    int ranks = number("PMI_SIZE", 1), nodes = number("FAKE_NODES", 1);
    *length = sprintf(name, "node%d", number("PMI_RANK", 0) / ((ranks + nodes - 1) / nodes));
    return 0;
}

int MPI_Get_processor_name(char *name, int *length) {
    return PMPI_Get_processor_name(name, length);
}
