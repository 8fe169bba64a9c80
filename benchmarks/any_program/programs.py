"""Real programs without MPI against exhaustive sweeps of what can be set, on slow storage.

    python -m benchmarks.any_program programs --images /var/tmp --out programs.json [NAME ...]
    python -m benchmarks.any_program programs --folder CLIENT1 --other CLIENT2 --out programs-cephfs.json [NAME ...]
    python -m benchmarks.any_program programs --show programs.json
    python -m benchmarks.any_program programs --cases loaders.toml --checkouts FOLDER --python PYTHON --out loaders.json
    python -m benchmarks.any_program programs --cases loaders.toml ... --latency 10 --out loaders-latency.json

For each program of ``programs.toml``: every combination of its settings in interleaved rounds; then ``stripewise tune``
with its proof; then the default, the best of the sweep and tune's answer in interleaved rounds, from which the figures
come, so that the best of the sweep is not the luckiest. What the program writes and prints is compared byte for byte
over all runs but tune's own.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import re
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.http_store import http_store
from benchmarks.real_programs.launching import carry_out, interleaved
from benchmarks.slow_disk import slow_disk
from benchmarks.slow_store import COLD, slow_store

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.space import Space
from stripewise.engine.space import Circumstances, bind_space
from stripewise.launch import Outcome
from stripewise.observe.objectives import objective_of
from stripewise.requests.experiment import OWN_LAYER, Experiment

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORTH = 1.1
"""Gain of the sweep from which tune should find and prove one."""
NEAR = 0.95
"""Part of the sweep's best that tune's answer should reach."""
_EMPTY = "dd if={} iflag=nocache count=0 status=none"


@dataclass
class Case:
    """A program as ``programs.toml`` describes it, in its folder.

    Attributes
    ----------
    name, about : str
    folder : Path
        Where it runs.
    experiment : Experiment
        What ``stripewise tune`` would be given.
    prepare : list of str
        Shell lines that make its input.
    outputs : list of str
        Files whose bytes count.
    printed : str
        Pattern of the part of standard output that counts; all of it where empty.
    folders : list of str
        Of its input.
    served : str
        The folder that it reads by HTTP.
    seen : set of str
        Digests of what the runs wrote and printed.
    """

    name: str
    about: str
    folder: Path
    experiment: Experiment
    prepare: list[str]
    outputs: list[str]
    printed: str
    folders: list[str] = field(default_factory=list)
    served: str = ""
    seen: set[str] = field(default_factory=set)

    @classmethod
    def read(
        cls,
        name: str,
        folder: Path,
        other: Path | None = None,
        *,
        cases: str = "programs.toml",
        checkouts: Path | None = None,
        python: str = sys.executable,
        url: str = "",
        store: bool = False,
    ) -> Case:
        """Read a case, with the places put in.

        Parameters
        ----------
        name : str
        folder : Path
            Where it runs.
        other : Path, optional
            The same, as another client of the file system sees it.
        cases : str
            The file of cases, beside this one.
        checkouts : Path, optional
            Where the user put the repositories that cases name.
        python : str
            An interpreter that has the libraries which the programs need.
        url : str
            Where a folder is served by HTTP.
        store : bool
            Whether folders of input lie on a store with a latency.
        """
        given = tomllib.loads((HERE / cases).read_text("utf-8"))[name]
        given.pop("file_system", None)
        places = {"{source}": f"{HERE}/sources", "{root}": str(ROOT), "{python}": python, "{checkouts}": str(checkouts)}
        places["{url}"] = url

        def put_in(text: str) -> str:
            for place, path in places.items():
                text = text.replace(place, path)
            return text

        command = given.pop("command")
        words = shlex.split(command) if isinstance(command, str) else command
        # CephFS takes the cached pages of a file from a client as soon as another client opens it to write.
        empty = f"dd if=/dev/null of={other}/{{}} conv=notrunc oflag=append status=none" if other else _EMPTY
        cold = [empty.format(file) for file in given.pop("cold", [])]
        folders, served = given.pop("cold_folders", []), given.pop("served", "")
        forget = f"test ! -e {{}}/{COLD}" if store else put_in("{python} -S {source}/cold.py ") + "{}"
        cold += [forget.format(one) for one in folders]
        about, outputs, printed = given.pop("about"), given.pop("outputs", []), given.pop("printed", "")
        prepare = [put_in(line) for line in given.pop("prepare", [])]
        given |= {"name": name, "command": [put_in(word) for word in words]}
        given["hooks"] = {"before": cold, "delete": given.pop("delete", [])}
        experiment = Experiment.model_validate(given)
        return cls(name, about, folder, experiment, prepare, outputs, printed, folders, served)

    def space(self) -> Space:
        """What can be set: hints of MPI-IO do not reach these programs."""
        layers = {OWN_LAYER, *self.experiment.stacks}

        def lost(parameter: Parameter) -> str:
            return "" if parameter.layer in layers else "the program has no MPI"

        return bind_space(self.experiment, Circumstances(self.experiment.workload, None, lost=lost)).space

    def note(self, outcome: Outcome) -> None:
        """Keep the digest of what a run wrote and printed."""
        assert outcome.folder is not None
        told = (outcome.folder / "stdout").read_text("utf-8")
        if self.printed:
            told = "\n".join(re.findall(self.printed, told))
        total = hashlib.sha256(told.encode())
        for name in self.outputs:
            total.update((self.folder / name).read_bytes())
        self.seen.add(total.hexdigest())


def every(space: Space) -> dict[str, Configuration]:
    """Give every combination that sets something different, by a name; the default comes first."""
    names, values = space.names, [parameter.values for parameter in space.parameters]
    points = [space.default, *(dict(zip(names, one, strict=True)) for one in itertools.product(*values))]
    levels = space.levels(points)
    folded = space.fold(levels[space.feasible(levels)])
    first = np.sort(np.unique(folded, axis=0, return_index=True)[1])
    found = [space.configuration(row) for row in folded[first]]
    return {"default" if number == 0 else str(number): one for number, one in enumerate(found)}


def rounds(case: Case, arms: Mapping[str, Configuration], count: int, folder: Path) -> dict[str, list[float]]:
    """Measure configurations in interleaved rounds."""
    values: dict[str, list[float]] = {name: [] for name in arms}
    for arm, outcome, value in interleaved(case.experiment, case.space(), arms, count, folder):
        if value is None:
            raise SystemExit(f"{case.name}: a run failed: {outcome.reason}")
        case.note(outcome)
        values[arm].append(value)
    return values


def measure(case: Case, options: argparse.Namespace, state: Path) -> dict[str, Any]:
    """Sweep, tune, and compare."""
    space = case.space()
    maximize = objective_of(case.experiment.objective).maximize
    arms = every(space)
    swept = rounds(case, arms, options.repeats, state / "sweep")
    medians = {name: statistics.median(values) for name, values in swept.items()}
    best = (max if maximize else min)(medians, key=lambda name: medians[name])
    result, _ = carry_out(case.experiment, f"sqlite:///{state}/tune.db", state)
    answer = space.canonical(result.best.configuration) if result.confirmed else space.default
    chosen = next((name for name, one in arms.items() if one == answer), None)
    if chosen is None:
        raise SystemExit(f"{case.name}: tune's answer is not in the sweep: {dict(answer)}")
    last = rounds(case, {name: arms[name] for name in {"default", best, chosen}}, options.last, state / "last")
    final = {name: statistics.median(values) for name, values in last.items()}

    def gain(name: str) -> float:
        return final[name] / final["default"] if maximize else final["default"] / final[name]

    return {
        "about": case.about,
        "configurations": [{k: v for k, v in one.items() if v != space.default[k]} for one in arms.values()],
        "unit": objective_of(case.experiment.objective).unit,
        "sweep": swept,
        "runs": result.runs,
        "confirmed": result.confirmed,
        "speedup": result.speedup if result.confirmed else None,
        "interval": result.as_json().get("speedup_ci95"),
        "best": best,
        "chosen": chosen,
        "last": last,
        "gain_best": round(gain(best), 4),
        "gain_chosen": round(gain(chosen), 4),
        "outputs": len(case.seen),
        "runs_compared": sum(len(values) for values in [*swept.values(), *last.values()]),
    }


def show(rows: Mapping[str, Any]) -> None:
    """Print the table of the page, and what was missed."""
    print("| program | settings | sweep's best | tune's answer | proven | of the best | same bytes |")
    print("|---|---:|---|---|---|---:|---|")
    for name, row in rows.items():

        def told(arm: str, row: Any = row) -> str:
            configuration = row["configurations"][0 if arm == "default" else int(arm)]
            return ", ".join(f"`{key}={value}`" for key, value in configuration.items()) or "default"

        part = row["gain_chosen"] / row["gain_best"]
        interval = row["interval"]
        proven = f"{row['speedup']:.2f} ({interval[0]:.2f} to {interval[1]:.2f})" if row["confirmed"] else "no gain"
        print(
            f"| {name} | {len(row['configurations'])} | {row['gain_best']:.2f}: {told(row['best'])} "
            f"| {row['gain_chosen']:.2f}: {told(row['chosen'])} | {proven} | {100 * part:.0f}% "
            f"| {'yes' if row['outputs'] == 1 else 'NO'}, {row['runs_compared']} runs |"
        )
    gains = {name for name, row in rows.items() if row["gain_best"] >= WORTH}
    met = {name for name in gains if rows[name]["confirmed"]}
    near = {name for name, row in rows.items() if row["gain_chosen"] >= NEAR * row["gain_best"]}
    wrong = {name for name, row in rows.items() if row["confirmed"] and row["gain_chosen"] <= 1}
    print(
        f"\nThe sweep shows at least 10% in {len(gains)} of {len(rows)} programs; proven in {len(met)} of these.",
        end=" ",
    )
    print(f"The answer is within 95% of the sweep's best in {len(near)} of {len(rows)}.", end=" ")
    print(f"A gain was claimed without one in {len(wrong)}.")


def main(arguments: list[str] | None = None) -> None:
    """Measure, or show."""
    first = argparse.ArgumentParser(add_help=False)
    first.add_argument("--cases", default="programs.toml")
    cases = tomllib.loads((HERE / first.parse_known_args(arguments)[0].cases).read_text("utf-8"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(cases)}; default: all that can run")
    parser.add_argument("--folder", type=Path, help="storage that is there, instead of a slow device")
    parser.add_argument("--other", type=Path, help="the same by another client of CephFS: empties caches")
    parser.add_argument("--images", type=Path, default=Path("/var/tmp"), help="where the device's image lies")
    parser.add_argument("--requests", type=int, default=200, help="a second, of reads and of writes")
    parser.add_argument("--megabytes", type=int, default=100, help="a second, of reads and of writes")
    parser.add_argument(
        "--latency", type=float, help="milliseconds of each open and read: a store instead of the device"
    )
    parser.add_argument("--repeats", type=int, default=3, help="rounds of the sweep")
    parser.add_argument("--last", type=int, default=7, help="rounds of the comparison")
    parser.add_argument("--cases", default="programs.toml", help="the file of cases, beside this one")
    parser.add_argument("--checkouts", type=Path, help="where the repositories are that cases name")
    parser.add_argument("--python", default=sys.executable, help="has the libraries that the programs need")
    parser.add_argument("--out", type=Path, default=HERE / "programs.json")
    parser.add_argument("--show", type=Path)
    given = parser.parse_args(arguments)
    # Ended from outside, it still takes its device down.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    if given.show:
        show(json.loads(given.show.read_text("utf-8")))
        return
    needs = {"file_system": given.folder, "served": given.latency}
    able = [name for name, case in cases.items() if all(has for key, has in needs.items() if key in case)]
    for name in given.names or able:
        with _storage(given) as (storage, state):
            folder = storage / name
            folder.mkdir()
            other = given.other and given.other / storage.name / name
            given_places = {"cases": given.cases, "checkouts": given.checkouts, "python": given.python}
            port = free_port()
            given_places["url"] = f"http://127.0.0.1:{port}"
            case = Case.read(name, folder, other, **given_places, store=given.latency is not None)
            for line in case.prepare:
                subprocess.run(["bash", "-c", line], cwd=folder, check=True)
            with ExitStack() as undo:
                for one in case.folders if given.latency is not None else ():
                    undo.enter_context(slow_store(folder / one, given.latency / 1000, given.megabytes * 10**6))
                if case.served:
                    served = folder / case.served, port, given.latency / 1000, given.megabytes * 10**6
                    undo.enter_context(http_store(*served))
                undo.callback(os.chdir, ROOT)
                os.chdir(folder)
                row = measure(case, given, state)
        rows = json.loads(given.out.read_text("utf-8")) if given.out.exists() else {}
        rows[name] = row
        given.out.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
        print(f"{name}: best {row['gain_best']}, answer {row['gain_chosen']}, {row['outputs']} outputs", flush=True)


def free_port() -> int:
    """Give a port of this host on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def _storage(given: argparse.Namespace) -> Iterator[tuple[Path, Path]]:
    """Give a folder on the storage that is measured, and one for what belongs to no program."""
    if given.folder is None and given.latency is None:
        limits = {f"{way}_iops": given.requests for way in ("read", "write")}
        limits |= {f"{way}_bps": given.megabytes * 10**6 for way in ("read", "write")}
        with tempfile.TemporaryDirectory(prefix="slow-", dir=given.images) as name:
            home = Path(name)
            (home / "state").mkdir()
            with slow_disk(home, limits, size=2 << 30, sync=True) as disk, disk.joined():
                yield disk.folder, home / "state"
        return
    with (
        tempfile.TemporaryDirectory(dir=given.folder or given.images) as storage,
        tempfile.TemporaryDirectory(dir=given.images) as state,
    ):
        yield Path(storage), Path(state)


if __name__ == "__main__":
    main()
