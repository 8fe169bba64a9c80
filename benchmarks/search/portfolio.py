"""A portfolio of what helped elsewhere, as the first points of a search: what it is worth on systems that it never saw.

    python benchmarks/search/portfolio.py make [--check]       # the members that ship, into the package
    python benchmarks/search/portfolio.py race --out FILE      # auto with it, and without
    python benchmarks/search/portfolio.py choice --out FILE    # what it would prescribe without a run
    python benchmarks/search/portfolio.py programs --out FILE  # auto on recorded sweeps of real programs
    python benchmarks/search/portfolio.py nodes --checkouts FOLDER --out FILE  # auto on several nodes
    python benchmarks/search/portfolio.py report FILE...       # the tables of docs/benchmarks/search-notes.md

A member is learned from each measured system under one MPI library, and from each pair of simulated sites
(``portfolio_sources.py``); ``stripewise.search.portfolio`` chooses by them. To judge it, the members of a system are
left out, or of an MPI library, or of both. Results are appended as they come.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tomllib
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import lightgbm
import numpy as np
from scipy.stats import spearmanr

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import simulated as simulated_tables  # noqa: E402
from lustre_sweeps import sweeps  # noqa: E402
from portfolio_members import Portfolio  # noqa: E402
from portfolio_sources import GIB, MIB, SITES, TABLES, Source, Target, everything, records, tables  # noqa: E402
from searching import runs_to_within  # noqa: E402

from stripewise.evaluation.race import Player, Recorded, SamplerPlayer, play  # noqa: E402
from stripewise.model.landscape import Landscape, landscapes  # noqa: E402
from stripewise.model.trees.ensemble import Trees  # noqa: E402
from stripewise.search.auto import AutoSampler  # noqa: E402
from stripewise.search.portfolio import shipped  # noqa: E402
from stripewise.search.portfolio.choice import Advice  # noqa: E402
from stripewise.search.portfolio.members import Members  # noqa: E402
from stripewise.search.priors import knowledge_prior  # noqa: E402
from stripewise.search.resampling import make_resampler  # noqa: E402
from stripewise.spec.experiment import Experiment  # noqa: E402
from stripewise.spec.stack import load_stack  # noqa: E402
from stripewise.spec.workload import Workload  # noqa: E402
from stripewise.tuning.space import bind_space  # noqa: E402

LEAST_POINTS = 200
LEAST_OF_NODES = 8
PLAN = 8
"""Runs that ``auto`` makes before a process is asked."""
TREES, LEAVES = 60, 8
WORTH = 0.01
SAME = 0.01
"""Mean difference of predictions (logarithms) up to which two files say the same."""


def learn(sources: Sequence[Source]) -> Portfolio:
    """Learn a member from each measured system and library, and from each pair of simulated sites."""
    measured = sorted({(one.system, one.library) for one in sources if not one.simulated})
    sites = sorted({(one.system, one.library) for one in sources if one.simulated})
    groups = [[one] for one in measured] + [sites[i : i + 2] for i in range(0, len(sites), 2)]
    names = [f"{' and '.join(system for system, _ in group)}, {group[0][1]}" for group in groups]
    boosters = [
        grow([one for one in sources if (one.system, one.library) in group], seed) for seed, group in enumerate(groups)
    ]
    simulated = tuple(group[0][1] == "simulated" for group in groups)
    members = Members(tuple(names), simulated, tuple(map(Trees.from_lightgbm, boosters)))
    shared = tuple(group[0][0] not in ("memory", "ext4") for group in groups)
    several = tuple(any((one.system, one.library) in group and one.nodes > 1 for one in sources) for group in groups)
    return Portfolio(members, shared, several)


def make(*, check: bool) -> None:
    """Write the members for several nodes into the package, or check that those there are what the sources give.

    On one machine the bytes are the same each time. With another LightGBM or processor the last digits may differ.
    """
    sources = everything()
    members = learn(sources).on_nodes()
    named = sorted({one.table for one in sources if not one.simulated and one.nodes > 1})
    told = []
    for name in named:
        about = tomllib.loads((TABLES / f"{name}.toml").read_text("utf-8"))
        told.append(f"{name}: {about['source']} ({about['license']})")
    told += [f"simulated site {name} (of this project)" for name in SITES]
    text = shipped.text_of(members, told, "python benchmarks/search/portfolio.py make")
    if not check:
        shipped.PLACE.write_text(text, "utf-8")
        return
    there, made = shipped.shipped(), shipped.parse(text, "what the sources give")
    same = (there.sources, there.members.groups) == (made.sources, made.members.groups)
    x = np.concatenate([one.x for one in sources if one.nodes > 1])
    if not same or np.abs(there.members.predict(x) - made.members.predict(x)).mean() > SAME:
        sys.exit(f"{shipped.PLACE} is not what the sources give: python benchmarks/search/portfolio.py make")


def grow(sources: Sequence[Source], seed: int) -> lightgbm.Booster:
    """Boosted trees of a group; each table counts as the root of its workloads."""
    x, y = np.concatenate([one.x for one in sources]), np.concatenate([one.y for one in sources])
    count = {table: sum(one.table == table for one in sources) for table in {one.table for one in sources}}
    weight = np.concatenate([np.full(len(one.y), count[one.table] ** -0.5 / len(one.y)) for one in sources])
    options = {
        "objective": "regression", "num_leaves": LEAVES, "learning_rate": 0.1, "min_data_in_leaf": 3, "seed": seed,
        "min_sum_hessian_in_leaf": 1e-9, "feature_fraction": 0.7, "bagging_fraction": 0.7, "bagging_freq": 1,
        "deterministic": True, "force_col_wise": True, "num_threads": 1, "verbosity": -1, "use_missing": False,
    }  # fmt: skip
    data = lightgbm.Dataset(x, y, weight=weight / weight.mean(), params=options)
    return lightgbm.train(options, data, TREES, keep_training_booster=True)


def left_out(known: Portfolio, target: Target, fold: str) -> Portfolio | None:
    """What is known without everything of the target's system, or MPI library, or of both; None if that is the same."""
    system, library = target.system, target.library
    if fold != "system" and library in ("unknown", "simulated"):
        return None

    def kept(group: str) -> bool:
        systems, _, under = group.partition(", ")
        same_system = fold in ("system", "both") and system in systems.split(" and ")
        return not (same_system or (fold in ("library", "both") and under == library))

    return known.only([kept(group) for group in known.members.groups])


