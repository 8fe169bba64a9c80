"""Old databases are upgraded when they are opened, at once and whole; newer ones are left alone."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from stripewise.desk.cli.main import main
from stripewise.errors import StoreError
from stripewise.result import Result
from stripewise.store import journal_files, opening
from stripewise.store.opening import create_file, open_store
from stripewise.store.schema import HEAD, VERSION_TABLE, metadata
from stripewise.store.transactions import sqlite_engine
from stripewise.testing.stores import refused
from stripewise.trial import Role, State
from tests.integration.forked import CONTEXT
from tests.unit.service import running

FIXTURES = Path(__file__).parents[1] / "fixtures" / "stores"
DUMPS = sorted(FIXTURES.glob("schema-*.sql"))
RELEASES = sorted(FIXTURES.glob("release-*.sql"))
VERSIONS = ("0.1.0", "0.2.0", "1.0.0")
MIGRATIONS = Path(opening.__file__).parent / "migrations"

NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"
branch_labels = None
depends_on = None


def upgrade():
    op.add_column("runs", sa.Column("attempts", sa.Integer, nullable=False, server_default="1"))
    op.execute("UPDATE runs SET attempts = 2")
    {then}
"""


def restore(dump: Path, path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.executescript(dump.read_text("utf-8"))
    connection.close()


def version_of(path: Path) -> str:
    connection = sqlite3.connect(path)
    (version,) = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()
    connection.close()
    return str(version)


def with_next(folder: Path, monkeypatch: pytest.MonkeyPatch, then: str = "") -> None:
    """Pretend that there is one more migration."""
    shutil.copytree(MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "9999_next.py").write_text(NEXT.format(head=HEAD, then=then))
    monkeypatch.setattr(opening, "_MIGRATIONS", folder)
    monkeypatch.setattr(opening, "HEAD", "9999")


def test_head_is_the_newest_migration_and_each_has_its_fixture() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)
    assert scripts.get_current_head() == HEAD
    known = sorted(script.revision for script in scripts.walk_revisions())
    assert [dump.stem.removeprefix("schema-") for dump in DUMPS] == known


