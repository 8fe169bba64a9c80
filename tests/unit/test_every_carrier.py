"""Models answer with settings of every carrier and of every stack, bundled or the user's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stripewise.catalogue.carriers import Carrier
from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import settings_of
from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import load_stack, stack_names
from stripewise.catalogue.workload import Workload
from stripewise.desk.cli.main import main
from stripewise.engine.model_prior import ModelPrior
from stripewise.engine.priors import choose, prior_of, start_from_model
from stripewise.engine.session import Session
from stripewise.engine.space import Circumstances, bind_space
from stripewise.engine.try_first import configurations
from stripewise.errors import UserError
from stripewise.models.artifact.export import to_artifact
from stripewise.models.prescribe.prescriber import Prescriber
from stripewise.models.prescribe.request import PrescriptionRequest
from stripewise.models.registry import load_model, make_model
from stripewise.models.table import Schema, Table, make_table, read_table, write_table
from stripewise.models.tunables import describe_schema
from stripewise.observe.sources import observe
from stripewise.requests.experiment import Experiment
from stripewise.runners.function import FunctionRunner
from stripewise.search.base import make_sampler
from stripewise.store.base import MEMORY
from stripewise.store.opening import open_store
from tests.unit.search_histories import ELAPSED

MIB = 1 << 20
SMALLREAD = Path(__file__).resolve().parents[2] / "examples" / "accelerator" / "smallread.toml"
TRANSFER = SMALLREAD.parents[1] / "transfer-stack.toml"
REPORT = Path(__file__).resolve().parents[1] / "fixtures" / "reports" / "hdf5_members.json"
OWN = """
name = "mine"
layer = "{layer}"
constraint = ["chunk <= 4194304"]

[[parameter]]
name = "chunk"
key = "{key}"
kind = "ordinal"
values = ["64 KiB", "1 MiB", "4 MiB", "8 MiB"]
default = "64 KiB"
unit = "B"
carrier = "{carrier}"
{when}
cost = 0.1

[[derived]]
name = "{key}_half"
carrier = "{carrier}"
value = "chunk // 2"
"""


def table_of(name: str, gains: dict[Any, float], **column: Any) -> Table:
    """A table in which the values of one parameter differ by the gains named."""
    entry = {"name": name, "kind": "ordinal", "values": [*gains], "default": next(iter(gains)), **column}
    schema = Schema.model_validate(
        {
            "name": "site",
            "objective": {"column": "y", "direction": "maximize", "unit": "MiB/s"},
            "context": [{"name": "nodes", "kind": "ordinal", "role": "nodes", "values": [1, 2, 4, 8]}],
            "parameter": [entry],
        }
    )
    rows = [
        {"nodes": nodes, name: value, "repeat": repeat, "y": 100 * nodes * gain * (1 + 0.01 * repeat)}
        for nodes in (1, 2, 4, 8)
        for value, gain in gains.items()
        for repeat in range(3)
    ]
    return make_table(schema, rows)


def prescribed(table: Table, **words: Any) -> Any:
    workload = Workload.model_validate({"operation": "write", "nodes": 4, "processes_per_node": 4, **words})
    return Prescriber(make_model("tree").fit(table)).prescribe(PrescriptionRequest(workload))


def own(folder: Path, carrier: Carrier) -> str:
    """A stack of the user's own with one parameter that a carrier brings."""
    key, layer = ("stripe_size", "lustre") if carrier.of_file_system else ("own_chunk", "mine")
    key = {"pnetcdf": "nc_chunk", "python": "module.File.chunk"}.get(carrier.name, key)
    when = 'when = "create"' if carrier.acts == ("create",) else ""
    path = folder / f"{carrier.name}.toml"
    path.write_text(OWN.format(carrier=carrier.name, key=key, layer=layer, when=when))
    return str(path)


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        ("hdf5_alignment", "hdf5 alignment 1048576", {"api": "hdf5"}),
        ("alignment", "hdf5 alignment 1048576", {"api": "hdf5"}),
        ("hdf5_meta_block_size", "hdf5 meta_block_size 1048576", {}),
        ("nc_header_align_size", "hint nc_header_align_size 1048576", {"api": "pnetcdf"}),
        ("io_ompio_bytes_per_agg", "mca io_ompio_bytes_per_agg 1048576", {"collective": True}),
        ("H5FD_SUBFILING_STRIPE_SIZE", "env H5FD_SUBFILING_STRIPE_SIZE 1048576", {}),
    ],
)
def test_what_is_eight_times_faster_is_prescribed(name: str, line: str, words: dict[str, Any]) -> None:
    found = prescribed(table_of(name, {1024: 1, MIB: 8}, unit="B"), **words)
    assert [setting.line() for setting in found.plan.settings] == [line]
    assert found.speedup == pytest.approx(8, rel=0.05) and not found.advice


