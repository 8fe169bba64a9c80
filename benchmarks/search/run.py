"""Race ``auto`` against other tools over measured tables, and write the result into the documentation.

    python benchmarks/search/run.py race --out RESULTS.jsonl [--seeds 20] [--budget 40] [--jobs 2] [--only auto,random]
        [--first 0] [--drift steps|ramp|bursts]
    python benchmarks/search/run.py report --out RESULTS.jsonl [--docs benchmarks/notes] [--page search]
        [--honesty HONESTY.json ...]
    python benchmarks/search/run.py compare --out RESULTS.jsonl --before EARLIER.jsonl

``race`` appends one line an episode and leaves out those already there, so it can be stopped and continued, and it goes
through the seeds one by one, so that whatever is there is a fair, smaller race. Needs the extra ``peers``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from multiprocessing import get_context
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
warnings.filterwarnings("ignore")

from transfer import prior_of_others  # noqa: E402

from stripewise.engine.race import DRIFTS, Drift, contestant, play  # noqa: E402
from stripewise.models.landscape import Landscape, list_landscapes  # noqa: E402
from stripewise.models.table import read_table  # noqa: E402

HERE = Path(__file__).resolve().parent
TABLES = HERE.parent / "data" / "tables"
LEAST_POINTS = 200
sys.path.insert(0, str(HERE))

OURS = ("auto", "random")
INFORMED = "auto-prior"
"""``auto`` with a prior learned from a table's other contexts: no rival of the others, who are told nothing."""
PEERS = (
    "optuna-tpe", "optuna-gp", "smac3", "nevergrad", "opentuner", "kernel-tuner-vndx", "kernel-tuner-greywolf",
)  # fmt: skip
"""``hebo`` and ``baco``, which need Pythons of their own (``--python``), race only if ``--only`` names them."""

_loaded: dict[str, list[Landscape]] = {}


def arenas(folder: Path) -> list[tuple[str, int]]:
    """Tables and contexts that are large enough: path and number of the context."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        for number, landscape in enumerate(list_landscapes(read_table(path))):
            if len(landscape.space.points) >= LEAST_POINTS:
                found.append((str(path), number))
    return found


def episode(path: str, number: int, name: str, seed: int, budget: int, drift: Drift | None) -> dict:
    warnings.filterwarnings("ignore")
    if path not in _loaded:
        _loaded.clear()
        _loaded[path] = list_landscapes(read_table(path))
    landscape = _loaded[path][number]
    if name in OURS:
        make = contestant(name)
    elif name == INFORMED:
        make = contestant("auto", prior=prior_of_others(read_table(path)))
    else:
        from peers import contestants  # noqa: PLC0415  the peers are an extra

        make = contestants(budget)[name]
    result = play(landscape, name, make, budget=budget, seed=seed, drift=drift).as_json()
    return {**result, "median": landscape.median, "direction": landscape.table.objective.direction}


def attempt(job: tuple) -> tuple[tuple, dict | str]:
    """Play an episode; a peer that breaks loses it, not the race."""
    try:
        return job, episode(*job)
    except Exception as error:
        return job, repr(error)


def key(result: dict) -> tuple:
    context = json.dumps(result["context"], sort_keys=True)
    return result["table"], context, result["sampler"], result["seed"], result["drift"]


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def run_race(options: argparse.Namespace) -> None:
    done = {key(result) for result in read(options.out)}
    names = options.only.split(",") if options.only else [*OURS, INFORMED, *PEERS]
    places = arenas(options.tables)
    if options.contexts:
        chosen = options.contexts.split(",")
        places = [place for place in places if f"{Path(place[0]).stem}:{place[1]}" in chosen]
    several = {path for path, _ in places if len(list_landscapes(read_table(path))) > 1}
    label = {}
    for path, number in places:
        landscape = list_landscapes(read_table(path))[number]
        label[path, number] = landscape.table.name, json.dumps(dict(landscape.context), sort_keys=True)
    jobs = [
        (path, number, name, seed, options.budget, options.drift)
        for seed in range(options.first, options.first + options.seeds)
        for path, number in places
        for name in names
        if (*label[path, number], name, seed, options.drift) not in done and (name != INFORMED or path in several)
    ]
    # New processes from time to time: some tools keep every search they ever made.
    with (
        options.out.open("a", encoding="utf-8") as stream,
        get_context("spawn").Pool(options.jobs, maxtasksperchild=100) as pool,
    ):
        for count, (job, result) in enumerate(pool.imap_unordered(attempt, jobs), 1):
            if isinstance(result, str):
                print(f"{job[2]} failed on {Path(job[0]).stem} with seed {job[3]}: {result}", file=sys.stderr)
                continue
            stream.write(json.dumps(result) + "\n")
            stream.flush()
            print(f"{count}/{len(jobs)} {job[2]} {Path(job[0]).stem} seed {job[3]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["race", "report", "compare"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tables", type=Path, default=TABLES)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--budget", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--drift", choices=DRIFTS, help="plant changes of the machine")
    parser.add_argument("--contexts", default="", help="only these, as TABLE:NUMBER separated by commas")
    parser.add_argument("--docs", type=Path, default=HERE.parent / "notes")
    parser.add_argument("--before", type=Path, help="an earlier race of the same samplers, seeds and tables")
    parser.add_argument("--page", default="search", help="name of the report")
    parser.add_argument("--honesty", type=Path, nargs="*", default=[], help="outputs of benchmarks/honesty/run.py")
    parser.add_argument("--python", nargs="*", default=[], help="TOOL=PATH, of hebo and baco: their own Pythons")
    options = parser.parse_args()
    os.environ.update({f"RACE_PYTHON_{tool.upper()}": path for tool, path in (p.split("=", 1) for p in options.python)})
    results = read(options.out)
    if options.what == "race":
        run_race(options)
    elif options.what == "compare":
        from report import compare  # noqa: PLC0415

        print(compare(read(options.before), results))
    elif any(result["drift"] for result in results):
        import drift  # noqa: PLC0415

        parts = [json.loads(path.read_text("utf-8")) for path in options.honesty]
        data = {"race": drift.condense(results), "honesty": parts}
        lines = ",\n".join(json.dumps(row) for row in data["race"])
        (HERE / "drift.json").write_text(f'{{"race": [\n{lines}\n],\n"honesty": {json.dumps(parts)}}}\n', "utf-8")
        (options.docs / "search-drift.md").write_text(drift.write_page(data), "utf-8")
    else:
        from report import write  # noqa: PLC0415

        write(results, options.docs, options.page)


if __name__ == "__main__":
    main()
