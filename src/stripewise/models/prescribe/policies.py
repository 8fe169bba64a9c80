"""Policies for use without a model, named as such: nobody measured them on this machine.

``knowledge`` sets as many stripes as the stack files know to help such programs, by measurements on other systems, and
nothing otherwise. ``mpi-io-study`` is a rule of thumb: what the study of MPI-IO with neural networks (16 nodes, 16 OSTs
of Lustre, files of some 10 GiB) found good in most of its test cases.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from stripewise.catalogue.carriers import HINT, LAYOUT, Setting
from stripewise.catalogue.configuration import Value
from stripewise.catalogue.expectation import expect
from stripewise.catalogue.filesystems import USUAL, of_file
from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.stack import Stack, load_stack
from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError, choose
from stripewise.models.prescribe.prescription import Advice, Prescription, SettingChange, make_plan

_MIB, _GIB = 1 << 20, 1 << 30
_STUDY_OSTS = 16
_SMALL = 64 * _MIB
_STRIPES = "stripe_count"
_ALL = -1
_LEAST_GAIN = 0.01
"""A measured gain less its doubt, as a logarithm, must reach this."""
_NO_GAIN = "no workload of this kind was measured elsewhere to gain for sure"
_GAMBLE = 0.5
"""A setting that may slow a program down to this, as far as is known, is left out of a rule of thumb."""


@dataclass
class _Made:
    """What a policy says."""

    settings: list[Setting] = field(default_factory=list)
    changes: list[SettingChange] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    kept: str = "the policy sets nothing for this workload"
    gain: float | None = None
    deviation: float | None = None

    def stripe(self, key: str, value: int, unit: str = "", system: str = USUAL.name) -> None:
        """A field of the layout of files to be created."""
        self.settings.append(Setting(LAYOUT, key, str(value), system))
        self.changes.append(SettingChange(key, None, value, unit))

    def leave_out_losses(self, workload: Workload) -> None:
        """Leave out what the stacks expect to lose, or to lose much if what is unknown is so: rules speak of most."""
        for setting, change in zip(list(self.settings), list(self.changes), strict=True):
            expected = expect((setting,), workload, {})
            if expected.loses or expected.low <= _GAMBLE:
                self.settings.remove(setting)
                self.changes.remove(change)
                self.notes.append(f"{setting.key} = {setting.value} is left out: expected to be {expected.says}")
                self.reasons += [f"{setting.key} = {setting.value}: {reason}" for reason in expected.reasons]
                if setting.key in _COLLECTIVE:
                    # What stands in for independent calls harms, so they would.
                    self.advice = [one for one in self.advice if one.name != "collective"]
                    self.reasons = [reason for reason in self.reasons if reason != _INDEPENDENT]

    def hint(self, key: str, value: Value, current: Value | None = None) -> None:
        """An MPI-IO hint."""
        self.settings.append(Setting(HINT, key, str(value)))
        self.changes.append(SettingChange(key, current, value))


def policy_names() -> tuple[str, ...]:
    """Names that :func:`apply_policy` knows; the first is taken where none is named."""
    return (_KNOWLEDGE, _STUDY)


def apply_policy(
    name: str,
    workload: Workload,
    osts: int | None = None,
    current: Mapping[str, Value] | None = None,
    *,
    existing: bool = False,
) -> Prescription:
    """Prescribe without a model.

    Parameters
    ----------
    name : str
        One of :func:`policy_names`.
    osts : int, optional
        OSTs of the file system.
    current : mapping, optional
        Settings the program runs with today; ``knowledge`` asks for ``stripe_count``.
    existing : bool
        The files exist: ``knowledge`` leaves their layout.

    Raises
    ------
    UserError
        Unknown policy, or a current value that cannot be.
    """
    if name not in policy_names():
        raise UserError(f"no policy is called '{name}'", choose(name, policy_names()))
    if name == _KNOWLEDGE:
        made = _knowledge(workload, osts, current or {}, existing=existing)
    else:
        made = _Made(notes=[_RULE_OF_THUMB])
        _study(workload, osts, made)
        made.leave_out_losses(workload)
    return Prescription(
        origin=f"policy {name}",
        policy=True,
        workload=workload,
        changes=tuple(made.changes),
        kept="" if made.changes else made.kept,
        plan=make_plan(made.settings, f"policy-{name}"),
        gain=made.gain,
        deviation=made.deviation,
        advice=tuple(made.advice),
        reasons=tuple(made.reasons),
        notes=tuple(made.notes),
    )


def _stripes_now(current: Mapping[str, Value]) -> int | None:
    stripes = current.get(_STRIPES)
    if stripes is None:
        return None
    text = str(stripes)
    if not text.removeprefix("-").isdecimal():
        raise UserError(f"the current stripe_count is {text!r}", "give a number of OSTs; -1 stands for all of them")
    return int(text)


def _knowledge(workload: Workload, osts: int | None, current: Mapping[str, Value], *, existing: bool) -> _Made:
    """Set as many stripes as the stack files know to help such programs elsewhere, by measurements."""
    made = _Made()
    made.notes.append("nothing was measured on this system: tune or train would know more")
    stripes = _stripes_now(current)
    system = USUAL if workload.file_system is None else of_file(workload.file_system)
    stack = load_stack(system.name) if system.keys else None
    reason = _why_not(workload, stripes, stack, existing=existing)
    if stack is not None and not reason:
        parameter = next(one for one in stack.parameters if one.role == _STRIPES)
        now = {} if stripes is None else {parameter.setting: str(stripes)}
        for count in _stripe_counts(parameter, osts):
            found = expect([Setting(LAYOUT, _STRIPES, str(count), system.name)], workload, now, measured=True)
            gain = math.log(found.low)
            if gain - found.doubt >= _LEAST_GAIN and gain > (made.gain or 0.0):
                made.settings, made.changes = [], []
                made.stripe(_STRIPES, count, system=system.name)
                made.gain, made.deviation, made.reasons = gain, found.doubt, list(found.reasons)
    if not made.changes:
        made.kept = f"{reason or _NO_GAIN}, so the default is kept"
        return made
    if workload.file_system is None:
        made.notes.append("the file system is unknown: the layout is that of Lustre")
    if workload.file_per_process is None:
        made.notes.append("file_per_process is unknown: a shared file counts")
    return made


def _why_not(workload: Workload, stripes: int | None, stack: Stack | None, *, existing: bool) -> str:
    """Say what of the workload rules stripes out, or must be known before any are set; empty where nothing does."""
    if existing:
        return "the files exist and keep their layout"
    if workload.operation == "read":
        return "the program reads, and the layout of an existing file stays as it is"
    if workload.operation == "both":
        return "the program also reads, and only writes gain for sure"
    if stack is None or not any(one.doubt for one in stack.knowledge):
        return f"nothing was measured on {workload.file_system}"
    if stripes == _ALL:
        return "the file has all OSTs already"
    unknown = [name for name in ("operation", "collective", "nodes", "file_size") if getattr(workload, name) is None]
    return f"the workload does not say {' and '.join(unknown)}" if unknown else ""


def _stripe_counts(parameter: Parameter, osts: int | None) -> list[int]:
    """Stripe counts that the stack offers, ascending, up to all OSTs, which are one of them."""
    counts = [int(value) for value in parameter.values if int(value) > 0]
    return counts if osts is None else sorted({*(count for count in counts if count <= osts), osts})


def _creates(workload: Workload, made: _Made) -> bool:
    """Whether a Lustre layout can be chosen at all."""
    if workload.operation == "read":
        made.notes.append("the program reads: the layout of an existing file stays as it is")
        return False
    if workload.file_system is not None and of_file(workload.file_system) is not USUAL:
        made.notes.append(f"the file system is {workload.file_system}: no stripes are set")
        return False
    if workload.file_system is None:
        made.notes.append("the file system is unknown: the layout is that of Lustre")
    return True


def _study(workload: Workload, osts: int | None, made: _Made) -> None:
    """Non-collective access for both operations, all OSTs and stripes of 1 MiB for write, calls of 1 GiB for read."""
    if _creates(workload, made):
        if workload.file_per_process or (workload.file_size is not None and workload.file_size < _SMALL):
            made.notes.append("one stripe stays: the study wrote large shared files only")
        else:
            made.stripe("stripe_count", osts or -1)
            made.stripe("stripe_size", _MIB, "B")
            made.reasons.append(
                f"write: all five commonest settings had the most stripes there were ({_STUDY_OSTS}). With 1 MiB each "
                "214 of 216 test cases improved (99%), with 2 GiB 794 of 864 (92%)"
            )
    if workload.collective is not False and workload.api != "posix":
        for operation in ("write", "read"):
            if workload.operation in (operation, "both", None):
                made.hint(f"romio_cb_{operation}", "disable", "automatic")
        made.reasons.append(_INDEPENDENT)
        made.advice.append(
            Advice("collective", workload.collective, False, 1.0, "use independent calls in the program, if it can")
        )
    size = workload.transfer_size
    if workload.operation in ("read", "both", None) and (size is None or size < _GIB):
        made.advice.append(
            Advice("transfer_size", size, _GIB, 1.0, "read 1 GiB per call: it improved 1156 of 1332 test cases (87%)")
        )


_COLLECTIVE = ("romio_cb_write", "romio_cb_read")
_INDEPENDENT = (
    "non-collective access was in every one of the commonest settings for write, and improved 83% of the test "
    "cases for read. Where the program's calls are collective, romio_cb_* stands in for it"
)
_KNOWLEDGE = "knowledge"
_RULE_OF_THUMB = "this is a rule of thumb: nothing was measured here, and no gain is predicted"
_STUDY = "mpi-io-study"
