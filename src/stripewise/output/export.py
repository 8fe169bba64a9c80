"""A plan written for other tools: hints files, job scripts, vendors' variables, file-system commands.

Pure text in and out. Each export says how to use it, how to undo it, who wins each key, and what it cannot express, so
that nothing of a plan is lost silently.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from textwrap import fill

from stripewise.catalogue.carriers import (
    HDF5,
    HINT,
    LAYOUT,
    MCA,
    PNETCDF,
    Carrier,
    Expressed,
    Form,
    Setting,
    hint_lines,
)
from stripewise.catalogue.configuration import Value
from stripewise.catalogue.filesystems import GENERIC, of_file
from stripewise.catalogue.meaning import find_breakage
from stripewise.catalogue.plan import Plan, write_caution
from stripewise.documents import toml_value
from stripewise.errors import UserError, choose
from stripewise.formats import PLAN_HEADER
from stripewise.observe.chunk_shapes import OWN, entries_of
from stripewise.shell import assign, make_showable, quote

_NOTHING = "# the plan sets nothing: the program runs with its defaults\n"
_ELSEWHERE = "# none of the plan's settings can be written in this form\n"


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
        broken = {setting.key: find_breakage(setting) for setting in self.plan.settings}
        return {key: one.caution(key) for key, one in broken.items() if one is not None}

    @property
    def scope(self) -> list[str]:
        """What carriers that act on the whole process lose of a plan's reach."""
        plan = self.plan
        lost = [f"the limit to files {plan.files}: this acts on all files of the program"] if plan.files != "*" else []
        return lost + (["override: here the program's own hints win"] if plan.override else [])


def export_variables(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Shell lines that export variables, and the line that takes them back."""
    known = dict(pairs)
    lines = [assign(name, value) for name, value in known.items()]
    return lines, [f"unset {' '.join(known)}"] if known else []


def hints_file(lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """Shell lines that write a hints file and name it to ROMIO, and what takes it back."""
    content = "".join(lines)
    path = _name_of(content, "hints")
    return heredoc(path, content, "ROMIO_HINTS"), ["unset ROMIO_HINTS", f"rm -f {path}"]


def _name_of(content: str, ending: str) -> str:
    """Name a file by its content: jobs of one folder must not write over each other's settings."""
    return f"stripewise-{hashlib.sha256(content.encode()).hexdigest()[:8]}.{ending}"


def heredoc(path: str, content: str, variable: str) -> list[str]:
    """Shell lines that write a file as a whole, since another job of the folder may be reading it, and export its path.

    A file or link that another user put there, and that cannot be replaced, is not named.
    """
    # Only a line feed ends a here-document's line; every line of a plan or hints file has two words at least.
    lines = content.removesuffix("\n").split("\n")
    part = f"{path}.$$"
    # Under -C the shell writes through no link that another user of the folder has put there. A script with -e ends.
    write = f"(set -C; cat > {part}) <<'END_OF_SETTINGS' && mv -f {part} {path}"
    name = f'test -f {path} && test ! -L {path} && export {variable}="$PWD/{path}" || false'
    return [f"rm -f {part}", f"{write} && {name}", *lines, "END_OF_SETTINGS"]


def join_lines(lines: Iterable[str]) -> str:
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
        join_lines(lines),
        join_lines(undo),
        cannot,
        "run it once; only files created afterwards in the directory are laid out so",
        "what the program or ROMIO asks for at creation wins over the directory's layout; existing files keep theirs.",
        "stripewise-layout.sh",
    )


def plan_file(request: Request) -> Export:
    """The plan file itself."""
    return Export(
        request.plan.text(),
        "rm -f stripewise.plan\n",
        [],
        "save as stripewise.plan, then: stripewise run stripewise.plan -- COMMAND",
        _plan_wins(request.plan),
        "stripewise.plan",
    )


def _plan_wins(plan: Plan) -> str:
    if plan.override:
        return "the plan wins over the program's own hints (override yes)."
    return "the program's own hints win over the plan (override no); the report names each key that lost."


