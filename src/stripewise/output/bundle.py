"""A bundle for the helpdesk: what is needed to look into an experiment, without what names people or gives access."""

from __future__ import annotations

import datetime
import io
import json
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from stripewise import __version__
from stripewise.errors import StripewiseError
from stripewise.output.places import nodes_of
from stripewise.store.base import Record
from stripewise.trial import Run, State, Trial

_TAIL = 32 << 10
_MOST_LOGS = 20
# Output may be hostile: each pattern takes time in proportion to the length of the text. A pattern begins a run of
# letters only at its beginning, takes it whole (++), and looks for what must be in it or behind it beforehand.
_LETTERS = r"[A-Za-z0-9_.-]"
_NAMED = (
    rf"(?:(?={_LETTERS}*?(?:token|secret|passw|passphrase|credential|(?:api|access|private|account|ssh)[_-]?key|auth|jwt))"
    rf"{_LETTERS}++)"
)
_ENDINGS = ("pw", "pwd", "pass", "key", "pat", "pin", "otp", "psk", "sig", "signature", "creds", "cookie", "bearer")
_ENDS_SHORT = rf"{_LETTERS}++(?:{'|'.join(rf'(?<=[_.-]{one})' for one in _ENDINGS)})"
_SHORT = rf"(?:{_ENDS_SHORT}|(?:pw|pwd|pass|pin|otp|psk|sig|signature|creds|bearer)(?!{_LETTERS}))"
"""What names of secrets look like, in variables and options; the short ones are words of ordinary texts, too."""
_SECRET = re.compile(
    rf"(?i)(?<!{_LETTERS})({_NAMED}|(?=-){_ENDS_SHORT}|{_SHORT}(?=[\"']?\s*[=:]))"
    r"([\"']?\s*+[=:]\s*+|\s++)(\"[^\"]*\"|'[^']*'|[^\s\"',;}]+)"
)
_SECRET_OPTION = re.compile(rf"(?i)--?(?:{_NAMED}|{_SHORT})|(?:{_NAMED}|{_SHORT})[=:]")
_CLOUD_KEY = re.compile(
    r"\b(?:(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{35}|ya29\.[\w.-]{20,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[a-z]-[\w-]{10,}|sk-[\w-]{20,}|hf_\w{20,}|npm_\w{20,}|sw_[0-9a-f]{12}_[\w-]{43}"
    r")|(?<=[?&]sig=)[\w%+/=-]{16,}"
    r"|(?<![\w-])(?=[\w-]++\.[\w-]{10,}+\.[\w-]{5})[\w-]*?\beyJ[\w-]{10,}+\.[\w-]+\.[\w-]+"
)
"""Keys that are known by their shape, whatever they are called: of clouds, code hosts and this program's service."""
_DOMAIN = re.compile(
    r"(?i)(?<![\w.-])(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+"
    r"(?:com|org|net|edu|gov|mil|int|eu|uk|de|fr|ch|at|nl|se|no|fi|dk|jp|cn|kr|au|ca|pl|cz"
    r"|local|lan|internal|intranet|cluster)(?![\w-]|\.\w)"
)
_HEADER = re.compile(r"(?i)((?<![a-z])(?:proxy-)?authorization[\"']?\s*+[:=]|(?<![a-z])(?:set-)?cookie:)[^\r\n']++")
"""A header of HTTP whose whole value gives access, to the end of its line or of the quotes of a shell."""
_QUERY = re.compile(r"(?i)(?<=[?&])((?:[\w.-]*[_.-])?(?:key|sig|signature|code|jwt)=)[^&\s\"'#]++")
_WEBHOOK = re.compile(r"(?i)(?<=/hooks\.slack\.com/services/|/discord\.com/api/webhooks/)[\w/-]++")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")
# A user may stand alone, and then be a token; a password may hold an @.
_URL_PASSWORD = re.compile(r"(?<=://)[^/\s\"']*@")
_MAIL = re.compile(r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]++@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b")
_ADDRESS = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b")
_HOME = re.compile(r"(?<![\w.])/(home|users|Users|u|global/homes/\w)/([A-Za-z0-9._-]+)")
# One without an end was cut off.
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S)
_SECRET_NAME = re.compile(rf"(?i){_NAMED}|{_SHORT}|(?s:.*?private.*)")


