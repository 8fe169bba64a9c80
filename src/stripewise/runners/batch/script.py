"""The shell script that carries out one run within a job, as text; and the job script that a user may have.

Compute nodes do not need Python: bash and coreutils do the local runner's work. The script leaves two records in
the run's folder, each written whole or not at all: ``began`` when it starts, ``ended`` when it finishes. The runner
believes the records. The scheduler only tells it when no record will come any more. What is printed goes through pipes,
as in a local run: the processes that write it to the folder know whether the file system took all of it. Before
anything else the script makes the link ``owner`` to its job's number, and only one job can make it. A job that finds
the link of another job, or of a runner that has given the run up, ends at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stripewise.requests.experiment import Experiment
from stripewise.runners.hooks import describe_foreign_link, describe_link, describe_outside
from stripewise.runners.local.supervision import Cause, Ended
from stripewise.runners.program.mpi import SESSIONS
from stripewise.runners.schedulers.base import Scheduler
from stripewise.runners.schedulers.job import OUTSIDE, Directives, Inside
from stripewise.runners.setup_lines import write_prologue
from stripewise.shell import assign_all, quote, quote_all, variable_name

BEGAN = "began"
ENDED = "ended"
OWNER = "owner"
_SHELL = "/bin/bash"
_KILL_AFTER = 3
_SCRIPT_LIMIT = 1 << 20
_SET_SECONDS = 0.1
"""By which the two clocks of a moment differ at most while nobody sets one; the even one counts hundredths."""

_HEAD = """\
#!/bin/bash
# One run under Stripewise. It runs once, whatever the scheduler does: see owner, began and ended beside it.
cd {cwd} || exit 66
__folder={folder}
__now() {{
    local t=${{EPOCHREALTIME:-}} u=
    [ -n "$t" ] || t=$(date +%s.%N)
    read -r u _ 2>/dev/null < /proc/uptime
    printf '%s %s' "${{t/,/.}}" "$u"
}}
__record() {{ cat > "$__folder/$1.part" && mv -f "$__folder/$1.part" "$__folder/$1"; }}
__keep() {{ # In a process that ends with its pipe, not by a signal to the job, and for which no "wait" waits.
    ( {{ trap '' HUP INT QUIT TERM USR1 USR2 XCPU
        exec < "$__folder/$1.pipe"
        if cat > "$__folder/$1"; then rm -f "$__folder/$1.open"
        else mv -f "$__folder/$1.open" "$__folder/$1.lost"; cat; fi
    }} > /dev/null 2>&1 & )
}}
__settle() {{ # What a program left behind may print for ever is waited for as long as in a local run.
    local tries=0 name
    exec > /dev/null 2>&1
    while [ -e "$__folder/stdout.open" ] || [ -e "$__folder/stderr.open" ]; do
        [ "$((tries += 1))" -le 100 ] && sleep 0.05 || break
    done
    for name in stdout stderr; do [ ! -e "$__folder/$name.lost" ] || __lost=$name; done
}}
__end() {{
    local said=${{3:-}}
    __settle
    [ -z "${{__sessions:-}}" ] || rm -rf -- "$__sessions"
    printf '%s\\n' "job $__job" "cause $1" "code ${{2:-}}" "begin ${{__begin:-}}" "end ${{__end:-}}" \\
        "job_begin $__job_begin" "job_end $(__now)" "cache ${{__cache:-unknown}}" "lost ${{__lost:-}}" \\
        "message ${{said//$'\\n'/ }}" | __record {ended}
    exit 0
}}
__trim() {{
    local size; size=$(stat -c %s "$1" 2>/dev/null) || return 0
    [ "$size" -le {limit} ] && return 0
    {{ head -c {half} "$1"
      printf '\\n[stripewise: %s bytes of %s left out here]\\n' "$((size - {limit}))" "$size"
      tail -c {half} "$1"; }} > "$1.part" && mv -f "$1.part" "$1"
}}
__hook() {{
    timeout --kill-after=3 {hook_seconds} {shell} -c "$2" > "$__folder/$1.stdout" 2> "$__folder/$1.stderr" < /dev/null
}}
__killed() {{
    local kind path
    while IFS=: read -r _ kind path; do
        case ,$kind, in
        ,,) path=/sys/fs/cgroup$path/memory.events ;;
        *,memory,*) path=/sys/fs/cgroup/memory$path/memory.oom_control ;;
        *) continue ;;
        esac
        sed -n 's/^oom_kill //p' "$path"
    done 2>/dev/null < /proc/self/cgroup
    return 0
}}
__job={job}
__job_begin=$(__now)
if ! ln -s "$__job" "$__folder/{owner}" 2>/dev/null && [ "$(readlink "$__folder/{owner}")" != "$__job" ]; then
    echo "another job has this run" >&2
    exit 0
