# ruff: noqa: PLC0415, N813  each tool is imported only when it is raced
"""Other tools as players of the race, each used as its documentation says, with its defaults.

All are told the truth about the space: ordered parameters as integers (the place of the value on its axis), others as
categories. The default configuration, where a table declares one, is every tool's first run. A proposal that was not
measured is answered, and reported back, as the nearest measured one; a tool's choice is the best value it saw.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import random
import subprocess
import tempfile
import threading
import warnings
import weakref
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from stripewise.catalogue.configuration import Configuration
from stripewise.engine.race import Contestant, Player, guest
from stripewise.models.landscape import Landscape


class Peer:
    """What all adapters share: the space in levels, the nearest measured point, the best value seen."""

    def __init__(self, landscape: Landscape, seed: int, budget: int) -> None:
        self.landscape = landscape
        self.space = landscape.space
        self.seed = seed
        self.budget = budget
        self.sign = -1.0 if landscape.table.objective.maximize else 1.0
        self.best: tuple[float, Configuration] | None = None
        self.axes = [p for p in self.space.parameters if len(p.values) > 1]
        self._width = np.array([max(1, len(p.values) - 1) if p.ordered else 0 for p in self.space.parameters])

    @property
    def start(self) -> dict[str, int] | None:
        """Levels of the declared default by name, or None."""
        if any(column.default is None for column in self.landscape.table.schema.parameter):
            return None
        row = self.space.levels([self.space.default])
        return self.names(row[0]) if self.space.index(row)[0] >= 0 else None

    def names(self, row: np.ndarray) -> dict[str, int]:
        """Levels by name, of the parameters that have a choice."""
        return {p.name: int(level) for p, level in zip(self.space.parameters, row, strict=True) if len(p.values) > 1}

    def nearest(self, levels: dict[str, int]) -> np.ndarray:
        """The measured point nearest to a proposal."""
        row = np.array([[levels.get(p.name, 0) for p in self.space.parameters]], dtype=np.int64)
        if self.space.index(row)[0] >= 0:
            return row[0]
        points = self.space.measured
        ordered = self._width > 0
        away = np.abs(points - row) / np.where(ordered, self._width, 1)
        away = np.where(ordered, away, points != row)
        return points[int(np.argmin(away.sum(axis=1)))]

    def propose(self) -> Configuration | None:
        self.proposed = self.ask()
        self.row = self.nearest(self.proposed)
        return self.space.canonical(self.space.configuration(self.row))

    def observe(self, configuration: Configuration, value: float) -> None:
        cost = self.sign * value
        if self.best is None or cost < self.best[0]:
            self.best = (cost, configuration)
        self.tell(self.names(self.row), cost)

    def incumbent(self) -> Configuration:
        assert self.best is not None
        return self.best[1]

    def ask(self) -> dict[str, int]:
        raise NotImplementedError

    def tell(self, levels: dict[str, int], cost: float) -> None:
        raise NotImplementedError


class OptunaPeer(Peer):
    """Optuna's samplers through its own ask and tell."""

    def __init__(self, landscape: Landscape, seed: int, budget: int, sampler: str) -> None:
        super().__init__(landscape, seed, budget)
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.filterwarnings("ignore", module="optuna")
        self.optuna = optuna
        make = {"tpe": optuna.samplers.TPESampler, "gp": optuna.samplers.GPSampler}[sampler]
        self.study = optuna.create_study(sampler=make(seed=seed))
        d = optuna.distributions
        self.distributions = {
            p.name: d.IntDistribution(0, len(p.values) - 1)
            if p.ordered
            else d.CategoricalDistribution(list(range(len(p.values))))
            for p in self.axes
        }
        if self.start:
            self.study.enqueue_trial(self.start)

    def ask(self) -> dict[str, int]:
        self.trial = self.study.ask(self.distributions)
        return dict(self.trial.params)

    def tell(self, levels: dict[str, int], cost: float) -> None:
        if levels == dict(self.trial.params):
            self.study.tell(self.trial, cost)
            return
        self.study.tell(self.trial, state=self.optuna.trial.TrialState.FAIL)
        self.study.add_trial(
            self.optuna.trial.create_trial(params=levels, distributions=self.distributions, value=cost)
        )


