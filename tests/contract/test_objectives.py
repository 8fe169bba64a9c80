"""Every registered objective keeps the contract of objectives."""

from __future__ import annotations

from dataclasses import replace

from stripewise.launch import Outcome
from stripewise.observe.objectives import ObjectiveKind, kind_of, kinds
from stripewise.observe.report import parse_report
from stripewise.testing.objectives import ObjectiveContract
from stripewise.trial import State
from tests.unit.reports import example_log, recorded

BOTH = recorded("romio_strided_both")["default"]
BOTH["totals"] |= {"write_time": 0.25, "read_time": 0.5}
TOTALS = BOTH["totals"]
# Of one process: 4 batches of 8 samples, three seconds of waiting and one between batches.
BOTH["loaders"] = [
    {"host": "n1", "pid": 7, "workers": 1, "prefetch": 2, "workers_started": 1, "iterators": 1, "batches": 4}
    | {"samples": 32, "batch_bytes": 4096, "wait": 3.0, "busy": 1.0}
]
WRITTEN, READ = TOTALS["bytes_written"] / 2**20, TOTALS["bytes_read"] / 2**20
OTHERS = [
    one
    for file in BOTH["files"]
    for name, one in file["operations"].items()
    if name.split("_")[0] not in ("read", "write", "seek")
]
VALUES = {
    "elapsed": 2.5,
    "io_time": BOTH["job"]["io_time"],
    "write_bandwidth": TOTALS["write_bandwidth"],
    "read_bandwidth": TOTALS["read_bandwidth"],
    "bandwidth": (WRITTEN + READ) / (WRITTEN / TOTALS["write_bandwidth"] + READ / TOTALS["read_bandwidth"]),
    "write_rate": WRITTEN / 0.25,
    "read_rate": READ / 0.5,
    "metadata_rate": sum(o["count"] for o in OTHERS) * BOTH["job"]["ranks"] / sum(o["time_sum"] for o in OTHERS),
    "sample_rate": 32 / 4,
    "busy_share": 25.0,
    "darshan_bandwidth": 29.874764,
    "phase_bandwidth": 512.0,
    "energy:echo 42": 42.0,
    r"regex:rate: (\S+)": 17.0,
}


class _Own(ObjectiveContract):
    name = ""

    def make(self) -> ObjectiveKind:
        return kind_of(self.name)

    def finished(self, folder):
        (folder / "stdout").write_text("rate: 3\nrate: 17\n")
        facts = {"darshan_log": str(example_log())}
        outcome = Outcome(0, State.FINISHED, 2.5, 0.0, report=parse_report(BOTH), folder=folder, facts=facts)
        # Only the runner knows what one phase reached.
        return replace(outcome, metrics={"phase_bandwidth": VALUES["phase_bandwidth"]}), VALUES[self.name]


for _name in VALUES:
    _class = "Test" + "".join(filter(str.isalpha, _name.partition(":")[0].title()))
    globals()[_class] = type(_class, (_Own,), {"name": _name})


def test_no_registered_objective_is_left_out():
    assert {kind.name for kind in kinds()} == {name.partition(":")[0] for name in VALUES}
