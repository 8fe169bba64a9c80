"""Take what lies in memory of all files below folders, as after a new login: ``python cold.py FOLDER ...``."""

import os
import sys

for top in sys.argv[1:]:
    for folder, _, names in os.walk(top):
        for name in names:
            number = os.open(f"{folder}/{name}", os.O_RDONLY)
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(number)
