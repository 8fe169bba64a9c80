"""The contract of stores on a real PostgreSQL: a private server on a UNIX socket in a temporary folder."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from stripewise.errors import StoreError, StripewiseError, TransientError
from stripewise.requests.experiment import Experiment
from stripewise.result import Result
from stripewise.store.opening import _ADVISORY_LOCK, open_store, postgresql_engine
from stripewise.store.schema import HEAD, VERSION_TABLE, experiments
from stripewise.store.sql import SqlStore
from stripewise.testing.stores import DurableStoreContract, refused, result_of, run_of, trial_of
from tests.conftest import require
from tests.system.postgresql import Server, find_programs, private_server

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    programs = find_programs()
    require(programs is not None, "PostgreSQL's server is not installed: apt-get install postgresql")
    assert programs is not None
    with private_server(programs) as made:
        yield made


@pytest.fixture
def database(server: Server) -> Iterator[str]:
    """An empty database."""
    server.sql("CREATE DATABASE store")
    try:
        yield server.url("store")
    finally:
        server.sql("DROP DATABASE store WITH (FORCE)")


class TestPostgresql(DurableStoreContract):
    @pytest.fixture(autouse=True)
    def _address(self, database: str) -> None:
        self.address = database


def test_addresses_are_shown_without_passwords(server: Server, database: str) -> None:
    server.sql("CREATE ROLE careful LOGIN PASSWORD 'correct horse'")
    server.sql("GRANT ALL ON DATABASE store TO careful")
    server.sql("GRANT ALL ON SCHEMA public TO careful", "store")
    try:
        right = server.url("store", "careful", "correct%20horse")
        with open_store(right) as store:
            assert store.create(Experiment())
            assert "horse" not in store.url
            assert "careful" in store.url
        with open_store(server.url("store", "careful") + "&password=correct%20horse") as store:
            assert store.count() == 1
            assert "horse" not in store.url
        for wrong in (server.url("store", "careful", "battery%20staple"), server.url("store", "careful")):
            with refused(StoreError, "refuses the user", "~/.pgpass"):
                open_store(wrong)
            with pytest.raises(StoreError) as caught:
                open_store(wrong)
            assert "staple" not in str(caught.value)
    finally:
        server.sql("DROP OWNED BY careful", "store")
        server.sql("DROP OWNED BY careful")
        server.sql("DROP ROLE careful")


def test_databases_that_cannot_be_used(server: Server, database: str) -> None:
    with refused(StoreError, "database does not exist", "createdb"):
        open_store(server.url("nowhere"))
    with refused(StoreError, "refuses the user"):
        open_store(server.url("store", "nobody_here"))
    server.sql("CREATE TABLE experiments (recipe text)", "store")
    with refused(StoreError, "another program", "experiments"):
        open_store(database)
    server.sql("DROP TABLE experiments", "store")
    server.sql("CREATE TABLE recipes (name text)", "store")
    open_store(database).close()
    server.sql(f"UPDATE {VERSION_TABLE} SET version_num = '8888'", "store")
    with refused(StoreError, "newer", "8888", HEAD, "pip install ."):
        open_store(database)


def test_a_read_only_database(server: Server, database: str) -> None:
    open_store(database).close()
    server.sql("ALTER DATABASE store SET default_transaction_read_only = on")
    with open_store(database) as store, refused(StoreError, "read-only", "primary"):
        store.create(Experiment())


def test_a_user_without_rights(server: Server, database: str) -> None:
    open_store(database).close()
    server.sql("CREATE ROLE guest LOGIN")
    try:
        with pytest.raises(StoreError) as caught, open_store(server.url("store", "guest")) as store:
            store.create(Experiment())
        assert "may not do this" in str(caught.value)
        assert "grant" in str(caught.value)
    finally:
        server.sql("DROP ROLE guest")


@pytest.mark.parametrize("table", ["runs", VERSION_TABLE])
def test_a_table_of_another_user_is_refused_before_its_triggers_run(server: Server, database: str, table: str) -> None:
    server.sql("CREATE ROLE mallory LOGIN")
    server.sql("GRANT CREATE ON SCHEMA public TO mallory", "store")
    try:
        server.sql(f"CREATE TABLE {table} (version_num text)", "store", "mallory")
        server.sql(f"GRANT ALL ON {table} TO PUBLIC", "store", "mallory")
        with pytest.raises(StoreError, match=r"another user \(mallory\) owns the table"):
            open_store(database)
    finally:
        server.sql("DROP OWNED BY mallory", "store")
        server.sql("DROP ROLE mallory")
    open_store(database).close()


def _plant_operator(server: Server, schema: str, before: str = "") -> None:
    """Let mallory make an operator that wins over PostgreSQL's own, and notes whose rights it has."""
    body = "BEGIN PERFORM nextval('public.calls'); RETURN $1::text OPERATOR(pg_catalog.=) $2::text; END"
    server.sql(
        f"""{before} GRANT USAGE ON SCHEMA {schema} TO PUBLIC;
        CREATE FUNCTION {schema}.same(text, varchar) RETURNS bool LANGUAGE plpgsql AS $$ {body} $$;
        CREATE OPERATOR {schema}.= (LEFTARG = text, RIGHTARG = varchar, FUNCTION = {schema}.same)""",
        "store",
        "mallory",
    )


