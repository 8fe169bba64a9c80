"""Tuning that starts from a model: its favourite comes first, fewer runs are needed, and a changed file is noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stripewise.catalogue.parameter import Kind, Parameter, Scale
from stripewise.catalogue.space import Space
from stripewise.engine.definition import check
from stripewise.engine.session import Session
from stripewise.errors import UserError
from stripewise.models.registry import make_model
from stripewise.requests.experiment import Experiment
from stripewise.requests.objective import Objective
from stripewise.runners.function import FunctionRunner
from stripewise.store.base import MEMORY
from stripewise.store.opening import open_store
from stripewise.trial import Role
from tests.fixtures.campaigns import GIB, MIB, campaign, law

WORKLOAD = {
    "operation": "write",
    "nodes": 8,
    "processes_per_node": 4,
    "file_size": 8 * GIB,
    "collective": True,
}
SPACE = Space.bind(
    [
        Parameter("stripe_count", Kind.ORDINAL, (1, 2, 4, 8, 16), 1, scale=Scale.LOG2),
        Parameter("stripe_size", Kind.ORDINAL, tuple(MIB << k for k in range(8)), MIB, unit="B", scale=Scale.LOG2),
        Parameter("romio_cb_write", Kind.CATEGORICAL, ("automatic", "enable", "disable"), "automatic"),
        Parameter("unheard_of", Kind.ORDINAL, tuple(range(1, 9)), 1),
    ]
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Without the workload that is tuned: it has 8 nodes.
    table = campaign(tunables=("stripe_count", "stripe_size", "romio_cb_write"), noise=0.02, repeats=1)
    seen = table.take(table.context_levels[:, 1] != 2)
    path = tmp_path_factory.mktemp("model") / "site.model"
    make_model("tree", {"max_depth": 10}).fit(seen).save(path)
    return path


def bandwidth(configuration: Any) -> float:
    row = {"operation": "write", "nodes": 8, "ppn": 4, "file_gib": 8, **configuration}
    return law(row) * (1.0 + 0.01 * configuration["unheard_of"])


def tune(model: Path | None, budget: int = 12, store: Any = None) -> tuple[Any, Any, Any]:
    fields: dict[str, Any] = {"name": "t", "runner": "function", "warmup": 0, "workload": WORKLOAD}
    fields |= {"budget": {"runs": budget}, "confirmation": {"pairs": 0}, "model": None if model is None else str(model)}
    opened = store or open_store(MEMORY)
    identifier = opened.create(Experiment.model_validate(fields))
    notes: list[str] = []
    runner = FunctionRunner(bandwidth, SPACE, Objective("bandwidth", "maximize", "MiB/s"))
    listener = lambda event: notes.append(str(event.data.get("text", "")))  # noqa: E731
    result = Session(opened, identifier, runner, "tests", listener).run().as_json()
    return result, opened.trials(identifier), notes


def best_after(trials: Any, count: int) -> float:
    values = [run.value for trial in trials for run in trial.runs if run.value is not None]
    return max(values[:count])


def test_the_search_starts_from_the_model_and_needs_fewer_runs(model: Path) -> None:
    result, trials, notes = tune(model)
    _, without, _ = tune(None)
    first = next(trial for trial in trials if trial.role is Role.CANDIDATE)
    assert first.configuration["stripe_count"] == 16
    assert first.configuration["romio_cb_write"] == "disable"
    optimum = max(bandwidth(SPACE.configuration(row)) for row in SPACE.enumerate())
    assert best_after(trials, 3) >= 0.9 * optimum
    assert best_after(trials, 3) > best_after(without, 3)
    assert any("starts from model tree of simulated runs of table made_up" in note for note in notes)
    assert result["model"]["parameters"] == ["stripe_count", "stripe_size", "romio_cb_write"]
    assert result["model"]["simulated"] is True


def test_without_a_model_the_result_names_none() -> None:
    assert tune(None, budget=4)[0]["model"] is None


def test_a_model_that_changed_since_is_refused(model: Path, tmp_path: Path) -> None:
    from stripewise.engine.priors import start_from_model

    started = start_from_model(str(model), SPACE, Experiment(workload=WORKLOAD).workload, None)
    again = start_from_model(str(model), SPACE, Experiment(workload=WORKLOAD).workload, started.facts)
    assert again.facts == started.facts
    with pytest.raises(UserError, match="has changed since the experiment began"):
        start_from_model(
            str(model), SPACE, Experiment(workload=WORKLOAD).workload, {**started.facts, "digest": "another"}
        )


def test_a_model_of_other_parameters_is_refused(model: Path) -> None:
    from stripewise.engine.priors import start_from_model

    other = Space.bind([Parameter("unheard_of", Kind.ORDINAL, (1, 2), 1)])
    with pytest.raises(UserError, match="knows none of the parameters that are tuned"):
        start_from_model(str(model), other, Experiment(workload=WORKLOAD).workload, None)


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"sampler": "genetic"}, "sampler genetic cannot start from a model"),
        ({"model": "missing.model"}, "cannot read the model missing.model"),
    ],
)
def test_what_cannot_start_from_a_model_is_refused(model: Path, fields: dict[str, Any], message: str) -> None:
    experiment = Experiment.model_validate({"command": ["./app"], "model": str(model), **fields})
    with pytest.raises(UserError, match=message):
        check(experiment)
