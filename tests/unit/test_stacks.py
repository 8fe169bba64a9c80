"""The stacks that come with Stripewise: whole, safe, and bound to workloads as they should."""

import itertools
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from stripewise.catalogue.carriers import ENVIRONMENT, LAYOUT, MCA
from stripewise.catalogue.meaning import Situation, acts, in_version
from stripewise.catalogue.parameter import Parameter, Safety, Scope, When
from stripewise.catalogue.plan import settings_of
from stripewise.catalogue.stack import every_stack, load_stack, parse_stack, stack_names
from stripewise.catalogue.workload import Workload
from stripewise.engine.space import BoundSpace, Circumstances, bind_space
from stripewise.errors import UserError
from stripewise.observe.evidence import check_evidence
from stripewise.observe.objectives import parse_objective
from stripewise.requests.experiment import Experiment
from stripewise.search.base import make_sampler
from stripewise.trial import History, Trial

ROOT = Path(__file__).resolve().parents[2]
STACKS = stack_names()
EVERY = [(name, parameter) for name in STACKS for parameter in load_stack(name).parameters]
ROLES = {
    *("collective", "stripe_count", "stripe_size", "aggregators", "collective_buffering"),
    *("collective_buffer_size", "data_sieving", "sieving_buffer_size", "other"),
}
STRIDED = Workload(
    operation="write",
    nodes=1,
    processes_per_node=4,
    layout="strided",
    piece_size=1024,
    transfer_size=1 << 20,
    collective=True,
    driver="UFS:",
    file_system="tmpfs",
)


def bound(workload: Workload = STRIDED, *stacks: str, io: str = "romio", **changes) -> BoundSpace:
    described = workload.model_copy(update=changes)
    return bind_space(Experiment(command=["app"], stacks=list(stacks) or ["romio"]), Circumstances(described, io))


def test_all_stacks_are_there():
    assert {"cephfs", "cray", "hdf5", "lustre", "ompio", "pnetcdf", "romio"} <= set(STACKS)


def test_every_parameter_is_described_whole():
    for stack, parameter in EVERY:
        assert_described_whole(stack, parameter)


def assert_described_whole(stack: str, parameter: Parameter) -> None:
    assert parameter.description.endswith(".")
    check_evidence(parameter, stack)
    assert parameter.role in ROLES
    assert parameter.safety is not Safety.CORRUPTING
    assert parameter.default in parameter.values
    assert parameter.layer == stack
    if parameter.carrier is LAYOUT:
        assert (parameter.when, parameter.safety) == (When.CREATE, Safety.LAYOUT)
    if parameter.carrier in (MCA, ENVIRONMENT):
        assert (parameter.when, parameter.scope) == (When.START, Scope.PROCESS) or parameter.when is When.CREATE
    if parameter.when is When.CREATE:
        assert parameter.safety in (Safety.LAYOUT, Safety.FORMAT)


def test_every_tunable_of_the_layers_is_there():
    known = {parameter.setting for _, parameter in EVERY} | {"cb_config_list"}
    assert known >= {
        *("stripe_count", "stripe_size", "overstripe_count", "start_ost", "stripe_unit", "object_size"),
        *("romio_cb_write", "romio_cb_read", "romio_ds_write", "romio_ds_read", "cb_nodes", "cb_buffer_size"),
        *("ind_rd_buffer_size", "ind_wr_buffer_size", "striping_factor", "striping_unit", "start_iodevice"),
        *("romio_lustre_co_ratio", "romio_lustre_coll_threshold", "romio_lustre_ds_in_coll", "romio_no_indep_rw"),
        *("romio_cb_alltoall", "romio_cb_pfr", "romio_cb_fr_type", "romio_min_fdomain_size"),
        *("cray_cb_nodes_multiplier", "cray_cb_write_lock_mode"),
        *("io_ompio_num_aggregators", "io_ompio_bytes_per_agg", "io_ompio_grouping_option", "fcoll"),
        *("fs_lustre_stripe_size", "fs_lustre_stripe_width"),
        *("alignment", "file_space_strategy", "file_space_page_size", "all_coll_metadata_ops", "coll_metadata_write"),
        *("meta_block_size", "chunk_cache", "sieve_buf_size", "dxpl_mpio", "chunk_slots", "mdc_size", "libver_low"),
        *("page_buffer_size", "fill_time", "H5FD_IOC_THREAD_POOL_SIZE"),
        *("H5FD_SUBFILING_STRIPE_SIZE", "H5FD_SUBFILING_IOC_PER_NODE"),
        *("nc_header_align_size", "nc_var_align_size", "nc_record_align_size", "nc_num_aggrs_per_node"),
    }


