"""The space that is searched: overrides, what is left out, and why."""

import pytest

from stripewise.catalogue.carriers import ARGUMENT, ENVIRONMENT, HINT
from stripewise.catalogue.configuration import Configuration, find_changes
from stripewise.catalogue.plan import settings_of
from stripewise.catalogue.stack import load_stack
from stripewise.catalogue.workload import Workload
from stripewise.engine.binding import FirstRun
from stripewise.engine.definition import parameter_entry
from stripewise.engine.space import Circumstances, bind_space, check_space, default_stacks
from stripewise.errors import UserError
from stripewise.output.markup import list_changes
from stripewise.requests.experiment import Experiment
from stripewise.requests.objective import Objective
from stripewise.trial import History, Phase, Run, State, Trial
from tests.unit.reports import recorded

WRITER = Workload(
    operation="write",
    nodes=1,
    processes_per_node=4,
    collective=True,
    layout="strided",
    driver="UFS:",
    file_system="ext4",
)
ROMIO = {parameter.name for parameter in load_stack("romio").parameters}


def experiment(**fields):
    return Experiment.model_validate({"command": ["./app"], "stacks": ["romio"], **fields})


def test_a_writer_gets_no_read_settings():
    bound = bind_space(experiment(), Circumstances(WRITER, "romio"))
    assert "romio_cb_write" in bound.space.names
    assert "romio_cb_read" not in bound.space.names
    assert "read" in bound.left_out["romio_cb_read"]


def test_what_acts_outside_the_objective_stays_unless_it_was_asked_for():
    both = Circumstances(WRITER.model_copy(update={"operation": "both"}), "romio")
    assert "romio_ds_read" in bind_space(experiment(), both).space.names
    writes = {"objective": {"name": "write_bandwidth"}}
    bound = bind_space(experiment(**writes), both)
    assert bound.left_out["romio_ds_read"] == "acts on reads only, which write_bandwidth does not measure"
    assert {"romio_ds_write", "cb_nodes"} <= set(bound.space.names)
    assert bound.space["cb_nodes"].counted == ("write",)
    for name in ("romio_ds_read", "cb_nodes"):
        for asked in ({"parameters": {name: {}}}, {"try_first": [f"{name}={'disable' if 'ds' in name else 2}"]}):
            own = bind_space(experiment(**writes, **asked), both).space
            assert own[name].counted == ("read", "write")


def test_what_a_parameter_of_the_program_chooses_leaves_nothing_out():
    alone = Circumstances(WRITER.model_copy(update={"collective": False}), "romio")
    assert "cb_nodes" not in bind_space(experiment(), alone).space.names
    call = {"argument": "call", "role": "collective", "values": ["", "--collective"]}
    space = bind_space(experiment(parameters={"call": call}), alone).space
    assert {"cb_nodes", "romio_cb_write", "romio_ds_write", "call"} <= set(space.names)


def test_an_empty_value_can_only_be_the_default():
    call = {"argument": "call", "values": ["-c", ""]}
    with pytest.raises(UserError, match="make it the default"):
        bind_space(experiment(parameters={"call": call}), Circumstances(WRITER, "romio"))


def test_aggregators_are_bounded_by_the_ranks():
    space = bind_space(experiment(), Circumstances(WRITER, "romio")).space
    assert max(space["cb_nodes"].values) == 4
    assert space["cb_nodes"].default == 1


LUSTRE = WRITER.model_copy(update={"driver": "LUSTRE:", "file_system": "lustre"})


@pytest.mark.parametrize(
    ("osts", "counts"), [(16, [1, 2, 4, 8, 16]), (12, [1, 2, 4, 8, 12]), (2, [1, 2]), (4000, [1, 2, 4, 8])]
)
def test_stripes_end_with_the_targets_that_there_are(osts, counts):
    space = bind_space(
        experiment(stacks=["lustre"]), Circumstances(LUSTRE, "romio", largest={"stripe_count": osts})
    ).space
    values = list(space["stripe_count"].values)
    assert values[: len(counts)] == counts
    assert max(values) == min(osts, 2000)
    named = experiment(stacks=["lustre"], parameters={"stripe_count": {"values": [1, 64]}})
    values = (
        bind_space(named, Circumstances(LUSTRE, "romio", largest={"stripe_count": osts})).space["stripe_count"].values
    )
    assert list(values) == [1, 64], "what the experiment itself names is tried"


