/* File types of a record as MPI datatypes. */
#include "replay.h"

#include <limits.h>
#include <stdlib.h>

struct replay_type {
    int64_t lower, extent, length; /* length: of the only block, if it has no dimensions */
    int count;
    MPI_Datatype *blocks;
    MPI_Aint *places;
};

MPI_Datatype replay_bytes(int64_t bytes, int *count) {
    const int chunk = 1 << 30;
    if (bytes < 0)
        replay_die("the record is damaged: %lld bytes", (long long)bytes);
    if (bytes <= INT_MAX) {
        *count = (int)bytes;
        return MPI_BYTE;
    }
    if (bytes / chunk > INT_MAX)
        replay_die("a call moves %lld bytes, more than can be replayed", (long long)bytes);
    MPI_Datatype piece, pieces, whole;
    MPI_Type_contiguous(chunk, MPI_BYTE, &piece);
    MPI_Type_contiguous((int)(bytes / chunk), piece, &pieces);
    int lengths[2] = {1, (int)(bytes % chunk)};
    MPI_Aint places[2] = {0, (MPI_Aint)(bytes - bytes % chunk)};
    MPI_Datatype parts[2] = {pieces, MPI_BYTE};
    MPI_Type_create_struct(2, lengths, places, parts, &whole);
    MPI_Type_commit(&whole);
    MPI_Type_free(&pieces);
    MPI_Type_free(&piece);
    *count = 1;
    return whole;
}

void replay_bytes_free(MPI_Datatype *type) {
    if (*type != MPI_BYTE)
        MPI_Type_free(type);
}

struct replay_type *replay_type_begin(int64_t lower, int64_t extent) {
    struct replay_type *type = replay_grow(NULL, 0, sizeof *type);
    *type = (struct replay_type){.lower = lower, .extent = extent};
    return type;
}

void replay_type_block(struct replay_type *type, int64_t offset, int64_t length) {
    int count;
    MPI_Datatype bytes = replay_bytes(length, &count);
    type->blocks = replay_grow(type->blocks, type->count, sizeof *type->blocks);
    type->places = replay_grow(type->places, type->count, sizeof *type->places);
    MPI_Type_contiguous(count, bytes, &type->blocks[type->count]);
    type->places[type->count++] = (MPI_Aint)offset;
    type->length = length;
    replay_bytes_free(&bytes);
}

void replay_type_dim(struct replay_type *type, int64_t count, int64_t stride) {
    if (type->count == 0 || count < 0 || count > INT_MAX)
        replay_die("the record is damaged: a dimension of %lld blocks", (long long)count);
    MPI_Datatype *block = &type->blocks[type->count - 1], inner = *block;
    MPI_Type_create_hvector((int)count, 1, (MPI_Aint)stride, inner, block);
    MPI_Type_free(&inner);
    type->length = -1;
}

/* What is contiguous stays so for the MPI library, which treats it in another way. */
MPI_Datatype replay_type_end(struct replay_type *type) {
    MPI_Datatype whole;
    if (type->count == 1 && type->length == type->extent && type->lower == 0 && type->places[0] == 0) {
        whole = type->blocks[0];
    } else {
        MPI_Datatype blocks;
        int *ones = replay_grow(NULL, type->count, sizeof *ones);
        for (int i = 0; i < type->count; i++)
            ones[i] = 1;
        MPI_Type_create_struct(type->count, ones, type->places, type->blocks, &blocks);
        MPI_Type_create_resized(blocks, (MPI_Aint)type->lower, (MPI_Aint)type->extent, &whole);
        MPI_Type_free(&blocks);
        for (int i = 0; i < type->count; i++)
            MPI_Type_free(&type->blocks[i]);
        free(ones);
    }
    MPI_Type_commit(&whole);
    free(type->blocks);
    free(type->places);
    free(type);
    return whole;
}
