"""Observed profiles: workloads from activities and reports, with what cannot be told left open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stripewise.errors import UserError
from stripewise.observe.activity import Activity, ActivityJob, Calls, FileActivity, FileLayout, Level, Modes
from stripewise.observe.sources import observe
from stripewise.observe.workload import describe_workload
from tests.unit.reports import recorded

MIB = 1 << 20


def activity(**file: Any) -> Activity:
    written = Calls(count=64, bytes=64 * MIB, consecutive=60, common=[(MIB, 60), (512, 4)], extent=64 * MIB)
    known: dict[str, Any] = {
        "path": "/lustre/out.dat",
        "file_system": "lustre",
        "ranks": 4,
        "mpiio": Level(write=written),
        "posix": Level(write=written),
        "modes": Modes(collective_writes=64),
        "layout": FileLayout(file_system="lustre", stripe_count=4, stripe_size=MIB),
    }
    return Activity(source="log", kind="darshan", job=ActivityJob(ranks=4), files=[FileActivity(**{**known, **file})])


def test_an_activity_becomes_a_workload() -> None:
    seen = describe_workload(activity())
    assert seen.workload.operation == "write"
    assert seen.workload.transfer_size == MIB
    assert seen.workload.file_size == 64 * MIB
    assert seen.workload.collective is True
    assert seen.workload.api == "mpiio"
    assert seen.workload.file_system == "lustre"
    assert seen.workload.layout == "segmented"
    assert seen.workload.nodes is None
    assert seen.processes == 4
    assert seen.layout == {"stripe_count": 4, "stripe_size": MIB}
    assert any("how many nodes" in note for note in seen.notes)


def test_nodes_are_taken_where_they_are_known() -> None:
    made = activity()
    seen = describe_workload(made.model_copy(update={"job": ActivityJob(ranks=4, nodes=2)}))
    assert (seen.workload.nodes, seen.workload.processes_per_node) == (2, 2)


@pytest.mark.parametrize(
    "modes, expected",
    [
        (Modes(collective_writes=10), True),
        (Modes(independent_writes=10), False),
        (Modes(collective_writes=99, independent_writes=1), True),
        (Modes(collective_writes=5, independent_writes=5), None),
        (Modes(), None),
    ],
)
def test_collective_or_not_is_what_nearly_all_calls_are(modes: Modes, expected: bool | None) -> None:
    assert describe_workload(activity(modes=modes)).workload.collective is expected


def test_a_program_without_mpi_io_is_independent_and_posix() -> None:
    seen = describe_workload(activity(mpiio=None, modes=None))
    assert seen.workload.collective is False
    assert seen.workload.api == "posix"


def test_reads_and_both() -> None:
    read = Calls(count=8, bytes=8 * MIB, consecutive=0, largest=MIB, extent=8 * MIB)
    seen = describe_workload(activity(mpiio=Level(read=read), posix=Level(read=read), modes=Modes(independent_reads=8)))
    assert seen.workload.operation == "read"
    assert seen.workload.layout is None
    both = describe_workload(activity(mpiio=Level(read=read, write=read)))
    assert both.workload.operation == "both"


def test_one_file_a_process() -> None:
    one = activity(ranks=1).files[0]
    many = activity().model_copy(update={"files": [one.model_copy(update={"path": f"/l/{n}"}) for n in range(4)]})
    assert describe_workload(many).workload.file_per_process is True
    assert describe_workload(activity()).workload.file_per_process is False


def test_a_log_without_io_is_refused() -> None:
    with pytest.raises(UserError, match="shows no I/O"):
        describe_workload(activity(mpiio=None, posix=None))


def test_a_report_of_the_runtime_is_read(tmp_path: Path) -> None:
    data = recorded("romio_strided_write")["default"]
    path = tmp_path / "report.json"
    path.write_text(json.dumps(data), "utf-8")
    seen = observe(path)
    assert seen.processes == data["job"]["ranks"]
    assert seen.workload.operation == "write"
    assert seen.workload.nodes == data["job"]["nodes"]


@pytest.mark.parametrize(
    ("size", "selections", "independent", "layout", "collective"),
    [
        ([1024], {"strided": 4}, 0, "strided", True),
        ([1024], {"block": 4}, 0, "segmented", True),
        ([1024], {"block": 2, "strided": 2}, 0, None, True),
        ([32, 32], {"block": 4}, 0, None, True),
        ([1024], {"strided": 4}, 2, "strided", None),
    ],
)
def test_datasets_tell_what_a_program_of_hdf5_does(
    size: list[int],
    selections: dict[str, int],
    independent: int,
    layout: str | None,
    collective: bool | None,
    tmp_path: Path,
) -> None:
    data = recorded("romio_patterns")["random"]
    calls = {"calls": 4, "bytes": 4096, "collective": 4, "independent": independent, "selections": selections}
    dataset = {"name": "/values", "ranks": 4, "element_size": 4, "size": size, "write": calls}
    data["files"][0]["hdf5"] = {"driver": "mpio", "datasets": [dataset]}
    (tmp_path / "report.json").write_text(json.dumps(data), "utf-8")
    found = observe(tmp_path / "report.json").workload
    assert (found.api, found.layout, found.collective, found.piece_size) == ("hdf5", layout, collective, None)


@pytest.mark.parametrize(
    "content, message",
    [
        ("{", "JSON of a kind that is not known"),
        ('{"format": "other"}', "JSON of a kind that is not known"),
        ("junk", "text of a kind that is not known"),
        ("", "an empty file"),
        ("\0junk", "log"),
    ],
)
def test_what_is_neither_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "thing"
    path.write_text(content, "utf-8")
    with pytest.raises(UserError, match=message):
        observe(path)
    with pytest.raises(UserError, match="does not exist"):
        observe(tmp_path / "missing")


def test_an_example_log_of_darshan_is_read() -> None:
    import darshan

    folder = Path(darshan.__file__).parent / "examples" / "example_logs"
    seen = observe(folder / "ior_hdf5_example.darshan")
    assert seen.processes is not None
    assert seen.workload.file_size
    assert seen.workload.api == "hdf5"
