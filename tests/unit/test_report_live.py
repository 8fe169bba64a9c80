"""What pages show beyond the finished report: unfinished experiments, places, comparison, the helpdesk's bundle."""

import io
import json
import time
import zipfile
from dataclasses import replace

import pytest

from stripewise.catalogue.carriers import ARGUMENT
from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.workload import Workload
from stripewise.engine.definition import parameter_entry
from stripewise.engine.reconfirmation import confirm_again
from stripewise.engine.space import Circumstances, bind_space, describe_space
from stripewise.errors import UserError
from stripewise.facts import Facts, RunFacts
from stripewise.output import compare
from stripewise.output.bundle import Redactor, helpdesk_bundle, log_tail
from stripewise.output.experiment_view import view_experiment
from stripewise.output.places import collect_placement, node_names
from stripewise.output.plots.accuracy import predicted_measured
from stripewise.output.plots.parameters import Axis, LevelPoint, by_level, trials
from stripewise.requests.experiment import Experiment
from stripewise.trial import Phase, Role, Run, State, Trial
from tests.unit.finished_experiment import changed, finished


def test_an_unfinished_experiment_reads_like_a_finished_one():
    record, tried = finished()
    whole = view_experiment(record, tried)
    # The session keeps objective and space as soon as it knows them.
    shown = record.result.as_json()
    known = {**record.facts, "space": shown["space"], "objective": shown["objective"]}
    part = view_experiment(replace(record, result=None, facts=Facts(known)), tried)
    assert part.quantity == whole.quantity and part.unit == whole.unit
    assert part.points() == whole.points()
    assert part.incumbent() == whole.incumbent()
    assert [p.pair for p in part.result.confirmation.pairs] == [p.pair for p in whole.result.confirmation.pairs]
    assert part.result.confirmed is False and part.result.candidate.value is not None


def test_an_experiment_without_runs_reads_too():
    record, _ = finished()
    view = view_experiment(replace(record, result=None), ())
    assert view.points() == [] and view.lines() == ([], []) and view.result.candidate is None


def runs_on(osts, slow, value=100.0):
    """Ten runs a target, those of ``slow`` at half the usual."""
    runs = []
    for number in range(10 * len(osts)):
        target = osts[number % len(osts)]
        measured = value * (0.5 if target == slow else 1.0) * (1 + 0.001 * (number % 7))
        runs.append(
            Run(number, 0, Phase.SEARCH, State.FINISHED, measured, 1.0, float(number), facts={"osts": [target]})
        )
    return (Trial(0, Configuration({}), Role.DEFAULT, tuple(runs)),)


def test_a_best_of_zero_is_shown_without_a_ratio():
    record, _ = finished()
    value = {"name": "elapsed", "direction": "minimize", "unit": "s"}
    record = replace(record, result=None, facts=Facts(objective=value))
    tried = tuple(
        Trial(
            number,
            Configuration({"a": number}),
            role,
            (Run(number, number, Phase.SEARCH, State.FINISHED, 2.0 - 2 * number),),
        )
        for number, role in enumerate((Role.DEFAULT, Role.CANDIDATE))
    )
    candidate = view_experiment(record, tried).result.candidate
    assert candidate is not None and (candidate.value, candidate.speedup) == (0.0, None)


def test_a_slow_target_is_named_and_others_are_not():
    record, _ = finished()
    record = changed(record, objective={"name": "b", "unit": "", "direction": "maximize"})
    found = collect_placement(view_experiment(record, runs_on([1, 2, 3, 4], slow=3)))
    assert [place.name for place in found.osts if place.slow] == ["3"]
    unmarked = collect_placement(view_experiment(record, runs_on([1, 2, 3, 4], slow=None)))
    assert not any(place.slow for place in (*unmarked.osts, *unmarked.nodes))
    assert collect_placement(view_experiment(record, ())).osts == ()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("a,b[08,10-11]", ["a", "b08", "b10", "b11"]),
        ("x[a]", ["xa"]),
        ("r[1-2]n[3,5]-ib,z", ["r1n3-ib", "r1n5-ib", "r2n3-ib", "r2n5-ib", "z"]),
    ],
)
def test_lists_of_nodes_are_read_as_schedulers_write_them(text, names):
    assert list(node_names(text)) == names


