/* The file is opened once for all steps; nc_sync makes a step visible without a reopen. */
#include <netcdf.h>

int write_steps(int file, int variable, const double *steps, size_t count, size_t width) {
    int failed = NC_NOERR;
    for (size_t step = 0; step < count && !failed; step++) {
        size_t start[] = {step, 0}, size[] = {1, width};
        failed = nc_put_vara_double(file, variable, start, size, steps + step * width);
    }
    return failed ? failed : nc_sync(file);
}
