"""Carriers: one registry that everything asks, and models that choose settings of any of them."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from stripewise.catalogue.carriers import (
    ARGUMENT,
    ENVIRONMENT,
    HDF5,
    HINT,
    LAYOUT,
    LOST,
    OBSERVER,
    PNETCDF,
    PYTHON,
    Carrier,
    Form,
    LaunchSettings,
    Program,
    Setting,
    carrier_named,
)
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.stack import parse_stack
from stripewise.errors import UserError
from stripewise.formats import CARRIERS as CARRIER_WORDS
from stripewise.models.prescribe.prescription import list_settings
from stripewise.models.table import Column, ObjectiveColumn, Schema
from stripewise.models.tunables import SetBy, tunable_columns
from stripewise.observe.evidence import RULES, check_evidence
from stripewise.output.export import TARGETS, export
from stripewise.requests.campaign import parse_campaign
from stripewise.runners.injection import prepare

STACK = """
name = "own"
[[parameter]]
name = "depth"
kind = "ordinal"
values = [1, 2, 4]
carrier = "env"
key = "DEPTH"
evidence = "fingerprint"
"""


@pytest.mark.parametrize("carrier", Carrier.known.values(), ids=lambda carrier: carrier.name)
def test_each_carrier_answers_everything(carrier, tmp_path):
    assert carrier_named(carrier.name) is carrier
    assert pickle.loads(pickle.dumps(carrier)) is carrier and copy.deepcopy(carrier) is carrier
    assert carrier.acts and carrier.proofs and carrier.proofs <= {rule.facts for rule in RULES.values()}
    assert carrier.in_artifact in CARRIER_WORDS
    layer = "lustre" if carrier.of_file_system else ""
    key = {PNETCDF: "nc_key", PYTHON: "h5py.File.rdcc_nbytes"}.get(carrier, "stripe_count")
    setting = Setting(carrier, key, "4", layer)
    assert Plan.parse(Plan((setting,)).text(), "test").settings == (setting,)
    for preloaded in (True, False):
        carried = carrier.carry(setting, LaunchSettings(Program("mpich", "romio"), tmp_path, preloaded))
        assert carried.setting is setting and carried.by and carried.wins
    for form in Form:
        said = carrier.express(form, [setting], place="DIR")
        assert said is None or said.pairs or said.cannot


def test_a_key_of_pnetcdf_is_pnetcdfs_whatever_writes_it():
    assert Setting(HINT, "nc_var_align_size", "4096").carrier is PNETCDF
    assert Setting(HINT, "cb_nodes", "4", "romio").carrier is HINT


def test_only_layouts_name_a_file_system():
    assert Setting(HINT, "cb_nodes", "4", "romio") == Setting(HINT, "cb_nodes", "4")
    assert Setting(LAYOUT, "stripe_count", "4", "lustre").name == "lustre stripe_count"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (STACK.replace("carrier =", "apply ="), "'apply' is called 'carrier' now, and is one of adios2, argument, env"),
        (STACK.replace('"env"', '"striping"'), "'striping' is not a carrier; choose from adios2, argument, env"),
    ],
)
def test_the_old_words_are_refused_by_their_new_names(text, message):
    with pytest.raises(UserError, match=message):
        parse_stack(text, "own.toml")
    campaign = 'name = "x"\n[[tunable]]\nvalues = [1]\n' + "\n".join(text.splitlines()[3:4] + text.splitlines()[6:8])
    with pytest.raises(UserError, match=message):
        parse_campaign(campaign, "x.toml")


@pytest.mark.parametrize(
    ("rule", "message"),
    [("aggregators_", "'aggregators_' is not a rule"), ("hdf5_chunks", "proves no setting of the carrier env")],
)
def test_a_rule_that_cannot_prove_a_setting_is_refused_before_a_run(rule, message):
    (parameter,) = parse_stack(STACK.replace("fingerprint", rule), "own.toml").parameters
    with pytest.raises(UserError, match=message) as caught:
        check_evidence(parameter, "own.toml")
    assert "fingerprint" in caught.value.fix and "hdf5_chunks" not in caught.value.fix


def test_columns_of_every_stack_and_of_ones_own_are_settings_of_a_model():
    columns = [
        Column(name="hdf5_alignment", kind="ordinal", values=[1, 1 << 20], default=1, unit="B"),
        Column(name="nc_var_align_size", kind="ordinal", values=[512, 4096], default=512, unit="B"),
        Column(name="depth", kind="ordinal", values=[1, 2, 4], default=1, carrier=ENVIRONMENT, key="DEPTH"),
        Column(name="level", kind="ordinal", values=[1, 2], default=1, carrier="argument"),
    ]
    schema = Schema(name="t", objective=ObjectiveColumn(column="b", direction="maximize"), parameter=columns)
    found = tunable_columns(schema)
    assert [tunable.set_by for tunable in found] == [SetBy.SETTING] * 4
    plan = list_settings(
        [(tunable, tunable.column.values[-1]) for tunable in found], None, "write", {"operation": "write"}
    )
    assert plan == [
        Setting(HDF5, "alignment", str(1 << 20)),
        Setting(PNETCDF, "nc_var_align_size", "4096"),
        Setting(ENVIRONMENT, "DEPTH", "4"),
        Setting(ARGUMENT, "level", "2"),
    ]


# -- the page --------------------------------------------------------------------------------------------------------

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "plan.md"
FACTS = {
    "calls": "system calls",
    "layout": "layout of the file",
    "hdf5": "properties and objects of HDF5",
    "acts": "calls that the library counts",
    "parts": "files of an output",
    "objects": "uses that the module counts",
}
TABLE = "| carrier | acts at | search | prescribe | predict, online | export | evidence |"


def row(carrier: Carrier, folder: Path) -> str:
    """A line of the page's table, from what the carrier answers."""
    layer, key = (
        ("lustre", "stripe_count")
        if carrier.of_file_system
        else ("", {PNETCDF: "nc_key", PYTHON: "module.File.own"}.get(carrier, "own"))
    )
    setting = Setting(carrier, key, "4", layer)
    io = "ompio" if carrier.name == "mca" else "romio"
    program = Program("mpich", io, own_files=((carrier.name, folder / "own.xml"),))
    by, without = (
        carrier.carry(setting, LaunchSettings(program, folder, runtime, in_python=folder)).by
        for runtime in (True, False)
    )
    observed = carrier.carry(setting, LaunchSettings(program, folder, preloaded=False, observed=True)).by
    if by == LOST:
        by, without = observed, "not with MPI"
    else:
        without = "not without it" if without == LOST else f"without it `{without}`"
        without += f"; without MPI `{observed}`" if observed == OBSERVER else ""
    column = Column(name="own", kind="ordinal", values=[1, 4], carrier=carrier, key=key)
    schema = Schema(name="t", objective=ObjectiveColumn(direction="maximize"), parameter=[column])
    (tunable,) = tunable_columns(schema)
    given = list_settings([(tunable, 4)], None, "write", {})
    plan = Plan((setting,))
    exports = [
        target for target in TARGETS if (made := export(plan, target, changed={"own": 4})).text and not made.cannot
    ]
    cells = (
        f"`{carrier.name}`",
        ", ".join(carrier.acts),
        f"`{by}`" if by in without else f"`{by}`; {without}",
        "yes" if tunable.set_by is SetBy.SETTING and given == [setting] else "",
        "yes" if carrier.decided else f"no: {carrier.undecided}",
        ", ".join(f"`{target}`" for target in exports),
        ", ".join(FACTS[fact] for fact in sorted(carrier.proofs)),
    )
    assert all(cells), f"{carrier.name}: a blank needs a reason: {cells}"
    return f"| {' | '.join(cells)} |"


def test_the_page_says_what_each_carrier_can_do(tmp_path: Path) -> None:
    wanted = [row(carrier, tmp_path) for carrier in Carrier.known.values()]
    text = PAGE.read_text("utf-8")
    head, table = TABLE, text[text.index(TABLE) :].split("\n\n")[0].splitlines()[2:]
    assert table == wanted, "put these lines under the head of the table:\n" + "\n".join((head, *wanted))


def test_an_argument_without_a_place_in_the_command_is_named(tmp_path: Path) -> None:
    plan = Plan((Setting(ARGUMENT, "out", "/scratch"),))
    assert prepare(plan, ["echo", "{out}/a"], tmp_path / "run").words == ("echo", "/scratch/a")
    found = prepare(plan, ["echo", "a"], tmp_path / "run")
    assert "out=/scratch is not applied: the command has no {out}" in found.warnings
