"""Settings of an accelerator for programs that it never ran with, from an I/O profile of one run without it.

    python benchmarks/prescribe/accelerator.py profile --logs LOGS --darshan LIBRARY
    python benchmarks/prescribe/accelerator.py simulated --logs LOGS --search --out simulated.json
    python benchmarks/prescribe/accelerator.py real simulated.json --out real.json
    python benchmarks/prescribe/accelerator.py campaign --each 3 --out campaign.jsonl
    python benchmarks/prescribe/accelerator.py simulated --logs LOGS --campaign campaign.jsonl --out learned.json
    python benchmarks/prescribe/accelerator.py real learned.json --out real.json

The programs are the ninety of ``examples/accelerator``. ``profile`` runs each once without the accelerator, and keeps a
Darshan log with a trace (``DXT_ENABLE_IO_TRACE``); the library is a Darshan of version 3.4 that needs no MPI.

``simulated`` runs a campaign of 70 programs on the accelerator's own code over a modelled storage, puts what the logs
show in place of the programs' names, as ``table observe`` does, trains a model, and prescribes by their logs for the 20
others. Each program also runs without the accelerator, and the model may choose that. ``real`` runs these 20 with the
library preloaded, on a file system in memory whose requests wait as on the modelled storage (``slow_storage.c``).
``campaign`` runs the 70 programs in this way; with its runs the model learns from real runs only.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "accelerator")]

import programs  # noqa: E402  from examples/accelerator
import simulation  # noqa: E402

MIB = 1 << 20
VALUES = {
    "cluster_threshold": [1, 2, 3, 4, 6, 8, 11, 15],
    "binsize": [m * MIB for m in (1, 2, 3, 4, 6, 8, 12, 20)],
    "sequence_length": [50, 65, 100, 150, 200],
    "prefetch_size": [m * MIB for m in (2, 3, 4, 6, 8, 12, 20, 40)],
}
"""What the campaign varies: about every second doubling of the limits in the stack file, with its defaults."""
DEFAULT = {"cluster_threshold": 2, "binsize": MIB, "sequence_length": 100, "prefetch_size": 20 * MIB}
STORAGE = {"SLOW_STORAGE_MICROSECONDS": "500", "SLOW_STORAGE_BANDWIDTH": "1e9"}
Configuration = Mapping[str, int] | None
"""None: without the accelerator."""


def every_program() -> dict[str, programs.Program]:
    """The ninety, by name."""
    return {
        f"{kind}_{number:02d}": program
        for kind, members in programs.programs(0, 10).items()
        for number, program in enumerate(members)
    }


def left_out(names: Sequence[str]) -> list[str]:
    """Twenty: two of each class, and two more of the first classes."""
    return [name for i, name in enumerate(names) if i % 10 < 2 or i in (2, 12)]


def some_configurations(count: int, seed: int) -> list[dict[str, int]]:
    """Configurations of a Latin hypercube over the values of the campaign."""
    rng = np.random.default_rng(seed)
    columns = {}
    for name, values in VALUES.items():
        strata = (rng.permutation(count) + rng.random(count)) / count
        columns[name] = [values[int(place * len(values))] for place in strata]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


class Machine:
    """Real runs of the programs.

    Parameters
    ----------
    scratch : Path
        A folder in memory.
    built : Path
        Of the accelerator.
    """

    def __init__(self, scratch: Path, built: Path) -> None:
        self._scratch, self._built = scratch, built
        slow = built / "libslow.so"
        source = ROOT / "benchmarks" / "runtime" / "slow_storage.c"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", slow, "-ldl"], check=True)
        self._slow = str(slow)

    @contextlib.contextmanager
    def file(self, program: programs.Program) -> Iterator[Path]:
        """A file of the right size, with holes: the program takes it as it is."""
        with tempfile.NamedTemporaryFile(prefix="accelerator-", dir=self._scratch) as made:
            made.truncate(program.file_size)
            yield Path(made.name)

    def seconds(self, program: programs.Program, file: Path, configuration: Configuration) -> float:
        """The program's own figure of one run."""
        with_it = [] if configuration is None else [str(self._built / "libsmallread.so")]
        settings = {f"SMALLREAD_{name.upper()}": str(value) for name, value in (configuration or {}).items()}
        environment = {**os.environ, **STORAGE, **settings, "LD_PRELOAD": " ".join([*with_it, self._slow])}
        done = self._run(program, file, environment)
        return float(re.findall(r"seconds: ([0-9.]+)", done)[0])

    def profile(self, program: programs.Program, file: Path, library: str, log: Path) -> None:
        """Leave a Darshan log of a run without the accelerator."""
        log.unlink(missing_ok=True)
        darshan = {"DARSHAN_ENABLE_NONMPI": "1", "DXT_ENABLE_IO_TRACE": "1", "DARSHAN_LOGFILE": str(log.absolute())}
        darshan["DARSHAN_EXCLUDE_DIRS"] = "none"  # by default nothing below /dev is seen
        self._run(program, file, {**os.environ, **darshan, "LD_PRELOAD": library})

    def _run(self, program: programs.Program, file: Path, environment: Mapping[str, str]) -> str:
        command = [str(self._built / "synthetic"), str(file), *program.arguments]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def simulated_rows(library: Path, names: Sequence[str], each: int) -> list[dict[str, Any]]:
    """The same on the modelled storage, with its noise."""
    known = every_program()
    rows = []
    for name in names:
        replay = simulation.Replay(library, known[name], simulation.Storage())
        for one in [DEFAULT, None, *some_configurations(each, [*known].index(name))]:
            rows.append({"program": name, "configuration": one, "seconds": replay(one)})
    return rows


