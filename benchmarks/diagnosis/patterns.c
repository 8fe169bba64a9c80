/* SPDX-License-Identifier: BSD-3-Clause */
/* A program with chosen faults, for the labelled set: what the benchmark kernel has no option for.
 *
 *   mpiexec -n 4 patterns STEP...
 *
 * STEP is words joined by commas, each NAME=VALUE:
 *   do=write|read|fwrite|fread|opens|stats   what (default write)
 *   file=PATH        %r in it stands for the rank; without it all ranks share one file
 *   size=BYTES count=N   a request, and requests of a rank
 *   passes=N         how often a rank goes over its part (default 1)
 *   who=N            only rank N takes part
 *   heavy=X          rank 0 makes X times as many requests (a decimal number)
 *   same=1           all ranks use the first rank's part
 *   flush=N          fsync (fflush) after every N writes
 *   reopen=N         close and open after every N requests
 *   shift=BYTES      offset of the buffer from its page
 *   base=BYTES       offset in the file where the first part begins
 *   slow=N           rank N writes through to the disk (O_DSYNC)
 *   order=forward|random
 * A barrier ends each step. Errors end the program with 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct step {
    char what[16];
    char file[1024];
    char order[16];
    long size, count, passes, who, same, flush, reopen, shift, base, slow;
    double heavy;
};

static int rank, ranks;

static void die(const char *what) {
    fprintf(stderr, "patterns: %s: %s\n", what, strerror(errno));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static struct step parse(char *text) {
    struct step s = {"write", "", "forward", 4096, 1, 1, -1, 0, 0, 0, 0, 0, -1, 1.0};
    char *rest = NULL;
    for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(word, '=');
        if (!value)
            die(word);
        *value++ = 0;
        long number = strtol(value, NULL, 10);
        struct {
            const char *name;
            long *place;
        } numbers[] = {{"size", &s.size}, {"count", &s.count}, {"passes", &s.passes}, {"who", &s.who},
                       {"same", &s.same}, {"flush", &s.flush}, {"reopen", &s.reopen}, {"shift", &s.shift},
                       {"base", &s.base}, {"slow", &s.slow}};
        int known = 0;
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
            if (!strcmp(word, numbers[i].name)) {
                *numbers[i].place = number;
                known = 1;
            }
        if (!strcmp(word, "do"))
            snprintf(s.what, sizeof s.what, "%s", value);
        else if (!strcmp(word, "order"))
            snprintf(s.order, sizeof s.order, "%s", value);
        else if (!strcmp(word, "heavy"))
            s.heavy = strtod(value, NULL);
        else if (!strcmp(word, "file")) {
            char *mark = strstr(value, "%r");
            if (mark)
                snprintf(s.file, sizeof s.file, "%.*s%d%s", (int)(mark - value), value, rank, mark + 2);
            else
                snprintf(s.file, sizeof s.file, "%s", value);
        } else if (!known)
            die(word);
    }
    return s;
}

/* A permutation of the requests that jumps: i -> i * step modulo n with step and n coprime. */
static long place_of(const struct step *s, long i, long n) {
    if (strcmp(s->order, "random") || n < 3)
        return i;
    long step = n * 5 / 8 | 1;
    for (;; step += 2) {
        long a = step, b = n;
        while (b) {
            long t = a % b;
            a = b;
            b = t;
        }
        if (a == 1)
            return i * (step % n) % n;
    }
}

static void move(const struct step *s, char *buffer) {
    int writing = s->what[0] == 'w';
    long mine = rank == 0 ? (long)(s->count * s->heavy) : s->count;
    long first = s->same ? 0 : rank ? (long)(s->count * s->heavy) + (rank - 1) * s->count : 0;
    int flags = (writing ? O_WRONLY | O_CREAT : O_RDONLY) | (s->slow == rank ? O_DSYNC : 0);
    int fd = open(s->file, flags, 0600);
    if (fd < 0)
        die(s->file);
    for (long pass = 0; pass < s->passes; pass++)
        for (long i = 0; i < mine; i++) {
            off_t offset = s->base + (first + place_of(s, i, mine)) * s->size;
            ssize_t done = writing ? pwrite(fd, buffer, s->size, offset) : pread(fd, buffer, s->size, offset);
            if (done < 0)
                die(s->file);
            if (writing && s->flush && (i + 1) % s->flush == 0)
                fsync(fd);
            if (s->reopen && (i + 1) % s->reopen == 0) {
                close(fd);
                fd = open(s->file, flags, 0600);
                if (fd < 0)
                    die(s->file);
            }
        }
    close(fd);
}

static void stream(const struct step *s, char *buffer) {
    int writing = !strcmp(s->what, "fwrite");
    FILE *file = fopen(s->file, writing ? "w" : "r");
    if (!file)
        die(s->file);
    for (long i = 0; i < s->count; i++) {
        size_t done = writing ? fwrite(buffer, 1, s->size, file) : fread(buffer, 1, s->size, file);
        if (writing && done != (size_t)s->size)
            die(s->file);
        if (writing && s->flush && (i + 1) % s->flush == 0)
            fflush(file);
    }
    fclose(file);
}

/* A file for each of count requests: created, given size bytes, closed; or only asked about. */
static void many(const struct step *s, char *buffer) {
    for (long i = 0; i < s->count; i++) {
        char path[1100];
        snprintf(path, sizeof path, "%s.%ld", s->file, i);
        if (!strcmp(s->what, "stats")) {
            struct stat status;
            for (long pass = 0; pass < s->passes; pass++)
                (void)stat(s->file, &status);
            continue;
        }
        int fd = open(path, O_WRONLY | O_CREAT, 0600);
        if (fd < 0)
            die(path);
        if (s->size && write(fd, buffer, s->size) < 0)
            die(path);
        close(fd);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 1; i < argc; i++) {
        struct step s = parse(argv[i]);
        void *page = NULL;
        if (posix_memalign(&page, 4096, s.size + s.shift + 4096))
            die("memory");
        memset(page, rank + 1, s.size + s.shift);
        char *buffer = (char *)page + s.shift;
        if (s.who < 0 || s.who == rank) {
            if (!strcmp(s.what, "write") || !strcmp(s.what, "read"))
                move(&s, buffer);
            else if (!strcmp(s.what, "fwrite") || !strcmp(s.what, "fread"))
                stream(&s, buffer);
            else if (!strcmp(s.what, "opens") || !strcmp(s.what, "stats"))
                many(&s, buffer);
            else
                die(s.what);
        }
        free(page);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
