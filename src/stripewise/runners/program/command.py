"""A user's command line, taken apart: launcher and wrappers, then the program; nothing is looked up or started.

Sources for options: the manual pages of Hydra, Open MPI (and PRRTE), Slurm, ALPS, PALS, Jsrun, Flux, coreutils,
util-linux.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from stripewise.errors import UserError
from stripewise.shell import is_plain


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True)
class Grammar:
    """How to tell a command's own options from the command that it starts.

    Names of options are without their leading dashes.

    Attributes
    ----------
    values : mapping from str to int
        Options followed by that many words.
    flags : frozenset of str
        Options that stand alone. An option found in neither set takes the next word as its value unless that word
        can be executed.
    attached : str
        Letters of options whose value may follow without a space, as in ``-n4``.
    operands : int
        Words after the options and before the command (``timeout 10 ./app``).
    assignments : bool
        Whether ``NAME=VALUE`` words may stand before the command.
    subcommands : frozenset of str
        The first word after the name must be one of these, if there are any (``flux run``).
    ranks, nodes, per_node, environment, mca : frozenset of str
        Options whose value is the number of ranks, of nodes, of ranks a node; those that set a variable; those that
        set a parameter of Open MPI, or of Flux's shell.
    ranks_factor : frozenset of str
        Options by whose value the number of ranks is multiplied.
    """

    values: Mapping[str, int] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    attached: str = ""
    operands: int = 0
    assignments: bool = False
    subcommands: frozenset[str] = frozenset()
    ranks: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    per_node: frozenset[str] = frozenset()
    environment: frozenset[str] = frozenset()
    mca: frozenset[str] = frozenset()
    ranks_factor: frozenset[str] = frozenset()


_MPIEXEC = Grammar(
    values={
        **dict.fromkeys(
            # Hydra and Intel MPI; Open MPI and PRRTE; PALS
            _names(
                "n np ppn perhost f hostfile machinefile hosts host wdir wd envlist genvlist configfile bind-to map-by "
                "membind topolib rmk launcher launcher-exec bootstrap bootstrap-exec iface demux prepend-pattern "
                "outfile-pattern errfile-pattern nameserver usize path gpus-per-proc gpu-subdevs-per-proc "
                "gpus-per-node hostlist localhost errfile outfile pmi-port-range timeout branch-count tmpdir "
                "c N H rank-by npernode npersocket npersocket-by ppr x output output-filename cpu-set cpu-list app "
                "prefix am stdin personality dvm dvm-uri xterm preload-files cpus-per-proc cpus-per-rank slot-list "
                "display rankfile rf launch-agent max-restarts report-events report-pid report-uri server-wait-time "
                "ompi-server pset soft arch default-hostfile wait-for-server tmpdir-base merge-base rtos "
                "runtime-options depth cpu-bind mem-bind gpu-bind exclude-hosts include-tasks label-style "
                "line-buffer-size env-file"
            ),
            1,
        ),
        **dict.fromkeys(("env", "genv", "mca", "gmca", "prtemca", "pmixmca", "omca", "gpmixmca"), 2),
    },
    flags=_names(
        "genvall genvnone envall envnone l prepend-rank v verbose info version V disable-auto-cleanup enable-x "
        "disable-x print-all-exitcodes print-rank-map ordered-output disable-hostname-propagation rr grr nolocal "
        "skip-launch-node order-nodes allow-run-as-root oversubscribe nooversubscribe use-hwthread-cpus bynode byslot "
        "bycore bysocket tag-output timestamp-output report-bindings do-not-launch do-not-resolve enable-recovery "
        "disable-recovery continuous get-stack-traces report-state-on-timeout merge-stderr-to-stdout debug-daemons "
        "leave-session-attached index-argv-by-rank preload-binary set-cwd-to-session-dir show-progress q quiet "
        "display-map display-allocation display-topo display-devel-map bind-to-core bind-to-socket bind-to-none "
        "loadbalance pernode staged-exec forward-signals xml stream-buffering no-ready-msg noprefix np-all exclusive "
        "label line-buffer no-abort-on-failure abort-on-failure transfer no-transfer debug test debug-devel"
    ),
    ranks=_names("n np c"),
    per_node=_names("ppn perhost npernode N"),
    environment=_names("x env genv"),
    mca=_names("mca gmca omca"),
)

_SRUN = Grammar(
    flags=_names(
        "l label u unbuffered K kill-on-bad-exit O overcommit s oversubscribe v verbose Q quiet X disable-status E "
        "preserve-env I immediate exclusive overlap exact pty multi-prog contiguous H hold k no-kill spread-job "
        "test-only use-min-nodes whole Z no-allocate reboot propagate async interactive treewidth-off V version "
        "vv vvv send-libs external-launcher debugger-test"
    ),
    attached="nNcptJwxAmoeidDCTrqMWBtSG",
    ranks=_names("n ntasks"),
    nodes=_names("N nodes"),
    per_node=_names("ntasks-per-node"),
    environment=_names("export"),
)

_APRUN = Grammar(
    flags=_names("b bypass-app-transfer q quiet r ss T sync-output v debug h"),
    attached="nNdSjF",
    ranks=_names("n pes"),
    per_node=_names("N pes-per-node"),
    environment=_names("e environment-override"),
)

_JSRUN = Grammar(
    flags=_names("immediate i h help V version v verbose"),
    attached="nacgrpdblETMme",
    ranks=_names("n nrs p np"),
    ranks_factor=_names("a tasks_per_rs"),
    environment=_names("E env"),
)

_FLUX = Grammar(
    flags=_names("l label-io u unbuffered v verbose x exclusive dry-run wait watch"),
    attached="nNcgtqBo",
    subcommands=_names("run submit alloc batch"),
    ranks=_names("n ntasks"),
    nodes=_names("N nodes"),
    per_node=_names("tasks-per-node"),
    environment=_names("env"),
    # Options of its shell: userrc and initrc name programs.
    mca=_names("o setopt"),
)

_IBRUN = Grammar(values={"n": 1, "np": 1, "o": 1}, flags=_names("v"), ranks=_names("n np"))

LAUNCHERS: Mapping[str, Grammar] = {
    **dict.fromkeys(
        _names(
            "mpiexec mpirun mpiexec.hydra mpirun.hydra mpiexec.gforker mpiexec.mpich mpirun.mpich mpiexec.openmpi "
            "mpirun.openmpi orterun prterun prun hydra mpirun_rsh mpiexec.slurm"
        ),
        _MPIEXEC,
    ),
    "srun": _SRUN,
    "aprun": _APRUN,
    "jsrun": _JSRUN,
    "flux": _FLUX,
    "ibrun": _IBRUN,
}
"""Programs that start the ranks, by base name."""

WRAPPERS: Mapping[str, Grammar] = {
    "env": Grammar(
        values={"u": 1, "unset": 1, "C": 1, "chdir": 1},
        flags=_names("i ignore-environment 0 null v debug"),
        attached="uC",
        assignments=True,
    ),
    "nice": Grammar(values={"n": 1, "adjustment": 1}, attached="n"),
    "ionice": Grammar(values={"c": 1, "n": 1, "class": 1, "classdata": 1}, flags=_names("t ignore"), attached="cn"),
    "nohup": Grammar(),
    "setsid": Grammar(flags=_names("c ctty f fork w wait")),
    "time": Grammar(
        values={"o": 1, "f": 1, "output": 1, "format": 1}, flags=_names("a append p portability v verbose q quiet")
    ),
    "timeout": Grammar(
        values={"k": 1, "kill-after": 1, "s": 1, "signal": 1},
        flags=_names("foreground preserve-status v verbose"),
        attached="ks",
        operands=1,
    ),
    "stdbuf": Grammar(values={"i": 1, "o": 1, "e": 1, "input": 1, "output": 1, "error": 1}, attached="ioe"),
    "taskset": Grammar(flags=_names("a all-tasks c cpu-list"), operands=1),
    "chrt": Grammar(
        values={"T": 1, "P": 1, "D": 1}, flags=_names("b f i o r d a R batch fifo idle other rr deadline"), operands=1
    ),
    "numactl": Grammar(
        values=dict.fromkeys(_names("N m C i w P p cpunodebind membind physcpubind interleave weighted-interleave"), 1),
        flags=_names("l localalloc a all b balancing"),
        attached="NmCiwP",
    ),
    "setarch": Grammar(flags=_names("R addr-no-randomize B F I L S T X Z v"), operands=1),
    "sudo": Grammar(values={"u": 1, "g": 1}, flags=_names("E n H")),
}
"""Programs that change something about the process and then start the program in it, by base name."""

CONTAINERS = _names("apptainer singularity docker podman podman-hpc shifter sarus charliecloud ch-run udocker enroot")
"""Programs that start the program in another root file system, by base name."""

SHELLS = _names("sh bash dash zsh ksh csh tcsh fish")
"""Programs whose argument is a script, by base name."""

INTERPRETERS = _names(
    "python pypy ipython perl ruby lua luajit R Rscript julia java node nodejs tclsh wish php guile octave"
)
"""Programs whose first argument is a script, which may start others, by base name without a version."""

TOOLS = _names(
    # Building, finding, editing, copying
    "make gmake ninja cmake ctest xargs parallel find fd awk gawk mawk nawk original-awk sed ed ex vi vim view nvim "
    "nano emacs less more man tar bsdtar cpio zip rsync ssh scp sftp git hg svn m4 gcc cc c++ g++ clang split sort tee "
    "dd socat nc ncat gnuplot sqlite3 psql mysql dc bc inotifywait openssl matlab meson bazel scons "
    # Debuggers, tracers and profilers
    "gdb gdbserver lldb dbx valgrind strace ltrace perf rr catchsegv ddt map forge totalview vtune amplxe-cl advixe-cl "
    "aps nsys ncu nvprof scalasca scan scorep tau_exec hpcrun likwid-perfctr likwid-pin likwid-mpirun heaptrack "
    "cuda-gdb uftrace gprofng rocprof rocprofv3 kernprof mprof memray scalene py-spy "
    # Other users, roots, limits and terminals
    "su runuser doas pkexec newgrp sg chroot unshare nsenter setpriv capsh prlimit cpulimit systemd-run "
    "start-stop-daemon bwrap proot fakeroot fakechroot firejail xvfb-run dbus-run-session script expect tmux screen "
    "watch flock lockf at batch crontab entr busybox toybox linux32 linux64 i386 x86_64 ld.so run-parts "
    "cgexec machinectl lxc-execute nerdctl runc crun dplace omplace hwloc-bind eatmydata faketime unbuffer rlwrap "
    "xjobs sem ts "
    # Jobs and workers
    "sbatch salloc qsub bsub torchrun accelerate deepspeed horovodrun dask pytest coverage jupyter "
    "pdsh clush pbsdsh lsrun lsgrun blaunch brun ccc_mprun mpiexec_mpt oshrun shmemrun yod "
    "scrontab strigger oarsub msub pjsub llsubmit poe condor_submit condor_run irb jshell "
    "stripewise snakemake nextflow luigi tox nox "
    # Environments
    "conda mamba micromamba pixi spack guix nix nix-shell uv pipx poetry pdm hatch npm npx yarn deno bun"
)
"""Programs that start, load or overwrite what any of their arguments says, by base name without a version."""

_STARTERS = frozenset({*LAUNCHERS, *WRAPPERS, *CONTAINERS, *SHELLS, *INTERPRETERS, *TOOLS})
_VERSION = re.compile(r"(?<![\d.])[-_.]?\d[\d.]*$")


def family(word: str) -> str:
    """Give the base name by which a program is known: without a folder and a version (``gdb-13``, ``python3.11``)."""
    name = PurePath(word).name
    if name.startswith("ld") and ".so" in name:
        return "ld.so"
    return name if name in _STARTERS else _VERSION.sub("", name)


def starts_others(word: str) -> bool:
    """Say whether a program is known to start the programs that its arguments name."""
    return family(word) in _STARTERS


SEARCHED_FOR = _names("mca gmca omca gomca prtemca gprtemca pmixmca gpmixmca personality")
"""Options, without their dashes, that the launchers of Open MPI find and obey among the program's arguments too.

