/* Preloaded behind the runtime: every pread and pwrite of a regular file waits SLOW_STORAGE_MICROSECONDS, and
 * the time that its bytes take at SLOW_STORAGE_BANDWIDTH (bytes a second, if given), as on storage that is a
 * network away. A simulation: nothing else of such storage is imitated. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void wait_for(int fd, size_t size) {
    static long microseconds = -1;
    static double bandwidth;
    struct stat status;
    if (microseconds < 0) {
        const char *text = getenv("SLOW_STORAGE_MICROSECONDS");
        microseconds = text ? atol(text) : 0;
        text = getenv("SLOW_STORAGE_BANDWIDTH");
        bandwidth = text ? atof(text) : 0;
    }
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
        long whole = microseconds + (bandwidth > 0 ? (long)((double)size / bandwidth * 1e6) : 0);
        struct timespec time = {whole / 1000000, whole % 1000000 * 1000};
        nanosleep(&time, NULL);
    }
}

#define SLOW(NAME, BUFFER, OFFSET)                                                                           \
    ssize_t NAME(int fd, BUFFER data, size_t size, OFFSET offset) {                                          \
        static ssize_t (*next)(int, BUFFER, size_t, OFFSET);                                                 \
        if (!next)                                                                                           \
            next = (ssize_t (*)(int, BUFFER, size_t, OFFSET))dlsym(RTLD_NEXT, #NAME);                        \
        wait_for(fd, size);                                                                                  \
        return next(fd, data, size, offset);                                                                 \
    }

SLOW(pread, void *, off_t)
SLOW(pwrite, const void *, off_t)
SLOW(pread64, void *, off64_t)
SLOW(pwrite64, const void *, off64_t)
