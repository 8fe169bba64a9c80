/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "thread_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "caller.h"

#define ASKED (-2)   /* in place of bytes: no call but stat met the file */
#define SLOTS 1024   /* descriptors that a record holds */
#define PLACES 8192  /* of the table of files; a power of two */
#define PAUSE 300000 /* nanoseconds; no process begins and ends in less */
#define STEP 64      /* items for which room is made at once */
#define PAGE 4096    /* bytes of text, likewise */
#define BLOCK 4096   /* of a stream whose calls were not seen */
#define PATH (2 * PATH_MAX)

/* Bits of an open's flags in a record, above the two of its access. */
enum { CREATES = 4, EXCLUSIVE = 8, TRUNCATES = 16, APPENDS = 32, DIRECT = 64, SYNCHRONOUS = 128 };

/* What a thread needs besides what it keeps. */
struct own_calls {
    struct thread_calls *kept;
    struct sw_items items;
    bool cuts; /* others may wait for what the last call did */
    uint64_t calls, shortest, roomy, roomy_files, roomy_text;
    volatile bool busy; /* a handler of signals may interrupt */
    uint32_t turns[SLOTS];
    uint16_t places[PLACES]; /* of a hash: its file plus one */
    char path[PATH], other[PATH];
};

atomic_bool calls_wanted;
static atomic_bool replaced[STDERR_FILENO + 1];
static _Thread_local struct own_calls *mine __attribute__((tls_model("initial-exec")));
static _Thread_local bool refused __attribute__((tls_model("initial-exec")));
static _Atomic(uint64_t) threads;
static _Atomic(struct thread_calls *) first_thread;
static int64_t recorded[SLOTS]; /* where a stream's descriptor is, as far as its calls were seen */

/* Of the command, by device and inode: what another file stands in place of is no stream any more. */
static struct {
    unsigned long long device, inode;
} given[STDERR_FILENO + 1];

/* Whether a descriptor would put another file in place of a standard stream of the command. */
static bool replaces(int fd, int stream) {
    const int error = errno;
    struct stat about;
    const bool regular = fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
    errno = error;
    return regular && (about.st_dev != given[stream].device || about.st_ino != given[stream].inode);
}

/* A shell may have put files in place of this program's. */
static void read_given(const char *text) {
    char *end;
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        given[fd].device = strtoull(text, &end, 10);
        if (*end != ':')
            return;
        given[fd].inode = strtoull(end + 1, &end, 10);
        text = *end ? end + 1 : end;
        atomic_store(&replaced[fd], replaces(fd, fd));
    }
}

void begin_calls(void) {
    const char *text = secure_getenv("STRIPEWISE_CALLS");
    atomic_store(&calls_wanted, text != NULL);
    if (text)
        read_given(text);
}

void leave_calls(void) {
    mine = NULL;
    refused = false;
    atomic_store(&threads, 0);
    atomic_store(&first_thread, NULL);
}

/* ---- what is kept ---- */

static size_t items_at(void) {
    return (sizeof(struct thread_calls) + PAGE - 1) / PAGE * PAGE;
}

static void gap(struct own_calls *of, uint64_t why) {
    of->kept->gaps |= why;
}

