"""What a text means for a parameter, and whether its value acts: every caller gives the catalogue's answer."""

from __future__ import annotations

import re

import pytest

from stripewise.catalogue.carriers import HINT, LAYOUT, MCA, Setting
from stripewise.catalogue.configuration import Configuration, is_same, place_of
from stripewise.catalogue.expectation import expect
from stripewise.catalogue.meaning import (
    Meaning,
    Situation,
    acts,
    check_plan,
    check_value,
    explain_unread,
    find_parameter,
    parameters,
    parse,
    value_of,
)
from stripewise.catalogue.parameter import Parameter, Scale
from stripewise.catalogue.plan import Plan, spell
from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import every_stack, stacks_naming
from stripewise.catalogue.workload import Workload
from stripewise.diagnose.knobs import FORMS, Surroundings, judge_script
from stripewise.diagnose.rules.calls import list_dead
from stripewise.diagnose.script_setting import ScriptSetting
from stripewise.engine.definition import check
from stripewise.engine.effects import verdicts
from stripewise.engine.space import Circumstances, as_set, bind_space
from stripewise.engine.try_first import configurations
from stripewise.errors import UserError
from stripewise.lab.batch import of_hints
from stripewise.requests.experiment import Experiment
from tests.unit import reports
from tests.unit.reports import changed, recorded
from tests.unit.test_diagnosis_findings import activity

TEXTS = (
    *("4m", "4M", "16K", "1MiB", "4 MiB", "16", "0", "-1", " 8", "8 ", "+8", "010", "0x10", "1.5", "1e3", "inf", "nan"),
    *("4294967296", "9" * 30, "1_000", "٣", "abc", "-", "*", "none"),
    *("true", "TRUE", "True", "false", "yes", "no", "on", "off", "enable", "ENABLE", "Enable", "enabled", "enabel"),
    *("requested", "disable", "automatic", "AUTOMATIC"),
)


def texts_of(parameter: Parameter) -> list[str]:
    return [*TEXTS, *(spell(value) for value in list(parameter.values)[:50])]


def setting(parameter: Parameter, text: str) -> Setting:
    return Setting(parameter.carrier, parameter.setting, text, parameter.layer)


# -- one parameter, one text -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "text", "value", "said"),
    [
        ("cb_buffer_size", "4m", 4, "ROMIO reads digits alone: '4m' is 4 for it"),
        ("cb_buffer_size", "4194304", 4194304, ""),
        ("cb_buffer_size", "4294967296", 0, "ROMIO reads digits alone: '4294967296' is 0 for it"),
        ("cb_buffer_size", "abc", 0, "ROMIO reads digits alone: 'abc' is 0 for it"),
        ("striping_unit", "4294901760", 4294901760, ""),
        ("romio_no_indep_rw", "true", True, ""),
        ("romio_no_indep_rw", "FALSE", False, ""),
        ("romio_no_indep_rw", "yes", None, "'yes' is not one of true, false: the library ignores it without a message"),
        ("romio_no_indep_rw", "1", None, "'1' is not one of true, false"),
        ("romio_no_indep_rw", "enable", None, "'enable' is not one of true, false"),
        ("romio_no_indep_rw", "True", None, "'True' is not one of true, false"),
        ("romio_cb_write", "ENABLE", "enable", ""),
        ("romio_cb_write", "Enable", None, "'Enable' is not one of automatic, enable, disable"),
        ("romio_cb_write", "REQUESTED", "enable", ""),
        ("romio_lustre_cb_lock_ahead_write", "1", 1, ""),
    ],
)
def test_hints_are_read_as_romio_reads_them(key: str, text: str, value: object, said: str) -> None:
    parameter = find_parameter(Setting(HINT, key, text))
    assert parameter is not None
    found = parse(parameter, text)
    assert is_same(found.value, value)
    assert (found.wrong or found.misread).startswith(said) and bool(said) == bool(found.wrong or found.misread)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("io_ompio_bytes_per_agg", "4m", 4 << 20),
        ("io_ompio_bytes_per_agg", "0x10", 16),
        ("io_ompio_bytes_per_agg", "4T", 4),
        ("io_ompio_num_aggregators", "010", 8),
        ("fbtl_posix_write_datasieving", "0", False),
        ("fbtl_posix_write_datasieving", "yes", True),
        ("fbtl_posix_write_datasieving", "enable", None),
    ],
)
def test_parameters_of_open_mpi_are_read_as_it_reads_them(key: str, text: str, value: object) -> None:
    parameter = find_parameter(Setting(MCA, key, text))
    assert parameter is not None
    assert is_same(parse(parameter, text).value, value)


