"""What is printed is read once, by somebody new: short sentences, right words, finite numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from stripewise.catalogue.stack import Stack, every_stack
from stripewise.diagnose.finding import RULES
from stripewise.diagnose.site import diagnose
from stripewise.observe.sources import open_one
from stripewise.sizes import count_of, format_factor

ROOT = Path(__file__).resolve().parents[2]
MOST_WORDS = 25
LOGS = sorted((ROOT / "tests" / "fixtures" / "darshan").glob("*.darshan"))


def list_long(text: str) -> list[str]:
    if len(text.split()) <= MOST_WORDS:
        return []
    sentences = re.split(r"(?<=[.!?])\s+|\n", text)
    return [one for one in sentences if sum(bool(re.search(r"\w", word)) for word in one.split()) > MOST_WORDS]


def list_texts(tree: ast.Module) -> Iterator[ast.Constant | ast.JoinedStr]:
    """List the strings of a module: no docstrings, no lists of words."""
    left_out: set[int] = set()
    nodes = list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.Expr):
            left_out.add(id(node.value))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_names":
            left_out.update(id(part) for argument in node.args for part in ast.walk(argument))
        if isinstance(node, ast.JoinedStr):
            left_out.update(id(part) for part in ast.walk(node) if part is not node)
    for node in nodes:
        if id(node) in left_out:
            continue
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            yield node


def test_no_sentence_of_the_source_is_long() -> None:
    """Each value that is put into a text counts as one word."""
    long = []
    for path in (ROOT / "src" / "stripewise").rglob("*.py"):
        for node in list_texts(ast.parse(path.read_text("utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
            long += [f"{path.name}:{node.lineno}: {one}" for one in list_long(text)]
    assert long == []


@pytest.mark.parametrize("stack", every_stack(), ids=lambda stack: stack.name)
def test_what_a_stack_says_of_its_parameters_is_short(stack: Stack) -> None:
    assert [one for p in stack.parameters for one in (*list_long(p.description), *list_long(p.trap))] == []


@pytest.mark.parametrize("code", RULES)
def test_what_a_finding_says_in_general_is_short_and_begins_as_a_sentence(code: str) -> None:
    kind, _ = RULES[code]
    for text in (kind.title, kind.mechanism, kind.fix):
        assert list_long(text) == []
        assert text[0].isupper()
    assert kind.mechanism.endswith(".") and kind.fix.endswith(".") and not kind.title.endswith(".")


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_what_is_found_in_a_log_is_said_in_short_sentences_with_finite_numbers(log: Path) -> None:
    for finding in diagnose(open_one(log)).findings:
        for text in (finding.says, finding.fix):
            assert list_long(text) == []
            assert not re.search(r"\b(?:inf|nan)\b|\b1 (?:files|ranks|calls|requests|writes|reads|processes)\b", text)


def test_numbers_agree_with_their_nouns_and_stay_short() -> None:
    assert [count_of(number, "more class") for number in (0, 1, 2)] == [
        "0 more classes",
        "1 more class",
        "2 more classes",
    ]
    assert [format_factor(one) for one in (0.5, 999.994, 23999999999999998225431182442496.0)] == [
        "0.50",
        "999.99",
        "2.4e+31",
    ]
