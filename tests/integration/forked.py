"""Commands of stripewise in processes of their own, forked from one that has loaded it: loading takes over a second."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
_LOADED = [
    "stripewise.desk.cli.commands",
    "stripewise.desk.cli.tune",
    "stripewise.desk.cli.manage",
    "stripewise.engine.session",
    "stripewise.testing.store_cases",
]
CONTEXT.set_forkserver_preload([__name__, *_LOADED])


def started(
    words: Sequence[str],
    environment: Mapping[str, str],
    out: Path,
    err: Path,
    folder: Path | None = None,
    first: Callable[[], None] | None = None,
) -> BaseProcess:
    """Start `stripewise WORDS` in a session of its own, its output in two files; it calls a function `first`."""
    where = str(folder or Path.cwd())
    process = CONTEXT.Process(target=_run, args=(list(words), dict(environment), where, str(out), str(err), first))
    process.start()
    return process


def finished(
    words: Sequence[str], environment: Mapping[str, str], folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `stripewise WORDS` to its end."""
    with tempfile.TemporaryDirectory() as printed:
        out, err = Path(printed) / "out", Path(printed) / "err"
        process = started(words, environment, out, err, folder)
        process.join()
        code = process.exitcode
        assert code is not None
        return subprocess.CompletedProcess(list(words), code, out.read_text("utf-8"), err.read_text("utf-8"))


def _run(
    words: list[str],
    environment: dict[str, str],
    folder: str,
    out: str,
    err: str,
    first: Callable[[], None] | None,
) -> None:
    os.setsid()
    if first is not None:
        first()
    os.chdir(folder)
    for descriptor, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, descriptor)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    from stripewise.desk.cli.main import main

    sys.exit(main(words))