``mpirun ./app --mca mca_base_env_list LD_PRELOAD=/x.so`` preloads a library with versions 4 and 5.
"""


_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}")
_FOLDER = ("wdir", "wd", "chdir")
_PER_NODE_MAP = re.compile(r"ppr:(\d+):node")


@dataclass(frozen=True)
class Segment:
    """One program of a command line.

    Attributes
    ----------
    before : tuple of str
        Launcher, wrappers and their options.
    program : tuple of str
        The program and its arguments.
    """

    before: tuple[str, ...]
    program: tuple[str, ...]


@dataclass(frozen=True)
class CommandLine:
    """A command line whose parts are known.

    Attributes
    ----------
    segments : tuple of Segment
        One; several where a launcher starts different programs, divided by colons.
    launcher : str
        The launcher as it is written, or empty.
    launcher_at : int
        Its place in the first segment's ``before``, or -1.
    ranks, nodes : int or None
        As far as the launcher's options say.
    per_node : int or None
        Ranks a node, likewise.
    environment : mapping
        Variables that the command line itself sets for the program.
    mca : mapping
        Parameters of Open MPI that the command line sets.
    folder : str
        The working folder that the command line sets for the program, or empty.
    """

    segments: tuple[Segment, ...]
    launcher: str = ""
    launcher_at: int = -1
    ranks: int | None = None
    nodes: int | None = None
    per_node: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    mca: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""

    @property
    def program(self) -> tuple[str, ...]:
        """The first program and its arguments."""
        return self.segments[0].program

    def words(self, assignments: Mapping[str, str] | None = None, unset: Sequence[str] = ()) -> list[str]:
        """Put the command line together again.

        Parameters
        ----------
        assignments : mapping, optional
            Variables set by ``env`` directly before each program, so that launcher and wrappers never see them.
        unset : sequence of str
            Variables taken away there.
        """
        changes = [word for name in unset for word in ("-u", name)]
        changes += [f"{name}={value}" for name, value in (assignments or {}).items()]
        carrier = ["env", *changes] if changes else []
        words: list[str] = []
        for segment in self.segments:
            words += [":"] if words else []
            words += [*segment.before, *carrier, *segment.program]
        return words


@dataclass
class _Found:
    """What the options of launchers and wrappers have said so far."""

    launcher: str = ""
    launcher_at: int = -1
    ranks: int | None = None
    factor: int = 1
    nodes: int | None = None
    per_node: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    mca: dict[str, str] = field(default_factory=dict)
    folder: str = ""


def split_command(words: Sequence[str], executable: Callable[[str], bool] = lambda word: False) -> CommandLine:
    """Take a command line apart.

    Parameters
    ----------
    words : sequence of str
        Not empty.
    executable : callable
        Says whether a word can be executed; asked only where an option of a launcher is unknown.

    Examples
    --------
    >>> line = split(["env", "A=b", "mpiexec", "-n", "4", "./app", "-x"])
    >>> line.program, line.ranks
    (('./app', '-x'), 4)
    >>> line.words({"LD_PRELOAD": "/lib.so"})[5:]
    ['env', 'LD_PRELOAD=/lib.so', './app', '-x']
    """
    found = _Found()
    at = _program_at(words, 0, found, executable)
    rest = list(words[at:])
    segments: list[Segment] = []
    before = tuple(words[:at])
    ranks = found.ranks
    while found.launcher and ":" in rest:
        colon = rest.index(":")
        segments.append(Segment(before, tuple(rest[:colon])))
        rest = rest[colon + 1 :]
        found.ranks = None
        at = _options_end(rest, 0, LAUNCHERS[PurePath(found.launcher).name], found, executable)
        at = _program_at(rest, at, found, executable)
        ranks = None if ranks is None or found.ranks is None else ranks + found.ranks
        before, rest = tuple(rest[:at]), rest[at:]
    segments.append(Segment(before, tuple(rest)))
    if ranks is None and found.nodes and found.per_node:
        ranks = found.nodes * found.per_node
    ranks = None if ranks is None else ranks * found.factor
    nodes = found.nodes
    if nodes is None and ranks and found.per_node:
        nodes = -(-ranks // found.per_node)
    return CommandLine(
        tuple(segments),
        found.launcher,
        found.launcher_at,
        ranks,
        nodes,
        found.per_node,
        found.environment,
        found.mca,
        found.folder,
    )


def _program_at(words: Sequence[str], at: int, found: _Found, executable: Callable[[str], bool]) -> int:
    """Give the place of the program's word, past launchers and wrappers."""
    while at < len(words):
        name = PurePath(words[at]).name
        grammar = WRAPPERS.get(name) or (LAUNCHERS.get(name) if not found.launcher else None)
        if grammar is None:
            return at
        begin = at + 1
        if grammar.subcommands:
            if begin >= len(words) or words[begin] not in grammar.subcommands:
                return at
            begin += 1
        if name in LAUNCHERS:
            found.launcher, found.launcher_at = words[at], at
        after = _options_end(words, begin, grammar, found, executable)
        if after >= len(words):
            # Nothing follows (`env`, `mpiexec --version`): then this is itself the program.
            if name in LAUNCHERS:
                found.launcher, found.launcher_at = "", -1
            return at
        at = after
    return at


