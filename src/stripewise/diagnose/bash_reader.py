"""Scripts of bash, sh, ksh and zsh as a tree, by tree-sitter's grammar for bash."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from functools import cache

import tree_sitter
import tree_sitter_bash

from stripewise.diagnose.shell_tree import (
    NOTHING,
    Assignment,
    Branch,
    Chain,
    Computed,
    Declaration,
    Function,
    Group,
    Loop,
    Maybe,
    Node,
    Part,
    Pipe,
    Redirect,
    Simple,
    Statements,
    Text,
    Variable,
    Word,
)
from stripewise.errors import UserError

_DEEPEST = 40
"""Statements within statements that are read."""
_SECONDS = 0.5
"""Processor time that one script, with all in it, may take to parse: real ones take a hundredth of it."""
_MOST_BARS = 1000
"""Vertical bars of one line, with those that go on on the next."""
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_IN_DOUBLE = re.compile(r"\\([\\$`\"\n])")
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
_NAME = r"[A-Za-z_]\w*"
_EXPANDED = re.compile(
    rf"\\(?P<escaped>[\\$`])|\\\n|\$(?:\{{(?P<braced>{_NAME})\}}|(?P<bare>{_NAME}|[0-9@*#?]))"
    r"|(?P<other>\$\{[^{}\n]{0,300}\}|\$\(\([^\n]{0,300}?\)\)|\$\([^()\n]{0,300}\)|`[^`\n]{0,300}`)"
)
_TEMPLATE_BLOCK = re.compile(r"^([ \t]*)\{%-?[ \t]*(if|elif|else|endif|for|endfor)\b[^\n]*?%\}[ \t]*$", re.MULTILINE)
_AS_SHELL = {
    "if": "if :; then",
    "elif": "elif :; then",
    "else": "else",
    "endif": "fi",
    "for": "while :; do",
    "endfor": "done",
}
_OF_TBG = re.compile(r"^\.TBG_\w+=.*$", re.MULTILINE)
_STATEMENT = re.compile(r"^[ \t]*\{[{#%].*[}#%]\}[ \t]*$", re.MULTILINE)
_SKIPPED = frozenset({"comment", ";", "\n", "&", ";;", ";&", ";;&", "heredoc_body", "heredoc_end", "file_descriptor"})
_TESTS = frozenset({"test_command", "compound_statement"})
_WORDS = frozenset(
    {
        *("word", "string", "raw_string", "ansi_c_string", "translated_string", "concatenation", "simple_expansion"),
        *("expansion", "command_substitution", "process_substitution", "arithmetic_expansion", "number", "regex"),
        *("brace_expression", "extglob_pattern", "command_name", "subscript", "special_variable_name", "variable_name"),
    }
)


@cache
def _language() -> tree_sitter.Language:
    return tree_sitter.Language(tree_sitter_bash.language())


class Clock:
    """The processor time that is left for parsing a script and all scripts in it."""

    def __init__(self) -> None:
        self._left = _SECONDS

    def parse(self, data: bytes, line: int) -> tree_sitter.Tree:
        """Parse text.

        Raises
        ------
        UserError
            If the time is over.
        """
        begun = time.thread_time()
        late = False

        def over(*_: object) -> bool:
            nonlocal late
            late = time.thread_time() - begun > self._left
            return late

        try:
            tree = tree_sitter.Parser(_language()).parse(
                lambda offset, _: data[offset : offset + 65_536], progress_callback=over
            )
        except ValueError:
            tree = None
        self._left -= time.thread_time() - begun
        if tree is None or late:
            raise UserError(f"line {line}: this text cannot be read as a shell script", "paste the job script alone")
        return tree


def replace_blocks(text: str) -> str:
    """Make conditions and loops of a template (``{% if x %}``) those of a shell; other blocks go.

    So do lines that PIConGPU's tbg evaluates and leaves out, whose quotes need not be balanced.
    """
    text = _OF_TBG.sub("", text)
    if "{%" not in text:
        return text
    text = _TEMPLATE_BLOCK.sub(lambda found: f"{found[1]}{_AS_SHELL[found[2]]}", text)
    return _STATEMENT.sub("", text)


def read_bash(text: str, clock: Clock, line: int = 1) -> Node:
    """Read a script, of which the first line has a number.

    Raises
    ------
    UserError
        If it takes too long.
    """
    _check_pipes(text, line)
    data = text.encode("utf-8", errors="replace")
    return _Reader(data, line).read(clock.parse(data, line).root_node)


def _check_pipes(text: str, first: int) -> None:
    """Refuse endless pipes: the parser takes time with the square of their length, and does not look at the clock."""
    bars = 0
    for number, line in enumerate(text.split("\n"), start=first):
        bars += line.count("|")
        if bars > _MOST_BARS:
            raise UserError(f"line {number}: this text cannot be read as a shell script", "paste the job script alone")
        if not line.rstrip().endswith(("|", "\\")):
            bars = 0


class _Reader:
    def __init__(self, data: bytes, line: int) -> None:
        self._data = data
        self._line = line

    def read(self, root: tree_sitter.Node) -> Node:
        return self._statements(root.children, 0)

    def _at(self, node: tree_sitter.Node) -> int:
        return int(node.start_point[0]) + self._line

    def _source(self, node: tree_sitter.Node) -> str:
        return self._data[node.start_byte : node.end_byte].decode("utf-8", errors="replace")

    # -- statements ----------------------------------------------------------------------------------------

    def _statements(self, nodes: Iterable[tree_sitter.Node], depth: int) -> Node:
        if depth > _DEEPEST:
            return NOTHING
        found = [made for node in nodes if node.is_named for made in self._statement(node, depth)]
        return found[0] if len(found) == 1 else Statements(tuple(found))

    def _statement(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        kind = node.type
        if kind in _SKIPPED or depth > _DEEPEST:
            return
        read = getattr(self, f"_read_{kind}", None)
        if read is not None:
            yield from read(node, depth + 1)
        elif kind == "ERROR":
            yield from self._read_error(node, depth + 1)
        elif kind in _WORDS:
            yield Simple(self._at(node), words=(self._word(node, depth),))

    def _read_program(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        yield self._statements(node.children, depth)

    _read_do_group = _read_program

    def _read_error(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        """Read what can be read of broken text: the words of a line are a command that may run."""
        words: list[Word] = []
        row = -1
        for child in node.children:
            if words and (child.start_point[0] != row or child.type not in _WORDS):
                yield Maybe(Simple(row + self._line, words=tuple(words)))
                words = []
            if child.type in _WORDS:
                row = child.start_point[0]
                words.append(self._word(child, depth))
            elif child.is_named:
                yield from (Maybe(one) for one in self._statement(child, depth))
        if words:
            yield Maybe(Simple(row + self._line, words=tuple(words)))

    def _read_command(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        assigned: list[Assignment] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        line, end = self._at(node), node.start_byte
        for child in node.children:
            if b"\n" in self._data[end : child.start_byte].replace(b"\\\n", b""):
                # The grammar lets a redirection on the next line go with the assignments before it.
                yield Simple(line, tuple(assigned), tuple(words), tuple(redirects))
                assigned, words, redirects, line = [], [], [], self._at(child)
            end = child.end_byte
            if child.type == "variable_assignment":
                assigned.append(self._assignment(child, depth))
            elif child.type.endswith("_redirect"):
                redirects += self._redirect(child, depth)
            elif child.type in _WORDS:
                words.append(self._word(child, depth))
            elif child.type == "ERROR":
                words += [self._word(one, depth) for one in child.children if one.type in _WORDS]
            elif child.is_named:
                yield from self._statement(child, depth)
            elif child.type not in ("(", ")"):
                # ``==``, ``=~`` and the like.
                words.append((Text(self._source(child), self._at(child), quoted=False),))
        yield Simple(line, tuple(assigned), tuple(words), tuple(redirects))

    def _read_variable_assignment(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        yield Simple(self._at(node), (self._assignment(node, depth),))

    def _read_variable_assignments(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        found = tuple(self._assignment(one, depth) for one in node.children if one.type == "variable_assignment")
        yield Simple(self._at(node), found)

    def _read_declaration_command(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        options: list[str] = []
        assigned: list[Assignment] = []
        names: list[str] = []
        for child in node.children[1:]:
            if child.type == "variable_assignment":
                assigned.append(self._assignment(child, depth))
            elif child.type == "variable_name":
                names.append(self._source(child))
            elif child.type in _WORDS and (text := self._source(child)):
                if text.startswith("-"):
                    options.append(text)
                else:
                    names.append(text)
        word = self._source(node.children[0])
        yield Declaration(self._at(node), word, tuple(options), tuple(assigned), tuple(names))

    def _read_unset_command(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        words = [(Text("unset", self._at(node)),)]
        words += [(Text(self._source(child), self._at(child)),) for child in node.children[1:]]
        yield Simple(self._at(node), words=tuple(words))

    def _read_test_command(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        yield Simple(self._at(node), words=((Text("test", self._at(node)),),))

    def _read_compound_statement(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        if node.children and node.children[0].type == "((":
            yield Simple(self._at(node), words=((Text("let", self._at(node)),),))
        else:
            yield Group(self._statements(node.children, depth))

    def _read_subshell(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        yield Group(self._statements(node.children, depth), own_shell=True)

    def _read_negated_command(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        yield self._statements(node.children, depth)

    def _read_list(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        rest: list[tuple[str, Node]] = []
        while node.type == "list" and node.child_count == 3:
            left, operator, right = node.children
            rest.append((operator.type, self._statements([right], depth)))
            node = left
        yield Chain(self._statements([node], depth), tuple(reversed(rest)))

    def _read_pipeline(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        yield Pipe(tuple(self._statements([child], depth) for child in node.children if child.is_named))

    def _read_redirected_statement(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        redirects: list[Redirect] = []
        bodies: list[tree_sitter.Node] = []
        behind: list[tuple[str, Node]] = []
        words: list[Word] = []
        for child in node.children:
            if not child.type.endswith("_redirect"):
                bodies.append(child)
                continue
            redirects += self._redirect(child, depth)
            if child.type == "heredoc_redirect":
                # What stands on the line behind the name of a here-document.
                operator = next((one.type for one in child.children if one.type in ("&&", "||")), "&&")
                for one in child.children:
                    if one.type == "pipeline":
                        behind.append(("|", self._statements(list(one.children), depth)))
                        inner = [self._statements([part], depth) for part in one.children if part.is_named]
                        behind[-1] = ("|", Pipe(tuple(inner)))
                    elif one.type in _WORDS:
                        words.append(self._word(one, depth))
                    elif one.is_named and not one.type.startswith("heredoc_") and not one.type.endswith("_redirect"):
                        behind.append((operator, self._statements([one], depth)))
        body = self._with_redirects(self._statements(bodies, depth), tuple(words), tuple(redirects), self._at(node))
        for operator, other in behind:
            if operator == "|":
                body = Pipe((body, *other.nodes)) if isinstance(other, Pipe) else Pipe((body, other))
            else:
                body = Chain(body, ((operator, other),))
        yield body

    @staticmethod
    def _with_redirects(body: Node, words: tuple[Word, ...], redirects: tuple[Redirect, ...], line: int) -> Node:
        if isinstance(body, Simple):
            return Simple(body.line, body.assigned, (*body.words, *words), (*body.redirects, *redirects))
        if isinstance(body, Pipe) and body.nodes:
            last = _Reader._with_redirects(body.nodes[-1], words, redirects, line)
            return Pipe((*body.nodes[:-1], last))
        if isinstance(body, Chain) and body.rest:
            operator, last = body.rest[-1]
            return Chain(
                body.first, (*body.rest[:-1], (operator, _Reader._with_redirects(last, words, redirects, line)))
            )
        if body == NOTHING:
            return Simple(line, redirects=redirects)
        return Group(body, redirects=redirects)

    def _read_if_statement(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        arms: list[tuple[Node | None, Node]] = []
        condition: list[tree_sitter.Node] = []
        body: list[tree_sitter.Node] = []
        taken, complete = condition, False
        for child in node.children:
            if child.type == "then":
                taken = body
            elif child.type == "elif_clause":
                place = next((i for i, one in enumerate(child.children) if one.type == "then"), len(child.children))
                arms.append(
                    (
                        self._statements(child.children[1:place], depth),
                        self._statements(child.children[place + 1 :], depth),
                    )
                )
            elif child.type == "else_clause":
                arms.append((None, self._statements(child.children[1:], depth)))
                complete = True
            elif child.type not in ("if", "fi"):
                taken.append(child)
        arms.insert(0, (self._statements(condition, depth), self._statements(body, depth)))
        yield Branch(self._at(node), tuple(arms), complete)

    def _read_case_statement(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        arms: list[tuple[Node | None, Node]] = []
        complete = False
        for item in node.children:
            if item.type != "case_item":
                continue
            names = [child.type for child in item.children]
            place = names.index(")") if ")" in names else 0
            complete = complete or any(self._source(child) == "*" for child in item.children[:place])
            arms.append((None, self._statements(item.children[place + 1 :], depth)))
        yield Branch(self._at(node), tuple(arms), complete)

    def _read_for_statement(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        variable = node.child_by_field_name("variable")
        words = tuple(self._word(one, depth) for one in node.children_by_field_name("value"))
        body = self._statements([one for one in node.children if one.type in ("do_group", "compound_statement")], depth)
        yield Loop(self._at(node), self._source(variable) if variable else "", words, body)

    def _read_c_style_for_statement(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        begin = node.child_by_field_name("initializer")
        name = begin.child_by_field_name("name") if begin is not None else None
        body = self._statements([one for one in node.children if one.type in ("do_group", "compound_statement")], depth)
        yield Loop(self._at(node), self._source(name) if name is not None else "", (), body)

    def _read_while_statement(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        inner = [one for one in node.children if one.type != "do_group"]
        groups = [one for one in node.children if one.type == "do_group"]
        body = Statements((self._statements(inner[1:], depth), self._statements(groups, depth)))
        yield Loop(self._at(node), "", (), body)

    def _read_function_definition(self, node: tree_sitter.Node, depth: int) -> Iterator[Node]:
        name = node.child_by_field_name("name")
        bodies = node.children_by_field_name("body")
        if name is not None:
            yield Function(self._at(node), self._source(name), self._statements(bodies, depth))

    # -- words ---------------------------------------------------------------------------------------------

    def _assignment(self, node: tree_sitter.Node, depth: int) -> Assignment:
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        more = any(child.type == "+=" for child in node.children)
        line = self._at(node)
        target = self._source(name) if name is not None else ""
        if value is None:
            return Assignment(target, line, (), more=more)
        if value.type == "array":
            return Assignment(target, line, (), tuple(self._array(value, depth)), more)
        return Assignment(target, line, self._word(value, depth), more=more)

    def _array(self, node: tree_sitter.Node, depth: int) -> Iterator[Word]:
        for child in node.children:
            if child.type in _WORDS:
                yield self._word(child, depth)
            elif child.type == "ERROR":
                yield from (self._word(one, depth) for one in child.children if one.type in _WORDS)

    def _redirect(self, node: tree_sitter.Node, depth: int) -> Iterator[Redirect]:
        line = self._at(node)
        names = [child.type for child in node.children]
        if node.type == "heredoc_redirect":
            start = next((child for child in node.children if child.type == "heredoc_start"), None)
            body = next((child for child in node.children if child.type == "heredoc_body"), None)
            if body is not None and start is not None:
                text = self._source(body)
                first = self._at(body)
                if "<<-" in names:
                    text = re.sub(r"(?m)^\t+", "", text)
                literal = self._source(start)[:1] in "'\"\\"
                yield Redirect("<", (Text(text, first),) if literal else read_expanded(text, first), line)
            for child in node.children:
                if child.type == "file_redirect":
                    yield from self._redirect(child, depth)
        elif node.type == "herestring_redirect":
            words = [child for child in node.children if child.type in _WORDS]
            yield Redirect("<", self._word(words[0], depth) if words else (), line)
        elif (target := node.child_by_field_name("destination")) is not None:
            descriptor = next((self._source(child) for child in node.children if child.type == "file_descriptor"), "1")
            mode = ">>" if {">>", "&>>"}.intersection(names) else ">" if {">", "&>", ">|"}.intersection(names) else ""
            if mode and descriptor == "1":
                yield Redirect(mode, self._word(target, depth), line)

    def _word(self, node: tree_sitter.Node, depth: int) -> Word:
        return tuple(self._parts(node, depth, quoted=False))

    def _parts(self, node: tree_sitter.Node, depth: int, *, quoted: bool) -> Iterator[Part]:
        kind, line = node.type, self._at(node)
        if depth > _DEEPEST:
            yield Computed(self._source(node), line)
        elif kind in ("concatenation", "command_name", "translated_string"):
            for child in node.children:
                if child.type in _WORDS or kind == "command_name":
                    yield from self._parts(child, depth + 1, quoted=quoted)
        elif kind == "string":
            yield from self._string(node, depth)
        elif kind == "raw_string":
            yield Text(self._source(node)[1:-1], line)
        elif kind == "ansi_c_string":
            text = self._source(node)[2:-1]
            yield Text(_ESCAPED.sub(lambda found: _ANSI.get(found[1], found[0]), text), line)
        elif kind in ("simple_expansion", "expansion"):
            yield self._variable(node, depth, quoted=quoted)
        elif kind in ("command_substitution", "process_substitution"):
            body = self._statements([child for child in node.children if child.is_named], depth + 1)
            yield Computed(self._source(node), line, body)
        elif kind == "arithmetic_expansion":
            yield Computed(self._source(node), line)
        else:
            text = self._source(node).replace("\\\n", "")
            yield Text(_ESCAPED.sub(r"\1", text) if "\\" in text else text, line, quoted=quoted)

    def _string(self, node: tree_sitter.Node, depth: int) -> Iterator[Part]:
        # White space before and behind expansions belongs to no child.
        end = node.start_byte + 1
        yield Text("", self._at(node))
        for child in node.children:
            if child.type == '"':
                continue
            if child.start_byte > end:
                yield self._gap(end, child.start_byte, child)
            end = child.end_byte
            if child.type == "string_content":
                yield Text(_IN_DOUBLE.sub(_unescape, self._source(child)), self._at(child))
            else:
                yield from self._parts(child, depth + 1, quoted=True)
        if node.end_byte - 1 > end:
            yield self._gap(end, node.end_byte - 1, node)

    def _gap(self, start: int, end: int, near: tree_sitter.Node) -> Text:
        text = self._data[start:end].decode("utf-8", errors="replace")
        return Text(_IN_DOUBLE.sub(_unescape, text), self._at(near))

    def _variable(self, node: tree_sitter.Node, depth: int, *, quoted: bool) -> Part:
        source, line = self._source(node), self._at(node)
        names = [child for child in node.children if child.type in ("variable_name", "special_variable_name")]
        operators = [child.type for child in node.children if not child.is_named and child.type not in ("${", "}", "$")]
        subscript = next((child for child in node.children if child.type == "subscript"), None)
        if subscript is not None:
            if not operators and self._source(subscript).endswith(("[@]", "[*]")):
                return Variable(self._source(subscript), line, source, quoted)
            return Computed(source, line)
        if not names:
            return Computed(source, line)
        name = self._source(names[0])
        if not operators:
            return Variable(name, line, source, quoted)
        if operators[0] in (":-", "-", ":=", "=") and node.children[1].type == "variable_name":
            rest = [child for child in node.children[3:-1] if child.type in _WORDS]
            otherwise = tuple(part for child in rest for part in self._parts(child, depth + 1, quoted=quoted))
            return Variable(name, line, source, quoted, otherwise)
        return Computed(source, line)


def _unescape(found: re.Match[str]) -> str:
    return "" if found[1] == "\n" else found[1]


def read_expanded(text: str, line: int) -> Word:
    """Read text in which a shell expands variables, as in a here-document without quotes."""
    parts: list[Part] = []
    end = 0
    for found in _EXPANDED.finditer(text):
        if found.start() > end:
            parts.append(Text(text[end : found.start()], line))
            line += text.count("\n", end, found.start())
        end = found.end()
        if name := found["braced"] or found["bare"]:
            parts.append(Variable(name, line, found[0]))
        elif found["escaped"]:
            parts.append(Text(found["escaped"], line))
        elif found["other"]:
            parts.append(Computed(found[0], line))
        line += text.count("\n", found.start(), found.end())
    if end < len(text):
        parts.append(Text(text[end:], line))
    return tuple(parts)
