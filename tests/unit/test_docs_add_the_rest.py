"""The guides to a hint, a stack, a carrier and a file system work as written: their code and tables are used."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from stripewise.catalogue import carriers, filesystems
from stripewise.catalogue.carriers import LAYOUT, Carrier, Program, Setting
from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import Plan, settings_of
from stripewise.catalogue.stack import load_stack, parse_stack
from stripewise.catalogue.workload import Workload
from stripewise.diagnose.script import parse_script
from stripewise.documents import Bundled
from stripewise.engine.space import bind_space, default_stacks
from stripewise.models.carriers import SetBy, tunable_columns
from stripewise.models.table import Column, ObjectiveColumn, Schema
from stripewise.observe.evidence import check_evidence
from stripewise.output.export import export
from stripewise.requests.experiment import Experiment
from stripewise.runners.inject.injection import inject
from tests.unit import test_stacks

GUIDES = Path(__file__).parents[2] / "docs" / "how-to"
WRITES = Workload(operation="write", collective=True, nodes=2, processes_per_node=4, file_size=1 << 30)


def block(guide: str, language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", (GUIDES / guide).read_text("utf-8"), flags=re.DOTALL)
    return str(found)


@pytest.mark.slow
def test_a_hint_is_one_table(tmp_path: Path) -> None:
    text, _ = Bundled("stack", "catalogue/stacks").find("romio")
    path = tmp_path / "romio.toml"
    path.write_text(text + "\n" + block("add-a-hint.md", "ini"))
    hint = load_stack(str(path)).parameters[-1]
    check_evidence(hint, "romio")
    experiment = Experiment(command=["app"], stacks=[str(path)])
    lustre = WRITES.model_copy(update={"driver": "LUSTRE:", "file_system": "lustre"})
    space = bind_space(experiment, lustre, "romio").space
    chosen = Configuration({p.name: 4 if p.name == hint.name else p.default for p in space.parameters})
    plan = Plan(settings_of(space, chosen))
    assert plan.text().endswith("hint romio_lock_wait 4\n")
    assert "romio_lock_wait 4" in export(plan, "hints").text
    elsewhere = bind_space(experiment, WRITES.model_copy(update={"driver": "UFS:"}), "romio")
    assert "acts under driver LUSTRE" in elsewhere.left_out[hint.name]
    older = bind_space(experiment, lustre, "romio", "MPICH 5.0.0")
    assert "known since MPICH 5.1" in older.left_out[hint.name]


def test_a_stack_is_one_file(tmp_path: Path) -> None:
    path = tmp_path / "burst.toml"
    path.write_text(block("add-a-stack.md", "toml"))
    for parameter in load_stack(str(path)).parameters:
        test_stacks.test_every_parameter_is_described_whole("burst", parameter)
    space = bind_space(Experiment(command=["app"], stacks=[str(path)]), WRITES, "romio").space
    assert space.names == ("burst_space", "burst_chunk")
    assert space.count() == (9, True)
    (expected,) = space.knowledge
    assert expected.gain == 0.8
    chosen = Configuration({"burst_space": 16 << 30, "burst_chunk": 16 << 20})
    made = export(Plan(settings_of(space, chosen)), "shell")
    assert f"export BURST_SPACE={16 << 30}\n" in made.text
    assert "BURST_CHUNK" not in made.text


@pytest.fixture
def burst():
    names: dict[str, object] = {}
    exec(compile(block("add-a-carrier.md", "python"), "add-a-carrier.md", "exec"), names)
    yield names["BURST"]
    del Carrier.known["burst"]


def test_a_carrier_is_one_class(burst: Carrier, tmp_path: Path) -> None:
    (parameter,) = parse_stack(block("add-a-carrier.md", "ini"), "burst.toml").parameters
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
def stonefs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """StoneFS, found as if its module stood in the package, with its stack."""
    (tmp_path / "stonefs.py").write_text(block("add-a-file-system.md", "python"))
    monkeypatch.setattr(filesystems, "__path__", [*filesystems.__path__, str(tmp_path)])
    found = filesystems._all()
    monkeypatch.setattr(filesystems, "FILE_SYSTEMS", found)
    monkeypatch.setattr("stripewise.diagnose.script.FILE_SYSTEMS", found)
    yield filesystems.named("stonefs")
    sys.modules.pop("stripewise.catalogue.filesystems.stonefs", None)


def test_a_file_system_is_one_module_and_one_stack(
    stonefs: filesystems.FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert filesystems.of_file("fuse.stonefs") is stonefs
    stack = parse_stack(block("add-a-file-system.md", "toml"), "stonefs.toml")
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
        "stripewise.models.carriers.load_stack", lambda name: stack if name == "stonefs" else load_stack(name)
    )
    columns = [Column(name="stripes", kind="ordinal", role="stripe_count", values=[1, 2], default=1)]
    schema = Schema(name="t", objective=ObjectiveColumn(column="b", direction="maximize"), parameter=columns)
    (column,) = tunable_columns(schema, "stonefs")
    assert column.set_by is SetBy.SETTING and column.parameter is stack.parameters[0]
