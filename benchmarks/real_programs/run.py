"""Does tune find the best settings of real programs, on a machine that changes? Programs are given built.

run.py record ior-strided --program IOR --mpiexec mpiexec --label mpich --folder /dev/shm --load-on 20
run.py replay RECORD.json ...         20 searches of each recorded sweep, with the recorded drift
run.py tune ior-strided RECORD.json --program IOR --mpiexec mpiexec --folder /dev/shm
run.py report RECORD.json ...         one Markdown table
run.py bound RECORD.json ...          how often a tuner that knows the best would prove its gain
run.py search RECORD.json ...         how many runs a search needs to come close to the best
run.py answers RECORD.json ...        whether each setting in an answer earns its place
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.space import Space
from stripewise.catalogue.workload import Workload
from stripewise.engine.confirmation import Decision, assess
from stripewise.engine.space import Circumstances, bind_space
from stripewise.observe.from_report import activity_of
from stripewise.observe.objectives import objective_of
from stripewise.observe.workload import workload_of
from stripewise.requests.experiment import Experiment
from stripewise.result import Result
from stripewise.runners.registry import make_runner
from stripewise.search.base import make_sampler
from stripewise.trial import State

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from answers import TITLES, Tally  # noqa: E402
from launching import carry_out, interleaved, launch  # noqa: E402
from load import planted_load  # noqa: E402
from searching import runs_to_within  # noqa: E402
from sweep import Case, Record, SweepReplay, configuration_of  # noqa: E402


def observe(experiment: Experiment, folder: Path) -> tuple[Workload, str | None, str]:
    """Run the program once to see its workload, its MPI-IO and its MPI."""
    with make_runner(experiment, folder) as runner:
        preflight = runner.prepare()
        outcome = launch(runner, experiment, Space(()), Configuration({}), 0)
    if outcome.state is not State.FINISHED or outcome.report is None:
        sys.exit(f"{' '.join(experiment.command)} does not run: {outcome.reason or 'it wrote no report'}")
    workload = experiment.workload.merged(workload_of(activity_of(outcome.report, "report.json"))).merged(
        preflight.workload
    )
    return workload, outcome.report.mpi.io or preflight.io, str(preflight.environment.get("mpi"))


def record(options: argparse.Namespace, case: Case, folder: Path) -> None:
    """Run the sweep in interleaved rounds and keep every value with its time."""
    workload, io, mpi = observe(case.experiment, folder)
    space = bind_space(case.experiment, Circumstances(workload, io, mpi or "")).space
    arms: dict[str, Configuration] = {}
    for entry in case.sweep:
        configuration = configuration_of(space, entry)
        if not any(same(space, configuration, known) for known in arms.values()):
            arms["default" if not arms else str(len(arms))] = configuration
    objective = objective_of(case.experiment.objective)
    used = {name for entry in case.sweep for name in entry if name in space.names}
    about = {
        "case": case.name,
        "label": options.label,
        "load": {"on": options.load_on, "off": options.load_off} if options.load_on else options.beside,
        "folder": file_system(workload, options.folder),
        "machine": f"{os.cpu_count()} cores, {options.beside}",
        "mpi": mpi,
        "io": io,
        "stacks": [options.stack],
        "objective": {"name": objective.name, "direction": objective.direction, "unit": objective.unit},
        "workload": workload.model_dump(exclude_none=True, mode="json"),
        "sweep": [{name: arm[name] for name in sorted(used)} for arm in arms.values()],
    }
    out = options.out / f"{case.name}.{options.label}.json"
    place = {name: number for number, name in enumerate(arms)}
    runs: list[tuple[int, float, float, float | None]] = []
    first, begun = None, time.monotonic()
    with planted_load(folder, options.load_on, options.load_off, options.writers):
        measured = interleaved(case.experiment, space, arms, options.rounds, folder, control=options.control)
        for arm, outcome, value in measured:
            first = outcome.started if first is None else first
            runs.append((place[arm], round(outcome.started - first, 2), round(outcome.elapsed, 3), digits(value)))
            if time.monotonic() - begun > options.seconds:
                break
    if all(value is None for *_, value in runs):
        raise SystemExit(f"{case.name}: none of {len(runs)} runs gave {objective.name}: run the command by hand")
    kept = Record(about, runs)
    kept.write(out)
    print(f"{out.name}: {len(runs)} runs of {len(arms)} configurations, drift {kept.drift:.2f}", flush=True)


def file_system(workload: Workload, folder: Path) -> str:
    """What the program's files were on."""
    return workload.file_system or ("memory" if str(folder).startswith("/dev/shm") else "disk")


