/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "recording_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "setup.h"

#define TAG 1
#define MESSAGE (1u << 20) /* bytes at a time: there is always room to receive so many */

/* What helps against gaps of HDF5. */
#define SW_INSTEAD ": record the program with --level mpi-io"

static const char *const reasons[SW_GAPS] = {
    [SW_GAP_MEMORY] = "calls that do not repeat took more than the memory for a record",
    [SW_GAP_TYPE] = "a datatype of a view or of data in memory is too irregular",
    [SW_GAP_COMM] = "a file was opened by ranks outside of MPI_COMM_WORLD",
    [SW_GAP_FAILED] = "calls failed",
    [SW_GAP_INTERRUPTED] = "the program ended before it finalised MPI",
    [SW_GAP_SENT] = "rank 0 had no memory for the records of the others",
    [SW_GAP_H5_TYPE] = "HDF5 moved data of variable length, or converted others than numbers" SW_INSTEAD,
    [SW_GAP_H5_SELECTION] = "HDF5 moved single points or an irregular selection" SW_INSTEAD,
    [SW_GAP_H5_STORAGE] = "HDF5 used a virtual dataset, or one that is stored in other files" SW_INSTEAD,
    [SW_GAP_H5_NAME] = "HDF5 opened a dataset by another name than it was created by" SW_INSTEAD,
    [SW_GAP_H5_OPEN] =
        "HDF5 moved data of a dataset without a name, or that was opened by a reference" SW_INSTEAD,
};

int64_t sw_record_amode(int amode) {
    const int bits[] = {MPI_MODE_CREATE, MPI_MODE_RDONLY,          MPI_MODE_WRONLY,
                        MPI_MODE_RDWR,   MPI_MODE_DELETE_ON_CLOSE, MPI_MODE_UNIQUE_OPEN,
                        MPI_MODE_EXCL,   MPI_MODE_APPEND,          MPI_MODE_SEQUENTIAL};
    int64_t found = 0;
    for (int i = 0; i < (int)(sizeof bits / sizeof *bits); i++)
        found |= amode & bits[i] ? 1 << i : 0;
    return found;
}

/* ---- from rank to rank: numbers travel as they lie in memory ---- */

struct head {
    uint32_t named, calls;
    uint64_t texts, inputs;
    uint32_t gaps, zero;
};

static void send(const struct sw_route *route, const void *data, size_t size) {
    for (size_t done = 0; done < size; done += MESSAGE) {
        size_t left = size - done;
        sw_pmpi.Send((const char *)data + done, (int)(left < MESSAGE ? left : MESSAGE), MPI_BYTE, 0, TAG,
                     route->all);
    }
}

static void send_all(const struct sw_route *route, const struct sw_record *own) {
    struct head head = {.named = own->named_count,
                        .calls = own->calls.count,
                        .texts = own->text_size,
                        .inputs = own->input_size,
                        .gaps = own->gaps};
    send(route, &head, sizeof head);
    send(route, own->named, own->named_count * sizeof *own->named);
    send(route, own->calls.items, own->calls.count * sizeof *own->calls.items);
    send(route, own->texts, own->text_size);
    send(route, own->inputs, own->input_size);
}

/* to: NULL where memory is out; what was sent is then still received. */
static void *receive(const struct sw_route *route, int from, size_t size, char *spare) {
    char *to = malloc(size + 1);
    for (size_t done = 0; done < size; done += MESSAGE) {
        size_t left = size - done;
        sw_pmpi.Recv(to ? to + done : spare, (int)(left < MESSAGE ? left : MESSAGE), MPI_BYTE, from, TAG,
                     route->all, MPI_STATUS_IGNORE);
    }
    return to;
}

/* ---- on rank 0 ---- */

struct output {
    FILE *groups, *inputs;
    char *group_text, *input_text;
    size_t group_size, input_size;
    uint32_t unused;
    struct sw_group group;
    unsigned gaps;
};

