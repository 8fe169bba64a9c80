"""What a program's file is: machine code or script, and whether the loader honours a preload for it."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePath

from stripewise.errors import CannotExecute
from stripewise.runners.program.command import INTERPRETERS, family, starts_others
from stripewise.runners.program.elf import Elf, NotElf, contains, open_regular, read_elf
from stripewise.shell import SHELLS

_HEAD = 4096
_NESTED = 4
"""Scripts that may be each other's interpreter: the kernel follows no more."""
_OF_SHELLS = (b"PS4", b"OPTIND", b"IFS")
"""Variables that POSIX asks of a shell; other programs know none or some of them."""
_OF_INTERPRETERS = (
    *(b"Py_BytesMain", b"Py_Main", b"Py_RunMain", b"perl_parse", b"ruby_run_node", b"luaL_openlibs", b"Rf_mainloop"),
    *(b"JLI_Launch", b"jl_repl_entrypoint", b"Tcl_MainEx", b"Tcl_Main", b"scm_shell", b"php_execute_script"),
)
"""Functions that read a program of the command line, or of a file that it names."""
_SEARCHED = 1 << 26
"""Bytes of a program that are searched: a sparse file may have any size."""
_FOLDERS = ("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin")


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
        with open_regular(path) as file:
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


def is_starter(path: Path, search: str) -> bool:
    """Say whether a file starts the programs that its arguments name, whatever its own name is.

    It has the name of such a program, is a copy of one, is a shell or an interpreter, or a script of a tool that obeys
    further arguments, such as ``#!/usr/bin/make -f``.

    Parameters
    ----------
    path : Path
        Without links.
    search : str
        Folders as in ``PATH``, whose programs are known by their names.
    """
    if starts_others(path.name):
        return True
    for _ in range(_NESTED):
        words = _first_line(path)
        if not words:
            break
        tool = family(words[0])
        if starts_others(words[0]) and tool not in SHELLS and tool not in INTERPRETERS:
            return True
        if tool in SHELLS and any(word.startswith("-") and set(word) & {"c", "s"} for word in words[1:]):
            return True
        path = Path(os.path.realpath(words[0]))
        if not _first_line(path):
            # A shell or an interpreter reads this script, and no other one.
            return not _reads_programs(path) and _is_machine_code(path) and _is_copy(path, search)
    return _is_machine_code(path) and (_reads_programs(path) or _is_copy(path, search))


def _read_head(path: Path) -> bytes:
    """Read the start of a file; nothing of one that cannot be read."""
    try:
        with open_regular(path) as file:
            return file.read(_HEAD)
    except OSError:
        return b""


def _first_line(path: Path) -> Sequence[str]:
    """Give the words behind ``#!``, without ``env`` and its options; none for other files."""
    head = _read_head(path)
    if not head.startswith(b"#!"):
        return ()
    words = head[2:].split(b"\n", 1)[0].decode("utf-8", "replace").split()
    if words and PurePath(words[0]).name == "env":
        own = itertools.dropwhile(lambda word: word.startswith("-") or "=" in word, words[1:])
        words = [shutil.which(word) or word if at == 0 else word for at, word in enumerate(own)]
    return words


def _is_machine_code(path: Path) -> bool:
    return _read_head(path).startswith(b"\x7fELF")


def _reads_programs(path: Path) -> bool:
    """Say whether a file is a shell or an interpreter, by its first part: what is appended changes nothing."""
    if all(contains(path, name, _SEARCHED) for name in _OF_SHELLS):
        return True
    try:
        names = read_elf(path).names
    except (OSError, NotElf):
        return False
    return any(b"\0" + name + b"\0" in names for name in _OF_INTERPRETERS)


def _is_copy(path: Path, search: str) -> bool:
    """Say whether a file begins with all bytes of a known program that starts others."""
    size, head = path.stat().st_size, _read_head(path)
    for folder in dict.fromkeys((*search.split(os.pathsep), *_FOLDERS)):
        try:
            known = [entry for entry in os.scandir(folder or ".") if starts_others(entry.name)]
        except OSError:
            continue
        for entry in known:
            if _read_head(Path(entry.path)) == head and _begins_with(path, Path(entry.path), size):
                return True
    return False


def _begins_with(path: Path, known: Path, size: int) -> bool:
    try:
        if known.stat().st_size > size:
            return False
        with path.open("rb") as file, known.open("rb") as other:
            while part := other.read(1 << 20):
                if file.read(len(part)) != part:
                    return False
    except OSError:
        return False
    return True


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
