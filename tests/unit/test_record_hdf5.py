"""Records of HDF5: what is read of them, and what those make of it who take records."""

import zlib
from pathlib import Path

import pytest

from stripewise.engine.fidelity import Done, Faithfulness
from stripewise.errors import UserError
from stripewise.lab.batch import Access
from stripewise.lab.recorded import parts_of
from stripewise.observe.from_record import activity_of
from stripewise.observe.from_report import activity_of as report_activity
from stripewise.observe.record_hdf5 import Pieces, Shape, pieces_of
from stripewise.observe.record_reading import parse_record, read_record
from stripewise.observe.report import read_report_file
from stripewise.observe.workload import workload_of

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
PHASES = FIXTURES / "records" / "hdf5.record"
REPLAYED = FIXTURES / "reports" / "hdf5_replayed.json"
"""A report with the calls of that record."""
"""Two ranks write 4096 bytes each to three datasets in each of five files, collectively."""
HEAD = "stripewise-record 1\njob 2 1 10 5\nranks 0 2\nfile - /a\ncomm 0 2 1\n"


def sealed(body: str) -> str:
    return f"{body}checksum {zlib.crc32(body.encode()):08x}\n"


def test_datasets_and_transfers_are_read() -> None:
    record = read_record(PHASES)
    assert record.uses_hdf5 and record.gaps == ()
    (group,) = record.groups
    assert group.shapes == (Shape(1, "contiguous", (8192,)),)
    assert record.moved == {"read": 0, "write": 5 * 3 * 8192}
    assert record.count("h5dwrite") == 2 * 5 * 3 and record.count() == 2 * 5 * (2 + 3 * 3)
    assert [call for call in record.calls(1) if call[0] == "h5select"][:2] == [("h5select", (4096, 1, 4096, 1))] * 2


def test_activities_and_workloads_know_datasets() -> None:
    activity = activity_of(read_record(PHASES), "x")
    assert len(activity.files) == 5
    file = activity.files[0]
    moved = file.transfers["write"]
    assert file.hdf5_driver == "mpio" and file.size == moved.bytes == 3 * 8192
    assert (moved.collective, moved.independent, moved.selections, moved.flat) == (6, 0, ["block"], True)
    assert moved.common == 3 * [(4096, 2)]
    workload = workload_of(activity)
    assert (workload.api, workload.transfer_size, workload.collective) == ("hdf5", 4096, True)


def test_diagnosis_and_simulation_take_them() -> None:
    record = read_record(PHASES)
    activity = activity_of(record, "x")
    assert any("the calls of HDF5" in line for line in activity.unseen)
    assert {file.mpiio.write.count for file in activity.files if file.mpiio} == {6}
    parts, notes = parts_of(record, Access())
    assert notes == []
    (part,) = parts
    assert (part.times, part.direction, part.columns["collective"]) == (5, "write", True)
    assert part.columns["transfer_size"] == 4096


