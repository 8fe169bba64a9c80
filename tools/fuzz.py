"""Fuzz the parsers in Python: every input gives a value or one of Stripewise's own errors, soon and within memory.

    python tools/fuzz.py [--seconds 600] [TARGET ...]

An input is changed at random: bytes, words, lines, pieces of other inputs. One that reaches new lines of Stripewise is
kept, and changed further. A finding is an exception that the parser does not promise, or an input that takes more than
ten seconds of the processor; it is written to build/fuzz, and the exit code is then 1. The parsers in C have targets of
their own, in native/fuzz, which native/soak.py runs.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import itertools
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import zipfile
import zlib
from collections.abc import Callable, Iterable
from ctypes import sizeof
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from stripewise.catalogue.carriers import ADIOS2 as ADIOS2_FILE
from stripewise.catalogue.carriers import FILE
from stripewise.catalogue.filesystems import find_file_system, type_names
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.stack import parse_stack
from stripewise.diagnose import filters as filter_sample
from stripewise.diagnose.causes.analysis import read_timings
from stripewise.diagnose.causes.models import FORMAT as CALIBRATION
from stripewise.diagnose.causes.models import VERSION as CALIBRATION_VERSION
from stripewise.diagnose.causes.models import load as load_calibration
from stripewise.diagnose.knobs import named_hints
from stripewise.diagnose.script import parse_script
from stripewise.errors import StripewiseError
from stripewise.lab.site import parse_site
from stripewise.models.artifact import content as form
from stripewise.models.artifact.file import parse_artifact
from stripewise.models.prescribe.request import parse_request
from stripewise.models.registry import load_model, make_model
from stripewise.models.table import read_table
from stripewise.observe._darshan_fold import LogError
from stripewise.observe.darshan_logs import _Reader
from stripewise.observe.elbencho import parse_elbencho
from stripewise.observe.fio import parse_fio
from stripewise.observe.h5bench import parse_h5bench
from stripewise.observe.io500 import rows_of_result, rows_of_summary
from stripewise.observe.ior import parse_ior
from stripewise.observe.journal import parse_journal
from stripewise.observe.left import PREFIX
from stripewise.observe.mdtest import parse_mdtest
from stripewise.observe.process_part import _FILES as PART_FILES
from stripewise.observe.process_part import _MAGIC as PART_MAGIC
from stripewise.observe.process_part import FileRecord, Head
from stripewise.observe.processes import merge_parts
from stripewise.observe.record_reading import parse_record
from stripewise.observe.report import read_report, read_report_file
from stripewise.observe.traces import dftracer, dxt, recorder, recorder_parquet
from stripewise.requests.campaign import parse_campaign
from stripewise.requests.experiment import parse_experiment
from stripewise.runners.allow_list import AllowList
from stripewise.runners.program.command import split_command
from stripewise.runners.program.elf import NotElf, read_elf
from stripewise.runners.program.started import understand
from stripewise.runners.schedulers.registry import all_schedulers

ROOT = Path(__file__).resolve().parent.parent
SOURCE = str(ROOT / "src" / "stripewise")
LONGEST = 1 << 17
LONGEST_NAME = 1 << 10
SLOW = 10
STUCK = 300
MEMORY = 6 << 30
PART_SIZE = sizeof(Head) + PART_FILES * sizeof(FileRecord)
WORDS = [
    *(b"0", b"-1", b"1e999", b"nan", b"inf", b"9" * 30, b"true", b"null", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\n"),
    *(b"[" * 3000, b"{" * 50, b"a=", b'"""', b"'", b"|", b":", b"%s", b"../", b"\xe2\x80\xa8", b'{"a":', b"[[a]]\n"),
]


@dataclass(frozen=True)
class Target:
    """A parser, what it may raise, and inputs to begin with."""

    parse: Callable[[bytes, Path], Any]
    seeds: Callable[[], list[bytes]]
    errors: tuple[type[Exception], ...] = (StripewiseError,)


def text(parse: Callable[[str, str], Any]) -> Callable[[bytes, Path], Any]:
    """A parser of a text and its origin."""
    return lambda data, _: parse(data.decode("utf-8", "surrogateescape"), "input")


