# Pack a folder in two steps: pipeline.sh FOLDER BYTES_OF_A_WRITE BYTES_OF_A_PACKED_WRITE
set -eu -o pipefail
tar --sort=name -C "$(dirname "$1")" -cf - "$(basename "$1")" | dd of=stage.tar obs="$2" status=none
gzip -1 -n < stage.tar | dd of=stage.tar.gz obs="$3" status=none