static struct own_calls *make_calls(uint64_t number) {
    const size_t size = items_at() + sw_items_size();
    struct own_calls *own =
        map(NULL, sizeof *own, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct thread_calls *kept =
        (void *)own == MAP_FAILED ? NULL : make_mapped(".calls", size, offsetof(struct thread_calls, file));
    if (!kept) {
        if ((void *)own != MAP_FAILED)
            munmap(own, sizeof *own);
        return NULL;
    }
    struct timespec real;
    kept->item_size = sizeof(struct sw_item);
    kept->pid = (uint64_t)self;
    kept->thread = number;
    kept->start = now();
    clock_gettime(CLOCK_REALTIME, &real);
    kept->real = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
    own->kept = kept;
    own->shortest = PAUSE;
    sw_items_lay(&own->items, (char *)kept + items_at());
    memcpy(kept->magic, CALLS_MAGIC, sizeof CALLS_MAGIC);
    return own;
}

static struct own_calls *my_calls(void) {
    if (mine || refused)
        return mine;
    if (!*prefix || inside || on_small_stack() || getpid() != self)
        return NULL;
    const int error = errno;
    const uint64_t number = atomic_fetch_add(&threads, 1);
    mine = number < CALLS_THREADS ? make_calls(number) : NULL;
    refused = !mine;
    struct thread_calls *first = mine ? NULL : atomic_load(&first_thread);
    if (mine && number == 0)
        atomic_store(&first_thread, mine->kept);
    if (first)
        first->gaps |= CALLS_MANY_THREADS;
    errno = error;
    return mine;
}

/* Only that which the thread is not amid. */
static struct own_calls *take(void) {
    struct own_calls *of = keeps_calls() ? my_calls() : NULL;
    if (!of)
        return NULL;
    if (of->busy) {
        gap(of, CALLS_INTERRUPTED);
        return NULL;
    }
    of->busy = true;
    return of;
}

static void release(struct own_calls *of) {
    of->busy = false;
}

/* Where a disk or quota is full, the first write to a page would end the process. */
static bool make_items_roomy(struct own_calls *of) {
    const uint64_t from = of->roomy;
    if (of->items.count + 2 < from)
        return true;
    if (from >= SW_MAX_RECORD_ITEMS)
        return true; /* sw_items_add says when there are too many */
    if (!has_room(&of->items.items[from], STEP * sizeof *of->items.items) ||
        !has_room(&of->items.first[from], STEP * sizeof(uint32_t)) ||
        !has_room(&of->items.inside[from], STEP * sizeof(uint32_t)) ||
        !has_room(&of->items.shape[from], STEP * sizeof(uint32_t)))
        return false;
    of->roomy += STEP;
    return true;
}

static void cut(struct own_calls *of, uint64_t pause, uint64_t began) {
    struct thread_calls *kept = of->kept;
    if (pause < of->shortest && !(of->cuts && of->shortest == PAUSE))
        return;
    if (kept->cuts == CALLS_CUTS) { /* the shorter ones go */
        uint64_t left = 0;
        of->shortest *= 2;
        for (uint64_t i = 0; i < kept->cuts; i++)
            if (kept->cut[i].began - kept->cut[i].ended >= of->shortest)
                kept->cut[left++] = kept->cut[i];
        kept->cuts = left;
        if (left == CALLS_CUTS || pause < of->shortest)
            return;
    }
    kept->cut[kept->cuts++] = (struct calls_cut){of->calls, kept->ended, began};
}

/* What other threads and processes may wait for, or that waits for them. */
static bool changes_files(enum sw_line line) {
    switch (line) {
    case SW_LINE_posix_open:
    case SW_LINE_posix_hold:
    case SW_LINE_posix_close:
    case SW_LINE_posix_unlink:
    case SW_LINE_posix_rename:
    case SW_LINE_posix_mkdir:
    case SW_LINE_posix_rmdir:
        return true;
    default:
        return false;
    }
}

static void add_call(struct own_calls *of, enum sw_line line, const int64_t numbers[SW_RECORD_NUMBERS],
                     uint64_t began, uint64_t ended) {
    struct thread_calls *kept = of->kept;
    if (kept->gaps & CALLS_NO_MEMORY) /* what comes later would be out of its order */
        return;
    if (!kept->began)
        kept->began = kept->ended = began;
    const uint64_t pause = since(kept->ended, began);
    of->cuts |= changes_files(line);
    cut(of, pause, began);
    of->cuts = changes_files(line);
    if (!make_items_roomy(of) || !sw_items_add(&of->items, line, numbers, (int64_t)pause)) {
        gap(of, CALLS_NO_MEMORY);
        return;
    }
    of->calls++;
    kept->items = of->items.count;
    kept->spent += since(began, ended);
    if (ended > kept->ended)
        kept->ended = ended;
}

static void keep(struct own_calls *of, enum sw_line line, int64_t a, int64_t b, int64_t c, int64_t d,
                 uint64_t began, uint64_t ended) {
    add_call(of, line, (const int64_t[SW_RECORD_NUMBERS]){a, b, c, d}, began, ended);
}

/* ---- paths ---- */

/* Programs, their libraries and what the system keeps: not their data. */
static bool is_data(const char *path) {
    static const char *const folders[] = {"/proc/", "/sys/", "/usr/", "/lib",  "/etc/", "/bin/",
                                          "/sbin/", "/run/", "/dev/", "/opt/", "/boot/"},
                             *const parts[] = {"-packages/", "/lib/python", ".so.",     "/__pycache__",
                                               "/bin/",      "/libexec/",   "/.pyenv/", "/etc/"},
                             *const ends[] = {".so", ".py", ".pyc", ".pth", "/pyvenv.cfg", "/bin"};
    if (strncmp(path, "/dev/shm/", 9) == 0)
        return true;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (strncmp(path, folders[i], strlen(folders[i])) == 0)
            return false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(path, parts[i]))
            return false;
    const size_t length = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t end = strlen(ends[i]);
        if (length >= end && strcmp(path + length - end, ends[i]) == 0)
            return false;
    }
    return length > 1;
}