@pytest.mark.parametrize("stack", STACKS)
def test_every_stack_names_its_source_and_stands_in_a_guide(stack: str):
    root = Path(__file__).resolve().parents[2]
    source = tomllib.loads((root / "src/stripewise/catalogue/stacks" / f"{stack}.toml").read_text("utf-8"))["source"]
    # The vendor's sources cannot be had, and the stack says so.
    assert re.search(r"\d\.\d|\b[0-9a-f]{12}\b", source) or "partly from memory" in source
    guides = "".join(path.read_text("utf-8") for path in (root / "docs" / "how-to").glob("*.md"))
    assert re.search(rf'--stack {stack}\b|stacks = \[[^]]*"{stack}"', guides)


@pytest.mark.parametrize("stack", STACKS)
def test_knowledge_is_moderate_and_sourced(stack):
    for piece in load_stack(stack).knowledge:
        assert 0.3 <= piece.gain <= 2.0
        assert len(piece.source) > 20


@pytest.mark.parametrize("stack", STACKS)
def test_every_condition_can_be_computed(stack):
    """With its own parameters and the workload's words alone, whatever other stacks are used."""
    loaded = load_stack(stack)
    for operation, collective, layout in itertools.product(
        ("read", "write", "both", None), (True, False, None), ("segmented", "strided", "tile", None)
    ):
        words = STRIDED.model_copy(update={"operation": operation, "collective": collective, "layout": layout}).words()
        words |= {p.name: p.bind(words).default for p in loaded.parameters}
        conditions = [c for p in loaded.parameters for c in (p.active_if, p.same_as_default) if c is not None]
        conditions += [*loaded.constraints, *(piece.condition for piece in loaded.knowledge)]
        conditions += [d.active_if for d in loaded.derived if d.active_if is not None]
        for condition in conditions:
            assert condition(words) in (True, False)


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["romio_cb_pfr", "romio_cb_alltoall", "romio_cb_fr_type", "hdf5_dxpl_mpio"])
def test_what_aborts_or_hangs_programs_is_never_searched(setting):
    space = bound(STRIDED, "romio", "hdf5").space
    assert setting not in space.names


def test_calls_that_values_break_are_calls_of_a_report_and_stand_in_the_reference() -> None:
    known = re.findall(r"^OPERATION\((\w+),", (ROOT / "native" / "core" / "operations.def").read_text("utf-8"), re.M)
    text = (ROOT / "docs" / "reference" / "stacks.md").read_text("utf-8")
    broken = [one for stack in every_stack() for parameter in stack.parameters for one in parameter.breaks]
    assert len(broken) == 2
    for one in broken:
        assert set(one.calls) <= set(known)
        assert all(f"MPI_File_{call}" in text for call in one.calls)


@pytest.mark.parametrize(
    ("key", "entry"), [("breaks", "value = 'on', calls = ['c'], how = 'h'"), ("known", "value = 'on', since = '2'")]
)
def test_a_stack_cannot_say_something_of_a_value_that_it_lacks(key: str, entry: str) -> None:
    text = f"name = 'x'\n[[parameter]]\nname = 'a'\nkind = 'boolean'\n{key} = [{{ {entry} }}]\n"
    with pytest.raises(UserError, match=f"{key} names 'on', which is not one of its values"):
        parse_stack(text, "x.toml")