class SmacPeer(Peer):
    """SMAC3's facade for hyperparameters (a random forest)."""

    def __init__(self, landscape: Landscape, seed: int, budget: int) -> None:
        super().__init__(landscape, seed, budget)
        import ConfigSpace as cs
        from smac import HyperparameterOptimizationFacade as Facade
        from smac import Scenario

        logging.getLogger("smac").setLevel(logging.ERROR)
        start = self.start or {}
        space = cs.ConfigurationSpace(seed=seed)
        for p in self.axes:
            count = len(p.values)
            default = start.get(p.name, 0)
            if p.ordered:
                space.add(cs.UniformIntegerHyperparameter(p.name, 0, count - 1, default_value=default))
            else:
                space.add(cs.CategoricalHyperparameter(p.name, list(range(count)), default_value=default))
        self.cs, self.configspace = cs, space
        self.told: set[tuple[int, ...]] = set()
        self.folder = tempfile.TemporaryDirectory(prefix="race-smac-")
        scenario = Scenario(
            space,
            deterministic=True,
            n_trials=budget,
            seed=seed,
            use_default_config=bool(start),
            output_directory=Path(self.folder.name),
        )
        self.facade = Facade(scenario, lambda config, seed=0: 0.0, overwrite=True, logging_level=logging.ERROR)

    def ask(self) -> dict[str, int]:
        self.info = self.facade.ask()
        return {name: int(value) for name, value in dict(self.info.config).items()}

    def tell(self, levels: dict[str, int], cost: float) -> None:
        from smac.runhistory.dataclasses import TrialInfo, TrialValue

        value = TrialValue(cost=cost)
        self.facade.tell(self.info, value, save=False)
        self.told.add(tuple(self.proposed.values()))
        key = tuple(levels[name] for name in self.proposed)
        if key not in self.told:
            config = self.cs.Configuration(self.configspace, values=levels)
            self.facade.tell(TrialInfo(config, seed=self.info.seed), value, save=False)
            self.told.add(key)


class NevergradPeer(Peer):
    """Nevergrad's NGOpt, which chooses a method by dimension and budget."""

    def __init__(self, landscape: Landscape, seed: int, budget: int) -> None:
        super().__init__(landscape, seed, budget)
        warnings.filterwarnings("ignore", module="nevergrad")
        import nevergrad as ng

        def variable(p: Any) -> Any:
            if not p.ordered:
                return ng.p.Choice(list(range(len(p.values))))
            middle = (len(p.values) - 1) / 2
            start = float(self.start[p.name]) if self.start else middle
            return ng.p.Scalar(init=start, lower=0, upper=len(p.values) - 1).set_integer_casting()

        space = ng.p.Dict(**{p.name: variable(p) for p in self.axes})
        space.random_state.seed(seed)
        self.optimizer = ng.optimizers.NGOpt(parametrization=space, budget=budget)
        if self.start:
            self.optimizer.suggest(self.start)

    def ask(self) -> dict[str, int]:
        self.candidate = self.optimizer.ask()
        return {name: int(value) for name, value in self.candidate.value.items()}

    def tell(self, levels: dict[str, int], cost: float) -> None:
        self.optimizer.tell(self.candidate, cost)


class OpenTunerPeer(Peer):
    """OpenTuner's bandit over its techniques, through its programming interface."""

    def __init__(self, landscape: Landscape, seed: int, budget: int) -> None:
        super().__init__(landscape, seed, budget)
        import random

        import opentuner
        from opentuner import api
        from opentuner.measurement.interface import DefaultMeasurementInterface
        from opentuner.resultsdb.models import Result
        from opentuner.search.manipulator import ConfigurationManipulator, EnumParameter, IntegerParameter

        random.seed(seed)
        np.random.seed(seed)
        logging.getLogger("opentuner").setLevel(logging.ERROR)
        self.result = Result
        manipulator = ConfigurationManipulator()
        for p in self.axes:
            count = len(p.values)
            manipulator.add_parameter(
                IntegerParameter(p.name, 0, count - 1) if p.ordered else EnumParameter(p.name, list(range(count)))
            )
        self.folder = tempfile.TemporaryDirectory(prefix="race-opentuner-")
        arguments = opentuner.default_argparser().parse_args(
            [f"--database={Path(self.folder.name) / 'results.db'}", "--no-dups"]
        )
        interface = DefaultMeasurementInterface(
            args=arguments, manipulator=manipulator, project_name="race", program_name="race", program_version="0"
        )
        if self.start:
            interface.seed_configurations = lambda: [self.start]
        self.manager = api.TuningRunManager(interface, arguments)

    def ask(self) -> dict[str, int]:
        self.desired = None
        while self.desired is None:
            self.desired = self.manager.get_next_desired_result()
        return {name: int(value) for name, value in self.desired.configuration.data.items()}

    def tell(self, levels: dict[str, int], cost: float) -> None:
        self.manager.report_result(self.desired, self.result(time=cost))


