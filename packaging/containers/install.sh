#!/bin/sh
# Installs Stripewise from /src into an image of Debian 12 or newer.
# The compiler stays, because the runtime is built for the MPI of the program when it is first needed.
set -eu
apt-get update
apt-get install -y --no-install-recommends ca-certificates python3 python3-venv gcc libc6-dev make cmake
python3 -m venv /opt/stripewise
/opt/stripewise/bin/pip install --no-cache-dir "/src[server,mpich]"
# Only these: the environment's own python and pip are nobody's business outside.
for name in stripewise mpicc mpiexec; do
    ln -s "/opt/stripewise/bin/$name" "/usr/local/bin/$name"
done
rm -rf /var/lib/apt/lists/* /src
