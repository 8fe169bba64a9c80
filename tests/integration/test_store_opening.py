"""Addresses, places and strangers: what is refused, and what the refusal says."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stripewise.catalogue.filesystems.base import mount_type
from stripewise.desk.cli.main import main
from stripewise.errors import StoreError, StripewiseError, UserError
from stripewise.requests.experiment import Experiment
from stripewise.store.base import MEMORY
from stripewise.store.journal_files import MARKER
from stripewise.store.opening import default_path, network_name, open_store, statfs_type
from stripewise.store.service import database_of
from stripewise.store.service.tokens import Tokens
from stripewise.testing.stores import refused, result_of, run_of, trial_of
from stripewise.trial import Run, State

FILES = ("sqlite:///{}/s.db", "journal:{}/s.db")
EXT4, TMPFS, FUSE = 0xEF53, 0x01021994, 0x65735546


def test_readers_do_not_wait_for_those_who_want_to_write(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        tokens = Tokens(database_of(store))
        _, secret = tokens.create("ada", "viewer")
        other = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        writers = [threading.Thread(target=tokens.create, args=(f"t{n}", "viewer")) for n in range(20)]
        for writer in writers:
            writer.start()
        with ThreadPoolExecutor(1) as reader:
            try:
                time.sleep(0.3)
                # The token was not used before: that it is now is kept after the answer.
                assert reader.submit(tokens.check, secret).result(timeout=5) is not None
            finally:
                other.execute("ROLLBACK")
        for writer in writers:
            writer.join()
        assert len(tokens.all()) == 21


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_default_lies_under_the_xdg_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with open_store() as store:
        assert store.url == f"sqlite:///{tmp_path}/data/stripewise/stripewise.db"
    assert (tmp_path / "data/stripewise/stripewise.db").is_file()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for ignored in ("", "relative/data"):
        monkeypatch.setenv("XDG_DATA_HOME", ignored)
        assert default_path() == tmp_path / "home/.local/share/stripewise/stripewise.db"


@pytest.mark.parametrize("address", ["sqlite:///{}/a/b/s.db", "{}/a/b/s.db", "journal:{}/a/b/s.db"])
def test_files_and_folders_are_for_their_owner_alone(address: str, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with open_store(address.format(tmp_path)) as store:
            identifier = store.create(Experiment())
            claim = store.claim(identifier, "ada")
            store.plan(identifier, claim, trial_of(0), run_of(0))
            store.renew(claim)
            store.request_stop(identifier)
            made = list(tmp_path.rglob("*"))
            assert len(made) > 3
            for path in made:
                assert mode(path) == (0o700 if path.is_dir() else 0o600), path
    finally:
        os.umask(before)


def test_sqlite_loses_nothing_with_the_power(tmp_path: Path) -> None:
    from stripewise.store.opening import create_file
    from stripewise.store.transactions import BUSY_SECONDS, sqlite_engine

    create_file(tmp_path / "s.db")
    engine = sqlite_engine(tmp_path / "s.db")
    with engine.connect() as connection:

        def pragma(name: str) -> object:
            return connection.exec_driver_sql(f"PRAGMA {name}").scalar()

        assert pragma("journal_mode") == "wal"
        assert pragma("synchronous") == 2
        assert pragma("foreign_keys") == 1
        assert pragma("busy_timeout") == BUSY_SECONDS * 1000
    engine.dispose()


@pytest.mark.parametrize(
    ("address", "word"),
    [
        ("mysql://ada:secret@host/db", "journal:FOLDER"),
        ("ada:secret@host", "journal:FOLDER"),
        ("", "journal:FOLDER"),
        ("store", "journal:FOLDER"),
        ("sqlite:///", "names no file"),
        ("journal:", "names no file"),
        ("sqlite:///a\0b", "names no file"),
        ("postgresql://ada:secret@host:port/db", "postgresql://USER@HOST"),
        ("postgresql://ada:secret@[::1/db", "postgresql://USER@HOST"),
        ("postgresql://ada:pass@secret@host/db", "write %40"),
        ("postgresql+psycopg2://ada:secret@host/db", "journal:FOLDER"),
    ],
)
def test_addresses_that_cannot_be_read(address: str, word: str) -> None:
    with pytest.raises(UserError) as caught:
        open_store(address)
    assert word in str(caught.value)
    assert "secret" not in str(caught.value)


def test_driver_of_postgresql_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with refused(UserError, "psycopg", "pip install '.[postgresql]'"):
        open_store("postgresql://ada:secret@localhost/db")


def test_server_of_postgresql_down(tmp_path: Path) -> None:
    with pytest.raises(StripewiseError) as caught:
        open_store(f"postgresql://ada:secret@/db?host={tmp_path}&password=hidden")
    text = str(caught.value)
    assert "cannot be reached" in text
    assert "\n" not in text
    assert "secret" not in text
    assert "hidden" not in text


# -- places ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("magic", "name"),
    [
        (0x6969, "NFS"),
        (0x0BD00BD0, "Lustre"),
        (0x00C36400, "CephFS"),
        (0x47504653, "GPFS"),
        (0x19830326, "BeeGFS"),
        (0xFE534D42, "SMB"),
        (0xFF534D42, "CIFS"),
    ],
)
def test_sqlite_on_a_network_file_system_is_refused(magic: int, name: str, tmp_path: Path) -> None:
    with refused(StoreError, name, f"journal:{tmp_path}", "XDG_DATA_HOME", "PostgreSQL"):
        open_store(f"sqlite:///{tmp_path}/new/s.db", statfs=lambda folder: magic)
    assert list(tmp_path.iterdir()) == []
    open_store(f"journal:{tmp_path}/j", statfs=lambda folder: magic).close()


def test_a_link_to_a_network_file_system_is_refused(tmp_path: Path) -> None:
    far = tmp_path / "far"
    far.mkdir()
    (tmp_path / "s.db").symlink_to(far / "s.db")
    with refused(StoreError, "NFS"):
        open_store(f"{tmp_path}/s.db", statfs=lambda folder: 0x6969 if folder == far else EXT4)


@pytest.mark.parametrize("magic", [EXT4, TMPFS, 0x58465342, 0x9123683E, 0x794C7630])
def test_sqlite_on_local_storage_is_welcome(magic: int, tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path}/s.db", statfs=lambda folder: magic).close()


def test_fuse_is_judged_by_its_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for mount, name in (("fuse.sshfs", "FUSE (sshfs)"), ("fuse.ceph-fuse", "FUSE (ceph-fuse)"), ("", "FUSE (fuse)")):
        monkeypatch.setattr("stripewise.store.opening.mount_type", lambda folder, mount=mount: mount)
        assert network_name(tmp_path, lambda folder: FUSE) == name
    for mount in ("fuseblk", "virtiofs", "fuse.fuse-overlayfs"):
        monkeypatch.setattr("stripewise.store.opening.mount_type", lambda folder, mount=mount: mount)
        assert network_name(tmp_path, lambda folder: FUSE) == ""


def test_the_kernel_is_asked_about_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    asked: list[Path] = []

    def statfs(folder: Path) -> int:
        asked.append(folder)
        return EXT4

    network_name(tmp_path / "not" / "yet", statfs)
    assert asked == [tmp_path]
    assert statfs_type(Path("/proc")) == 0x9FA0
    assert mount_type(Path("/proc")) == "proc"
    with pytest.raises(FileNotFoundError):
        statfs_type(tmp_path / "nowhere")


def test_mounts_are_read_from_their_table(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    place = str(tmp_path).replace(" ", "\\040")
    table.write_text(
        "1 0 0:1 / / rw - ext4 /dev/a rw\nodd\n"
        f"2 1 0:2 / {place} rw - nfs4 a: rw\n3 1 0:3 / {place} rw shared:1 - fuse.sshfs host: rw\n"
        f"4 3 0:4 / {place}/a\\040b rw - lustre c@tcp:/d rw\n"
    )
    assert mount_type(tmp_path, table) == "fuse.sshfs"
    assert mount_type(tmp_path / "a b" / "not yet", table) == "lustre"
    assert mount_type(tmp_path.parent, table) == "ext4"
    assert mount_type(tmp_path, tmp_path / "no table") == ""


# -- strangers, damage, rights ---------------------------------------------------------------------------------


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_text("my thesis, chapter one " * 100)
    with refused(StoreError, str(path), "not a SQLite database", "--store"):
        open_store(str(path))
    assert path.read_text().startswith("my thesis")


def test_a_database_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE recipes (name)")
    with refused(StoreError, str(path), "recipes", "--store"):
        open_store(str(path))


@pytest.mark.parametrize("table", ["experiments", "trials", "runs"])
def test_bytes_and_words_in_any_column_are_refused_in_one_line(tmp_path: Path, table: str) -> None:
    path = tmp_path / "s.db"
    with open_store(f"sqlite:///{path}") as store:
        identifier = store.create(Experiment(name="a", command=["true"]))
        claim = store.claim(identifier, "ada")
        store.plan(identifier, claim, trial_of(0), run_of(0))
        store.accept(identifier, claim, result_of(0))
        columns = [row[1] for row in sqlite3.connect(path).execute(f"PRAGMA table_info({table})")]
        refusals = 0
        for column, value in itertools.product(columns, (b"\xff\0", "../../x", 2.0**62, float("inf"))):
            with sqlite3.connect(path) as connection:
                (before,) = connection.execute(f"SELECT {column} FROM {table}").fetchone()
                try:
                    connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
                except sqlite3.IntegrityError:
                    continue
            try:
                shown = (store.records(), store.trials(identifier))
                json.dumps([str(datetime.fromtimestamp(record.created, UTC)) for record in shown[0]])
                json.dumps([[trial.number, *map(Run.as_json, trial.runs)] for trial in shown[1]], default=dict)
                assert all(record.id.isalnum() for record in shown[0])
            except StripewiseError as error:
                refusals += 1
                assert "\n" not in str(error)
            with sqlite3.connect(path) as connection:
                connection.execute(f"UPDATE {table} SET {column} = ?", (before,))
        assert refusals > len(columns) / 2


def test_a_damaged_database(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with open_store(str(path)) as store:
        identifiers = [store.create(Experiment(command=["x" * 2000])) for _ in range(40)]
    data = bytearray(path.read_bytes())
    data[8192:] = b"\xa5" * (len(data) - 8192)
    path.write_bytes(data)
    with pytest.raises(StoreError) as caught, open_store(str(path)) as store:
        for identifier in identifiers:
            store.record(identifier)
    assert str(path) in str(caught.value)
    assert "restore a copy" in str(caught.value)


def test_a_database_whose_tables_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with open_store(str(path)) as store:
        store.create(Experiment())
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE experiments")
    with refused(StoreError, str(path), "lost its table 'experiments'"):
        open_store(str(path))


def test_a_folder_that_everyone_can_write_is_refused(tmp_path: Path) -> None:
    """SQLite takes the pages of any log beside a database, also of another user's, who can make it there."""
    shared, own = tmp_path / "shared", tmp_path / "own"
    own.mkdir()
    (own / "link.db").symlink_to(shared / "s.db")
    shared.mkdir()
    open_store(str(shared / "s.db")).close()
    shared.chmod(0o1777)
    for path in (shared / "s.db", shared / "new.db", own / "link.db"):
        with refused(StoreError, f"everyone can write in {shared}", "a folder of your own"):
            open_store(str(path))


