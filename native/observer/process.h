/* SPDX-License-Identifier: BSD-3-Clause
 * How counting begins and ends in a process. */
#ifndef STRIPEWISE_PROCESS_H
#define STRIPEWISE_PROCESS_H

/* Writes down when the process ended. */
__attribute__((visibility("hidden"))) void finish(void);

/* Counts nothing from now on, and acts on nothing. */
__attribute__((visibility("hidden"))) void stop(void);

#endif
