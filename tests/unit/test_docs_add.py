"""The guides of docs/how-to/add-*.md work as written: their code is run, registered, held to its contract and used."""

from __future__ import annotations

import inspect
import json
import re
import sys
import time
import tomllib
import types
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from jinja2 import ChoiceLoader, DictLoader

from stripewise import plugins
from stripewise.catalogue import carriers, filesystems
from stripewise.catalogue.carriers import LAYOUT, Carrier, Program, Setting
from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import Plan, settings_of
from stripewise.catalogue.stack import load_stack, parse_stack
from stripewise.catalogue.workload import Workload
from stripewise.diagnose import site as diagnosing
from stripewise.diagnose.finding import LIMITS, RULES
from stripewise.diagnose.script import parse_script
from stripewise.documents import Bundled
from stripewise.engine.space import Circumstances, bind_space, default_stacks
from stripewise.errors import RunFailed, UserError
from stripewise.launch import Outcome
from stripewise.models import registry as models
from stripewise.models.registry import load_model, make_model, model_names
from stripewise.models.table import Column, ObjectiveColumn, Schema
from stripewise.models.tunables import SetBy, tunable_columns
from stripewise.observe.evidence import check_evidence
from stripewise.observe.objectives import Conditions, kind_of, measure, parse_objective, usages
from stripewise.observe.objectives import registry as objectives
from stripewise.output import figures as of_experiments
from stripewise.output.experiment_view import ExperimentView
from stripewise.output.export import export
from stripewise.output.figures import figure_names
from stripewise.output.html import render_report
from stripewise.output.page import environment
from stripewise.requests.experiment import Experiment, parse_experiment
from stripewise.runners.injection import inject
from stripewise.runners.schedulers import registry as schedulers
from stripewise.runners.schedulers.job import JobPhase, JobRequest
from stripewise.runners.schedulers.queue import JobQueue
from stripewise.runners.schedulers.registry import make_scheduler, scheduler_names
from stripewise.search import base as samplers
from stripewise.search.base import make_sampler, sampler_names
from stripewise.testing.models import ModelContract, sample_table
from stripewise.testing.objectives import ObjectiveContract
from stripewise.testing.samplers import SamplerContract, play, sample_spaces
from stripewise.testing.schedulers import SchedulerContract
from stripewise.trial import State
from tests.unit import test_stacks
from tests.unit.finished_experiment import finished

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ROOT / "docs" / "how-to"
WRITES = Workload(operation="write", collective=True, nodes=2, processes_per_node=4, file_size=1 << 30)


def text_of(guide: str) -> str:
    """The section of a page with this heading."""
    pages = "\n".join(page.read_text("utf-8") for page in sorted(GUIDES.glob("add-*.md")))
    (found,) = re.findall(rf"^## {guide}[^\n]*\n(.*?)(?=^## Add |\Z)", pages, flags=re.DOTALL | re.MULTILINE)
    return str(found)


def blocks(guide: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text_of(guide), flags=re.DOTALL)


def block(guide: str, language: str) -> str:
    (found,) = blocks(guide, language)
    return found


def module_of(guide: str, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that the guide's Python makes, under a name of its own for the length of a test."""
    module = types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    for code in blocks(guide, "python"):
        exec(compile(code, guide, "exec"), module.__dict__)
    return module


def entry(guide: str, group: str) -> EntryPoint:
    points = tomllib.loads(blocks(guide, "toml")[0])["project"]["entry-points"]
    assert list(points) == [group]
    ((name, target),) = points[group].items()
    return EntryPoint(name, target, group)


def register(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point for point in points if point.group == group])


