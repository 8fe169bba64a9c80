# ruff: noqa: E501  prose of a page, one line a row
"""The figures that the five studies print, each beside what was simulated on a site that was not fitted, and measured."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.stats import wilcoxon

from benchmarks.studies import chain, hard_patterns, io_search, shaman
from benchmarks.studies.sections import ai_for_io, ann, sctuner
from benchmarks.studies.sections.shaman import saved
from benchmarks.studies.sections.writing import Steps, percent, result, results

NEVER = "never measured"
NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class Published:
    """A figure of a study and what became of it.

    Attributes
    ----------
    study : str
        Its number.
    what, published : str
    simulated : str
        On a site that was not fitted to the study; empty where nothing of the kind is simulated.
    measured : str
        On this project's own machines, or :data:`NEVER`.
    verdict : str
        ``reached`` or ``not reached`` with the kind of figure that says so, or :data:`NOT_COMPARABLE`.
    why : str
        What explains the verdict.
    """

    study: str
    what: str
    published: str
    simulated: str
    measured: str
    verdict: str
    why: str


def judge(kind: str, got: Sequence[float], published: Sequence[float], *, least: bool = True) -> str:
    """Compare figures one by one; ``least`` if larger is better.

    Parameters
    ----------
    kind : {"measured", "simulated"}
        What the figures are.
    got, published : sequence of float
    """
    reached = all((own >= theirs) if least else (own <= theirs) for own, theirs in zip(got, published, strict=True))
    return f"{'reached' if reached else 'not reached'}, {kind}"


def listed(studies: Mapping[str, Steps]) -> list[Published]:
    """Give the twenty figures; empty while a study's results are not whole."""
    try:
        return [
            *_neural_networks(studies["ann"], studies["beyond"]),
            *_genetic_search(studies["io-search"]),
            *_accelerator(studies["shaman"]),
            *_performance_models(studies["ai-for-io"]),
            *_under_load(studies["sctuner"]),
        ]
    except (KeyError, TypeError):
        return []


def _neural_networks(steps: Steps, beyond: Steps) -> Iterable[Published]:
    unfitted = result(steps, "kay-hardware: accuracy of auto")
    cases = result(steps, "kay-hardware: cases of auto")["operations"]
    bed = result(steps, "bed accuracy")
    pooled = f"{percent(bed['auto']['prediction_accuracy'])} by `auto`, {percent(bed['ann']['prediction_accuracy'])} by `ann`, reads and writes together (CephFS, about 100 rows)"
    for operation, (accuracy, *_) in ann.PUBLISHED.items():
        got = unfitted[operation]["runs"]["prediction_accuracy"]
        fit = operation == "write"
        yield Published(
            "000", f"accuracy of predicted {operation} bandwidths", f"{accuracy:.0f}%", f"{percent(got)}, `auto`", pooled,
            NOT_COMPARABLE if fit else judge("simulated", [got], [accuracy]),
            "the noise of writes was fitted so that a perfect model can reach it" if fit else "single runs, as in the study; a hundred rows are too few for a network",
        )  # fmt: skip
    stages = {name: value / base for name, value, base in chain.stages(result(beyond, "bed comparison"))}
    for operation, (_, improved, gain) in ann.PUBLISHED.items():
        told = cases[operation]
        true = told["true"]
        yield Published(
            "000", f"{operation} cases improved", f"{improved}%", percent(told["improved_percent"]), NEVER,
            judge("simulated", [told["improved_percent"]], [improved]),
            f"only {true['improvable']:,} of 1,458 can be improved on this site; of these, {percent(true['improvable_improved_percent'])} are",
        )  # fmt: skip
        best = 100 * (true["oracle_mean"] / true["default_mean"] - 1)
        yield Published(
            "000", f"gain of the mean {operation} bandwidth", f"+{gain}%", f"{told['overall_gain_percent']:+.1f}%",
            f"{100 * (stages['prescribed'] - 1):+.0f}% for one program (CephFS)" if operation == "write" else NEVER,
            judge("simulated", [told["overall_gain_percent"]], [gain]), f"the best settings of all would gain {best:.1f}% on this site",
        )  # fmt: skip
    timed = result(steps, "time to decide of ann")["prescribe"]
    each = result(steps, "cases of ann")
    later = each["decision_seconds"] / each["cases"]
    yield Published(
        "000", "time of the first and of a later decision", "30 s, under 1 s", "", f"{timed:.1f} s, {1000 * later:.1f} ms",
        judge("measured", [timed, later], [30, 1], least=False), "from a cold start, on two cores without a GPU",
    )  # fmt: skip