@pytest.mark.parametrize(
    ("version", "cache", "slots", "low"),
    [
        ("1.10.8", 1 << 20, 521, "earliest"),
        ("1.14.5", 1 << 20, 521, "earliest"),
        ("2.0.0", 8 << 20, 8191, "v18"),
        ("", 1 << 20, 521, "earliest"),
    ],
)
def test_the_space_has_the_defaults_of_the_program_s_version(version: str, cache: int, slots: int, low: str) -> None:
    situation = Situation(versions={"HDF5": version} if version else {})
    found = {p.name: in_version(p, situation) for p in load_stack("hdf5").parameters}
    assert (found["hdf5_chunk_cache"].default, found["hdf5_chunk_slots"].default) == (cache, slots)
    assert (found["hdf5_libver_low"].default, found["hdf5_libver_low"].values) == (low, (low,))
    reader = Workload(operation="read", nodes=1, processes_per_node=2, api="hdf5", driver="UFS:", file_system="ext4")
    known = Circumstances(reader, "romio", versions=situation.versions)
    space = bind_space(Experiment(command=["x"], stacks=["hdf5"]), known).space
    assert (space["hdf5_chunk_cache"].default, space["hdf5_chunk_slots"].default) == (cache, slots)
    # Without a version, what is the default of some is dead for none.
    values = [acts(p, value, known).acts for p in [found["hdf5_chunk_cache"]] for value in (1 << 20, 8 << 20)]
    assert values == ([True, True] if not version else [cache != 1 << 20, cache == 1 << 20])


def test_the_strided_write_has_only_distinct_settings_that_act():
    found = bound()
    space = found.space
    assert set(space.names) == {
        *("romio_cb_write", "cb_nodes", "cb_buffer_size", "romio_ds_write", "ind_wr_buffer_size", "romio_no_indep_rw"),
    }
    assert "reads" in found.left_out["ind_rd_buffer_size"]
    plans = {settings_of(space, space.configuration(row)) for row in space.enumerate()}
    assert len(plans) == space.count()[0] == 66
    for plan in plans:
        keys = {setting.key: setting.value for setting in plan}
        assert ("cb_nodes" in keys) == ("cb_config_list" in keys)
        if keys.get("romio_cb_write") == "disable":
            assert not {"cb_nodes", "cb_buffer_size", "romio_no_indep_rw"} & keys.keys()
        else:
            assert not {"romio_ds_write", "ind_wr_buffer_size"} & keys.keys()
        if keys.get("romio_ds_write") == "disable":
            assert "ind_wr_buffer_size" not in keys


def test_synonyms_fold_to_the_default():
    space = bound().space
    for change in ({"romio_cb_write": "enable"}, {"romio_ds_write": "enable"}, {"cb_buffer_size": 8 << 20}):
        assert space.canonical(space.default.with_values(**change)) == space.default
    assert space.canonical(space.default.with_values(cb_buffer_size=1 << 20)) != space.default


def test_enable_is_no_synonym_where_ranks_do_not_interleave():
    space = bound(layout="segmented", piece_size=None).space
    assert space.canonical(space.default.with_values(romio_cb_write="enable")) != space.default
    assert "romio_ds_write" not in space.names


def test_independent_writes_have_only_sieving():
    assert set(bound(collective=False).space.names) == {"romio_ds_write", "ind_wr_buffer_size"}


def test_readers_have_no_write_hints():
    names = set(bound(operation="read").space.names)
    assert names == {
        *("romio_cb_read", "cb_nodes", "cb_buffer_size", "romio_ds_read", "ind_rd_buffer_size", "romio_no_indep_rw"),
    }


def test_aggregators_follow_nodes_and_processes():
    space = bound(nodes=3, processes_per_node=4).space
    parameter = space["cb_nodes"]
    assert (parameter.default, max(parameter.values)) == (3, 12)
    feasible = {space.configuration(row)["cb_nodes"] for row in space.enumerate()}
    # ROMIO fills host after host: a number in between would leave the last ones idle.
    assert feasible == {1, 2, 3, 6, 12}
    plan = {s.key: s.value for s in settings_of(space, space.default.with_values(cb_nodes=6))}
    assert plan == {"cb_nodes": "6", "cb_config_list": "*:2"}
    plan = {s.key: s.value for s in settings_of(space, space.default.with_values(cb_nodes=2))}
    assert plan == {"cb_nodes": "2", "cb_config_list": "*:1"}


def test_lustre_hints_only_under_lustre():
    assert not {name for name in bound().space.names if name.startswith("romio_lustre")}
    names = set(bound(STRIDED, "romio", "lustre", driver="LUSTRE:", file_system="lustre").space.names)
    assert {"romio_lustre_co_ratio", "romio_lustre_ds_in_coll", "stripe_count", "stripe_size"} <= names
    assert not {"cb_buffer_size", "ind_wr_buffer_size", "striping_factor", "striping_unit", "start_ost"} & names


