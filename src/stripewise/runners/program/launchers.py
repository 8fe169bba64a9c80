"""What is known of launchers and wrappers: which of their options take values, and which say how many ranks start.

Sources: the manual pages of Hydra, Open MPI (and PRRTE), Slurm, ALPS, PALS, Jsrun, Flux, coreutils, util-linux.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath


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
