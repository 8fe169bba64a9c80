"""Campaign files, their combinations, designs and order of runs."""

from __future__ import annotations

import collections
import functools
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from pydantic import BaseModel

from stripewise.catalogue.carriers import LAYOUT
from stripewise.catalogue.factor import Tunable
from stripewise.catalogue.workload import Workload
from stripewise.engine.campaign.outcome import table_of
from stripewise.engine.campaign.plan import first_batch, of_shard, parse_shard, schedule
from stripewise.errors import UserError
from stripewise.models.prescribe.prescriber import Prescriber
from stripewise.models.prescribe.request import PrescriptionRequest
from stripewise.models.registry import make_model
from stripewise.output.summaries import summarise
from stripewise.requests.campaign import (
    Campaign,
    DesignEntry,
    FilesEntry,
    LimitsEntry,
    load_campaign,
    parse_campaign,
    preset_names,
)
from stripewise.requests.campaign_points import Points
from stripewise.requests.objective import Objective
from stripewise.runners.launch_choice import choose_for_launch
from stripewise.runners.native import benchmark_lines
from stripewise.runners.native.benchmark import Bench
from stripewise.trial import Phase, Run, State
from tests.unit.reports import recorded

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "campaigns.md"

SMALL = """
name = "small"
stacks = ["romio", "lustre"]
operations = ["write", "read"]

[files]
folder = "/scratch"

[[workload]]
name = "nodes"
values = [1, 2]

[[workload]]
name = "file_size"
values = ["64 MiB"]

[[tunable]]
name = "transfer_size"
values = ["1 MiB", "16 MiB"]

[[tunable]]
name = "collective"
values = [false, true]

[[tunable]]
name = "stripe_count"
values = [1, 4]
operations = ["write"]
"""


def small(extra: str = "", **design: object) -> Campaign:
    text = SMALL + extra
    if design:
        text += "\n[design]\n" + "\n".join(f"{k} = {v!r}" for k, v in design.items())
    return parse_campaign(text, "small.toml")


@functools.cache
def points_of(name: str) -> Points:
    """Points of a preset: listing thousands takes a second."""
    return Points(load_campaign(name))


@pytest.mark.slow
def test_the_grid_of_the_study_has_its_printed_numbers() -> None:
    campaign = load_campaign("mpi-io-ann")
    points = points_of("mpi-io-ann")
    assert {operation: len(points.of(operation)) for operation in campaign.operations} == {
        "write": 15360,
        "read": 15360,
    }
    own = [t for t in campaign.tunable if t.name != "layout"]  # follows collective
    tuned = {o: [len(t.values) for t in own if o in t.operations] for o in campaign.operations}
    assert int(np.prod(tuned["read"])) == 8 and int(np.prod(tuned["write"])) == 160
    assert {(p.values["layout"], p.values["collective"]) for p in points.of("write")} == {
        ("segmented", False), ("strided", True),
    }  # fmt: skip
    printed = {
        "nodes": 16, "processes_per_node": 1, "stripe_count": 4, "stripe_size": 2**20, "file_size": 32 * 2**30,
        "transfer_size": 2**29, "collective": True, "layout": "strided", "piece_size": 2**20,
    }  # fmt: skip
    assert any(dict(point.values) == printed for point in points.of("write"))
    for factor in campaign.factors:
        assert printed[factor.name] not in factor.assumed or factor.name == "piece_size"
        assert factor.assumed or factor.name in ("collective", "layout")


@pytest.mark.slow
@pytest.mark.parametrize("name", preset_names())
def test_presets_can_be_planned(name: str) -> None:
    campaign = load_campaign(name)
    batch = first_batch(points_of(name))
    assert {point.operation for point in batch} == set(campaign.operations)
    if name == "sctuner":
        assert campaign.repeats >= 100
        assert {point.workload.api for point in batch} == {"posix", "mpiio", "hdf5"}


def test_digest_follows_what_fixes_the_runs_only() -> None:
    campaign = small()
    assert campaign.digest == small().digest
    assert campaign.model_copy(update={"description": "other"}).digest == campaign.digest
    assert campaign.model_copy(update={"seed": 1}).digest != campaign.digest


