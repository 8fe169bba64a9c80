"""A plan applied to a command that is the user's own run, not one of an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stripewise.catalogue.carriers import ARGUMENT, FILE, named_in, need_observer, with_files
from stripewise.catalogue.plan import Plan
from stripewise.errors import StripewiseError, UserError
from stripewise.interpreter import inherited
from stripewise.ownership import make_folder, written_whole
from stripewise.requests.policy import load_policy
from stripewise.runners.inject.injection import TOO_MANY, Guidance, Injection, few_enough, inject
from stripewise.runners.native.build import accelerator_for, observer_for, runtime_for
from stripewise.runners.program.command import placeholders, substitute
from stripewise.runners.program.preflight import look


@dataclass(frozen=True)
class Foreground:
    """A command ready to replace the present process.

    Attributes
    ----------
    words : tuple of str
        The command with the plan's carriers directly before the program.
    injection : Injection
        How each setting travels.
    warnings : tuple of str
        What the user should know before it starts.
    observed : bool
        Whether its processes leave parts of a report in the folder, which are to be merged when it has ended.
    """

    words: tuple[str, ...]
    injection: Injection
    warnings: tuple[str, ...]
    observed: bool = False


def prepare(
    plan: Plan,
    command: Sequence[str],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    guidance: Guidance | None = None,
    library: Path | None = None,
    own_calls: bool = False,
) -> Foreground:
    """Bring a plan into a command; the files it needs are written to ``folder`` and must stay while the program runs.

    Parameters
    ----------
    plan : Plan
    command : sequence of str
    folder : Path
    environment, cwd : optional
        By default those of this process.
    guidance : Guidance, optional
        What the runtime is to do; by default what the site allows.
    library : Path, optional
        The runtime to preload; by default it is found or built.
    own_calls : bool
        Whether the program's own calls are counted, too. Each process then leaves a part, and the caller merges them.

    Raises
    ------
    UserError
        If the command cannot be run, or needs the runtime and cannot have it.
    StripewiseError
        If the runtime cannot be built, or the folder not be written.
    """
    environment = inherited(environment)
    cwd = cwd or Path.cwd()
    values = {setting.key: setting.value for setting in plan.of(ARGUMENT)}
    command = named_in(command, [setting.key for setting in plan.of(FILE)])
    target = look([substitute(word, values) for word in command], environment, cwd)
    if target.program.obstacle or target.mpi is None:
        library = None
    elif library is None:
        library = runtime_for(target.mpi, target.launcher, environment)
    guidance = guidance or Guidance.under(load_policy(environment))
    observer = None
    reachable = target.mpi is None and not target.program.obstacle
    needed = need_observer(setting.carrier for setting in plan.settings)
    warnings = list(target.warnings)
    asked = own_calls and few_enough(target.line.ranks)
    if library is not None and (needed or asked):
        try:
            observer = accelerator_for(environment) if needed else observer_for(environment)
        except StripewiseError as error:  # the runtime does what it can
            warnings.append(f"the program's own calls cannot be seen: {error.what}")
    elif library is not None and own_calls:
        warnings.append(TOO_MANY)
    elif reachable and (own_calls or (needed and not guidance.mode)):
        observer = accelerator_for(environment) if needed else observer_for(environment)
    elif library is None and guidance.mode:
        why = target.why_not_preloaded or "it is not an MPI program"
        what = "a record" if guidance.record is not None else f"mode {guidance.mode}"
        cure = "record an MPI program" if guidance.record is not None else "run without --mode"
        raise UserError(f"{what} needs the runtime, which cannot be preloaded: {why}", cure)
    injection = inject(plan, target.program, library, folder, guidance, observer)
    if target.why_not_preloaded:
        warnings.append(
            f"the runtime cannot be preloaded: {target.why_not_preloaded}; the MPI's own hints carry the plan"
        )
    warnings += [f"{entry.setting.key}={entry.setting.value} is not applied: {entry.wins}" for entry in injection.lost]
    named = placeholders(command)
    warnings += [f"{k}={v} is not applied: the command has no {{{k}}}" for k, v in values.items() if k not in named]
    try:
        make_folder(folder)
        for name, text in injection.files.items():
            with written_whole(folder / name) as part:
                part.write_text(text, "utf-8")
    except OSError as error:
        raise StripewiseError(
            f"cannot write {folder}: {error.strerror or error}", "make room, or set STRIPEWISE_HOME to another folder"
        ) from error
    words = with_files(target.line.words(injection.environment, ()), cwd, injection.stand_in)
    return Foreground(words, injection, tuple(warnings), observer is not None)