def simulated_targets() -> list[Target]:
    """The tables of the simulated sites in the race."""
    found = []
    for name in simulated_tables.SITES:
        for one in landscapes(simulated_tables.table(name)):
            nodes = int(one.context["nodes"])
            facts = {
                "operation": "write", "collective": True, "layout": "strided", "file_system": "lustre", "nodes": nodes,
                "processes": 8 * nodes, "piece_size": one.context["piece_size"], "transfer_size": 4 * MIB,
                "file_size": 8 * GIB,
            }  # fmt: skip
            context = " ".join(f"{key}={value}" for key, value in one.context.items())
            table = one.table.name
            found.append(Target(name, "simulated", table, context, facts, one.space, one.space.points, one.truth, one))
    return found


def player(advice: Advice | None, landscape: Landscape, seed: int) -> Player:
    sampler = AutoSampler()
    sampler.advice = advice
    return SamplerPlayer(landscape, sampler, make_resampler({}), seed)


def without_process(budget: int) -> AbstractContextManager[object]:
    """Leave the process out of searches that end before one is asked."""
    return mock.patch.object(AutoSampler, "_believe", return_value=None) if budget <= PLAN else nullcontext()


def race(target: Target, advice: Advice | None, options: argparse.Namespace, points: int) -> list[dict[str, Any]]:
    """Searches of ``auto`` with so many points of advice: runs to within 5%, and the regret of the best run so far.

    Of the first eight runs none is chosen by a process, so a search that ends there does without one.
    """
    landscape, found = target.landscape, []
    assert landscape is not None
    for seed in range(options.seeds):
        with without_process(options.budget):
            episode = play(landscape, "auto", partial(player, advice), budget=options.budget, seed=seed)
        closed = np.maximum.accumulate([landscape.closed(value) for value in episode.evaluations])
        regret = {f"regret_{n}": 1.0 - float(closed[min(n, len(closed)) - 1]) for n in (2, 3, 5, 8)}
        about = {"points": points, "seed": seed, "budget": options.budget}
        found.append(about | {"runs": episode.runs_to_within_5_percent} | regret)
    return found


def replay(target: Target, advice: Advice | None, options: argparse.Namespace, points: int) -> list[dict[str, Any]]:
    """Searches of ``auto`` answered from the recorded sweep of a program, with the drift of that time."""
    assert target.record is not None
    found = []
    for seed in range(options.seeds):
        sampler = AutoSampler()
        sampler.advice = advice
        with without_process(options.budget):
            reached = runs_to_within(target.record, sampler, seed, options.budget)
        found.append({"points": points, "seed": seed, "budget": options.budget, "runs": reached})
    return found


def node_targets(checkouts: Path | None) -> list[Target]:
    """Workloads of several nodes, with the knowledge of the stacks: measured on Lustre, and simulated."""
    found = [one for one, _ in tables() if one.table == "s3d_write_lustre_hints" and len(one.points) >= LEAST_OF_NODES]
    found += simulated_targets()
    for sweep in [] if checkouts is None else sweeps(checkouts):
        one = landscapes(sweep.table)[0]
        program = sweep.name.split()[0]
        found.append(
            Target(
                "HPC2010",
                "unknown",
                f"{sweep.table.name}",
                program,
                sweep.facts,
                one.space,
                one.space.points,
                one.truth,
                one,
            )
        )
    return [knowing(one) for one in found]


