"""IOR's outputs: the columns of several versions, JSON in both nestings, CSV."""

import json

import pytest

from stripewise.errors import UserError
from stripewise.measure.ior import IorRow, parse_ior

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
    return [(row.access, row.bandwidth) for row in output.rows]


def test_text_of_version_4():
    output = parse_ior(TEXT_4)
    assert (output.form, output.version, output.command) == ("text", "4.0.0", "ior -a MPIIO -c -b 16m -t 1m -i 2")
    assert output.options["xfersize"] == "1 MiB"
    assert sorted(bandwidths(output)) == [("read", 2048.0), ("write", 640.0), ("write", 812.5)]
    assert output.rows[0] == IorRow("write", 812.5, 16 << 20, 1 << 20, 0.0021, 0.15, 0.003, 0.157538)


def test_text_of_version_3_0_has_fewer_columns():
    (row,) = parse_ior(TEXT_30).rows
    assert (row.bandwidth, row.block, row.transfer, row.total) == (512.25, 4 << 20, 2 << 20, 0.015617)
    assert parse_ior(TEXT_30).options["api"] == "POSIX"
    assert parse_ior(TEXT_30).command == "./ior -w -t 2m"


def test_several_tests_in_one_text():
    assert len(parse_ior(TEXT_30 + TEXT_30).rows) == 2


def test_csv():
    output = parse_ior(CSV)
    assert output.form == "csv"
    assert bandwidths(output) == [("write", 812.5), ("read", 2048.0)]
    assert output.rows[0].total == 0.1575


@pytest.mark.parametrize("nested", [True, False])
def test_json(nested):
    output = parse_ior(document(nested))
    assert (output.form, output.version) == ("json", "4.0.0")
    assert bandwidths(output) == [("write", 812.5), ("read", 2048.0)]
    assert output.options == {"api": "MPIIO", "collective": "1", "nodes": "2"}


def test_json_with_a_byte_order_mark_and_text_behind():
    output = parse_ior("\ufeff" + document(False) + "\nMax Write: 1\n")
    assert bandwidths(output) == [("write", 812.5), ("read", 2048.0)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no result of IOR"),
        ("hello\nworld\n", "no result of IOR"),
        (TEXT_4.split("write ", maxsplit=1)[0], "no result of IOR"),
        ('{"a": ', "not valid JSON of IOR"),
        ('{"a": 1}', "without 'tests'"),
        ('{"tests": 1}', "without 'tests'"),
        ('{"tests": [1, {"Results": "x"}]}', "no result of IOR"),
        ("[" * 100_000, "no result of IOR"),
        ('{"tests":' + "[" * 100_000, "not valid JSON of IOR"),
    ],
)
def test_anything_else_is_refused_in_one_line(text, reason):
    with pytest.raises(UserError, match=reason) as caught:
        parse_ior(text)
    assert "\n" not in str(caught.value)
