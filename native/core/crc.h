/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STRIPEWISE_CRC_H
#define STRIPEWISE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32 (IEEE 802.3) of what follows on data with the CRC-32 before (0 at the beginning); bit by bit: lines
 * are short. */
uint32_t sw_crc32(uint32_t before, const char *data, size_t size);

#endif
