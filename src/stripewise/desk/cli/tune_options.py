"""Which option of ``tune`` belongs to which of its modes: the one table behind its help and its refusals."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Flag, auto
from typing import Any

import typer

from stripewise.desk.cli.help import ProgramCommand
from stripewise.errors import UserError


class Mode(Flag):
    """What ``tune`` is asked to do; a command can be in several modes at once."""

    LAUNCHES = auto()
    """Each run is a launch of the program."""
    WITHIN = auto()
    REPLAYS = auto()
    SMALL = auto()
    SIMULATED = auto()
    RECORDED = auto()
    CONFIRM = auto()
    DRY = auto()


TITLES: Mapping[Mode, str] = {
    Mode.LAUNCHES: "a search by launches",
    Mode.WITHIN: "--within",
    Mode.REPLAYS: "--replay",
    Mode.SMALL: "--small",
    Mode.SIMULATED: "--runner sim:",
    Mode.RECORDED: "--runner replay:",
    Mode.CONFIRM: "--confirm",
    Mode.DRY: "--dry-run",
}
_ALL = ~Mode(0)
_MEASURED = ~(Mode.SIMULATED | Mode.RECORDED)
_SEARCH = ~Mode.CONFIRM
_LAUNCHED = _SEARCH & _MEASURED

TABLE: Mapping[str | None, Mapping[str, Mode]] = {
    None: {
        "budget": _ALL,
        "objective": _SEARCH & ~Mode.RECORDED,
        "stack": _SEARCH & ~Mode.RECORDED,
        "parameter": _SEARCH & ~Mode.RECORDED,
        "delete": _LAUNCHED & ~Mode.WITHIN,
        "name": _ALL,
        "report": _ALL,
        "dry_run_only": _ALL,
        "yes": _ALL,
        "json_output": _ALL,
    },
    "The program and its runs": {
        "runner": _SEARCH,
        "program": _LAUNCHED & ~Mode.WITHIN,
        "direction": _SEARCH & ~Mode.RECORDED,
        "subject_to": _LAUNCHED & ~Mode.WITHIN & ~Mode.REPLAYS,
        "setup": _LAUNCHED,
        "timeout": ~Mode.WITHIN,
        "scratch": _MEASURED,
        "override": _LAUNCHED,
        **dict.fromkeys(("ceiling", "no_ceiling"), _LAUNCHED & ~Mode.WITHIN & ~Mode.REPLAYS),
        "time": _ALL,
        "node_hours": _ALL,
    },
    "The search and the proof": {
        "sampler": _SEARCH,
        "sampler_option": _SEARCH,
        "model": _SEARCH,
        "warm_start": _SEARCH,
        "diagnosis": _SEARCH,
        "spend_all": _SEARCH & ~Mode.WITHIN,
        "seed": _ALL,
        **dict.fromkeys(("pairs", "minimum_effect", "confirm"), _ALL),
    },
    "Other ways to search": {
        **dict.fromkeys(("within", "max_loss", "families", "settle"), Mode.WITHIN | Mode.DRY),
        **dict.fromkeys(("replay", "replay_folder"), Mode.LAUNCHES | Mode.REPLAYS | Mode.DRY),
        **dict.fromkeys(("small", "small_budget"), Mode.LAUNCHES | Mode.SMALL | Mode.DRY),
    },
    "Where experiments are kept": {"store": _ALL, "server": ~Mode.SMALL},
}
"""Options of ``tune`` under the headings of its help, each with the modes that honour it.

