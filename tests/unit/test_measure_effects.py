"""Verdicts on settings, from recorded runs and from facts bent on purpose."""

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from stripewise.catalogue.carriers import ENVIRONMENT, Setting
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import load_stack
from stripewise.desk.cli.result import _write_effect
from stripewise.engine.effects import Effect, beside_a_proven_gain, verdicts
from stripewise.observe.activity import Activity, Calls, FileActivity, Level
from stripewise.observe.evidence import RULES
from stripewise.sizes import format_size
from tests.unit.reports import activity, changed, recorded, report


def space_of(*names: str) -> Space:
    stacks = [load_stack(name) for name in names]
    words = report("romio_strided_write").job
    context = {"nodes": words.nodes, "processes": words.ranks, "processes_per_node": words.ranks}
    parameters = [p.bind(context) for stack in stacks for p in stack.parameters]
    return Space(tuple(parameters), derived=tuple(d for stack in stacks for d in stack.derived), context=context)


def judge(name: str, key: str, stack: str = "romio", data=None, baseline: bool = True, usual=None) -> dict[str, Effect]:
    settings = Plan.parse("stripewise-plan 1\n" + "\n".join(key.split("; ")), "test").settings
    found = activity(data or recorded(name)[key])
    before = activity(recorded(name)["default"] if usual is None else usual)
    effects = verdicts(space_of(stack), settings, [found], [before] if baseline else [])
    assert len(effects) == len(settings)
    return {effect.name: effect for effect in effects}


@pytest.mark.parametrize(
    ("name", "key", "setting", "status", "number"),
    [
        ("romio_strided_write", "hint romio_cb_write disable", "romio_cb_write", "effective", "4 ranks wrote"),
        (
            "romio_strided_write",
            "hint romio_cb_write disable; hint romio_ds_write disable",
            "romio_ds_write",
            "unprovable",
            "no run without it sieved, and other settings changed with it",
        ),
        (
            "romio_strided_write",
            "hint romio_cb_write disable; hint ind_wr_buffer_size 65536",
            "ind_wr_buffer_size",
            "effective",
            "64 KiB",
        ),
        ("romio_strided_write", "hint cb_nodes 4; hint cb_config_list *:4", "cb_nodes", "effective", "4 ranks wrote"),
        ("romio_strided_write", "hint cb_nodes 4; hint cb_config_list *:4", "cb_config_list", "effective", "4 ranks"),
        # The trap that the derived setting is there for: alone, cb_nodes cannot pass one aggregator a node.
        ("romio_strided_write", "hint cb_nodes 4", "cb_nodes", "no_effect", "changed 4 to 1"),
        ("romio_strided_write", "hint cb_buffer_size 131072", "cb_buffer_size", "effective", "128 KiB"),
        ("romio_strided_write", "hint cb_buffer_size 4194304", "cb_buffer_size", "no_effect", "1 MiB"),
        ("romio_strided_write", "hint romio_no_indep_rw true", "romio_no_indep_rw", "unprovable", ""),
        ("romio_strided_write", "hint romio_cb_write enabel", "romio_cb_write", "no_effect", "enabel"),
        (
            "romio_strided_both",
            "hint romio_cb_read disable; hint romio_ds_read disable",
            "romio_ds_read",
            "effective",
            "4 KiB",
        ),
        (
            "romio_strided_both",
            "hint romio_cb_read disable; hint ind_rd_buffer_size 65536",
            "ind_rd_buffer_size",
            "effective",
            "64 KiB",
        ),
        ("romio_strided_both", "hint romio_cb_read disable", "romio_cb_read", "effective", "4 ranks read"),
    ],
)
def test_recorded_runs_of_romio(name, key, setting, status, number):
    effect = judge(name, key)[setting]
    assert (effect.status, effect.requested_by) == (status, "plan")
    assert number in effect.evidence
    assert "\n" not in effect.evidence


@pytest.mark.parametrize(
    ("key", "status", "number"),
    [
        ("mca io_ompio_num_aggregators 4", "effective", "4 ranks wrote"),
        ("mca io_ompio_num_aggregators 1", "no_effect", "1 rank wrote"),
        ("mca io_ompio_bytes_per_agg 1048576", "effective", "512 KiB"),
        ("mca fcoll individual", "effective", "4 ranks wrote"),
        ("mca fcoll dynamic_gen2", "effective", "64 KiB"),
        ("mca io_ompio_grouping_option 3", "unprovable", "between the ranks"),
    ],
)
def test_recorded_runs_of_ompio(key, status, number):
    (effect,) = judge("ompio_strided_write", key, "ompio").values()
    assert effect.status == status
    assert number in effect.evidence


