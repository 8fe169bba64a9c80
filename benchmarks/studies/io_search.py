"""Study 001: a genetic search over Lustre and ROMIO, against exhaustive search, ``auto``, and ``auto`` with a model.

IOR at 240 and 1,200 cores and MPI-Tile-IO at 64 and 256, two use cases each. The slides do not say what the use cases
are, nor which values lie between the printed ends; with every aggregator and stripe count from 1 to 16 there are 3,840
configurations, which fits the printed hours: 40 for all of them, 2.5 for a genetic search of 300.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.studies.steps import Study, stripewise, write_toml

SITE = "sim:vulcan-like"
MIB = 1 << 20
COUNTS = list(range(1, 17))
"""Of aggregators and of stripes."""
FEW = [1, 8, 16]
"""The same for a quick look."""
SIZES = [MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB]
KEPT = ("stripe_count", "stripe_size", "romio_cb_write", "cb_nodes")
GENETIC_RUNS, AUTO_RUNS = 310, 77
"""The first population of 10 and 30 generations of 10; 2% of exhaustive search."""
SEEDS = (0, 1, 2)


@dataclasses.dataclass(frozen=True)
class Case:
    """A use case: what runs, and what was published of it (MB/s)."""

    application: str
    cores: int
    use_case: int
    nodes: int
    processes_per_node: int
    block: int
    default: float
    tuned: float

    @property
    def name(self) -> str:
        return f"{self.application} {self.cores} cores, use case {self.use_case}"

    @property
    def workload(self) -> dict[str, Any]:
        """IOR: a rank's block in one call. MPI-Tile-IO: a tile of 4 x 4 elements in one call; 4 lie together."""
        words = {
            "operation": "write",
            "nodes": self.nodes,
            "processes_per_node": self.processes_per_node,
            "collective": True,
            "api": "mpiio",
        }
        if self.application == "IOR":
            sizes = {"layout": "segmented", "transfer_size": self.block, "file_size": self.block * self.cores}
        else:
            tile = 16 * self.block
            sizes = {"layout": "tile", "transfer_size": tile, "piece_size": 4 * self.block}
            sizes["file_size"] = tile * self.cores
        return words | sizes


CASES = (
    Case("IOR", 240, 1, 10, 24, 32 * MIB, 6238.56, 12075.01),
    Case("IOR", 240, 2, 10, 24, 64 * MIB, 4238.57, 11186.23),
    Case("IOR", 1200, 1, 50, 24, 32 * MIB, 6402.08, 23859.15),
    Case("IOR", 1200, 2, 50, 24, 64 * MIB, 5412.91, 41859.44),
    Case("MPI-Tile-IO", 64, 1, 4, 16, 8 * MIB, 1974.462, 2503.22),
    Case("MPI-Tile-IO", 64, 2, 4, 16, 16 * MIB, 1759.326, 3075.17),
    Case("MPI-Tile-IO", 256, 1, 16, 16, 8 * MIB, 6138.917, 11257.42),
    Case("MPI-Tile-IO", 256, 2, 16, 16, 16 * MIB, 2122.027, 11859.23),
)


def experiment(
    case: Case, sampler: str, runs: int, seed: int, model: str | None = None, counts: Sequence[int] = COUNTS
) -> dict[str, Any]:
    """The tuning of a case; budgets count every run, the default's included."""
    from benchmarks.studies.searches import space_of  # noqa: PLC0415  loads the engine

    asked: dict[str, Any] = {
        "name": case.name,
        "runner": SITE,
        "stacks": ["romio", "lustre"],
        "objective": {"name": "write_bandwidth"},
        "budget": {"runs": runs},
        "sampler": sampler,
        "seed": seed,
        "warmup": 0,
        "confirmation": {"pairs": 0},
        "workload": case.workload,
        "model": model,
    }
    left_out = {name: {"exclude": True} for name in space_of(asked)[0].names if name not in KEPT}
    values = {
        "cb_nodes": {"values": list(counts)},
        # The directory's own layout, which is the default of both.
        "stripe_count": {"values": list(counts), "default": 8},
        "stripe_size": {"values": SIZES, "default": MIB},
    }
    return {**asked, "parameters": {**left_out, **values}}


def campaign(size: int) -> dict[str, Any]:
    """What the model learns from: other nodes, processes and sizes than the cases have."""
    return {
        "name": "io-search-site",
        "runner": SITE,
        "stacks": ["romio", "lustre"],
        "operations": ["write"],
        "repeats": 1,
        "warmup": 0,
        "design": {"kind": "latin_hypercube", "size": size},
        "workload": [
            {"name": "nodes", "values": [2, 8, 24, 64]},
            {"name": "processes_per_node", "values": [8, 20]},
            {"name": "file_size", "values": [10 * 1024 * MIB, 80 * 1024 * MIB]},
            {"name": "layout", "values": ["segmented", "tile"]},
            {"name": "transfer_size", "values": [16 * MIB, 64 * MIB]},
            {"name": "collective", "values": [True]},
        ],
        "tunable": [
            {"name": "cb_nodes", "values": [1, 2, 4, 8, 16]},
            {"name": "romio_cb_write", "values": ["automatic", "disable", "enable"]},
            {"name": "stripe_count", "values": [1, 2, 4, 8, 12, 16], "default": 8},
            {"name": "stripe_size", "values": SIZES, "default": MIB},
        ],
    }


