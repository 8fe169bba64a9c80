"""Means of two variables of each beam of a file that lies behind a URL, as a user of ICESat-2 reads it.

A stand-in for the public comparison ICESAT-2HackWeek/h5cloud, whose programs need an account: ``h5py`` over ``fsspec``.
"""

import sys

import fsspec
import h5py

with fsspec.open(sys.argv[1], "rb") as remote, h5py.File(remote, "r") as file:
    for beam in sorted(file):
        for name in ("h_ph", "lat_ph"):
            print(beam, name, file[beam]["heights"][name][:].mean())
