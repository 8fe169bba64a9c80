/* Small records go through a buffer of 4 MiB, and reach the file in large pieces. */
#include <stdio.h>

int write_records(const char *path, const double *records, size_t count) {
    FILE *file = fopen(path, "wb");
    if (!file)
        return -1;
    setvbuf(file, NULL, _IOFBF, 4 << 20); /* before the first call on the file */
    size_t done = 0;
    while (done < count && fwrite(&records[done], sizeof *records, 1, file) == 1)
        done++;
    return fclose(file) == 0 && done == count ? 0 : -1;
}