def simulated(study: Study) -> None:
    """Search every case with every method."""
    model = study.work / "site.model"
    study.step(
        "model",
        lambda: _model(study.work, model, study.size(600, 60)),
        "simulated",
        (model,),
        site=SITE, configurations=study.size(600, 60), model=study.size("auto", "boosting"),
    )  # fmt: skip
    counts, runs = study.size(COUNTS, FEW), study.size((GENETIC_RUNS, AUTO_RUNS), (20, 12))
    for seed in study.size(SEEDS, (0,)):
        for case in study.size(CASES, CASES[:1]):
            every = study.step(
                f"{case.name}, exhaustive",
                lambda case=case: _exhaustive(case, counts),
                "simulated",
                case=dataclasses.asdict(case),
            )
            study.step(
                f"{case.name}, seed {seed}",
                lambda case=case, seed=seed, every=every: _searched(case, str(model), seed, every, counts, *runs),
                "simulated",
                case=dataclasses.asdict(case), seed=seed, runs=runs,
            )  # fmt: skip


def _model(work: Path, model: Path, size: int) -> dict[str, Any]:
    kind = "auto" if size > 100 else "boosting"
    plan = write_toml(work / "site-campaign.toml", campaign(size))
    stripewise("profile", plan, "--out", work / "site")
    found = stripewise("train", work / "site", "--model", kind, "--out", model)
    return {"rows": found["rows"], "seconds": found["seconds"]}


def _exhaustive(case: Case, counts: Sequence[int]) -> dict[str, Any]:
    """What all configurations are worth without noise."""
    from benchmarks.studies.searches import Truth  # noqa: PLC0415  loads the engine

    truth = Truth(experiment(case, "auto", 1, 0, counts=counts))
    every = truth.all()
    return {
        "configurations": len(every),
        "default": truth.of({}),
        "best": max(every),
        "median": statistics.median(every),
    }


def _searched(
    case: Case,
    model: str,
    seed: int,
    every: Mapping[str, Any],
    counts: Sequence[int],
    genetic_runs: int,
    auto_runs: int,
) -> dict[str, Any]:
    """Each method's runs until it is as good as the best of all, and as others are in the end."""
    from benchmarks.studies.searches import Truth, search  # noqa: PLC0415

    truth = Truth(experiment(case, "auto", 1, seed, counts=counts))
    genetic = search(experiment(case, "io-search", genetic_runs, seed, None, counts), truth)
    auto = search(experiment(case, "auto", auto_runs, seed, None, counts), truth)
    prior = search(experiment(case, "auto", auto_runs, seed, model, counts), truth)
    found: dict[str, Any] = dict(every)
    for name, trace in (("genetic", genetic), ("auto", auto), ("auto with model", prior)):
        found[name] = {
            "final": trace.final,
            "runs": len(trace.values),
            "seconds": trace.seconds,
            "runs_to_98_percent": trace.runs_until(0.98 * every["best"]),
            "runs_to_genetic": trace.runs_until(genetic.final),
            "curve": _curve(trace.values),
        }
    return found


def _curve(values: list[float]) -> list[float]:
    """The best true value so far, after each run."""
    best, curve = 0.0, []
    for value in values:
        best = max(best, value)
        curve.append(round(best, 1))
    return curve


def results(steps: Mapping[str, Any], case: Case) -> list[Any]:
    """What each seed found for a case."""
    return [step["result"] for name, step in steps.items() if name.startswith(f"{case.name}, seed")]


def summary(steps: Mapping[str, Any]) -> dict[str, Any]:
    """What the study asks of all searches together."""
    reached, nearly, close = [], [], []
    for found in (found for case in CASES for found in results(steps, case)):
        two_percent = round(0.02 * found["configurations"])
        fifth = found["genetic"]["runs"] / 5
        runs, near = found["auto"]["runs_to_genetic"], found["auto"]["runs_to_98_percent"]
        reached.append(runs is not None and runs <= fifth)
        nearly.append(max(found["auto"]["curve"][: int(fifth)]) >= 0.99 * found["genetic"]["final"])
        close.append(near is not None and near <= two_percent)
    return {
        "searches": len(reached),
        "genetic value in a fifth of its runs": sum(reached),
        "within 1% of it": sum(nearly),
        "98% of the best in 2% of the runs": sum(close),
    }


def real(study: Study) -> None:
    """Measure every configuration of a tile pattern with real ROMIO on this machine, and race over the measurements."""
    from benchmarks.studies import tiles  # noqa: PLC0415  needs MPI

    tiles.real(study)