def _genetic_search(steps: Steps) -> Iterable[Published]:
    sites = results(steps, "ends on ")
    race = result(steps, "race over the wide space")
    tuned = race[f"io-search {io_search.GENETIC_RUNS}"]["over_default"]
    for program, measured in (
        ("IOR", NEVER),
        ("MPI-Tile-IO", f"{tuned:.2f} in another space, 4 ranks in memory"),
    ):
        cases = [case for case in io_search.CASES if case.name.startswith(program)]
        ends = [sites[io_search.UNFITTED][case.name] for case in cases]
        speeds = [own["best"] / own["default"] for own in ends]
        yield Published(
            "001", f"speed-ups of {program} by the genetic search", ", ".join(f"{case.speedup:.2f}" for case in cases),
            f"{min(speeds):.1f} to {max(speeds):.1f}", measured, NOT_COMPARABLE,
            "the study does not print its default; the site's is one stripe, which is slower than any printed default",
        )  # fmt: skip
    few, all_runs = io_search.FEW_RUNS, race["exhaustive"]["runs"]
    own, lucky = (race[f"{name} {few}"]["over_exhaustive"] for name in ("auto", "random"))
    yield Published(
        "001", "price of a search", "1 to 4 h, all configurations about 40 h", "",
        f"{few} runs of {all_runs:,.0f} give {own:.2f} times what all of them give", judge("measured", [own], [1.0]),
        f"the space is easy: as many random runs give {lucky:.2f} times",
    )  # fmt: skip


def _accelerator(steps: Steps) -> Iterable[Published]:
    found = shaman.by_class(steps)
    whole, classes = found["all"], {name: told for name, told in found.items() if name != "all"}
    slow = results(steps, "slow disk ")
    medians = {which: statistics.median(saved(told, which) for told in slow.values()) for which in ("default", "genetic", "auto")}  # fmt: skip
    where = f"{len(slow)} programs on a slow disk"
    other = "another accelerator, other programs and storage"
    yield Published(
        "002", "time saved by the default settings", "1.91%", f"{whole['default']:.1f}%", f"{medians['default']:.1f}%, {where}",
        NOT_COMPARABLE, other,
    )  # fmt: skip
    yield Published(
        "002", "time saved after tuning", "31.09%", f"{whole['genetic']:.1f}% genetic, {whole['auto']:.1f}% `auto`",
        f"{medians['genetic']:.1f}% genetic, {medians['auto']:.1f}% `auto`, {where}", NOT_COMPARABLE, f"{other}; the order is the same",
    )  # fmt: skip
    most = max(told["genetic"] - told["default"] for told in classes.values())
    own: dict[str, list[float]] = {}
    for name, told in slow.items():
        own.setdefault(name.partition(" ")[0], []).append(saved(told, "auto") - saved(told, "default"))
    best = max(statistics.median(values) for values in own.values())
    yield Published(
        "002", "largest improvement of a class over the default", "97.83%", f"{most:.1f} points", f"{best:.1f} points, {where}",
        NOT_COMPARABLE, "above 100 points, the default settings slow the class down by more than tuning saves",
    )  # fmt: skip
    yield Published(
        "002", "runs until the best of a search", "61", f"{whole['runs to the best, genetic']:.0f} genetic, {whole['runs to the best, auto']:.0f} `auto` of 40",
        "at most 24, the budget", NOT_COMPARABLE, "the best of a search is not the best of the space, which is not known for 606,480 configurations",
    )  # fmt: skip


