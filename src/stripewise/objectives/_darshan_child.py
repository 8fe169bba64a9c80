"""Read one Darshan log and print its figures; run as a process of its own, for a broken log can crash the library."""

from __future__ import annotations

import json
import sys

# MPI-IO counts the bytes once; POSIX and STDIO below it would count them again, larger by sieving and aggregation.
MODULES = (("MPI-IO",), ("POSIX", "STDIO"))


def summarise(path: str) -> dict[str, float]:
    """Give the bytes moved, and the seconds of Darshan's estimate of performance "by slowest"."""
    import darshan  # noqa: PLC0415  slow to load
    from darshan.backend.cffi_backend import accumulate_records  # noqa: PLC0415

    report = darshan.DarshanReport(path, read_all=False)
    ranks = int(report.metadata["job"]["nprocs"])
    for modules in MODULES:
        moved, seconds = 0.0, 0.0
        for module in modules:
            if module not in report.modules:
                continue
            report.mod_read_all_records(module)
            records = report.records[module].to_df()
            if not len(records["counters"]):
                continue
            derived = accumulate_records(records, module, ranks).derived_metrics
            if derived.agg_perf_by_slowest > 0:
                moved += float(derived.total_bytes)
                seconds += float(derived.agg_time_by_slowest)
        if moved > 0:
            return {"bytes": moved, "seconds": seconds}
    return {"bytes": 0.0, "seconds": 0.0}


if __name__ == "__main__":
    print(json.dumps(summarise(sys.argv[1])))
