"""IOR's outputs: the columns of several versions, JSON in both nestings, CSV."""

import json
from pathlib import Path

import pytest

from stripewise.errors import UserError
from stripewise.observe.benchmark import BenchmarkRow
from stripewise.observe.ior import IorOutput, activities_of, is_ior, parse_ior, rows_of

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "ior"

TEXT_4 = """IOR-4.0.0: MPI Coordinated Test of Parallel I/O
Began               : Mon Jan  1 10:00:00 2024
Command line        : ior -a MPIIO -c -b 16m -t 1m -i 2
Machine             : Linux node001

Options:
api                 : MPIIO
access              : single-shared-file
nodes               : 2
tasks               : 8
xfersize            : 1 MiB
blocksize           : 16 MiB

Results:

access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
------    ---------  ----       ----------  ---------- ---------  --------   --------   --------   --------   ----
write     812.50     820.10     0.009700    16384      1024.00    0.002100   0.150000   0.003000   0.157538   0
read      2048.00    2100.00    0.003700    16384      1024.00    0.000500   0.060000   0.000300   0.062500   0
remove    -          -          -           -          -          -          -          -          0.001000   0
write     640.00     650.00     0.012000    16384      1024.00    0.002000   0.190000   0.004000   0.200000   1
read      -          2100.00    0.003700    16384      1024.00    0.000500   0.060000   0.000300   0.062500   1
Max Write: 812.50 MiB/sec (851.97 MB/sec)
Max Read:  2048.00 MiB/sec (2147.48 MB/sec)
"""

TEXT_30 = """IOR-3.0.1: MPI Coordinated Test of Parallel I/O

Began: Mon Jan  1 10:00:00 2018
Command line used: ./ior -w -t 2m
Summary:
	api                = POSIX

access    bw(MiB/s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
------    ---------  ---------- ---------  --------   --------   --------   --------   ----
write     512.25     4096       2048.00    0.000512   0.015000   0.000030   0.015617   0
"""

CSV = """access,bw(MiB/s),IOPS,Latency,block(KiB),xfer(KiB),open(s),wr/rd(s),close(s),total(s),numTasks,iter
write,812.5000,820.1000,0.0097,16384.0000,1024.0000,0.0021,0.1500,0.0030,0.1575,8,0
read,2048.0000,2100.0000,0.0037,16384.0000,1024.0000,0.0005,0.0600,0.0003,0.0625,8,0
"""


def results() -> list[dict[str, object]]:
    return [
        {"access": "write", "bwMiB": 812.5, "blockKiB": 16384.0, "xferKiB": 1024.0, "iops": 820.1, "totalTime": 0.1575},
        {"access": "write", "bwMiB": "inf", "blockKiB": 16384.0, "xferKiB": 1024.0, "iops": 1.0, "totalTime": 0.0},
        {
            "access": "read",
            "bwMiB": 2048.0,
            "blockKiB": 16384.0,
            "xferKiB": 1024.0,
            "iops": 2100.0,
            "totalTime": 0.0625,
        },
    ]


def document(nested: bool) -> str:
    found = results()
    test = {
        "TestID": 0,
        "Parameters": {"api": "MPIIO", "collective": 1},
        "Options": {"nodes": 2},
        "Results": [found[:1], found[1:]] if nested else found,
    }
    return json.dumps({"Version": "4.0.0", "Command line": "ior -c", "tests": [test], "summary": []})


def bandwidths(output):
    return [(row.access, row.bandwidth) for run in output.runs for row in run.rows]


def only(text):
    (run,) = parse_ior(text).runs
    return run


def fixture(name):
    return parse_ior((FIXTURES / name).read_text("utf-8"))


def test_text_of_version_4():
    output = parse_ior(TEXT_4)
    (run,) = output.runs
    assert (output.form, run.version, run.command) == ("text", "4.0.0", "ior -a MPIIO -c -b 16m -t 1m -i 2")
    assert (run.api, run.nodes, run.tasks, run.segments, run.block, run.transfer) == (
        "mpiio",
        2,
        8,
        1,
        16 << 20,
        1 << 20,
    )
    assert (run.layout, run.collective, run.file_per_process) == ("segmented", True, False)
    assert sorted(bandwidths(output)) == [("read", 2048.0), ("write", 640.0), ("write", 812.5)]
    assert run.rows[0] == BenchmarkRow("write", 812.5, 128 << 20, 0.0021, 0.15, 0.003, 0.157538)


def test_text_of_version_3_0_has_fewer_columns():
    run = only(TEXT_30)
    (row,) = run.rows
    assert (row.bandwidth, run.block, run.transfer, row.total) == (512.25, 4 << 20, 2 << 20, 0.015617)
    assert (run.api, run.command) == ("posix", "./ior -w -t 2m")