def shell(request: Request) -> Export:
    """Shell lines that set all that the environment can carry, and preload the runtime where that is not enough."""
    pairs, cannot = request.express(Form.VARIABLES)
    lines, undo = export_variables(pairs[Form.VARIABLES])
    wins = ["PNETCDF_HINTS wins over the program's own."] if request.pnetcdf else []
    reasons = request.needs_runtime
    use = "source it in sh, bash, ksh or zsh, or in a job script of these, before the program starts"
    if reasons:
        text = request.plan.text()
        path = _name_of(text, "plan")
        lines += heredoc(path, text, "STRIPEWISE_PLAN")
        lines += ["export STRIPEWISE_MODE=apply", _library(request)]
        lines += [
            f"# the runtime {' and '.join(reasons)}, so it is preloaded, directly before the program:",
            f"# mpiexec -n 4 {_preload()} {request.program}",
        ]
        undo += ["unset STRIPEWISE_MODE STRIPEWISE_PLAN STRIPEWISE_LIBRARY", f"rm -f {path}"]
        wins.append(_plan_wins(request.plan))
        use += "; then start the program as its last line shows"
    elif request.hints:
        made, back = hints_file(f"{s.key} {s.value}\n" for s in request.hints)
        lines, undo = lines + made, undo + back
        wins.append("the program's own MPI_Info wins over ROMIO_HINTS; Open MPI's OMPIO does not read it.")
    if request.plan.of(MCA):
        wins.append("mpirun --mca wins over OMPI_MCA_* variables, which win over mca-params.conf.")
    return Export(join_lines(lines), join_lines(undo), cannot, use, " ".join(wins), "stripewise.sh")


def sbatch(request: Request) -> Export:
    """A snippet of a Slurm job script."""
    base = shell(request)
    if not base.text:
        return Export("", "", base.cannot, "the job script stays as it is", "", "stripewise-job.sh")
    lines = [line for line in base.text.removesuffix("\n").split("\n") if not line.startswith("# mpiexec")]
    prefix = f"{_preload()} " if request.needs_runtime else ""
    lines += [
        "# --export=ALL keeps the variables above; --export=NAME=VALUE would drop others",
        f"srun --export=ALL {prefix}{request.program}",
    ]
    use = "put it into the job script in place of the srun line; submit with sbatch --export=ALL (its default)"
    if prefix:
        use += ". LD_PRELOAD stands directly before the program, so srun and the shell stay untouched"
    undo = "restore the old srun line and remove the lines above it\n"
    return replace(base, text=join_lines(lines), undo=undo, use=use, filename="stripewise-job.sh")


def _library(request: Request) -> str:
    if request.library:
        return assign("STRIPEWISE_LIBRARY", request.library)
    ask = "set it to the library that stripewise site native build names on the login node"
    return f': "${{STRIPEWISE_LIBRARY:?{ask}}}"'


def _preload() -> str:
    return 'env LD_PRELOAD="$STRIPEWISE_LIBRARY${LD_PRELOAD:+:$LD_PRELOAD}"'


def _toml_key(name: str) -> str:
    # A result in a shared store may name anything.
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def toml(request: Request) -> Export:
    """Tables that narrow the next experiment to the values found and the defaults."""
    lines: list[str] = []
    cannot: list[str] = []
    if request.plan.settings and not request.changed:
        cannot.append("the plan's settings: an experiment names parameters, and this plan does not say which they were")
    for name, value in request.changed.items():
        if isinstance(value, bool):
            cannot.append(f"{name}={str(value).lower()}: a boolean parameter always has both values")
            continue
        lines += [f"[parameters.{_toml_key(name)}]", f"values = [{toml_value(value)}]", ""]
    if lines:
        lines.insert(0, "# narrows the next experiment to these values and the defaults")
    return Export(
        join_lines(lines).rstrip("\n") + "\n" if lines else "",
        "remove these tables from the experiment file\n",
        cannot,
        "add it to an experiment file; the default of each parameter stays in the space, as the baseline",
        "an experiment file wins over the stack files that it names.",
        "parameters.toml",
    )


_INTEL = {"cb_nodes": "I_MPI_FILESYSTEM_CB_NODES", "cb_config_list": "I_MPI_FILESYSTEM_CB_CONFIG_LIST"}
_RUNTIME = "needs the runtime: use the shell export"