@pytest.mark.parametrize(
    "change, message",
    [
        ('name = "small"\nstacks', "TOML"),
        ("", "is missing"),
        (SMALL.replace("[1, 2]", "[2, 1]"), "values must ascend"),
        (SMALL.replace("[1, 2]", "[1, 1]"), "lists a value twice"),
        (SMALL.replace("[1, 2]", "[0, 1]"), "at least 1"),
        (SMALL.replace("[1, 2]", "[nan]"), "at least 1"),
        (SMALL.replace('"64 MiB"', '"64 apples"'), "not a size"),
        (SMALL + '[[tunable]]\nname = "nodes"\nvalues = [1]\n', "two factors are called nodes"),
        (SMALL + '[[tunable]]\nname = "operation"\nvalues = [1]\n', "kept for the table"),
        (SMALL + '[[workload]]\nname = "ranks"\nrole = "processes"\nvalues = [4]\n[[workload]]\nname = '
         '"processes_per_node"\nvalues = [2]\n', "not both"),
        (SMALL + "[design]\nkind = 'subset'\n", "needs a size"),
        (SMALL + "[design]\nsize = 4\n", "kind = 'subset'"),
        (SMALL.replace("operations = [\"write\", \"read\"]", 'operations = ["copy"]'), "read"),
        (SMALL + "[limits]\nfree = 2\n", "less than 1"),
        (SMALL + 'colour = "red"\n', "is not a known key"),
    ],
)  # fmt: skip
def test_wrong_files_are_refused_with_their_place(change: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        parse_campaign(change, "mine.toml")
    assert "mine.toml" in str(error.value)


def test_a_tunable_that_nothing_can_set_is_refused() -> None:
    campaign = parse_campaign(SMALL + '[[tunable]]\nname = "colour"\nvalues = ["red", "blue"]\n', "x")
    with pytest.raises(UserError, match="nothing says how it is set"):
        Points(campaign)


def test_constraints_leave_combinations_out_and_unknown_names_are_refused() -> None:
    whole, fewer = Points(small()), Points(parse_campaign('constraints = ["nodes * stripe_count <= 4"]\n' + SMALL, "x"))
    kept = [p for p in whole.of("write") if p.values["nodes"] * p.values["stripe_count"] <= 4]  # type: ignore[operator]
    assert list(fewer.of("write")) == kept and len(kept) < len(whole.of("write"))
    with pytest.raises(UserError, match="names colour"):
        Points(parse_campaign('constraints = ["colour > 1"]\n' + SMALL, "x")).all  # noqa: B018
    with pytest.raises(UserError, match="no combination"):
        Points(parse_campaign('constraints = ["nodes > 9"]\n' + SMALL, "x")).all  # noqa: B018


def test_striping_of_a_read_is_workload_and_hints_that_mean_nothing_fold() -> None:
    hints = '[[tunable]]\nname = "romio_cb_write"\nvalues = ["automatic", "disable"]\n'
    points = Points(parse_campaign(SMALL + hints, "x"))
    assert {p.values["stripe_count"] for p in points.of("read")} == {1, 4}
    assert {p.values["romio_cb_write"] for p in points.of("read")} == {"automatic"}
    written = points.of("write")
    assert {p.values["romio_cb_write"] for p in written if p.values["collective"]} == {"automatic", "disable"}
    assert {p.values["romio_cb_write"] for p in written if not p.values["collective"]} == {"automatic"}


def test_what_the_program_cannot_divide_is_left_out() -> None:
    text = SMALL.replace('["64 MiB"]', '["64 MiB", "66 MiB"]').replace("[1, 2]", "[1, 4]")
    points = Points(parse_campaign(text, "x"))
    assert all(p.workload.file_size == 64 * 2**20 or p.transfer != 16 * 2**20 or p.share is None for p in points.all)
    assert points.left_out > 0


def test_posix_has_neither_hints_nor_collective_calls() -> None:
    api = '[[workload]]\nname = "api"\nvalues = ["posix", "mpiio"]\n'
    hints = '[[tunable]]\nname = "cb_buffer_size"\nvalues = ["1 MiB", "16 MiB"]\n'
    points = Points(parse_campaign(SMALL + api + hints, "x")).of("write")
    posix = [p for p in points if p.workload.api == "posix"]
    assert (
        posix
        and {p.values["cb_buffer_size"] for p in posix} == {2**24}
        and not any(p.workload.collective for p in posix)
    )


def test_a_summary_credits_no_program_with_settings_that_cannot_act_on_it() -> None:
    api = '[[workload]]\nname = "api"\nvalues = ["posix", "mpiio"]\n'
    hints = '[[tunable]]\nname = "cb_nodes"\nvalues = [1, 2]\n'
    campaign = parse_campaign(SMALL + api + hints, "x")
    points = Points(campaign)
    runs = schedule(points.of("write"), 0, 1, seed=0)
    results = {run.number: Run(run.number, run.trial, Phase.SEARCH, State.FINISHED, 100.0 + run.number) for run in runs}
    table = table_of(points, runs, results, Objective("bandwidth", "maximize", "MiB/s"), "", whole=False)
    (report,) = summarise(table)
    acts = {(s.context["api"], s.configuration["collective"], s.configuration["cb_nodes"]) for s in report.summaries}
    # romio_cb_write, which the campaign does not vary, acts at its default: automatic.
    assert acts == {("posix", False, None), ("mpiio", False, None), ("mpiio", True, 1), ("mpiio", True, 2)}


# -- designs and order ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["subset", "latin_hypercube"])
def test_smaller_designs_have_their_size_without_repetition(kind: str) -> None:
    campaign = load_campaign("quick", [("design.kind", kind), ("design.size", 40)])
    points = Points(campaign)
    batch = first_batch(points)
    assert batch == first_batch(Points(campaign))
    assert collections.Counter(p.operation for p in batch) == {"write": 40, "read": 40}
    assert len({(p.operation, p.values) for p in batch}) == 80
    other = first_batch(Points(campaign.model_copy(update={"seed": 1})))
    assert other != batch


def test_a_latin_hypercube_covers_each_factor_evenly() -> None:
    sizes = '[design]\nkind = "latin_hypercube"\nsize = 60\n'
    text = SMALL.replace("[1, 4]", "[1, 4, 8, 16, 32]").replace('["64 MiB"]', '["64 MiB", "128 MiB", "256 MiB"]')
    campaign = parse_campaign(text + sizes, "x")
    batch = [p for p in first_batch(Points(campaign)) if p.operation == "write"]
    for factor in campaign.factors:
        counts = collections.Counter(p.values[factor.name] for p in batch)
        # Inner values of an axis are the nearest to twice the stretch that its ends are nearest to.
        assert set(counts) == set(factor.values)
        inner = [counts[v] for v in factor.values[1:-1]] or [counts[v] for v in factor.values]
        assert max(inner) <= 2 * min(inner), (factor.name, counts)


def test_repeats_are_interleaved_operation_by_operation_and_numbered_for_good() -> None:
    batch = first_batch(Points(small()))
    runs = schedule(batch, 0, 3, seed=7)
    assert [run.number for run in runs] == list(range(3 * len(batch)))
    for repeat, block in itertools.groupby(runs, lambda run: run.repeat):
        members = list(block)
        assert sorted(run.trial for run in members) == list(range(len(batch))), repeat
        assert [k for k, _ in itertools.groupby(run.point.operation for run in members)] == ["write", "read"]
    assert [run.trial for run in runs[: len(batch)]] != [run.trial for run in runs[len(batch) : 2 * len(batch)]]
    assert runs == schedule(batch, 0, 3, seed=7)


def test_shards_cut_the_runs_without_rest() -> None:
    runs = schedule(first_batch(Points(small())), 0, 3, seed=0)
    parts = [of_shard(runs, (index, 4)) for index in range(1, 5)]
    assert sorted(run.number for part in parts for run in part) == [run.number for run in runs]
    assert parse_shard("2/4") == (2, 4)
    for wrong in ("0/4", "5/4", "4", "a/b", "-1/2"):
        with pytest.raises(UserError, match="--shard"):
            parse_shard(wrong)


# -- command lines -------------------------------------------------------------------------------------------------


def test_the_file_is_striped_before_and_deleted_after() -> None:
    campaign = small().model_copy(update={"launcher": ["srun", "-N", "{nodes}", "-n", "{processes}"]})
    points = Points(campaign)
    point = next(p for p in points.of("write") if p.values["stripe_count"] == 4 and p.workload.nodes == 2)
    settings = points.settings(point)
    assert [s.key for s in settings if s.carrier is LAYOUT] == ["stripe_count"]
    found = benchmark_lines.lines(campaign, point, settings, "/opt/kernel")
    assert found.before == ("lfs setstripe -c 4 /scratch/stripewise-profile.dat",)
    assert found.command[:5] == ("srun", "-N", "2", "-n", "2") and "--existing" in found.command
    assert found.after == ("rm -f /scratch/stripewise-profile.dat /scratch/stripewise-profile.dat.0*",)


def test_a_read_is_written_before_and_leaves_the_cache() -> None:
    campaign = small().model_copy(update={"launcher": ["mpiexec", "-n", "{processes}"]})
    points = Points(campaign)
    point = next(p for p in points.of("read") if p.workload.nodes == 2 and p.values["collective"])
    found = benchmark_lines.lines(campaign, point, points.settings(point), "/opt/kernel")
    assert [line.split()[0] for line in found.before] == ["lfs", "mpiexec", "for"]
    assert "--write" in found.before[1] and "nocache" in found.before[2]
    assert {"--read", "--reorder", "--collective"} <= set(found.command)


def test_a_chunk_larger_than_the_share_moves_the_share() -> None:
    text = SMALL.replace('"1 MiB", "16 MiB"', '"1 MiB", "1 GiB"')
    points = Points(parse_campaign(text, "x"))
    largest = [p for p in points.of("write") if p.values["transfer_size"] == 2**30]
    assert largest and all(p.transfer == p.share for p in largest)


@pytest.mark.parametrize(("most", "what"), [(30_000, "30,000 workloads"), (300_000, "2,400,000 combinations")])
def test_more_combinations_than_can_be_looked_at_are_refused_at_once(most: int, what: str) -> None:
    points = Points(parse_campaign(SMALL.replace("[1, 2]", str([*range(1, most + 1)])), "x"))
    with pytest.raises(UserError, match=f"has {what}, more than"):
        points.of("write")


def test_ior_and_kernel_refuse_what_they_lack() -> None:
    netcdf = parse_campaign(SMALL + '[[workload]]\nname = "api"\nvalues = ["pnetcdf"]\n', "x")
    with pytest.raises(UserError, match="no backend of the benchmark program is known here for pnetcdf"):
        benchmark_lines.check_program(netcdf, Points(netcdf).all[0])
    hdf5 = parse_campaign(SMALL + '[[workload]]\nname = "api"\nvalues = ["hdf5"]\n', "x")
    point = next(p for p in Points(hdf5).of("write") if p.values["collective"])
    benchmark_lines.check_program(hdf5, point)
    command = benchmark_lines.lines(hdf5, point, (), "/opt/kernel").command
    assert command[command.index("--api") + 1] == "hdf5" and "--collective" in command
    ior = hdf5.model_copy(update={"program": "ior", "launcher": ["mpiexec", "-n", "{processes}"]})
    point = Points(ior).of("write")[0]
    benchmark_lines.check_program(ior, point)
    command = benchmark_lines.lines(ior, point, (), "ior").command
    assert command[3:] == ("ior", "-a", "HDF5", "-w", "-k", "-t", "1048576", "-b", "67108864", "-s", "1", "-o",
                           "/scratch/stripewise-profile.dat", "-e")  # fmt: skip
    tiles = parse_campaign(SMALL + '[[workload]]\nname = "layout"\nvalues = ["tile"]\n', "x")
    with pytest.raises(UserError, match="neither tiles"):
        benchmark_lines.check_program(tiles.model_copy(update={"program": "ior"}), Points(tiles).all[0])


def test_a_launcher_must_say_how_many() -> None:
    campaign = small().model_copy(update={"launcher": ["mpiexec", "-n", "4"]})
    with pytest.raises(UserError, match=r"no \{processes\}"):
        benchmark_lines.check_launcher(campaign, Points(campaign).all)
    campaign = small().model_copy(update={"launcher": ["mpiexec", "-n", "{processes}"]})
    with pytest.raises(UserError, match="up to 2 nodes"):
        benchmark_lines.check_launcher(campaign, Points(campaign).all)


# -- documents -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "heading, model",
    [("Top level", Campaign), ("[design]", DesignEntry), ("[files]", FilesEntry), ("[limits]", LimitsEntry),
     ("[[workload]] and [[tunable]]", Tunable)],
)  # fmt: skip
def test_keys_are_documented(heading: str, model: type[BaseModel]) -> None:
    part = REFERENCE.read_text("utf-8").split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    cells = [line.split(" | ")[0] for line in part.splitlines() if line.startswith("| `")]
    listed = set(re.findall(r"`(\w+)`", " ".join(cells)))
    assert set(model.model_fields) == listed


