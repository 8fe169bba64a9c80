/* SPDX-License-Identifier: BSD-3-Clause
 * The part of a process: made by its first call on a regular file. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "part.h"
#include "script.h"

#ifndef MADV_POPULATE_WRITE /* headers of Linux before 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

_Static_assert(sizeof(void *) == 8, "mmap is called with an offset in bytes");

#define PROBES 64
#define NAME (PATH_MAX + 64) /* bytes of a part's name */

char prefix[PATH_MAX];
pid_t self;
int rank, ranks;
struct asked_setting asked_settings[MOST_SETTINGS];
uint64_t misread;
_Atomic(struct part *) part;
atomic_bool broken;
_Thread_local bool inside __attribute__((tls_model("initial-exec")));
static atomic_bool roomy[PART_FILES]; /* its records that can be written */

size_t decimal(char *to, uint64_t amount) {
    char digits[24];
    size_t count = 0, length;
    do
        digits[count++] = (char)('0' + amount % 10);
    while (amount /= 10);
    for (length = 0; count; length++)
        to[length] = digits[--count];
    return length;
}

void *map(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the address is what the system call returns */
    return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}

/* Whether there is room for what is mapped there: where a disk or quota is full, the first write to a page
 * would end the process by SIGBUS. Kernels before 5.14 cannot tell. */
bool has_room(void *at, size_t size) {
    size_t before = (uintptr_t)at % (size_t)sysconf(_SC_PAGESIZE);
    return madvise((char *)at - before, before + size, MADV_POPULATE_WRITE) == 0 ||
           (errno != EFAULT && errno != ENOMEM);
}

