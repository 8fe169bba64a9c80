"""What a program's file is: machine code or script, and whether the loader honours a preload for it."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePath

from stripewise.errors import CannotExecute
from stripewise.runners.program.elf import Elf, NotElf, read_elf

_HEAD = 4096


class FileKind(StrEnum):
    """What the kernel will start."""

    ELF = "elf"
    SCRIPT = "script"


@dataclass(frozen=True)
class Binary:
    """A program's file, inspected without running it.

    Attributes
    ----------
    path : Path
        As it was found.
    kind : FileKind
    elf : Elf or None
        Of the program; of the interpreter where it is a script.
    interpreter : tuple of str
        Words of the script's first line.
    obstacle : str
        Why nothing can be preloaded into it: ``static``, ``setuid``, ``setgid`` or ``capabilities``; otherwise empty.
    """

    path: Path
    kind: FileKind
    elf: Elf | None = None
    interpreter: tuple[str, ...] = ()
    obstacle: str = ""

    @property
    def started_by(self) -> str:
        """The word of the first line that names the script's interpreter; empty for machine code."""
        words = self.interpreter
        return words[1] if len(words) > 1 and PurePath(words[0]).name == "env" else "".join(words[:1])


def find_program(word: str, environment: Mapping[str, str], cwd: Path) -> Path:
    """Find the file that a command's word names, as the shell would.

    Raises
    ------
    CannotExecute
        If there is none, or it cannot be executed.
    """
    if "/" in word:
        path = cwd / word
        _check_executable(path, word)
        return path
    # Relative entries count from where the program will run, which may not be where Stripewise does.
    folders = [str(cwd / (entry or ".")) for entry in environment.get("PATH", os.defpath).split(os.pathsep)]
    found = shutil.which(word, path=os.pathsep.join(folders))
    if found is None:
        here = cwd / word
        if here.is_file():
            fix = f"write ./{word}" if os.access(here, os.X_OK) else f"chmod +x {word}, and write ./{word}"
        elif "=" in word:
            fix = f"variables are set by env: env {word} ..."
        else:
            fix = "check its spelling, or load its module (tune --setup does it for each run)"
        raise CannotExecute(f"command not found: {word}", fix, of_shell=127)
    return Path(found)


def _check_executable(path: Path, word: str) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        fix = f"it is a link to nothing: {os.readlink(path)}" if path.is_symlink() else "check the path"  # noqa: PTH115
        raise CannotExecute(f"command not found: {word}", fix, of_shell=127) from error
    except OSError as error:
        raise CannotExecute(f"cannot look at {word}: {error.strerror}", "check the path and its permissions") from error
    if stat.S_ISDIR(mode):
        raise CannotExecute(f"{word} is a folder, not a program", "name the program in it")
    if not os.access(path, os.X_OK):
        raise CannotExecute(f"{word} is not executable", f"chmod +x {word}")


def inspect(path: Path, environment: Mapping[str, str], cwd: Path) -> Binary:
    """Inspect a program's file.

    Raises
    ------
    CannotExecute
        If this machine cannot run it: another architecture, a missing interpreter, no format it knows.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except PermissionError:
        # Executable but not readable: the kernel runs it, and the loader is not for us to look at.
        return Binary(path, FileKind.ELF, obstacle=_privilege(path))
    except OSError as error:
        raise CannotExecute(f"cannot read {path}: {error.strerror}", "check the file") from error
    if head.startswith(b"#!"):
        return _script(path, head, environment, cwd)
    try:
        elf = read_elf(path)
    except NotElf as error:
        if not head:
            raise CannotExecute(f"{path} is empty", "build the program again") from error
        if head.startswith(b"\x7fELF"):
            raise CannotExecute(str(error), "build the program again") from error
        raise CannotExecute(
            f"{path} is neither machine code nor a script with a #! line",
            f"write its interpreter: bash {path.name} ...",
        ) from error
    if not elf.native:
        raise CannotExecute(
            f"{path} is built for {elf.machine}, this machine is {os.uname().machine}",
            "build the program for this machine",
        )
    if elf.interpreter and not Path(elf.interpreter).exists():
        raise CannotExecute(
            f"{path} needs the loader {elf.interpreter}, which is not here", "build it on this system", of_shell=127
        )
    obstacle = "static" if elf.static else _privilege(path)
    return Binary(path, FileKind.ELF, elf, obstacle=obstacle)


def _script(path: Path, head: bytes, environment: Mapping[str, str], cwd: Path) -> Binary:
    line = head[2:].split(b"\n", 1)[0].decode("utf-8", "replace").strip()
    words = tuple(line.split(None, 1))
    if not words:
        raise CannotExecute(f"{path}: its #! line names no interpreter", "write one, as #!/bin/bash")
    interpreter = Path(words[0])
    if words[0].endswith("\r") or (len(words) > 1 and words[1].endswith("\r")) or b"\r\n" in head[:200]:
        raise CannotExecute(
            f"{path} has Windows line ends, so its interpreter is not found", f"sed -i 's/\\r$//' {path}"
        )
    if not interpreter.exists():
        raise CannotExecute(f"{path}: its interpreter {interpreter} does not exist", "correct its #! line")
    if interpreter.name == "env" and len(words) > 1:
        asked = shlex.split(words[1].removeprefix("-S"))
        rest = list(itertools.dropwhile(lambda word: word.startswith("-") or "=" in word, asked))
        if rest:
            interpreter = find_program(rest[0], environment, cwd)
            words = (*words[:1], *rest)
    try:
        elf = read_elf(interpreter)
    except (OSError, NotElf):
        elf = None
    obstacle = "static" if elf is not None and elf.static else _privilege(interpreter)
    return Binary(path, FileKind.SCRIPT, elf, words, obstacle)


def _privilege(path: Path) -> str:
    """Say why the loader would run in secure mode, in which it ignores a preload.

    Privileges count even where they change nothing for the present user: another user's run must not differ.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return ""
    if mode & stat.S_ISUID:
        return "setuid"
    if mode & stat.S_ISGID and mode & stat.S_IXGRP:
        return "setgid"
    try:
        capabilities = os.getxattr(path, "security.capability")
    except OSError:
        capabilities = b""
    return "capabilities" if capabilities else ""
