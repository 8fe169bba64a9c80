#!/bin/bash -e
# Builds the runtime and the benchmark program for the MPI of the testsuite.
. ./setup.sh
set -x
stripewise native build --mpicc "${TEST_CC_MPI:-mpicc}" --json > native.json
