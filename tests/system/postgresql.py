"""A private PostgreSQL server on a UNIX socket in a temporary folder."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stripewise.store.opening import postgresql_engine


def find_programs() -> Path | None:
    """Give the folder of initdb and pg_ctl; Debian keeps them out of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


@dataclass
class Server:
    """A server of our own."""

    programs: Path
    folder: Path
    user: str | None

    def run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self.programs / program), *arguments],
            user=self.user,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        log = self.folder / "log"
        assert done.returncode == 0, done.stderr + (log.read_text() if log.exists() else "")

    def start(self) -> None:
        options = f"-c listen_addresses= -c max_connections=60 -k {self.folder}"
        data, log = str(self.folder / "data"), str(self.folder / "log")
        self.run("pg_ctl", "start", "-w", "-D", data, "-l", log, "-o", options)

    def stop(self, how: str = "immediate") -> None:
        self.run("pg_ctl", "stop", "-w", "-D", str(self.folder / "data"), "-m", how)

    def url(self, database: str, user: str = "ada", password: str = "") -> str:
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@/{database}?host={self.folder}"

    def sql(self, statement: str, database: str = "postgres", user: str = "ada") -> None:
        engine = postgresql_engine(self.url(database, user)).execution_options(isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)
        engine.dispose()


@contextlib.contextmanager
def private_server(programs: Path) -> Iterator[Server]:
    """Start a server, and remove it in the end."""
    # The server refuses to run as root. The folder's name is short, for a socket's path has a limit.
    user = "nobody" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="swpg", ignore_cleanup_errors=True) as text:
        folder = Path(text)
        if user is not None:
            os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
        folder.chmod(0o755)
        made = Server(programs, folder, user)
        made.run("initdb", "-D", str(folder / "data"), "-U", "ada", "-A", "trust", "-E", "UTF8", "--no-locale")
        rules = folder / "data" / "pg_hba.conf"
        rules.write_text("local all careful scram-sha-256\nlocal all all trust\n")
        made.start()
        try:
            yield made
        finally:
            made.stop()
