#!/bin/bash -e
# Applies a plan of one hint to an MPI program, and reads in the runtime's report whether MPI-IO took it.
. ./setup.sh
set -x
built() { sed -n "s/^ *\"$1\": \"\(.*\)\",*$/\1/p" native.json; }
rm -f seen.json
STRIPEWISE_PLAN=$PWD/one_hint.plan STRIPEWISE_REPORT=$PWD/seen.json \
    ${TEST_RUN:-mpiexec -n 2} env LD_PRELOAD="$(built library)" "$(built kernel)" \
    --write --collective --layout strided --piece 1k --size 1m --file "$PWD/out.dat"
grep -q '"key": *"romio_cb_write"' seen.json
grep -q '"outcome": *"applied"' seen.json
# The command itself, without an MPI: a campaign on a simulated cluster.
stripewise profile quick --runner sim:kay --out quick
test -s quick.csv
set +x
echo "[PASSED]"