@pytest.mark.parametrize("where", FILES)
def test_an_unreadable_experiment_hides_no_other(where: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    url = where.format(tmp_path)
    with open_store(url) as store:
        bad, good = (store.create(Experiment(name=name)) for name in ("bad", "good"))
    if url.startswith("sqlite"):
        with sqlite3.connect(tmp_path / "s.db") as connection:
            connection.execute("UPDATE experiments SET definition = '{\"seed\": -1}' WHERE id = ?", (bad,))
    else:
        kept = tmp_path / "s.db" / "experiments" / bad / "experiment.json"
        kept.write_text(kept.read_text().replace('"seed":0', '"seed":-1'))
    assert main(["list", "--store", url, "--json"]) == 0
    said = capfd.readouterr()
    assert [one["id"] for one in json.loads(said.out)] == [good] and bad in said.err
    with open_store(url) as store, refused(StoreError, bad):
        store.records()
    assert main(["experiment", "delete", bad, "--yes", "--store", url]) == 0
    with open_store(url) as store:
        assert [record.id for record in store.records()] == [good]


def test_a_value_that_somebody_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with open_store(str(path)) as store:
        identifier = store.create(Experiment())
        claim = store.claim(identifier, "ada")
        store.plan(identifier, claim, trial_of(0, a=1), run_of(0))
        for statement, call in (
            ("UPDATE trials SET configuration = '{'", store.trials),
            ("UPDATE trials SET configuration = '{}', role = 'king'", store.trials),
            ("UPDATE experiments SET state = 'king'", store.record),
            ("UPDATE experiments SET state = 'created', ended = 'x'", store.record),
            ("UPDATE experiments SET ended = 0, facts = 'x'", store.record),
            ("UPDATE experiments SET facts = '7'", store.record),
            ("UPDATE experiments SET facts = '{}', definition = '{\"seed\": -1}'", store.record),
        ):
            with sqlite3.connect(path) as connection:
                connection.execute(statement)
            with refused(StoreError, identifier):
                call(identifier)


@pytest.mark.parametrize("address", FILES)
def test_a_folder_or_a_file_in_the_way(address: str, tmp_path: Path) -> None:
    if address.startswith("sqlite"):
        (tmp_path / "s.db").mkdir()
    else:
        (tmp_path / "s.db").write_text("")
    with refused(StoreError, str(tmp_path), "where a"):
        open_store(address.format(tmp_path))
    (tmp_path / "file").write_text("")
    with refused(StoreError, str(tmp_path)):
        open_store(address.format(tmp_path / "file"))


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with refused(StoreError, str(tmp_path), "thesis.tex", "empty folder"):
        open_store(f"journal:{tmp_path}")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"format": "stripewise-journal", "version": 99}', ("newer", "99", "pip install")),
        ('{"format": "other", "version": 1}', ("not of a journal",)),
        ("[]", ("not of a journal",)),
        ("\xff{", ("not of a journal",)),
    ],
)
def test_a_marker_that_is_not_ours(text: str, words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / MARKER).write_text(text, "latin-1")
    with refused(StoreError, *words):
        open_store(f"journal:{tmp_path}")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize("address", FILES)
