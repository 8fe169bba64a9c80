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

SITE, UNFITTED = "vulcan-like", "vulcan-hardware"
OST_RATES = ("1.4 GB/s", "5.6 GB/s")
"""Other speeds of the fitted site's OSTs: half and twice its own."""
MIB = 1 << 20
COUNTS = list(range(1, 17))
"""Of aggregators and of stripes."""
FEW = [1, 8, 16]
"""The same for a quick look."""
COARSE = [1, 2, 4, 8, 12, 16]
"""The same where only the best and the default are asked for."""
PUBLISHED_HOURS = {
    "all configurations": 40.0,
    "genetic search, IOR 240 cores": 2.5,
    "genetic search, IOR 1200 cores": 4.0,
    "genetic search, MPI-Tile-IO 64 cores": 1.0,
    "genetic search, MPI-Tile-IO 256 cores": 1.5,
}
"""As the slide of results prints them."""
PRINTED_SPEEDUPS = {
    ("IOR", 240): (1.93, 2.64),
    ("IOR", 1200): (3.73, 7.74),
    ("MPI-Tile-IO", 64): (1.27, 1.75),
    ("MPI-Tile-IO", 256): (1.83, 5.59),
}
"""By program and cores: of both use cases; some differ by 0.01 from the ratio of the printed bandwidths."""
SIZES = [MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB]
KEPT = ("stripe_count", "stripe_size", "romio_cb_write", "cb_nodes")
GENETIC_RUNS, AUTO_RUNS = 310, 77
"""The first population of 10 and 30 generations of 10; 2% of exhaustive search."""
FEW_RUNS = GENETIC_RUNS // 10
"""Where the space has hundreds of configurations and not thousands."""
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
    def speedup(self) -> float:
        """As printed."""
        return PRINTED_SPEEDUPS[self.application, self.cores][self.use_case - 1]

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
PATTERNED = (CASES[0], CASES[4])
"""One of each program, searched with the pattern as a parameter too."""


def experiment(
    case: Case,
    sampler: str,
    runs: int,
    seed: int,
    model: str | None = None,
    counts: Sequence[int] = COUNTS,
    site: str = SITE,
) -> dict[str, Any]:
    """The tuning of a case; budgets count every run, the default's included."""
    from benchmarks.studies.searches import space_of  # noqa: PLC0415  loads the engine
    from stripewise.lab.site import load_site  # noqa: PLC0415

    layout = load_site(site.partition("@")[0]).defaults
    asked: dict[str, Any] = {
        "name": case.name,
        "runner": f"sim:{site}",
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
        "stripe_count": {"values": list(counts), "default": layout.stripe_count},
        "stripe_size": {"values": SIZES, "default": layout.stripe_size},
    }
    return {**asked, "parameters": {**left_out, **values}}