@pytest.mark.parametrize("carrier", Carrier.known.values(), ids=str)
def test_a_stack_of_the_user_s_own_is_prescribed_whatever_carries_it(carrier: Carrier, tmp_path: Path) -> None:
    table = table_of("chunk", {65536: 1, MIB: 8, 4 * MIB: 2, 8 * MIB: 16}, unit="B")
    stack = own(tmp_path, carrier)
    write_table(Table(describe_schema(table.schema, [stack]), *table_parts(table)), tmp_path / "t")
    measured = read_table(tmp_path / "t")
    assert measured.schema.stack[0].parameter[0].carrier is carrier
    make_model("tree").fit(measured).save(tmp_path / "model")
    model = load_model(tmp_path / "model")
    asked = PrescriptionRequest(Workload(operation="write", nodes=4, api=carrier.apis[0] if carrier.apis else None))
    found = Prescriber(model).prescribe(asked)
    # 8 MiB is the fastest, but the stack forbids it; half of the chunk follows from it.
    assert {setting.key: setting.value for setting in found.plan.settings} == {
        (key := found.plan.settings[0].key): str(MIB),
        f"{key}_half": str(MIB // 2),
    }
    assert {setting.carrier for setting in found.plan.settings} == {carrier}
    # The runtime keeps what it cannot set at its current value, and knows the rules all the same.
    (tunable,) = (entry for entry in to_artifact(model).inputs if entry.name == "chunk")
    assert (tunable.free is None or len(tunable.free) > 1) is carrier.decided
    # A search starts from the model.
    space = Space.bind(load_stack(stack).parameters)
    prior = ModelPrior(model, asked.workload)
    assert prior.shared(space) == ["chunk"]
    assert int(prior(space, space.enumerate()).argmax()) == 3


@pytest.mark.parametrize("carrier", Carrier.known.values(), ids=str)
def test_a_search_starts_from_what_is_known_whatever_carries_it(carrier: Carrier, tmp_path: Path) -> None:
    stack, gains = own(tmp_path, carrier), {65536: 1, MIB: 8, 4 * MIB: 2}
    api = carrier.apis[0] if carrier.apis else None
    workload = Workload(operation="write", nodes=4, processes_per_node=4, api=api)
    space = bind_space(Experiment(command=["./app"], stacks=[stack]), Circumstances(workload, None)).space
    fields = {"runner": "function", "sampler": "random", "warmup": 0, "budget": {"runs": 3}}
    with open_store(MEMORY) as store:
        earlier = store.create(
            Experiment.model_validate({**fields, "workload": workload, "confirmation": {"pairs": 0}})
        )
        runner = FunctionRunner(lambda configuration: 8 / gains[configuration["chunk"]], space, ELAPSED)
        Session(store, earlier, runner, "test").run()
        chosen = choose(store, [earlier], "", ELAPSED, space, workload, simulated=False)
        from_earlier = prior_of(store, chosen, space, workload, ELAPSED, make_sampler("auto", {}).expectation(space))
    # The table does not know the stack: the search does.
    make_model("tree").fit(table_of("chunk", gains, unit="B")).save(tmp_path / "model")
    from_model = start_from_model(str(tmp_path / "model"), space, workload, None).prior
    rows = space.enumerate()
    for prior in (from_earlier, from_model):
        assert prior is not None
        assert space.configuration(rows[prior(space, rows).argmax()])["chunk"] == MIB
    plan = "; ".join(setting.line() for setting in settings_of(space, Configuration({"chunk": MIB})))
    assert [one["chunk"] for one in configurations(space, [plan])[0]] == [MIB]


def table_parts(table: Table) -> tuple[Any, ...]:
    return table.levels, table.context_levels, table.repeats, table.values


def test_the_settings_of_the_accelerator_and_of_an_argument_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "w.toml").write_text('[workload]\noperation = "read"\nnodes = 4\n')
    asked = ["prescribe", str(tmp_path / "m"), "--workload", str(tmp_path / "w.toml"), "--to", "plan"]
    for name, stack, gains, line in (
        ("binsize", SMALLREAD, {MIB: 1, 20 * MIB: 8}, f"env SMALLREAD_BINSIZE {20 * MIB}"),
        ("transfer", TRANSFER, {4096: 1, MIB: 8}, f"argument transfer {MIB}"),
    ):
        write_table(table_of(name, gains, unit="B"), tmp_path / "t")
        train = ["site", "train", str(tmp_path / "t"), "--model", "tree", "--out", str(tmp_path / "m")]
        assert main(train) == 0
        capsys.readouterr()
        # Without its stack nothing is known of a column that no bundled stack has, and the answer says what to do.
        assert main(asked[:-2]) == 0
        said = " ".join(capsys.readouterr().out.split())
        bundled = any(parameter.name == name for stack in stack_names() for parameter in load_stack(stack).parameters)
        assert ("nothing can be chosen for this workload" in said and "--stack FILE" in said) != bundled
        assert "no setting" not in said
        # The stack comes with the question, or with the table.
        assert main([*asked, "--stack", str(stack)]) == 0
        assert line in capsys.readouterr().out
        assert main([*train, "--stack", str(stack)]) == 0
        assert main(asked) == 0
        assert line in capsys.readouterr().out
    assert main([*train, "--stack", str(SMALLREAD)]) == 2
    assert "has none of the columns of table site" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "stack", "properties", "settings"),
    [
        ("hdf5_alignment", None, {"alignment": str(MIB)}, []),
        ("binsize", SMALLREAD, {}, [{"layer": "env", "key": "SMALLREAD_BINSIZE", "given": str(MIB)}]),
        ("transfer", TRANSFER, {}, [{"layer": "argument", "key": "transfer", "requested": str(MIB)}]),
    ],
)
def test_what_a_run_had_is_the_setting_of_today(
    name: str, stack: Path | None, properties: Any, settings: Any, tmp_path: Path
) -> None:
    document = json.loads(REPORT.read_text("utf-8"))
    main = document["files"][0]
    main["settings"] = [{"outcome": "applied", **entry} for entry in settings]
    main["hdf5"]["properties"] |= properties
    (tmp_path / "report.json").write_text(json.dumps(document), "utf-8")
    seen = observe(tmp_path / "report.json")
    table = table_of(name, {1024: 1, MIB: 8, 4 * MIB: 2}, unit="B")
    model = make_model("tree").fit(table)
    model.add_stacks([] if stack is None else [str(stack)])
    asked = PrescriptionRequest(Workload(operation="write", nodes=4, api="hdf5"))
    asked = asked.with_observed(seen, model.domain)
    assert asked.current == {name: MIB}
    assert Prescriber(model).prescribe(asked).kept == "the current settings are the best of all combinations"


def test_a_table_keeps_a_whole_stack(tmp_path: Path) -> None:
    table = table_of("binsize", {MIB: 1, 20 * MIB: 8}, unit="B")
    kept = Table(describe_schema(table.schema, [str(SMALLREAD)]), *table_parts(table))
    write_table(kept, tmp_path / "t")
    assert read_table(tmp_path / "t").schema == kept.schema
    for name in ("t", "t.csv"):
        with pytest.raises(UserError, match="is a table, not a model"):
            load_model(tmp_path / name)
    assert kept.schema.stack[0].env and kept.schema.stack[0].off
    assert any("does not switch smallread on: set LD_PRELOAD=" in note for note in prescribed(kept).notes)