def test_comparison_says_what_differs():
    record, tried = finished()
    other = changed(replace(record, id="ffff0000"), environment={"mpi": "Other 1.0", "host": "x"})
    views = {"a": view_experiment(record, tried), "b": view_experiment(other, tried)}
    assert any("MPI libraries" in note for note in compare.differences(list(views.values())))
    assert set(compare.figures(views)) == {"speedups", "progress"}
    assert compare.gain(views["a"])[3] is record.result.confirmed


def test_the_bundle_holds_all_and_names_nobody(tmp_path):
    record, tried = finished()
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "stdout").write_text("alice on node17.example.org, password=hunter2\n" + "x" * 50_000)
    first = tried[0]
    failed = replace(first.runs[0], state=State.FAILED, reason="crashed", facts={"folder": str(folder)})
    record = replace(
        record, owner="alice@node17:42",
        facts=record.facts.with_(folder="/home/alice/work", environment={"host": "node17"}),
        experiment=record.experiment.model_copy(
            update={"env": {"API_TOKEN": "abcdefgh12345678", "FINE": "1"}, "setup": ["export DB_PASSWORD=geheim"]}
        ),
    )  # fmt: skip
    data = helpdesk_bundle(record, (replace(first, runs=(failed, *first.runs[1:])), *tried[1:]))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name.partition("/")[2]: archive.read(name).decode() for name in archive.namelist()}
    assert {"README.txt", "experiment.json", "facts.json", "result.json", "runs.json"} <= files.keys()
    for secret in ("alice", "node17", "abcdefgh12345678", "geheim", "hunter2"):
        assert not [name for name, text in files.items() if secret in text], secret
    assert json.loads(files["experiment.json"])["env"] == {"API_TOKEN": "[removed]", "FINE": "1"}
    output = files[f"output/run-{failed.number}-stdout.txt"]
    assert output.startswith("[the first") and len(output) < 40_000


def test_words_within_words_stay_and_the_same_name_gets_the_same_word():
    redactor = Redactor()
    redactor.user("bob")
    redactor.host("n1.site.org")
    assert redactor.text("bob@x bobsleigh n1.site.org /home/bob/a 10.1.2.3 https://u:p@h/") == (
        "USER1@x bobsleigh HOST1 /home/USER/a [address removed] https://[removed]@h/"
    )
    assert redactor.text("Authorization: Bearer abcdef0123456789").endswith("[removed]")


@pytest.mark.parametrize(
    "text, secret",
    [
        ("app --apikey geheim -v", "geheim"), ("app --api-key=geheim", "geheim"), ("mysql pw=geheim", "geheim"),
        ("DB_PWD: 'geheim'", "geheim"), ("--pass geheim", "geheim"), ("AccountKey=geheim;x", "geheim"),
        ("AKIAIOSFODNN7EXAMPLE", "IOSFOD"), ("key ghp_" + "a1" * 18, "a1a1"), ("AIza" + "b2345" * 7, "b2345"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjMifQ.abcdefgh", "eyJz"),
        ("https://x/y?sv=1&sig=abcdefghijklmnop%3D", "abcdef"),
        ("open node7.hpc.example.org:22", "hpc"), ("ssh login1.example.edu", "example"),
        ("on node7.cluster", "cluster"),
    ],
)  # fmt: skip
def test_the_bundle_removes_secrets_and_hosts_however_they_are_written(text, secret):
    redactor = Redactor()
    redactor.host("node7")
    assert secret not in redactor.text(text)
    assert secret not in str(redactor.value({"command": ["./app", *text.split()]}))


@pytest.mark.parametrize(
    "text",
    [
        "curl -sS -u al:geheim x", "curl -ual:geheim x", "curl --user al:geheim x", "curl x?a=1&b=2 -U al:geheim",
        "curl -b sid=geheim x", "sshpass -p geheim ssh x", "/usr/bin/sshpass -pgeheim ssh x", "mysql -u root -pgeheim",
        "podman login -u al -p geheim x", "ldapsearch -x -w geheim", "smbclient -U al%geheim //x", "http -a a:geheim x",
        "export MY_JWT=geheim", "SLURM_JWT: geheim", "GH_PAT=geheim", "OPENAI_KEY=geheim", "SITE_BEARER=geheim",
        "https://al:g@geheim@h/", "https://geheim@h/", "redis://:geheim@db:1/0", "https://h/?key=geheim",
        "https://h/?X-Amz-Signature=geheim", "https://hooks.slack.com/services/T0/B0/geheim",
    ],
)  # fmt: skip
def test_the_bundle_removes_what_gives_access_by_its_place(text):
    assert "geheim" not in Redactor().text(text)
    assert "geheim" not in str(Redactor().value({"command": ["env", *text.split()]}))


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: geheim", "authorization: token geheim", 'Authorization: Digest username="x", response="geheim"',
        "curl -H 'Authorization: Token geheim' x", "Set-Cookie: a=b; sid=geheim",
    ],
)  # fmt: skip
def test_the_bundle_removes_headers_to_their_end(text):
    assert "geheim" not in Redactor().text(f"{text}\nmore") and Redactor().text(f"{text}\nmore").endswith("\nmore")


