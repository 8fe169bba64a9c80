"""Fills arguments that a program leaves at their default, and counts what came of it. Only the standard library.

A key names a class or a function and one of its arguments, such as ``h5py.File.rdcc_nbytes``. Whatever fails here
leaves the program's own call as it was.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import json
import os
import socket
import sys
import time
import types
from pathlib import Path

_AGAIN = 2.0
"""Seconds after which a process writes its part once more: one that is killed has then left nearly all."""
_MOST_NOTES = 160


class Setting:
    """What was asked for one argument, and what calls got.

    ``acted`` counts calls that got another value than the program would have given them, ``missed`` all others.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.value = _read_value(text)
        self.acted = self.missed = 0
        self.application = self.given = self.echoed = None
        self.refused = False
        self.note = ""

    def got(self, value: object, *, acted: bool) -> None:
        """Count a call."""
        if acted:
            self.acted, self.given = self.acted + 1, self.text
        else:
            self.missed += 1
            self.application = _spell(value) if value != self.value else self.application

    def refuse(self, why: str) -> None:
        """Leave the program's value, because another one would change what it does."""
        self.missed, self.refused, self.note = self.missed + 1, True, why[:_MOST_NOTES]

    def as_json(self, key: str) -> dict:
        """As a setting of a report."""
        outcome = (
            "applied" if self.acted
            else "refused" if self.refused
            else "application_wins" if self.application is not None
            else "not_applicable"
        )  # fmt: skip
        return {
            "layer": "python", "key": key, "requested": self.text, "application": self.application,
            "given": self.given, "echoed": self.echoed, "outcome": outcome, "note": self.note,
            "acted": self.acted, "missed": self.missed,
        }  # fmt: skip


class Target:
    """A class or function, the settings of its arguments, and the calls that were made of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self.settings: dict = {}
        self.told: list = []
        """What a module of one library adds: a row for each object."""


class Job:
    """All that this process was asked for and did."""

    setting = Setting

    def __init__(self, text: str) -> None:
        asked = json.loads(text)
        self.override = bool(asked.get("override"))
        self.folder = asked.get("report") or ""
        self.targets: dict = {}
        for key, value in asked.get("set", {}).items():
            name, _, argument = key.rpartition(".")
            self.targets.setdefault(name, Target(name)).settings[argument] = Setting(value)
        for name in asked.get("watch", ()):
            self.targets.setdefault(name.rstrip("."), Target(name.rstrip(".")))
        self.started = time.time()
        self.written = 0.0
        self.pid = os.getpid()
        self.patched = False
        self.orders = asked.get("orders")
        """Paths of the orders and of the answers; none where no tuner waits."""

    def patch(self) -> None:
        """Have the part written when the process ends."""
        if not self.patched:
            self.patched = True
            atexit.register(self.write)

    def forked(self) -> None:
        """Start from nothing in a child, whose parent tells what was before."""
        self.pid, self.started, self.written = os.getpid(), time.time(), 0.0
        for target in self.targets.values():
            target.calls, target.told = 0, []
            target.settings = {name: Setting(one.text) for name, one in target.settings.items()}

    def write(self, *, soon: bool = False) -> None:
        """Leave a part for the report, whole or not at all."""
        now = time.monotonic()
        if not self.folder or (soon and now < self.written + _AGAIN):
            return
        self.written = now
        used = [target for target in self.targets.values() if target.calls or target.told]
        if not used:
            return
        try:
            host = socket.gethostname()
            part = {
                "pid": self.pid, "host": host, "executable": sys.executable, "script": Path([*sys.argv, ""][0]).name,
                "start": self.started, "end": time.time(),
                "rank": next((os.environ[name] for name in _ranks() if os.environ.get(name, "").isdigit()), None),
                "objects": [
                    {
                        "path": target.name, "calls": target.calls, "loaders": [row.as_json() for row in target.told],
                        "settings": [one.as_json(f"{target.name}.{key}") for key, one in target.settings.items()],
                    }
                    for target in used
                ],
            }  # fmt: skip
            path = Path(self.folder) / f"python-{host}-{self.pid}"
            unfinished = path.with_name(f".{path.name}.part")
            unfinished.write_text(json.dumps(part), "utf-8")
            os.replace(unfinished, path)
        except Exception:  # the program must not notice a full disk
            pass


def _ranks() -> tuple:
    """Name the variables of launchers: below srun, all workers of one torchrun have that launcher's rank."""
    others = ("SLURM_PROCID", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "RANK")
    return ("RANK", *others) if "TORCHELASTIC_RUN_ID" in os.environ else others