def test_one_target_leaves_no_stripes_to_choose():
    bound = bind_space(experiment(stacks=["lustre"]), Circumstances(LUSTRE, "romio", largest={"stripe_count": 1}))
    assert bound.left_out["stripe_count"] == "1 is all there is"


def test_a_layouts_default_is_what_the_folder_gives():
    present = {"stripe_count": 3, "stripe_size": 1 << 20}
    space = bind_space(experiment(stacks=["lustre"]), Circumstances(LUSTRE, "romio", present=present)).space
    assert space.default["stripe_size"] == 1 << 20
    assert space.default["stripe_count"] == 3
    assert list(space["stripe_count"].values)[:4] == [1, 2, 3, 4]
    wider = Configuration({**space.default, "stripe_size": 4 << 20})
    assert [(s.key, s.value) for s in settings_of(space, wider)] == [("stripe_size", "4194304")], "it can be asked for"
    named = experiment(
        stacks=["lustre"], parameters={"stripe_size": {"values": ["8 MiB"]}, "stripe_count": {"default": 2}}
    )
    space = bind_space(named, Circumstances(LUSTRE, "romio", present=present)).space
    assert list(space["stripe_size"].values) == [1 << 20, 8 << 20]
    assert space.default["stripe_count"] == 2, "the experiment knows better"


def test_values_of_the_user_keep_the_default_as_baseline():
    bound = bind_space(
        experiment(parameters={"cb_buffer_size": {"values": ["1 MiB", "4 MiB"]}}), Circumstances(WRITER, "romio")
    )
    assert list(bound.space["cb_buffer_size"].values) == [1 << 20, 4 << 20, 16 << 20]


def test_an_excluded_parameter_is_left_out():
    bound = bind_space(experiment(parameters={"cb_nodes": {"exclude": True}}), Circumstances(WRITER, "romio"))
    assert "cb_nodes" not in bound.space.names
    assert bound.left_out["cb_nodes"] == "excluded by the experiment"


def test_a_parameter_of_the_users_own_joins_the_space():
    own = {"my_buffer": {"kind": "ordinal", "values": [1, 2, 4], "default": 2, "carrier": "env", "key": "MY_BUFFER"}}
    bound = bind_space(experiment(parameters=own), Circumstances(WRITER, "romio"))
    assert bound.space["my_buffer"].default == 2


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"cb_nodez": {"values": [1]}}, "no stack has a parameter of this name"),
        ({"cb_nodez": {"exclude": True}}, "no stack has"),
        ({"cb_nodes": {"values": ["many"]}}, "not a number"),
        ({"cb_nodes": {"values": []}}, "no values"),
        ({"cb_nodes": {"colour": "red"}}, "colour"),
    ],
)
def test_a_wrong_override_names_its_place(parameters, told):
    with pytest.raises(UserError, match=told) as caught:
        bind_space(experiment(parameters=parameters), Circumstances(WRITER, "romio"))
    assert next(iter(parameters)) in str(caught.value)


def test_a_stack_for_another_mpi_leaves_nothing_to_tune():
    with pytest.raises(UserError, match="nothing is left to tune"):
        bind_space(experiment(), Circumstances(WRITER, "ompio"))


@pytest.mark.slow
def test_a_program_without_hdf5_is_told_what_the_stack_acts_on():
    other = WRITER.model_copy(update={"api": "mpiio"})
    with pytest.raises(UserError, match="no parameter of hdf5 can act on this program") as caught:
        bind_space(experiment(stacks=["hdf5"]), Circumstances(other, "romio"))
    assert "acts on files used through hdf5, the program's are used through mpiio" in caught.value.what
    both = bind_space(experiment(stacks=["hdf5", "romio"]), Circumstances(other, "romio")).left_out
    assert both["hdf5_meta_block_size"] == both["hdf5_alignment"]
    assert "used through hdf5" in both["hdf5_alignment"]
    assert both["romio_cb_pfr"] == both["hdf5_shuffle"] == "has only one value"
    assert "hdf5_alignment" in bind_space(experiment(stacks=["hdf5"]), Circumstances(WRITER, "romio")).space.names