@pytest.fixture
def victim(server: Server, database: str) -> Iterator[str]:
    """Give the address of a user of the store, beside whom mallory has no rights in it."""
    open_store(database).close()
    server.sql("CREATE ROLE staff; CREATE ROLE mallory LOGIN NOINHERIT; CREATE ROLE victim LOGIN")
    server.sql("GRANT ALL ON ALL TABLES IN SCHEMA public TO victim", "store")
    server.sql("CREATE SEQUENCE calls; GRANT ALL ON calls TO PUBLIC", "store")
    yield server.url("store", "victim")
    server.sql("DROP OWNED BY mallory, victim, staff CASCADE", "store")
    server.sql("DROP ROLE mallory, victim, staff")


def _called(database: str) -> bool:
    engine = postgresql_engine(database)
    with engine.connect() as connection:
        called = connection.exec_driver_sql("SELECT is_called FROM public.calls").scalar()
    engine.dispose()
    return bool(called)


def _write_and_read(address: str) -> None:
    with open_store(address) as store:
        identifier = store.create(Experiment())
        store.annotate(identifier, remark="ours")
        assert [record.remark for record in store.records(name="")] == ["ours"]
        store.delete(identifier)


@pytest.mark.parametrize("path", ["public", "public, pg_catalog", "public, stripewise"])
def test_functions_and_operators_of_a_stranger_never_run(server: Server, database: str, victim: str, path: str) -> None:
    """Whoever may create in a schema of the search path, as everybody may in one of PostgreSQL 14, changes nothing."""
    server.sql("GRANT CREATE ON SCHEMA public TO PUBLIC; GRANT CREATE ON DATABASE store TO mallory", "store")
    server.sql(f"ALTER DATABASE store SET search_path = {path}")
    made = {
        "same(oid, regclass) RETURNS bool": "TRUE",
        "same(oid, regtype) RETURNS bool": "TRUE",
        "same(varchar, varchar) RETURNS bool": "$1::text = $2::text",
        "has_table_privilege(oid, regclass, text) RETURNS bool": "FALSE",
        "quote_ident(name) RETURNS text": "''",
        "array_to_string(text[], text) RETURNS text": "''",
        "current_schema() RETURNS name": "'public'",
        "coalesce(bool, bool) RETURNS bool": "$1",
    }
    for signature, answer in made.items():
        body = f"BEGIN IF current_user = 'victim' THEN PERFORM nextval('calls'); END IF; RETURN {answer}; END"
        server.sql(
            f'CREATE FUNCTION public."{signature.replace("(", chr(34) + "(", 1)} LANGUAGE plpgsql AS $$ {body} $$',
            "store",
            "mallory",
        )
    for kinds in (("oid", "regclass"), ("oid", "regtype"), ("varchar", "varchar")):
        operator = f"public.= (LEFTARG = {kinds[0]}, RIGHTARG = {kinds[1]}, FUNCTION = public.same)"
        server.sql(f"CREATE OPERATOR {operator}", "store", "mallory")
    _plant_operator(server, "public")
    with open_store(victim) as store:
        # A schema of the user's name stands before others in the path that PostgreSQL has by default.
        for schema in ("victim", "stripewise"):
            _plant_operator(server, schema, f"CREATE SCHEMA {schema};")
        assert store.count() == 0
    _write_and_read(victim)
    assert not _called(database)