def begin(text: str, here: str):
    """Read the variable; gives what patches a module that has just been executed."""
    job = Job(text)
    os.register_at_fork(after_in_child=job.forked)
    special = {
        "torch.utils.data.DataLoader": _patch_loader,
        "h5py.Group": functools.partial(_patch_within_memory, "stripewise_h5py.py"),
        "fsspec.spec.AbstractFileSystem": functools.partial(_patch_within_memory, "stripewise_fsspec.py"),
        "numpy.memmap": functools.partial(_patch, "stripewise_memmap.py"),
        "dask.threaded.get": functools.partial(_patch, "stripewise_dask.py"),
    }

    def patch(module):
        for target in job.targets.values():
            if _answer(module, target, job):
                continue
            holder, name, found = _resolve(module, target.name)
            if found is None or getattr(found, "_stripewise", None) is target:
                continue
            job.patch()
            if target.name in special:
                special[target.name](here, found, target, job)
            elif isinstance(found, type):
                # Not its name: others may have imported the class already.
                found.__init__ = _filling(found.__init__, target, job)
            else:
                setattr(holder, name, _filling(found, target, job))

    return patch


def _patch_loader(here: str, found: type, target: Target, job: Job) -> None:
    orders = None
    if job.orders:
        program = Path([*sys.argv, ""][0]).name
        orders = _load(here, "stripewise_orders.py").Orders(*job.orders, started=job.started, program=program)
    _load(here, "stripewise_loader.py").patch(found, target, job, orders)


def _patch_within_memory(file: str, here: str, found: object, target: Target, job: Job) -> None:
    _load(here, file).patch(found, target, job, _load(here, "stripewise_loader.py").free_memory)


def _patch(file: str, here: str, found: object, target: Target, job: Job) -> None:
    _load(here, file).patch(found, target, job)


def _load(here: str, file: str) -> types.ModuleType:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(Path(file).stem, Path(here) / file)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _resolve(module: types.ModuleType, dotted: str) -> tuple:
    """Find an object below a module, without any lookup that would import something."""
    if not dotted.startswith(module.__name__ + "."):
        return None, "", None
    holder, parts = module, dotted[len(module.__name__) + 1 :].split(".")
    for part in parts[:-1]:
        holder = vars(holder).get(part)
        if not isinstance(holder, type):
            return None, "", None
    found = vars(holder).get(parts[-1])
    return (holder, parts[-1], found) if callable(found) else (None, "", None)


def _answer(module: types.ModuleType, target: Target, job: Job) -> bool:
    """Answer what a library asks its configuration (donfig's: zarr) where the program has left the default.

    The target is a section of it, such as ``zarr.core.config.config.async``.
    """
    if not target.name.startswith(module.__name__ + "."):
        return False
    name, _, section = target.name[len(module.__name__) + 1 :].partition(".")
    config = vars(module).get(name)
    usual = getattr(config, "__dict__", {}).get("defaults")  # without a lookup that may import something
    call = getattr(type(config), "get", None)
    if not section or not isinstance(usual, list) or call is None:
        return False
    if getattr(call, "_stripewise", None) is target:
        return True

    @functools.wraps(call)
    def get(self, key, *args, **kwargs):
        value = call(self, key, *args, **kwargs)
        try:
            if self is config and key.startswith(section + "."):
                value = _told(key[len(section) + 1 :], value, [found.get(section, {}) for found in usual], target, job)
        except Exception:
            pass
        return value

    get._stripewise = target
    type(config).get = get
    job.patch()
    return True