FILTERS = {
    "hdf5_chunk_size": {"values": ["64 KiB"]},
    "hdf5_shuffle": {"values": [True]},
    "hdf5_deflate": {"values": [1, 4]},
    "hdf5_scaleoffset": {"values": [3]},
    "hdf5_accuracy": {"values": ["0.001"]},
    "hdf5_collective_writes": {"values": [True]},
}


def test_what_is_not_searched_by_itself_is_searched_where_values_are_given():
    space = bind_space(experiment(stacks=["hdf5"], parameters=FILTERS), Circumstances(WRITER, "romio")).space
    assert set(space["hdf5_shuffle"].values) == {False, True}
    assert set(space["hdf5_scaleoffset"].values) == {"none", 3}
    wanted = Configuration({**space.default, "hdf5_shuffle": True, "hdf5_chunk_size": 65536})
    assert {(s.key, s.value) for s in settings_of(space, wanted)} == {("shuffle", "true"), ("chunk_size", "65536")}


def hints_are_lost(parameter):
    return "app uses no MPI library" if parameter.carrier is HINT else ""


def test_what_cannot_reach_the_program_is_not_searched():
    own = {"level": {"kind": "ordinal", "values": [1, 2, 4], "carrier": "env", "key": "LEVEL"}}
    bound = bind_space(experiment(parameters=own), Circumstances(WRITER, "romio", lost=hints_are_lost))
    assert bound.space.names == ("level",)
    assert bound.left_out["cb_nodes"] == "app uses no MPI library"


@pytest.mark.parametrize("make", [bind_space, check_space])
def test_a_program_that_nothing_reaches_is_refused(make):
    with pytest.raises(UserError, match="nothing is left to tune: app uses no MPI library; launch an MPI program"):
        make(experiment(), Circumstances(WRITER, None, lost=hints_are_lost))


def test_what_has_one_value_is_nothing_to_tune_where_the_rest_is_lost():
    def lost(parameter):
        return "" if parameter.carrier is ENVIRONMENT else "app uses no MPI library"

    with pytest.raises(UserError, match="nothing is left to tune: app uses no MPI library"):
        check_space(experiment(stacks=["hdf5"]), Circumstances(Workload(), None, lost=lost))


@pytest.mark.parametrize("named", [[], ["romio"]])
def test_no_stack_is_advised_that_was_named_in_vain(named):
    with pytest.raises(UserError) as caught:
        bind_space(experiment(stacks=named), Circumstances(WRITER, "romio", lost=hints_are_lost))
    assert ("--stack romio" in str(caught.value)) == (not named)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"constraints": ["cb_nodez < 3"]}, "cb_nodez, which nothing declares"),
        ({"constraints": ["romio_cb_write < 3"]}, "uses text where a number is needed"),
        ({"constraints": ["romio_cb_write == 'enable'"]}, "the default configuration breaks"),
        ({"parameters": {"cb_nodez": {"values": [1]}}}, "no stack has a parameter of this name"),
        ({"parameters": {"cb_nodes": {"values": []}}}, "no values"),
    ],
)
def test_what_no_run_could_make_right_is_refused_before_the_first(fields, told):
    with pytest.raises(UserError, match=told):
        check_space(experiment(**fields), Circumstances(Workload(), "romio"))


OWN = """
name = "own"
[[parameter]]
name = "x"
kind = "ordinal"
values = [1, 2, 4]
carrier = "env"
key = "X"
"""