@pytest.mark.parametrize(
    "text",
    [
        "curl ", "curl -u ", "authorization:", "cookie:", "?key=", "://", "mysql -p\"", "_key", " -u'",
        "token", "token ", "token=", "_pw", "pw =", "a.", "a%", "a@b.", "eyJ-", "eyJaaaaaaaaaaaa.", "eyJaaaaaaaaaaaa-",
        "-----BEGIN PRIVATE KEY-----\n", "-----BEGIN A ", "://a:", "sk-", "/home/a", "bearer ", "1.", "node7.", "A1",
    ],
)  # fmt: skip
def test_hostile_output_costs_the_bundle_little_time(text):
    redactor = Redactor()
    redactor.host("node7")
    started = time.process_time()
    redactor.text(text * ((64 << 10) // len(text)) + "!")
    redactor.value({text * ((64 << 10) // len(text)) + "\n": "x"})
    assert time.process_time() - started < 0.5


def test_a_private_key_is_removed_though_its_end_is_missing():
    assert Redactor().text("key:\n-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n") == "key:\n[private key removed]"


def test_the_bundle_knows_the_nodes_of_the_runs_and_leaves_ordinary_words():
    record, tried = finished()
    run = replace(tried[0].runs[0], facts=RunFacts(node_list="gpu[08-09]"))
    redactor = Redactor.of(record, (replace(tried[0], runs=(run,)),))
    told = redactor.text("gpu08 wrote to gpu09.site.org, gpu[08-09]")
    assert "gpu" not in told and "site" not in told and len(set(told.replace(",", "").split())) == 5
    plain = "pass 3 of 4: compass=2, monkey=5, libmpi.so.12, job.sh, write.dat, key=value, ./ior -o /scratch/x"
    assert Redactor().text(plain) == plain


def test_logs_are_read_from_the_runs_folder_alone(tmp_path):
    (tmp_path / "secret").write_text("s")
    (tmp_path / "stdout").symlink_to(tmp_path / "secret")
    run = Run(0, 0, Phase.SEARCH, State.FAILED, facts={"folder": str(tmp_path)})
    assert log_tail(run, "stdout") is None and log_tail(run, "../secret") is None and log_tail(run, "stderr") is None


def test_confirming_again_leaves_two_configurations():
    record, _ = finished()
    again = confirm_again(record, pairs=6)
    default, best = record.result.default.configuration, record.result.best.configuration
    different = {name for name, value in best.items() if default.get(name) != value}
    assert {name for name, entry in again.parameters.items() if not entry.exclude} == different
    assert again.budget.runs == record.experiment.warmup + 2 + 12 and again.confirmation.pairs == 6
    assert " or " in again.constraints[-1]
    with_reference = confirm_again(changed(record, reference={"value": 1.0}), pairs=6)
    assert with_reference.budget.runs == again.budget.runs + 1
    kept = changed(record, confirmed=False, candidate=None)
    with pytest.raises(UserError, match="nothing to confirm"):
        confirm_again(kept)


def test_confirming_again_holds_the_users_own_parameters_at_their_default():
    own = {
        "k": {"kind": "integer", "low": 1, "high": 8, "default": 1, "carrier": "argument", "key": "--k={value}"},
        "fast": {"kind": "boolean", "carrier": "env", "key": "FAST"},
    }
    experiment = Experiment.model_validate({"command": "x", "parameters": own, "stacks": ["romio"]})
    workload = Workload(operation="write", nodes=1, processes_per_node=4, collective=True)
    bound = bind_space(experiment, Circumstances(workload, "romio"))
    default = dict(bound.space.default)
    for better in ({"romio_cb_write": "disable"}, {"k": 2, "fast": not default["fast"]}):
        record, _ = finished(
            default__configuration=default,
            best__configuration={**default, **better},
            space=describe_space(bound).as_json(),
        )
        again = confirm_again(replace(record, experiment=experiment), pairs=6)
        space = bind_space(again, Circumstances(workload, "romio")).space
        assert [{**default, **space.configuration(row)} for row in space.enumerate()] == [
            default,
            {**default, **better},
        ]


def test_confirming_again_knows_the_default_of_files_before_its_first_run():
    experiment = Experiment.model_validate({"command": "x", "stacks": ["lustre"]})
    workload = Workload(operation="write", nodes=1, processes_per_node=4)
    bound = bind_space(experiment, Circumstances(workload, "romio", present={"stripe_size": 1 << 20}))
    default = dict(bound.space.default)
    best = {**default, "stripe_size": 65536}
    record, _ = finished(
        default__configuration=default, best__configuration=best, space=describe_space(bound).as_json()
    )
    again = confirm_again(replace(record, experiment=experiment), pairs=6)
    space = bind_space(again, Circumstances(workload, "romio")).space
    assert [{**default, **space.configuration(row)} for row in space.enumerate()] == [best, default]


def own_only(parameter):
    """Leave out what the stacks have."""
    return "" if parameter.carrier is ARGUMENT else "not asked for"


@pytest.mark.parametrize("words", [["x=3,05"], ["x=1,true,1.0", "y=a,b"], ["x=05,3", "y=1,true", "z=1,2"]])
def test_confirming_again_keeps_values_as_they_are_written(words):
    own = dict(parameter_entry(word) for word in words)
    experiment = Experiment.model_validate({"command": "x " + " ".join(f"{{{n}}}" for n in own), "parameters": own})
    bound = bind_space(experiment, Circumstances(Workload(), None, lost=own_only))
    default = dict(bound.space.default)
    for row in bound.space.enumerate()[1:]:
        best = dict(bound.space.configuration(row))
        record, _ = finished(
            default__configuration=default, best__configuration=best, space=describe_space(bound).as_json()
        )
        assert record.result.changed(record.result.best)
        again = bind_space(
            confirm_again(replace(record, experiment=experiment), pairs=6),
            Circumstances(Workload(), None, lost=own_only),
        ).space
        both = [{**default, **again.configuration(row)} for row in again.enumerate()]
        assert sorted(map(repr, both)) == sorted(map(repr, [default, best]))


def test_figures_hold_what_they_are_given():
    def trial(number, role, *values):
        runs = [Run(n, number, Phase.SEARCH, State.FINISHED, value) for n, value in enumerate(values)]
        return Trial(number, Configuration({}), role, tuple(runs))

    tried = [trial(0, Role.DEFAULT, 1.0, 3.0, 2.0), trial(1, Role.CANDIDATE, 5.0), trial(2, Role.CANDIDATE)]
    figure = trials(tried, lambda _: "x=1", quantity="elapsed", unit="s", maximize=False, default=2.0)
    by_name = {trace.name: trace for trace in figure.data}
    assert list(by_name["default"].y) == [2.0] and list(by_name["default"].error_y.array) == [1.0]
    levels = [LevelPoint(0, 1.0), LevelPoint(0, 3.0), LevelPoint(2, 9.0, best=True)]
    figure = by_level(Axis("cb_nodes", ["1", "2", "4"]), levels, quantity="elapsed", unit="s")
    medians = next(trace for trace in figure.data if trace.name == "median of a value")
    assert list(medians.x) == [0, 2] and list(medians.y) == [2.0, 9.0]
    figure = predicted_measured([1.0, 2.0, 4.0], [1.1, float("nan"), 3.0], quantity="b", unit="MiB/s", how="rows")
    assert list(figure.data[0].x) == [1.0, 4.0]


@pytest.mark.parametrize("text", ['{"token":"hunter2x"}', '"password": "hunter2x"', "'pw' : 'hunter2x'"])
def test_a_bundle_removes_secrets_of_json(text: str) -> None:
    assert "hunter2x" not in Redactor().text(text)