def package_of(guide: str, group: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The guide's module, registered as the guide says."""
    point = entry(guide, group)
    register(monkeypatch, point)
    return module_of(guide, point.module, monkeypatch)


def hold(suite: object, contract: type, at_least: int, folder: Path) -> None:
    """Run a contract suite of the guide."""
    assert isinstance(suite, contract)
    tests = [getattr(suite, name) for name in dir(suite) if name.startswith("test_")]
    assert len(tests) >= at_least
    for test in tests:
        test(folder) if inspect.signature(test).parameters else test()


@pytest.mark.parametrize(("guide", "own"), [("Add a plot", "elapsed"), ("Add a resource", "notes")])
def test_the_paths_that_a_guide_names_exist(guide: str, own: str) -> None:
    for path in re.findall(r"`((?:src|tests)/[\w/.]+)`", text_of(guide)):
        assert (ROOT / path).exists() or own in path, path


# -- a hint, a stack, a carrier, a file system ---------------------------------------------------------------------


@pytest.mark.slow
def test_a_hint_is_one_table(tmp_path: Path) -> None:
    text, _ = Bundled("stack", "catalogue/stacks").find("romio")
    path = tmp_path / "romio.toml"
    path.write_text(text + "\n" + block("Add a hint", "ini"))
    hint = load_stack(str(path)).parameters[-1]
    check_evidence(hint, "romio")
    experiment = Experiment(command=["app"], stacks=[str(path)])
    lustre = WRITES.model_copy(update={"driver": "LUSTRE:", "file_system": "lustre"})
    space = bind_space(experiment, Circumstances(lustre, "romio")).space
    chosen = Configuration({p.name: 4 if p.name == hint.name else p.default for p in space.parameters})
    plan = Plan(settings_of(space, chosen))
    assert plan.text().endswith("hint romio_lock_wait 4\n")
    assert "romio_lock_wait 4" in export(plan, "hints").text
    elsewhere = bind_space(experiment, Circumstances(WRITES.model_copy(update={"driver": "UFS:"}), "romio"))
    assert "needs the LUSTRE driver" in elsewhere.left_out[hint.name]
    older = bind_space(experiment, Circumstances(lustre, "romio", "MPICH 5.0.0"))
    assert "known since MPICH 5.1" in older.left_out[hint.name]


def test_a_stack_is_one_file(tmp_path: Path) -> None:
    path = tmp_path / "burst.toml"
    path.write_text(block("Add a stack", "toml"))
    for parameter in load_stack(str(path)).parameters:
        test_stacks.assert_described_whole("burst", parameter)
    space = bind_space(Experiment(command=["app"], stacks=[str(path)]), Circumstances(WRITES, "romio")).space
    assert space.names == ("burst_space", "burst_chunk")
    assert space.count() == (9, True)
    (expected,) = space.knowledge
    assert expected.gain == 0.8
    chosen = Configuration({"burst_space": 16 << 30, "burst_chunk": 16 << 20})
    made = export(Plan(settings_of(space, chosen)), "shell")
    assert f"export BURST_SPACE={16 << 30}\n" in made.text
    assert "BURST_CHUNK" not in made.text


@pytest.fixture
def burst() -> Iterator[Carrier]:
    names: dict[str, Any] = {}
    exec(compile(block("Add a carrier", "python"), "Add a carrier", "exec"), names)
    yield names["BURST"]
    del Carrier.known["burst"]


def test_a_carrier_is_one_class(burst: Carrier, tmp_path: Path) -> None:
    (parameter,) = parse_stack(block("Add a carrier", "ini"), "burst.toml").parameters
    assert parameter.carrier is burst and carriers.carrier_named("burst") is burst
    check_evidence(parameter, "burst")
    plan = Plan((Setting(burst, "chunk", "1048576"),))
    assert Plan.parse(plan.text(), "plan") == plan
    injection = inject(plan, Program(), None, tmp_path)
    assert injection.files == {"burst.conf": "chunk = 1048576\n"}
    assert injection.environment == {"BURST_CONFIG": str(tmp_path / "burst.conf")}
    assert [entry.by for entry in injection.carried] == ["BURST_CONFIG"]
    assert "BURST_CONFIG names" in export(plan, "shell").cannot[0]
    assert export(plan, "lfs").cannot == ["chunk=1048576 is not a file layout"]


@pytest.fixture
def stonefs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[filesystems.FileSystem]:
    """StoneFS, found as if its module stood in the package, with its stack."""
    (tmp_path / "stonefs.py").write_text(block("Add a file system", "python"))
    monkeypatch.setattr(filesystems, "__path__", [*filesystems.__path__, str(tmp_path)])
    found = filesystems._list_file_systems()
    monkeypatch.setattr(filesystems, "FILE_SYSTEMS", found)
    monkeypatch.setattr("stripewise.diagnose.script.FILE_SYSTEMS", found)
    yield filesystems.find_file_system("stonefs")
    sys.modules.pop("stripewise.catalogue.filesystems.stonefs", None)


def test_a_file_system_is_one_module_and_one_stack(
    stonefs: filesystems.FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert filesystems.of_file("fuse.stonefs") is stonefs
    stack = parse_stack(block("Add a file system", "toml"), "stonefs.toml")
    for parameter in stack.parameters:
        check_evidence(parameter, "stonefs")
        assert stonefs.key(parameter.setting) is not None
    assert default_stacks("romio", Workload(file_system="stonefs")) == ["romio", "stonefs"]
    plan = Plan((Setting(LAYOUT, "width", "4", "stonefs"), Setting(LAYOUT, "block", "65536", "stonefs")))
    made = export(plan, "lfs", directory="/data")
    assert made.text == "stonectl layout --width 4 --block 65536 /data\n"
    assert made.undo.startswith("stonectl layout --reset /data\n")
    assert export(plan, "hints").text == "stonefs_block 65536\n"
    assert stonefs.for_file({"width": "2"}, "/data/a b") == ["stonectl layout --width 2 --create '/data/a b'"]
    assert {(s.name, s.value) for s in parse_script("stonectl layout -w 4 --block=1m out").settings} == {
        ("width", "4"),
        ("block", "1m"),
    }
    found = stonefs.look(Path("/data"), "stonectl", lambda words: f"{' '.join(words)}\n")
    assert found is not None and found.text == "stonectl show /data"
    monkeypatch.setattr(
        "stripewise.models.tunables.load_stack", lambda name: stack if name == "stonefs" else load_stack(name)
    )
    columns = [Column(name="stripes", kind="ordinal", role="stripe_count", values=[1, 2], default=1)]
    schema = Schema(name="t", objective=ObjectiveColumn(column="b", direction="maximize"), parameter=columns)
    (column,) = tunable_columns(schema, "stonefs")
    assert column.set_by is SetBy.SETTING and column.parameter is stack.parameters[0]


# -- an objective --------------------------------------------------------------------------------------------------

OBJECTIVE = "Add an objective"


def test_an_objective_keeps_its_contract_and_is_known_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = package_of(OBJECTIVE, objectives.ENTRY_POINTS, monkeypatch)
    hold(package.TestOpenTime(), ObjectiveContract, 6, tmp_path)
    assert "open_time" in usages()
    found = parse_objective("open_time")
    assert (found.direction, found.unit) == ("minimize", "s")
    outcome = Outcome(0, State.FINISHED, elapsed=2.0, started=0.0, report=package.REPORT)
    assert measure(found, outcome) == pytest.approx(0.5)
    with pytest.raises(RunFailed, match="no report, so open_time is unknown"):
        measure(found, Outcome(0, State.FINISHED, elapsed=2.0, started=0.0))
    with pytest.raises(UserError, match="open_time is measured by the preloaded runtime, which cannot be in app"):
        kind_of("open_time").check(Conditions("local", "app", unseen="it is linked statically"))


def test_everything_that_the_guide_to_an_objective_names_exists() -> None:
    table = re.findall(r"^\| (`.*?) \|", text_of(OBJECTIVE), flags=re.MULTILINE)
    names = {name for row in table for name in re.findall(r"`(\w+)`", row)}
    assert len(names) >= 9
    assert all(hasattr(objectives.ObjectiveKind, name) for name in names)


# -- a sampler -----------------------------------------------------------------------------------------------------

SAMPLER = "Add a sampler"


@pytest.mark.slow
def test_a_sampler_keeps_its_contract(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = package_of(SAMPLER, samplers.ENTRY_POINTS, monkeypatch)
    hold(package.TestCoordinateSampler(), SamplerContract, 9, tmp_path)


def test_a_sampler_is_known_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    package_of(SAMPLER, samplers.ENTRY_POINTS, monkeypatch)
    name = entry(SAMPLER, samplers.ENTRY_POINTS).name
    assert name in sampler_names()
    sampler = make_sampler(name, {"width": "3"})
    assert sampler.options.width == 3
    history, _ = play(sampler, sample_spaces()["large"], trials=10)
    assert {trial.tag for trial in history.trials[1:]} <= {"near", "random"}
    with pytest.raises(UserError, match="no option 'depth'; its options: width"):
        make_sampler(name, {"depth": 3})


@pytest.mark.parametrize(
    ("target", "message"), [("nowhere:Sampler", "cannot be loaded"), ("json:JSONDecoder", "is not a")]
)
def test_broken_entry_points_are_named(target: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, EntryPoint("broken", target, samplers.ENTRY_POINTS))
    assert "broken" in sampler_names()
    with pytest.raises(UserError, match=f"sampler 'broken' .{target}. {message}"):
        make_sampler("broken")


def test_a_plug_in_cannot_take_the_name_of_a_built_in_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, EntryPoint("random", "nowhere:X", samplers.ENTRY_POINTS))
    assert sampler_names().count("random") == 1
    assert make_sampler("random").name == "random"


# -- a performance model -------------------------------------------------------------------------------------------

MODEL = "Add a performance model"


@pytest.mark.slow
def test_a_model_keeps_its_contract_and_is_known_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = package_of(MODEL, models.ENTRY_POINTS, monkeypatch)
    hold(package.TestNearestModel(), ModelContract, 10, tmp_path)
    name = entry(MODEL, models.ENTRY_POINTS).name
    assert name in model_names()
    model = make_model(name, {"neighbours": "4"}).fit(sample_table(repeats=1))
    model.save(tmp_path / "a.model")
    assert load_model(tmp_path / "a.model").options.neighbours == 4


# -- a scheduler ---------------------------------------------------------------------------------------------------

SCHEDULER = "Add a scheduler"


def test_a_scheduler_keeps_its_contract_and_is_known_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = package_of(SCHEDULER, schedulers.ENTRY_POINTS, monkeypatch)
    hold(package.TestAbacus(), SchedulerContract, 10, tmp_path)
    assert "abacus" in scheduler_names()
    (text,) = re.findall(r'```toml title="experiment.toml"\n(.*?)```', text_of(SCHEDULER), flags=re.DOTALL)
    experiment = parse_experiment(text, "the guide")
    assert type(make_scheduler(experiment.batch.scheduler)).__name__ == "Abacus"
    pytest.importorskip("fastapi")
    from stripewise.desk.server.resources.new_experiment import form

    service = types.SimpleNamespace(items=types.SimpleNamespace(page=lambda _kind, _most: []))
    (choice,) = [one for one in form(service, {})["batch"] if one.name == "batch.scheduler"]
    assert choice.choices == tuple(scheduler_names())


@pytest.mark.slow
def test_jobs_of_a_scheduler_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Over commands of its own that start a job at once."""
    package_of(SCHEDULER, schedulers.ENTRY_POINTS, monkeypatch)
    (tmp_path / "bin").mkdir()
    for program, text in {
        "absub": 'bash "$1" > /dev/null; echo queued as 7',
        "abstat": "[ -e {0}/ran ] && echo 7 done || echo 7 waits",
        "abdel": 'echo "no such job: $1" >&2; exit 1',
    }.items():
        (tmp_path / "bin" / program).write_text(f"#!/bin/bash\n{text.format(tmp_path)}\n")
        (tmp_path / "bin" / program).chmod(0o755)
    (tmp_path / "job.sh").write_text(f"touch {tmp_path}/ran\n")
    experiment = parse_experiment('[batch]\nscheduler = "abacus"\nnodes = 2\npoll = 1\n', "test")
    queue = JobQueue(experiment.batch, tmp_path / "scripts", {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"})
    queue.check()
    try:
        ticket = queue.submit(JobRequest("stripewise-x.1", tmp_path / "job.sh", tmp_path, 60.0, queue.batch))
        assert ticket.identifier == "7"
        deadline = time.monotonic() + 60
        while queue.standing(ticket).phase is not JobPhase.OVER:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert (tmp_path / "ran").exists()
        queue.cancel(ticket)
        assert queue.gone(ticket) is True
    finally:
        queue.close()


# -- a finding -----------------------------------------------------------------------------------------------------

FINDING = "Add a finding"


@pytest.fixture
def finding(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The guide's module, whose rule goes with the test."""
    rules, limits = dict(RULES), dict(LIMITS)
    yield module_of(FINDING, entry(FINDING, diagnosing.ENTRY_POINTS).value, monkeypatch)
    for table, before in ((RULES, rules), (LIMITS, limits)):
        table.clear()
        table.update(before)  # type: ignore[arg-type]


def test_a_finding_weighs_and_its_threshold_can_be_set(finding: Any) -> None:
    finding.test_many_files_are_found_and_a_few_are_not()
    assert set(LIMITS) >= {"files_a_rank"}
    activity = finding.Activity.model_validate(
        {
            "source": "log",
            "kind": "darshan",
            "job": {"ranks": 4, "elapsed": 10.0},
            "io_seconds": 5.0,
            "counted": {"files": 40, "small": 0},
        }
    )
    codes = [{f.code for f in diagnosing.diagnose(activity, limits).findings} for limits in ({}, {"files_a_rank": 5})]
    assert ["many-files-a-rank" in found for found in codes] == [False, True]


def test_modules_of_findings_are_imported_and_broken_ones_named(finding: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, entry(FINDING, diagnosing.ENTRY_POINTS))
    finding.test_many_files_are_found_and_a_few_are_not()
    register(monkeypatch, EntryPoint("broken", "nowhere_at_all", diagnosing.ENTRY_POINTS))
    with pytest.raises(UserError, match=r"findings 'broken' \(nowhere_at_all\) cannot be loaded"):
        finding.found(files=1)


# -- a plot --------------------------------------------------------------------------------------------------------

PLOT = "Add a plot"


@pytest.fixture
def plot(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The guide's module; the figure and its place are there for the length of a test."""
    monkeypatch.setattr(of_experiments, "FIGURES", dict(of_experiments.FIGURES))
    module = module_of(PLOT, "guide", monkeypatch)
    text = (ROOT / "src/stripewise/output/templates/sections.html").read_text("utf-8")
    end = text.index("{% endcall %}{% endmacro %}", text.index("{% macro cost("))
    changed = text[:end] + blocks(PLOT, "html")[0] + text[end:]
    shared = environment()
    monkeypatch.setattr(shared, "loader", ChoiceLoader([DictLoader({"sections.html": changed}), shared.loader]))
    shared.cache.clear()
    yield module
    shared.cache.clear()


@pytest.mark.slow
def test_a_plot_draws_plain_data_and_has_its_place_in_the_report(plot: Any) -> None:
    assert list(plot.elapsed([0, 1], [2.0, 3.0]).data[0].y) == [2.0, 3.0]
    record, trials = finished()
    assert "elapsed" in figure_names(ExperimentView(record, trials))
    page = render_report(record, trials)
    assert 'data-figure="elapsed"' in page
    document = json.loads(re.search(r'<script type="application/json" id="figures">(.*?)</script>', page, re.S)[1])
    assert len(document["figures"]["elapsed"]["data"][0]["x"]) > 1


# -- a resource of the service -------------------------------------------------------------------------------------

RESOURCE = "Add a resource"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A service with the guide's resource."""
    pytest.importorskip("fastapi")
    from stripewise.desk.server import app, html
    from stripewise.desk.server.resources import RESOURCES
    from tests.unit.service import running

    module = module_of(RESOURCE, "notes", monkeypatch)
    monkeypatch.setattr(app, "RESOURCES", [*RESOURCES, module.resource])
    pages = html._environment()
    notes = DictLoader({"notes.html": block(RESOURCE, "html")})
    monkeypatch.setattr(pages, "loader", ChoiceLoader([notes, pages.loader]))
    with running(tmp_path) as found:
        yield found


@pytest.mark.slow
def test_a_resource_keeps_lists_shows_and_deletes(served: Any) -> None:
    text = "OST 14 <b> is being repaired"
    key = {"Idempotency-Key": "one"}
    made = [served.operator.post("/api/notes", json={"text": text}, headers=key).json() for _ in range(2)]
    assert made[0] == made[1] and made[0]["owner"] == "ada"
    assert served.viewer.get("/api/notes").json()["items"] == [made[0]]
    page = served.operator.get("/notes").text
    assert "OST 14 &lt;b&gt; is being repaired" in page and "/delete" in page
    assert "/delete" not in served.viewer.get("/notes").text
    assert served.operator.delete(f"/api/notes/{made[0]['id']}").json() == made[0]
    assert "No notes yet." in served.viewer.get("/notes").text


@pytest.mark.slow
def test_errors_and_rights_of_a_resource_are_those_of_every_one(served: Any) -> None:
    assert served.nobody.get("/api/notes").status_code == 401
    assert served.viewer.post("/api/notes", json={"text": "x"}).status_code == 403
    assert served.operator.post("/api/notes", json={"text": ""}).json()["error"]["code"] == "invalid"
    assert served.operator.delete("/api/notes/none").status_code == 404
    assert "/api/v1/notes/{id}" in served.operator.get("/openapi.json").json()["paths"]


def test_the_methods_that_the_guide_to_a_resource_names_exist() -> None:
    pytest.importorskip("fastapi")
    from stripewise.desk.server.resource import Resource

    named = re.search(r"`get`, `post`, `file` and `delete`.*?`page` and `form`", text_of(RESOURCE))[0]
    assert all(callable(getattr(Resource, name)) for name in re.findall(r"`(\w+)`", named))
