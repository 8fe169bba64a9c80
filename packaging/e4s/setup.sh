#!/bin/bash
# In the E4S testsuite this folder is validation_tests/stripewise, and its setup.sh loads packages of Spack.
# Elsewhere `stripewise` and an MPI must be found on the path.
if [ -f ../../setup.sh ] && [ -d ../../validation_tests ]; then
    . ../../setup.sh
    spackLoadUnique stripewise
fi
export STRIPEWISE_HOME=$PWD/home XDG_DATA_HOME=$PWD/home