def _told(argument: str, own: object, usual: list, target: Target, job: Job) -> object:
    """Give what a library is told for an entry of its configuration, and count it."""
    one = target.settings.get(argument)
    if one is None and target.settings:
        return own
    target.calls += 1
    if one is not None:
        defaults = [found[argument] for found in usual if argument in found]
        value = None if one.value == 0 and None in defaults else one.value  # 0: what the library does by itself
        acted = own != value and (own in defaults or job.override)
        one.got(one.value if own == value else own, acted=acted)
        own = value if acted else own
        one.echoed = _spell(own)
    job.write(soon=True)
    return own


def _filling(call, target: Target, job: Job):
    """Wrap a function, or the making of an object, so that arguments which the program leaves out get values."""
    try:
        known = inspect.signature(call)
    except (TypeError, ValueError):
        known = None

    @functools.wraps(call)
    def wrapper(*args, **kwargs):
        if target.name == "h5py.File" and type(args[1] if len(args) > 1 else None).__module__.startswith("h5py."):
            return call(*args, **kwargs)  # h5py makes another object of a file that is open already
        try:
            more = _missing(known, target, job, args, kwargs)
        except Exception:
            return call(*args, **kwargs)
        try:
            answer = call(*args, **more[0])
        except (TypeError, ValueError) as error:
            if more[0] == kwargs:
                raise
            answer = call(*args, **kwargs)  # if it is the program's own fault, this says so
            for one in target.settings.values():
                one.refuse(f"{target.name} does not take it: {error}")
        else:
            _count(target, more[1])
            _echo(target, args)
        job.write(soon=True)
        return answer

    wrapper._stripewise = target
    return wrapper


def _missing(known, target: Target, job: Job, args: tuple, kwargs: dict) -> tuple:
    """Give the keyword arguments with what is filled in, and for each setting its own value and whether it acts."""
    target.calls += 1
    if not target.settings:
        return kwargs, ()
    given = known.bind_partial(*args, **kwargs).arguments if known is not None else kwargs
    inner = next((p.name for p in known.parameters.values() if p.kind is p.VAR_KEYWORD), "") if known else ""
    passed = {**given.pop(inner, {}), **given} if inner else given
    more, counted = dict(kwargs), []
    for name, one in target.settings.items():
        default = known.parameters[name].default if known is not None and name in known.parameters else None
        value = passed.get(name, default)
        fill = (name not in passed or job.override) and not _positional(known, name, args)
        acted = fill and value != one.value
        if fill and (acted or name in passed):
            more[name] = one.value
        counted.append((one, value, acted, name in passed))
    return more, counted


def _positional(known, name: str, args: tuple) -> bool:
    """Whether an argument was given by its place, where a keyword would be given twice."""
    return known is not None and name in list(known.parameters)[: len(args)]


def _count(target: Target, counted) -> None:
    for one, value, acted, passed in counted:
        if acted or passed:
            one.got(value, acted=acted)
        else:
            one.missed += 1


def _echo(target: Target, args: tuple) -> None:
    """Ask the object what it has been given, where it tells."""
    try:
        if target.name == "h5py.File" and target.settings.keys() & _CACHE.keys():
            h5p = sys.modules["h5py.h5p"]
            cache, usual = args[0].id.get_access_plist().get_cache(), h5p.create(h5p.FILE_ACCESS).get_cache()
            for name, at in _CACHE.items():
                if name in target.settings:
                    one = target.settings[name]
                    one.echoed = _spell(cache[at])
                    if one.acted and cache[at] == usual[at]:  # what this version of HDF5 does anyway
                        one.acted, one.missed, one.given = one.acted - 1, one.missed + 1, None
    except Exception:  # a file that tells nothing
        pass


_CACHE = {"rdcc_nslots": 1, "rdcc_nbytes": 2, "rdcc_w0": 3}


def _read_value(text: str) -> object:
    words = {"true": True, "false": False, "none": None}
    if text in words:
        return words[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _spell(value: object) -> str:
    return {True: "true", False: "false", None: "none"}.get(value, str(value)) if _is_plain(value) else str(value)[:64]


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool)