def _performance_models(steps: Steps) -> Iterable[Published]:
    unfitted, bed = result(steps, f"choices on {hard_patterns.UNFITTED}"), result(steps, "bed sieving choices")

    def best(choices: Mapping[str, Any]) -> tuple[float, float]:
        own = max(choices["static"], key=lambda static: static["arithmetic"])
        return own["arithmetic"], max(static["harmonic"] for static in choices["static"])

    (mean, harmonic), (bed_mean, bed_harmonic) = best(unfitted), best(bed)
    yield Published(
        "003", "best static choice, arithmetic and harmonic mean", "72.1% and 16.2%", f"{mean:.1f}% and {harmonic:.1f}%",
        f"{bed_mean:.1f}% and {bed_harmonic:.1f}% (CephFS, two choices)", NOT_COMPARABLE,
        "a property of the patterns and the system, not of a tool",
    )  # fmt: skip
    depth, bed_depth = (choices["by_depth"]["4"]["arithmetic"] for choices in (unfitted, bed))
    yield Published(
        "003", "a tree of depth 4", "nearly optimal", f"{depth:.1f}% of the best", f"{bed_depth:.1f}% of the best (CephFS)",
        judge("measured", [bed_depth], [ai_for_io.NEARLY_OPTIMAL]),
        f"aim 95%; on CephFS runs of both choices overlap in most patterns, and the better static choice has {bed_mean:.1f}%",
    )  # fmt: skip
    errors, own = result(steps, f"errors on {hard_patterns.UNFITTED}"), result(steps, "bed sieving errors")
    ks = [k for k in ai_for_io.PUBLISHED if k in errors["models"]["tree"] and k in own["models"]["tree"]]

    def ratios(told: Mapping[str, Any]) -> list[float]:
        return [told["models"]["tree"][k]["mae"] / told["baseline"]["mae"] for k in ks]

    def classes(told: Mapping[str, Any], model: str) -> list[float]:
        return [told["models"][model][k]["class_error"] for k in ks]

    printed = [ai_for_io.PUBLISHED[k][0] / ai_for_io.BASELINE for k in ks]
    yield Published(
        "003", f"error of a tree over that of the mean, k = {', '.join(ks)}", _row(printed), _row(ratios(errors)), f"{_row(ratios(own))} (CephFS)",
        judge("measured", ratios(own), printed, least=False), "reached where simulated; on CephFS runs of a configuration scatter more than the aim leaves room for",
    )  # fmt: skip
    printed = [ai_for_io.PUBLISHED[k][1] for k in ks]
    yield Published(
        "003", f"class error of a tree, k = {', '.join(ks)}", _row(printed), _row(classes(errors, "tree")),
        f"{_row(classes(own, 'tree'))}, `auto` {_row(classes(own, 'auto'))} (CephFS)", judge("measured", classes(own, "tree"), printed, least=False),
        "classes are shares of the largest performance, so they differ from system to system",
    )  # fmt: skip


def _under_load(steps: Steps) -> Iterable[Published]:
    simulated = result(steps, "3,328 configurations")["operations"]
    bed = result(steps, "bed hdf5 settings")
    counts = sctuner.PUBLISHED_CLUSTERS
    yield Published(
        "004", "clusters of reads and of writes", f"{counts['read']} and {counts['write']}",
        f"{simulated['read']['clusters']} and {simulated['write']['clusters']}", f"{bed['clusters']['read']['count']} and {bed['clusters']['write']['count']} (CephFS)",
        NOT_COMPARABLE, "the study does not state its criterion; ours is the largest mean silhouette",
    )  # fmt: skip
    brings = result(steps, "what each setting brings")
    ends = [value for own in brings.values() for value in (own["all"][0], own["all"][2])]
    gains = [effect["ratio"] for one in bed["workloads"] for effect in one["effects"].values()]
    online = results(steps, "hdf5 online, memory, ") | results(steps, "hdf5 online, slow requests, ")
    factors = [
        statistics.median(entry["default"] / entry["best"] for entry in told["rounds"]) for told in online.values()
    ]
    yield Published(
        "004", "speed-up of tuned HDF5 (an earlier study that it cites)", "1.1 to 12", f"{min(ends):.0f} to {max(ends):.0f}",
        f"one setting alone {min(gains):.2f} to {max(gains):.2f} (CephFS); {min(factors):.1f} to {max(factors):.0f} for five programs (memory)",
        NOT_COMPARABLE, "the default decides: one stripe where simulated, a chunk cache that is too small in memory",
    )  # fmt: skip


def count_verdicts(figures: Sequence[Published]) -> str:
    """Say in a sentence, which README and paper repeat, how many figures are reached."""
    count = Counter(one.verdict for one in figures)
    return (
        f"Of {len(figures)} published figures, {count['reached, measured']} are reached where measured and {count['reached, simulated']} where simulated, "
        f"{count['not reached, measured']} and {count['not reached, simulated']} are missed, and {count[NOT_COMPARABLE]} cannot be compared."
    )


def _mounts(steps: Steps) -> str:
    """Say what tuning rclone's mount came to, for each pattern of reads."""
    found = []
    for name, told in results(steps, "rclone, ").items():
        what = "the disk without it is" if told["best"]["is"] == "reference" else "its best settings are"
        gain = (
            f"{what} {told['speedup']:.1f} times as fast as its defaults ({told['speedup_ci95'][0]:.1f} to {told['speedup_ci95'][1]:.1f})"
            if told["confirmed"]
            else "no gain over its defaults was proven"
        )
        found.append(f"For reads of {name}, {gain}, in {told['runs']} launches.")
    return " ".join(found)