class KernelTunerPeer(Peer):
    """A strategy of Kernel Tuner with its defaults.

    It calls for values, and so runs in a thread of its own, one call at a time. Like Kernel Tuner itself, the adapter
    answers what was measured before without another run, so that a strategy may end, by the 5,000 calls that are its
    own limit, before the race does: the best is then run again.
    """

    STRATEGIES: ClassVar[dict[str, str]] = {
        "hybrid_vndx": "HybridVNDX",
        "adaptive_tabu_greywolf": "AdaptiveTabuGreyWolf",
    }

    def __init__(self, landscape: Landscape, seed: int, budget: int, strategy: str) -> None:
        super().__init__(landscape, seed, budget)
        from importlib import import_module

        from kernel_tuner.searchspace import Searchspace

        random.seed(seed)
        np.random.seed(seed)
        module = import_module(f"kernel_tuner.strategies.gen_{strategy}")
        defaults = [default for _, default in module._options.values()]
        space = Searchspace({p.name: list(range(len(p.values))) for p in self.axes}, None, 1024)
        self.asked: queue.Queue[tuple[int, ...] | None] = queue.Queue()
        self.told: queue.Queue[float] = queue.Queue()
        self.over = False
        known: dict[tuple[int, ...], float] = {}

        def value_of(levels: Any, **_: Any) -> float:
            place = tuple(int(level) for level in levels)
            if place not in known:
                self.asked.put(place)
                known[place] = self.told.get()
            return known[place]

        def search() -> None:
            try:
                if self.start:
                    value_of([self.start[p.name] for p in self.axes])
                getattr(module, self.STRATEGIES[strategy])(space, value_of, *defaults, False).run()
            finally:
                self.asked.put(None)

        threading.Thread(target=search, daemon=True).start()

    def ask(self) -> dict[str, int]:
        found = None if self.over else self.asked.get()
        if found is None:
            self.over = True
            return self.names(self.space.levels([self.incumbent()])[0])
        return {p.name: level for p, level in zip(self.axes, found, strict=True)}

    def tell(self, levels: dict[str, int], cost: float) -> None:
        if not self.over:
            self.told.put(cost)


class OutsidePeer(Peer):
    """A tool in a Python of its own, see :mod:`outside`; the variable ``RACE_PYTHON_TOOL`` names that Python."""

    def __init__(self, landscape: Landscape, seed: int, budget: int, tool: str) -> None:
        super().__init__(landscape, seed, budget)
        python = os.environ.get(f"RACE_PYTHON_{tool.upper()}")
        if python is None:
            raise RuntimeError(f"{tool} needs a Python of its own: say --python {tool}=PATH")
        self.process = subprocess.Popen(
            [python, str(Path(__file__).with_name("outside.py")), tool],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        weakref.finalize(self, self.process.kill)
        axes = [{"name": p.name, "count": len(p.values), "ordered": p.ordered} for p in self.axes]
        self._say({"axes": axes, "start": self.start, "seed": seed, "budget": budget})

    def _say(self, document: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(document) + "\n")
        self.process.stdin.flush()

    def ask(self) -> dict[str, int]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process ended with status {self.process.wait()}")
        proposed: dict[str, int] = json.loads(line)
        return proposed

    def tell(self, levels: dict[str, int], cost: float) -> None:
        self._say({"levels": levels, "cost": cost})


def contestants(budget: int = 40) -> dict[str, Contestant]:
    """All peers, made ready for a number of runs."""

    def optuna(sampler: str) -> Contestant:
        def make(landscape: Landscape, seed: int) -> Player:
            return OptunaPeer(landscape, seed, budget, sampler)

        return guest(make)

    return {
        "optuna-tpe": optuna("tpe"),
        "optuna-gp": optuna("gp"),
        "smac3": guest(lambda landscape, seed: SmacPeer(landscape, seed, budget)),
        "nevergrad": guest(lambda landscape, seed: NevergradPeer(landscape, seed, budget)),
        "kernel-tuner-vndx": guest(lambda landscape, seed: KernelTunerPeer(landscape, seed, budget, "hybrid_vndx")),
        "kernel-tuner-greywolf": guest(
            lambda landscape, seed: KernelTunerPeer(landscape, seed, budget, "adaptive_tabu_greywolf")
        ),
        "hebo": guest(lambda landscape, seed: OutsidePeer(landscape, seed, budget, "hebo")),
        "baco": guest(lambda landscape, seed: OutsidePeer(landscape, seed, budget, "baco")),
        "opentuner": guest(lambda landscape, seed: OpenTunerPeer(landscape, seed, budget)),
    }