The basic ones come first, and have no heading of their own. A mode refuses every option that it does not honour.
"""
MODES: Mapping[str, Mode] = {
    **{name: modes for options in TABLE.values() for name, modes in options.items()},
    "file": _SEARCH,
    "command": _SEARCH,
}
_WORDS = {
    "dry_run_only": "--dry-run",
    "json_output": "--json",
    "diagnosis": "--from",
    "file": "an experiment file",
    "command": "a command",
}
_PARTS = {
    "max_loss": ("trials inside one launch", Mode.WITHIN, "--within"),
    "families": ("trials inside one launch", Mode.WITHIN, "--within"),
    "settle": ("trials inside one launch", Mode.WITHIN, "--within"),
    "replay_folder": ("replays", Mode.REPLAYS, "--replay RECORD"),
    "small_budget": ("a smaller case", Mode.SMALL, "--small COMMAND"),
}
"""Options that say more about another one: what they belong to, its mode, and the option to add."""
_LATER = ("report", "yes", "store")
"""Options that a dry run takes, because the same command without ``--dry-run`` needs them, and does not use."""
_HELPED: Mapping[str, tuple[Mode, ...]] = {
    "within": (Mode.WITHIN,),
    "replay": (Mode.REPLAYS,),
    "small": (Mode.SMALL,),
    "confirm": (Mode.CONFIRM,),
    "runner": (Mode.SIMULATED, Mode.RECORDED),
}
"""Options with a help of their own, as ``tune --within --help``: the modes that it describes."""


class TuneCommand(ProgramCommand):
    """``tune``, whose help shows its options in groups; with a mode before ``--help``, what belongs to that mode."""

    def __init__(self, *given: Any, params: list[Any] | None = None, **more: Any) -> None:
        places = {name: (heading, place) for heading, names in TABLE.items() for place, name in enumerate(names)}
        order = list(TABLE)
        options = [one for one in params or () if one.param_type_name == "option"]
        for option in options:
            option.rich_help_panel = places[option.name][0]
        options.sort(key=lambda option: (order.index(places[option.name][0]), places[option.name][1]))
        arguments = [one for one in params or () if one.param_type_name != "option"]
        super().__init__(*given, params=[*arguments, *options], **more)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take note of the modes that stand beside ``--help``; a mode needs no value there."""
        if {"-h", "--help"} & {*args}:
            ctx.meta[_ASKED] = [name for name in _HELPED if word_for(name) in {one.partition("=")[0] for one in args}]
            args = ["--help"]
        return super().parse_args(ctx, args)

    def shown(self, ctx: Any) -> list[Any]:
        """Give the options of the modes that are asked about, or all but those that belong to one mode alone."""
        asked = _list_asked(ctx)
        modes = [mode for name in asked for mode in _HELPED[name]]
        own = [*asked, *(name for name, (_, mode, _) in _PARTS.items() if mode in modes)]
        return [one for one in super().shown(ctx) if (one.name in own if asked else one.name not in _PARTS)]

    def more(self, ctx: Any) -> list[str]:
        """Give what the modes that are asked about take or refuse, or how to ask."""
        asked = _list_asked(ctx)
        if not asked:
            return [
                "stripewise tune --within --help shows what belongs to --within alone; so with --replay, --small, "
                "--confirm and --runner."
            ]
        return [_describe_taken(mode) for name in asked for mode in _HELPED[name]]


_ASKED = "stripewise.tune.modes"


def _list_asked(ctx: Any) -> list[str]:
    return list(ctx.meta.get(_ASKED, ()))


def given_options(context: typer.Context) -> dict[str, str]:
    """Give the options and arguments on the command line itself: name to what a message calls it."""
    found = {}
    for one in context.command.params:
        source = context.get_parameter_source(str(one.name))
        if source is not None and source.name == "COMMANDLINE":
            found[str(one.name)] = word_for(str(one.name))
    if context.obj["command"]:
        found["command"] = word_for("command")
    return found


def word_for(name: str) -> str:
    """Give the word on the command line for an option, or what a message calls an argument."""
    return _WORDS.get(name, f"--{name.replace('_', '-')}")


def options_of(mode: Mode) -> list[str]:
    """Give the options that a mode takes."""
    return [word_for(name) for names in TABLE.values() for name, modes in names.items() if mode in modes]


def _describe_taken(mode: Mode) -> str:
    """Say in the help of a mode which options it takes; of a mode that takes most of them, which it does not take."""
    if mode is Mode.CONFIRM:
        return f"{TITLES[mode]} takes only {', '.join(options_of(mode))}."
    refused = [word_for(name) for names in TABLE.values() for name, modes in names.items() if mode not in modes]
    return f"{TITLES[mode]} takes all options of stripewise tune --help but {', '.join(refused)}."


def mode_of(runner: str) -> Mode:
    """Give the mode in which a runner answers."""
    kind = runner.partition(":")[0]
    known = {"within": Mode.WITHIN, "sim": Mode.SIMULATED, "replay": Mode.RECORDED}
    return known.get(kind, Mode.LAUNCHES)


def check_options(given: Mapping[str, str], modes: Mode) -> None:
    """Refuse the first of the given options that one of the modes of a command does not honour."""
    for name, word in given.items():
        if name in _PARTS and not _PARTS[name][1] & modes and Mode.CONFIRM not in modes:
            what, _, cure = _PARTS[name]
            raise UserError(f"{word} belongs to {what}", f"add {cure}")
        refusing = next((mode for mode in modes if mode not in MODES[name]), None)
        if refusing is not None:
            taken = f"; it takes {', '.join(options_of(refusing))}" if refusing is Mode.CONFIRM else ""
            raise UserError(f"{TITLES[refusing]} does not take {word}", f"leave one of them out{taken}")


def used_later(given: Mapping[str, str], modes: Mode) -> str:
    """Say which options of a dry run only matter to the run; empty where none is given."""
    words = [given[name] for name in _LATER if name in given and not (name == "store" and Mode.CONFIRM in modes)]
    return f"{', '.join(words)}: used by the run itself, not by a dry run" if words else ""