def test_tables_in_a_schema_that_a_stranger_adds_are_not_used(server: Server, database: str, victim: str) -> None:
    server.sql("GRANT CREATE ON DATABASE store TO mallory", "store")
    server.sql("CREATE SCHEMA victim; GRANT ALL ON SCHEMA victim TO PUBLIC", "store", "mallory")
    _write_and_read(victim)
    server.sql(f"CREATE TABLE victim.{VERSION_TABLE} (version_num text)", "store", "mallory")
    with pytest.raises(StoreError, match=rf"another user \(mallory\) owns the table {VERSION_TABLE}"):
        open_store(victim)


_MAY = r"another user \(mallory\) may make triggers of or references to the table"
_IS_WRITER = "GRANT UPDATE ON experiments TO mallory"


@pytest.mark.parametrize(
    "given",
    [
        "GRANT TRIGGER ON experiments TO mallory",
        "GRANT REFERENCES (id) ON experiments TO mallory",
        # A role counts as what it can become, also where it does not inherit.
        "GRANT TRIGGER ON experiments TO staff; GRANT staff TO mallory",
        "GRANT TRIGGER ON experiments TO staff; GRANT staff TO victim, mallory",
    ],
)
def test_who_could_have_code_called_by_a_table_must_be_one_who_writes(
    server: Server, database: str, victim: str, given: str
) -> None:
    server.sql(given, "store")
    with pytest.raises(StoreError, match=_MAY):
        open_store(victim)
    server.sql(_IS_WRITER, "store")
    open_store(victim).close()


def test_what_could_call_code_is_refused_whoever_made_it(server: Server, database: str, victim: str) -> None:
    """Its maker may have lost the right to it since."""
    server.sql(
        "CREATE SCHEMA other AUTHORIZATION mallory; GRANT TRIGGER, REFERENCES ON experiments TO mallory", "store"
    )
    server.sql(
        "CREATE FUNCTION other.t() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$", "store", "mallory"
    )
    for making in (
        "CREATE TRIGGER t BEFORE INSERT ON experiments FOR EACH ROW EXECUTE FUNCTION other.t()",
        "CREATE TABLE other.t (e varchar REFERENCES experiments ON DELETE CASCADE)",
    ):
        server.sql(making, "store", "mallory")
    server.sql(f"REVOKE ALL ON experiments FROM mallory; {_IS_WRITER}", "store")
    with pytest.raises(StoreError, match="the table experiments has a trigger that is not of Stripewise: t"):
        open_store(victim)
    server.sql("DROP TRIGGER t ON experiments", "store")
    with pytest.raises(StoreError, match="not of Stripewise refers to the table experiments: t"):
        open_store(victim)
    server.sql("DROP TABLE other.t", "store")
    open_store(victim).close()


def test_tables_that_a_stranger_makes_after_the_first_look_are_not_read(
    server: Server, database: str, victim: str
) -> None:
    server.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT ALL ON SCHEMA public TO PUBLIC", "store")
    server.sql("CREATE SEQUENCE calls; GRANT ALL ON calls TO PUBLIC", "store")
    engine = postgresql_engine(server.url("store", "mallory"))
    with ThreadPoolExecutor(1) as pool, engine.connect() as connection:
        # Whoever may connect can hold the lock that those who make the tables wait for.
        connection.exec_driver_sql(f"SELECT pg_advisory_lock({_ADVISORY_LOCK})")
        opened = pool.submit(open_store, victim)
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        while not connection.exec_driver_sql(waiting).scalar():
            time.sleep(0.02)
        connection.exec_driver_sql(
            f"""CREATE FUNCTION called() RETURNS bool LANGUAGE plpgsql AS $$
            BEGIN IF current_user = 'victim' THEN PERFORM nextval('public.calls'); END IF; RETURN TRUE; END $$;
            CREATE TABLE {VERSION_TABLE} (version_num text); INSERT INTO {VERSION_TABLE} VALUES ('0002');
            GRANT ALL ON {VERSION_TABLE} TO PUBLIC; ALTER TABLE {VERSION_TABLE} ENABLE ROW LEVEL SECURITY;
            CREATE POLICY p ON {VERSION_TABLE} USING (called())"""
        )
        connection.commit()
        connection.exec_driver_sql(f"SELECT pg_advisory_unlock({_ADVISORY_LOCK})")
        with pytest.raises(StoreError, match=r"another user \(mallory\) owns the table"):
            opened.result()
    engine.dispose()
    assert not _called(database)


