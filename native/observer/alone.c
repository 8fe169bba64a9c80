/* SPDX-License-Identifier: BSD-3-Clause
 * The observer alone: it changes nothing. */
#include <stddef.h>

#include "acts.h"

const struct acts *read_acts(void) {
    return NULL;
}