@pytest.mark.parametrize(
    ("text", "fields", "told"),
    [
        (OWN.replace("[1, 2, 4]", "[1]"), {}, "the default is the only configuration of x; give a parameter more"),
        ('constraint = ["x < 2"]\n' + OWN.replace("[1, 2, 4]", "[1]"), {}, "the only configuration of x; give"),
        (OWN, {"constraints": ["x < 2"]}, "the only configuration of x that satisfies 'x < 2'"),
        (OWN + '[[derived]]\nname = "Y"\ncarrier = "env"\nvalue = "z * 2"\n', {}, "stack own: 'z \\* 2' names z"),
        ('constraint = ["z > 2"]\n' + OWN, {}, "stack own: 'z > 2' names z, which is neither a parameter"),
    ],
)
def test_a_space_without_a_choice_and_rules_over_nothing_are_refused(text, fields, told, tmp_path):
    stack = tmp_path / "own.toml"
    stack.write_text(text)
    with pytest.raises(UserError, match=told):
        check_space(experiment(stacks=[str(stack)], **fields), Circumstances(Workload(), None))


@pytest.mark.parametrize(
    "fields",
    [
        {"constraints": ["cb_nodes <= nodes * processes_per_node", "cb_buffer_size <= file_size or cb_nodes > 2"]},
        {"constraints": ["cb_nodes >= 2"], "parameters": {"cb_nodes": {"values": [2, 4]}}},
        {"stacks": [], "parameters": {"stripe_count": {"values": [1, 2]}}, "constraints": ["stripe_count <= 2"]},
    ],
)
def test_what_the_first_run_may_make_right_is_let_through(fields):
    check_space(experiment(**fields), Circumstances(Workload(), "romio"))


def test_a_constraint_that_forbids_the_default_is_refused():
    with pytest.raises(UserError, match="the default configuration breaks"):
        bind_space(experiment(constraints=["cb_nodes >= 2"]), Circumstances(WRITER, "romio"))


def test_default_stacks_follow_what_was_observed():
    assert default_stacks("romio", WRITER) == ["romio"]
    assert default_stacks("ompio", WRITER) == ["ompio"]
    assert default_stacks("romio", Workload(api="hdf5")) == ["romio"]
    assert default_stacks("romio", Workload(api="hdf5"), ("hdf5",)) == ["romio", "hdf5"]
    assert default_stacks("romio", Workload(driver="LUSTRE:")) == ["romio", "lustre"]
    assert default_stacks("romio", Workload(file_system="ceph")) == ["romio", "cephfs"]


VERSIONED = """
name = "ompio"
io_component = ["ompio"]
[[parameter]]
name = "always"
kind = "ordinal"
values = [1, 2]
carrier = "mca"
[[parameter]]
name = "young"
kind = "ordinal"
values = [1, 2]
carrier = "mca"
since = "5.0"
[[parameter]]
name = "old"
kind = "ordinal"
values = [1, 2]
carrier = "mca"
until = "4.1"
"""


@pytest.mark.parametrize(
    ("mpi", "names"),
    [
        ("Open MPI v4.1.4, package: Debian OpenMPI", ("always", "old")),
        ("Open MPI 5.0.6", ("always", "young")),
        ("Open MPI v10.0.0rc1", ("always", "young")),
        ("MPICH 4.2", ("always", "young", "old")),
        ("", ("always", "young", "old")),
    ],
)
def test_parameters_of_other_versions_are_left_out(tmp_path, mpi, names):
    stack = tmp_path / "ompio.toml"
    stack.write_text(VERSIONED)
    bound = bind_space(experiment(stacks=[str(stack)]), Circumstances(WRITER, "ompio", mpi))
    assert bound.space.names == names
    assert all("Open MPI" in reason for reason in bound.left_out.values())


def test_an_override_may_write_the_default_as_a_size() -> None:
    experiment = Experiment.model_validate(
        {"stacks": ["cephfs"], "parameters": {"cephfs_stripe_unit": {"values": ["1 MiB", "4 MiB"]}}}
    )
    space = bind_space(experiment, Circumstances(Workload(operation="write"), None)).space
    assert list(space["cephfs_stripe_unit"].values) == [1 << 20, 4 << 20]