def cray(request: Request) -> Export:
    """``MPICH_MPIIO_HINTS``."""
    pairs, cannot = request.express(Form.VARIABLES, Form.HINTS, mpi="cray", otherwise=_RUNTIME)
    lines, undo = export_variables(pairs[Form.VARIABLES])
    good = []
    for key, value in pairs[Form.HINTS]:
        if any(c in key + value for c in ":,"):
            cannot.append(f"{key}={value}: MPICH_MPIIO_HINTS separates at ':' and ',' and cannot hold such a value")
        else:
            good.append(f"{key}={value}")
    if good and any(c in request.plan.files for c in ":,"):
        cannot += [f"{pair}: the file pattern {request.plan.files} has a ':' or ','" for pair in good]
        good = []
    if good:
        joined = ",".join(":".join([name, *good]) for name in _patterns(request.plan))
        lines.append(assign("MPICH_MPIIO_HINTS", joined))
        lines += ["# prints the hints in force at each open, as evidence:", "export MPICH_MPIIO_HINTS_DISPLAY=1"]
        undo.append("unset MPICH_MPIIO_HINTS MPICH_MPIIO_HINTS_DISPLAY")
    return Export(
        join_lines(lines),
        join_lines(undo),
        cannot,
        "put it into the job script, before srun or aprun",
        "MPICH_MPIIO_HINTS is expected to win over the program's own MPI_Info; what MPICH_MPIIO_HINTS_DISPLAY prints "
        "decides.",
        "stripewise-cray.sh",
    )


def _patterns(plan: Plan) -> list[str]:
    """Cray's patterns are matched against the name as the program gives it, a plan's also against the base name."""
    return [plan.files] if plan.files == "*" or "/" in plan.files else [plan.files, f"*/{plan.files}"]


def intel(request: Request) -> Export:
    """``I_MPI_FILESYSTEM`` variables, and a hints file for what they do not know."""
    pairs, cannot = request.express(Form.VARIABLES, Form.HINTS, mpi="intel", otherwise=_RUNTIME)
    lines, undo = export_variables(pairs[Form.VARIABLES])
    hints = pairs[Form.HINTS]
    direct = [(_INTEL[key], value) for key, value in hints if key in _INTEL]
    system = _driver(request, [key for key, _ in hints])
    forced = [("I_MPI_FILESYSTEM_FORCE", system)] if system else []
    if direct or forced:
        lines.append("# Intel MPI 2021.11 and later; before that, I_MPI_EXTRA_FILESYSTEM=1 and the hints file alone")
        made, back = export_variables([("I_MPI_FILESYSTEM", "1"), *forced, *direct])
        lines, undo = lines + made, undo + back
    others, too_much = hint_lines(hints)
    if others:
        made, back = hints_file(others)
        lines, undo = lines + made, undo + back
    return Export(
        join_lines(lines),
        join_lines(undo),
        cannot + too_much + (request.scope if hints else []),
        "put it into the job script, before mpirun",
        "the I_MPI_FILESYSTEM variables act on every file of the process; the program's own MPI_Info wins over "
        "ROMIO_HINTS. I_MPI_FILESYSTEM=1 switches native file-system support on, which may open files with another "
        "driver than the one that was measured: measure once more.",
        "stripewise-intel.sh",
    )


def _driver(request: Request, hints: list[str]) -> str:
    """The file system whose driver ROMIO must use for the plan to act; empty if any serves."""
    named = [setting.layer for setting in request.plan.of(LAYOUT)]
    named += [key.split("_")[1] for key in hints if key.startswith("romio_") and key.count("_") > 1]
    return next((system.name for kind in named if (system := of_file(kind)) is not GENERIC), "")


def openmpi(request: Request) -> Export:
    """``OMPI_MCA`` variables and lines of a parameter file."""
    pairs, cannot = request.express(Form.MCA, Form.VARIABLES, mpi="openmpi", otherwise=_RUNTIME)
    parameters = pairs[Form.MCA]
    lines, undo = export_variables(
        [*pairs[Form.VARIABLES], *((f"OMPI_MCA_{name}", value) for name, value in parameters)]
    )
    if parameters:
        lines.append("# or, for all your jobs, these lines in $HOME/.openmpi/mca-params.conf (without the #):")
        lines += [f"#   {name} = {value}" for name, value in parameters]
        undo.append("# and take the lines out of $HOME/.openmpi/mca-params.conf again")
    return Export(
        join_lines(lines),
        join_lines(undo),
        cannot + (request.scope if parameters else []),
        "put it into the job script, before mpirun",
        "mpirun --mca NAME VALUE wins over OMPI_MCA_NAME, which wins over $HOME/.openmpi/mca-params.conf, which wins "
        "over the installation's openmpi-mca-params.conf. All act on the whole process.",
        "stripewise-openmpi.sh",
    )


