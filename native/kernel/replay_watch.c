/* Ends a replay that makes no progress: where the ranks of a record do not make the same collective calls,
 * they would wait for one another for ever. A rank that waits looks whether any other goes on: those touch
 * the mark of the folder. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "replay.h"

static volatile sig_atomic_t calls; /* wraps */
static char mark[2 * REPLAY_PATH];

void replay_progress(void) {
    calls = (sig_atomic_t)((unsigned)calls + 1);
}

/* Calls only what a handler of signals may. */
static void look(int signal) {
    static const char said[] = REPLAY_NAME ": error: no rank's call has ended for as long as --patience "
                                           "says: the ranks of this record seem to wait for "
                                           "one another; record the program again, or give more --patience\n";
    static sig_atomic_t seen = -1;
    static struct timespec touched = {.tv_sec = -1};
    struct stat status;
    (void)signal;
    if (seen != calls) {
        seen = calls;
        (void)!utimensat(AT_FDCWD, mark, NULL, 0);
        return;
    }
    const bool known = stat(mark, &status) == 0;
    if (known && status.st_mtim.tv_sec == touched.tv_sec && status.st_mtim.tv_nsec == touched.tv_nsec) {
        (void)!write(STDERR_FILENO, said, sizeof said - 1);
        _exit(REPLAY_FAILED);
    }
    if (known)
        touched = status.st_mtim;
}

static void set_timer(int64_t seconds) {
    const struct itimerval every = {.it_interval = {.tv_sec = seconds}, .it_value = {.tv_sec = seconds}};
    setitimer(ITIMER_REAL, &every, NULL);
}

void replay_watch(const struct replay *replay) {
    struct sigaction action;
    snprintf(mark, sizeof mark, "%s/%s", replay->options.directory, SW_REPLAY_MARK);
    memset(&action, 0, sizeof action);
    action.sa_handler = look;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    set_timer(replay->options.patience);
}

void replay_watch_end(void) {
    set_timer(0);
}