def test_readers_cannot_lay_out_files():
    names = bound(STRIDED, "romio", "lustre", driver="LUSTRE:", file_system="lustre", operation="read").space.names
    assert not {"stripe_count", "stripe_size", "overstripe_count"} & set(names)


def test_cephfs_layouts_are_legal_and_distinct():
    space = bound(STRIDED, "cephfs", file_system="ceph").space
    rows = [space.configuration(row) for row in space.enumerate()]
    assert all(row["cephfs_object_size"] % row["cephfs_stripe_unit"] == 0 for row in rows)
    single = [row["cephfs_object_size"] for row in rows if row["cephfs_stripe_count"] == 1]
    assert len(single) == len(set(single)) == len(space["cephfs_object_size"].values)


def test_crays_own_driver_stands_for_every_file_system():
    cray = {"driver": "CRAY ADIO:", "file_system": "lustre"}
    names = set(bound(STRIDED, "romio", "cray", "lustre", **cray).space.names)
    assert {"cray_cb_nodes_multiplier", "cray_cb_write_lock_mode", "stripe_count"} <= names
    assert not any(name.startswith("romio_lustre") for name in names)
    others = set(bound(STRIDED, "romio", "cray", driver="CRAY ADIO:", file_system="gpfs").space.names)
    assert others and not {name for name in others if name.startswith("cray")}


def test_crays_lock_modes_come_with_what_they_need():
    lustre = {"driver": "LUSTRE:", "file_system": "lustre"}
    space = bound(STRIDED, "cray", **lustre).space
    assert not space.feasible(space.levels([space.default.with_values(cray_cb_write_lock_mode=1)]))[0]
    chosen = space.default.with_values(cray_cb_write_lock_mode=1, cray_cb_nodes_multiplier=2)
    keys = {setting.key: setting.value for setting in settings_of(space, chosen)}
    assert keys == {"cray_cb_nodes_multiplier": "2", "cray_cb_write_lock_mode": "1", "romio_no_indep_rw": "true"}
    assert "cray_cb_write_lock_mode" not in bound(STRIDED, "cray", **lustre, collective=None).space.names


def test_ompio_folds_what_its_algorithm_does_not_read():
    space = bound(STRIDED, "ompio", io="ompio", driver="ompio").space
    for row in space.enumerate():
        configuration = space.configuration(row)
        if configuration["fcoll"] == "individual":
            assert configuration["io_ompio_num_aggregators"] == -1
            assert configuration["io_ompio_bytes_per_agg"] == 32 << 20
        if configuration["io_ompio_num_aggregators"] != -1:
            assert configuration["io_ompio_grouping_option"] == 5


@pytest.mark.parametrize(("stack", "io", "driver"), [("romio", "ompio", "ompio"), ("ompio", "romio", "UFS:")])
def test_a_stack_of_the_other_implementation_is_left_out(stack, io, driver):
    with pytest.raises(UserError, match="nothing is left to tune"):
        bound(STRIDED, stack, io=io, driver=driver)


def test_knowledge_prefers_what_experts_expect():
    """The sum of log gains orders well-known cases as the literature does."""

    def score(space, **values) -> float:
        columns = space.columns(space.levels([space.default.with_values(**values)]))
        return sum(float(np.log(k.gain)) for k in space.knowledge if bool(np.all(k.condition(columns))))

    many = bound(nodes=32, processes_per_node=4, file_system="nfs").space
    assert score(many, romio_cb_write="disable") < score(many)
    wide = bound(STRIDED, "lustre", nodes=32, driver="LUSTRE:", file_system="lustre", file_size=1 << 40).space
    assert score(wide, stripe_count=32) > score(wide, stripe_count=4) > score(wide)
    small = bound(STRIDED, "lustre", driver="LUSTRE:", file_system="lustre", file_size=1 << 20).space
    assert score(small, stripe_count=64) < score(small)


@pytest.mark.parametrize(
    ("nodes", "file_system", "searched"), [(4, "fuse", False), (1, "fuse", True), (4, "lustre", True)]
)
def test_what_damages_files_is_not_searched(nodes, file_system, searched):
    workload = Workload(nodes=nodes, processes_per_node=1, operation="write", api="hdf5", file_system=file_system)
    bound = bind_space(Experiment(command=["./app"], stacks=["hdf5"]), Circumstances(workload, "romio"))
    assert ("hdf5_coll_metadata_write" in bound.space.names) is searched