@pytest.mark.parametrize(
    ("counted", "status", "why"),
    [
        (("read", "write"), "effective", "4 ranks read"),
        (("write",), "no_effect", "the same; the objective does not measure reads"),
        (("read",), "effective", "4 ranks read"),
    ],
)
def test_what_a_setting_does_to_calls_that_do_not_count_is_no_effect(counted, status, why):
    # As cb_nodes and cb_buffer_size, which act on reads alone where each rank writes for itself.
    hints = recorded("romio_strided_both")
    setting = Plan.parse("stripewise-plan 1\nhint romio_cb_read disable", "test").settings[0]
    known = replace(space_of("romio")["romio_cb_read"], operations=("read", "write"), counted=counted)
    runs = [activity(hints[key]) for key in ("hint romio_cb_read disable", "default")]
    (effect,) = verdicts(Space((known,)), [setting], runs[:1], runs[1:])
    assert effect.status == status
    assert why in effect.evidence


def test_hints_of_romio_under_ompio():
    data = changed(recorded("romio_strided_write")["hint romio_cb_write disable"], "mpi.io", "ompio")
    effect = judge("romio_strided_write", "hint romio_cb_write disable", data=data)["romio_cb_write"]
    assert effect.status == "no_effect"
    assert effect.evidence == "acts under romio, the program uses ompio"


def test_a_hint_of_another_driver():
    key = "hint romio_lustre_co_ratio 4"
    given = {"key": "romio_lustre_co_ratio", "requested": "4", "given": "4", "echoed": "4", "outcome": "applied"}
    data = changed(recorded("romio_strided_write")["default"], "files.0.settings", [{"layer": "hint", **given}])
    effect = judge("romio_strided_write", key, data=data)["romio_lustre_co_ratio"]
    assert effect.status == "no_effect"
    assert "UFS" in effect.evidence


def test_the_application_wins():
    key = "hint romio_cb_write disable"
    data = changed(recorded("romio_strided_write")[key], "files.0.settings.0.outcome", "application_wins")
    data = changed(data, "files.0.settings.0.application", "enable")
    effect = judge("romio_strided_write", key, data=data)["romio_cb_write"]
    assert (effect.status, effect.requested_by, effect.requested) == ("refused", "application", "enable")


def test_an_echo_alone_proves_nothing():
    effect = judge("romio_strided_write", "hint romio_cb_write disable", baseline=False)["romio_cb_write"]
    assert (effect.status, effect.echoed) == ("echoed", "disable")


def test_settings_that_changed_together_do_not_prove_each_other():
    name, key = "romio_strided_write", "hint romio_cb_write enable; hint cb_nodes 4; hint cb_config_list *:4"
    base = recorded(name)["hint cb_nodes 4; hint cb_config_list *:4"]
    settings = base["files"][0]["settings"]
    cb = {"layer": "hint", "key": "romio_cb_write", "requested": "enable", "given": "enable", "echoed": "enable"}
    data = changed(base, "files.0.settings", [{**cb, "outcome": "applied"}, *settings])
    effects = judge(name, key, data=data)
    assert effects["cb_nodes"].status == "effective"
    assert effects["romio_cb_write"].status == "unprovable"


@pytest.mark.parametrize(
    ("layout", "status"),
    [
        ({"file_system": "cephfs", "stripe_count": 4, "stripe_unit": 4194304}, "effective"),
        ({"file_system": "cephfs", "stripe_count": 1, "stripe_unit": 4194304}, "no_effect"),
        (None, "unprovable"),
    ],
)
def test_the_file_system_tells_the_layout(layout, status):
    key = "layout cephfs stripe_count 4"
    name = "romio_strided_write"
    applied = {"layer": "layout", "key": "cephfs stripe_count", "requested": "4", "given": "4", "outcome": "applied"}
    data = changed(changed(recorded(name)[key], "files.0.layout", layout), "files.0.settings", [applied])
    usual = changed(recorded(name)["default"], "files.0.layout", {"file_system": "cephfs", "stripe_count": 2})
    assert judge(name, key, "cephfs", data, usual=usual)["cephfs_stripe_count"].status == status
    if status == "effective":
        plans = [Plan.parse(f"stripewise-plan 1\nlayout cephfs stripe_count {n}\n", "test").settings for n in (4, 2)]
        for other, verdict in ((usual, "effective"), (data, "unprovable")):
            runs = [(plans[1], [activity(other)])]
            (effect,) = verdicts(
                space_of("cephfs"), plans[0], [activity(data)], [activity(recorded(name)["default"])], runs
            )
            assert effect.status == verdict
        unseen = judge(name, key, "cephfs", data)["cephfs_stripe_count"]
        assert (unseen.status, unseen.evidence) == (
            "unprovable",
            "the file's stripe_count is 4; no run without it tells this",
        )
        alone = judge(name, key, "cephfs", data, baseline=False)["cephfs_stripe_count"]
        assert (alone.status, alone.evidence) == (
            "unprovable",
            "the file's stripe_count is 4; no run without it was observed",
        )