/* Takes "//", "/./" and "/../" out of an absolute path. */
static void normalise(char *path) {
    char *to = path;
    for (const char *from = path; *from;) {
        while (*from == '/')
            from++;
        const size_t length = strcspn(from, "/");
        if (length == 2 && from[0] == '.' && from[1] == '.') {
            do
                to -= to > path;
            while (to > path && *to != '/');
        } else if (length > 0 && !(length == 1 && *from == '.')) {
            *to++ = '/';
            memmove(to, from, length);
            to += length;
        }
        from += length;
    }
    if (to == path)
        *to++ = '/';
    *to = '\0';
}

static bool of_descriptor(int fd, char path[PATH]) {
    char link[40] = "/proc/self/fd/";
    link[14 + decimal(link + 14, (uint64_t)fd)] = '\0';
    const ssize_t size = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[size > 0 ? size : 0] = '\0';
    char *deleted = size > 0 ? strstr(path, " (deleted)") : NULL;
    if (deleted && !deleted[10])
        *deleted = '\0';
    return size > 0 && *path == '/';
}

static bool absolute(int folder, const char *given, char path[PATH]) {
    size_t used = 0;
    if (!given || !*given || strnlen(given, PATH_MAX) >= PATH_MAX - 1)
        return false;
    if (*given != '/') {
        if (folder == AT_FDCWD ? syscall(SYS_getcwd, path, PATH_MAX) <= 0 : !of_descriptor(folder, path))
            return false;
        used = strlen(path);
        path[used++] = '/';
    }
    strcpy(path + used, given); /* NOLINT: there is room for both */
    normalise(path);
    return is_data(path);
}

