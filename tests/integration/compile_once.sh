#!/bin/sh
# A launcher of compilers for CMake: compile_once.sh FOLDER COMPILER ARGUMENT...
# What includes no mpi.h is the same object whichever MPI's wrapper compiles it: FOLDER keeps it for all builds of a test run.
set -eu
folder=$1
shift
for source; do :; done
case $source in
*/native/core/*.c) ;;
*) exec "$@" ;;
esac
compiler=$1
shift
# CMake names objects relative to the folder of a build, so equal arguments make equal objects.
key=$(printf '%s\n' "$@" | sha256sum)
kept=$folder/${key%% *}.o
target=
for word; do
    if [ "$target" = -o ]; then
        target=$word
        break
    elif [ "$word" = -o ]; then
        target=-o
    fi
done
exec 9>"$kept.lock"
flock 9
if [ ! -e "$kept" ]; then
    "$compiler" "$@"
    cp "$target" "$kept.part"
    mv "$kept.part" "$kept"
else
    cp "$kept" "$target"
fi
