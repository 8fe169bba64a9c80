#!/usr/bin/env bash
# Build a parallel HDF5 1.14.6, which has connectors, for the tests: Debian 12 has 1.10. Its source is in the crate
# hdf5-metno-src, so this needs cargo and cmake; four minutes of one core.
#
#     HDF5_ROOT=$(tools/hdf5.sh .venv/bin/mpicc FOLDER) .venv/bin/python -m pytest tests/integration/test_runtime_connector.py
set -euo pipefail
mpicc=$(realpath -s "$1")
folder=$(realpath -m "$2")
if [ ! -e "$folder/lib/libhdf5.so" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    mkdir -p "$work/crate/src" && touch "$work/crate/src/lib.rs"
    cat >"$work/crate/Cargo.toml" <<'TOML'
[package]
name = "source"
version = "0.1.0"
[dependencies]
hdf5-metno-src = "=0.9.5"
TOML
    cargo vendor --quiet --manifest-path "$work/crate/Cargo.toml" "$work/vendor" >/dev/null
    CC=$mpicc cmake -S "$work/vendor/hdf5-metno-src/ext/hdf5" -B "$work/build" -DCMAKE_INSTALL_PREFIX="$folder" \
        -DCMAKE_BUILD_TYPE=Release -DHDF5_ENABLE_PARALLEL=ON -DMPI_C_COMPILER="$mpicc" -DBUILD_SHARED_LIBS=ON \
        -DBUILD_STATIC_LIBS=OFF -DBUILD_TESTING=OFF -DHDF5_BUILD_TOOLS=OFF -DHDF5_BUILD_UTILS=OFF -DHDF5_BUILD_HL_LIB=OFF \
        -DHDF5_BUILD_EXAMPLES=OFF -DHDF5_BUILD_CPP_LIB=OFF -DHDF5_BUILD_FORTRAN=OFF -DHDF5_ENABLE_Z_LIB_SUPPORT=ON \
        -DHDF5_ENABLE_SZIP_SUPPORT=OFF >&2
    cmake --build "$work/build" -j2 --target install >&2
fi
echo "$folder"