def test_one_parameter_whose_values_the_first_run_tells_is_enough() -> None:
    others = {p.name: {"exclude": True} for p in load_stack("romio").parameters if p.name != "cb_nodes"}
    chosen = experiment(stacks=["romio"], parameters=others)
    check_space(chosen, Circumstances(Workload(operation="write", collective=True), "romio"))


def test_a_rule_that_the_program_breaks_today_is_none_for_it() -> None:
    today = experiment(stacks=["romio"], parameters={"romio_no_indep_rw": {"default": True}})
    workload = Workload(operation="write", nodes=2, processes_per_node=4, collective=True)
    check_space(today, Circumstances(workload, "romio"))
    assert bind_space(today, Circumstances(workload, "romio")).space.default["romio_no_indep_rw"] is True


def test_hints_that_the_program_sets_itself_leave_the_space_and_count_as_they_are_set():
    own = {"romio_cb_write": "disable", "cb_nodes": "3", "romio_ds_write": "nonsense", "nc_var_align_size": "1"}
    bound = bind_space(experiment(), Circumstances(WRITER, "romio", own=own))
    assert bound.left_out["romio_cb_write"] == (
        "the program sets it itself, to disable; --override lets Stripewise change it"
    )
    assert {"cb_nodes", "romio_ds_write"} <= bound.left_out.keys()
    assert "cb_buffer_size" in bound.left_out, "the buffer of what the program switches off"
    assert bound.space.context["romio_cb_write"] == "disable"
    assert "ind_wr_buffer_size" in bound.space.names


def test_an_override_searches_the_programs_own_hints_from_the_values_that_they_have():
    own = {"romio_cb_write": "disable", "cb_nodes": "3", "romio_ds_write": "nonsense"}
    space = bind_space(experiment(override=True), Circumstances(WRITER, "romio", own=own)).space
    assert (space["romio_cb_write"].default, space["cb_nodes"].default) == ("disable", 3)
    assert 3 in space["cb_nodes"].values and space["romio_ds_write"].default == "automatic"
    chosen = Configuration({**space.default, "romio_cb_write": "automatic"})
    assert ("romio_cb_write", "automatic") in {(s.key, s.value) for s in settings_of(space, chosen)}
    assert settings_of(space, space.default) == ()


def test_a_program_that_sets_everything_itself_is_told_of_the_override():
    with pytest.raises(UserError, match="--override, or name another stack"):
        bind_space(
            experiment(parameters={name: {"exclude": True} for name in ROMIO - {"cb_nodes"}}),
            Circumstances(
                WRITER,
                "romio",
                own={"cb_nodes": "2"},
            ),
        )


def run_with(report=None, **facts):
    facts = facts if report is None else {"report": report}
    return Run(number=1, trial=0, phase=Phase.WARMUP, state=State.FINISHED, facts=facts)


def test_the_first_run_shows_whether_there_is_mpi_io_and_which_hints_the_program_sets():
    report = recorded("romio_strided_write")["default"]
    (file,) = report["files"]
    first = {**file, "path": "/a/first", "application_info": {"cb_nodes": "2", "romio_cb_write": "disable"}}
    second = {**file, "path": "/a/second", "application_info": {"cb_nodes": "4"}}
    both = run_with({**report, "files": [first, second]})
    assert FirstRun.of([both], "*").hints.keys() == {"cb_nodes"}
    assert FirstRun.of([both], "fir*").hints == first["application_info"]
    assert FirstRun.from_json(FirstRun.of([both], "/a/*").as_json()) == FirstRun.of([both], "/a/*")
    idle = FirstRun.of([run_with({**report, "files": []})], "*")
    assert "no file through MPI-IO" in idle.idle
    assert (
        "(the runtime wrote none; does it call" in FirstRun.of([run_with(no_report="the runtime wrote none")], "*").idle
    )
    with pytest.raises(UserError, match=r"cannot act on it.*its calls of the C library: --stack posix"):
        idle.check(experiment(stacks=[]))
    idle.check(experiment(stacks=["romio"]))
    assert idle.insisted(experiment(stacks=["romio"])) and not idle.insisted(experiment(stacks=[]))
    idle.check(experiment(parameters={"threads": {"kind": "ordinal", "values": [1, 2], "carrier": "argument"}}))
    assert FirstRun.of([run_with(anything=1)], "*") == FirstRun()