fi
rm -f "$__folder/{ended}" "$__folder"/report.json "$__folder"/report.json.[0-9]* "$__folder"/process-* \
    "$__folder"/std???.open "$__folder"/std???.lost "$__folder"/std???.pipe
printf '%s\\n' "job $__job" "nodes {nodes}" "list {list}" "restart {restarts}" \\
    "host $(hostname)" "time $__job_begin" | __record {began}
if mkfifo -m 600 "$__folder/stdout.pipe" "$__folder/stderr.pipe" &&
    true > "$__folder/stdout.open" && true > "$__folder/stderr.open"; then
    __keep stdout; __keep stderr
    exec > "$__folder/stdout.pipe" 2> "$__folder/stderr.pipe" < /dev/null
else
    # Some file systems have no pipes.
    rm -f "$__folder"/std???.open
    exec > "$__folder/stdout" 2> "$__folder/stderr" < /dev/null || __lost=all
fi
rm -f "$__folder"/std???.pipe
"""

_SESSIONS = f"""\
case $(compgen -e) in *tmpdir_base*) ;; *)
    if __sessions=$(mktemp -d "${{TMPDIR:-/tmp}}/ompi-XXXXXXXX"); then
        export {" ".join(f"{name}=$__sessions" for name in SESSIONS)}
    fi ;;
esac
"""


@dataclass(frozen=True)
class Work:
    """Everything that the job of a run does.

    Attributes
    ----------
    folder, cwd : Path
        The run's folder; and where the program runs.
    command : tuple of str
        The program with its launcher and what carries the settings.
    exports : mapping
        Variables for the setup lines, the hooks and the program; they win over what the setup lines set.
    unset : tuple of str
        Variables to take away.
    setup : tuple of str
    sessions : bool
        Whether Open MPI gets a session folder of the run's own; see
        :data:`~stripewise.runners.program.mpi.SESSIONS`.
    before, after : tuple of str
        Hooks, with placeholders replaced.
    delete : tuple of str
        Patterns of files to delete first.
    deletes_in : sequence of Path or None
        The only folders, without links, in whose depth a file may be deleted; None for any.
    caches : str
        ``none``, ``advise`` or ``system``.
    known : tuple of Path
        Files to advise out of memory.
    stdin : Path or None
        The file that the program reads; None for no input.
    seconds : float or None
        When the program is ended by force.
    bound : bool
        Whether that is the bound rather than the time limit.
    hook_seconds : float
    limit : int
        Bytes kept of each of standard output and error.
    inside : Inside
        What the job's shell knows about its job.
    """

    folder: Path
    cwd: Path
    command: tuple[str, ...]
    exports: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    sessions: bool = False
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    deletes_in: Sequence[Path] | None = None
    caches: str = "none"
    known: tuple[Path, ...] = ()
    stdin: Path | None = None
    seconds: float | None = None
    bound: bool = False
    hook_seconds: float = 600.0
    limit: int = 16 << 20
    inside: Inside = OUTSIDE


def job_script(work: Work) -> str:
    """Write the script of a run's job."""
    head = _HEAD.format(
        cwd=quote(str(work.cwd)),
        folder=quote(str(work.folder)),
        ended=ENDED,
        began=BEGAN,
        owner=OWNER,
        job=work.inside.job,
        nodes=work.inside.nodes,
        list=work.inside.node_list,
        restarts=work.inside.restarts,
        limit=work.limit,
        half=work.limit // 2,
        hook_seconds=f"{work.hook_seconds:g}",
        shell=_SHELL,
    )
    parts = [head, *_setup(work), _SESSIONS if work.sessions else "", *_deletions(work)]
    parts += [_hook("before", number, line) for number, line in enumerate(work.before, start=1)]
    parts += [_caches(work), _program(work)]
    parts += [_hook("after", number, line) for number, line in enumerate(work.after, start=1)]
    parts.append('__end "$__cause" "$__code" "${__failed:-}"\n')
    return "".join(parts)


