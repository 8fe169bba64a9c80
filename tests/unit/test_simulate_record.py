"""Records on the simulated cluster: the engine is given what the record says."""

import json
import zlib
from pathlib import Path

import numpy as np
import pytest

from stripewise.catalogue.workload import Workload
from stripewise.desk.cli.main import main
from stripewise.engine.fidelity import Done
from stripewise.errors import UserError
from stripewise.lab import recorded
from stripewise.lab.batch import Access
from stripewise.lab.recorded import SimulatedPart, parts_of
from stripewise.lab.request import load_request
from stripewise.lab.site import load_site
from stripewise.observe import record as spec_record
from stripewise.observe.from_record import activity_of
from stripewise.observe.record import Record
from stripewise.observe.record_reading import parse_record, read_record

STEPS = Path(__file__).resolve().parents[1] / "fixtures" / "records" / "steps.record"
MIB = 1 << 20


def sealed(body: str, ranks: int, nodes: int) -> str:
    text = f"stripewise-record 1\njob {ranks} {nodes} 10 5\nranks 0 {ranks}\n{body}"
    return f"{text}checksum {zlib.crc32(text.encode()):08x}\n"


def record_of(body: str, ranks: int = 16, nodes: int = 4) -> Record:
    return parse_record(sealed(body, ranks, nodes), "x.record")


SEGMENTED = (
    "file 0 /a0\ncomm 0 16 1\nloop 3\nopen 0 0 0 9 0\nloop 64\n"
    f"write_at_all 0 0,{4 * MIB}~{256 * MIB} {4 * MIB} 0\nend\nclose 0 0\nend\n"
)
STRIDED = (
    f"file - /a\ncomm 0 16 1\ntype 0 {16 * 4096}\nblock 0~4096 4096\nopen 0 0 0 9 0\nset_view 0 0 1 0 0\n"
    f"loop 8\nread_all 0 {MIB} 0\nend\nclose 0 0\n"
)
TILE = (  # a row of 4096 bytes in each of 256 lines of 65,536, of a matrix that has 4096 lines
    f"file - /a\ncomm 0 16 1\ntype 0 {4096 * 65536}\nblock 0~4096 4096\ndim 256 65536\nopen 0 0 0 9 0\n"
    f"set_view 0 0 1 0 0\nwrite_all 0 {MIB} 0\nclose 0 0\n"
)
OWN = f"file 1 /a0\ncomm 0~1 1 0\nopen 0 0 0 9 0\nloop 32\nwrite 0 {MIB} 0\nend\nsync 0 0\nclose 0 0\n"


def test_how_data_lie_in_memory_changes_nothing_of_what_the_program_does_to_its_files() -> None:
    told = STRIDED.replace("open 0", "type 0 8\nblock 0 4\nopen 0").replace("read_all", "memory 1 0\nread_all")
    plain, with_memory = record_of(STRIDED), record_of(told)
    assert ("memory", (1,)) in with_memory.calls(0) and with_memory.count() == plain.count()
    assert activity_of(with_memory, "x") == activity_of(plain, "x")
    assert Done.by_record(with_memory) == Done.by_record(plain)
    assert parts_of(with_memory, Access()) == parts_of(plain, Access())


@pytest.mark.parametrize(
    ("body", "workload", "access", "times"),
    [
        (SEGMENTED, {"operation": "write", "file_size": 4096 * MIB, "transfer_size": 4 * MIB, "layout": "segmented",
                     "collective": True}, Access(fsync=False), 3),
        (STRIDED, {"operation": "read", "file_size": 128 * MIB, "transfer_size": MIB, "piece_size": 4096,
                   "layout": "strided", "collective": True}, Access(), 1),
        (TILE, {"operation": "write", "file_size": 16 * MIB, "transfer_size": MIB, "piece_size": 4096,
                "layout": "tile", "collective": True}, Access(fsync=False), 1),
        (OWN, {"operation": "write", "file_size": 32 * MIB, "transfer_size": MIB, "layout": "segmented",
               "collective": False, "file_per_process": True}, Access(), 1),
    ],
)  # fmt: skip
def test_a_record_takes_as_long_as_the_workload_that_it_is_of(
    body: str, workload: dict[str, object], access: Access, times: int
) -> None:
    site = load_site("kay")
    parts, notes = parts_of(record_of(body), Access())
    declared = Workload.model_validate({"nodes": 4, "processes_per_node": 4, "api": "mpiio", **workload})
    expected = SimulatedPart(declared, str(workload["operation"]), access)
    (part,) = parts
    assert notes == [] and part.times == times
    columns = {"stripe_count": np.array([1, 8])}
    one, other = part.run(site, columns), expected.run(site, columns)
    assert np.allclose(one.seconds, other.seconds, rtol=1e-12) and np.array_equal(one.bytes, other.bytes)
    assert list(one.binding) == list(other.binding)


