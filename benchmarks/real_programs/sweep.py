"""A case (a program and a small expert sweep), its recorded runs, and their replay with the drift that was recorded."""

from __future__ import annotations

import itertools
import json
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import load_stack
from stripewise.catalogue.workload import Workload
from stripewise.engine.space import Circumstances, bind_space
from stripewise.launch import Launch, Outcome
from stripewise.models.landscape import TableSpace
from stripewise.requests.experiment import Experiment
from stripewise.requests.objective import Objective
from stripewise.runners.base import AnsweringRunner, Preflight
from stripewise.sizes import parse_size
from stripewise.trial import State

STEADY = 2.5
"""The level of the machine changes where more than twice as many runs in a row speak for it."""


@dataclass(frozen=True)
class Case:
    """A program with its sweep, as ``programs.toml`` and ``sweeps.toml`` describe them.

    Attributes
    ----------
    name : str
    experiment : Experiment
        What `stripewise tune` would be given.
    sweep : list of dict
        Settings by the names of the stacks' parameters; the first sets nothing.
    """

    name: str
    experiment: Experiment
    sweep: list[dict[str, Any]]

    @classmethod
    def read(
        cls, path: Path, name: str, *, program: str, mpiexec: str, folder: str, stack: str, data: str = ""
    ) -> Case:
        """Read a case, with the program, the launcher, the folder of its files and its input put in."""
        cases = tomllib.loads(path.read_text("utf-8"))
        if name not in cases:
            raise SystemExit(f"{path} describes no program {name}, only {', '.join(cases)}")
        case = cases[name]
        sweeps = tomllib.loads(path.with_name("sweeps.toml").read_text("utf-8"))
        sweep: list[dict[str, Any]] = [{}]
        for entry in sweeps[f"{stack}-{case.pop('sweep')}"]:
            choices = [value if isinstance(value, list) else [value] for value in entry.values()]
            sweep += [dict(zip(entry, values, strict=True)) for values in itertools.product(*choices)]

        def put_in(texts: list[str]) -> list[str]:
            return [text.format(program=program, folder=folder, data=data) for text in texts]

        command = [*shlex.split(mpiexec), "-n", str(case.pop("ranks")), *put_in(shlex.split(case.pop("command")))]
        hooks = {"delete": put_in(case.pop("delete", [])), "before": put_in(case.pop("before", []))}
        case |= {"name": name, "command": command, "hooks": hooks, "stacks": [stack]}
        return cls(name, Experiment.model_validate(case), sweep)