def _options(shorts: str, *longs: str) -> re.Pattern[str]:
    """Find options with their values: letters, whose value may follow at once, and words."""
    names = "|".join([*(f"-{letter}[=\\s]?" for letter in shorts), *(rf"--{name}[=\s]" for name in longs)])
    return re.compile(rf"""(?<!\S)({names})\s*+("[^"]*"|'[^']*'|[^\s"']++)""")


def _mask_options(options: re.Pattern[str], line: re.Match[str]) -> str:
    return options.sub(r"\1[removed]", line[0])


_PROGRAMS = (
    (r"curl", _options("uUbE", "user", "proxy-user", "cookie", "cert", "key")),
    (r"http|xh", _options("a")),
    (r"sshpass|mysql\w*|mariadb[\w-]*|mongo\w*|7za?|rar|unrar|rdesktop|docker|podman|helm|oras", _options("p")),
    (r"ldap\w+|redis-cli|sqlcmd|bcp|zip|unzip|htpasswd|smbclient|lftp|openssl", _options("wWaPUukb", "user", "pass")),
)
"""Programs whose options give access though their names do not say so; the rest of their line is looked at."""
_OF_PROGRAMS = [(re.compile(rf"(?<![\w.-])(?:{names})\s.*"), options) for names, options in _PROGRAMS]


@dataclass
class Redactor:
    """Replaces what names people, hosts and secrets, the same thing always by the same word.

    Attributes
    ----------
    users, hosts : mapping
        Name to the word that stands for it.
    """

    users: dict[str, str] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, record: Record, trials: Sequence[Trial] = ()) -> Redactor:
        """Learn the names that an experiment's record and its runs have."""
        made = cls()
        user, _, rest = record.owner.partition("@")
        made.user(user)
        made.user(record.facts.user)
        made.host(rest.partition(":")[0])
        for source in (record.facts.environment, record.result.environment if record.result else {}):
            made.host(str(source.get("host") or ""))
        for trial in trials:
            for run in trial.runs:
                listed = run.facts.hosts
                for name in (*nodes_of(run.facts), *([listed] if isinstance(listed, str) else [])):
                    made.host(name)
        for found in _HOME.finditer(record.facts.folder or ""):
            made.user(found[2])
        return made

    def user(self, name: str) -> None:
        """Replace a user's name from now on."""
        # A name like "io" would be replaced within ordinary words; it stays, as root does, which names nobody.
        if len(name) > 2 and name not in ("root", "user", "python"):
            self.users.setdefault(name, f"USER{len(self.users) + 1}")

    def host(self, name: str) -> None:
        """Replace a host's name from now on."""
        if len(name) > 2 and name != "localhost":
            self.hosts.setdefault(name, f"HOST{len(self.hosts) + 1}")

    def text(self, text: str) -> str:
        """Redact a text."""
        for program, options in _OF_PROGRAMS:
            text = program.sub(partial(_mask_options, options), text)
        for pattern, put in (
            (_KEY, "[private key removed]"),
            (_URL_PASSWORD, "[removed]@"),
            (_HEADER, r"\1 [removed]"),
            (_QUERY, r"\1[removed]"),
            (_WEBHOOK, "[removed]"),
            (_BEARER, r"\1 [removed]"),
            (_SECRET, r"\1\2[removed]"),
            (_CLOUD_KEY, "[key removed]"),
            (_MAIL, "[mail removed]"),
            (_ADDRESS, "[address removed]"),
            (_HOME, r"/\1/USER"),
        ):
            text = pattern.sub(put, text)
        for names, more in ((self.hosts, r"(?:\.[A-Za-z][A-Za-z0-9-]*)*"), (self.users, "")):
            for name, word in sorted(names.items(), key=lambda pair: -len(pair[0])):
                text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}{more}(?![A-Za-z0-9])", word, text)
        return _DOMAIN.sub("[host removed]", text)

    def value(self, value: Any, name: str = "") -> Any:
        """Redact a JSON value throughout; what stands under a name of secrets is removed whole."""
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(entry, str(key)) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            # An option's value is the next word of a command.
            before = ("", *value)
            secret = [isinstance(one, str) and _SECRET_OPTION.fullmatch(one) is not None for one in before]
            plain = _without_options(value)
            return ["[removed]" if after else self.value(entry) for after, entry in zip(secret, plain, strict=False)]
        if isinstance(value, str):
            return "[removed]" if name and _SECRET_NAME.fullmatch(name) and value else self.text(value)
        return value