def test_a_layout_that_the_default_has_too_does_nothing():
    key = "layout cephfs stripe_count 4"
    layout = {"file_system": "cephfs", "stripe_count": 4, "stripe_unit": 4194304}
    applied = {"layer": "layout", "key": "cephfs stripe_count", "requested": "4", "given": "4", "outcome": "applied"}
    data = changed(
        changed(recorded("romio_strided_write")[key], "files.0.layout", layout), "files.0.settings", [applied]
    )
    usual = changed(recorded("romio_strided_write")["default"], "files.0.layout", layout)
    effect = judge("romio_strided_write", key, "cephfs", data, usual=usual)["cephfs_stripe_count"]
    assert (effect.status, effect.evidence) == ("no_effect", "the file's stripe_count is 4, as by default")


SIEVED = "hint romio_cb_write disable; hint romio_ds_write disable"


def of_sieving(posix, *keys: str) -> dict[str, Any]:
    """A run whose calls went piece by piece, with hints that were given."""
    given = {"layer": "hint", "outcome": "applied"}
    values = dict(key.removeprefix("hint ").split(" ") for key in keys)
    settings = [{**given, "key": k, "requested": v, "given": v, "echoed": v} for k, v in values.items()]
    data = changed(recorded("romio_strided_write")[SIEVED], "files.0.settings", settings)
    return data if posix is None else changed(data, "files.0.posix", posix)


def test_a_run_that_did_the_same_without_the_setting_proves_no_effect():
    # The program writes piece by piece by default as well.
    name, key = "romio_strided_write", "hint romio_ds_write disable"
    effect = judge(name, key, data=of_sieving(None, key), usual=of_sieving(None))["romio_ds_write"]
    assert effect.status == "no_effect"
    assert effect.evidence.startswith("0 reads inside write calls") and effect.evidence.endswith("as by default")


def test_a_run_that_did_something_else_without_the_setting_proves_the_effect():
    name, key = "romio_strided_write", "hint romio_ds_write disable"
    posix = copy.deepcopy(recorded(name)[SIEVED]["files"][0]["posix"])
    posix["read"] = {
        "count": 8,
        "bytes": 4096,
        "during_write": {"count": 8, "bytes": 4096, "ranks": 4, "max_size": 512},
    }
    effect = judge(name, key, data=of_sieving(None, key), usual=of_sieving(posix))["romio_ds_write"]
    assert (effect.status, "piece by piece" in effect.evidence) == ("effective", True)


def test_without_a_run_without_the_setting_nothing_is_effective():
    name, key = "romio_strided_write", "hint romio_ds_write disable"
    echoed = judge(name, key, data=of_sieving(None, key), baseline=False)["romio_ds_write"]
    assert echoed.status == "echoed" and "no run without it was observed" in echoed.evidence
    # A default that has the same value, as the user's own settings may, is no run without it.
    own = judge(name, key, data=of_sieving(None, key), usual=of_sieving(None, key))["romio_ds_write"]
    assert own.status == "echoed" and "no run without it was observed" in own.evidence
    posix = copy.deepcopy(recorded(name)[SIEVED]["files"][0]["posix"])
    posix["read"] = {
        "count": 8,
        "bytes": 4096,
        "during_write": {"count": 8, "bytes": 4096, "ranks": 4, "max_size": 512},
    }
    other = of_sieving(posix, "hint romio_ds_write enable")
    assert judge(name, key, data=of_sieving(None, key), usual=other)["romio_ds_write"].status == "effective"


