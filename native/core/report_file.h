/* SPDX-License-Identifier: BSD-3-Clause
 * A file's entry in the report. */
#ifndef STRIPEWISE_REPORT_FILE_H
#define STRIPEWISE_REPORT_FILE_H

#include "files.h"
#include "json.h"

void sw_report_file(struct sw_json *json, const struct sw_file *file);

#endif
