"""Energy of a run in joules: from RAPL's counters of this machine, or from a command of the site."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from stripewise.errors import RunFailed, UserError
from stripewise.interpreter import ask, inherit_environment
from stripewise.launch import Outcome
from stripewise.observe.objectives.base import Conditions, ObjectiveKind

POWERCAP = Path("/sys/class/powercap")
_FIX = "give a command that prints the joules of a run: energy:COMMAND, or [objectives] energy in the site file"
# A package that draws 500 W wraps a counter of 262 kJ in nine minutes.
_SAMPLE_SECONDS = 60.0
_COMMAND_SECONDS = 60.0
_PATIENCE = 30.0


class Energy(ObjectiveKind):
    """Energy of the processor packages while the program runs, or what a command says of the finished run."""

    name = "energy"
    about = "energy of a run, from RAPL or a command (J, smaller is better)"
    direction = "minimize"
    unit = "J"
    text = "COMMAND"
    optional = True
    example = "sacct -n -X -P -j $STRIPEWISE_JOB -o ConsumedEnergyRaw"

    @property
    def starts(self) -> str:
        """See :attr:`ObjectiveKind.starts`."""
        return self.given

    def check(self, conditions: Conditions) -> None:
        """See :meth:`ObjectiveKind.check`."""
        if self.completed:
            return
        if conditions.runner != "local" or (conditions.nodes or 1) > 1:
            raise UserError(
                "objective energy reads the counters of this machine, but the runs use other nodes as well", _FIX
            )
        packages = _packages()
        if not packages:
            raise UserError(f"objective energy: {POWERCAP} has no RAPL counters of a processor package", _FIX)
        try:
            _Meter(packages)
        except (OSError, ValueError) as error:
            raise UserError(f"objective energy: the RAPL counters cannot be read: {error}", _FIX) from error

    @contextmanager
    def metered(self) -> Iterator[Mapping[str, float]]:
        """See :meth:`ObjectiveKind.metered`."""
        found: dict[str, float] = {}
        meter = None
        if not self.completed:
            # A run whose counters cannot be read any more has no value, and fails for that.
            with contextlib.suppress(OSError, ValueError):
                meter = _Meter(_packages())
        with meter or contextlib.nullcontext():
            yield found
        if meter is not None and meter.whole:
            found[self.title] = meter.joules

    def value(self, outcome: Outcome) -> float:
        """See :meth:`ObjectiveKind.value`."""
        if not self.completed:
            raise RunFailed("the RAPL counters could not be read in this run", _FIX)
        until = time.monotonic() + _PATIENCE
        # A scheduler's accounting knows a job's energy some seconds after its end.
        while not (printed := _run_command(self.completed, outcome)) and time.monotonic() < until:
            time.sleep(1.0)
        try:
            return float(printed)
        except ValueError:
            raise RunFailed(
                f"the command of the objective energy printed '{printed[-80:]}', which is not a number of joules",
                f"check it: {self.completed}",
            ) from None


def _packages() -> list[Path]:
    """List the folders of the packages' counters; those of parts, as cores and memory, count within them."""
    found = []
    for folder in sorted(POWERCAP.glob("intel-rapl:*")):
        with contextlib.suppress(OSError):
            if (folder / "name").read_text().startswith("package"):
                found.append(folder)
    return found


class _Meter:
    """Sums the energy of packages, in a thread that reads the counters often enough to see each wrap once."""

    def __init__(self, packages: list[Path]) -> None:
        self._counters = {folder / "energy_uj": _number(folder / "max_energy_range_uj") for folder in packages}
        self._last = {path: _number(path) for path in self._counters}
        self._sum = 0
        self.whole = True
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Meter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def joules(self) -> float:
        """The energy from the start to the end."""
        return self._sum / 1e6

    def _watch(self) -> None:
        try:
            ended = False
            while not ended:
                ended = self._ended.wait(_SAMPLE_SECONDS)
                for path, span in self._counters.items():
                    now = _number(path)
                    self._sum += now - self._last[path] + (span if now < self._last[path] else 0)
                    self._last[path] = now
        except (OSError, ValueError):
            self.whole = False


def _number(path: Path) -> int:
    return int(path.read_text())


def _run_command(command: str, outcome: Outcome) -> str:
    """Run the command and give the last line that it printed.

    Raises
    ------
    RunFailed
        If it fails, or does not end in time.
    """
    # The command may belong to the site, and is given what identifies the run; not the user's store and token.
    kept = {name: value for name, value in inherit_environment().items() if not name.startswith("STRIPEWISE_")}
    about = {
        "RUN": outcome.number,
        "RUN_FOLDER": outcome.folder or "",
        "JOB": outcome.facts.job,
        "BEGIN": outcome.started,
        "END": outcome.started + outcome.elapsed,
    }
    environment = kept | {f"STRIPEWISE_{name}": str(value) for name, value in about.items()}
    try:
        done = ask(["/bin/sh", "-c", command], _COMMAND_SECONDS, environment, group=True)
    except subprocess.TimeoutExpired:
        raise RunFailed(f"the command of the objective energy did not end within {_COMMAND_SECONDS:g} s") from None
    except OSError as error:
        raise RunFailed(f"the command of the objective energy cannot be run: {error.strerror}") from None
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise RunFailed(f"the command of the objective energy ended with exit code {done.returncode}: {why}")
    return (done.stdout.strip().splitlines() or [""])[-1].strip()