@pytest.mark.parametrize(
    "left",
    [
        "ALTER TABLE runs ADD CHECK (called(reason))",
        "ALTER TABLE runs ALTER reason SET DEFAULT called('')::text",
        "CREATE INDEX ON runs (reason) WHERE called(reason)",
        "ALTER TABLE runs ADD more bool GENERATED ALWAYS AS (called(reason)) STORED",
        "CREATE DOMAIN d AS text CHECK (called(VALUE)); ALTER TABLE runs ALTER reason TYPE d",
        "CREATE TABLE t () INHERITS (runs)",
    ],
    ids=["check", "default", "index", "generated column", "domain", "inherits"],
)
def test_code_that_an_earlier_owner_has_left_is_refused(server: Server, database: str, victim: str, left: str) -> None:
    server.sql("ALTER TABLE runs OWNER TO mallory; GRANT CREATE ON SCHEMA public TO mallory", "store")
    function = "called(text) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT TRUE'"
    server.sql(f"CREATE FUNCTION {function}; {left}", "store", "mallory")
    server.sql("ALTER TABLE runs OWNER TO ada", "store")
    with pytest.raises(StoreError, match="not of Stripewise"):
        open_store(victim)


def test_a_session_that_a_pooler_gives_to_others_between_calls_nothing(
    server: Server, database: str, victim: str
) -> None:
    server.sql("GRANT CREATE ON SCHEMA public TO mallory", "store")
    body = "BEGIN PERFORM nextval('public.calls'); RETURN $1::text OPERATOR(pg_catalog.=) $2::text; END"
    server.sql(
        f"""CREATE FUNCTION same(varchar, varchar) RETURNS bool LANGUAGE plpgsql AS $$ {body} $$;
        CREATE OPERATOR public.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = same)""",
        "store",
        "mallory",
    )
    with open_store(victim) as store:
        connection = store.database._engine.raw_connection()
        connection.cursor().execute("SET search_path = public")
        connection.commit()
        connection.close()
        store.annotate(store.create(Experiment()), remark="ours")
    assert not _called(database)


def test_a_store_that_has_lost_a_table_is_refused(server: Server, database: str) -> None:
    open_store(database).close()
    server.sql("DROP TABLE service_items", "store")
    with refused(StoreError, "lost its table 'service_items'", "restore a copy"):
        open_store(database)


def test_a_stranger_who_owns_a_table_or_the_schema_is_refused(server: Server, database: str, victim: str) -> None:
    """The schema's owner may put other tables in the place of ours."""
    server.sql("ALTER SCHEMA public OWNER TO mallory", "store")
    try:
        with pytest.raises(StoreError, match=r"another user \(mallory\) owns the schema public"):
            open_store(victim)
        server.sql(f"ALTER SCHEMA public OWNER TO ada; ALTER TABLE runs OWNER TO mallory; {_IS_WRITER}", "store")
        # Before PostgreSQL 15, a role may make others its members by itself.
        server.sql("GRANT mallory TO victim")
        with pytest.raises(StoreError, match=r"another user \(mallory\) owns the table runs"):
            open_store(victim)
    finally:
        server.sql("ALTER SCHEMA public OWNER TO ada; ALTER TABLE runs OWNER TO ada", "store")
    _write_and_read(victim)


def test_an_older_store_is_upgraded_in_its_schema(server: Server, database: str) -> None:
    name = '"Tuning 1.a"'
    server.sql(f"CREATE SCHEMA {name}; ALTER DATABASE store SET search_path = {name}, public", "store")
    with open_store(database) as store:
        identifier = store.create(Experiment(name="old"))
    server.sql("ALTER TABLE experiments DROP COLUMN gain, DROP COLUMN tags, DROP COLUMN remark", "store")
    server.sql(f"UPDATE {VERSION_TABLE} SET version_num = '0002'", "store")
    # The store is where its tables are, whatever stands before that in the path now.
    server.sql(f"ALTER DATABASE store SET search_path = public, {name}", "store")
    with open_store(database) as store:
        store.annotate(identifier, tags=["new"])
        assert store.record(identifier).tags == ("new",)
    engine = postgresql_engine(database)
    with engine.connect() as connection:
        assert sa.inspect(connection).get_table_names(schema="public") == []
    engine.dispose()


def test_a_user_whose_search_path_is_empty(server: Server, database: str) -> None:
    server.sql("ALTER DATABASE store SET search_path = nowhere")
    with refused(StoreError, "names no schema", "GRANT"):
        open_store(database)