@pytest.mark.parametrize(
    ("shape", "selected", "pieces"),
    [
        (Shape(8, "contiguous", (4, 10)), [], Pieces(0, 1, 320, 0.0)),
        (Shape(8, "contiguous", (4, 10)), [(1, 1, 2, 1), (0, 1, 10, 1)], Pieces(80, 1, 160, 0.0)),
        (Shape(8, "contiguous", (4, 10)), [(0, 1, 4, 1), (5, 1, 5, 1)], Pieces(40, 4, 40, 40.0)),
        (Shape(1, "contiguous", (16,)), [(1, 4, 4, 2)], Pieces(1, 4, 2, 2.0)),
        (Shape(1, "contiguous", (16,)), [(0, 2, 4, 2)], Pieces(0, 1, 8, 0.0)),
        (Shape(1, "contiguous", (16,)), [(0, 1, 0, 1)], Pieces(0, 0, 0, 0.0)),
    ],
)
def test_pieces_of_selections(shape: Shape, selected: list[tuple[int, ...]], pieces: Pieces) -> None:
    assert pieces_of(shape, selected) == pieces


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("h5fcreate 0 0 0 0 2 1\n", "names access 0, which is not defined"),
        ("h5access 1 1 1 1 1\nh5dcreate 1 0 0 0 1\n", "names dataset 0, which is not defined"),
        ("h5dim 1 1 0\n", "h5dim without a dataset"),
        ("h5dataset 0 1 3 0 0\n", "a dataset that cannot be"),
        ("h5more 0 0 0 2\n", "h5more without an access"),
        ("h5dataset 0 9999999999999999999 1 0 0\n", "is not a number"),
        ("h5dataset 0 2147483648 1 0 0\n", "a dataset that cannot be"),
        ("h5dataset 5 1 1 0 0\n", "a dataset that cannot be"),
        ("h5dataset 0 1 1 3 0\n", "a dataset that cannot be"),
        ("h5dataset 0 8 1 0 0\nh5dim 1152921504606846976 -1 0\n", "a dataset of too many bytes"),
        ("h5dataset 0 1 1 0 0\nh5dim 1 -2 0\n", "a dimension that cannot be"),
        ("h5dataset 0 1 1 0 0\nh5dim 1 9223372036854775807~1 0\n", "too large on some ranks"),
        ("h5dataset 0 1 1 0 0\nh5value 1\n", "a parameter of no filter"),
        ("h5dataset 0 1 1 0 0\nh5filter 1 0\n" + "h5value 1\n" * 65, "a parameter of no filter, or one too many"),
        ("h5select 0 0 1 1 1\nh5dwrite 1 1 0 1 1 1\n", "h5select: a stride of 0"),
        ("h5select 0 1 1 1 1\n", "h5select without the call"),
        ("h5select 0 1 1 1 1\nh5dclose 1 1\n", "h5select without the call"),
        ("h5size 1 1\nh5dwrite 1 1 0 1 1 1\n", "h5size without the call"),
    ],
)
def test_damaged_lines_are_refused(body: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        parse_record(sealed(HEAD + body), "x")


def test_transfers_without_an_open_dataset_are_refused() -> None:
    record = parse_record(sealed(HEAD + "h5dwrite 1 1 0 1 10 1\n"), "x")
    with pytest.raises(UserError, match="h5dwrite on a file that is not open"):
        activity_of(record, "x")


def test_a_selection_may_stand_before_a_loop() -> None:
    body = "h5dataset 0 1 1 0 0\nh5dim 8 8 0\nh5access 1 1 1 1 1\nh5fcreate 0 0 0 0 2 1\nh5dcreate 1 0 0 0 1\n"
    body += "h5select 0 1 8 1 0\nloop 3\nh5dwrite 1 1 0 1 8 1\nend\n"
    assert parse_record(sealed(HEAD + body), "x").count("h5dwrite") == 6
    with pytest.raises(UserError, match="h5select without the call"):
        parse_record(sealed(HEAD + body.replace("h5dwrite 1 1 0 1 8 1", "h5dclose 1 1")), "x")


def test_of_an_incomplete_record_the_last_call_may_be_missing() -> None:
    head = HEAD.replace("ranks 0 2", "incomplete no memory\nranks 0 2")
    assert parse_record(sealed(head + "h5select 0 1 8 1 0\n"), "x").gaps == ("no memory",)


def test_a_selection_has_the_dimensions_of_its_dataset() -> None:
    text = PHASES.read_text().rpartition("checksum ")[0].replace("h5select", "h5select 0 1 1 1 0\nh5select")
    record = parse_record(sealed(text), "x")
    for use in (lambda record: activity_of(record, "x"), lambda record: parts_of(record, Access())):
        with pytest.raises(UserError, match="a selection in 2 dimensions of a dataset of 1"):
            use(record)


def test_replays_are_compared_by_calls_of_hdf5() -> None:
    record = read_record(PHASES)
    report = read_report_file(REPLAYED)
    assert (
        Faithfulness(
            Done.by_record(record), Done.by_activity(report_activity(report, "report"), record), whole=True
        ).differences
        == []
    )
    fewer = report.model_copy(update={"files": report.files[1:]})
    differences = Faithfulness(
        Done.by_record(record), Done.by_activity(report_activity(fewer, "report"), record), whole=True
    ).differences
    assert "it made 24 calls of H5Dwrite, and the program 30" in differences


def test_a_replay_may_close_what_the_program_left_open() -> None:
    text = PHASES.read_text().rpartition("checksum ")[0]
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith(("h5fclose", "h5dclose"))]
    left = parse_record(sealed("".join(lines)), "x")
    assert left.count("h5fclose", "h5dclose") == 0
    done = Done.by_activity(report_activity(read_report_file(REPLAYED), "report"), left)
    assert Faithfulness(Done.by_record(left), done, whole=True).differences == []