def _setup(work: Work) -> list[str]:
    unset = f"unset -v {' '.join(map(variable_name, work.unset))}\n" if work.unset else ""
    if not work.setup:
        return [unset, assign_all(work.exports)]
    # A line that fails leaves the shell: what it printed says which line it was.
    return [
        "trap '__end setup $?' EXIT\n",
        write_prologue(work.setup, work.exports),
        "trap - EXIT\n",
        # What they set for themselves: the program is to end with any code, and patterns are to find files.
        "set +efu\n",
        unset,
    ]


_FOREIGN = r"""__foreign() {
    case $1 in /*) __left=${1#/} ;; *) __left=${PWD#/}/$1 ;; esac
    __here= __own= __links=0
    while [ -n "$__left" ]; do
        __part=${__left%%/*}
        case $__left in */*) __left=${__left#*/} ;; *) __left= ;; esac
        case $__part in ''|.) continue ;; ..) __here=${__here%/*}; continue ;; esac
        [ -n "$__left$__own" ] || __own=$__here/
        if [ -L "$__here/$__part" ]; then
            [ $((__links += 1)) -le 40 ] || return 1
            __next=$(readlink -- "$__here/$__part")
            # Looked at after it was read: whoever exchanges it has no link of this user to put there meanwhile.
            __owner=$(stat -c '%u %A' -- "$__here/")
            case $__owner in '65534 '????????w?) __owner=0 ;; esac
            case $(stat -c '%f %u' -- "$__here/$__part") in
            a*" $(id -u)" | a*' 0' | a*" ${__owner%% *}") ;;
            *) __link=$__here/$__part; return 0 ;; esac
            case $__next in /*) __here= ;; esac
            __left=$__next/$__left
        else
            __here=$__here/$__part
        fi
    done
    return 1
}
"""
"""Follows a path to its end, or to a link of another user, as :mod:`stripewise.runners.hooks` does."""


def _deletions(work: Work) -> list[str]:
    """Delete files as :func:`stripewise.runners.hooks.delete` does."""
    folders = work.deletes_in
    # The shell stays in the folder that it has looked at, whatever becomes of the path.
    allowed = "" if folders is None else "|".join(f"{quote(str(one).rstrip('/'))}/*" for one in folders) or "''"
    confined = f'case "$(pwd -P)/" in {allowed}) ;; *) exit 3 ;; esac; ' if allowed else ""
    loops = [
        f"for __file in {_globbed(pattern)}; do\n"
        f'    ! __foreign "$__file" || __end hook "" "{describe_foreign_link("$__link", "$__file")}"\n'
        "    __target=$__here __folder_of=${__here%/*}\n"
        '    { [ -e "$__target" ] || [ -L "$__target" ]; } && [ ! -d "$__target" ] || continue\n'
        f"{_links(pattern)}"
        '    (cd -P -- "$__folder_of/" && [ "$(pwd -P)" = "${__folder_of:-/}" ] || exit 1\n'
        f'    {confined}rm -f -- "./${{__target##*/}}")\n'
        f'    case $? in 0) ;; 3) __end hook "" "{describe_outside("$__file")}" ;;\n'
        '    *) __end hook "" "cannot delete $__file before the run" ;; esac\n'
        "done\n"
        for pattern in work.delete
    ]
    return [_FOREIGN, *loops] if loops else []


def _links(pattern: str) -> str:
    """End the run at a link that a pattern finds and that may have been planted."""
    if not any(c in pattern.rpartition("/")[2] for c in "*?["):
        return ""
    return (
        '    if [ "$__folder_of/" != "$__own" ] || { [ -L "$__file" ] &&\n'
        '        [ "$(stat -c %u -- "$__file")" != "$(id -u)" ]; }; then\n'
        f'        __end hook "" "{describe_link("$__file")}"\n'
        "    fi\n"
    )


