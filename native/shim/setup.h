/* SPDX-License-Identifier: BSD-3-Clause
 * What the environment and the plan ask of the runtime. */
#ifndef STRIPEWISE_SETUP_H
#define STRIPEWISE_SETUP_H

#include "gather.h"
#include "stripewise_beside.h"

struct sw_setup {
    enum sw_run_mode asked;
    const char *mode, *plan, *report, *model, *journal, *orders, *workload,
        *record;               /* of the environment; NULL where unset or empty */
    bool record_mpiio;         /* HDF5 is recorded by its MPI-IO calls */
    bool settle;               /* in the mode orders files are synchronised before they are closed */
    bool each_report;          /* of several programs with one environment */
    sw_moved_from *moved_from; /* of the observer, where source lines are asked for; else NULL */
    char plan_error[256];      /* "" if the plan was read, or none was given */
};

extern struct sw_setup sw_setup;

/* False if nothing is asked: the library is then inert. */
bool sw_setup_read(void);

/* Complains of a mode that is unknown or cannot be followed. */
void sw_setup_check(void);

/* Rank 0 of the route reads the plan and chooses the mode, all others receive them, so that all do the same
 * at a collective open. Collective. */
void sw_setup_share_plan(const struct sw_route *route);

/* Every process for itself, before a route exists. */
void sw_setup_read_plan(void);

#endif
