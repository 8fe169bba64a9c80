/* SPDX-License-Identifier: BSD-3-Clause
 * Larger buffers for streams. A program that gives a stream a buffer of its own later gets it. The memory is
 * bounded, and held until the stream is closed. */
#ifndef STRIPEWISE_STREAMS_H
#define STRIPEWISE_STREAMS_H

#include <stdio.h>

#pragma GCC visibility push(hidden)

/* The flags of open that a mode of fopen stands for, and the mode that also asks for O_EXCL; exclusive is ""
 * if there is no room for that. */
int flags_of(const char *mode, char exclusive[16]);

/* A stream that was just opened gets a buffer if one is asked for. Leaves errno alone. */
void buffer_stream(FILE *stream, const char *mode);

/* The number of a stream's buffer, or -1: taken before the stream is closed, and freed after. */
int take_buffer(FILE *stream);
void free_buffer(int which);

#pragma GCC visibility pop

#endif
