"""The plan: the settings to apply to a run, in the text form that the runtime reads.

``native/include/formats.toml`` defines its lines and limits for both sides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stripewise.catalogue.carriers import Carrier, Setting, read_setting, verbs
from stripewise.catalogue.configuration import Configuration, Value, is_same, plain_number
from stripewise.errors import UserError
from stripewise.formats import ALLOWANCES, MAX_ID, MAX_KEY, MAX_PLAN_BYTES, MAX_SETTINGS, MAX_VALUE, PLAN_HEADER
from stripewise.shell import is_unicode, make_showable

if TYPE_CHECKING:
    from stripewise.catalogue.space import Space

_BLANK = " \t"
_CAUTION = "# caution: "


@dataclass(frozen=True)
class Plan:
    """Settings for the files that a glob names.

    Attributes
    ----------
    identifier : str
        Echoed in the report.
    override : bool
        Whether the plan wins over the application's own hints.
    files : str
        Glob on the absolute path or the base name.
    workload : tuple of (str, str)
        What is known of these files' I/O, by words of the workload or columns of a model; the modes predict and online
        decide by it.
    allow : tuple of str
        ``composite``, ``pool``: folders with such layouts whose files may still be laid out.
    sections : tuple of (str, tuple of Setting)
        Settings for further files, each with its glob; of carriers that the runtime applies at each open.
    cautions : tuple of str
        Where settings are expected to harm, as sentences: comments, which the runtime skips.
    """

    settings: tuple[Setting, ...] = ()
    identifier: str = ""
    override: bool = False
    files: str = "*"
    workload: tuple[tuple[str, str], ...] = ()
    allow: tuple[str, ...] = ()
    sections: tuple[tuple[str, tuple[Setting, ...]], ...] = ()
    cautions: tuple[str, ...] = ()

    def text(self) -> str:
        """Write the plan.

        Raises
        ------
        UserError
            If a key or value cannot be carried (too long, control characters).
        """
        globs = [("file pattern", files) for files in (self.files, *(files for files, _ in self.sections))]
        for what, word in (("identifier", self.identifier), *globs):
            if not is_unicode(word) or any(ord(c) < 32 or ord(c) == 127 for c in word):
                raise UserError(f"plan: {what} {word[:40]!r} has control characters or is not valid Unicode")
        lines = [PLAN_HEADER, *map(write_caution, self.cautions)]
        if self.identifier:
            lines.append(f"id {self.identifier}")
        lines.append(f"override {'yes' if self.override else 'no'}")
        lines += [f"allow {kind}" for kind in self.allow]
        lines.append(f"file {self.files}")
        for setting in self.settings:
            _check(setting, "plan")
            lines.append(setting.line())
        for word, value in self.workload:
            _check_words(word, value, "plan")
            lines.append(f"workload {word} {value}")
        for files, settings in self.sections:
            lines.append(f"file {files}")
            for setting in settings:
                _check(setting, "plan")
                lines.append(setting.line())
        return "\n".join(lines) + "\n"

    @classmethod
    def parse(cls, text: str, origin: str) -> Plan:
        """Read a plan.

        Raises
        ------
        UserError
            With the line that is wrong.
        """
        if len(text) > MAX_PLAN_BYTES:
            raise UserError(
                f"{origin} is larger than {MAX_PLAN_BYTES} bytes",
                "a plan is a short text: is it the right file?",
            )
        # Lines end, and words are parted, exactly as the runtime's own reader does it.
        lines = [line.removesuffix("\r") for line in text.split("\n")]
        if lines[0] != PLAN_HEADER:
            raise UserError(
                f"{origin} is not a plan: its first line is not '{PLAN_HEADER}'",
                "export one with stripewise export",
            )
        settings: list[Setting] = []
        sections: list[tuple[str, list[Setting]]] = []
        count = 0
        workload: list[tuple[str, str]] = []
        allow: list[str] = []
        fields = {"id": "", "override": "no", "file": "*"}
        wanted = {**verbs(), "workload": 2}
        for number, line in enumerate(lines[1:], start=2):
            if not line.strip(_BLANK) or line.startswith("#"):
                continue
            where = f"{origin} line {number}"
            verb, *others = re.split(r"[ \t]+", line.strip(_BLANK), maxsplit=1)
            rest = others[0] if others else ""
            _check_field(verb, rest, where)
            if verb == "file" and (count or workload):
                sections.append((rest, []))
                continue
            if verb in fields:
                fields[verb] = rest
                continue
            if verb == "allow":
                if rest not in ALLOWANCES:
                    raise UserError(f"{where}: allow is '{rest[:40]}'", f"write {' or '.join(ALLOWANCES)}")
                allow.append(rest)
                continue
            if verb not in wanted:
                raise UserError(f"{where}: unknown word '{verb[:40]}'", f"use {', '.join([*fields, *wanted, 'allow'])}")
            parts = re.split(r"[ \t]+", rest, maxsplit=wanted[verb] - 1) if rest else []
            if len(parts) != wanted[verb]:
                key = "a file system, a key" if wanted[verb] > wanted["workload"] else "a key"
                raise UserError(f"{where}: '{verb}' needs {key} and a value")
            if sections and (verb == "workload" or not read_setting(verb, parts).carrier.decided):
                raise UserError(
                    f"{where}: '{verb}' is not for some files alone", "write it before the second file line"
                )
            if verb == "workload":
                _check_words(parts[0], parts[1], where)
                workload.append((parts[0], parts[1]))
                continue
            setting = read_setting(verb, parts)
            _check(setting, where)
            (sections[-1][1] if sections else settings).append(setting)
            count += 1
            if count > MAX_SETTINGS:
                raise UserError(f"{origin} has more than {MAX_SETTINGS} settings", "is it the right file?")
        return cls(
            tuple(settings),
            fields["id"],
            fields["override"] == "yes",
            fields["file"],
            tuple(workload),
            tuple(allow),
            tuple((files, tuple(own)) for files, own in sections),
            tuple(line.removeprefix(_CAUTION) for line in lines if line.startswith(_CAUTION)),
        )

    def of(self, *carriers: Carrier) -> tuple[Setting, ...]:
        """The settings of some carriers."""
        return tuple(setting for setting in self.settings if setting.carrier in carriers)


def write_caution(sentence: str) -> str:
    """Write where a setting is expected to harm, as a comment of a plan or of a script."""
    return f"{_CAUTION}{make_showable(sentence)}"


def _check_field(verb: str, text: str, where: str) -> None:
    if verb == "override" and text not in ("yes", "no"):
        raise UserError(f"{where}: override is '{text}'", "write yes or no")
    longest = {"id": MAX_ID, "file": MAX_VALUE}.get(verb)
    if longest and not 0 < len(text.encode("utf-8", "surrogateescape")) <= longest:
        raise UserError(f"{where}: '{verb}' needs a text of 1 to {longest} bytes")


def _check(setting: Setting, where: str) -> None:
    _check_words(setting.key, setting.value, where)
    if wrong := setting.carrier.wrong_key(setting.key):
        raise UserError(f"{where}: {setting.key[:40]!r} {wrong}", "use letters, digits and _ only")


def _check_words(key: str, value: str, where: str) -> None:
    for what, text, limit in (("key", key, MAX_KEY), ("value", value, MAX_VALUE)):
        if (
            not text
            or not is_unicode(text)
            or len(text.encode()) > limit
            or any(ord(c) < 32 or ord(c) == 127 for c in text)
        ):
            raise UserError(
                f"{where}: {what} {text[:40]!r} is empty, longer than {limit} bytes, not valid Unicode "
                "or has control characters"
            )
    if any(c.isspace() for c in key):
        raise UserError(f"{where}: key {key[:40]!r} has white space")


def spell(value: Value) -> str:
    """Write a value as carriers expect it: booleans as true and false."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def settings_of(space: Space, configuration: Configuration) -> tuple[Setting, ...]:
    """Turn a configuration into settings: every active parameter that is not at its default, then derived ones.

    The default configuration therefore sets nothing at all: it is the program as its user runs it today.
    """
    active = space.active(space.levels([configuration]))[0]
    values = {**space.default, **configuration}
    changed: set[str] = set()
    settings: list[Setting] = []
    for index, parameter in enumerate(space.parameters):
        value = values[parameter.name]
        if active[index] and not is_same(value, parameter.default):
            changed.add(parameter.name)
            settings.append(Setting(parameter.carrier, parameter.setting, spell(value), parameter.layer))
    words: Mapping[str, object] = {**space.context, **values}
    for derived in space.derived:
        if not derived.value.names & changed:
            continue
        if derived.active_if is not None and not derived.active_if(words):
            continue
        number = plain_number(derived.value(words))
        settings.append(Setting(derived.carrier, derived.name, derived.template.format(value=number), derived.layer))
    return _unique(settings)


def _unique(settings: Iterable[Setting]) -> tuple[Setting, ...]:
    by_key = {(setting.carrier, setting.layer, setting.key): setting for setting in settings}
    return tuple(by_key.values())