def test_a_server_that_isolates_all_transactions_ends_no_experiment(server: Server, database: str) -> None:
    server.sql("ALTER DATABASE store SET default_transaction_isolation = serializable")
    with open_store(database) as store:
        engine = store.database._engine
        with engine.connect() as connection:
            assert connection.exec_driver_sql("SHOW transaction_isolation").scalar() == "read committed"


@pytest.mark.parametrize(
    "setting", ["extra_float_digits = -15", "client_encoding = LATIN1", "client_encoding = SQL_ASCII"]
)
def test_what_is_stored_comes_back_whatever_a_database_sets(server: Server, database: str, setting: str) -> None:
    server.sql(f"ALTER DATABASE store SET {setting}")
    with open_store(database) as store:
        identifier = store.create(Experiment(name="日本"))
        claim = store.claim(identifier, "ada")
        store.plan(identifier, claim, trial_of(0), run_of(0))
        store.accept(identifier, claim, result_of(0, elapsed=12.345678901234567))
        assert store.record(identifier).experiment.name == "日本"
        assert store.trials(identifier)[0].runs[0].elapsed == 12.345678901234567


@pytest.mark.parametrize(
    "statement",
    ["CREATE RULE kept AS ON UPDATE TO runs DO INSTEAD NOTHING", "ALTER TABLE runs ENABLE ROW LEVEL SECURITY"],
    ids=["rule", "row security"],
)
def test_what_may_silently_drop_a_change_is_refused(server: Server, database: str, victim: str, statement: str) -> None:
    with open_store(victim) as store:
        identifier = store.create(Experiment())
        claim = store.claim(identifier, "ada")
        store.plan(identifier, claim, trial_of(0), run_of(0))
        server.sql(statement, "store")
        if "RULE" in statement:
            with refused(StoreError, "left run 0", "unchanged", "row security policy"):
                store.accept(identifier, claim, result_of(0))
            assert store.record(identifier).ended == 0
    with pytest.raises(StoreError, match="the table runs has rules or row security, which are not of Stripewise"):
        open_store(victim)


def test_writers_that_stood_in_each_others_way_try_again(database: str) -> None:
    with open_store(database) as store:
        first, second = (store.create(Experiment()) for _ in range(2))
        both = threading.Barrier(2)
        tries: list[bool] = []

        def change(mine: str, other: str) -> None:
            def work(connection: sa.Connection, again: bool) -> None:
                tries.append(again)
                connection.execute(experiments.update().where(experiments.c.id == mine).values(remark="x"))
                if len(tries) <= 2:
                    both.wait(20)
                connection.execute(experiments.update().where(experiments.c.id == other).values(remark="y"))

            store.database.write(work)

        with ThreadPoolExecutor(2) as pool:
            for future in [pool.submit(change, first, second), pool.submit(change, second, first)]:
                future.result(60)
        # A transaction that was undone for another one was certainly not kept.
        assert tries == [False, False, False]