def _options_end(
    words: Sequence[str], at: int, grammar: Grammar, found: _Found, executable: Callable[[str], bool]
) -> int:
    operands = grammar.operands
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1 + operands
            break
        if grammar.assignments and _ASSIGNMENT.match(word):
            name, _, value = word.partition("=")
            found.environment[name] = value
            at += 1
        elif word.startswith("-") and len(word) > 1:
            at = _option(words, at, grammar, found, executable)
        elif operands:
            operands -= 1
            at += 1
        else:
            break
    return at


def _option(words: Sequence[str], at: int, grammar: Grammar, found: _Found, executable: Callable[[str], bool]) -> int:
    """Take the option at a place, with its values; give the place after it."""
    word = words[at]
    name, equals, attached = word.lstrip("-").partition("=")
    if equals and (name in grammar.values or name in grammar.flags or word.startswith("--")):
        _note(grammar, name, [attached], found)
        return at + 1
    short = not word.startswith("--") and len(word) > 2
    if short and word[1] in grammar.attached and not _is_known(grammar, name):
        _note(grammar, word[1], [word[2:].removeprefix("=")], found)
        return at + 1
    count = grammar.values.get(name)
    if count is None:
        count = 0 if name in grammar.flags or equals else None
    if count is None:
        following = words[at + 1] if at + 1 < len(words) else "-"
        numeric = name in grammar.ranks | grammar.nodes | grammar.per_node | grammar.ranks_factor
        takes = numeric or name in grammar.attached or not (following.startswith("-") or executable(following))
        count = 1 if takes else 0
    _note(grammar, name, list(words[at + 1 : at + 1 + count]), found)
    return at + 1 + count