def test_arguments_of_objects_that_no_python_of_the_first_run_used_are_left_out():
    report = recorded("romio_strided_write")["default"]
    used = FirstRun.of([run_with({**report, "objects": [{"path": "h5py.File", "calls": 1}]})], "*", watched=True)
    assert FirstRun.from_json(used.as_json()) == used
    bound = bind_space(experiment(stacks=["h5py"]), Circumstances(WRITER, lost=used.lost))
    assert set(bound.space.names) == {"h5py_cache", "h5py_slots"}
    for unused in (FirstRun.of([run_with(report)], "*", watched=True), FirstRun.of([run_with()], "*", watched=True)):
        with pytest.raises(
            UserError, match=r"\(h5py_cache, h5py_slots: no Python of the first run reported a use of h5py.F"
        ):
            bind_space(experiment(stacks=["h5py"]), Circumstances(WRITER, lost=unused.lost))
    unwatched = FirstRun.of([run_with(report)], "*")
    assert (
        "h5py_cache" in bind_space(experiment(stacks=["h5py"]), Circumstances(WRITER, lost=unwatched.lost)).space.names
    )


@pytest.mark.parametrize(
    ("mpi", "known"),
    [("Open MPI v4.1.4", True), ("Open MPI v5.0.11", False), ("", True)],
    ids=["4.1", "5.0", "unknown"],
)
def test_values_that_the_version_of_the_library_does_not_know_are_left_out(mpi: str, known: bool) -> None:
    """By ``ompi_info``: Open MPI 4.1.4 has the component two_phase, 5.0.11 does not, and both have dynamic."""
    space = bind_space(experiment(stacks=["ompio"]), Circumstances(WRITER, "ompio", mpi)).space
    assert ("two_phase" in space["fcoll"].values) is known
    assert "dynamic" in space["fcoll"].values


def test_values_that_break_calls_of_the_program_are_left_out_and_told() -> None:
    calls = {"open", "write_ordered", "write_all"}
    bound = bind_space(experiment(), Circumstances(WRITER, "romio", calls=calls))
    assert bound.space["romio_cb_write"].values == ("automatic", "enable")
    (told,) = bound.dropped
    assert told.startswith("romio_cb_write is not set to disable: the program calls MPI_File_write_ordered, and ")
    plain = bind_space(experiment(), Circumstances(WRITER, "romio", calls={"write_all", "write_shared"}))
    assert "disable" in plain.space["romio_cb_write"].values and plain.dropped == ()
    # What the program sets itself is its own choice, and the baseline.
    own = bind_space(
        experiment(override=True), Circumstances(WRITER, "romio", own={"romio_cb_write": "disable"}, calls=calls)
    )
    assert own.space["romio_cb_write"].default == "disable"
    named = experiment(parameters={"romio_cb_write": {"values": ["automatic", "disable"]}})
    assert (
        "MPI_File_write_ordered"
        in bind_space(named, Circumstances(WRITER, "romio", calls=calls)).left_out["romio_cb_write"]
    )


def test_the_first_run_shows_the_calls_on_the_files_that_are_tuned() -> None:
    report = recorded("romio_strided_write")["default"]
    (file,) = report["files"]
    (name,) = [name for name in file["operations"] if name.startswith("write")]
    ordered = {**file, "path": "/a/second", "operations": {"write_ordered": file["operations"][name]}}
    both = run_with({**report, "files": [file, ordered]})
    assert {name, "write_ordered"} <= FirstRun.of([both], "*").calls
    assert "write_ordered" not in FirstRun.of([both], file["path"]).calls
    assert FirstRun.from_json(FirstRun.of([both], "*").as_json()) == FirstRun.of([both], "*")
    assert FirstRun.from_json({"idle": "", "hints": {}}) == FirstRun(), "of an earlier version"


