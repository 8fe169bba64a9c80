/* Rank 0 reads the command line and tells the others, so that they agree and errors are said once. */
#include "kernel.h"

#include <stdlib.h>
#include <string.h>

enum decision { DECISION_RUN = -1 }; /* otherwise: the exit code to end with */

static int say(const char *reason, int code) {
    fprintf(stderr, KERNEL_NAME ": error: %s\n", reason);
    return code;
}

static int decide(int argc, char **argv, const struct job *job, struct options *options,
                  struct json_file *json) {
    char reason[REASON_MAX] = "";
    if (options_parse(argc, argv, options, reason) != 0)
        return say(reason, EXIT_WRONG_USE);
    if (options->help) {
        help_print();
        return EXIT_DONE;
    }
    if (options->version) {
        puts(KERNEL_NAME " " STRIPEWISE_VERSION);
        return EXIT_DONE;
    }
    if (options_resolve(job, options, reason) != 0 || json_open(options->json, json, reason) != 0)
        return say(reason, EXIT_WRONG_USE);
    return DECISION_RUN;
}

static bool all_right(const struct measurement *list, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (list[i].verified == 0)
            return false;
    return true;
}

static int finish(const struct job *job, const struct options *options, char **argv, struct json_file *json,
                  const struct measurement *list) {
    char reason[REASON_MAX] = "";
    const int64_t count = benchmark_operations(options);
    if (json->stream != stdout)
        report_summary(list, count);
    if (json_finish(json, job, options, argv, list, count, reason) != 0)
        return say(reason, EXIT_FAILED);
    if (fflush(stdout) != 0 || ferror(stdout))
        return say("cannot write to standard output", EXIT_FAILED);
    return all_right(list, count) ? EXIT_DONE : EXIT_FAILED;
}

static int run(int argc, char **argv, struct options *options) {
    struct job job;
    struct json_file json = {.stream = NULL};
    struct measurement *measurements = NULL;
    int code = DECISION_RUN;
    job_init(&job);
    if (job.rank == 0)
        code = decide(argc, argv, &job, options, &json);
    MPI_Bcast(&code, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (code == DECISION_RUN) {
        MPI_Bcast(options, (int)sizeof *options, MPI_BYTE, 0, MPI_COMM_WORLD);
        job.virtual_time = options->dummy.virtual_time;
        measurements = calloc((size_t)benchmark_operations(options), sizeof *measurements);
        if (measurements == NULL) {
            say("no memory for the results of so many --repetitions", EXIT_FAILED);
            end_job(EXIT_FAILED);
            return EXIT_FAILED;
        }
        const bool table = job.rank == 0 && json.stream != stdout;
        if (table)
            report_head(&job, options);
        code = EXIT_FAILED;
        if (benchmark_run(&job, options, backend_find(options->api), measurements,
                          table ? report_line : NULL) == 0)
            code = job.rank == 0 ? finish(&job, options, argv, &json, measurements) : EXIT_DONE;
        MPI_Bcast(&code, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    json_abandon(&json);
    free(measurements);
    return code;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    struct options *options = calloc(1, sizeof *options);
    if (options == NULL)
        return MPI_Abort(MPI_COMM_WORLD, EXIT_FAILED);
    const int code = run(argc, argv, options);
    /* HDF5 ends with MPI, and (seen in 1.10.8) crashes there if a file could not be closed. */
    if (code == EXIT_FAILED && strcmp(options->api, "hdf5") == 0)
        end_job(code);
    free(options);
    MPI_Finalize();
    return code;
}