def find_facts(studies: Mapping[str, Steps]) -> dict[str, str]:
    """Give the figures that the sentences of the pages name; empty while a study's results are not whole."""
    try:
        return _facts(studies)
    except KeyError:
        return {}


def _facts(studies: Mapping[str, Steps]) -> dict[str, str]:
    cases = result(studies["ann"], "kay-hardware: cases of auto")["operations"]
    race = result(studies["io-search"], "race over the wide space")
    ior, tile = (
        result(studies["io-search"], f"{case.name} on {io_search.UNFITTED}, with the pattern")
        for case in io_search.PATTERNED
    )
    wide = [told["over_default"] for told in race.values()]
    classes = {name: told for name, told in shaman.by_class(studies["shaman"]).items() if name != "all"}
    behind = [told["genetic"] - told["auto"] for told in classes.values() if told["genetic"] > told["auto"]]
    slow = results(studies["shaman"], "slow disk ")
    either = [told for told in slow.values() if told["auto"]["confirmed"] or told["genetic"]["confirmed"]]
    apart = wilcoxon([saved(told, "auto") - saved(told, "genetic") for told in slow.values()]).pvalue
    choices = result(studies["ai-for-io"], "real choices")
    sieving = next(one["best"] for one in choices["static"] if one["configuration"] == {"sieving": "enable"})
    memory = results(studies["sctuner"], "hdf5 online, memory, ")
    every = memory | results(studies["sctuner"], "hdf5 online, slow requests, ")
    cache, online = (
        [statistics.median(entry[who] / entry["best"] for entry in told["rounds"]) for told in of.values()]
        for who, of in (("default", memory), ("online", every))
    )
    ratio = io_search.summary(studies["io-search"])["runs over random's"]
    return {
        "read_improvable": f"{cases['read']['true']['improvable']:,}",
        "write_improvable": f"{cases['write']['true']['improvable']:,}",
        "operations": f"{ann.PRINTED_TOTAL:,}",
        "bytes": f"{ann.PRINTED_BYTES:,}",
        "search_ratio": f"{ratio:.2f}",
        "wide_least": f"{min(wide):.1f}",
        "wide_most": f"{max(wide):.1f}",
        "ior_call": ior["best_pattern"],
        "tile_call": tile["best_pattern"],
        "tile_genetic": f"{tile['genetic']['runs_to_98_percent']}",
        "tile_auto": f"{tile['auto']['runs_to_98_percent']}",
        "genetic_runs": f"{io_search.GENETIC_RUNS}",
        "auto_runs": f"{io_search.AUTO_RUNS}",
        "mounts": _mounts(studies["shaman"]),
        "few_runs": f"{io_search.FEW_RUNS}",
        "all_runs": f"{race['exhaustive']['runs']:,.0f}",
        "wide_auto": f"{race[f'auto {io_search.FEW_RUNS}']['over_exhaustive']:.2f}",
        "wide_random": f"{race[f'random {io_search.FEW_RUNS}']['over_exhaustive']:.2f}",
        "slowed": f"{sum(told['default'] < 0 for told in classes.values())}",
        "behind": f"{len(behind)}",
        "behind_least": f"{min(behind, default=0):.1f}",
        "behind_most": f"{max(behind, default=0):.1f}",
        "slow_programs": f"{len(slow)}",
        "slow_auto": percent(statistics.median(saved(told, "auto") for told in slow.values())),
        "slow_proven_auto": f"{sum(bool(told['auto']['confirmed']) for told in slow.values())}",
        "slow_proven_genetic": f"{sum(bool(told['genetic']['confirmed']) for told in slow.values())}",
        "slow_genetic": percent(statistics.median(saved(told, "genetic") for told in slow.values())),
        "slow_either": f"{len(either)}",
        "slow_either_auto": percent(statistics.median(saved(told, "auto") for told in either)),
        "slow_either_genetic": percent(statistics.median(saved(told, "genetic") for told in either)),
        "slow_chance": f"{apart:.2f}",
        "sieving_pays": f"{sieving}",
        "sieving_patterns": f"{choices['workloads']}",
        "cache_least": f"{min(cache):.0f}",
        "cache_most": f"{max(cache):.0f}",
        "online_phases": f"{next(iter(every.values()))['phases']}",
        "online_least": f"{min(online):.1f}",
        "online_most": f"{max(online):.1f}",
    }


def _row(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)