def _without_options(words: Sequence[Any]) -> list[Any]:
    """Remove the values of programs' options from a command; see :data:`_PROGRAMS`."""
    found = list(words)
    known: list[re.Pattern[str]] = []
    for at, word in enumerate(found):
        if not isinstance(word, str):
            continue
        for options in known:
            # The option alone: its value is the next word.
            if options.fullmatch(f"{word} x") and at + 1 < len(found):
                found[at + 1] = "[removed]"
            elif (match := options.match(word)) and not word[match.end(1) - 1].isspace():
                found[at] = f"{match[1]}[removed]"
        name = Path(word).name
        known += [options for names, options in _PROGRAMS if re.fullmatch(names, name)]
    return found


def helpdesk_bundle(record: Record, trials: Sequence[Trial]) -> bytes:
    """Write a ZIP archive of an experiment for those who are to help.

    It holds the definition, facts, result, all runs, the reports of the runtime, and the end of the output of the runs
    that failed (of others: the first). Names of users and hosts, addresses, passwords and tokens are replaced; the
    archive's README says what is in it, so that it can be checked before it is sent.

    Returns
    -------
    bytes
        The archive. The same experiment always gives the same names of files.
    """
    redactor = Redactor.of(record, trials)
    runs = sorted((run for trial in trials for run in trial.runs), key=lambda run: run.number)
    files: dict[str, str] = {
        "experiment.json": _json(redactor.value(record.experiment.model_dump(mode="json"))),
        "facts.json": _json(redactor.value({"state": record.state, **record.facts})),
        "result.json": _json(redactor.value(record.result.as_json() if record.result else None)),
        "runs.json": _json(redactor.value([_run(run, trial) for trial in trials for run in trial.runs])),
    }
    for run in runs:
        if run.facts.report:
            files[f"reports/run-{run.number}.json"] = _json(redactor.value(run.facts.report))
    for run, name, text in _logs(runs):
        files[f"output/run-{run.number}-{name}.txt"] = redactor.text(text)
    files["README.txt"] = _readme(record, sorted(files))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(f"stripewise-{record.id}/{name}", files[name].encode("utf-8", "backslashreplace"))
    return buffer.getvalue()


def _run(run: Run, trial: Trial) -> dict[str, Any]:
    return {
        **run.as_json(),
        "role": trial.role.value,
        "configuration": dict(trial.configuration),
        "facts": {key: value for key, value in run.facts.items() if key != "report"},
    }


def _logs(runs: Sequence[Run]) -> Iterable[tuple[Run, str, str]]:
    """The end of the output of the runs that failed, the latest first, and of the first run."""
    failed = [run for run in reversed(runs) if run.state is State.FAILED][:_MOST_LOGS]
    for run in [*failed, *(run for run in runs[:1] if run not in failed)]:
        for name in ("stdout", "stderr"):
            text = log_tail(run, name)
            if text:
                yield run, name, text


def log_tail(run: Run, name: str, most: int = _TAIL) -> str | None:
    """Read the end of a run's ``stdout`` or ``stderr``.

    Returns
    -------
    str or None
        None where the run has no folder, or its file is gone.

    Raises
    ------
    StripewiseError
        If there is such a file and it cannot be read.
    """
    folder = run.facts.folder
    if not folder or name not in ("stdout", "stderr"):
        return None
    path = Path(str(folder)) / name
    try:
        if path.is_symlink() or not path.is_file():
            return None
        with path.open("rb") as file:
            size = file.seek(0, io.SEEK_END)
            file.seek(max(0, size - most))
            text = file.read(most).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StripewiseError(f"cannot read {path}: {error.strerror}", "check its permissions") from error
    return text if size <= most else f"[the first {size - most:,} bytes are left out]\n{text}"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _readme(record: Record, names: Sequence[str]) -> str:
    made = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    listed = "\n".join(f"  {name}" for name in names)
    return (
        f"Stripewise {__version__}, experiment {record.id}, {record.state}, bundled {made}\n\n"
        "Replaced or removed: names of users and hosts, mail and IP addresses, home folders, values of variables and\n"
        "options whose names say that they are tokens, passwords or keys, passwords in addresses, and keys of known\n"
        "shapes. Programs print anything: read the files under output/ before you send this.\n\n"
        f"{listed}\n"
    )
