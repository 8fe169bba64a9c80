"""The simple commands of a short shell text, as of ``bash -c '...'``, without a shell's logic."""

from __future__ import annotations

import re
import shlex


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OPERATORS = "();<>|&\n"
_BEFORE = _names("if then else elif while until do ! { time exec command builtin eval nohup")
_NOTHING = _names(
    "cd pushd popd export set unset ulimit module ml source . : echo printf true false test [ [[ exit return trap wait "
    "sleep mkdir rmdir rm cp mv ln cat tee ls date pwd hostname umask shopt local declare typeset readonly read touch "
    "chmod fi done esac } for case in function alias let shift limit setenv unsetenv grep sed"
)
_COMPOUND = _names("for case function select while until")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)


def list_commands(text: str) -> tuple[list[list[str]], str]:
    """Give the commands that may start a program, each without assignments and redirections.

    Returns
    -------
    tuple of (list of list of str, str)
        The commands, and what could not be read; empty where everything was.
    """
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace_split = True
    lexer.whitespace, lexer.commenters = " \t\r", ""
    try:
        tokens = list(lexer)
    except ValueError:
        return [], "a quotation without an end"
    found: list[list[str]] = [[]]
    target = False
    for token in tokens:
        if target:
            target = False
        elif set(token) <= set(_OPERATORS):
            target = bool({"<", ">"} & set(token))
            if target and found[-1] and found[-1][-1] in ("0", "1", "2"):
                found[-1].pop()  # of 2>&1
            if not target:
                found.append([])
        else:
            found[-1].append(token)
    unread = next((words[0] for words in found if words and words[0] in _COMPOUND), "")
    commands = [_without_prefix(words) for words in found]
    return [words for words in commands if words and words[0] not in _NOTHING], f"'{unread}'" if unread else ""


def _without_prefix(words: list[str]) -> list[str]:
    while words and (words[0] in _BEFORE or _ASSIGNMENT.match(words[0])):
        words = words[1:]
    return words