@pytest.mark.parametrize(
    ("key", "text", "value", "said"),
    [
        *(("stripe_size", text, 4 << 20, "") for text in ("4m", "4M", "4194304", "4MiB", "4mib", "4096k")),
        (
            "stripe_size",
            "4MB",
            4 << 20,
            "lfs reads units as powers of 1024, and a size below 4096 as KiB: '4MB' is 4,1",
        ),
        (
            "stripe_size",
            "64",
            64 << 10,
            "lfs reads units as powers of 1024, and a size below 4096 as KiB: '64' is 65,5",
        ),
        ("stripe_size", "1g", 1 << 30, ""),
        ("stripe_size", "1.5M", 3 << 19, ""),
        ("stripe_size", "128b", 64 << 10, "lfs reads"),
        ("stripe_size", "4k", None, "'4k' is not possible: the command refuses it"),
        ("stripe_size", "100000", None, "'100000' is not possible"),
        ("stripe_size", "4 MiB", None, "'4 MiB' is not possible"),
        ("stripe_size", "-1", None, "'-1' is not possible"),
        ("extension_size", "64", None, "'64' is not possible"),
        ("stripe_count", "-1", -1, ""),
        ("stripe_count", "010", 8, "lfs reads"),
        ("stripe_count", "0x10", 16, "lfs reads"),
        *(("stripe_count", text, None, f"'{text}' is not possible") for text in ("-2", "2001", "4k", "8 ")),
        ("overstripe_count", "-2", -2, ""),
    ],
)
def test_layouts_are_read_as_lfs_reads_them(key: str, text: str, value: object, said: str) -> None:
    parameter = find_parameter(Setting(LAYOUT, key, text, "lustre"))
    assert parameter is not None
    found = parse(parameter, text)
    assert is_same(found.value, value)
    assert (found.wrong or found.misread).startswith(said) and bool(said) == bool(found.wrong or found.misread)
    # What is advised is read as advised.
    if found.fix.startswith("write ") and found.fix != "write a number":
        assert parse(parameter, found.fix.removeprefix("write ")) == Meaning(int(found.fix.removeprefix("write ")))


def test_what_stripewise_writes_is_read_as_meant() -> None:
    for name, parameter in parameters().items():
        for value in list(parameter.values)[:50]:
            found = parse(parameter, spell(value))
            assert is_same(found.value, value) and not found.wrong and not found.misread, (name, value)


def test_a_setting_belongs_to_one_parameter() -> None:
    for name, parameter in parameters().items():
        assert find_parameter(setting(parameter, "1")) == parameter, name


def test_all_callers_take_a_text_alike() -> None:
    # As tests of their own, hundreds of parameters take longer to collect and to report than to look at.
    for parameter in parameters().values():
        assert_all_callers_take_a_text_alike(parameter)


def assert_all_callers_take_a_text_alike(parameter: Parameter) -> None:
    for text in texts_of(parameter):
        found = parse(parameter, text)
        assert (found.value is None) == bool(found.wrong), text
        assert value_of(parameter, text) == (parameter.default if found.wrong else found.value)
        # Of a layout, a script may write what the command reads, and a plan digits alone.
        spelt = parameter.carrier is not LAYOUT or isinstance(found.value, str) or text == str(found.value)
        _plans_refuse(parameter, text, refused=bool(found.wrong or found.misread) or not spelt)
        _scripts_say(parameter, text, found.wrong, found.misread)
        if parameter.carrier is HINT:
            default = as_set(parameter, {parameter.setting: text}).default
            number = parameter.ordered and not (parameter.scale is Scale.LOG2 and float(found.value or 0) < 0)
            usable = found.value is not None and (number or place_of(found.value, parameter.values) is not None)
            assert is_same(default, found.value if usable else parameter.default), text
            if parameter.setting in (simulated := of_hints([(parameter.setting, text)])):
                assert is_same(simulated[parameter.setting], found.value), text


def _plans_refuse(parameter: Parameter, text: str, *, refused: bool) -> None:
    plan = Plan((setting(parameter, text),))
    for look in (lambda: check_value(plan.settings[0], "test"), lambda: check_plan(plan, "test")):
        if refused:
            with pytest.raises(UserError):
                look()
        else:
            look()


