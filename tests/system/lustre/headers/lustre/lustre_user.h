/* Lustre's interface to programs, as much of it as ROMIO's driver uses; written after Lustre's manual pages
 * and the facts of its interface (numbers, and the order and width of fields), which are the same in all
 * releases. */
#ifndef LUSTRE_TEST_LUSTRE_USER_H
#define LUSTRE_TEST_LUSTRE_USER_H

#include <fcntl.h>
#include <stdint.h>
#include <sys/ioctl.h>

#define LL_SUPER_MAGIC 0x0BD00BD0
#define LOV_USER_MAGIC 0x0BD10BD0
#define LOV_PATTERN_RAID0 1
#define LL_IOC_LOV_SETSTRIPE _IOW('f', 154, long)
#define LL_IOC_LOV_GETSTRIPE _IOW('f', 155, long)
/* Flags that mean nothing together elsewhere: the file is created without objects, which a layout then gives
 * it. */
#define O_LOV_DELAY_CREATE (O_NOCTTY | 020000)

struct lov_user_ost_data {
    uint64_t object[2];
    uint32_t generation;
    uint32_t index;
} __attribute__((packed));

struct lov_user_md {
    uint32_t lmm_magic;
    uint32_t lmm_pattern;
    uint64_t lmm_object[2];
    uint32_t lmm_stripe_size;
    uint16_t lmm_stripe_count;  /* 0xffff: as many as there are */
    uint16_t lmm_stripe_offset; /* 0xffff: any; what is read here is the layout's generation */
    struct lov_user_ost_data lmm_objects[];
} __attribute__((packed));

#endif
