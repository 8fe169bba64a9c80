/* The cache of chunks of a variable holds whole chunks: here 64 MiB. */
#include <netcdf.h>

int cache_chunks(int file, int variable) {
    return nc_set_var_chunk_cache(file, variable, 64 << 20, 12421, 1.0f);
}