/* The number of a file, or -1. size: what it has, where it is met first. */
static int64_t file_of(struct own_calls *of, const char *path, int64_t size, uint64_t when) {
    struct thread_calls *kept = of->kept;
    uint64_t hash = 14695981039346656037u;
    size_t length = strlen(path) + 1;
    for (const char *c = path; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    uint64_t place = hash % PLACES;
    for (; of->places[place]; place = (place + 1) % PLACES) {
        struct calls_file *known = &kept->file[of->places[place] - 1];
        if (known->hash == hash && strcmp(kept->text + known->text, path) == 0) {
            if (known->size == ASKED && size != ASKED) {
                known->size = size;
                known->first = when;
            }
            return of->places[place] - 1;
        }
    }
    bool room = kept->files < CALLS_FILES && kept->text_size + length <= CALLS_TEXT;
    if (room && kept->files == of->roomy_files) {
        room = has_room(&kept->file[kept->files], STEP * sizeof *kept->file);
        of->roomy_files += STEP;
    }
    while (room && kept->text_size + length > of->roomy_text) {
        room = has_room(kept->text + of->roomy_text, PAGE);
        of->roomy_text += PAGE;
    }
    if (!room) {
        gap(of, CALLS_NO_MEMORY);
        return -1;
    }
    memcpy(kept->text + kept->text_size, path, length);
    kept->file[kept->files] = (struct calls_file){hash, kept->text_size, when, size};
    kept->text_size += length;
    of->places[place] = (uint16_t)++kept->files;
    return (int64_t)kept->files - 1;
}

static int64_t flags_of(int flags) {
    int64_t found = flags & O_ACCMODE;
    found |= flags & O_CREAT ? CREATES : 0;
    found |= flags & O_EXCL ? EXCLUSIVE : 0;
    found |= flags & O_TRUNC ? TRUNCATES : 0;
    found |= flags & O_APPEND ? APPENDS : 0;
    found |= flags & O_DIRECT ? DIRECT : 0;
    return found | (flags & O_DSYNC ? SYNCHRONOUS : 0);
}

/* ---- descriptors ---- */

/* Whether calls on it are kept. Standard streams are those of who started the program, but for those that it
 * puts a file of its own in place of. */
static bool is_followed(struct own_calls *of, int fd) {
    if (fd < 0 || (fd <= STDERR_FILENO && !atomic_load_explicit(&replaced[fd], memory_order_relaxed)) ||
        !record_of(fd))
        return false;
    if (fd >= SLOTS) {
        gap(of, CALLS_MANY_FILES);
        return false;
    }
    return true;
}

void note_copy(int from, int to) {
    if (keeps_calls() && to >= 0 && to <= STDERR_FILENO && getpid() == self)
        atomic_store_explicit(&replaced[to], from > STDERR_FILENO && record_of(from) && replaces(from, to),
                              memory_order_relaxed);
}

static bool is_mine(const struct own_calls *of, int fd) {
    return of->turns[fd] == atomic_load_explicit(&descriptors[fd].turn, memory_order_relaxed);
}

/* Goes on with what another thread or process opened. */
static bool hold(struct own_calls *of, int fd, int64_t back, uint64_t began) {
    struct stat about;
    of->turns[fd] = atomic_load_explicit(&descriptors[fd].turn, memory_order_relaxed);
    descriptors[fd].left_out = !of_descriptor(fd, of->path) || !is_data(of->path);
    if (descriptors[fd].left_out)
        return false;
    const off_t place = (off_t)syscall(SYS_lseek, fd, (off_t)0, SEEK_CUR);
    const int flags = (int)syscall(SYS_fcntl, fd, F_GETFL);
    const int64_t size = fstat(fd, &about) == 0 ? (int64_t)about.st_size : 0,
                  file = file_of(of, of->path, size, began);
    if (file >= 0)
        keep(of, SW_LINE_posix_hold, fd, file, flags_of(flags & ~(O_CREAT | O_EXCL | O_TRUNC)),
             place < back ? 0 : place - back, began, began);
    return file >= 0;
}

/* back: the bytes by which the call moved its position. */
static bool has(struct own_calls *of, int fd, int64_t back, uint64_t began) {
    return is_mine(of, fd) ? !descriptors[fd].left_out : hold(of, fd, back, began);
}

/* ---- calls ---- */

int64_t size_before(int folder, const char *path, int flags) {
    struct stat about;
    if (!keeps_calls() || !(flags & O_CREAT) || !path)
        return -1;
    const int error = errno;
    const bool there = syscall(SYS_newfstatat, folder, path, &about, 0) == 0;
    errno = error;
    return there ? (int64_t)about.st_size : -1;
}

static void opened_well(struct own_calls *of, int fd, int flags, int64_t size, uint64_t began) {
    struct stat about;
    of->turns[fd] = atomic_load_explicit(&descriptors[fd].turn, memory_order_relaxed);
    descriptors[fd].left_out = false;
    if (!(flags & O_CREAT))
        size = fstat(fd, &about) == 0 ? (int64_t)about.st_size : 0;
    const int64_t file = file_of(of, of->path, size, began);
    if (file >= 0)
        keep(of, SW_LINE_posix_open, fd, file, flags_of(flags), 0, began, now());
}

void note_open(int fd, int folder, const char *path, int flags, int64_t size, uint64_t began) {
    struct own_calls *of = take();
    if (!of)
        return;
    const int error = errno;
    const bool fails = fd < 0 && (error == ENOENT || error == EEXIST);
    if (!((flags & O_TMPFILE) == O_TMPFILE) && (fails || (fd >= 0 && is_followed(of, fd)))) {
        if (!absolute(folder, path, of->path)) {
            if (!fails) {
                of->turns[fd] = atomic_load_explicit(&descriptors[fd].turn, memory_order_relaxed);
                descriptors[fd].left_out = true;
            }
        } else if (fails) {
            const int64_t file = file_of(of, of->path, -1, began);
            if (file >= 0)
                keep(of, SW_LINE_posix_open, 0, file, flags_of(flags), 1, began, now());
        } else {
            opened_well(of, fd, flags, size, began);
        }
    }
    errno = error;
    release(of);
}

void note_path(enum sw_line line, int folder, const char *path, int other_folder, const char *other,
               int result, uint64_t began) {
    struct own_calls *of = take();
    if (!of)
        return;
    const int error = errno;
    const uint64_t ended = now();
    const bool plain = result == 0 || error == ENOENT || error == EEXIST || error == ENOTEMPTY;
    if (plain && absolute(folder, path, of->path) && (!other || absolute(other_folder, other, of->other))) {
        struct stat about;
        int64_t size = line == SW_LINE_posix_stat ? ASKED : -1;
        if (other && result == 0 && syscall(SYS_newfstatat, AT_FDCWD, of->other, &about, 0) == 0 &&
            S_ISREG(about.st_mode))
            size = (int64_t)about.st_size;
        const int64_t file = file_of(of, of->path, size, began),
                      to = other ? file_of(of, of->other, -1, began) : result != 0;
        if (file >= 0 && to >= 0)
            keep(of, line, file, to, result != 0, 0, began, ended);
    }
    errno = error;
    release(of);
}

void note_moved(int fd, bool writes, int64_t bytes, int64_t place, uint64_t began, uint64_t ended) {
    struct own_calls *of = take();
    if (!of)
        return;
    if (bytes >= 0 && is_followed(of, fd) && has(of, fd, place < 0 ? bytes : 0, began)) {
        if (place >= 0)
            keep(of, writes ? SW_LINE_posix_pwrite : SW_LINE_posix_pread, fd, place, bytes, 0, began, ended);
        else
            keep(of, writes ? SW_LINE_posix_write : SW_LINE_posix_read, fd, bytes, 0, 0, began, ended);
        recorded[fd] += place < 0 ? bytes : 0;
    }
    release(of);
}

void note_call(int fd, enum sw_line line, int64_t number, uint64_t began) {
    struct own_calls *of = take();
    if (!of)
        return;
    const int error = errno;
    if (is_followed(of, fd) && has(of, fd, 0, began))
        keep(of, line, fd, number, 0, 0, began, now());
    if (line == SW_LINE_posix_seek && fd >= 0 && fd < SLOTS)
        recorded[fd] = number;
    errno = error;
    release(of);
}

bool note_closing(int fd) {
    struct own_calls *of = take();
    if (!of)
        return false;
    const bool kept = is_followed(of, fd) && is_mine(of, fd) && !descriptors[fd].left_out;
    release(of);
    return kept;
}

void note_closed(int fd, uint64_t began) {
    struct own_calls *of = take();
    if (!of)
        return;
    keep(of, SW_LINE_posix_close, fd, 0, 0, 0, began, now());
    release(of);
}

/* ---- streams ---- */

/* Only glibc's have these members: with another C library, this one's are not known. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));
#define PUTS 0x800 /* of _flags: the buffer holds what is to be written */

struct stream_state state_of(FILE *stream) {
    struct stream_state found = {0};
#ifdef __GLIBC__
    if (!keeps_calls() || !stream || !gnu_get_libc_version || stream->_mode > 0)
        return found;
    found.puts = stream->_flags & PUTS;
    found.pending = found.puts ? stream->_IO_write_ptr - stream->_IO_write_base : 0;
    found.ahead = found.puts ? 0 : stream->_IO_read_end - stream->_IO_read_ptr;
    found.held = found.puts ? 0 : stream->_IO_read_end - stream->_IO_read_base;
    found.room = stream->_IO_buf_end - stream->_IO_buf_base;
#else
    (void)stream;
#endif
    return found;
}

/* So many bytes as the C library moves them: what fills the buffer, and the rest past it. */
static void move_in_blocks(struct own_calls *of, int fd, bool writes, int64_t bytes, int64_t block,
                           uint64_t began, uint64_t ended) {
    while (bytes > 0) {
        const int64_t some = block > 0 && bytes > block ? block : bytes;
        keep(of, writes ? SW_LINE_posix_write : SW_LINE_posix_read, fd, some, 0, 0, began, ended);
        began = ended; /* the time is the first one's */
        recorded[fd] += some;
        bytes -= some;
    }
}

void note_stream_opened(int fd) {
    if (keeps_calls() && fd >= 0 && fd < SLOTS)
        recorded[fd] = (int64_t)syscall(SYS_lseek, fd, (off_t)0, SEEK_CUR);
}

/* Moves that no call showed, as those of putc and getc: up to this place. */
static void settle(struct own_calls *of, int fd, bool writes, int64_t place, uint64_t began) {
    if (place > recorded[fd])
        move_in_blocks(of, fd, writes, place - recorded[fd], BLOCK, began, began);
    if (place >= 0)
        recorded[fd] = place;
}

static int64_t place_of(int fd) {
    return (int64_t)syscall(SYS_lseek, fd, (off_t)0, SEEK_CUR);
}

void note_streamed(FILE *stream, const struct stream_state *before, bool writes, int64_t bytes,
                   uint64_t began) {
    const int fd = number_of(stream);
    const struct stream_state after = state_of(stream);
    const int64_t moves =
        writes ? before->pending + bytes - after.pending : bytes - before->ahead + after.ahead;
    const bool turns = writes && !before->puts;
    struct own_calls *of = moves > 0 || turns ? take() : NULL;
    if (!of)
        return;
    if (is_followed(of, fd) && has(of, fd, moves > 0 ? moves : 0, began)) {
        const uint64_t ended = now();
        if (turns) /* what was read before */
            settle(of, fd, false, place_of(fd) - moves, began);
        /* What the buffer cannot hold goes past it in one call, with what was in it before. */
        const int64_t first = moves > after.room && before->pending ? after.room : moves;
        move_in_blocks(of, fd, writes, first, 0, began, ended);
        move_in_blocks(of, fd, writes, moves - first, 0, ended, ended);
    }
    release(of);
}

void note_stream_sought(FILE *stream, const struct stream_state *before, uint64_t began) {
    const int error = errno, fd = number_of(stream);
    struct own_calls *of = take();
    if (!of)
        return;
    if (is_followed(of, fd) && has(of, fd, 0, began)) {
        const uint64_t ended = now();
        const struct stream_state after = state_of(stream);
        const int64_t place = place_of(fd);
        move_in_blocks(of, fd, true, before->pending, 0, began, ended);
        if (place >= 0 && place != recorded[fd]) {
            keep(of, SW_LINE_posix_seek, fd, place - after.held, 0, 0, ended, ended);
            recorded[fd] = place - after.held;
            move_in_blocks(of, fd, false, after.held, 0, ended, ended);
        }
    }
    errno = error;
    release(of);
}

void note_stream_leaves(FILE *stream, bool closes) {
    const int error = errno, fd = number_of(stream);
    struct own_calls *of = take();
    if (!of)
        return;
    const uint64_t began = now();
    if (is_followed(of, fd) && has(of, fd, 0, began)) {
        const struct stream_state state = state_of(stream);
        settle(of, fd, state.puts, place_of(fd), began);
        if (closes)
            move_in_blocks(of, fd, true, state.pending, 0, began, began);
    }
    errno = error;
    release(of);
}
