"""The simple commands of a short shell text, as of ``bash -c '...'``, without a shell's logic.

Whole scripts are read by :mod:`stripewise.diagnose.script`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BEFORE = _names("if then else elif while until do ! { time exec command builtin eval nohup")
_PLAIN = _names(
    "cd pushd popd export set unset ulimit module ml : echo printf true false test [ [[ exit return trap wait sleep "
    "mkdir rmdir rm cp mv ln cat tee ls date pwd hostname umask shopt local declare typeset readonly read touch chmod "
    "alias let shift limit setenv unsetenv grep sed"
)
_NOTHING = _PLAIN | _names("source . fi done esac } for case in function")
STARTS_NOTHING = _PLAIN | _names(
    "unalias break continue unlimit whoami chown chgrp head tail egrep fgrep awk sort uniq wc tr cut basename dirname "
    "readlink realpath type which printenv lfs seq expr du df squeue scontrol sacct nvidia-smi sync tar gzip gunzip "
    "zip unzip file id uname clear onintr stty env-modules alarm eval setopt find stat rsync scp wget curl git hash "
    "getconf nproc lscpu free uptime paste diff cmp kill pkill"
)
"""Commands of which none starts a program that does the I/O of a job."""
MAKES_FILES = _names("mkdir cp mv ln touch tar dd rsync tee unzip wget curl git split gunzip gzip")
"""Commands that make files, which take the layout of their folder."""
_COMPOUND = _names("for case function select while until")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_TOKEN = re.compile(r"(?P<space>[ \t\r]+|\\\n)|(?P<redirection>\d*(?:&>>?|[<>]+&?|>\|))|(?P<operator>[;&|()\n]+)")


def list_commands(text: str) -> tuple[list[list[str]], str]:
    """Give the commands that may start a program, each without assignments and redirections.

    Quotes are removed; what a shell replaces (``$NP``, ``$(hostname)``) stays as it is written.

    Returns
    -------
    tuple of (list of list of str, str)
        The commands, and what could not be read; empty where everything was.

    Examples
    --------
    >>> list_commands("cd run && A=b ./app $(nproc) < 'my deck' 2> err")
    ([['./app', '$(nproc)']], '')
    """
    found: list[list[str]] = [[]]
    target = array = False
    try:
        for kind, token in _tokens(text):
            if kind == "operator":
                # name=(a b c) is no subshell.
                opens = token.startswith("(") and found[-1] and found[-1][-1].endswith("=")
                array = (array or bool(opens)) and ")" not in token
                if not array:
                    found.append([])
            elif kind == "word" and not target and not array:
                found[-1].append(token)
            target = kind == "redirection"
    except ValueError as error:
        return [], str(error)
    unread = next((words[0] for words in found if words and words[0] in _COMPOUND), "")
    commands = [_without_prefix(words) for words in found]
    return [words for words in commands if words and words[0] not in _NOTHING], f"'{unread}'" if unread else ""


def _without_prefix(words: list[str]) -> list[str]:
    while words and (words[0] in _BEFORE or _ASSIGNMENT.match(words[0])):
        words = words[1:]
    return words


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Give words, operators and redirections.

    Raises
    ------
    ValueError
        If a quotation has no end.
    """
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is not None:
            at = match.end()
            if match.lastgroup != "space":
                yield str(match.lastgroup), match[0]
        elif text[at] == "#":
            at = (text + "\n").index("\n", at)
        else:
            word, at = _word(text, at)
            yield "word", word


def _word(text: str, at: int) -> tuple[str, int]:
    """Read the word at a place; give it, and the place behind it."""
    parts: list[str] = []
    while at < len(text) and text[at] not in " \t\r\n;&|()<>":
        letter = text[at]
        if letter == "\\":
            parts.append(text[at + 1 : at + 2].replace("\n", ""))
            at += 2
        elif letter == "'":
            end = _find(text, "'", at + 1)
            parts.append(text[at + 1 : end])
            at = end + 1
        elif letter == '"':
            end = _end_of_quotation(text, at + 1)
            parts.append(re.sub(r"\\([\"\\$`])", r"\1", text[at + 1 : end]))
            at = end + 1
        else:
            end = _end_of_expansion(text, at)
            parts.append(text[at:end])
            at = end
    return "".join(parts), at


def _end_of_quotation(text: str, at: int) -> int:
    while at < len(text) and text[at] != '"':
        at = at + 2 if text[at] == "\\" else _end_of_expansion(text, at)
    if at >= len(text):
        raise ValueError("a quotation without an end")
    return at


_CLOSING = {"(": ")", "{": "}", "[": "]"}


def _end_of_expansion(text: str, at: int) -> int:
    """Give the place behind what a shell replaces at a place; behind the letter where it replaces nothing."""
    if text[at] == "`":
        return _find(text, "`", at + 1) + 1
    opening = text[at + 1 : at + 2]
    if text[at] != "$" or opening not in _CLOSING:
        return at + 1
    depth = 0
    while at < len(text):
        depth += (text[at] == opening) - (text[at] == _CLOSING[opening])
        at += 1
        if depth == 0 and text[at - 1] == _CLOSING[opening]:
            return at
    raise ValueError("an expansion without an end")


def _find(text: str, letter: str, at: int) -> int:
    end = text.find(letter, at)
    if end < 0:
        raise ValueError("a quotation without an end")
    return end
