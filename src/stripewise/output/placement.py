"""Which storage targets and nodes runs used, and whether a slow one rather than a setting explains a slow run."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stripewise.facts import RunFacts
from stripewise.output.plots.places import Place
from stripewise.output.reading import Reading
from stripewise.trial import Phase, Run, State

_SURE = 0.01
_LEAST_RUNS = 4
_WORTH = 0.95
_MOST_NODES = 10_000


@dataclass(frozen=True)
class Placement:
    """Targets and nodes of an experiment's runs.

    Attributes
    ----------
    osts, nodes : tuple of Place
        Empty where the runs do not tell.
    """

    osts: tuple[Place, ...] = ()
    nodes: tuple[Place, ...] = ()

    @property
    def slow(self) -> list[str]:
        """Names of the slow ones, with what they are."""
        return [f"OST {p.name}" for p in self.osts if p.slow] + [f"node {p.name}" for p in self.nodes if p.slow]


def placement(reading: Reading) -> Placement:
    """Collect the places of all finished runs, each run relative to the median of its own configuration.

    A place is called slow if its runs lie at least 5% below those elsewhere (medians), and chance would show as much in
    less than 1% of experiments: a one-sided rank-sum test, corrected for the number of places.
    """
    relative: list[tuple[Run, float]] = []
    for trial in reading.trials:
        own = [
            run
            for run in trial.runs
            if run.state is State.FINISHED and run.phase is not Phase.WARMUP and run.value is not None and run.value > 0
        ]
        if len(own) < 2:
            # A configuration that ran once is its own usual, and says nothing of the place.
            relative += [(run, 1.0) for run in own]
            continue
        usual = statistics.median(float(run.value or 0.0) for run in own)
        for run in own:
            ratio = float(run.value or 0.0) / usual
            relative.append((run, ratio if reading.maximize else 1 / ratio))
    return Placement(
        _places(relative, {run.number: osts_of(run.facts) for run, _ in relative}),
        _places(relative, {run.number: nodes_of(run.facts) for run, _ in relative}),
    )


def sentence(found: Placement) -> str:
    """Say whether a place explains slow runs."""
    if not found.osts and not found.nodes:
        return "The runs do not tell which storage targets and nodes they used."
    if not found.slow:
        return "No target and no node stands out: slow runs are not explained by where they ran."
    names = ", ".join(found.slow)
    return (
        f"Slower than chance allows: {names}. Runs there are slow whatever their settings: suspect the machine first."
    )


def osts_of(facts: RunFacts) -> tuple[str, ...]:
    """Storage targets that a run's files lie on, where its facts tell."""
    found: set[int] = set(facts.targets)
    for file in (facts.report or {}).get("files", ()):
        layout = file.get("layout") or {}
        if layout.get("osts"):
            found |= {int(target) for target in layout["osts"]}
        elif layout.get("stripe_count") == 1 and layout.get("start_ost", -1) >= 0:
            # Of a wider file only the first target is known.
            found.add(int(layout["start_ost"]))
    return tuple(str(target) for target in sorted(found))


def nodes_of(facts: RunFacts) -> tuple[str, ...]:
    """Nodes that a run occupied, where its facts tell their names."""
    named = facts.hosts
    return node_names(named) if isinstance(named, str) else tuple(str(name) for name in named)


def node_names(text: str) -> tuple[str, ...]:
    """Read a scheduler's list of nodes.

    Examples
    --------
    >>> node_names("n1,gpu[08-10,12],r[1-2]n[3-4]")
    ('n1', 'gpu08', 'gpu09', 'gpu10', 'gpu12', 'r1n3', 'r1n4', 'r2n3', 'r2n4')
    """
    names: list[str] = []
    for part in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text):
        # Every other piece stood in brackets.
        pieces = re.split(r"\[([^\]]*)\]", part)
        choices = [_spans(piece) if at % 2 else [piece] for at, piece in enumerate(pieces)]
        many = math.prod(map(len, choices)) > _MOST_NODES
        names += [part] if many else map("".join, itertools.product(*choices))
    return tuple(names)


def _spans(text: str) -> list[str]:
    """Read what stands in brackets: numbers, and spans of numbers with as many digits as the first."""
    found = []
    for span in text.split(","):
        low, dash, high = span.partition("-")
        if dash and low.isdigit() and high.isdigit() and 0 <= int(high) - int(low) < _MOST_NODES:
            found += [f"{number:0{len(low)}d}" for number in range(int(low), int(high) + 1)]
        else:
            found.append(span)
    return found


def _places(relative: Sequence[tuple[Run, float]], used: Mapping[int, Sequence[str]]) -> tuple[Place, ...]:
    names = sorted({name for places in used.values() for name in places}, key=lambda name: (len(name), name))
    found = []
    for name in names:
        here = [value for run, value in relative if name in used[run.number]]
        elsewhere = [value for run, value in relative if used[run.number] and name not in used[run.number]]
        found.append(Place(name, here, _slow(here, elsewhere, len(names))))
    return tuple(found)


def _slow(here: Sequence[float], elsewhere: Sequence[float], tests: int) -> bool:
    if len(here) < _LEAST_RUNS or len(elsewhere) < _LEAST_RUNS:
        return False
    if statistics.median(here) > _WORTH * statistics.median(elsewhere):
        return False
    from scipy.stats import mannwhitneyu  # noqa: PLC0415  slow to load

    chance = float(mannwhitneyu(here, elsewhere, alternative="less").pvalue)
    return math.isfinite(chance) and chance < _SURE / tests
