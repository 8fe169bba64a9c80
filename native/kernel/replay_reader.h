/* What the parts of the reader of records share; each takes lines of its own kinds. */
#ifndef STRIPEWISE_REPLAY_READER_H
#define STRIPEWISE_REPLAY_READER_H

#include "replay.h"

/* A number of a line: its first value, and its steps from turn to turn and from rank to rank. */
struct replay_number {
    int64_t base, steps[SW_RECORD_DEPTH], rank;
};

/* A communicator of a group of ranks, as its line says. */
struct named_comm {
    int64_t first, count;
    struct replay_number leader, size, distance;
};

struct replay_reader {
    struct replay *replay;
    long line;
    int64_t first, count; /* the group */
    bool own;
    enum sw_line before; /* the last line, where it belongs to the call after it; else SW_LINES */
    uint32_t depth;
    int64_t times[SW_RECORD_DEPTH]; /* of the loops that are open, the outermost first */
    struct replay_type *type;
    struct named_comm *comms; /* of all groups */
    int64_t comm_count;
    size_t common; /* the length of the folder that all files have in common */
    char folder[REPLAY_PATH];
    bool any_file;
};

/* ---- numbers and texts ---- */

/* Ends the job with what is wrong with the line. */
void replay_damaged(const struct replay_reader *reader, const char *why) __attribute__((noreturn));
int64_t replay_at_rank(const struct replay_number *number, int64_t rank);
int64_t replay_whole(const struct replay_reader *reader, char **at);
/* NUMBER[,STEP...][~STEP] and the blank behind it. */
struct replay_number replay_take_number(const struct replay_reader *reader, char **at);
/* The next number as it is on the own rank. */
int64_t replay_take_own(const struct replay_reader *reader, char **at);
/* %XX stands for a character. */
void replay_decode(char *text);

/* ---- replay_paths.c ---- */
void replay_take_file(struct replay_reader *reader, char *rest);
void replay_take_hint(const struct replay_reader *reader, char *hint);
void replay_take_input(struct replay_reader *reader, char *rest);
/* Puts all files into the replay's folder, which none may leave; inputs are then in the order of their paths.
 */
void replay_move_files(struct replay_reader *reader);

/* ---- replay_comms.c ---- */
void replay_take_comm(struct replay_reader *reader, char *rest);
void replay_make_comms(const struct replay_reader *reader);

/* ---- replay_read_hdf5.c: what HDF5's calls refer to ---- */
/* Whether a line belongs to the call after it, and which lines may stand behind it. */
bool replay_precedes(enum sw_line line);
bool replay_may_follow(enum sw_line line, enum sw_line next);
void replay_take_hdf5_name(const struct replay_reader *reader, enum sw_line line, char *rest);
void replay_free_hdf5_names(struct replay *replay);

#endif