def test_nobody_waits_for_ever_for_a_lock(server: Server, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A role without any right in a store may hold the lock of those who upgrade it."""
    monkeypatch.setattr("stripewise.store.opening.BUSY_SECONDS", 0.2)
    server.sql("CREATE ROLE mallory LOGIN")
    try:
        holder = postgresql_engine(server.url("store", "mallory"))
        with holder.connect() as held:
            held.exec_driver_sql(f"SELECT pg_advisory_lock({_ADVISORY_LOCK})")
            with refused(TransientError, "another writer holds a lock", "try again"):
                open_store(database)
        holder.dispose()
        open_store(database).close()
    finally:
        server.sql("DROP ROLE mallory")


def test_many_open_a_new_database_at_once(database: str) -> None:
    wrong: list[BaseException] = []

    def body() -> None:
        try:
            with open_store(database) as store:
                assert store.count() == 0
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=body) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_restart_of_the_server_ends_no_experiment(server: Server, database: str) -> None:
    total = 400
    with open_store(database) as store:
        identifier = store.create(Experiment())
        restarts = 0
        done = threading.Event()

        def restart() -> None:
            nonlocal restarts
            while not done.wait(0.3) and restarts < 3:
                server.stop("fast" if restarts == 1 else "immediate")
                time.sleep(0.3)
                server.start()
                restarts += 1

        thread = threading.Thread(target=restart)
        thread.start()
        try:
            claim = store.claim(identifier, "ada", 60.0)
            number = 0
            while number < total or restarts < 3:
                store.plan(identifier, claim, trial_of(0) if number == 0 else None, run_of(number))
                store.begin(identifier, claim, number)
                store.accept(identifier, claim, result_of(number, value=float(number)))
                number += 1
        finally:
            done.set()
            thread.join()
        runs = store.trials(identifier)[0].runs
        assert [run.number for run in runs] == list(range(number))
        assert [run.value for run in runs] == [float(n) for n in range(number)]
        record = store.record(identifier)
        assert (record.runs, record.ended, restarts) == (number, number, 3)


def test_a_network_that_loses_everything_is_noticed(server: Server, database: str) -> None:
    def carry(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)

    def relay() -> None:
        client, inner = door.accept()[0], socket.socket(socket.AF_UNIX)
        inner.connect(f"{server.folder}/.s.PGSQL.5432")
        threading.Thread(target=carry, args=(client, inner), daemon=True).start()
        carry(inner, client)

    with socket.create_server(("127.0.0.1", 0)) as door:
        threading.Thread(target=relay, daemon=True).start()
        engine = postgresql_engine(f"postgresql://ada@127.0.0.1:{door.getsockname()[1]}/store")
        with engine.connect() as connection:
            number = connection.connection.driver_connection.fileno()  # type: ignore[union-attr]
            with socket.socket(fileno=os.dup(number)) as line:
                assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
                waits = [socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT]
                assert [line.getsockopt(socket.IPPROTO_TCP, option) for option in waits] == [15, 5, 3]
        engine.dispose()


def test_a_pooler_that_shares_sessions_is_named(database: str) -> None:
    with open_store(database) as store:

        @sa.event.listens_for(store.database._engine, "begin")
        def _forget(connection: sa.Connection) -> None:
            # What the driver prepared is unknown to another session.
            connection.exec_driver_sql("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$")

        identifier = store.create(Experiment())
        with pytest.raises(StoreError, match=r"a pooler before it.*pool_mode = session"):
            for _ in range(20):
                store.record(identifier)


def test_an_answer_that_was_lost_with_the_connection(server: Server, database: str) -> None:
    """The server has committed, and the connection breaks before it can say so: each call is tried again, once done."""
    open_store(database).close()
    engine = postgresql_engine(database)
    store = SqlStore(engine, "postgresql:test", patience=20.0)
    broken: list[str] = []

    def break_after_commit(call: str) -> None:
        """Let the next commit happen and its answer get lost."""
        dialect = engine.dialect
        commit = dialect.do_commit

        def lossy(connection: object) -> None:
            commit(connection)
            dialect.do_commit = commit  # type: ignore[method-assign]
            broken.append(call)
            connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")  # type: ignore[attr-defined]

        dialect.do_commit = lossy  # type: ignore[method-assign]

    with store:
        break_after_commit("create")
        identifier = store.create(Experiment(name="once"))
        assert [record.id for record in store.records()] == [identifier]
        break_after_commit("claim")
        claim = store.claim(identifier, "ada", 60.0)
        assert claim.token == 1
        break_after_commit("plan")
        store.plan(identifier, claim, trial_of(0), run_of(0))
        break_after_commit("begin")
        store.begin(identifier, claim, 0)
        break_after_commit("accept")
        store.accept(identifier, claim, result_of(0))
        break_after_commit("update")
        store.update(identifier, claim=claim, state="finished", result=Result())
        break_after_commit("release")
        store.release(claim)
        record = store.record(identifier)
        assert (record.state, record.trials, record.runs, record.ended) == ("finished", 1, 1, 1)
        break_after_commit("delete")
        store.delete(identifier)
        assert store.count() == 0
    assert broken == ["create", "claim", "plan", "begin", "accept", "update", "release", "delete"]


def test_a_server_that_stays_away(server: Server, database: str) -> None:
    open_store(database).close()
    store = SqlStore(postgresql_engine(database), "postgresql:test", patience=0.5)
    with store:
        identifier = store.create(Experiment())
        server.stop("fast")
        try:
            before = time.monotonic()
            with refused(TransientError, "postgresql:test"):
                store.record(identifier)
            assert time.monotonic() - before < 10
            with pytest.raises(StripewiseError) as caught:
                open_store(database)
            assert "cannot be reached" in str(caught.value)
        finally:
            server.start()
        assert store.record(identifier).id == identifier