def test_the_campaign_shown_is_accepted_and_every_preset_is_listed() -> None:
    text = REFERENCE.read_text("utf-8")
    shown = next(block for block in re.findall(r"```\n(.*?)```", text, re.DOTALL) if "[[tunable]]" in block)
    campaign = parse_campaign(shown, "campaigns.md")
    assert len(first_batch(Points(campaign))) > 100
    assert set(preset_names()) <= set(re.findall(r"^\| `([\w-]+)`", text, re.MULTILINE))


SWITCHED = """
name = "cache"
[env]
CACHE = "on"
[off]
env = { CACHE = "off" }
unset = ["LD_PRELOAD"]
command = "without {program}"
[[parameter]]
name = "level"
key = "LEVEL"
kind = "ordinal"
values = [1, 8]
default = 1
carrier = "env"
"""
CACHED = """
name = "cached"
program = "command"
command = ["with", "{program}"]
operations = ["read"]
objective = "regex:seconds ([0-9.]+)"
direction = "minimize"
stacks = ["STACK"]
[[workload]]
name = "program"
values = ["large", "small"]
[[tunable]]
name = "cache"
values = [true, false]
[[tunable]]
name = "level"
values = [1, 8]
"""


def test_a_campaign_and_its_model_switch_a_component_off(tmp_path: Path) -> None:
    (tmp_path / "cache.toml").write_text(SWITCHED)
    campaign = parse_campaign(CACHED.replace("STACK", str(tmp_path / "cache.toml")), "cached.toml")
    points = Points(campaign)
    seen = {}
    for point in points.of("read"):
        key = tuple(point.values[name] for name in ("program", "cache", "level"))
        off = points.off(point)
        seen[key] = ({s.key: s.value for s in points.settings(point)}, off.unset, off.command)
    # A level means nothing while the cache is off.
    assert len(seen) == 6 and ("small", False, 8) not in seen
    assert seen["small", True, 8] == ({"CACHE": "on", "LEVEL": "8"}, [], None)
    assert seen["small", False, 1] == ({"CACHE": "off"}, ["LD_PRELOAD"], "without {program}")
    bench = Bench(campaign, points, tmp_path, {})
    off = next(p for p in points.of("read") if not p.values["cache"])
    assert (bench.launch(off, 1).command, bench.launch(off, 1).unset) == ("without large", ("LD_PRELOAD",))

    best = {"large": (True, 8), "small": (False, 1)}
    planned = schedule(points.of("read"), 0, 3, 0)
    runs = {}
    for entry in planned:
        values = entry.point.values
        seconds = 1.0 if (values["cache"], values["level"]) == best[str(values["program"])] else 9.0
        runs[entry.number] = Run(
            entry.number, entry.trial, Phase.SEARCH, State.FINISHED, seconds * (1 + 0.01 * entry.repeat)
        )
    table = table_of(points, planned, runs, Objective("seconds", "minimize", "s"), "Made up.", True)
    model = make_model("tree").fit(table)
    answers = {p: Prescriber(model).prescribe(PrescriptionRequest(Workload(), context={"program": p})) for p in best}
    assert {p: {c.name: c.value for c in found.changes} for p, found in answers.items()} == {
        "large": {"level": 8},
        "small": {"cache": False},
    }
    assert [s.line() for s in answers["small"].plan.settings] == ["env CACHE off"]
    said = "the best is to run without cache: CACHE=off, without LD_PRELOAD in the environment, run without {program}"
    assert said in answers["small"].notes
    assert "the plan does not switch cache on: set CACHE=on as well" in answers["large"].notes
    seen = tmp_path / "report.json"
    seen.write_text(json.dumps(recorded("romio_strided_write")["default"]))
    choice = choose_for_launch(model, iter([seen]), {"operation": "read", "program": "small"}, ["./my_app"])
    assert [s.line() for s in choice.settings] == ["env CACHE off"] and said in choice.remarks


@pytest.mark.parametrize("kind", ["tunable", "workload"])
def test_a_campaign_has_a_limited_number_of_columns(kind: str) -> None:
    """A request may send one, and each column is compared with all others."""
    text = "".join(f"[[{kind}]]\nname = 'a{i}'\nvalues = [1, 2]\n" for i in range(101))
    with pytest.raises(UserError, match=f"{kind}: must have at most 100 entries"):
        parse_campaign("name = 'c'\nrunner = 'sim:kay'\n" + text, "c")