def test_layouts_of_a_file_system_that_holds_no_file_of_the_program_are_left_out():
    elsewhere = WRITER.model_copy(update={"file_system": "ext4"})
    with pytest.raises(UserError, match=r"nothing is left .*lays out files on Lustre, the program's lie on ext4"):
        bind_space(experiment(stacks=["lustre"]), Circumstances(elsewhere, "romio"))
    bound = bind_space(experiment(stacks=["lustre", "romio"]), Circumstances(elsewhere, "romio"))
    assert bound.left_out["stripe_count"] == "lays out files on Lustre, the program's lie on ext4"
    assert "cb_nodes" in bound.space.names
    assert "stripe_count" in bind_space(experiment(stacks=["lustre"]), Circumstances(LUSTRE, "romio")).space.names


def own_only(parameter):
    """Leave out what the stacks have."""
    return "" if parameter.carrier is ARGUMENT else "not asked for"


def as_written(*words):
    parameters = dict(parameter_entry(word) for word in words)
    return Experiment.model_validate(
        {"command": ["./app", *(f"{{{n}}}" for n in parameters)], "parameters": parameters}
    )


def test_values_that_python_takes_for_equal_are_three():
    space = bind_space(as_written("x=1,true,1.0"), Circumstances(WRITER, None, lost=own_only)).space
    rows = space.enumerate()
    tried = [space.configuration(row) for row in rows]
    assert [repr(one["x"]) for one in tried] == ["1", "True", "1.0"]
    assert [space.levels([one]).tolist() for one in tried] == [[[0]], [[1]], [[2]]]
    assert tried[0] != tried[1] and tried[0] != tried[2] and tried[1] != tried[2]
    assert len(set(tried)) == len({one.key for one in tried}) == 3
    assert [[setting.value for setting in settings_of(space, one)] for one in tried] == [[], ["true"], ["1.0"]]
    assert [one.describe(space.default) for one in tried] == ["(defaults)", "x=true", "x=1.0"]
    assert find_changes(tried[1], space.default) == {"x": True} and list_changes(tried[2], space.default) == ["x=1.0"]
    history = History(Objective("elapsed", "minimize", "s"), tuple(map(Trial, range(3), tried)))
    assert [history.find(one).number for one in tried] == [0, 1, 2]


def test_numbers_of_one_size_keep_their_texts():
    for words in (["x=1,1.0"], ["x=3,05"], ["x=5,5.0,true"]):
        space = bind_space(as_written(*words), Circumstances(WRITER, None, lost=own_only)).space
        found = [str(space.configuration(row)["x"]) for row in space.enumerate()]
        assert ",".join(found).lower() == words[0].partition("=")[2]


def test_a_number_may_be_given_as_an_equal_one_and_a_truth_may_not():
    space = bind_space(as_written("x=1,2,0.5"), Circumstances(WRITER, None, lost=own_only)).space
    assert space.canonical({"x": 1.0}) == {"x": 1} and repr(space.canonical({"x": 1.0})["x"]) == "1"
    with pytest.raises(UserError, match="no value True"):
        space.canonical({"x": True})


def test_a_comma_after_a_backslash_belongs_to_the_value():
    name, entry = parameter_entry(r"env:A=b\,c,d\e")
    assert name == "A" and entry["values"] == ["b,c", r"d\e"] and entry["default"] == "b,c"
    with pytest.raises(UserError, match="two or more"):
        parameter_entry(r"x=b\,c")


def test_conditions_tell_values_of_several_types_apart():
    experiment = as_written("x=3,05", "y=1,true,1.0", "z=a,b")
    experiment = experiment.model_copy(update={"constraints": ["x == '05' or y == 1", "y != 1.0", "y in (1, true)"]})
    space = bind_space(experiment, Circumstances(WRITER, None, lost=own_only)).space
    found = [tuple(space.configuration(row).values()) for row in space.enumerate()]
    assert [repr(one) for one in found if one[2] == "a"] == ["(3, 1, 'a')", "('05', 1, 'a')", "('05', True, 'a')"]
