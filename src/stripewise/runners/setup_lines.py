"""Setup lines: shell lines such as ``module load`` that run before each run of the program, in the same shell."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from stripewise.errors import UserError
from stripewise.interpreter import ask, inherit_environment
from stripewise.runners.local.processes import MARKER
from stripewise.runners.local.supervision import Cause, Command, CommandLimits, last_line, tail
from stripewise.shell import assign_all, quote, quote_all

_FAILED = "stripewise: setup line {number} ended with exit code "


def find_shell() -> str:
    """Give the shell that runs setup lines and hooks.

    Raises
    ------
    UserError
        If bash is missing; environment modules are functions of bash.
    """
    found = shutil.which("bash", path=os.defpath + ":/usr/local/bin") or shutil.which("bash")
    if found is None:
        raise UserError("setup lines and hooks need bash, which is not installed", "install it, or leave them out")
    return found


def write_script(
    lines: Sequence[str], exports: Mapping[str, str], command: Sequence[str], ready: int, stdin: Path | None
) -> str:
    """Write the script of one run: the setup lines, then the command in place of the shell.

    Parameters
    ----------
    lines : sequence of str
    exports : mapping
        Variables that win over what the setup lines set.
    command : sequence of str
    ready : int
        File descriptor on which the time, or a full stop, says that the setup lines have finished.
    stdin : Path or None
        What the command reads; the setup lines read nothing.
    """
    source = "" if stdin is None else f" < {quote(str(stdin))}"
    # Before version 5, bash does not know the time.
    told = f'printf %s "${{EPOCHREALTIME:-.}}" >&{ready}\nexec {ready}>&-\n'
    return write_prologue(lines, exports) + told + f"exec {quote_all(command)}{source}\n"


def write_prologue(lines: Sequence[str], exports: Mapping[str, str]) -> str:
    """Write the setup lines, each followed by a test for its failure, and then the variables that override theirs."""
    # eval keeps a line that opens a quote or a here-document from swallowing the lines after it.
    text = ""
    for number, line in enumerate(lines, start=1):
        failed = quote(_FAILED.format(number=number))
        text += f"eval {quote(line)}\n__stripewise=$?\n"
        text += f'if [ $__stripewise -ne 0 ]; then echo {failed}"$__stripewise" >&2; exit $__stripewise; fi\n'
    text += "unset __stripewise\n"
    return text + assign_all(exports)


def environment_after(
    lines: Sequence[str],
    exports: Mapping[str, str],
    environment: Mapping[str, str],
    cwd: Path,
    timeout: float,
) -> dict[str, str]:
    """Run the setup lines once and give the resulting environment.

    Raises
    ------
    UserError
        If a line fails or does not end, with what it said.
    """
    if not lines:
        return {**environment, **exports}
    bash = find_shell()
    for number, line in enumerate(lines, start=1):
        parsed = ask([bash, "-n", "-c", line], timeout, environment)
        if parsed.returncode != 0:
            raise UserError(f"setup line {number} is not complete: {line}", "each line must be a whole shell command")
    with tempfile.TemporaryDirectory(prefix="stripewise-") as folder:
        kept, outputs = Path(folder) / "environment", (Path(folder) / "stdout", Path(folder) / "stderr")
        code = write_prologue(lines, exports) + f"exec env -0 > {quote(str(kept))}\n"
        # As in a run: whatever the lines print is kept in part, and what they leave behind is ended.
        ended = Command(
            [bash, "-c", code],
            inherit_environment(environment),
            run_id=f"setup.{os.urandom(8).hex()}",
            outputs=outputs,
            cwd=cwd,
            limits=CommandLimits(timeout=timeout),
        ).run()
        if ended.error is not None:
            raise ended.error
        if ended.cause is Cause.TIMEOUT:
            raise UserError(f"the setup lines did not end within {timeout:g} s", "run them by hand to see why")
        if ended.exit_code != 0 or not kept.is_file():
            raise _explain_failure(lines, "\n".join(map(tail, outputs)), ended.exit_code)
        variables = kept.read_bytes().split(b"\0")
    pairs = (variable.decode("utf-8", "surrogateescape").partition("=") for variable in variables if variable)
    found = {name: value for name, _, value in pairs if name != MARKER}
    return found | {name: value for name, value in environment.items() if name == MARKER}


def failed_line(output: str) -> int:
    """Give the number of the setup line that failed, as the script wrote it; 0 if none did."""
    found = re.search(_FAILED.format(number=r"(\d+)"), output)
    return int(found[1]) if found else 0


def _explain_failure(lines: Sequence[str], output: str, exit_code: int | None) -> UserError:
    number = failed_line(output)
    said = last_line("\n".join(line for line in output.splitlines() if not failed_line(line)))
    which = f"setup line {number} '{lines[number - 1]}'" if number else "a setup line"
    return UserError(
        f"{which} ended with exit code {exit_code}{f': {said}' if said else ''}",
        "correct it, or append '|| true' if it may fail",
    )