static void take_part(struct output *output, int64_t rank, const struct sw_part *part, const char *inputs,
                      size_t input_size) {
    if (!output->groups || !output->inputs)
        return;
    bool next = rank == output->group.first + output->group.count;
    if (part->call_count && !(next && sw_group_take(&output->group, part))) {
        sw_group_end(&output->group, output->groups, &output->unused);
        if (!sw_group_begin(&output->group, rank, part))
            output->gaps |= 1u << SW_GAP_SENT;
    }
    for (size_t at = 0; at < input_size;) {
        int64_t size;
        char head[40];
        memcpy(&size, inputs + at, sizeof size);
        snprintf(head, sizeof head, "input %" PRId64 " ", size);
        sw_record_print_text(output->inputs, &output->unused, head, inputs + at + sizeof size);
        at += sizeof size + strlen(inputs + at + sizeof size) + 1;
    }
}

static void take_rank(struct output *output, const struct sw_route *route, int rank, char *spare) {
    struct head head = {.gaps = 0};
    sw_pmpi.Recv(&head, (int)sizeof head, MPI_BYTE, rank, TAG, route->all, MPI_STATUS_IGNORE);
    output->gaps |= head.gaps;
    struct sw_item *named = receive(route, rank, head.named * sizeof *named, spare),
                   *calls = receive(route, rank, head.calls * sizeof *calls, spare);
    char *texts = receive(route, rank, head.texts, spare), *inputs = receive(route, rank, head.inputs, spare);
    struct sw_part part = {named, calls, head.named, head.calls, texts, head.texts};
    if (named && calls && texts && inputs)
        take_part(output, rank, &part, inputs, head.inputs);
    else
        output->gaps |= 1u << SW_GAP_SENT;
    free(named);
    free(calls);
    free(texts);
    free(inputs);
}

static bool print(const struct output *output, uint64_t ranks, const struct sw_job *job, FILE *file) {
    uint32_t crc = 0;
    sw_record_print(file, &crc, "%s", SW_RECORD_HEADER);
    sw_record_print(file, &crc, "job %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64, ranks,
                    (uint64_t)job->nodes, job->elapsed, job->io_time);
    for (int gap = 0; gap < SW_GAPS; gap++)
        if (output->gaps & 1u << gap)
            sw_record_print(file, &crc, "incomplete %s", reasons[gap]);
    sw_record_write(file, &crc, output->group_text, output->group_size);
    sw_record_write(file, &crc, output->input_text, output->input_size);
    fprintf(file, "checksum %08x\n", (unsigned)crc);
    return !ferror(file);
}

/* A whole record or none appears at the path. */
static void write_file(const struct output *output, uint64_t ranks, const struct sw_job *job) {
    char part[SW_MAX_PATH + 32];
    snprintf(part, sizeof part, "%.*s.%ld", SW_MAX_PATH, sw_setup.record, (long)getpid());
    FILE *file = fopen(part, "wxe");
    bool good = file && print(output, ranks, job, file);
    if (file)
        good &= fclose(file) == 0;
    if (!good || rename(part, sw_setup.record) != 0) {
        sw_complain("record %.300s cannot be written: %s", sw_setup.record, strerror(errno));
        if (file)
            unlink(part);
    }
}

void sw_record_gather(const struct sw_route *route, uint64_t ranks, const struct sw_job *job,
                      const struct sw_record *own) {
    static char spare[MESSAGE];
    if (route && route->rank != 0) {
        send_all(route, own);
        return;
    }
    struct output output = {.gaps = own->gaps};
    output.groups = open_memstream(&output.group_text, &output.group_size);
    output.inputs = open_memstream(&output.input_text, &output.input_size);
    bool room = output.groups && output.inputs;
    struct sw_part part = {own->named,       own->calls.items, own->named_count,
                           own->calls.count, own->texts,       own->text_size};
    take_part(&output, 0, &part, own->inputs, own->input_size);
    for (int rank = 1; route && rank < route->size; rank++)
        take_rank(&output, route, rank, spare);
    sw_group_end(&output.group, output.groups, &output.unused);
    if (room) {
        fclose(output.groups);
        fclose(output.inputs);
        write_file(&output, ranks, job);
    } else {
        sw_complain("no memory for the record");
    }
    free(output.group_text);
    free(output.input_text);
}
