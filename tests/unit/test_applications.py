"""Experiments by application: what is one, its best so far, whether that holds, and how soon it was found."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace

import pytest

from stripewise.output.applications import application_of, attempt_of, figures, group_attempts, history
from stripewise.output.experiment_view import view_experiment
from stripewise.output.figures import figure_names
from stripewise.output.figures import figures as drawn_of
from stripewise.requests.experiment import Experiment
from stripewise.trial import Role
from tests.unit.finished_experiment import finished


@pytest.mark.parametrize(
    ("command", "name", "application"),
    [
        (["mpiexec", "-n", "4", "./bin/solver", "in.nml"], "solver on lustre", "solver"),
        (["srun", "-n", "8", "env", "A=b", "/opt/wrf.exe"], "", "wrf.exe"),
        (["mpiexec", "-n", "2", "python3", "train.py", "--epochs", "2"], "", "train.py"),
        (["python3", "-m", "train"], "", "python3"),
        (["bash", "case/run.sh"], "", "run.sh"),
        ([], "ior (confirm 51e11ec7)", "ior"),
    ],
)
def test_an_application_is_the_program_or_its_script(command, name, application):
    runner = "local" if command else "sim:kay"
    assert application_of(Experiment(command=command, name=name, runner=runner)) == application


def attempts():
    """A search that proved a gain, one that did not, and two confirmations: held, then not."""
    record, trials = finished()
    base = replace(attempt_of(record, trials), created=1e9)
    return [
        base,
        replace(base, id="b", proven=False, gain=1.2, launches=7, created=1.1e9),
        replace(base, id="c", again=base.id, gain=1.9, launches=None, created=1.2e9),
        replace(base, id="d", again="c", proven=False, gain=1.0, launches=None, created=1.3e9),
    ]


def test_the_best_is_the_largest_proven_gain_and_confirmations_say_whether_it_holds():
    first, weak, held, lost = attempts()
    assert first.proven and first.gain and first.gain > 1
    assert first.launches and first.launches > 1
    (group,) = group_attempts([weak, first])
    assert group.best == first and group.launches == (first.launches + 7) / 2
    assert group.holds == "not confirmed again since 2001-09-09"
    (group,) = group_attempts([held, first, weak])
    assert group.holds == "it held on 2008-01-10: 1.90 times"
    (group,) = group_attempts([lost, held, first, weak])
    assert group.again == lost and group.holds == "it was not proven again on 2011-03-13"
    assert [one.id for one in group.searches] == [first.id, "b"]
    json.dumps(group.as_json(), allow_nan=False)


def test_simulated_and_measured_are_apart_and_tags_group_too():
    first, *_ = attempts()
    other = replace(first, id="s", simulated=True, tags=("small", "night"))
    assert {(group.name, group.simulated) for group in group_attempts([first, other])} == {
        (first.application, False),
        (first.application, True),
    }
    assert [group.name for group in group_attempts([first, other], by_tag=True)] == ["small", "night"]


def test_the_figures_compare_default_and_best_with_the_program_without_the_component():
    first, weak, *_ = attempts()
    with_component = replace(first, id="r", application="other", reference=first.default)
    shown = figures(group_attempts([first, weak, with_component]))
    points = {trace.name: list(trace.y) for trace in shown["gains"].data if trace.showlegend is not False}
    assert points["best over the default"] == [first.gain, 1.0]
    assert points["default over the program without the component"] == [1.0]
    assert points["best over the program without the component"] == pytest.approx(
        [first.objective.speedup(first.best, first.default)]
    )
    assert dict(zip(shown["launches"].data[0].x, shown["launches"].data[0].y, strict=True))["other"] == first.launches
    times = history(group_attempts(attempts())[0])
    first, last = (datetime.datetime.fromisoformat(end) for end in times.layout.xaxis.range)
    assert last - first >= datetime.timedelta(days=1)
    assert {trace.name: len(trace.x) for trace in times.data} == {"proven": 2, "not proven": 2}
    assert figures([]) == {}


def test_a_search_by_generations_shows_them_and_others_do_not():
    record, trials = finished()
    assert "generations" not in figure_names(view_experiment(record, trials))
    bred = replace(record, experiment=record.experiment.model_copy(update={"sampler": "io-search"}))
    candidates = [trial for trial in trials if trial.role is Role.CANDIDATE]
    tagged = tuple(
        replace(trial, tag=f"generation {candidates.index(trial) // 2}") if trial in candidates else trial
        for trial in trials
    )
    view = view_experiment(bred, tagged)
    known = [trial for trial in candidates if trial.value is not None]
    assert len(view.generations()) == len(known)
    best = next(trace for trace in drawn_of(view)["generations"].data if trace.name == "best of the generation")
    choose = max if view.maximize else min
    assert best.y[0] == choose(trial.value for trial in known[:2])


def test_the_whole_space_takes_a_median_run_for_each_configuration():
    record, trials = finished()
    view = view_experiment(record, trials)
    took = sorted(run.elapsed for run, _ in view.runs if run.phase.value == "search" and run.elapsed)
    assert view.whole_space == pytest.approx(record.result.space.distinct * took[len(took) // 2], rel=0.3)
