/* SPDX-License-Identifier: BSD-3-Clause */
#include "crc.h"

uint32_t sw_crc32(uint32_t before, const char *data, size_t size) {
    uint32_t crc = ~before;
    for (size_t i = 0; i < size; i++) {
        crc ^= (unsigned char)data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}
