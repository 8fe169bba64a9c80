/* Communicators of a record: of all ranks, since each says only what it took part in. */
#include "replay_reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../core/journal.h"

void replay_take_comm(struct replay_reader *reader, char *rest) {
    struct replay *replay = reader->replay;
    struct named_comm comm = {.first = reader->first, .count = reader->count};
    comm.leader = replay_take_number(reader, &rest);
    comm.size = replay_take_number(reader, &rest);
    comm.distance = replay_take_number(reader, &rest);
    reader->comms = replay_grow(reader->comms, reader->comm_count, sizeof comm);
    reader->comms[reader->comm_count++] = comm;
    if (!reader->own)
        return;
    int64_t distance = replay->rank - reader->first;
    replay->comms = replay_grow(replay->comms, replay->comm_count, sizeof *replay->comms);
    replay->comms[replay->comm_count++] =
        (struct replay_comm){replay_at_rank(&comm.leader, distance), replay_at_rank(&comm.size, distance),
                             replay_at_rank(&comm.distance, distance), MPI_COMM_NULL};
}

/* Marks the ranks of the job that opened files in a communicator, and counts them. */
static int64_t mark_members(const struct replay_reader *reader, const struct replay_comm *wanted, char *in) {
    int64_t found = 0;
    for (int64_t i = 0; i < reader->comm_count; i++) {
        const struct named_comm *comm = &reader->comms[i];
        for (int64_t rank = 0; rank < comm->count; rank++)
            if (replay_at_rank(&comm->leader, rank) == wanted->leader &&
                replay_at_rank(&comm->size, rank) == wanted->size &&
                replay_at_rank(&comm->distance, rank) == wanted->distance) {
                found += !in[comm->first + rank];
                in[comm->first + rank] = 1;
            }
    }
    return found;
}

/* The ranks of a communicator in their order. Irregular ones are sorted behind the first, as splits by rank
 * leave them; their CRC says whether that is so. */
static bool order_members(const struct replay *replay, const struct replay_comm *wanted, const char *in,
                          int *members) {
    int64_t count = 1;
    members[0] = (int)wanted->leader;
    if (wanted->distance < SW_RECORD_IRREGULAR) {
        if (wanted->distance == 0 || wanted->distance <= -replay->ranks || wanted->distance >= replay->ranks)
            return false;
        for (; count < wanted->size; count++) {
            const int64_t rank = wanted->leader + count * wanted->distance;
            if (rank < 0 || rank >= replay->ranks || !in[rank])
                return false;
            members[count] = (int)rank;
        }
        return true;
    }
    for (int rank = 0; rank < replay->ranks; rank++)
        if (in[rank] && rank != wanted->leader)
            members[count++] = rank;
    return SW_RECORD_IRREGULAR +
               (int64_t)sw_crc32(0, (const char *)members, (size_t)count * sizeof *members) ==
           wanted->distance;
}

static MPI_Comm make_comm(const struct replay_reader *reader, const struct replay_comm *wanted) {
    const struct replay *replay = reader->replay;
    const int64_t leader = wanted->leader, size = wanted->size;
    if (size == 1)
        return MPI_COMM_SELF;
    if (size == replay->ranks && leader == 0 && wanted->distance == 1)
        return MPI_COMM_WORLD;
    char *in = replay_grow(NULL, replay->ranks, 1);
    memset(in, 0, (size_t)replay->ranks);
    const int64_t found = mark_members(reader, wanted, in);
    if (found != size || leader < 0 || leader >= replay->ranks || !in[leader])
        replay_die("record %s does not tell the ranks of a communicator: %" PRId64
                   " opened files in one of %" PRId64 " that rank %" PRId64 " leads",
                   replay->options.record, found, size, leader);
    int *members = replay_grow(NULL, size, sizeof *members);
    if (!order_members(replay, wanted, in, members))
        replay_die("record %s cannot be replayed: it does not tell the order of the %" PRId64
                   " ranks of a communicator that rank %" PRId64 " leads",
                   replay->options.record, size, leader);
    MPI_Group world, group;
    MPI_Comm comm;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, (int)size, members, &group);
    MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &comm);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    free(members);
    free(in);
    return comm;
}

static int by_leader(const void *one, const void *other) {
    const struct replay_comm *a = *(struct replay_comm *const *)one, *b = *(struct replay_comm *const *)other;
    if (a->leader != b->leader)
        return a->leader < b->leader ? -1 : 1;
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    return (a->distance > b->distance) - (a->distance < b->distance);
}

/* All ranks in one order: making a communicator waits for its members. */
void replay_make_comms(const struct replay_reader *reader) {
    struct replay *replay = reader->replay;
    struct replay_comm **order =
        (struct replay_comm **)replay_grow(NULL, replay->comm_count, sizeof(struct replay_comm *));
    for (int64_t i = 0; i < replay->comm_count; i++)
        order[i] = &replay->comms[i];
    if (replay->comm_count > 0)
        qsort((void *)order, (size_t)replay->comm_count, sizeof(struct replay_comm *), by_leader);
    for (int64_t i = 0; i < replay->comm_count; i++)
        order[i]->comm = make_comm(reader, order[i]);
    free((void *)order);
}
