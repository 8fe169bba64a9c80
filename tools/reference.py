"""Writes the parts of docs/reference that follow from the program: options, parameters of stacks, keys of files.

    python tools/reference.py            # write them anew
    python tools/reference.py --check    # write nothing; exit code 1 if a page is out of date

A page holds such a part between ``<!-- options: COMMAND -->``, ``<!-- stack: NAME -->`` or ``<!-- keys: CLASS -->`` and
``<!-- . -->``; all else on the page is written by hand. CLASS is a model of a table, such as
``requests.policy.Policy``; keys that have tables of their own follow it, each with a minus.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.plan import spell
from stripewise.catalogue.stack import load_stack
from stripewise.desk.cli.commands import app
from stripewise.desk.cli.help import write_default
from stripewise.lab.site import parse_rate, parse_seconds
from stripewise.sizes import format_size, parse_size

PAGES = Path(__file__).resolve().parents[1] / "docs" / "reference"
PART = re.compile(r"<!-- (?P<kind>options|stack|keys): (?P<name>[\w. -]+) -->.*?<!-- \. -->", re.DOTALL)
SHARED = ("--store", "--server", "--json", "--help")
"""Options that the page describes once for all commands, if their help is the usual one."""
USUAL = {
    "--store": "sqlite:///FILE, postgresql://... or journal:FOLDER.",
    "--server": "A service to use instead of a store: unix:PATH or https://HOST.",
    "--json": "Print JSON for machines.",
}
MANY = 1000
SHOWN = 6
"""Values of a parameter that are listed; more are named by their ends and their number."""
LINKS = {
    "standard input of every launch": "experiment-files.md#stdin",
    "phases of one launch": "../how-to/tune-within-one-launch.md",
    "simulated cluster": "simulate.md#simulated-runs",
    "measured table": "tables.md",
    "samplers": "samplers.md",
    "expressions": "stack-files.md#expressions",
    "plan lines": "plan.md",
    "another package": "../how-to/add-a-scheduler-or-resource.md#add-a-scheduler",
    "benchmark program": "campaigns.md#the-benchmark-program",
    "record of the program": "record.md",
    "proves its effect": "../explanation/when-a-gain-is-real.md#rules",
}
"""Words of descriptions that lead to another page, where they come first in a cell."""
TIMES = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6))
CARRIERS = {"env": "environment", "mca": "MCA", "adios2": "ADIOS2's file", "hdf5": "HDF5 property", "pnetcdf": "hint"}


@cache
def _program() -> Any:
    """Give all commands; each of them is loaded once."""
    return typer.main.get_command(app)


def list_commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Give each command with its words."""
    command = command or _program()
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(path), command
    else:
        for name, child in below.items():
            yield from list_commands(child, (*path, name))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table of Markdown."""
    head, *body = ("| " + " | ".join(cells) + " |" for cells in (heads, *rows))
    return "\n".join([head, "|" + "---|" * len(heads), *body])


def escape(text: str) -> str:
    """Give a text as a cell of a table."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;").strip()


def _option(option: Any) -> tuple[str, str]:
    words = ", ".join(f"`{word}`" for word in (*option.opts, *option.secondary_opts))
    numbers = option.type_descriptor.annotation in (int, float)
    value = "" if option.is_flag else f" {escape(option.metavar or ('NUMBER' if numbers else 'TEXT'))}"
    said = escape(option.help or "")
    default = option.default
    if option.required:
        said += " Required."
    elif not option.is_flag and isinstance(default, str | int | float) and default not in ("", None):
        said += "" if "default" in said.lower() else f" Default: {escape(write_default(default))}."
    return f"{words}{value}", said


def options_of(path: str) -> str:
    """Describe the arguments and options of a command, in the groups of its help."""
    command = dict(list_commands())[path]
    parts, shared = [], []
    groups: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            word = escape(str(parameter.metavar or str(parameter.name).upper()).strip("[]"))
            many = "..." if parameter.nargs == -1 and not word.endswith("...") else ""
            parts.append(f"- `{word}{many}`: {parameter.help or ''}".rstrip(": "))
        elif parameter.opts[0] in SHARED and parameter.help == USUAL.get(parameter.opts[0], parameter.help):
            shared += [f"`{word}`" for word in parameter.opts if word != "--help" and word.startswith("--")]
        else:
            groups.setdefault(getattr(parameter, "rich_help_panel", None) or "", []).append(_option(parameter))
    blocks = ["\n".join(parts)] if parts else []
    for title, rows in groups.items():
        blocks += [f"{title}:"] if title and len(groups) > 1 else []
        blocks.append(table(("option", "meaning"), rows))
    if shared:
        blocks.append(f"Shared: {', '.join(shared)}.")
    return "\n\n".join(blocks)


def _value(parameter: Parameter, value: Any) -> str:
    return format_size(value) if parameter.unit == "B" and isinstance(value, int) and value else spell(value)


def _values(parameter: Parameter) -> str:
    values = [_value(parameter, value) for value in parameter.values]
    if len(values) > SHOWN:
        ordered = f"{values[0]} to {values[-1]}, {len(values)} values"
        shown = ordered if parameter.kind.value != "categorical" else ", ".join(values)
    else:
        shown = ", ".join(values)
    most = f"; at most `{parameter.maximum_from.text}`" if parameter.maximum_from else ""
    default = f"`{parameter.default_from.text}`" if parameter.default_from else _value(parameter, parameter.default)
    default += "".join(f"; {_value(parameter, value)} {said}" for value, said in parameter.other_defaults)
    return escape(f"{shown}{most} ({default})")