def same(space: Space, a: Configuration, b: Configuration) -> bool:
    """Whether two configurations set the same."""
    first, second = space.fold(space.levels([a, b]))
    return bool(np.array_equal(first, second))


def digits(value: float | None) -> float | None:
    """A value with five digits."""
    return None if value is None else float(f"{value:.5g}")


def search_record(kept: Record, seed: int, budget: int, *, spend_all: bool = False) -> Result:
    """Search a recorded sweep as `tune` would; nothing is launched."""
    objective = kept.about["objective"]
    experiment = Experiment.model_validate(
        {
            "command": ["-"],
            "objective": {"name": objective["name"], "direction": objective["direction"]},
            "budget": {"runs": budget, "spend_all": spend_all},
            "seed": seed,
        }
    )
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        result, _ = carry_out(experiment, f"sqlite:///{folder}/replay.db", Path(folder), SweepReplay(kept, seed))
    return result


def judge_answers(options: argparse.Namespace) -> None:
    """Print how many settings of the answers to searches of recorded sweeps are not needed by the whole record."""
    print(f"| {TITLES} |\n|---|{'--:|' * 8}")
    everything = Tally()
    for path in sorted(options.records):
        kept, own = Record.read(path), Tally()
        for seed in range(options.seeds):
            own.add(kept, search_record(kept, seed, options.budget))
        everything.merge(own)
        print(own.row(path.stem), flush=True)
    print(everything.row("all"))
    for name, times in everything.names.most_common():
        print(f"{times} times not shown to be needed: {name}")


def replay(options: argparse.Namespace, path: Path) -> None:
    """Search the recorded sweep with several seeds; nothing is launched."""
    kept = Record.read(path)
    default = kept.share_of_best(kept.space.default)
    shares, launches, confirmed, false = [], [], 0, 0
    for seed in range(options.seeds):
        result = search_record(kept, seed, options.budget, spend_all=options.spend_all)
        share = kept.share_of_best(chosen(result)) if result.confirmed else default
        shares.append(round(share, 4))
        launches.append(result.runs)
        confirmed += result.confirmed
        false += bool(result.confirmed and share < default)
    kept.about["replay"] = {
        "budget": options.budget,
        "shares": shares,
        "launches": launches,
        "confirmed": confirmed,
        "false": false,
    }
    kept.write(path)
    found = f"median {statistics.median(shares):.3f} of the best, worst {min(shares):.3f}"
    print(f"{path.name}: {statistics.median(launches):g} launches, {found}", flush=True)


def chosen(result: Result) -> Configuration:
    """The configuration that an experiment recommends."""
    return Configuration(result.best.configuration)


def tune(options: argparse.Namespace, case: Case, folder: Path) -> None:
    """Tune the program itself, then measure the answer, the sweep's best and the default in interleaved rounds."""
    kept = Record.read(options.record)
    experiment = case.experiment.model_copy(
        update={"budget": case.experiment.budget.model_copy(update={"runs": options.budget}), "seed": options.seed}
    )
    with planted_load(folder, options.load_on, options.load_off, options.writers):
        result, _ = carry_out(experiment, f"sqlite:///{folder}/tune.db", folder)
        space = bind_space(experiment, Circumstances(result.workload, kept.about["io"], kept.about["mpi"] or "")).space
        best = max(kept.about["sweep"], key=kept.share_of_best)
        arms = {
            "default": space.default,
            "sweep": configuration_of(space, best),
            "tune": chosen(result) if result.confirmed else space.default,
        }
        values: dict[str, list[float]] = {name: [] for name in arms}
        for arm, _, value in interleaved(experiment, space, arms, options.rounds, folder / "pairs"):
            if value is not None:
                values[arm].append(value)
    # Arms that set the same are one configuration: its median is that of all its runs.
    medians = {
        name: statistics.median([v for other in arms if same(space, arms[name], arms[other]) for v in values[other]])
        for name in arms
    }
    share = medians["tune"] / medians["sweep"] if kept.objective.maximize else medians["sweep"] / medians["tune"]
    kept.about.setdefault("tuned", []).append(
        {
            "seed": options.seed,
            "budget": options.budget,
            "runs": result.runs,
            "confirmed": result.confirmed,
            "speedup": result.speedup,
            "chosen": {k: v for k, v in arms["tune"].items() if v != space.default[k]},
            "medians": {name: digits(value) for name, value in medians.items()},
            "share": round(share, 4),
        }
    )
    kept.write(options.record)
    print(f"{options.record.name}: tuned within {result.runs} runs to {share:.3f} of the sweep's best", flush=True)