_RESHAPE = """#!/bin/sh
# usage: sh {script} FILE NEW
set -efu
old=$1 new=$2
case $old in -*) old=./$old ;; esac
case $new in -*) new=./$new ;; esac
# It may be a link to the old file, which nccopy would empty before it reads it.
if [ -e "$new" ] || [ -L "$new" ]; then
    echo "$new exists: name a new file" >&2
    exit 1
fi
tab=$(printf '\\t')
# Targets of links stand behind a blank, and may hold anything, also what arithmetic of bash would run.
name='[^ \\]*\\(\\\\.[^ \\]*\\)*' sizes='[0-9Inf/, ]*'
listed=$(h5ls -r "$old")
datasets=$(printf '%s\\n' "$listed" | sed -n "s|^\\($name\\)  *Dataset {{\\($sizes\\)}}.*|\\3$tab\\1|p")
set --
while IFS=$tab read sizes name; do # h5ls writes \\ before blanks
    case $name in *[,:]*)
        echo "$name keeps its chunks: {tool} takes no name with a comma or a colon" >&2
        continue ;;
    esac
    sizes=$(echo "$sizes" | tr -d ' ' | tr ',' ' ')
    case "$(echo "$sizes" | wc -w | tr -d ' ')=$name" in
{cases}
    *) continue ;;
    esac
    chunk=
    for size in $sizes; do
        size=${{size%%/*}} want=${{shape%% *}} shape=${{shape#* }}
        case $want in
        '*') want=$size ;;
        '*/'*) want=$(((size + ${{want#*/}} - 1) / ${{want#*/}})) ;;
        esac
        [ "$want" -le "$size" ] || want=$size
        chunk=${{chunk:+${{chunk}}{between}}}$want
    done
    set -- "$@" {option}
done <<EOF
$datasets
EOF
# NEW is there once it is whole, also where the copy is interrupted.
part=$(mktemp -d "$new.XXXXXX")
trap 'rm -rf "$part"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
{command}
mv "$part/copy" "$new"
"""
"""Chunks for a tool that takes numbers: dimensions are known where the file is."""
_DIMENSION = re.compile(r"[1-9]\d{0,18}|\*(/[1-9]\d{0,18})?")
# nccopy leaves chunks below 8 KiB out, unless -M says otherwise.
_RESHAPERS = {
    "h5repack": ("x", '-l "${name#/}:CHUNK=$chunk"', 'h5repack "$@" "$old" "$part/copy"'),
    "nccopy": (",", '-c "${name#/}:$chunk"', 'nccopy -M 0 "$@" "$old" "$part/copy"'),
}


def reshape(request: Request, tool: str) -> Export:
    """A script that copies a file so that its datasets have the plan's shapes of chunks."""
    shapes = [s for s in request.plan.of(HDF5) if s.key == "chunk_shape" and s.value != OWN]
    others = [s for s in request.plan.settings if s not in shapes]
    cannot = [s.but("is not a shape of chunks") for s in others]
    if not shapes:
        return Export("", "", cannot)
    cases = []
    entries = list(entries_of(shapes[0].value))
    if not all(_DIMENSION.fullmatch(one) for _, dimensions in entries for one in dimensions):
        return Export("", "", [*cannot, shapes[0].but("is no shape of chunks")])
    for pattern, dimensions in entries:
        # Stars and question marks stay outside of quotes: a shell matches them as the runtime does.
        glob = "".join(part if part in ("*", "?") else quote(part) for part in re.split(r"([*?])", pattern) if part)
        places = f"{len(dimensions)}=/{glob} | {len(dimensions)}=*/{glob}" if pattern else f"{len(dimensions)}=*"
        cases.append(f"    {places}) shape={quote(' '.join(dimensions))} ;;")
    between, option, command = _RESHAPERS[tool]
    script = f"stripewise-{tool}.sh"
    text = _RESHAPE.format(
        script=script, tool=tool, cases="\n".join(cases), between=between, option=option, command=command
    )
    return Export(
        text,
        "# the old file is as it was: use it again\n",
        cannot,
        f"sh {script} FILE NEW copies FILE",
        "the file that exists is only read.",
        script,
    )