def _carried(parameter: Parameter) -> str:
    name = CARRIERS.get(parameter.carrier.name, parameter.carrier.name)
    if parameter.carrier.name in ("layout", "hdf5") and parameter.setting != parameter.name:
        name += f" `{parameter.setting}`"
    where = f", driver {' or '.join(parameter.driver)}" if parameter.driver else ""
    since = f", since {parameter.library} {parameter.since}" if parameter.since else ""
    proof = "nothing" if parameter.evidence == "none" else parameter.evidence
    return f"{name}{where}{since}; {proof}"


def stack_of(name: str) -> str:
    """Describe the parameters of a stack."""
    stack = load_stack(name)
    rows = [
        (
            f"`{one.name}`",
            _values(one),
            _carried(one),
            escape(one.description) + (f" *{escape(one.trap)}*" if one.trap else ""),
        )
        for one in stack.parameters
    ]
    parts = [table(("parameter", "values (default)", "carrier; evidence", "effect; *trap*"), rows)]
    for one in stack.parameters:
        for fault in one.breaks:
            calls = ", ".join(f"`MPI_File_{call}`" for call in fault.calls)
            parts.append(f"With `{one.name}={spell(fault.value)}`, {fault.how}: {calls}.")
    parts += [f"`{one.name}` is derived from `{one.value.text}`: `{one.template}`." for one in stack.derived]
    rules = ["`" + " ".join(rule.text.split()) + "`" for rule in stack.constraints]
    parts += [f"Constraints: {'; '.join(rules)}."] if rules else []
    return "\n\n".join(parts)


def _value_of(schema: dict[str, Any], field: FieldInfo) -> str:
    """Say what a key takes: quantities with units by their type, all else by the JSON schema."""
    told = f"{field.annotation} {field.metadata}"  # Both name the function that reads the value.
    for reader, kind in ((parse_size, "size"), (parse_rate, "rate"), (parse_seconds, "time")):
        if f"function {reader.__name__} at" in told:
            return kind
    several = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
    kinds = list(dict.fromkeys(_type_of(one) for one in several))
    return "value" if len(kinds) > 2 else " or ".join(kind for kind in kinds if kind)


def _type_of(schema: dict[str, Any]) -> str:
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]) if value != "")
    if schema.get("type") == "array":
        return "list of tables" if "$ref" in schema.get("items", {}) else "list"
    plain = {"integer": "integer", "number": "number", "string": "text", "boolean": "true or false"}
    name = "table" if "$ref" in schema else plain.get(schema.get("type", ""), "table" if "type" in schema else "value")
    for word, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<")):
        # A bound that nobody reaches is no news.
        name += f", {sign} {_number(schema[word])}" if schema.get(word, MANY) < MANY else ""
    return name


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else str(value)


def _default_of(field: FieldInfo, kind: str) -> str:
    default = field.get_default(call_default_factory=True, validated_data={})
    if field.is_required():
        return "required"
    if default is None or default in ("", PydanticUndefined) or isinstance(default, BaseModel | dict):
        return ""
    if kind == "time":
        unit, factor = next((one for one in TIMES if default >= one[1]), TIMES[-1] if default else TIMES[0])
        return f"{default / factor:g} {unit}"
    if isinstance(default, list):
        return ", ".join(f"`{value}`" for value in default)
    units = {"size": format_size, "rate": lambda rate: f"{rate / 1e9:g} GB/s"}
    plain = f"{default:g}" if isinstance(default, float) else getattr(default, "name", None) or spell(default)
    return units[kind](default) if kind in units else f"`{plain}`"


def keys_of(name: str) -> str:
    """Describe the keys of a table of a file; those with a minus have tables of their own."""
    path, *without = name.split(" -")
    module, _, word = path.rpartition(".")
    model = getattr(import_module(f"stripewise.{module}"), word)
    schemas = model.model_json_schema()
    rows = []
    for key, field in model.model_fields.items():
        if key not in without:
            schema = schemas["properties"][key]
            options = [_target(schemas, one) or one for one in schema.get("anyOf", [schema])]
            schema = {"anyOf": options} if any("enum" in one for one in options) else schema
            kind = _value_of(schema, field)
            rows.append((f"`{key}`", kind, _default_of(field, kind), _cell(field.description or "")))
    return table(("key", "value", "default", "meaning"), rows)


def _cell(text: str) -> str:
    """Give a description as a cell; in code, Markdown needs no escape but that of bars."""
    pieces = text.replace("|", "\\|").split("`")
    text = "`".join(one if at % 2 else one.replace("*", "\\*").replace("<", "&lt;") for at, one in enumerate(pieces))
    for words, page in LINKS.items():
        text = text.replace(words, f"[{words}]({page})", 1)
    return text


def _target(schemas: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    return schemas["$defs"][schema["$ref"].split("/")[-1]] if "$ref" in schema else {}


def fill(text: str) -> str:
    """Write the parts of a page anew."""

    def fresh(found: re.Match[str]) -> str:
        made = {"options": options_of, "stack": stack_of, "keys": keys_of}[found["kind"]](found["name"])
        return f"<!-- {found['kind']}: {found['name']} -->\n\n{made}\n\n<!-- . -->"

    return PART.sub(fresh, text)


def main() -> int:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = 0
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text("utf-8")
        made = fill(text)
        if made != text:
            stale = 1
            print(f"{page}: {'out of date' if check else 'written'}")
            if not check:
                page.write_text(made, "utf-8")
    return stale if check else 0


if __name__ == "__main__":
    sys.exit(main())