def report(paths: list[Path]) -> None:
    """Print a Markdown table of all records that were replayed, and a line over all."""
    titles = ["program", "MPI", "files", "load", "configurations", "runs", "best / default", "drift", "noise", "proven"]
    titles += ["median", "within 5%", "within 10%"]
    print(f"| {' | '.join(titles)} |\n|---|---|---|---|{'--:|' * (len(titles) - 4)}")
    everything: list[float] = []
    for path in sorted(paths):
        kept = Record.read(path)
        about, replayed = kept.about, kept.about["replay"]
        everything += replayed["shares"]
        load = about["load"]
        name = about["mpi"] + (" (OMPIO)" if about["io"] == "ompio" else "")
        cells = [
            about["case"],
            name if not name.startswith("Open MPI") or about["io"] == "ompio" else f"{name} (ROMIO)",
            about["folder"],
            load if isinstance(load, str) else f"planted, {load['on']:g} s on, {load['off']:g} s off",
            str(len(about["sweep"])),
            str(len(kept.runs)),
            f"{1 / kept.share_of_best(kept.space.default):.2f}",
            f"{kept.drift:.2f}",
            f"{kept.noise:.2f}",
            f"{replayed['confirmed']} of {len(replayed['shares'])}",
            *shares_of(replayed["shares"]),
        ]
        print(f"| {' | '.join(cells)} |")
    print(f"| all |{' |' * (len(titles) - 4)} {' | '.join(shares_of(everything))} |")


def bound(paths: list[Path], pairs: int, replays: int) -> None:
    """Print how often the best of each sweep is proven in so many pairs: no search can do better with the launches."""
    for path in paths:
        kept, rng = Record.read(path), np.random.default_rng(1)
        default = int(kept.space.index(kept.space.levels([kept.space.default]))[0])
        best = int(np.argmax(kept.truth) if kept.objective.maximize else np.argmin(kept.truth))
        proven = 0
        for _ in range(replays):
            clock = float(rng.uniform(0, 2 * kept.seconds))
            values: dict[int, list[float]] = {0: [], 1: []}
            for _ in range(pairs):
                for arm in rng.permutation(2).tolist():
                    now = kept.seconds - abs(clock % (2 * kept.seconds) - kept.seconds)
                    value, seconds = kept.at(best if arm else default, now, rng)
                    values[arm].append(value)
                    clock += seconds
            found = assess(values[0], values[1], maximize=kept.objective.maximize, most_pairs=pairs, final=True)
            proven += found.decision is Decision.PROVEN
        gain = 1 / kept.share_of_best(kept.space.default)
        print(f"{path.name}: {gain:.2f} times the default is proven in {proven / replays:.0%} of {replays}", flush=True)


def search(paths: list[Path], samplers: list[str], seeds: int, budget: int, share: float) -> None:
    """Print how many runs searches need to reach a share of the best; one that does not counts twice its budget."""
    print("| program | files | configurations | best / default | noise | search | median | mean | at most 6 |")
    print(f"|---|---|{'--:|' * 3}---|{'--:|' * 3}")
    everything: dict[str, list[int]] = {name: [] for name in samplers}
    for path in sorted(paths):
        kept = Record.read(path)
        gain = 1 / kept.share_of_best(kept.space.default)
        about = f"{kept.about['case']} | {kept.about['folder']} | {len(kept.about['sweep'])} | {gain:.2f}"
        for name in samplers:
            runs = [
                runs_to_within(kept, make_sampler(name), seed, budget, share) or 2 * budget for seed in range(seeds)
            ]
            everything[name] += runs
            print(f"| {about} | {kept.noise:.2f} | {name} | {runs_of(runs)} |", flush=True)
    for name, runs in everything.items():
        print(f"| all | | | | | {name} | {runs_of(runs)} |")