def _globbed(pattern: str) -> str:
    """Quote a path except for the pattern characters of its last part."""
    folder, slash, name = pattern.rpartition("/")
    signs = "".join(c if c in "*?[]" else quote(c) for c in name)
    return (quote(folder) if folder else "") + slash + signs


def _hook(when: str, number: int, line: str) -> str:
    name, shown = f"{when}.{number}", quote(f"the {when} hook '{line}' ended with exit code ")
    call = f"__hook {name} {quote(line)}; __hooked=$?\n"
    said = f'"{{}}$(tail -n 1 "$__folder/{name}.stderr" 2>/dev/null)"'
    message = f"{shown}$__hooked{said.format(': ')}"
    if when == "before":
        return call + f'[ $__hooked -eq 0 ] || __end hook "" {message}\n'
    return call + f'[ $__hooked -eq 0 ] || [ -n "${{__failed:-}}" ] || __failed={message}\n'


def _caches(work: Work) -> str:
    # This empties the memory of one node only, so with more nodes it claims nothing.
    alone = f'[ "{work.inside.nodes}" = 1 ] && '
    if work.caches == "system":
        return f"sync; {alone}echo 3 2>/dev/null > /proc/sys/vm/drop_caches && __cache=dropped\n"
    if work.caches != "advise" or not work.known:
        return ""
    calls = " && ".join(
        f"{{ [ ! -f {quoted} ] || {{ sync {quoted} && dd if={quoted} iflag=nocache count=0 status=none; }}; }}"
        for quoted in (quote(str(path)) for path in work.known)
    )
    return f"{alone}{calls} && __cache=advised\n"


def _program(work: Work) -> str:
    command = quote_all(work.command)
    if work.seconds is not None:
        command = f"timeout --kill-after={_KILL_AFTER} {work.seconds:.3f} {command}"
    if work.stdin is not None:
        command += f" < {quote(str(work.stdin))}"
    over = "bound" if work.bound else "timeout"
    limited = (
        f"if [ $__code -eq 124 ] || [ $__code -eq 137 ]; then\n"
        f'    awk -v b="$__begin" -v e="$__end" "BEGIN {{ exit !(e - b >= {work.seconds:.3f}) }}" && __cause={over}\n'
        "fi\n"
        if work.seconds is not None
        else ""
    )
    # Where a part of the program is killed, and the program ends well all the same, the run did less than others.
    short = (
        '[ $__code -ne 0 ] || [ "$__died" = "$(__killed)" ] ||\n'
        "    __failed='its job ran out of memory, and a process of the program was killed'\n"
    )
    return (
        "__died=$(__killed)\n"
        f"__begin=$(__now)\n{command}\n__code=$?\n__end=$(__now)\n__cause=exit\n{limited}{short}"
        '__settle\n__trim "$__folder/stdout"; __trim "$__folder/stderr"\n'
    )


def of_user_script(experiment: Experiment, cwd: Path, scheduler: Scheduler) -> tuple[Experiment, Directives]:
    """If the command is a job script of the user's own, run it with bash and take over its directives."""
    words = experiment.command
    at = 1 if len(words) > 1 and Path(words[0]).name in ("bash", "sh") else 0
    text = ""
    if words and (path := cwd / words[at]).is_file():
        with path.open("rb") as file:
            text = file.read(_SCRIPT_LIMIT).decode("utf-8", "replace")
    found = scheduler.read_script(text) if text.startswith("#!") and "\0" not in text[:4096] else Directives()
    if found.lines and at == 0:
        experiment = experiment.model_copy(update={"command": ["bash", *words]})
    added = scheduler.read_options(experiment.batch.directives)
    return experiment, Directives(found.lines, added.nodes or found.nodes, added.walltime or found.walltime)


GIVEN_UP = "given-up"
"""The owner of a run that no job may carry out."""
_LIMIT = 1 << 16