def _is_known(grammar: Grammar, name: str) -> bool:
    return name in grammar.values or name in grammar.flags


def _note(grammar: Grammar, name: str, values: list[str], found: _Found) -> None:
    if not values:
        return
    number = int(values[0]) if values[0].isdigit() else None
    if name in _FOLDER:
        found.folder = values[0]
    if name in grammar.ranks:
        found.ranks = number
    elif name in grammar.nodes:
        found.nodes = number
    elif name in grammar.per_node:
        found.per_node = number
    elif name in grammar.ranks_factor:
        found.factor = number or 1
    elif name in grammar.mca and len(values) == 2:
        found.mca[values[0]] = values[1]
    elif name in grammar.environment:
        for entry in [f"{values[0]}={values[1]}"] if len(values) == 2 else values[0].split(","):
            key, equals, value = entry.partition("=")
            if equals:
                found.environment[key] = value
    elif match := _PER_NODE_MAP.match(values[0]):
        found.per_node = int(match[1])


def substitute(text: str, values: Mapping[str, str]) -> str:
    """Replace ``{name}`` by its value; other braces, and the shell's ``${name}``, stay as they are."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)


def shell_line(line: str, values: Mapping[str, str]) -> str:
    """Replace ``{name}`` in a line that a shell will read.

    Raises
    ------
    UserError
        If a value has characters that the shell would read: no quoting of ours fits whatever stands around it.
    """
    for name in placeholders([line]):
        if not is_plain(values.get(name, "")):
            raise UserError(
                f"the hook '{line}' uses {{{name}}}, and its value {values[name]!r} has characters that a shell reads",
                "take the value from a variable, as STRIPEWISE_RUN_FOLDER, or use plain values and folders",
            )
    return substitute(line, values)


def placeholders(words: Sequence[str]) -> set[str]:
    """Give the names that stand in braces somewhere."""
    return {name for word in words for name in _PLACEHOLDER.findall(word)}


def is_obeyed(word: str) -> bool:
    """Say whether a launcher may read a word as its own wherever it stands, after the program as well."""
    return word == ":" or (word.startswith("-") and word.lstrip("-").partition("=")[0] in SEARCHED_FOR)