def test_migrations_make_the_tables_that_the_code_uses(tmp_path: Path) -> None:
    open_store(str(tmp_path / "s.db")).close()
    engine = sqlite_engine(tmp_path / "s.db")
    with engine.connect() as connection:
        options = {"version_table": VERSION_TABLE, "compare_type": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []
    engine.dispose()


def test_a_new_database_is_what_the_migrations_make_one_by_one() -> None:
    def make(how: Callable[[sa.Connection], None]) -> tuple[object, dict[str, str]]:
        engine = sqlite_engine(None).execution_options(writing=True)
        with engine.begin() as connection:
            how(connection)
            tables = connection.execute(sa.text("SELECT name, sql FROM sqlite_master")).all()
            version = connection.execute(sa.text(f"SELECT * FROM {VERSION_TABLE}")).all()
        engine.dispose()
        return version, {name: " ".join(str(sql).split()) for name, sql in tables}

    assert make(opening._create) == make(lambda connection: opening._migrate(connection, None, "here", None))


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: dump.stem)
def test_an_old_database_keeps_everything(dump: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    restore(dump, path)
    with open_store(str(path)) as store:
        assert version_of(path) == HEAD
        interrupted, finished = store.records()
        assert (finished.experiment.name, finished.state) == ("finished", "finished")
        assert finished.experiment.command == ["mpiexec", "-n", "4", "./app"]
        assert (finished.facts, finished.result) == ({"nodes": 1}, Result(speedup=3.1, confirmed=True))
        assert (finished.trials, finished.runs, finished.ended) == (3, 4, 4)
        assert (finished.tags, finished.remark) == ((), "")
        # The gain was read from its result.
        assert store.records(sort="gain")[0].id == finished.id
        trials = store.trials(finished.id)
        assert [trial.role for trial in trials] == [Role.DEFAULT, Role.CANDIDATE, Role.CANDIDATE]
        assert [trial.values for trial in trials] == [(1.0,), (0.1 + 0.2,), (1e-300,)]
        assert dict(trials[2].configuration) == {"cb_nodes": 2, "collective": True, "ratio": 2.0}
        assert trials[1].runs[0].facts == {"report": {"version": 1}}
        confirmation = trials[0].runs[1]
        assert (confirmation.reason, confirmation.pair) == ("exit code 1: Überlauf", 0)
        assert (interrupted.state, interrupted.experiment.seed) == ("stopped", 7)
        claim = store.claim(interrupted.id, "bob")
        assert claim.token == 2
        (run,) = store.trials(interrupted.id)[0].runs
        assert run.state is State.RUNNING


def test_an_old_database_is_upgraded_when_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.db"
    restore(DUMPS[-1], path)
    with_next(tmp_path / "migrations", monkeypatch)
    with open_store(str(path)) as store:
        assert store.count() == 2
    assert version_of(path) == "9999"
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT DISTINCT attempts FROM runs").fetchall() == [(2,)]
    connection.close()


def test_an_upgrade_that_fails_leaves_the_database_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.db"
    restore(DUMPS[-1], path)
    with monkeypatch.context() as patch:
        with_next(tmp_path / "migrations", patch, then='op.execute("INSERT INTO nowhere VALUES (1)")')
        with refused(StoreError, str(path)):
            open_store(str(path))
    assert version_of(path) == HEAD
    connection = sqlite3.connect(path)
    assert "attempts" not in [row[1] for row in connection.execute("PRAGMA table_info(runs)")]
    connection.close()
    with open_store(str(path)) as store:
        assert store.count() == 2


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    restore(DUMPS[-1], path)
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '8888'")
    with refused(StoreError, str(path), "newer", "8888", HEAD, "pip install ."):
        open_store(str(path))
    assert version_of(path) == "8888"
    with sqlite3.connect(path) as connection:
        connection.execute(f"DELETE FROM {VERSION_TABLE}")
    with refused(StoreError, str(path), "version"):
        open_store(str(path))


def _open(path: str, queue: multiprocessing.Queue[str]) -> None:
    try:
        with open_store(path) as store:
            queue.put(str(store.count()))
    except BaseException as error:
        queue.put(repr(error))


def test_many_processes_make_one_new_database(tmp_path: Path) -> None:
    # Not a copy of this process: others of its threads may hold a lock at the moment of the fork.
    queue: multiprocessing.Queue[str] = CONTEXT.Queue()
    processes = [CONTEXT.Process(target=_open, args=(str(tmp_path / "s.db"), queue)) for _ in range(6)]
    for process in processes:
        process.start()
    said = [queue.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert said == ["0"] * 6
    assert version_of(tmp_path / "s.db") == HEAD


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    create_file(tmp_path / "s.db")
    with open_store(str(tmp_path / "s.db")) as store:
        assert store.count() == 0


@pytest.mark.parametrize("release", RELEASES, ids=lambda dump: dump.stem)
def test_a_store_of_a_release_shows_all_that_it_holds(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `tune` of that release wrote: a search in real runs, and a simulated one."""
    path = tmp_path / "s.db"
    restore(release, path)
    monkeypatch.setenv("STRIPEWISE_STORE", f"sqlite:///{path}")
    monkeypatch.chdir(tmp_path)

    def said(*words: str) -> str:
        assert main([*words]) == 0
        return capsys.readouterr().out

    listed = {entry["name"]: entry for entry in json.loads(said("list", "--json"))}
    assert listed.keys() == {"measured", "simulated"} and version_of(path) == HEAD
    for name, entry in listed.items():
        assert (entry["state"], entry["simulated"]) == ("finished", name == "simulated")
        document = json.loads(said("show", "--json", entry["id"]))
        ended = [run for trial in document["trials"] for run in trial["runs"] if run["state"] == "finished"]
        assert len(ended) > 5, name
        shown = said("show", "--runs", "--report", "report.html", entry["id"])
        assert shown.count("default") >= 2 and document["result"]["verdict"] in " ".join(shown.split())
        assert name in Path("report.html").read_text("utf-8")
        assert json.loads(said("export", entry["id"], "--json"))["text"].startswith("stripewise-plan 1")
    assert said("diagnose", listed["measured"]["id"]).startswith("I/O is ")
    # The service shows it too.
    with running(tmp_path) as served:
        experiments = served.viewer.get("/api/v1/experiments").json()["items"]
        assert {entry["id"] for entry in experiments} == {entry["id"] for entry in listed.values()}
        for name, entry in listed.items():
            page = served.viewer.get(f"/experiments/{entry['id']}")
            assert page.status_code == 200 and name in page.text


def restore_files(version: str, folder: Path) -> None:
    """Copy what a release left in a folder: a journal, and files that its user wrote. Paths are those of ``folder``."""
    for source in (FIXTURES / version).rglob("*"):
        if source.is_file():
            path = folder / source.relative_to(FIXTURES / version)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source.read_text("utf-8").replace("@FOLDER@", str(folder)), "utf-8")
    for path in (folder / "journal" / "experiments").iterdir():
        (path / "leases").mkdir()  # git keeps no empty folder
    for path in folder.rglob("*.jsonl"):
        # The checksums are of other paths.
        events = [json.loads(line) for line in path.read_bytes().splitlines()]
        kept = [{key: value for key, value in event.items() if key not in ("checksum", "sequence")} for event in events]
        path.write_bytes(b"".join(journal_files.write_line(number, event) for number, event in enumerate(kept)))
    shutil.copy2(FIXTURES / "app.sh", folder / "app.sh")
    restore(folder / "interrupted.sql", folder / "s.db")


@pytest.mark.parametrize("store", ["s.db", "journal:journal"])
@pytest.mark.parametrize("version", VERSIONS)
def test_an_experiment_that_a_release_left_is_resumed(
    version: str, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`tune` of that release was killed in its fourth launch."""
    restore_files(version, tmp_path)
    monkeypatch.setenv("STRIPEWISE_STORE", store)
    monkeypatch.chdir(tmp_path)
    with open_store(store) as opened:
        (record,) = opened.records()
        assert [run.value for trial in opened.trials(record.id) for run in trial.runs] == [41.0, 42.0, 20.0, None]
    if version == "0.1.0":
        # A stack file of a user's own says what to change in it.
        assert main(["resume", record.id, "--yes"]) == 2
        assert "stack.toml: parameter.0: 'apply' is called 'carrier' now" in capsys.readouterr().err
        Path("stack.toml").write_text(Path("stack.toml").read_text("utf-8").replace("apply = ", "carrier = "), "utf-8")
    assert main(["resume", record.id, "--yes"]) == 0
    assert "run 3 was interrupted and is launched again" in capsys.readouterr().err
    with open_store(store) as opened:
        assert opened.record(record.id).state == "finished"
        values = [run.value for trial in opened.trials(record.id) for run in trial.runs]
    assert values[:3] == [41.0, 42.0, 20.0] and None not in values and 3 < len(values) <= 6
    # The three launches from before are not repeated.
    assert len(Path("launches").read_text("utf-8")) == len(values) - 3


@pytest.mark.parametrize("version", VERSIONS)
def test_plans_and_experiment_files_of_a_release_are_read(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    restore_files(version, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["export", "./settings.plan", "--to", "shell", "--json"]) == 0
    assert "layout lustre stripe_count 16" in json.loads(capsys.readouterr().out)["text"]
    ended = main(["tune", "experiment.toml", "--dry-run", "--json"])
    said = capsys.readouterr()
    if version == "0.1.0":
        assert ended == 2 and "'apply' is called 'carrier' now" in said.err
    else:
        assert ended == 0 and "size" in said.out