@pytest.mark.parametrize("label", ["0: ", "[1,0]<stdout>:", "    "])
def test_lines_that_the_launcher_labels(label):
    text = "".join(f"{label}{line}\n" for line in TEXT_4.splitlines())
    assert parse_ior("Loading modules\n" + text) == parse_ior(TEXT_4)


def test_runs_of_one_text_keep_their_own_options():
    first, second = fixture("two-runs.txt").runs
    assert (first.api, first.nodes, first.tasks, first.block, first.transfer) == ("posix", 2, 8, 64 << 20, 1 << 20)
    assert (first.file_per_process, first.layout, first.rows[0].moved) == (False, "segmented", 512 << 20)
    assert (second.api, second.nodes, second.tasks, second.segments) == ("pnetcdf", 4, 16, 1000)
    assert (second.block, second.transfer, second.rows[0].moved) == (47_008, 47_008, 47_008 * 16 * 1000)
    assert second.file_per_process is True
    rows = rows_of(fixture("two-runs.txt"))
    assert [(row["api"], row["processes"], row["transfer_size"], row["bandwidth"]) for row in rows] == [
        ("posix", 8, 1 << 20, 100.0),
        ("pnetcdf", 16, 47_008, 900.0),
    ]


def test_each_run_is_a_job_of_its_own():
    first, second = activities_of(fixture("two-runs.txt"), "two.txt")
    assert [a.source for a in (first, second)] == ["two.txt (run 1)", "two.txt (run 2)"]
    assert (first.job.ranks, first.seen, first.counted.shared, first.bytes) == (8, ["POSIX"], 1, 512 << 20)
    assert (second.job.ranks, second.seen, second.counted.files) == (16, ["PnetCDF", "MPI-IO"], 16)
    assert second.bytes == 47_008 * 16 * 1000 and second.totals.mpiio.write.common == [(47_008, 16_000)]
    assert second.files[0].size == 47_008_000 and second.files[0].pnetcdf is not None


def test_several_tests_of_a_script_are_several_runs():
    tests = TEXT_4.split("Options:", 1)
    other = tests[1].replace("MPIIO", "POSIX").replace("16 MiB", "47008 bytes").replace("16384 ", "45.91 ")
    first, second = parse_ior(f"{tests[0]}Options:{tests[1]}\nOptions:{other}").runs
    assert (first.api, first.block, second.api, second.block) == ("mpiio", 16 << 20, "posix", 47_008)
    assert second.version == "4.0.0"


@pytest.mark.parametrize(
    ("flag", "order", "layout"),
    [("-Z", "", "segmented"), ("-z", "", "random"), ("-C", "", "segmented"), ("-wrz", "", "random"),
     ("-Z", "sequential offsets", "segmented"), ("-w", "random offsets", "random")],
)  # fmt: skip
def test_only_random_offsets_make_a_random_layout(flag, order, layout):
    line = f"\tordering in a file = {order}\n" if order else ""
    assert only(TEXT_30.replace("-w", flag).replace("\tapi", f"{line}\tapi")).layout == layout


def test_segments_are_strided_in_a_shared_file_alone():
    text = TEXT_4.replace("nodes ", "segments            : 20\nnodes ")
    assert only(text).layout == "strided"
    assert only(text.replace("single-shared-file", "file-per-process")).layout == "segmented"


@pytest.mark.parametrize(
    ("printed", "api"),
    [("MPIIO (version=3, subversion=1)", "mpiio"), ("HDF5-1.8.14 (Parallel)", "hdf5"),
     ("NCMPI (PnetCDF 1.3.1)", "pnetcdf"), ("DFS", "dfs")],
)  # fmt: skip
def test_the_version_is_not_part_of_an_interface(printed, api):
    assert only(TEXT_4.replace(": MPIIO", f": {printed}")).api == api


def test_an_interface_that_is_not_known_is_judged_as_posix_and_said():
    (activity,) = activities_of(parse_ior(TEXT_4.replace(": MPIIO", ": DFS")), "x")
    assert activity.seen == ["POSIX"] and "interface dfs" in activity.unseen[-1]


STONEWALL = """write     512.25     4096       2048.00    0.000512   0.015000   0.000030   0.015617   0
"""
MOVED = """WARNING: Expected aggregate file size       = 1207959552.
WARNING: Stat() of aggregate file size      = 8388608.
WARNING: Using actual aggregate bytes moved = 8388608.
"""


