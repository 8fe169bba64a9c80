/* What the loaders of training jobs do, right or wrong, for benchmarks/diagnosis/loaders.py.
 *     loaders read FILE FIRST BYTES PIECE WORKERS EACH EPOCHS  - workers read BYTES in pieces, each its own
 * part (EACH 0) or all loaders samples FILE SEED COUNT PIECE WORKERS     - workers read COUNT pieces at
 * random places loaders fed FILE COUNT PIECE WORKERS MICROSECONDS - workers pause after each piece, as those
 * that decode it do loaders step FILE BYTES OUT WRITTEN               - reads a file, and writes one unless
 * WRITTEN is 0 loaders look FOLDER COUNT                         - looks for files that are not there
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *buffer;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static long number(const char *text) {
    return strtol(text, NULL, 10);
}

static void read_at(int file, size_t bytes, off_t place) {
    if (pread(file, buffer, bytes, place) < 0)
        die("pread");
}

static void read_range(const char *path, off_t first, long bytes, long piece, long pause) {
    int file = open(path, O_RDONLY);
    if (file < 0)
        die(path);
    for (off_t place = first; place < first + bytes; place += piece) {
        read_at(file, (size_t)piece, place);
        if (pause)
            nanosleep(&(struct timespec){.tv_nsec = pause * 1000}, NULL);
    }
    close(file);
}

static void read_samples(const char *path, unsigned seed, long count, long piece) {
    int file = open(path, O_RDONLY);
    struct stat about;
    if (file < 0 || fstat(file, &about) < 0)
        die(path);
    for (long i = 0; i < count; i++)
        read_at(file, (size_t)piece, rand_r(&seed) % (about.st_size / piece) * piece);
    close(file);
}

static void step(const char *in, long bytes, const char *out, long written) {
    read_range(in, 0, bytes, 1 << 20, 0);
    if (!written)
        return;
    int file = open(out, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    for (long done = 0; done < written; done += 1 << 20)
        if (write(file, buffer, 1 << 20) < 0)
            die(out);
    close(file);
}

static void look(const char *folder, long count) {
    char path[4096];
    struct stat about;
    int own = open("/proc/self/exe", O_RDONLY); /* from its first regular file on, a process is observed */
    for (long i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/none%ld", folder, i);
        stat(path, &about);
    }
    close(own);
}

static void work(char **given, long worker) {
    const char *what = given[0], *path = given[1];
    if (strcmp(what, "read") == 0) {
        long bytes = number(given[3]), all = number(given[6]);
        for (long epochs = number(given[7]); epochs > 0; epochs--)
            read_range(path, all ? 0 : worker * bytes, bytes, number(given[4]), 0);
    } else if (strcmp(what, "samples") == 0) {
        read_samples(path, (unsigned)(number(given[2]) + worker), number(given[3]), number(given[4]));
    } else {
        long piece = number(given[3]);
        read_range(path, 0, number(given[2]) * piece, piece, number(given[5]));
    }
}

int main(int argc, char **argv) {
    buffer = calloc(16, 1 << 20);
    if (argc < 4 || !buffer)
        return 2;
    if (strcmp(argv[1], "step") == 0) {
        step(argv[2], number(argv[3]), argv[4], number(argv[5]));
        return 0;
    }
    if (strcmp(argv[1], "look") == 0) {
        look(argv[2], number(argv[3]));
        return 0;
    }
    long workers = number(argv[strcmp(argv[1], "fed") == 0 ? 5 : 6]);
    for (long i = 0; i < workers; i++)
        if (fork() == 0) {
            work(argv + 1, i);
            exit(0);
        }
    while (wait(NULL) > 0)
        ;
    return 0;
}