/* name: room for NAME bytes, not on the stack, which may be small. */
static void *make_named(char *name, const char *kind, size_t size, size_t needed) {
    struct rlimit largest;
    /* A larger file than allowed would end the process by SIGXFSZ. */
    if (getrlimit(RLIMIT_FSIZE, &largest) == 0 && largest.rlim_cur < size)
        return NULL;
    size_t length = strlen(prefix);
    memcpy(name, prefix, length + 1);
    length += decimal(name + length, (uint64_t)getpid());
    name[length++] = '-';
    length += decimal(name + length, now());
    strcpy(name + length, kind); /* NOLINT: there is room for both kinds */
    int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    void *memory = MAP_FAILED;
    if (syscall(SYS_ftruncate, fd, size) == 0)
        memory = map(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (memory != MAP_FAILED && !has_room(memory, needed)) {
        munmap(memory, size);
        memory = MAP_FAILED;
    }
    if (memory == MAP_FAILED) {
        syscall(SYS_unlinkat, AT_FDCWD, name, 0);
        return NULL;
    }
    return memory;
}

void *make_mapped(const char *kind, size_t size, size_t needed) {
    char *name = map(NULL, NAME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *made = name == MAP_FAILED ? NULL : make_named(name, kind, size, needed);
    if (name != MAP_FAILED)
        munmap(name, NAME);
    return made;
}

static uint64_t began, began_real;

void begin_process(void) {
    struct timespec real;
    began = now();
    clock_gettime(CLOCK_REALTIME, &real);
    began_real = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
}

static struct part *make_part(void) {
    struct part *made = make_mapped("", sizeof *made, offsetof(struct part, files[1]));
    if (!made)
        return NULL;
    made->record_size = sizeof(struct file_record);
    made->records = PART_FILES;
    made->pid = (int32_t)getpid();
    made->parent = (int32_t)getppid();
    made->rank = rank;
    made->ranks = ranks;
    made->real = began_real;
    made->start = began;
    gethostname(made->host, sizeof made->host - 1);
    ssize_t size = readlink("/proc/self/exe", made->executable, sizeof made->executable - 1);
    made->executable[size > 0 ? size : 0] = '\0';
    script_of(made->executable, made->script, sizeof made->script);
    memcpy(made->settings, asked_settings, sizeof asked_settings);
    made->misread = misread;
    for (int i = 0; i < SW_FILE_SYSTEMS; i++) {
        const struct sw_file_system *system = sw_file_systems[i];
        strncpy(made->layouts[i].system, system->name, MOST_NAME - 1);
        for (int k = 0; k < SW_LAYOUT_NUMBERS && system->keys[k].name; k++)
            strncpy(made->layouts[i].keys[k], system->keys[k].name, MOST_NAME - 1);
    }
    atomic_store(&made->files[0].state, 2);
    memcpy(made->magic, PART_MAGIC, sizeof PART_MAGIC);
    return made;
}

struct part *the_part(void) {
    struct part *found = atomic_load_explicit(&part, memory_order_acquire);
    if (found || !*prefix || atomic_load_explicit(&broken, memory_order_relaxed) || getpid() != self)
        return found;
    struct part *made = make_part();
    if (!made) {
        atomic_store(&broken, true);
        return NULL;
    }
    /* Of two threads that begin at once, the second one's part stays empty. */
    return atomic_compare_exchange_strong(&part, &found, made) ? made : found;
}

/* Files of a package below /usr/share, as time zones, have one record: the folder and *. */
static void share_with_package(char *path) {
    static const char shared[] = "/usr/share/";
    char *inside = strncmp(path, shared, strlen(shared)) == 0 ? strchr(path + strlen(shared), '/') : NULL;
    if (inside && inside[1])
        memcpy(inside, "/*", sizeof "/*");
}

/* Python opens hundreds of modules, which would leave no room for data. Those of a folder, or of an installed
 * package, have one record: the folder and *.py or *.pyc. */
static void share_record(char *path) {
    const char *dot = strrchr(path, '.');
    char *name = strrchr(path, '/');
    const bool compiled = dot && strcmp(dot, ".pyc") == 0;
    /* A file that is called .py has no room for the shared name. */
    if (!name || !dot || dot <= name + 1 || (!compiled && strcmp(dot, ".py") != 0)) {
        share_with_package(path);
        return;
    }
    *name = '\0';
    char *installed = strstr(path, "-packages/"), *cache = strrchr(path, '/');
    if (installed)
        installed = strchr(installed + strlen("-packages/"), '/');
    if (installed)
        *installed = '\0';
    else if (cache && strcmp(cache, "/__pycache__") == 0)
        *cache = '\0';
    char *end = path + strlen(path);
    if (compiled)
        memcpy(end, "/*.pyc", sizeof "/*.pyc");
    else
        memcpy(end, "/*.py", sizeof "/*.py");
}

struct file_record *record_of_path(struct part *in, char *path) {
    share_record(path);
    uint32_t hash = 2166136261u;
    size_t length = strlen(path), cut = length < PART_PATH ? 0 : length - PART_PATH + 1;
    for (const char *c = path; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    for (uint32_t probe = 0; probe < PROBES; probe++) {
        uint32_t at = 1 + (hash + probe) % (PART_FILES - 1);
        struct file_record *record = &in->files[at];
        if (!atomic_load_explicit(&roomy[at], memory_order_relaxed)) {
            if (!has_room(record, sizeof *record))
                break;
            atomic_store_explicit(&roomy[at], true, memory_order_relaxed);
        }
        uint32_t state = atomic_load_explicit(&record->state, memory_order_acquire);
        if (state == 0 && atomic_compare_exchange_strong(&record->state, &state, 1)) {
            memcpy(record->path, path + cut, length - cut + 1);
            record->hash = hash;
            atomic_store_explicit(&record->state, 2, memory_order_release);
            return record;
        }
        if (state == 2 && record->hash == hash && strcmp(record->path, path + cut) == 0)
            return record;
    }
    return &in->files[0];
}

void leave_part(void) {
    atomic_store(&part, NULL);
    atomic_store(&broken, false);
    for (int i = 0; i < PART_FILES; i++)
        atomic_store_explicit(&roomy[i], false, memory_order_relaxed);
}