@dataclass(frozen=True)
class StartRecord:
    """A job has started with a run.

    Attributes
    ----------
    job : str
    nodes : int or None
    node_list, host : str
    restart : int
        How often the scheduler has restarted the job.
    time : float
        Epoch seconds of the job's start, by the node's clock.
    """

    job: str
    nodes: int | None
    node_list: str
    host: str
    restart: int
    time: float


@dataclass(frozen=True)
class EndRecord:
    """A job has finished with a run.

    Attributes
    ----------
    cause : str
        ``exit``, ``timeout``, ``bound``, ``setup`` or ``hook``.
    ended : Ended
        Of the program.
    seconds : float
        Of the whole job, with setup lines and hooks.
    cache : str
    message : str
        Why a hook failed.
    """

    cause: str
    ended: Ended
    seconds: float
    cache: str
    message: str


def read_start(folder: Path) -> StartRecord | None:
    """Read the record of the start; None if there is none (yet)."""
    fields = _fields(folder / BEGAN)
    if fields is None:
        return None
    nodes = fields.get("nodes", "").strip()
    return StartRecord(
        job=fields.get("job", ""),
        nodes=int(nodes) if nodes.isdigit() and int(nodes) > 0 else None,
        node_list=fields.get("list", ""),
        host=fields.get("host", ""),
        restart=int(fields["restart"]) if fields.get("restart", "").isdigit() else 0,
        time=_number(fields.get("time", "")),
    )


def read_end(folder: Path) -> EndRecord | None:
    """Read the record of the end; None if there is none (yet)."""
    fields = _fields(folder / ENDED)
    if fields is None:
        return None
    cause, code = fields.get("cause", ""), fields.get("code", "")
    begin, job_begin = fields.get("begin", ""), fields.get("job_begin", "")
    elapsed, seconds = _passed(begin, fields.get("end", "")), _passed(job_begin, fields.get("job_end", ""))
    causes = {"timeout": Cause.TIMEOUT, "bound": Cause.BOUND, "setup": Cause.SETUP}
    number = int(code) if code.isdigit() else None
    lost = f"its job could not write all of it below {folder}" if fields.get("lost") and cause == "exit" else ""
    return EndRecord(
        cause,
        Ended(causes.get(cause, Cause.EXIT), number, elapsed, _number(begin) or _number(job_begin), lost=lost),
        seconds,
        fields.get("cache", "unknown"),
        fields.get("message", ""),
    )


def read_owner(folder: Path) -> str:
    """Give the job that a run belongs to, :data:`GIVEN_UP`, or an empty text."""
    try:
        return str((folder / OWNER).readlink())
    except OSError:
        return ""


def give_up_run(folder: Path) -> str:
    """Prevent every job that has not started from carrying out a run.

    Returns
    -------
    str
        The job that had started before; empty if none had.
    """
    with contextlib.suppress(FileExistsError):
        (folder / OWNER).symlink_to(GIVEN_UP)
    found = read_owner(folder)
    return "" if found == GIVEN_UP else found


def clear_records(folder: Path) -> None:
    """Remove the records of a run, so that another job can carry it out. Call it once no earlier job can be alive."""
    for name in (OWNER, BEGAN, ENDED):
        (folder / name).unlink(missing_ok=True)


def _fields(path: Path) -> Mapping[str, str] | None:
    try:
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            text = file.read(_LIMIT)
    except OSError:
        return None
    # A message may hold what Python takes for the end of a line, too.
    pairs = (line.partition(" ") for line in text.split("\n"))
    return {name: value for name, _, value in pairs}


def _number(text: str) -> float:
    """Read the first word of a moment: the time of day."""
    try:
        return float(text.partition(" ")[0])
    except ValueError:
        return 0.0


def _passed(begin: str, end: str) -> float:
    """Give the seconds between two moments: by the time since the boot where the time of day was set in between."""
    seconds = _number(end) - _number(begin)
    (_, *first), (_, *last) = begin.split() or [""], end.split() or [""]
    if first and last:
        even = _number(last[0]) - _number(first[0])
        if abs(even - seconds) > _SET_SECONDS:
            return max(0.0, even)
    return max(0.0, seconds)