def file(parse: Callable[[Path], Any], name: str) -> Callable[[bytes, Path], Any]:
    """A parser of a file."""

    def run(data: bytes, folder: Path) -> Any:
        (folder / name).write_bytes(data)
        return parse(folder / name)

    return run


def files(*patterns: str) -> Callable[[], list[bytes]]:
    """The contents of files, the largest left out."""
    found = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
    return lambda: [path.read_bytes()[:LONGEST] for path in found]


def table(data: bytes, folder: Path) -> Any:
    """Both files of a table."""
    head, _, rows = data.partition(b"\n=====\n")
    (folder / "t.toml").write_bytes(head)
    (folder / "t.csv").write_bytes(rows)
    return read_table(folder / "t")


def tables() -> list[bytes]:
    """Small tables, each with its first rows."""
    heads = sorted((ROOT / "benchmarks" / "data" / "tables").glob("*.toml"))
    rows = [b"".join(head.with_suffix(".csv").read_bytes().splitlines(keepends=True)[:6]) for head in heads]
    return [head.read_bytes() + b"\n=====\n" + own for head, own in zip(heads, rows, strict=True)]


def record(data: bytes, _: Path) -> Any:
    """A record whose checksum is put right, so that what is behind it is reached."""
    body = data.rpartition(b"checksum ")[0]
    whole = body + f"checksum {zlib.crc32(body):08x}\n".encode()
    found = parse_record(whole.decode("utf-8", "surrogateescape"), "input")
    return found.moved, found.count(), list(itertools.islice(found.calls(0), 100))


def artifact(data: bytes, _: Path) -> Any:
    """An artifact whose size and checksum are put right, so that what is behind them is reached."""
    whole = bytearray(data[: len(data) & ~7])
    if len(whole) >= form.HEADER.size:
        struct.pack_into("<Q", whole, 16, len(whole))
        struct.pack_into("<Q", whole, 24, form.checksum(bytes(whole)))
    return parse_artifact(bytes(whole))


def model(data: bytes, folder: Path) -> Any:
    """The head and the arrays of a model, packed anew, and the model's use: no checksum of the archive refuses them."""
    with zipfile.ZipFile(folder / "model", "w") as archive:
        for member in data.split(b"\n=====\n"):
            name, _, content = member.partition(b"\n")
            archive.writestr(name[:LONGEST_NAME].decode("latin-1").replace("\0", "") or "x", content)
    loaded = load_model(folder / "model")
    domain = loaded.domain
    frame = {
        c.name: [c.values[place] for place in (s[0], s[-1])] for c, s in zip(domain.columns, domain.seen, strict=True)
    }
    return loaded.predict(frame), loaded.explain(), loaded.margins(), domain.outside(frame)


def models() -> list[bytes]:
    """A trained model of each small kind."""
    found = []
    head = sorted((ROOT / "benchmarks" / "data" / "tables").glob("*.toml"))[0]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("linear", "tree", "boosting"):
            trained = make_model(name)
            trained.fit(read_table(head))
            trained.save(Path(folder) / name)
            with zipfile.ZipFile(Path(folder) / name) as archive:
                parts = [entry.encode() + b"\n" + archive.read(entry) for entry in archive.namelist()]
            found.append(b"\n=====\n".join(parts))
    return found


READER = _Reader()
"""One child for all logs: a start of it takes longer than a log."""


def traced() -> list[bytes]:
    """Traces of DFTracer, as they are before they are compressed."""
    return [gzip.decompress(path.read_bytes()) for path in sorted(ROOT.glob("tests/fixtures/traces/dftracer/*.gz"))]


def texts_of_recorder(data: bytes, folder: Path) -> Any:
    """A folder with the texts of two ranks."""
    texts = folder / "trace" / "_text"
    texts.mkdir(parents=True, exist_ok=True)
    for rank, text_of_rank in enumerate(data.partition(b"\n=====\n")[::2]):
        (texts / f"{rank}.txt").write_bytes(text_of_rank)
    return recorder.summarise(texts)


def logs() -> list[bytes]:
    """The logs that come with Darshan's Python package."""
    import darshan  # noqa: PLC0415  slow to load

    found = sorted(
        (Path(darshan.__file__).parent / "examples").rglob("*.darshan"), key=lambda path: path.stat().st_size
    )
    return [path.read_bytes() for path in found[:6]]


