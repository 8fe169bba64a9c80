/* What the ranks of a communicator do before they open a file together. */
#include "replay.h"

#include <sys/stat.h>

#include "kernel.h"

struct replay_family {
    uint64_t key;
    int64_t opened;
};

static int64_t opened_before(struct replay_steps *steps, uint64_t key) {
    for (int64_t i = 0; i < steps->count; i++)
        if (steps->families[i].key == key)
            return steps->families[i].opened++;
    steps->families = replay_grow(steps->families, steps->count, sizeof *steps->families);
    steps->families[steps->count++] = (struct replay_family){key, 1};
    return 0;
}

void replay_meet(const struct replay *replay, const struct replay_comm *comm) {
    if (!replay->options.think)
        MPI_Barrier(comm->comm);
}

/* What all ranks leave out together hangs on counts that are the same for them. */
bool replay_opens_too_many(struct replay_steps *steps, const struct replay *replay,
                           const struct replay_file *file, const struct replay_comm *comm, bool creates) {
    const int64_t most = replay->options.steps;
    if (most == 0)
        return false;
    const uint64_t key =
        mix64(file->family ^ mix64((uint64_t)comm->leader ^ mix64((uint64_t)comm->size + creates)));
    if (opened_before(steps, key) >= most)
        return true;
    int missing = 0;
    if (!creates) { /* perhaps it was left out when the program wrote it */
        struct stat status;
        int rank;
        MPI_Comm_rank(comm->comm, &rank);
        missing = rank == 0 && stat(file->path, &status) != 0;
        MPI_Bcast(&missing, 1, MPI_INT, 0, comm->comm);
    }
    return missing;
}