def measure_rows(machine: Machine, names: Sequence[str], each: int, workers: int, out: Path) -> None:
    """Real runs; rows are written as programs end, so that a campaign that is stopped can be used."""
    known = every_program()

    def of(name: str) -> None:
        with machine.file(known[name]) as file, out.open("a", encoding="utf-8") as written:
            for one in [DEFAULT, None, *some_configurations(each, [*known].index(name))]:
                row = {"program": name, "configuration": one, "seconds": machine.seconds(known[name], file, one)}
                written.write(json.dumps(row) + "\n")

    with ThreadPoolExecutor(workers) as pool:
        # One of each class before any has its second.
        list(pool.map(of, sorted(names, key=lambda name: (name[-2:], name))))


def trained(rows: Sequence[Mapping[str, Any]], logs: Path, kind: str) -> Any:
    """The model of a campaign, its programs described by their profiles."""
    from stripewise.engine.campaign.observing import with_profiles  # noqa: PLC0415
    from stripewise.models.registry import make_model  # noqa: PLC0415
    from stripewise.models.table import Schema, make_table  # noqa: PLC0415
    from stripewise.models.tunables import describe_schema  # noqa: PLC0415  loads the engine

    columns: list[dict[str, Any]] = [{"name": "smallread", "kind": "categorical", "values": [True, False]}]
    columns += [
        {"name": name, "kind": "ordinal", "scale": "log2", "values": values, "default": DEFAULT[name]}
        for name, values in VALUES.items()
    ]
    names = sorted({row["program"] for row in rows})
    schema = Schema.model_validate(
        {
            "name": "smallread",
            "objective": {"column": "seconds", "direction": "minimize", "unit": "s"},
            "context": [{"name": "program", "kind": "categorical", "values": names}],
            "parameter": columns,
        }
    )
    stack = ROOT / "examples" / "accelerator" / "smallread.toml"
    flat = [
        {"program": row["program"], "seconds": row["seconds"], "smallread": row["configuration"] is not None}
        | (row["configuration"] or DEFAULT)
        for row in rows
    ]
    table, missing = with_profiles(make_table(describe_schema(schema, [str(stack)]), flat), "program", logs)
    if missing:
        raise SystemExit(f"not all profiles show {', '.join(missing)}: were traces switched on?")
    return make_model(kind).fit(table)