FORM = {
    form.carrier.name: name for name, form in reversed(FORMS.items()) if name not in ("cray", "intel", "romio_file")
}


def judged(parameter: Parameter, text: str, where: Surroundings) -> tuple[str, str]:
    form = FORM[parameter.carrier.name]
    knob = ScriptSetting(1, parameter.setting, text, form, layer=setting(parameter, text).layer, bound=True)
    (found,) = judge_script("", where, [knob])
    return found.verdict, found.reason


def _scripts_say(parameter: Parameter, text: str, wrong: str, misread: str) -> None:
    if parameter.carrier.name not in FORM:
        return
    verdict, reason = judged(parameter, text, Surroundings("openmpi" if parameter.carrier is MCA else "cray"))
    assert (reason == wrong and verdict == "dead") if wrong else True, (text, reason)
    assert reason == misread if misread and verdict == "live" else True, (text, reason)


@pytest.mark.parametrize("text", TEXTS)
def test_evidence_and_first_tries_take_a_hint_alike(text: str) -> None:
    parameter = parameters()["romio_cb_write"]
    space = Space.bind([parameter], [], [], Workload().words(), [])
    given = recorded("romio_strided_write")
    asked = Setting(HINT, "romio_cb_write", text)
    report = changed(given["hint romio_cb_write disable"], "files.0.settings.0.requested", text)
    (effect,) = verdicts(space, [asked], [reports.activity(report)], [])
    wrong = parse(parameter, text).wrong
    assert (effect.evidence == wrong) == bool(wrong)
    if " " not in text:
        entry = f"hint romio_cb_write {text}"
        experiment = Experiment(runner="sim:archer2-hdd", workload=Workload(operation="write"), try_first=[entry])
        if wrong:
            with pytest.raises(UserError, match="is not one of automatic, enable, disable"):
                check(experiment)
        else:
            check(experiment)
        # As in an experiment of an earlier version: such a value acts as the default does.
        tried, _ = configurations(space, [entry])
        expected = value_of(parameter, text)
        assert tried == ([] if expected == "automatic" else [Configuration({"romio_cb_write": expected})])


# -- situations --------------------------------------------------------------------------------------------

SITUATIONS = {
    "nothing known": Situation(),
    "MPICH": Situation(io="romio", mpi="MPICH 4.2.1"),
    "old MPICH": Situation(io="romio", mpi="MPICH Version:      3.2.1"),
    "Cray": Situation(io="romio", mpi="Cray MPICH 8.1.29"),
    "OMPIO": Situation(io="ompio", mpi="Open MPI v4.1.4, package: Debian OpenMPI"),
    "OMPIO 5": Situation(io="ompio", mpi="Open MPI v5.0.6"),
    "ROMIO of Open MPI": Situation(io="romio", mpi="Open MPI v4.1.4"),
    "ext4": Situation(Workload(file_system="ext4"), io="romio"),
    "Lustre": Situation(Workload(file_system="lustre"), io="romio"),
    "UFS on Lustre": Situation(Workload(file_system="lustre", driver="UFS:"), io="romio"),
    "reader": Situation(Workload(operation="read"), io="romio"),
    "writer": Situation(Workload(operation="write"), io="romio"),
}


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS)
@pytest.mark.parametrize("stack", [stack.name for stack in every_stack()])
def test_all_callers_leave_out_what_nothing_reads(stack: str, situation: Situation) -> None:
    (own,) = [one for one in every_stack() if one.name == stack]
    workload = situation.workload
    try:
        bound = bind_space(
            Experiment(command=["app"], stacks=[stack]), Circumstances(workload, situation.io, situation.mpi)
        )
    except UserError:
        bound = None
    mpi = next((name for text, name in MPI_NAMES if re.search(text, situation.mpi)), "")
    version = (re.findall(r"\d+(?:\.\d+)+", situation.mpi) or [""])[0]
    where = Surroundings(
        "openmpi-romio" if mpi == "openmpi" and situation.io == "romio" else mpi,
        workload.file_system or "", version, workload,
    )  # fmt: skip
    for parameter in own.parameters:
        why = explain_unread(parameter, situation)
        if bound is not None and why:
            assert bound.left_out[parameter.name] == why
        if why:
            assert acts(parameter, parameter.values[-1], situation).acts is False
            brought = expect(
                [setting(parameter, spell(parameter.values[-1]))], workload, {}, io=situation.io, mpi=situation.mpi
            )
            assert not brought.reasons
        if why and mpi and parameter.carrier.name in FORM and mpi in FORMS[FORM[parameter.carrier.name]].readers:
            verdict, reason = judged(parameter, spell(parameter.values[-1]), where)
            assert verdict == "dead", (parameter.name, reason)