def export(
    plan: Plan,
    target: str,
    *,
    library: str = "",
    directory: str = "",
    program: str = "",
    changed: Mapping[str, Value] | None = None,
    cautions: Sequence[str] = (),
) -> Export:
    """Write a plan for another tool.

    Parameters
    ----------
    target : str
        One of :data:`TARGETS`.
    library : str
        Path of the runtime, where known; otherwise the text asks for it.
    directory : str
        The directory that gives new files their layout, for ``lfs``.
    program : str
        The program with its arguments, for ``sbatch``.
    changed : mapping, optional
        Parameters with their values, for ``toml``: an experiment names parameters, a plan their carriers' keys.
    cautions : sequence of str, optional
        Where settings of the plan are expected to harm, as sentences, besides those that the plan names itself.

    Raises
    ------
    UserError
        If the target is unknown, the plan cannot be written, or the program does not fit on one line.
    """
    if target not in _WRITERS:
        raise UserError(f"no export is called '{target}'", choose(target, TARGETS))
    plan.text()  # refuses keys and values that no file or variable can carry
    if not program.isprintable():
        raise UserError(f"the program {program[:60]!r} does not fit on one line", "write it without control characters")
    warned = tuple(dict.fromkeys([*plan.cautions, *cautions]))
    plan = replace(plan, cautions=())
    request = Request(plan, library, directory or "DIRECTORY", program or "./my_app", dict(changed or {}))
    made = _WRITERS[target][1](request)
    if PLAN_HEADER not in made.text:
        made = replace(made, cannot=[*made.cannot, *request.elsewhere])
        if target != "toml":  # an experiment finds out itself
            made = _add_cautions(made, request, comment="" if target == "hints" else "# ")
    if made.text and warned:
        made = _warn(made, warned, commented=target != "hints")
    if made.text:
        return made
    anything = plan.settings or plan.sections
    return replace(made, text=_ELSEWHERE if anything else _NOTHING, use="", undo="", wins="", empty=True)


def _add_cautions(made: Export, request: Request, comment: str) -> Export:
    """Say beside the text, and in it where it has comments, which programs must not get it without the runtime."""
    cautions = [caution for key, caution in request.cautions.items() if key in made.text]
    if not cautions:
        return made
    comments = "".join(_comment(caution) for caution in cautions) if comment else ""
    return replace(made, text=comments + made.text, use="; ".join([made.use, *cautions]))


def _comment(sentence: str) -> str:
    """Write a sentence as lines of comments that fit a terminal."""
    text = make_showable(sentence)
    return fill(text, 80, initial_indent="# ", subsequent_indent="#   ", break_long_words=False) + "\n"


def _warn(made: Export, cautions: Sequence[str], *, commented: bool) -> Export:
    """Say beside the text, and in it where it has comments, where its settings are expected to harm."""
    first, newline, rest = made.text.partition("\n")
    begins = first == PLAN_HEADER  # which must stay the first line
    if begins:
        # The runtime reads a plan by its lines.
        text = f"{first}{newline}{join_lines(map(write_caution, cautions))}{rest}"
    else:
        text = "".join(_comment(f"caution: {one}") for one in cautions if commented) + made.text
    return replace(made, text=text, use=" ".join([f"{made.use}.", *cautions]).removesuffix("."))


_WRITERS: dict[str, tuple[str, Callable[[Request], Export]]] = {
    "hints": ("ROMIO hints file", hints),
    "plan": ("Plan of Stripewise", plan_file),
    "shell": ("Shell", shell),
    "sbatch": ("Slurm job script", sbatch),
    "cray": ("Cray MPICH", cray),
    "intel": ("Intel MPI", intel),
    "openmpi": ("Open MPI", openmpi),
    "lfs": ("File-system layout of a directory", lfs),
    "toml": ("Experiment file", toml),
    "h5repack": ("Chunks of HDF5 files", partial(reshape, tool="h5repack")),
    "nccopy": ("Chunks of netCDF-4 files", partial(reshape, tool="nccopy")),
}
TARGETS = tuple(_WRITERS)
"""The names of the exports."""
TITLES = {name: title for name, (title, _) in _WRITERS.items()}
"""What people call them."""