def test_a_test_that_ends_at_a_deadline_moved_what_ior_says():
    text = TEXT_30.replace("\tapi", "\tclients            = 288 (4 per node)\n\tapi").replace(
        STONEWALL, MOVED + STONEWALL
    )
    run = only(text + STONEWALL.replace("512.25", "7.5"))
    assert [row.moved for row in run.rows] == [8 << 20, 288 * (4 << 20)]
    assert (run.nodes, rows_of(IorOutput("text", (run,)))[0]["file_size"]) == (72, 8 << 20)


def test_a_deadline_without_a_warning_leaves_rate_and_time():
    text = TEXT_30.replace("\tapi", "\tclients = 288 (4 per node)\n\tUsing stonewalling = 1 second(s)\n\tapi")
    (row,) = only(text).rows
    assert row.moved == round(512.25 * 2**20 * 0.015617)


SUMMARY = """
Summary of all tests:
Operation   Max(MiB)   Min(MiB)  Mean(MiB)     StdDev   Max(OPs)   Min(OPs)  Mean(OPs)     StdDev    Mean(s) Test# #Tasks tPN reps fPP reord reordoff reordrand seed segcnt   blksiz    xsize aggs(MiB)   API RefNum
write         512.25     512.25     512.25       0.00    1774.62    1774.62    1774.62       0.00    0.01562     0     4   4    1   0     0        1         0    0      1  5000017  5000017      19.1 POSIX      0
"""  # noqa: E501


def test_the_last_table_has_exact_sizes_where_options_are_rounded():
    rounded = "\txfersize           = 4.77 MiB\n\tblocksize          = 4.77 MiB\n\tclients = 4 (4 per node)\n\tapi"
    assert only(TEXT_30.replace("-t 2m", "-w").replace("\tapi", rounded)).block == round(4.77 * 2**20)
    run = only(TEXT_30.replace("-t 2m", "-w").replace("\tapi", rounded) + SUMMARY)
    assert (run.block, run.transfer, run.rows[0].moved) == (5_000_017, 5_000_017, 4 * 5_000_017)


def test_a_size_of_the_command_line_is_exact():
    text = TEXT_30.replace("-t 2m", "-b 5000017 -t=5000017").replace("\tapi", "\tblocksize          = 4.77 MiB\n\tapi")
    assert (only(text).block, only(text).transfer) == (5_000_017, 5_000_017)


TEXT_210 = """IOR-2.10.3: MPI Coordinated Test of Parallel I/O

Run began: Mon Jan  1 10:00:00 2012
Command line used: IOR -a MPIIO -b 1m -t 256k -i 2 -o t
Machine: Linux node001

Summary:
\tapi                = MPIIO (version=2, subversion=2)
\ttest filename      = t
\taccess             = single-shared-file
\tordering in a file = sequential offsets
\tordering inter file=random task offsets >= 1, seed=0
\tclients            = 4 (4 per node)
\trepetitions        = 2
\txfersize           = 262144 bytes
\tblocksize          = 1 MiB
\taggregate filesize = 12 MiB

"""
MEANS_210 = """Operation  Max (MiB)  Min (MiB)  Mean (MiB)   Std Dev  Max (OPs)  Min (OPs)  Mean (OPs)   Std Dev  Mean (s)
---------  ---------  ---------  ----------   -------  ---------  ---------  ----------   -------  --------
write        2302.33     361.60     1331.96    970.37    9209.33    1446.39     5327.86   3881.47   0.00901   EXCEL
"""  # noqa: E501
ROWS_210 = """access    bw(MiB/s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s) total(s)  iter
------    ---------  ---------- ---------  --------   --------   --------  --------   ----
write     2302.33    1024.00    256.00     0.000100   0.005000   0.000010   0.005212   0    XXCEL
write     361.60     1024.00    256.00     0.000100   0.033000   0.000010   0.033186   1    XXCEL
"""


def test_version_2_10_has_means_only_unless_it_is_verbose():
    run = only(TEXT_210 + MEANS_210)
    assert (run.api, run.tasks, run.segments, run.layout) == ("mpiio", 4, 3, "strided")
    assert [(row.bandwidth, row.total, row.moved) for row in run.rows] == [(1331.96, 0.00901, 12 << 20)]
    assert [row.bandwidth for row in only(TEXT_210 + ROWS_210 + MEANS_210).rows] == [2302.33, 361.6]


def test_csv():
    output = parse_ior(CSV)
    assert output.form == "csv"
    assert bandwidths(output) == [("write", 812.5), ("read", 2048.0)]
    (run,) = output.runs
    assert (run.tasks, run.block, run.transfer, run.layout) == (8, 16 << 20, 1 << 20, None)
    assert [(row.total, row.moved) for row in run.rows] == [(0.1575, 128 << 20), (0.0625, 128 << 20)]