def test_a_stack_is_read_and_parsed_once_a_process() -> None:
    assert all(load_stack(name) is load_stack(name) for name in stack_names())


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "collective"), [("strided", True), ("strided", False), (None, None)])
@pytest.mark.parametrize(
    ("operation", "nodes", "file_system"), [("write", 1, "tmpfs"), ("read", 4, "nfs"), ("both", 4, "ceph")]
)
@pytest.mark.parametrize("stack", ["romio", "ompio"])
def test_strong_switches_are_tried_within_the_first_eight_runs(
    stack, operation, nodes, file_system, layout, collective
):
    case = {"operation": operation, "nodes": nodes, "layout": layout, "collective": collective}
    space = bound(STRIDED, stack, io=stack, driver=None, file_system=file_system, **case).space
    sampler = make_sampler("auto", {"search": "screened"})
    drawn = space.sample(np.random.default_rng(0), 2000)

    def where(rows):
        """Parameters and strong values that act in some row."""
        active = space.active(rows)
        for place, parameter in enumerate(space.parameters):
            ends = {"lowest": parameter.values[0], "highest": parameter.values[-1]}
            for value in parameter.switch:
                level = parameter.level(ends.get(value, value))
                if np.any((rows[:, place] == level) & active[:, place]):
                    yield parameter.name, value

    trials = []
    can_act = set(where(drawn))
    while not can_act <= set(where(space.levels([trial.configuration for trial in trials]))):
        (one,) = sampler.ask(space, History(parse_objective("elapsed"), tuple(trials)), np.random.default_rng(0), 1)
        trials.append(Trial(len(trials), one.configuration))
        assert len(trials) <= 6, "two of the eight runs may be repeats"


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"io_ompio_num_aggregators": 2}, False),
        ({"io_ompio_num_aggregators": 2, "fcoll": "vulcan"}, False),
        ({"io_ompio_grouping_option": 6}, False),
        ({"io_ompio_max_aggregators_ratio": 1}, False),
        ({"io_ompio_num_aggregators": 2, "fbtl_posix_write_datasieving": False}, True),
        ({"io_ompio_num_aggregators": 2, "fcoll": "dynamic_gen2"}, True),
        ({"io_ompio_num_aggregators": 1}, True),
        ({}, True),
    ],
)
def test_no_aggregators_of_vulcan_rewrite_one_anothers_bytes(settings, kept):
    """On Open MPI 4.1.4, collective writes of adjacent pieces came out wrong with the first four."""
    rules = [rule for rule in load_stack("ompio").constraints if "vulcan rewrite" in rule.reason]
    values = {parameter.name: parameter.default for parameter in load_stack("ompio").parameters}
    assert [bool(rule({**values, "writes": True, **settings})) for rule in rules] == [kept]


def test_collective_buffering_sieving_and_aggregators_are_strong_switches():
    strong = {(p.role, v) for _, p in EVERY for v in p.switch}
    assert strong >= {
        *(("collective_buffering", value) for value in ("enable", "disable", "individual")),
        *(("data_sieving", value) for value in ("disable", False)),
        *(("aggregators", value) for value in ("lowest", "highest", 1)),
    }


GUIDE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "layouts.md"


@pytest.mark.parametrize(
    ("heading", "system", "tuned"),
    [
        ("Lustre", "lustre", {"lustre_pool", "lustre_template", "overstripe_count"}),
        ("Spectrum Scale and DAOS", "daos", {"romio_daos_obj_class"}),
    ],
)
def test_values_that_guides_name_are_searched(heading, system, tuned):
    part = GUIDE.read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"```toml\n(.*?)```", part, re.DOTALL)
    made = Experiment.model_validate(tomllib.loads(block))
    workload = STRIDED.model_copy(update={"file_system": system, "driver": f"{system.upper()}:"})
    space = bind_space(made, Circumstances(workload, "romio")).space
    assert tuned == made.parameters.keys() <= set(space.names)
    for name, override in made.parameters.items():
        assert set(override.values) <= set(space[name].values)
