/* SPDX-License-Identifier: BSD-3-Clause
 * Patterns, and what HDF5 did, in one file's entry of the report. */
#ifndef STRIPEWISE_REPORT_HDF5_H
#define STRIPEWISE_REPORT_HDF5_H

#include "hdf5.h"
#include "json.h"

/* null where pattern is NULL. */
void sw_report_pattern(struct sw_json *json, const char *key, const struct sw_pattern *pattern);

/* null where hdf5 is NULL. */
void sw_report_hdf5(struct sw_json *json, const struct sw_hdf5 *hdf5);

/* The words of a text "key NEWLINE value NEWLINE ..." as an object; NULL as an empty one. */
void sw_report_words(struct sw_json *json, const char *key, const char *words);

#endif