def test_csv_of_several_tests():
    other = CSV.split("\n", 1)[1].replace("16384.0000,1024.0000", "45.9062,45.9062")
    first, second = parse_ior(CSV + other).runs
    assert (first.block, second.block, second.transfer) == (16 << 20, 47_008, 47_008)
    assert len(parse_ior(CSV + CSV.split("\n", 1)[1].replace(",0\n", ",1\n")).runs) == 1
    assert len(parse_ior(CSV.replace(",0\n", ",1\n") + CSV.split("\n", 1)[1]).runs) == 2


@pytest.mark.parametrize("nested", [True, False])
def test_json(nested):
    output = parse_ior(document(nested))
    (run,) = output.runs
    assert (output.form, run.version, run.command) == ("json", "4.0.0", "ior -c")
    assert bandwidths(output) == [("write", 812.5), ("read", 2048.0)]
    assert (run.api, run.collective, run.nodes) == ("mpiio", True, 2)


def test_json_with_a_byte_order_mark_and_text_behind():
    output = parse_ior("\ufeff" + document(False) + "\nMax Write: 1\n")
    assert bandwidths(output) == [("write", 812.5), ("read", 2048.0)]


def test_json_that_ior_wrote_badly_still_has_its_results():
    run = only((FIXTURES / "issue-102.json").read_text("utf-8"))
    assert [(row.access, row.bandwidth) for row in run.rows] == [("write", 1658.4832), ("read", 1266.5873)]
    assert (run.version, run.tasks, run.nodes, run.block, run.transfer) == ("3.2.0", 2, 1, 1 << 20, 256 << 10)
    assert [row.moved for row in run.rows] == [2 << 20, 2 << 20]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace(",\n", "\n"),
        lambda text: text.replace("]", ""),
        lambda text: text.replace(
            '"Results": [', '"Results": [ Commencing write performance test: Fri Nov 27 17:08:08'
        ),
        lambda text: text.replace('"ior -c"', '"ior -o C:\\"'),
        lambda text: text[: text.rindex('"summary"')],
        lambda text: text[: text.index('"totalTime": 0.0625')],
    ],
    ids=["commas", "brackets", "progress", "backslash", "no-summary", "cut-off"],
)
def test_damaged_json_still_has_its_results(damage):
    text = damage(json.dumps(json.loads(document(True)), indent=2))
    assert bandwidths(parse_ior(text)) == [("write", 812.5), ("read", 2048.0)]
    assert only(text).api == "mpiio"


def test_json_of_several_tests_and_of_a_deadline():
    def made(api, size, moved):
        return {
            "Parameters": {"api": api, "blockSize": size, "transferSize": size, "deadlineForStonewall": 1},
            "Options": {"api": api, "tasks": 4, "blocksize": "9.54 MiB", "xfersize": "9.54 MiB"},
            "Results": [[{"access": "write", "bwMiB": 10.0, "totalTime": moved / 10.0}]],
        }

    summary = [{"operation": "write", "TestID": number, "xsizeMiB": moved} for number, moved in enumerate((30.0, 70.0))]
    tests = [made("POSIX", 10_000_000, 30.001), made("MPIIO", 10_000_008, 70.001)]
    runs = parse_ior(json.dumps({"Version": "4.0.0", "tests": tests, "summary": summary})).runs
    assert [(run.api, run.block, run.transfer) for run in runs] == [
        ("posix", 10_000_000, 10_000_000),
        ("mpiio", 10_000_008, 10_000_008),
    ]
    assert [run.rows[0].moved for run in runs] == [30 << 20, 70 << 20]


def test_a_warning_between_json_is_read():
    text = document(False).replace('{"access": "write"', f'\n{MOVED}\n{{"access": "write"', 1)
    assert only(text).rows[0].moved == 8 << 20


@pytest.mark.parametrize(
    ("text", "known"),
    [(TEXT_4, True), ("mpiexec: warning\n" * 9000 + TEXT_4, True), (CSV, True), (document(True), True),
     ("label," + CSV, True), ("a,b\n1,2\n", False), ('{"a": 1}', False), ("PRIOR-1: x", False)],
)  # fmt: skip
def test_an_output_is_known_by_its_content(text, known):
    assert is_ior(text) is known


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\nworld\n",
        TEXT_4.split("write ", maxsplit=1)[0],
        '{"a": ',
        '{"a": 1}',
        '{"tests": 1}',
        '{"tests": [1, {"Results": "x"}]}',
        "[" * 100_000,
        '{"tests":' + "[" * 100_000,
    ],
)
def test_anything_else_is_refused_in_one_line(text):
    with pytest.raises(UserError, match="no result of IOR") as caught:
        parse_ior(text)
    assert "\n" not in str(caught.value)