def schedulers(data: bytes, _: Path) -> None:
    """All that the commands of schedulers print, and the directives of job scripts."""
    said = data.decode("utf-8", "replace")
    for scheduler in all_schedulers():
        with contextlib.suppress(ValueError):  # promised where the output cannot be read
            scheduler.standings(said)
        scheduler.identifier(said)
        scheduler.gone.search(said)
        scheduler.read_script(said)
        scheduler.read_time(said)


def layouts(data: bytes, folder: Path) -> None:
    """What the tools of file systems print, and the lines of scripts that set layouts."""
    said = data.decode("utf-8", "replace")
    for kind in type_names():
        named_system = find_file_system(kind)
        named_system.look(folder, "tool", lambda _: said)
        for line in said.splitlines():
            list(named_system.in_script(line))


def io500(said: str, _: str) -> Any:
    """Both lists of IO500's phases."""
    return rows_of_summary(said), rows_of_result(said)


def adios2(data: bytes, folder: Path) -> None:
    """An ADIOS2 file of a program, in both forms."""
    for name in ("a.xml", "a.yaml"):
        (folder / name).write_bytes(data)
        with contextlib.suppress(OSError, ValueError):  # promised
            ADIOS2_FILE.changed(folder / name, {"NumAggregators": "4", "x/BufferChunkSize": "1"})


def configuration(data: bytes, folder: Path) -> None:
    """A configuration file of a program, in each form."""
    for ending in ("toml", "yaml", "json", "ini", "nml"):
        (folder / f"a.{ending}").write_bytes(data)
        with contextlib.suppress(OSError, ValueError):  # promised
            FILE.changed(folder / f"a.{ending}", {"io.a": "4", "b": "x"})


def command(data: bytes, folder: Path) -> None:
    """A pattern of an allow-list, and a command: none of it may let another program through."""
    pattern, _, line = data.decode("utf-8", "surrogateescape").partition("\n")
    words = [word for word in line.split(" ") if word]
    understand(["bash", "-c", line])
    understand(words or ["app"])
    path = {"PATH": "/usr/bin:/bin"}
    if words and AllowList(["mpiexec -n * /opt/none/app ..."]).allows(words, folder, path):
        started = [segment.program[0] for segment in split_command(words).segments]
        assert {os.path.realpath(folder / program) for program in started} == {"/opt/none/app"}, words
    AllowList([pattern]).allows(words, folder, path)


def processes(data: bytes, folder: Path) -> Any:
    """What a process without MPI left of its calls, as large as it should be, and the report of it."""
    (folder / f"{PREFIX}1-1").write_bytes(data[:PART_SIZE].ljust(PART_SIZE, b"\0"))
    return read_report_file(folder / "report.json") if merge_parts(folder, folder / "report.json") else None


def parts() -> list[bytes]:
    """A part with two files, and one that a killed process left."""
    content = bytearray(sizeof(Head) + 2 * sizeof(FileRecord))
    head = Head.from_buffer(content)
    head.magic, head.record_size, head.records, head.rank = PART_MAGIC, sizeof(FileRecord), 2, -1
    head.real, head.start, head.end, head.host = 1 << 60, 5, 9, b"n1"
    for at, path in enumerate((b"/bin/sh", b"/dev/null")):
        file = FileRecord.from_buffer(content, sizeof(Head) + at * sizeof(FileRecord))
        file.state, file.path = 2, path
        for calls in file.calls:
            calls.count, calls.bytes, calls.most = 3, 4096, 9
        for way in file.way:
            way.first, way.last = 6, 8
            for one in way.top:
                one.size, one.count = 4096, 3
    return [bytes(content), bytes(content[: sizeof(Head) + 700])]


def hints(data: bytes, folder: Path) -> None:
    """A hints file that a script names."""
    (folder / "hints").write_bytes(data)
    named_hints(f"export ROMIO_HINTS={folder}/hints\nsrun ./app\n", folder, {})


