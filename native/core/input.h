/* SPDX-License-Identifier: BSD-3-Clause
 * Reading what others wrote, a file or a command's output: bounded, and never waiting for what may not come.
 */
#ifndef STRIPEWISE_INPUT_H
#define STRIPEWISE_INPUT_H

#include <stddef.h>
#include <sys/types.h>

/* Opens a regular file and tells its size. Returns its descriptor, or -1 with errno and the reason in error.
 */
int sw_input_open(const char *path, off_t *size, char *error, size_t error_size);

/* Reads *size bytes from start on, and closes the file. Returns memory of the caller's with a byte to spare
 * behind them, and in *size how many there were; NULL with the reason in error. */
char *sw_input_read(int fd, off_t start, size_t *size, char *error, size_t error_size);

/* Runs a command, what it prints in output. Returns its exit status, or -1 if it could not be run. The files
 * that it creates get no more permissions than mode. The program learns nothing of it: no signal is sent, and
 * none of its own waits meets the child. Nothing is allocated, and no lock is taken. */
int sw_input_command(char *const arguments[], mode_t mode, char *output, size_t size);

#endif