def with_pattern(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The same with the study's I/O pattern as a parameter, collective or individual calls: 7,680 configurations."""
    pattern = {"argument": "pattern", "role": "collective", "values": [True, False], "default": True}
    return {**asked, "parameters": {**asked["parameters"], "pattern": pattern}}


def campaign(size: int) -> dict[str, Any]:
    """What the model learns from: other nodes, processes and sizes than the cases have."""
    return {
        "name": "io-search-site",
        "runner": f"sim:{SITE}",
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
    counts = study.size(COUNTS, FEW)
    _beside(study, study.size(COARSE, FEW))
    model = study.work / "site.model"
    study.step(
        "model",
        lambda: _model(study.work, model, study.size(600, 60)),
        "simulated",
        (model,),
        site=f"sim:{SITE}", configurations=study.size(600, 60), model=study.size("auto", "boosting"),
    )  # fmt: skip
    runs = study.size((GENETIC_RUNS, AUTO_RUNS), (20, 12))
    methods = {"genetic": ("io-search", runs[0], None), "auto": ("auto", runs[1], None)}
    methods["auto with model"] = ("auto", runs[1], str(model))
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
                lambda case=case, seed=seed, every=every: every | _searched(case, SITE, seed, every, counts, methods),
                "simulated",
                case=dataclasses.asdict(case), seed=seed, runs=runs,
            )  # fmt: skip


def _beside(study: Study, coarse: Sequence[int]) -> None:
    """What needs no model: both ends of the range on other sites, random searches, and the site that was not fitted."""
    rates = study.size(OST_RATES, ())
    sites = [SITE, *(f"{SITE}@ost.write_bandwidth={rate}" for rate in rates), UNFITTED]
    cases = study.size(CASES, CASES[:1])
    ends = {
        site: study.step(
            f"ends on {site}",
            lambda site=site: {case.name: _ends(study.work, case, site, coarse) for case in cases},
            "simulated",
            counts=coarse,
        )
        for site in sites
    }
    counts = study.size(COUNTS, FEW)
    runs, seeds = study.size((GENETIC_RUNS, AUTO_RUNS), (20, 12)), study.size(SEEDS, (0,))
    alone = {"random": ("random", runs[1], None)}
    others = {"genetic": ("io-search", runs[0], None), "auto": ("auto", runs[1], None), **alone}
    for case in cases:
        found = ends[SITE][case.name]
        study.step(
            f"{case.name}, random",
            lambda case=case, found=found: [
                _searched(case, SITE, seed, found, counts, alone)["random"] for seed in seeds
            ],
            "simulated",
            case=dataclasses.asdict(case), seeds=seeds, runs=runs[1],
        )  # fmt: skip
        found = ends[UNFITTED][case.name]
        study.step(
            f"{case.name} on {UNFITTED}",
            lambda case=case, found=found: _searched(case, UNFITTED, 0, found, counts, others),
            "simulated",
            case=dataclasses.asdict(case), seed=0, runs=runs,
        )  # fmt: skip
    for case in study.size(PATTERNED, cases):
        study.step(
            f"{case.name} on {UNFITTED}, with the pattern",
            lambda case=case: _with_pattern(case, counts, others),
            "simulated",
            case=dataclasses.asdict(case), seed=0, runs=runs,
        )  # fmt: skip


def _with_pattern(
    case: Case, counts: Sequence[int], methods: Mapping[str, tuple[str, int, str | None]]
) -> dict[str, Any]:
    """What searches find where the call is a parameter too, and the best of each of both calls."""
    from benchmarks.studies.searches import Truth, search  # noqa: PLC0415  loads the engine

    asked = with_pattern(experiment(case, "auto", 1, 0, counts=counts, site=UNFITTED))
    truth = Truth(asked)
    best = truth.best()
    found: dict[str, Any] = {
        "grid": truth.space.cardinality,
        "default": truth.of({}),
        "best": truth.of(best),
        "best_pattern": "collective" if best["pattern"] else "individual",
    }
    for name, (sampler, runs, _) in methods.items():
        trace = search(with_pattern(experiment(case, sampler, runs, 0, counts=counts, site=UNFITTED)), truth)
        found[name] = {"final": trace.final, "runs_to_98_percent": trace.runs_until(0.98 * found["best"])}
    return found


def _ends(work: Path, case: Case, site: str, counts: Sequence[int]) -> dict[str, Any]:
    """What the default and the best configuration are worth without noise, and what limits each on a site as it is."""
    from benchmarks.studies.searches import Truth  # noqa: PLC0415  loads the engine

    truth = Truth(experiment(case, "auto", 1, 0, counts=counts, site=site))
    found: dict[str, Any] = {}
    for name, configuration in (("default", truth.space.default), ("best", truth.best())):
        found[name] = truth.of(configuration)
        if "@" not in site:
            file = write_toml(work / "end.toml", {"workload": case.workload, "settings": dict(configuration)})
            (told,) = stripewise("lab", "simulate", "run", site, file)["runs"]
            found[f"{name}_bound"] = told["bound"]
    return found


def _model(work: Path, model: Path, size: int) -> dict[str, Any]:
    kind = "auto" if size > 100 else "boosting"
    plan = write_toml(work / "site-campaign.toml", campaign(size))
    stripewise("site", "profile", plan, "--out", work / "site")
    found = stripewise("site", "train", work / "site", "--model", kind, "--out", model)
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
    site: str,
    seed: int,
    every: Mapping[str, Any],
    counts: Sequence[int],
    methods: Mapping[str, tuple[str, int, str | None]],
) -> dict[str, Any]:
    """Each method's runs until it is as good as the best of all, and as the genetic search is in the end."""
    from benchmarks.studies.searches import Truth, search  # noqa: PLC0415

    truth = Truth(experiment(case, "auto", 1, seed, counts=counts, site=site))
    traces = {
        name: search(experiment(case, sampler, runs, seed, model, counts, site), truth)
        for name, (sampler, runs, model) in methods.items()
    }
    found: dict[str, Any] = {}
    for name, trace in traces.items():
        found[name] = {
            "final": trace.final,
            "runs": len(trace.values),
            "seconds": trace.seconds,
            "runs_to_98_percent": trace.runs_until(0.98 * every["best"]),
            "curve": _curve(trace.values),
        }
        if "genetic" in traces:
            found[name]["runs_to_genetic"] = trace.runs_until(traces["genetic"].final)
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
    """What the study asks of all searches together, and what random choices make of it."""
    reached, nearly, close, lucky, luckily_close = [], [], [], [], []
    ratios = []
    for case in CASES:
        random = steps.get(f"{case.name}, random", {}).get("result", [])
        for place, found in enumerate(results(steps, case)):
            two_percent = round(0.02 * found["configurations"])
            fifth = found["genetic"]["runs"] // 5
            runs, near = found["auto"]["runs_to_genetic"], found["auto"]["runs_to_98_percent"]
            final = found["genetic"]["final"]
            reached.append(runs is not None and runs <= fifth)
            nearly.append(max(found["auto"]["curve"][:fifth]) >= 0.99 * final)
            close.append(near is not None and near <= two_percent)
            if place < len(random):
                # A curve keeps one decimal.
                lucky.append(max(random[place]["curve"][:fifth]) >= final - 0.1)
                near = random[place]["runs_to_98_percent"]
                luckily_close.append(near is not None and near <= two_percent)
                # A search that never comes so close counts as one run more than it had.
                runs_of = [found["auto"], random[place]]
                own, other = (each["runs_to_98_percent"] or each["runs"] + 1 for each in runs_of)
                ratios.append(own / other)
    return {
        "searches": len(reached),
        "genetic value in a fifth of its runs": sum(reached),
        "within 1% of it": sum(nearly),
        "98% of the best in 2% of the runs": sum(close),
        "random searches": len(lucky),
        "runs over random's": statistics.geometric_mean(ratios) if ratios else 1.0,
        "random: genetic value in a fifth of its runs": sum(lucky),
        "random: 98% of the best in 2% of the runs": sum(luckily_close),
    }


def real(study: Study) -> None:
    """Measure every configuration of a tile pattern with real ROMIO on this machine, and race over the measurements."""
    from benchmarks.studies import tiles, wide  # noqa: PLC0415  need MPI

    tiles.real(study)
    all_three = (FEW_RUNS, AUTO_RUNS, GENETIC_RUNS)
    wide.real(study, {"io-search": all_three, "random": all_three, "auto": (FEW_RUNS, AUTO_RUNS)})
