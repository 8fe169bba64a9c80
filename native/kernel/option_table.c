#include "option_table.h"

#define FIELD(member) offsetof(struct options, member)
#define TILE(member) offsetof(struct options, geometry.tile.member)
#define DUMMY(member) offsetof(struct options, dummy.member)

const struct option_row option_table[] = {
    {"help", 'h', KIND_FLAG, GROUP_GENERAL, FIELD(help), NULL, "print this and end"},
    {"version", 'V', KIND_FLAG, GROUP_GENERAL, FIELD(version), NULL, "print the version and end"},
    {"api", 'a', KIND_API, GROUP_GENERAL, FIELD(api), "NAME",
     "posix, mpiio, hdf5 (where it was built with it), or dummy,\nwhich does no I/O (default mpiio)"},
    {"file", 'o', KIND_TEXT, GROUP_GENERAL, FIELD(file), "PATH",
     "the test file; a ROMIO prefix such as ufs: is passed on"},
    {"json", 0, KIND_TEXT, GROUP_GENERAL, FIELD(json), "PATH",
     "also write the result as JSON; - is standard output,\nwhich then carries nothing else"},

    {"layout", 0, KIND_LAYOUT, GROUP_SIZES, FIELD(geometry.layout), "NAME",
     "segmented: a rank's block lies together (default)\nstrided: the ranks' pieces take turns\n"
     "random: the calls are spread over the file, each place once\ntile: two-dimensional tiles of an array"},
    {"random", 'z', KIND_RANDOM, GROUP_SIZES, FIELD(geometry.layout), NULL, "the same as --layout random"},
    {"block", 'b', KIND_SIZE, GROUP_SIZES, FIELD(geometry.block), "SIZE",
     "bytes of a rank in a segment (default 1 MiB)"},
    {"transfer", 't', KIND_SIZE, GROUP_SIZES, FIELD(geometry.transfer), "SIZE",
     "bytes of a call (default 256 KiB, or a whole block or tile\nif that is smaller; tile: a whole tile)"},
    {"piece", 0, KIND_SIZE, GROUP_SIZES, FIELD(geometry.piece), "SIZE",
     "strided: contiguous bytes; a call writes transfer/piece of\nthem through an MPI file view (default: a "
     "whole "
     "transfer,\nwithout a view)"},
    {"segments", 's', KIND_COUNT, GROUP_SIZES, FIELD(geometry.segments), "N",
     "blocks a rank, or arrays with tiles (default 1)"},
    {"size", 0, KIND_SIZE, GROUP_SIZES, FIELD(size), "SIZE",
     "bytes moved by the whole job, in place of --segments;\nrounded down to whole segments, and says so"},

    {"tiles-x", 0, KIND_COUNT, GROUP_TILE, TILE(tiles_x), "N",
     "tiles along a row (default: as square as possible)"},
    {"tiles-y", 0, KIND_COUNT, GROUP_TILE, TILE(tiles_y), "N",
     "tiles along a column; tiles-x * tiles-y = ranks"},
    {"tile-x", 0, KIND_COUNT, GROUP_TILE, TILE(size_x), "N",
     "elements of a tile along a row (default 512, or as square\nas --size allows)"},
    {"tile-y", 0, KIND_COUNT, GROUP_TILE, TILE(size_y), "N", "elements of a tile along a column"},
    {"overlap-x", 0, KIND_NUMBER, GROUP_TILE, TILE(overlap_x), "N",
     "elements shared with the neighbour in a row (default 0)"},
    {"overlap-y", 0, KIND_NUMBER, GROUP_TILE, TILE(overlap_y), "N",
     "elements shared with the neighbour in a column (default 0)"},
    {"element", 0, KIND_SIZE, GROUP_TILE, TILE(element), "SIZE", "bytes of an element (default 8)"},

    {"collective", 'c', KIND_FLAG, GROUP_CALLS, FIELD(collective), NULL, "collective calls (mpiio, hdf5)"},
    {"file-per-process", 'F', KIND_FLAG, GROUP_CALLS, FIELD(file_per_process), NULL,
     "one file a rank: PATH.00000000, PATH.00000001, ..."},
    {"fsync", 'e', KIND_FLAG, GROUP_CALLS, FIELD(fsync), NULL,
     "fsync, MPI_File_sync or H5Fflush before closing a written\nfile"},
    {"hints-file", 'U', KIND_TEXT, GROUP_CALLS, FIELD(hints_file), "PATH",
     "MPI hints, one `key value` or `key = value` a line;\nIOR's IOR_HINT__MPI__key=value is understood"},

    {"write", 'w', KIND_FLAG, GROUP_RUN, FIELD(write), NULL, "only write (default: write, then read)"},
    {"read", 'r', KIND_FLAG, GROUP_RUN, FIELD(read), NULL, "only read; with -w both"},
    {"repetitions", 'i', KIND_COUNT, GROUP_RUN, FIELD(repetitions), "N",
     "repeat all, each time with a new file (default 1)"},
    {"reorder", 'C', KIND_FLAG, GROUP_RUN, FIELD(reorder), NULL,
     "read what another rank wrote: that of the next node, or of\nthe next rank on a single node"},
    {"shift", 'Q', KIND_COUNT, GROUP_RUN, FIELD(shift), "RANKS", "reorder by this many ranks"},
    {"keep", 'k', KIND_FLAG, GROUP_RUN, FIELD(keep), NULL,
     "keep the file; without it, what this run wrote is deleted"},
    {"existing", 'E', KIND_FLAG, GROUP_RUN, FIELD(existing), NULL,
     "write into the file that is there: deleted neither before\nnor after (hdf5 replaces its content)"},
    {"verify-write", 0, KIND_FLAG, GROUP_RUN, FIELD(verify_write), NULL,
     "read back and check each write, outside the times"},
    {"no-verify", 0, KIND_FLAG, GROUP_RUN, FIELD(no_verify), NULL, "do not check what is read"},
    {"seed", 0, KIND_SEED, GROUP_RUN, FIELD(seed), "N",
     "of the file's content, the random layout and the dummy's "
     "delays\n(default 0)"},
    {"memory", 0, KIND_SIZE, GROUP_RUN, FIELD(memory), "SIZE",
     "buffer of a rank: data is made and checked in batches of\nthis size, outside the times (default 64 "
     "MiB)"},

    {"dummy-bandwidth", 0, KIND_REAL, GROUP_DUMMY, DUMMY(bandwidth), "MIB_S",
     "of the whole job (default 1000)"},
    {"dummy-latency", 0, KIND_REAL, GROUP_DUMMY, DUMMY(latency), "SECONDS", "of every call (default 0)"},
    {"dummy-noise", 0, KIND_REAL, GROUP_DUMMY, DUMMY(noise), "SIGMA",
     "log-normal, one draw for a repetition and operation"},
    {"dummy-rank-noise", 0, KIND_REAL, GROUP_DUMMY, DUMMY(rank_noise), "SIGMA",
     "the same, drawn by each rank"},
    {"dummy-effect", 0, KIND_EFFECT, GROUP_DUMMY, DUMMY(effects), "K=V:FACTOR",
     "bandwidth times FACTOR where setting K has the value V in\nthe hints file, STRIPEWISE_PLAN, "
     "ROMIO_HINTS or "
     "environment;\ncan be repeated"},
    {"dummy-fail-probability", 0, KIND_REAL, GROUP_DUMMY, DUMMY(fail_probability), "P",
     "of an I/O error in a repetition and operation"},
    {"dummy-fail-if", 0, KIND_SETTING, GROUP_DUMMY, DUMMY(fail_if), "K=V",
     "I/O error where a setting has a value"},
    {"dummy-hang", 0, KIND_FLAG, GROUP_DUMMY, DUMMY(hang), NULL, "never return from the first call"},
    {"dummy-hang-if", 0, KIND_SETTING, GROUP_DUMMY, DUMMY(hang_if), "K=V",
     "hang where a setting has a value"},
    {"dummy-virtual", 0, KIND_FLAG, GROUP_DUMMY, DUMMY(virtual_time), NULL, "compute the times, do not wait"},
    {"dummy-seed-from", 0, KIND_SOURCE, GROUP_DUMMY, DUMMY(seed_from), "SOURCE",
     "mix into the seed: env:NAME (a variable's value), plan-id\n(the plan's id), plan-run (the part after "
     "its "
     "last dot)"},
};
const int option_rows = sizeof option_table / sizeof option_table[0];
_Static_assert(sizeof option_table / sizeof option_table[0] <= 64, "struct options keeps one bit an option");