def test_what_the_default_does_too_is_not_put_down_to_one_of_several_settings():
    name, key = "romio_strided_write", "hint romio_ds_write disable; hint cb_buffer_size 131072"
    posix = copy.deepcopy(recorded(name)[SIEVED]["files"][0]["posix"])
    posix["write"]["count"] += 1
    data = of_sieving(None, *key.split("; "))
    effect = judge(name, key, data=data, usual=of_sieving(posix))["romio_ds_write"]
    assert effect.status == "unprovable" and "other settings changed with it" in effect.evidence


@pytest.mark.parametrize(
    ("other", "status", "why"),
    [
        ("hint romio_cb_write disable", "effective", "other calls than without it, all else alike"),
        ("hint romio_cb_write disable; hint ind_wr_buffer_size 65536", "effective", "piece by piece"),
        ("hint cb_buffer_size 131072", "unprovable", "no run without it sieved"),
    ],
)
def test_runs_that_differ_in_one_setting_tell_several_apart(other, status, why):
    name, key = "romio_strided_write", "hint romio_cb_write disable; hint romio_ds_write disable"
    plans = [Plan.parse("stripewise-plan 1\n" + "\n".join(one.split("; ")), "test").settings for one in (key, other)]
    runs = [activity(recorded(name)[one]) for one in (key, other)]
    default = [activity(recorded(name)["default"])]
    effect = verdicts(space_of("romio"), plans[0], runs[:1], default, [(plans[1], runs[1:])])[1]
    assert (effect.name, effect.status) == ("romio_ds_write", status) and why in effect.evidence
    # A run that lacks only this setting and did the same shows that it does nothing.
    same = verdicts(space_of("romio"), plans[0], runs[:1], default, [(plans[0][:1], runs[:1])])[1]
    assert same.status == "no_effect" and same.evidence.endswith("the same calls as without it, all else alike")