MPI_NAMES = (("Cray", "cray"), ("Open MPI", "openmpi"), ("MPICH", "mpich"))


@pytest.mark.parametrize(
    ("name", "mpi", "versions", "said"),
    [
        ("fbtl_posix_write_datasieving", "Open MPI v4.0.3", {}, "known since Open MPI 4.1, the program uses 4.0.3"),
        ("fbtl_posix_write_datasieving", "Open MPI v5", {}, ""),
        ("fbtl_posix_write_datasieving", "MPICH 4.2.1", {}, ""),
        ("romio_lustre_cb_lock_ahead_write", "MPICH 3.2.1", {}, "known since MPICH 3.3, the program uses 3.2.1"),
        # Open MPI 4 has the ROMIO of MPICH 3.2.1, Open MPI 5 that of 3.4.1.
        ("romio_lustre_cb_lock_ahead_write", "Open MPI v4.1.4", {}, "known since MPICH 3.3, the program uses 3.2.1"),
        ("romio_lustre_cb_lock_ahead_write", "Open MPI v5.0.6", {}, ""),
        ("hdf5_coll_metadata_write", "MPICH 1.4", {"HDF5": "1.10"}, ""),
        (
            "hdf5_coll_metadata_write",
            "MPICH 4.2",
            {"HDF5": "1.8.23"},
            "known since HDF5 1.10.0, the program uses 1.8.23",
        ),
        ("overstripe_count", "MPICH 2.1", {}, ""),
        ("cray_cb_write_lock_mode", "MPICH 4.2", {}, "Cray MPICH alone knows it, the program uses MPICH 4.2"),
        (
            "cray_cb_write_lock_mode",
            "MPICH Version:      4.0.2\nMPICH Release date: Thu",
            {},
            "Cray MPICH alone knows it, the program uses MPICH Version: 4.0.2",
        ),
        ("cray_cb_write_lock_mode", "CRAY MPICH version 8.1.29", {}, ""),
    ],
)
def test_versions_are_compared_with_those_of_the_same_component(
    name: str, mpi: str, versions: dict[str, str], said: str
) -> None:
    assert explain_unread(parameters()[name], Situation(mpi=mpi, versions=versions)) == said


def test_what_decides_and_is_not_known_is_named() -> None:
    hint = parameters()["romio_lustre_co_ratio"]
    answer = acts(hint, 2, Situation(io="romio"))
    assert answer.acts is None and answer.unknown == {"file_system"}
    assert acts(hint, 2, Situation(Workload(file_system="lustre"))).acts is True
    buffers = parameters()["cb_buffer_size"]
    off = {"romio_cb_write": "disable", "romio_cb_read": "disable"}
    assert acts(buffers, 4 << 20, Situation(values=off)).acts is False
    elsewhere = acts(buffers, 4 << 20, Situation(values=off, unsure=frozenset(off)))
    assert elsewhere.acts is None and elsewhere.unknown == off.keys()
    assert acts(buffers, 16 << 20, Situation()).why == "the library does the same without it: this is its default"
    assert acts(buffers, None, Situation()).acts is True
    assert "the program sets it itself, to 4" in acts(buffers, 8, Situation(own={"cb_buffer_size": "4"})).why


def test_a_diagnosis_leaves_hints_to_romio() -> None:
    file = activity(
        {"driver": "ompio", "info": {"cb_nodes": "4", "striping_factor": "8", "romio_cb_write": "yes"}}
    ).files[0]
    assert list_dead(file) == dict.fromkeys(("cb_nodes", "romio_cb_write"), "acts under romio, the program uses ompio")


def test_a_setting_is_found_in_the_stacks_that_name_it_alone() -> None:
    """As in all of them together, which a launch has no time to load."""
    places = [(stack, parameter) for stack in every_stack() for parameter in stack.parameters]
    for stack, parameter in places:
        setting = Setting(parameter.carrier, parameter.setting, "", parameter.layer)
        assert find_parameter(setting) == parameter  # loaded again, perhaps: not all stacks stay in memory
        assert all(stack in stacks_naming(derived.name) for derived in stack.derived)
    named = stacks_naming("romio_cb_write")
    assert named and len(named) < len(every_stack()) / 2