def runs_of(runs: list[int]) -> str:
    """Median and mean of the runs, and how many searches need at most six."""
    return f"{np.median(runs):g} | {np.mean(runs):.1f} | {np.mean(np.array(runs) <= 6):.0%}"


def shares_of(shares: list[float]) -> list[str]:
    """Median of the shares of the best, and how many are close to it."""
    found = np.array(shares)
    return [f"{np.median(found):.3f}", f"{np.mean(found >= 0.95):.0%}", f"{np.mean(found >= 0.9):.0%}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    real = argparse.ArgumentParser(add_help=False)
    real.add_argument("case", help="its name in the file of cases")
    real.add_argument("--cases", type=Path, default=HERE / "programs.toml", help="a file like this one")
    real.add_argument("--program", required=True, help="the built program")
    real.add_argument("--data", default="", help="its input file, if the case names {data}")
    real.add_argument("--mpiexec", default="mpiexec", help="launcher with its options")
    real.add_argument("--stack", default="romio", help="whose settings are swept: romio or ompio")
    real.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="where the files are written")
    real.add_argument("--load-on", type=float, default=0.0, help="seconds for which planted load is on; 0 for none")
    real.add_argument("--load-off", type=float, default=20.0, help="seconds for which it is off")
    real.add_argument("--writers", type=int, default=2, help="processes of the planted load")
    recording = commands.add_parser("record", parents=[real], help="run the sweep and keep its runs")
    recording.add_argument("--rounds", type=int, default=8)
    recording.add_argument("--seconds", type=float, default=600.0, help="end earlier, in the middle of a round")
    recording.add_argument("--control", type=int, default=4, help="run the default again after so many runs")
    recording.add_argument(
        "--beside", choices=["quiet", "shared"], default="quiet", help="whether other users work on the machine"
    )
    recording.add_argument("--label", required=True, help="of the MPI and the load, in the file's name")
    recording.add_argument("--out", type=Path, default=HERE / "results")
    tuning = commands.add_parser("tune", parents=[real], help="tune the program, and measure the answer")
    tuning.add_argument("record", type=Path)
    tuning.add_argument("--rounds", type=int, default=10)
    tuning.add_argument("--seed", type=int, default=0)
    replaying = commands.add_parser("replay", help="search recorded sweeps")
    replaying.add_argument("--seeds", type=int, default=20)
    replaying.add_argument("--spend-all", action="store_true", help="use the whole budget, as `tune --spend-all`")
    judging = commands.add_parser("answers", help="judge the settings of answers by the whole record")
    judging.add_argument("--seeds", type=int, default=5)
    for command in (tuning, replaying, judging):
        command.add_argument("--budget", type=int, default=40)
    bounding = commands.add_parser("bound", help="prove the best of recorded sweeps")
    bounding.add_argument("--pairs", type=int, default=18)
    bounding.add_argument("--replays", type=int, default=200)
    searching = commands.add_parser("search", help="count the runs of searches of recorded sweeps")
    searching.add_argument("--samplers", default="auto,random")
    searching.add_argument("--seeds", type=int, default=20)
    searching.add_argument("--budget", type=int, default=20)
    searching.add_argument("--share", type=float, default=0.95, help="of the best value, which is close enough")
    reporting = commands.add_parser("report", help="one table of all")
    for command in (replaying, judging, bounding, searching, reporting):
        command.add_argument("records", type=Path, nargs="+")
    options = parser.parse_args()
    if options.command == "report":
        return report(options.records)
    if options.command == "bound":
        return bound(options.records, options.pairs, options.replays)
    if options.command == "search":
        return search(options.records, options.samplers.split(","), options.seeds, options.budget, options.share)
    if options.command == "answers":
        return judge_answers(options)
    if options.command == "replay":
        for path in options.records:
            replay(options, path)
        return None
    with tempfile.TemporaryDirectory(prefix="real-programs-", dir=options.folder) as folder:
        case = Case.read(
            options.cases,
            options.case,
            program=options.program,
            mpiexec=options.mpiexec,
            folder=folder,
            stack=options.stack,
            data=options.data,
        )
        {"record": record, "tune": tune}[options.command](options, case, Path(folder))
    return None


if __name__ == "__main__":
    main()
