"""Least, mean and largest temperature of each station, by ``dask``: ``python stations.py FOLDER``.

A stand-in for the public solutions of the One Billion Row Challenge, which name the place of their table.
"""

import sys

import dask.dataframe as dd

table = dd.read_parquet(sys.argv[1])
print(table.groupby("station")["measure"].agg(["min", "mean", "max"]).compute().sort_index())