def test_all_bytes_calls_and_opens_of_a_real_record_are_simulated() -> None:
    record = read_record(STEPS)
    parts, notes = parts_of(record, Access())
    moved = {"read": 0.0, "write": 0.0}
    for part in parts:
        files = part.columns["processes_per_node"] * part.workload.nodes if part.columns["file_per_process"] else 1
        moved[part.direction] += part.times * files * part.columns["file_size"]
    assert moved == record.moved and notes == []
    # Ten files of all ranks or of one, each opened once; the reads are of a phase that opened its file for its writes.
    assert sum(part.times for part in parts if part.opens) == 10


def test_ways_of_access_are_told_apart() -> None:
    head = "file - /a\ncomm 0 16 1\nopen 0 0 0 9 0\n"

    def layout(calls: str) -> int:
        ((part,), _) = parts_of(record_of(f"{head}{calls}close 0 0\n"), Access())
        return int(part.columns["layout"])

    assert layout("loop 9\nwrite_at 0 0,100~900 100 0\nend\n") == 0
    assert layout("loop 9\nwrite_at 0 0,1600~100 100 0\nend\n") == 1
    assert layout("loop 9\nwrite_at 0 14400,-1600~100 100 0\nend\n") == 2


def test_hints_of_the_program_act_unless_a_setting_replaces_them() -> None:
    site = load_site("kay")
    hinted = SEGMENTED.replace(
        "comm 0 16 1\n", "hint striping_factor=8\nhint cb_nodes=many\nhint colour=1\ncomm 0 16 1\n"
    )
    ((plain,), _), ((part,), _) = (parts_of(record_of(body), Access()) for body in (SEGMENTED, hinted))
    assert part.hints == {"striping_factor": 8}
    assert part.run(site, {}).stripe_count == [8] and plain.run(site, {}).stripe_count == [1]
    factors = {"striping_factor": np.array([2, 8])}
    assert list(part.run(site, factors).stripe_count) == [2, 8]


def test_files_of_some_of_the_ranks_are_noted() -> None:
    body = "file - /a\ncomm 0 8 1\nopen 0 0 0 9 0\nwrite_at_all 0 0~100 100 0\nclose 0 0\n"
    _, notes = parts_of(record_of(body), Access())
    assert notes == ["files that some of the ranks share are simulated as one file of all of them"]


def test_what_cannot_be_simulated_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = "file - /a\ncomm 0 16 1\nopen 0 0 0 9 0\nclose 0 0\n"
    with pytest.raises(UserError, match="moves no bytes"):
        parts_of(record_of(idle), Access())
    never_opened = "file - /a\ncomm 0 16 1\nwrite_at 3 0 8 0\n"
    for look in (lambda record: parts_of(record, Access()), lambda record: activity_of(record, "x")):
        with pytest.raises(UserError, match="write_at on a file that is not open"):
            look(record_of(never_opened))
    monkeypatch.setattr(recorded, "MOST_PHASES", 2)
    with pytest.raises(UserError, match="opens files more than 2 times"):
        parts_of(record_of(SEGMENTED), Access())
    monkeypatch.setattr(spec_record, "MOST_CALLS", 10)
    with pytest.raises(UserError, match="has 396 different calls"):
        parts_of(record_of(SEGMENTED), Access())


def test_the_command_takes_a_record_and_a_file_that_names_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "app.record").write_text(sealed(SEGMENTED, 16, 4))
    assert main(["lab", "simulate", "run", "kay", str(tmp_path / "app.record"), "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["runs"]
    sweep = tmp_path / "sweep.toml"
    sweep.write_text('record = "app.record"\n[settings]\nstripe_count = [1, 16]\ncb_buffer_size = ["1 MiB", "4 MiB"]\n')
    assert main(["lab", "simulate", "run", "kay", str(sweep), "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [run["stripe_count"] for run in runs] == [1, 1, 16, 16]
    assert runs[2]["seconds"]["data"] < runs[0]["seconds"]["data"] / 3
    assert one["seconds"] in [run["seconds"] for run in runs]
    assert main(["lab", "simulate", "run", "kay", str(sweep), "--explain"]) == 0
    assert "no effect on this write: cb_buffer_size" in " ".join(capsys.readouterr().out.split())


def test_a_file_has_a_workload_or_a_record(tmp_path: Path) -> None:
    path = tmp_path / "both.toml"
    path.write_text('record = "app.record"\n[workload]\nnodes = 1\n')
    with pytest.raises(UserError, match="either a workload table or a record"):
        load_request(path)