def prescribed(model: Any, seen: Any) -> Configuration:
    """The configuration that a model gives a program by its profile."""
    from stripewise.models.prescribe.prescriber import Prescriber  # noqa: PLC0415  loads the engine
    from stripewise.models.prescribe.request import PrescriptionRequest  # noqa: PLC0415

    request = PrescriptionRequest(seen.workload).with_observed(seen, model.domain)
    found = Prescriber(model).prescribe(request)
    values = {change.name: change.value for change in found.changes}
    if values.pop("smallread", True) is False:
        return None
    return {**DEFAULT, **{name: int(value) for name, value in values.items()}}


def genetic(replay: simulation.Replay, program: programs.Program) -> dict[str, int]:
    """The end of the study's search: 100 runs over all 707,265 configurations."""
    from benchmarks.studies.searches import play  # noqa: PLC0415  loads the engine

    from stripewise.catalogue.space import Space  # noqa: PLC0415
    from stripewise.catalogue.stack import load_stack  # noqa: PLC0415
    from stripewise.requests.objective import Objective  # noqa: PLC0415

    stack = load_stack(str(ROOT / "examples" / "accelerator" / "smallread.toml"))
    space = Space.bind(stack.parameters, stack.constraints, stack.derived, {}, stack.knowledge)
    found = play(
        space, Objective("seconds", "minimize", "s"), replay, replay.exact, sampler="shaman", runs=100,
        seed=program.seed,
    )  # fmt: skip
    return {name: int(found.chosen[name]) for name in VALUES}


def run_simulated(
    logs: Path, each: int, kind: str, search: bool, measured: list[dict[str, Any]] | None
) -> dict[str, Any]:
    """The campaign, unless it was measured, and what is prescribed for the programs left out."""
    from stripewise.observe.darshan_logs import read_logs  # noqa: PLC0415  loads the engine
    from stripewise.observe.workload import describe_workload  # noqa: PLC0415

    known = every_program()
    others = left_out([*known])
    grid = [dict(zip(VALUES, row, strict=True)) for row in itertools.product(*VALUES.values())]
    with tempfile.TemporaryDirectory() as folder:
        library = simulation.build(Path(folder)) / "libreplay.so"
        rows = measured or simulated_rows(library, [name for name in known if name not in others], each)
        model = trained(rows, logs, kind)
        shown = {r.path.stem: r.activity for r in read_logs([logs / f"{name}.darshan" for name in others])}
        found = {}
        for name in others:
            activity = shown[name]
            if activity is None:
                raise SystemExit(f"the log of {name} cannot be read")
            replay = simulation.Replay(library, known[name], simulation.Storage())
            configurations = {
                "default": DEFAULT,
                "prescribed": prescribed(model, describe_workload(activity)),
            }
            if search:
                configurations["genetic"] = genetic(replay, known[name])
            configurations["oracle"] = min([*grid, None, *configurations.values()], key=replay.exact)
            seconds = {which: replay.exact(one) for which, one in configurations.items()}
            found[name] = {"configurations": configurations, "seconds": {**seconds, "none": replay.exact(None)}}
            print(name, {k: round(v, 3) for k, v in found[name]["seconds"].items()}, file=sys.stderr, flush=True)
    about = {"runs": len(rows), "configurations": len(grid), "model": kind, "programs": len(known) - len(others)}
    return {"campaign": about, "programs": found}


def pooled(which: str, asked: Mapping[str, Any], runs: Mapping[str, list[float]]) -> list[float]:
    """Runs of a configuration under all its names: where the default is prescribed, the two cannot differ."""
    return [value for other in asked if asked[other] == asked[which] for value in runs[other]]