def hdf5(data: bytes, folder: Path) -> None:
    """An HDF5 file whose datasets are sampled, in a process of its own as there: the library may crash in it."""
    (folder / "a.h5").write_bytes(data)
    child = os.fork()
    if not child:
        sys.settrace(None)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, SLOW / 10)
        try:
            filter_sample.read_sample(folder / "a.h5", None, 1 << 16, 1 << 18)
        except BaseException:
            traceback.print_exc()
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) <= 0, "an exception that the reader does not catch"


def hdf5_files() -> list[bytes]:
    """Small files: plain, chunked, filtered and virtual datasets, links and types."""
    import h5py  # noqa: PLC0415  optional

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "a.h5"
        with h5py.File(path, "w", libver="earliest") as made:
            made["a/plain"] = range(300)
            made.create_dataset("b", data=[[0.5] * 40] * 8, chunks=(4, 8), compression=1, shuffle=True)
            made["link"] = h5py.ExternalLink("b.h5", "/x")
            made["text"] = "text"
        first = path.read_bytes()
        with h5py.File(path, "w", libver="latest") as made:
            made.create_dataset("c", (9, 9), "i2", maxshape=(None, 9), chunks=(3, 3), fletcher32=True)
            layout = h5py.VirtualLayout((4,), "f4")
            layout[:] = h5py.VirtualSource("b.h5", "x", (4,))
            made.create_virtual_dataset("d", layout)
        return [first, path.read_bytes()]