@dataclass(frozen=True, eq=False)
class Record:
    """The runs of a sweep, interleaved in random order, with their times.

    Attributes
    ----------
    about : dict
        Everything in the file but the runs: case, label, load, MPI, objective, workload, sweep; later on the results.
    runs : list of (int, float, float, float or None)
        Index of the configuration in the sweep, seconds since the first run, seconds that it took, value (None where
        the run failed).
    """

    about: dict[str, Any]
    runs: list[tuple[int, float, float, float | None]]

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read a record's file."""
        about = json.loads(path.read_text("utf-8"))
        return cls(about, [tuple(run) for run in about.pop("runs")])

    def write(self, path: Path) -> None:
        """Write the file, one line per entry and twelve runs a line."""
        lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in self.about.items()]
        rows = [json.dumps(run, separators=(",", ":")) for run in self.runs]
        lines.append(' "runs": [\n  ' + ",\n  ".join(",".join(rows[i : i + 12]) for i in range(0, len(rows), 12)) + "]")
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")

    @property
    def objective(self) -> Objective:
        """What was measured."""
        return Objective(**self.about["objective"])

    @cached_property
    def space(self) -> TableSpace:
        """The space in which exactly the configurations of the sweep are feasible."""
        values: dict[str, list[Any]] = {}
        for entry in self.about["sweep"]:
            for name, value in entry.items():
                values.setdefault(name, []).append(value)
        stacks = self.about["stacks"]
        others = {p.name for stack in stacks for p in load_stack(stack).parameters} - values.keys()
        parameters: dict[str, Any] = {name: {"values": ordered(given)} for name, given in values.items()}
        parameters |= {name: {"exclude": True} for name in others}
        experiment = Experiment.model_validate({"command": ["-"], "stacks": stacks, "parameters": parameters})
        workload = Workload.model_validate(self.about["workload"])
        space = bind_space(experiment, Circumstances(workload, self.about["io"])).space
        measured = space.levels([configuration_of(space, entry) for entry in self.about["sweep"]])
        return TableSpace(
            space.parameters, space.constraints, space.derived, space.context, space.knowledge, measured=measured
        )

    @cached_property
    def _finished(self) -> NDArray[np.float64]:
        """Rows of point, middle of the run, seconds, logarithm of the value."""
        points = self.space.index(self.space.measured)
        rows = [(points[arm], start + took / 2, took, np.log(v)) for arm, start, took, v in self.runs if v]
        return np.array(sorted(rows, key=lambda row: row[1]), dtype=np.float64)

    @cached_property
    def _split(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Logarithms of the value of each point and of the level at each run, which explain the runs together.

        The sum of the absolute deviations is least, with STEADY times the sum of the absolute changes of the level
        from run to run: a convex problem, solved by reweighted least squares. Steps are kept, single runs are not
        followed.
        """
        point, value = self._finished[:, 0].astype(int), self._finished[:, 3]
        runs, points = len(value), len(self.space.points)
        deviations = np.hstack([np.eye(points)[point], np.eye(runs)])
        changes = np.hstack([np.zeros((runs - 1, points)), np.diff(np.eye(runs), axis=0)])
        centre = np.hstack([np.zeros((1, points)), np.ones((1, runs))])
        rows = np.vstack([deviations, changes, centre])
        wanted = np.concatenate([value, np.zeros(runs)])
        cost = np.concatenate([np.ones(runs), np.full(runs - 1, STEADY), [1.0]])
        weight = np.ones(2 * runs)
        for _ in range(50):
            scale = np.sqrt(cost * weight)
            found = np.linalg.lstsq(rows * scale[:, None], wanted * scale, rcond=None)[0]
            weight = 1.0 / np.maximum(np.abs(rows @ found - wanted), 1e-3)
        # Points whose runs all failed have no value.
        missing = np.bincount(point, minlength=points) == 0
        effect = np.where(missing, -np.inf if self.objective.maximize else np.inf, found[:points])
        level = found[points:]
        return effect + np.median(level), level - np.median(level)

    @property
    def points(self) -> NDArray[np.int64]:
        """The point of each run that finished."""
        return self._finished[:, 0].astype(np.int64)

    @property
    def truth(self) -> NDArray[np.float64]:
        """Value of each point at the record's median level."""
        return np.asarray(np.exp(self._split[0]))

    @property
    def drift(self) -> float:
        """How many times higher the level was at its 95th percentile than at its 5th."""
        low, high = np.quantile(self._split[1], [0.05, 0.95])
        return float(np.exp(high - low))

    @property
    def noise(self) -> float:
        """Standard deviation of the logarithm of a value beside that of its point and the level."""
        effect, level = self._split
        return float(np.std(self._finished[:, 3] - effect[self._finished[:, 0].astype(int)] - level))

    def share_of_best(self, configuration: Mapping[str, Any]) -> float:
        """Value of a configuration relative to the best of the sweep: 1 is the best, less is worse."""
        point = int(self.space.index(self.space.levels([configuration]))[0])
        truth = self.truth if self.objective.maximize else 1.0 / self.truth
        return float(truth[point] / np.max(truth))

    def at(self, point: int, time: float, rng: np.random.Generator) -> tuple[float, float]:
        """Value and seconds of one more run of a point at a time of the record.

        The value is that of the point, times the level at that time, times the deviation of one of its runs.
        """
        effect, level = self._split
        rows = np.flatnonzero(self._finished[:, 0] == point)
        row = int(rng.choice(rows))
        deviation = self._finished[row, 3] - effect[point] - level[row]
        now = float(np.interp(time, self._finished[:, 1], level))
        return float(np.exp(effect[point] + now + deviation)), float(self._finished[row, 2])

    @property
    def seconds(self) -> float:
        """From the first run to the last."""
        return float(self._finished[-1, 1])


def ordered(values: list[Any]) -> list[Any]:
    """Distinct values; numbers ascend."""
    distinct = list(dict.fromkeys(values))
    return distinct if any(isinstance(value, str | bool) for value in distinct) else sorted(distinct)


def configuration_of(space: Space, entry: Mapping[str, Any]) -> Configuration:
    """The configuration that differs from the default in some settings; those that cannot act here are dropped."""
    acting = {name: _value(space, name, given) for name, given in entry.items() if name in space.names}
    return Configuration({**space.default, **acting})


def _value(space: Space, name: str, given: Any) -> Any:
    """A value of a parameter; sizes may be written as in the stack files."""
    values = space[name].values
    if given not in values and isinstance(given, str):
        given = parse_size(given)
    if given not in values:
        raise ValueError(f"{name} has no value {given}, only {', '.join(map(str, values))}")
    return given


class SweepReplay(AnsweringRunner):
    """Answers runs from a record: the search starts somewhere in the recorded time, and time passes as runs take.

    At either end of the record its time goes back, so that the level never jumps where the record does not.
    """

    name = "replay"
    kind: ClassVar[str] = "replayed"

    def __init__(self, record: Record, seed: int) -> None:
        super().__init__()
        self._record = record
        self._seed = seed
        self._clock = float(np.random.default_rng([seed, 1]).uniform(0, 2 * record.seconds))

    def prepare(self) -> Preflight:
        """Bring the sweep's own space and objective."""
        record = self._record
        workload = Workload.model_validate(record.about["workload"])
        return Preflight(io=record.about["io"], workload=workload, space=record.space, objective=record.objective)

    def answer(self, launch: Launch) -> Outcome:
        """Draw a run of the configuration at the clock's time."""
        space = self._record.space
        point = int(space.index(space.levels([launch.configuration or space.default]))[0])
        length = self._record.seconds
        time = length - abs(self._clock % (2 * length) - length)
        value, seconds = self._record.at(point, time, np.random.default_rng([self._seed, 2, launch.number]))
        started = self._clock
        cut = [limit for limit in (launch.bound, launch.timeout) if limit is not None and seconds > limit]
        self._clock += min([seconds, *cut])
        if cut:
            state = State.PRUNED if cut[0] == launch.bound else State.FAILED
            return Outcome(launch.number, state, cut[0], started, f"longer than its limit of {cut[0]:g} s")
        metrics = {self._record.objective.name: value}
        return Outcome(launch.number, State.FINISHED, seconds, started, exit_code=0, metrics=metrics)
