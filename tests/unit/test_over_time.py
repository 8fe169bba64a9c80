"""Files that cost most over many jobs, and trends of programs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stripewise.diagnose.over_time import OverTime
from stripewise.observe.activity import Activity

DAY = 86_400.0


def job(day, rate, *, program="solver", ranks=8, size=1 << 30, path="/scratch/out-0001.h5"):
    """A job that writes so many bytes at so many MiB/s."""
    seconds = size / (rate * 2**20)
    written = {"count": 100, "bytes": size, "seconds": seconds * ranks}
    posix = {"write": written, "opens": ranks}
    return Activity.model_validate(
        {
            "kind": "darshan",
            "source": "log",
            "job": {"executable": f"/bin/{program} -x", "ranks": ranks, "started": 1e9 + day * DAY, "elapsed": 10.0},
            "io_seconds": seconds,
            "files": [{"path": path, "ranks": ranks, "posix": posix}],
            "totals": {"posix": posix},
        }
    )


def judged(jobs):
    found = OverTime()
    for one in jobs:
        found.add(one)
    return found


def noisy(days, rate, seed=0, **more):
    rng = np.random.default_rng(seed)
    return [job(day, rate(day) * math.exp(0.1 * rng.standard_normal()), **more) for day in days]


@pytest.mark.parametrize(
    ("rate", "verdict", "factor"),
    [
        (lambda day: 100 * 0.5 ** (day / 30), "worse", 0.5),
        (lambda day: 100 * 2 ** (day / 30), "better", 2.0),
        (lambda day: 100.0, "stable", 1.0),
    ],
)
def test_a_program_is_better_stable_or_worse(rate, verdict, factor):
    (trend,) = judged(noisy(range(31), rate)).trends()
    assert trend.verdict == verdict and trend.factor == pytest.approx(factor, rel=0.2)
    assert trend.jobs == 31 and trend.days == "2001-09-09 to 2001-10-09"


def test_a_job_that_moves_more_is_not_slower():
    # Small jobs are slow, and later ones are small: among like jobs nothing changes.
    jobs = noisy(range(15), lambda day: 400.0, 1) + noisy(range(15, 30), lambda day: 40.0, 2, size=1 << 22)
    (trend,) = judged(jobs).trends()
    assert trend.verdict == "stable"


def test_few_jobs_tell_nothing_and_chance_is_rarely_called_a_trend():
    assert [trend.verdict for trend in judged([job(day, 100 / (day + 1)) for day in range(5)]).trends()] == [
        "too few jobs"
    ]
    assert [trend.verdict for trend in judged([job(day, 100 / (day + 1)) for day in range(6)]).trends()] == ["worse"]
    verdicts = [judged(noisy(range(20), lambda day: 100.0, seed)).trends()[0].verdict for seed in range(200)]
    assert verdicts.count("stable") >= 195


def test_files_are_added_up_by_family_with_the_costliest_first():
    found = judged(
        [
            job(0, 10.0, path="/scratch/a/out-0001.h5"),
            job(1, 10.0, path="/scratch/a/out-0002.h5"),
            job(2, 1000.0, path="/home/input2.nc"),
        ]
    )
    first, second = found.files()
    assert (first.name, first.jobs, first.files, first.bytes_written) == ("/scratch/a/out-*.h5", 2, 2, 2 << 30)
    assert first.seconds == pytest.approx(2 * 102.4 * 8)
    assert second.name == "/home/input2.nc"
    assert found.as_json()["files"][0]["seconds"] == first.seconds