SAID = [
    b"Submitted batch job 7\n7|RUNNING|None|a\n8_1|NODE_FAIL|x|b\n",
    b'{"Jobs": {"1.pbs": {"job_state": "F", "Exit_status": 271, "comment": "x"}, "2": {"job_state": "R"}}}',
    b'{"COMMAND": "bjobs", "RECORDS": [{"JOBID": "7", "STAT": "EXIT", "EXIT_REASON": "x"}, {"ERROR": "no"}]}',
    b"f2xyz|INACTIVE|FAILED|a\nf3|RUN||b\n",
    b"#!/bin/bash\n#SBATCH -N 4 -t 1-02:03:04\n#PBS -l walltime=01:00:00\n#BSUB -W 1:30 -nnodes 2\n",
    b"#flux: -N2 -t 30m\n1-02:03:04\n",
]
LAYOUTS = [
    b"stripe_count:  4 stripe_size:   1048576 pattern: raid0 stripe_offset: -1 pool: flash\n",
    b"lfs setstripe -c 4 -S 1M out\nbeegfs-ctl --setpattern --numtargets=4 --chunksize=1m out\n",
]
SCRIPTS = [
    b"#!/bin/bash\n#SBATCH -N 2\nexport ROMIO_HINTS=$PWD/hints\nexport MPICH_MPIIO_HINTS='*:cb_nodes=4'\nsrun ./app\n",
    b"cat > hints <<EOF\nromio_cb_write enable\nEOF\nmpiexec --mca io ompio -n 4 ./app\n",
]
IOR = [
    b"access bw(MiB/s) IOPS Latency(s) block(KiB) xfer(KiB)\n------ --------- ---- ---------- ---------- ---------\n"
    b"write 1234.5 12 0.1 1024 64 0.1 0.2 0.3 0.4 0\n",
    b'{"Version": "4.0", "tests": [{"Parameters": {}, "Results": [[{"access": "write", "bwMiB": 12.5}]]}]}',
    b"access,bw(MiB/s),IOPS\nwrite,12.5,3\n",
]
ADIOS2 = [
    b'<adios-config><io name="x"><engine type="BP5"><parameter key="A" value="1"/></engine></io></adios-config>',
    b"- IO: x\n  Engine:\n    Type: BP5\n    NumAggregators: 2\n- IO: 'y'\n",
]
CONFIGURATIONS = [
    b"b = 1\n[io]\na = 2\n",
    b"b: 1\nio:\n  a: 2\n",
    b'{"b": 1, "io": {"a": 2}}',
    b"&io\n a = 2\n c%d = 'x'\n/\n",
]
COMMANDS = [
    b"\nmpiexec -n 4 /opt/none/app : -n 1 /bin/sh -c id",
    b"srun -n * /opt/a/* ...\nsrun --export=ALL -n 2 /opt/a/b --mca x y",
    b"mpirun --mca io * -np * ./app *\nenv A=1 mpirun --mca io ompio -np 2 ./app {run}",
]
CALIBRATIONS = [
    b'{"format": "%s", "version": %d, "notes": {"a": "b"}, "models": {"read": {"cache": {"constant": 1, "slope": 2, '
    b'"spread": 0.1, "smallest": 1, "largest": 9, "count": 3}}}}' % (CALIBRATION.encode(), CALIBRATION_VERSION),
]
TABLES_OF_DXT = [
    b"file_id,file_name,api,rank,operation,segment,offset,size,start,end,ost\n"
    b"7,/a,POSIX,0,write,0,0,4096,1706045587.3763,1706045587.3788,4\n7,/a,MPIIO,1,read,1,4096.0,10,1.5,2.5,\n",
    b"# darshan log version: 3.41\n# exe: ./a\n# nprocs: 4\n# run time: 20.5\n\n# DXT, file_id: 7, file_name: /a\n"
    b"# DXT, rank: 0, hostname: n\n X_POSIX 0 write 0 0 4096 0.0100 0.0200  [4]\n X_POSIX 3 read 0 0 9 0.01 0.02\n",
]
TARGETS = {
    "darshan": Target(file(READER.read, "x.darshan"), logs),
    "dftracer": Target(file(dftracer.summarise, "x.pfw"), traced, (LogError,)),
    "dxt": Target(file(dxt.summarise, "x.csv"), lambda: TABLES_OF_DXT[:1], (LogError,)),
    "dxt-text": Target(file(dxt.summarise, "x.txt"), lambda: TABLES_OF_DXT[1:], (LogError,)),
    "recorder-parquet": Target(
        file(recorder_parquet.summarise, "0_0.parquet"),
        files("tests/fixtures/traces/recorder-parquet/_parquet/*.parquet"),
        (LogError,),
    ),
    "recorder": Target(texts_of_recorder, files("tests/fixtures/traces/recorder/_text/*.txt"), (LogError,)),
    "table": Target(table, tables),
    "model": Target(model, models),
    "artifact": Target(artifact, files("native/fuzz/corpus_model/*")),
    "plan": Target(text(Plan.parse), files("native/fuzz/corpus/*")),
    "journal": Target(text(lambda data, _: parse_journal(data)), files("native/fuzz/corpus_journal/*")),
    "record": Target(record, files("tests/fixtures/records/*.record")),
    "report": Target(text(read_report), files("tests/fixtures/reports/*.json")),
    "experiment": Target(text(parse_experiment), files("examples/*.toml")),
    "site": Target(text(parse_site), files("src/stripewise/lab/sites/*.toml")),
    "stack": Target(text(parse_stack), files("src/stripewise/catalogue/stacks/*.toml", "examples/*stack.toml")),
    "campaign": Target(text(parse_campaign), files("src/stripewise/requests/campaigns/*.toml")),
    "request": Target(text(parse_request), lambda: [b'processes = 4\nfile_size = "1GiB"\n[known]\na = 1\n']),
    "schedulers": Target(schedulers, lambda: SAID),
    "layouts": Target(layouts, lambda: LAYOUTS),
    "hints": Target(hints, lambda: [b"# x\nromio_cb_write enable\ncb_nodes 4\n"]),
    "script": Target(text(lambda data, _: parse_script(data)), lambda: SCRIPTS),
    "ior": Target(text(parse_ior), lambda: IOR),
    "mdtest": Target(text(parse_mdtest), files("tests/fixtures/results/mdtest-*.txt")),
    "fio": Target(text(parse_fio), files("tests/fixtures/results/fio-*.json")),
    "elbencho": Target(text(parse_elbencho), files("tests/fixtures/results/elbencho-*.csv")),
    "h5bench": Target(text(parse_h5bench), files("tests/fixtures/results/h5bench-*")),
    "io500": Target(text(io500), files("tests/fixtures/results/io500/*.txt")),
    "timings": Target(
        file(read_timings, "t.csv"), lambda: [b"operation,size,seconds,offset\nread,4KiB,0.1,0\nwrite,1,2,3\n"]
    ),
    "adios2": Target(adios2, lambda: ADIOS2, ()),
    "configuration": Target(configuration, lambda: CONFIGURATIONS, ()),
    "command": Target(command, lambda: COMMANDS),
    "processes": Target(processes, parts),
    "hdf5": Target(hdf5, hdf5_files, ()),
    "calibration": Target(file(load_calibration, "c.json"), lambda: CALIBRATIONS),
    "elf": Target(file(read_elf, "a.out"), lambda: [Path("/bin/true").read_bytes()[:LONGEST]], (NotElf,)),
}