def knowing(target: Target) -> Target:
    """The same target, whose space knows what the stacks of Lustre and ROMIO expect, as that of ``tune`` does."""
    stacks = ["lustre", "romio"]
    every = {parameter.name for stack in stacks for parameter in load_stack(stack).parameters}
    own = {p.name: {"values": list(p.values)} for p in target.space.parameters if p.name in every}
    others = {name: {"exclude": True} for name in every - own.keys()}
    experiment = Experiment.model_validate({"command": ["-"], "stacks": stacks, "parameters": own | others})
    words = {name: value for name, value in target.facts.items() if name in Workload.model_fields}
    words.setdefault("processes_per_node", target.facts["processes"] // target.facts["nodes"])
    bound = bind_space(experiment, Workload.model_validate(words), "romio").space
    landscape = target.landscape
    assert landscape is not None
    space = replace(landscape.space, context=bound.context, knowledge=bound.knowledge)
    return replace(target, space=space, landscape=replace(landscape, space=space))


def soon(target: Target, advice: Advice | None, options: argparse.Namespace, points: int) -> list[dict[str, Any]]:
    """Searches that end within 5%, or with the budget."""
    landscape, found = target.landscape, []
    assert landscape is not None
    for seed in range(options.seeds):
        one, recorded, best, reached = player(advice, landscape, seed), Recorded(landscape, seed), [], None
        with without_process(options.budget):
            for number in range(1, options.budget + 1):
                configuration = one.propose()
                if configuration is None:
                    break
                value = float(landscape.truth[recorded.point(configuration)])
                best.append(value)
                if landscape.closed(value) >= 0.95:
                    reached = number
                    break
                one.observe(configuration, recorded.run(configuration))
        about = {"points": points, "seed": seed, "budget": options.budget, "runs": reached}
        found.append(about | {"of_best": max(best[:3]) / float(landscape.truth.max())})
    return found


def cautious(gains: np.ndarray, weights: np.ndarray) -> int:
    """The configuration with the largest mean gain less its deviation between systems; -1 if that is below 1%."""
    mean = weights @ gains
    least = mean - np.sqrt(weights @ (gains - mean) ** 2)
    best = int(np.argmax(least))
    return best if least[best] >= WORTH else -1


def choice(target: Target, known: Portfolio) -> list[dict[str, Any]]:
    """What the members say of every configuration, beside the truth."""
    true = np.log(target.truth / target.truth[target.default])
    on_nodes = int(target.facts.get("nodes") or 1) > 1
    members = known.on_nodes() if on_nodes else known.members
    gains = members.gains(target.facts, target.space, target.points)
    weights = members.weights if on_nodes else known.weights(target.facts)
    expected = knowledge_prior(target.space, target.points)
    entry = {"weights": weights, "gains": gains, "true": true, "knowledge": expected}
    return [{"on_nodes": on_nodes} | {name: np.round(found, 3).tolist() for name, found in entry.items()}]


def report(entries: list[dict[str, Any]]) -> None:
    """Print what was raced, and what was prescribed, by what was left out."""
    raced: dict[tuple[str, str], dict[tuple[str | None, int], list[dict[str, Any]]]] = {}
    for entry in entries:
        if "seed" in entry:
            by = raced.setdefault((entry["table"], entry["context"]), {})
            by.setdefault((entry["left_out"], entry["points"]), []).append(entry)
    for fold, points in sorted({key for by in raced.values() for key in by if key[0]}):
        print(f"\n{fold} left out, {points} points\n")
        print("| table | runs to within 5%, without | with | regret after 5 runs, without | with |")
        print("|---|---:|---:|---:|---:|")
        ratios: dict[bool, list[float]] = {True: [], False: []}
        for (table, context), by in raced.items():
            if (fold, points) not in by:
                continue
            bare, advised = by[None, 0], by[fold, points]
            runs = [float(np.mean([_runs(one) for one in each])) for each in (bare, advised)]
            regrets = [float(np.median([one.get("regret_5", np.nan) for one in each])) for each in (bare, advised)]
            ratios[table.startswith("simulated")].append(float(np.log(runs[1] / runs[0])))
            print(f"| {table} {context} | {runs[0]:.1f} | {runs[1]:.1f} | {regrets[0]:.3f} | {regrets[1]:.3f} |")
        for simulated, logs in ratios.items():
            if logs:
                error = np.std(logs, ddof=1) / len(logs) ** 0.5 if len(logs) > 1 else np.nan
                print(
                    f"{'simulated' if simulated else 'measured'}: geometric mean {np.exp(np.mean(logs)):.2f} "
                    f"(standard error {100 * error:.0f}%), most {np.exp(max(logs)):.2f}, of {len(logs)}"
                )
    _report_choices([entry for entry in entries if "gains" in entry])


def _runs(entry: dict[str, Any]) -> float:
    """Runs to within 5%; twice the budget where a search did not get there."""
    return float(entry["runs"] or 2 * entry["budget"])


def _report_choices(entries: list[dict[str, Any]]) -> None:
    """What the prescription is worth, as a share of the best and of the default."""
    groups: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for entry in entries:
        gains, true, weights = (np.array(entry[name]) for name in ("gains", "true", "weights"))
        chosen = cautious(gains, weights) if len(gains) else -1
        gained = true[chosen] if chosen >= 0 else 0.0
        ranked = [_correlation(weights @ gains if len(gains) else true * 0, true)]
        ranked.append(_correlation(np.array(entry["knowledge"]), true))
        found = (np.exp(gained - true.max()), np.exp(-true.max()), np.exp(gained), chosen >= 0, *ranked)
        system = f"{entry['system']} {entry['context']}" if entry["system"] == "HPC2010" else entry["system"]
        name = f"{system}, {'several nodes' if entry['on_nodes'] else 'one node'}"
        groups.setdefault((entry["left_out"], name), []).append(found)
    if groups:
        print(
            "\n| left out | system | workloads | changed | share of the best | the default's | over the default: mean "
            "| least | rank correlation, members | knowledge |"
        )
        print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for (fold, system), found in sorted(groups.items()):
        shares, defaults, gained, changed, ours, known = (np.array(column) for column in zip(*found, strict=True))
        print(
            f"| {fold} | {system} | {len(found)} | {int(changed.sum())} | {shares.mean():.3f} | {defaults.mean():.3f} "
            f"| {np.exp(np.log(gained).mean()):.2f} | {gained.min():.2f} | {_mean(ours):.2f} | {_mean(known):.2f} |"
        )


def _mean(values: np.ndarray) -> float:
    """The mean of those that are numbers; NaN where none is."""
    numbers = values[~np.isnan(values)]
    return float(numbers.mean()) if len(numbers) else np.nan


def _correlation(expected: np.ndarray, true: np.ndarray) -> float:
    """Rank correlation; NaN where one of them says nothing."""
    if np.ptp(expected) == 0 or np.ptp(true) == 0:
        return np.nan
    return float(spearmanr(expected, true)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "choice", "race", "programs", "nodes", "report"])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budget", type=int, default=20)
    parser.add_argument("--points", default="2", help="points of advice, separated by commas")
    parser.add_argument("--fold", default="system,library,both", help="what is left out, separated by commas")
    parser.add_argument("--checkouts", type=Path, help="the folder with the checkout that lustre_sweeps.py reads")
    parser.add_argument("--check", action="store_true", help="of make: compare, and write nothing")
    parser.add_argument("--out", type=Path, default=Path("portfolio.jsonl"))
    options = parser.parse_args()
    if options.what == "make":
        make(check=options.check)
        return
    if options.what == "report":
        report([json.loads(line) for path in options.files for line in path.read_text("utf-8").splitlines()])
        return
    measured = {"race": tables, "programs": records}.get(options.what, lambda: [*tables(), *records()])
    targets = node_targets(options.checkouts) if options.what == "nodes" else [target for target, _ in measured()]
    if options.what == "choice" and options.checkouts is not None:
        targets += [one for one in node_targets(options.checkouts) if one.system == "HPC2010"]
    if options.what == "race":
        targets = [one for one in targets if len(one.points) >= LEAST_POINTS]
        targets += simulated_targets()
    judge = {"programs": replay, "nodes": soon}.get(options.what, race)
    every = learn(everything())
    with options.out.open("a", encoding="utf-8") as stream:

        def keep(fold: str | None, target: Target, found: list[dict[str, Any]]) -> None:
            for entry in found:
                place = {"left_out": fold, "table": target.table, "context": target.context, "system": target.system}
                stream.write(json.dumps(place | entry) + "\n")
                stream.flush()

        for target in targets:
            if options.what != "choice":
                keep(None, target, judge(target, None, options, 0))
            for fold in options.fold.split(","):
                known = left_out(every, target, fold)
                if known is None:
                    continue
                if options.what == "choice":
                    keep(fold, target, choice(target, known))
                    continue
                for points in map(int, options.points.split(",")):
                    members = known.on_nodes() if options.what == "nodes" else known.members
                    weights = members.weights if options.what == "nodes" else known.weights(target.facts)
                    advice = Advice(members, target.facts, weights, points)
                    keep(fold, target, judge(target, advice, options, points))
            print(target.table, target.context, f"{time.process_time():.0f} s", flush=True)


if __name__ == "__main__":
    main()