def with_hints(data: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The same run, as if these hints had been given too."""
    data = copy.deepcopy(data)
    for key, value in (key.split()[1:] for key in keys):
        given = {"layer": "hint", "outcome": "applied", "key": key, "requested": value, "given": value}
        data["files"][0]["settings"].append({**given, "echoed": value})
    return data


@pytest.mark.parametrize("other", ["hint romio_ds_write disable", "hint ind_wr_buffer_size 4194304"])
def test_what_a_collective_buffer_wrote_proves_nothing_of_what_ranks_do_themselves(other):
    name, own = "romio_strided_write", "hint cb_buffer_size 131072"
    data = with_hints(recorded(name)[own], other)
    data["files"][0]["operations"]["write_at_all"]["messages"] = 64
    effect = judge(name, f"{own}; {other}", data=data)[other.split()[1]]
    assert effect.status == "unprovable" and "ranks exchanged data in collective writes" in effect.evidence


def test_a_full_buffer_counts_beside_other_settings_only_where_it_was_filled_again():
    name, key = "romio_strided_write", "hint cb_nodes 4; hint cb_config_list *:4"
    size = "hint cb_buffer_size 262144"
    data = with_hints(recorded(name)[key], size)
    # Eight calls, of which four ranks wrote a quarter each: a piece of 256 KiB, whatever the buffer holds.
    effect = judge(name, f"{key}; {size}", data=data)["cb_buffer_size"]
    assert effect.status == "unprovable" and "other settings, too" in effect.evidence
    data["files"][0]["posix"]["write"]["during_collective"]["count"] *= 2
    assert judge(name, f"{key}; {size}", data=data)["cb_buffer_size"].status == "effective"


def test_a_value_between_those_of_several_default_runs_is_not_an_effect():
    key = "hint romio_ds_write disable"
    settings = Plan.parse(f"stripewise-plan 1\n{key}\n", "test").settings
    posix = recorded("romio_strided_write")[SIEVED]["files"][0]["posix"]

    def counted(more: int):
        return {**posix, "write": {**posix["write"], "count": posix["write"]["count"] + more}}

    usual = [activity(of_sieving(counted(more))) for more in (-5, 5)]
    for more, status in ((0, "no_effect"), (6, "effective")):
        found = activity(of_sieving(counted(more), key))
        (effect,) = verdicts(space_of("romio"), settings, [found], usual)
        assert effect.status == status


def test_every_rule_that_can_prove_an_effect_compares_it():
    def compares(judge) -> bool:
        inner = [cell.cell_contents for cell in judge.__closure__ or () if callable(cell.cell_contents)]
        return getattr(judge, "compared", False) or any(compares(one) for one in inner)

    assert [name for name, rule in RULES.items() if not compares(rule.judge)] == []


def test_a_layout_that_does_not_apply_here():
    effect = judge("romio_strided_write", "layout cephfs stripe_count 4", "cephfs")["cephfs_stripe_count"]
    assert effect.status in ("no_effect", "refused")
    assert effect.evidence


def test_runs_that_disagree_prove_nothing():
    name, key = "romio_strided_write", "hint romio_cb_write disable"
    settings = Plan.parse(f"stripewise-plan 1\n{key}\n", "test").settings
    acted = recorded(name)[key]
    idle = changed(acted, "files.0.posix", recorded(name)["default"]["files"][0]["posix"])
    reports = [activity(acted), activity(idle)]
    (effect,) = verdicts(space_of("romio"), settings, reports, [activity(recorded(name)["default"])])
    assert effect.status == "unprovable"
    assert "differ" in effect.evidence


def test_without_any_run_it_is_only_a_request():
    settings = Plan.parse("stripewise-plan 1\nhint cb_nodes 4\n", "test").settings
    (effect,) = verdicts(space_of("romio"), settings, [], [])
    assert (effect.status, effect.echoed) == ("requested", None)


def test_what_the_observer_gave_to_no_file_did_nothing():
    settings = Plan.parse("stripewise-plan 1\nposix stream_buffer 1048576\nhint cb_nodes 4\n", "test").settings
    seen = activity(recorded("romio_strided_write")["default"])
    effects = verdicts(space_of("posix"), settings, [seen], [seen])
    assert [effect.status for effect in effects] == ["no_effect", "requested"]
    assert {effect.evidence for effect in effects} == {"no file of the run was given it"}


SMALL, BOTH = "ior_small_pieces", "hint romio_cb_write disable; hint romio_cb_read disable"


def test_a_single_setting_that_nobody_saw_is_what_explains_a_proven_gain():
    effect = Effect(
        "w", "user", "05", "plan", None, "requested", "passed to the program; nothing shows whether it was used"
    )
    (found,) = beside_a_proven_gain([effect])
    assert found.evidence == "passed to the program; nothing else explains the proven gain"
    assert beside_a_proven_gain([effect, replace(effect, name="v")]) == [effect, replace(effect, name="v")]
    assert _write_effect(found, {}).startswith("w=05: passed to the program"), "values are shown as they are given"


def without_messages(data):
    data = copy.deepcopy(data)
    for operation in data["files"][0]["operations"].values():
        operation.pop("messages", None)
    return data


def test_an_exchange_that_no_system_call_shows():
    # IOR, 16 KiB each: every rank writes its own piece either way, but by default the ranks compare offsets first.
    usual, found = recorded(SMALL)["default"], recorded(SMALL)[BOTH]
    assert usual["files"][0]["posix"]["write"]["sizes"] == found["files"][0]["posix"]["write"]["sizes"]
    for name, way in (("romio_cb_write", "write"), ("romio_cb_read", "read")):
        effect = judge(SMALL, BOTH, usual=usual)[name]
        assert effect.status == "effective"
        assert effect.evidence == f"no messages between ranks within collective {way}s, 128 by default"
        unseen = judge(SMALL, BOTH, data=without_messages(recorded(SMALL)[BOTH]), usual=without_messages(usual))
        assert unseen[name].status == "unprovable"


def test_equal_messages_and_system_calls_are_no_effect():
    usual = recorded(SMALL)["default"]
    data = changed(recorded(SMALL)[BOTH], "files.0.operations", usual["files"][0]["operations"])
    assert {effect.status for effect in judge(SMALL, BOTH, data=data, usual=usual).values()} == {"no_effect"}


@pytest.mark.parametrize(("runs", "status"), [(1, "unprovable"), (3, "effective")])
def test_time_outside_system_calls_counts_against_several_runs_only(runs, status):
    usual = activity(without_messages(recorded(SMALL)["default"]))
    found = activity(without_messages(recorded(SMALL)["hint romio_cb_write enable"]))
    quiet = changed(recorded(SMALL)["default"], "files.0.settings", recorded(SMALL)[BOTH]["files"][0]["settings"])
    quiet = changed(without_messages(quiet), "files.0.operations.write_at_all.time_sum", 0.02)
    settings = Plan.parse("stripewise-plan 1\nhint romio_cb_write disable\n", "test").settings
    (effect,) = verdicts(space_of("romio"), settings, [activity(quiet)], [usual] * runs)
    assert effect.status == status
    assert found.main is not None
    assert found.main.beneath.write.exchange > usual.main.beneath.write.exchange


@pytest.mark.parametrize(
    ("told", "status", "why"),
    [
        ({"echoed": "8", "outcome": "applied"}, "echoed", "the MPI library holds 8; the system calls are those of"),
        ({"echoed": "32", "outcome": "applied"}, "no_effect", "the library changed 8 to 32"),
        ({"echoed": None, "outcome": "applied"}, "unprovable", "the system calls are those of the default"),
        (
            {"echoed": None, "outcome": "not_applicable", "note": "the MPI library has no variable of this name"},
            "no_effect",
            "the MPI library has no variable of this name",
        ),
    ],
)
def test_what_mpich_says_of_its_own_variables(told, status, why):
    given = {"layer": "env", "key": "MPIR_CVAR_ALLTOALL_THROTTLE", "requested": "8", "given": "8", "note": ""}
    usual = without_messages(recorded(SMALL)["default"])
    data = changed(usual, "files.0.settings", [{"application": None, **given, **told}])
    settings = Plan.parse("stripewise-plan 1\nenv MPIR_CVAR_ALLTOALL_THROTTLE 8\n", "test").settings
    (effect,) = verdicts(space_of("exchange"), settings, [activity(data)], [activity(usual)])
    assert effect.status == status and why in effect.evidence
    for name, library in (("UCX_RNDV_THRESH", "UCX"), ("FI_CXI_RDZV_THRESHOLD", "libfabric")):
        text = json.dumps(data).replace("MPIR_CVAR_ALLTOALL_THROTTLE", name).replace("the MPI library", library)
        named = [Setting(ENVIRONMENT, name, "8")]
        (effect,) = verdicts(space_of("exchange"), named, [activity(json.loads(text))], [activity(usual)])
        assert effect.status == status and why.replace("the MPI library", library) in effect.evidence
    # What the ranks exchanged shows the effect itself.
    other = changed(data, "files.0.operations", recorded(SMALL)["default"]["files"][0]["operations"])
    if told["echoed"] == "8":
        (effect,) = verdicts(space_of("exchange"), settings, [activity(other)], [activity(usual)])
        assert effect.status == "effective" and "messages between ranks" in effect.evidence


def test_calls_of_hdf5_without_mpi_io_are_not_taken_for_those_of_the_default():
    none = {"count": 0, "bytes": 0, "ranks": 0, "min_size": 0, "max_size": 0, "sizes": []}
    data = changed(recorded("romio_strided_write")["default"], "files.0.operations", {})
    data = changed(changed(data, "files.0.posix.write", none), "files.0.posix.read", none)
    data = changed(data, "files.0.hdf5", {"driver": "serial", "properties": {"chunk_cache": "268435456"}})
    given = {"layer": "hdf5", "key": "chunk_cache", "requested": "268435456", "outcome": "applied", "application": None}
    given |= {"given": "268435456", "echoed": None, "note": ""}
    settings = Plan.parse("stripewise-plan 1\nhdf5 chunk_cache 268435456\n", "test").settings
    usual, made = activity(data), activity(changed(data, "files.0.settings", [given]))
    (effect,) = verdicts(space_of("hdf5"), settings, [made], [usual])
    assert effect.status == "unprovable" and "no system calls are counted" in effect.evidence, effect


def filtered(*filters: str) -> dict[str, Any]:
    """A report of 4 MiB that four ranks handed to HDF5, of which MPI wrote 1 MiB."""
    data = {"name": "/step", "storage": "chunked", "element_size": 8, "size": [524288], "chunk": [131072]}
    data |= {"filters": [*filters], "write": {"calls": 4, "bytes": 4 << 20, "collective": 4}}
    applied = {"layer": "hdf5", "requested": "x", "given": "1048576", "outcome": "applied"}
    settings = [{**applied, "key": "chunk_size", "echoed": "131072 elements"}]
    settings += [{**applied, "key": key} for key in ("shuffle", "deflate")]
    found = changed(recorded("romio_strided_write")["default"], "files.0.settings", settings)
    found = changed(found, "files.0.operations.write_at_all", {"count": 4, "bytes": 1 << 20})
    return changed(found, "files.0.hdf5", {"driver": "mpio", "datasets": [data]})


def test_evidence_names_the_filter_that_acted_and_its_ratio() -> None:
    # The values are the user's own: the stack lists none that compress.
    own = tuple(
        replace(p, values=(False, True)) if p.name == "hdf5_shuffle" else p for p in space_of("hdf5").parameters
    )
    lines = ["hdf5 chunk_size 1048576", "hdf5 shuffle true", "hdf5 deflate 4"]
    settings = Plan.parse("\n".join(["stripewise-plan 1", *lines]), "test").settings

    def of(*filters: str) -> dict[str, tuple[str, str]]:
        found = verdicts(
            Space(own), settings, [activity(filtered(*filters))], [activity(recorded("romio_strided_write")["default"])]
        )
        return {effect.name: (effect.status, effect.evidence) for effect in found}

    ratio = "4 MiB of data were written in 1 MiB, 4 to 1"
    assert of("shuffle", "deflate") == {
        "hdf5_chunk_size": ("effective", "/step has chunks of 131072 elements"),
        "hdf5_shuffle": ("effective", f"1 dataset is filtered by shuffle; {ratio}"),
        "hdf5_deflate": ("effective", f"1 dataset is filtered by deflate; {ratio}"),
    }
    assert of("shuffle")["hdf5_deflate"] == ("no_effect", "no dataset is filtered by deflate")
    usual = changed(filtered("shuffle"), "files.0.settings", [])
    found = verdicts(Space(own), settings, [activity(filtered("shuffle", "deflate"))], [activity(usual)])
    assert {effect.name: effect.status for effect in found} == {
        "hdf5_chunk_size": "no_effect",
        "hdf5_shuffle": "no_effect",
        "hdf5_deflate": "effective",
    }


def of_requests(size: int) -> dict[str, Any]:
    """A report of a program whose writes are of one size."""
    found = copy.deepcopy(recorded("romio_strided_write")["default"])
    file = found["files"][0]
    file["operations"]["write_at_all"].update(min_size=size, max_size=size)
    file["posix"]["write"].update(min_size=size, max_size=size, sizes=[[size, file["posix"]["write"]["count"]]])
    return found


@pytest.mark.parametrize(
    ("size", "usual", "status", "why"),
    [
        (65536, [4096, 4096], "effective", "of up to 64 KiB, and by default of up to 4 KiB"),
        (65536, [4096], "unprovable", "nothing that can be observed"),  # one run does not tell chance from effect
        (65536, [4096, 8192], "unprovable", "nothing that can be observed"),
        (4096, [4096, 4096], "unprovable", "nothing that can be observed"),
    ],
)
def test_requests_of_another_size_show_that_a_parameter_of_the_user_s_own_acts(size, usual, status, why):
    own = Parameter("block", Kind.ORDINAL, (4096, 65536), 4096, key="BLOCK", carrier=ENVIRONMENT)
    settings = Plan.parse("stripewise-plan 1\nenv BLOCK 65536\n", "test").settings
    made, default = [activity(of_requests(size))], [activity(of_requests(one)) for one in usual]
    (effect,) = verdicts(Space((own,)), settings, made, default)
    assert (effect.name, effect.status) == ("block", status) and why in effect.evidence
    # Beside another setting only a run without this one alone decides.
    other = replace(own, name="other", key="OTHER")
    both = Plan.parse("stripewise-plan 1\nenv BLOCK 65536\nenv OTHER 65536\n", "test").settings
    beside = verdicts(Space((own, other)), both, made, default, [(both[1:], default)])
    assert beside[0].status == status
    same = verdicts(Space((own, other)), both, made, default, [(both[1:], made)])
    assert same[0].status == "unprovable"


def test_each_fact_of_a_report_shows_that_a_parameter_of_the_user_s_own_acts():
    own = Parameter("mode", Kind.CATEGORICAL, ("plain", "split"), "plain", key="MODE", carrier=ENVIRONMENT)
    settings = Plan.parse("stripewise-plan 1\nenv MODE split\n", "test").settings
    usual = recorded("romio_strided_write")["default"]

    def judge(path: str, value: Any) -> str:
        made, default = activity(changed(usual, path, value)), [activity(usual)] * 2
        (effect,) = verdicts(Space((own,)), settings, [made], default)
        assert effect.status == "effective"
        return effect.evidence

    file = "files.0.operations.write_at_all"
    calls, moved = (usual["files"][0]["operations"]["write_at_all"][key] for key in ("count", "bytes"))
    assert judge(f"{file}.count", 2 * calls) == (
        f"the number of collective write calls is {2 * calls:,}, and by default {calls:,}"
    )
    assert judge(f"{file}.bytes", 2 * moved) == (
        f"write requests move {format_size(2 * moved)}, and by default {format_size(moved)}"
    )
    assert judge("files.0.opens", 7).startswith("the number of opens is ")
    more = [*usual["files"], {**usual["files"][0], "path": "/elsewhere"}]
    count = len(usual["files"])
    assert judge("files", more) == f"the number of files is {count + 1}, and by default {count}"


def of_parts(folder: str, prefix: str, ranks: tuple[int, ...]) -> Activity:
    """What a program with MPI wrote by calls of its own: numbered files, each of so many ranks, and one more file."""
    names = [(f"{prefix}{number}", opened) for number, opened in enumerate(ranks)] + [("md.idx", 1)]
    files = [
        FileActivity(path=f"/x/{folder}/{name}", ranks=count, posix=Level(write=Calls(count=2, bytes=1 << 20)))
        for name, count in names
    ]
    return Activity(source="", kind="report", files=files)


# What ADIOS2 2.12.0 (4 ranks on a node) and AMReX 24.10 (plotfiles of 4 ranks) wrote, as reports show it.
BP5 = {
    "": (1,),
    "NumAggregators 2": (1, 1),
    "NumAggregators 4; NumSubFiles 2": (2, 2),
    "NumSubFiles 2": (1, 1),
    "AggregationType EveryoneWrites": (4,),
    "BufferChunkSize 1048576; NumAggregators 1": (1,),
    "StripeSize 4194304; AsyncWrite guided; AggregationType EveryoneWrites": (4,),
}


@pytest.mark.parametrize(
    ("plan", "bare", "setting", "status", "says"),
    [
        (
            "NumAggregators 2",
            "",
            "aggregators",
            "effective",
            "2 files by 2 processes, and without it in 1 file by 1",
        ),
        ("NumAggregators 4; NumSubFiles 2", "NumSubFiles 2", "aggregators", "effective", "by 4 processes, and without"),
        ("NumAggregators 4; NumSubFiles 2", "", "aggregators", "unprovable", "no runs without it, all else alike"),
        ("AggregationType EveryoneWrites", "", "aggregation", "effective", "in 1 file by 4 processes"),
        # Buffers change neither files nor writers.
        ("BufferChunkSize 1048576; NumAggregators 1", "", "aggregators", "no_effect", "in 1 file by 1 process, as"),
        (
            "StripeSize 4194304; AsyncWrite guided; AggregationType EveryoneWrites",
            "",
            "aggregation",
            "effective",
            "in 1 file by 4 processes, and without it in 1 file by 1 process",
        ),
    ],
)
def test_files_of_an_output_and_their_writers_show_parameters_of_adios2(plan, bare, setting, status, says):
    def settings(text: str) -> tuple[Any, ...]:
        return Plan.parse("stripewise-plan 1\n" + "\n".join(f"adios2 {one}" for one in text.split("; ")), "t").settings

    others = [(settings(bare), [of_parts("o.bp", "data.", BP5[bare])])] if bare else []
    made, usual = of_parts("o.bp", "data.", BP5[plan]), of_parts("o.bp", "data.", BP5[""])
    effects = verdicts(space_of("adios2"), settings(plan), [made], [usual], others)
    (effect,) = (one for one in effects if one.name == f"adios2_{setting}")
    assert effect.status == status and says in effect.evidence, effect


@pytest.mark.parametrize(
    ("ranks", "usual", "status"),
    [((2, 2), (1, 1, 1, 1), "effective"), ((1, 1), (1, 1), "no_effect"), ((), (), "unprovable")],
)
@pytest.mark.parametrize("more", ["vismf.iobuffersize 8388608", "amrex.async_out true"])
def test_files_of_a_plotfile_show_entries_of_amrex(ranks, usual, status, more):
    if more.startswith("amrex.async_out"):
        # With it, another entry decides the number of files.
        status = "unprovable"
    settings = Plan.parse(f"stripewise-plan 1\nentry amr.plot_nfiles 2\nentry {more}", "t").settings
    made, before = (of_parts("plt00001/Level_0", "Cell_D_0000", one) for one in (ranks, usual))
    effect = next(
        one for one in verdicts(space_of("amrex"), settings, [made], [before]) if one.name == "amr_plot_nfiles"
    )
    assert effect.status == status, effect