class Reached:
    """The lines of Stripewise that a call reaches."""

    def __init__(self) -> None:
        self.lines: set[tuple[str, int]] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        """Trace functions of Stripewise alone."""
        if frame.f_code.co_filename.startswith(SOURCE):
            self.lines.add((frame.f_code.co_filename, frame.f_lineno))
            return self
        return None


def changed(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """Change an input in one to four places."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(found) + 1)
        end = min(len(found), at + int(chance.expovariate(1 / 8)) + 1)
        kind = chance.randrange(7)
        if kind == 0 and at < len(found):
            found[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            found[at:end] = b""
        elif kind == 2:
            found[at:at] = found[at:end] * chance.choice((1, 2, 50))
        elif kind == 3:
            found[at:end] = chance.choice(WORDS)
        elif kind == 4:
            found[at:at] = chance.choice(WORDS)
        elif kind == 5:
            other = chance.choice(others)
            begin = chance.randrange(len(other) + 1)
            found[at:end] = other[begin : begin + chance.randrange(64)]
        else:
            lines = found.split(b"\n")
            chance.shuffle(lines) if len(lines) < 8 else lines.pop(chance.randrange(len(lines)))
            found = bytearray(b"\n".join(lines))
    return bytes(found[:LONGEST])


def too_slow(*_: object) -> None:
    """End a parser that takes too long."""
    raise TimeoutError(f"more than {SLOW} s of the processor, or {STUCK} s")


def once(target: Target, data: bytes, folder: Path) -> str:
    """Parse one input; what was found, or an empty text."""
    signal.setitimer(signal.ITIMER_PROF, SLOW)
    signal.alarm(STUCK)
    try:
        target.parse(data, folder)
    except target.errors:
        pass
    except BaseException:
        if sys.exc_info()[0] is KeyboardInterrupt:
            raise
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
    return ""


def fuzz(name: str, seconds: float, seed: int, kept: Path) -> tuple[int, dict[str, str]]:
    """Fuzz one parser; the number of inputs, and each kind of finding once, by the place that raised it."""
    target, chance, known = TARGETS[name], random.Random(seed), Reached()
    inputs, findings, count = target.seeds(), {}, 0
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as place:
        waiting = list(inputs)
        while time.monotonic() < until:
            data = waiting.pop() if waiting else changed(chance.choice(inputs), inputs, chance)
            reached = Reached()
            sys.settrace(reached)
            found = once(target, data, Path(place))
            sys.settrace(None)
            count += 1
            if reached.lines - known.lines:
                known.lines |= reached.lines
                inputs.append(data)
            where = next((line for line in reversed(found.splitlines()) if line.startswith("  File")), "")
            if found and where not in findings:
                findings[where] = found
                (kept / f"{name}-{len(findings)}").write_bytes(data)
    return count, findings


def main(words: Iterable[str] | None = None) -> int:
    """Fuzz the named parsers, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="*", choices=[*TARGETS, []], help=f"default: all of {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=float, default=600, help="for each parser")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kept", type=Path, default=ROOT / "build" / "fuzz", help="folder of findings")
    options = parser.parse_args(words if words is None else list(words))
    options.kept.mkdir(parents=True, exist_ok=True)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, too_slow)
    signal.signal(signal.SIGPROF, too_slow)
    READER.__enter__()
    bad = 0
    for name in options.target or TARGETS:
        count, findings = fuzz(name, options.seconds, options.seed, options.kept)
        print(f"{name}: {count} inputs in {options.seconds:.0f} s, {len(findings) or 'no'} findings", flush=True)
        for found in findings.values():
            print(found, flush=True)
        bad += len(findings)
    READER.__exit__()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