def run_real(simulated: Mapping[str, Any], scratch: Path, count: int, repeats: int, workers: int) -> dict[str, Any]:
    """Real runs of what was found, in turns; medians of the repeats."""
    known = every_program()
    # One of each class before any has its second.
    names = sorted(simulated["programs"], key=lambda name: (name[-2:], name))[:count]

    def of(name: str) -> dict[str, Any]:
        asked = {**simulated["programs"][name]["configurations"], "none": None}
        runs: dict[str, list[float]] = {which: [] for which in asked}
        with machine.file(known[name]) as file:
            machine.seconds(known[name], file, None)
            for _ in range(repeats):
                for which, configuration in asked.items():
                    runs[which].append(machine.seconds(known[name], file, configuration))
        seconds = {which: statistics.median(pooled(which, asked, runs)) for which in runs}
        print(name, {k: round(v, 3) for k, v in seconds.items()}, file=sys.stderr, flush=True)
        return {"runs": runs, "seconds": seconds}

    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(scratch, simulation.build(Path(folder)))
        # Runs wait most of the time: some at once hardly disturb one another.
        with ThreadPoolExecutor(workers) as pool:
            return {"repeats": repeats, "programs": dict(zip(names, pool.map(of, names), strict=True))}


def summary(document: Mapping[str, Any]) -> dict[str, Any]:
    """Shares of the oracle's saving over the default, and the time over the default's."""
    every = [entry["seconds"] for entry in document["programs"].values()]
    found: dict[str, Any] = {"programs": len(every)}
    for which in [which for which in ("prescribed", "genetic", "none") if which in every[0]]:
        # The best of all that ran counts as the oracle: in real runs that is not always the simulated one.
        shares = [(s["default"] - s[which]) / (s["default"] - min(s.values())) for s in every]
        over = [s[which] / s["default"] for s in every]
        found[which] = {
            "share_median": statistics.median(shares),
            "share_least": min(shares),
            "time_over_default_median": statistics.median(over),
            "time_over_default_worst": max(over),
            "slower_by_2_percent": sum(ratio > 1.02 for ratio in over),
        }
    return found


def main() -> None:
    """Run a part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("profile", "simulated", "campaign", "real"))
    parser.add_argument("source", nargs="?", type=Path, help="of real: what simulated has written")
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--campaign", type=Path, help="of simulated: the real runs to learn from")
    parser.add_argument("--darshan", help="libdarshan.so")
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--each", type=int, default=60, help="configurations of a program in the campaign")
    parser.add_argument("--search", action="store_true", help="also the study's search, 100 runs of each program")
    parser.add_argument("--model", default="boosting")
    parser.add_argument("--programs", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.part == "profile":
        profile_all(given.logs, given.darshan, given.scratch)
        return
    if given.part == "campaign":
        names = [*every_program()]
        others = left_out(names)
        with tempfile.TemporaryDirectory() as folder:
            machine = Machine(given.scratch, simulation.build(Path(folder)))
            measure_rows(machine, [n for n in names if n not in others], given.each, given.workers, given.out)
        return
    if given.part == "simulated":
        measured = (
            None if given.campaign is None else [json.loads(line) for line in given.campaign.open(encoding="utf-8")]
        )
        document = run_simulated(given.logs, given.each, given.model, given.search, measured)
    else:
        source = json.loads(given.source.read_text("utf-8"))
        document = run_real(source, given.scratch, given.programs, given.repeats, given.workers)
    document = {**document, "summary": summary(document)}
    if given.out:
        given.out.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    print(json.dumps(document["summary"], indent=1))


def profile_all(logs: Path, library: str, scratch: Path) -> None:
    """One run of each program without the accelerator."""
    logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(scratch, simulation.build(Path(folder)))
        for name, program in every_program().items():
            with machine.file(program) as file:
                machine.profile(program, file, library, logs / f"{name}.darshan")


if __name__ == "__main__":
    main()