def test_a_store_of_somebody_else(address: str, open_folder: Path) -> None:
    where = address.format(open_folder)
    with open_store(where) as store:
        identifier = store.create(Experiment())
    stranger = 65534 if os.geteuid() == 0 else os.geteuid()
    for path in (*open_folder.rglob("*"), open_folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    script = f"""
import os
from stripewise.errors import StoreError
from stripewise.store.opening import open_store
open_store("sqlite:///:memory:").close()
os.setuid({stranger})
try:
    with open_store({where!r}) as store:
        print(store.record({identifier!r}).state)
        store.claim({identifier!r}, "ada")
except StoreError as error:
    print(error)
"""
    try:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    finally:
        for path in (open_folder, *open_folder.rglob("*")):
            path.chmod(0o700)
    lines = done.stdout.splitlines()
    said = "may not be read or written" if address.startswith("journal") else "it is read-only"
    assert said in lines[-1], done.stdout + done.stderr
    assert "--store" in lines[-1]
    assert done.stderr == ""
    assert lines[:-1] == ["created"], "it can at least be read"


def test_memory_is_one_store_an_object() -> None:
    with open_store(MEMORY) as first, open_store(MEMORY) as second:
        identifier = first.create(Experiment())
        claim = first.claim(identifier, "ada")
        first.plan(identifier, claim, trial_of(0), run_of(0))
        first.accept(identifier, claim, result_of(0))
        assert isinstance(first.trials(identifier)[0].runs[0], Run)
        assert first.trials(identifier)[0].state is State.FINISHED
        assert second.records() == []
