"""What an export is made from and made of, and the parts that several exports share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stripewise.catalogue.carriers import HINT, PNETCDF, Carrier, Expressed, Form, Setting, hint_lines
from stripewise.catalogue.configuration import Value
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.stack import breakage
from stripewise.shell import assign, quote


@dataclass(frozen=True)
class Export:
    """A plan as another tool takes it.

    Attributes
    ----------
    text : str
        To be copied: a file's content or shell lines.
    undo : str
        What takes the effect back.
    cannot : list of str
        What of the plan is missing from the text, and why; empty if all is there.
    use : str
        Where the text goes.
    wins : str
        Who wins each key where several set it.
    filename : str
        A usual name for the text.
    empty : bool
        Whether nothing of the plan could be written; the text is then a comment that says so.
    """

    text: str
    undo: str
    cannot: list[str] = field(default_factory=list)
    use: str = ""
    wins: str = ""
    filename: str = ""
    empty: bool = False


@dataclass(frozen=True)
class Request:
    """What an export is made from.

    Attributes
    ----------
    plan, library, directory, program, changed
        See :func:`stripewise.output.export.export`.
    """

    plan: Plan
    library: str
    directory: str
    program: str
    changed: Mapping[str, Value]

    @property
    def hints(self) -> tuple[Setting, ...]:
        """MPI-IO hints."""
        return self.plan.of(HINT)

    @property
    def pnetcdf(self) -> tuple[Setting, ...]:
        """PnetCDF's own hints."""
        return self.plan.of(PNETCDF)

    def express(
        self, *forms: Form, mpi: str = "", place: str = "", otherwise: str = ""
    ) -> tuple[dict[Form, list[tuple[str, str]]], list[str]]:
        """Ask each carrier to write its settings in the first of some forms that it knows.

        Parameters
        ----------
        *forms : Form
        mpi, place : str
            See :meth:`~stripewise.catalogue.carriers.Carrier.express`.
        otherwise : str
            Why a setting is missing whose carrier knows none of the forms; empty if it travels otherwise.

        Returns
        -------
        (dict, list of str)
            Names and values by form, and what cannot be expressed.
        """
        pairs: dict[Form, list[tuple[str, str]]] = {form: [] for form in forms}
        cannot: list[str] = []
        for carrier in Carrier.known.values():
            settings = self.plan.of(carrier)
            if not settings:
                continue
            said: Expressed | None = None
            for form in forms:
                said = carrier.express(form, settings, mpi=mpi, place=place)
                if said is not None:
                    pairs[form] += said.pairs
                    cannot += said.cannot
                    break
            if said is None and otherwise:
                cannot += [setting.but(otherwise) for setting in settings]
        return pairs, cannot

    @property
    def needs_runtime(self) -> list[str]:
        """Why files and variables alone cannot carry the plan; empty if they can."""
        plan = self.plan
        reasons = [
            reason
            for carrier in Carrier.known.values()
            if (settings := plan.of(carrier))
            for reason in carrier.needs_runtime(settings, override=plan.override, pattern=plan.files)
        ]
        return [*reasons, "gives files of other names settings of their own"] if plan.sections else reasons

    @property
    def elsewhere(self) -> list[str]:
        """Settings of further sections, which only a plan can hold."""
        return [
            f"{setting.line()} for files {files}: only a plan has settings for several groups of files"
            for files, settings in self.plan.sections
            for setting in settings
        ]

    @property
    def cautions(self) -> dict[str, str]:
        """Which programs must not get a setting, by its key, as its stack says."""
        broken = {setting.key: breakage(setting) for setting in self.plan.settings}
        return {key: one.caution(key) for key, one in broken.items() if one is not None}

    @property
    def scope(self) -> list[str]:
        """What carriers that act on the whole process lose of a plan's reach."""
        plan = self.plan
        lost = [f"the limit to files {plan.files}: this acts on all files of the program"] if plan.files != "*" else []
        return lost + (["override: here the program's own hints win"] if plan.override else [])


def exported(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Shell lines that export variables, and the line that takes them back."""
    known = dict(pairs)
    lines = [assign(name, value) for name, value in known.items()]
    return lines, [f"unset {' '.join(known)}"] if known else []


def hints_file(lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """Shell lines that write a hints file and name it to ROMIO, and what takes it back."""
    written = [*heredoc("stripewise.hints", "".join(lines)), 'export ROMIO_HINTS="$PWD/stripewise.hints"']
    return written, ["unset ROMIO_HINTS", "rm -f stripewise.hints"]


def heredoc(path: str, content: str) -> list[str]:
    """Shell lines that write a file."""
    # Only a line feed ends a here-document's line; every line of a plan or hints file has two words at least.
    return [f"cat > {path} <<'END_OF_SETTINGS'", *content.removesuffix("\n").split("\n"), "END_OF_SETTINGS"]


def text(lines: Iterable[str]) -> str:
    """Join lines."""
    return "".join(f"{line}\n" for line in lines)


def hints(request: Request) -> Export:
    """The file that ``ROMIO_HINTS`` names."""
    pairs, cannot = request.express(Form.HINTS, otherwise="is not an MPI-IO hint")
    lines, refused = hint_lines(pairs[Form.HINTS])
    return Export(
        "".join(lines),
        "unset ROMIO_HINTS\nrm -f stripewise.hints\n",
        [*cannot, *refused, *request.scope],
        'save as stripewise.hints, then: export ROMIO_HINTS="$PWD/stripewise.hints" (a whole path, readable on rank 0)',
        "the program's own MPI_Info wins over this file; this file replaces /etc/romio-hints. ROMIO ignores an "
        "unreadable file silently. Open MPI's OMPIO does not read it.",
        "stripewise.hints",
    )


def lfs(request: Request) -> Export:
    """Commands that give a directory a default layout for the files to be created in it."""
    directory = request.directory
    # No command takes a path that begins with ./ for an option.
    operand = f"./{directory}" if directory.startswith("-") else directory
    place = quote(operand) if directory != "DIRECTORY" else "DIRECTORY"
    pairs, cannot = request.express(Form.COMMANDS, place=place, otherwise="is not a file layout")
    lines = [line for line, _ in pairs[Form.COMMANDS] if line]
    undo = [line for _, line in pairs[Form.COMMANDS] if line]
    if lines:
        undo.append("# files written in between keep their layout; copy them to change it")
    return Export(
        text(lines),
        text(undo),
        cannot,
        "run it once; only files created afterwards in the directory are laid out so",
        "what the program or ROMIO asks for at creation wins over the directory's layout; existing files keep theirs.",
        "stripewise-layout.sh",
    )
