"""PyTorch's ``DataLoader``: settings where the samples stay the same, and who waits for whom.

Read for PyTorch 2.15 (torch/utils/data/dataloader.py), whose names of attributes are those since 1.7. Settings are put
into the loader when its first iterator is made: then the data set is as its workers will find it.

More workers change neither the samples nor their order, but only if reading a sample draws no random numbers, and goes
through no open file whose position processes share. A forked child tries both before the first iterator.
"""

from __future__ import annotations

import functools
import inspect
import json
import multiprocessing
import os
import random
import re
import select
import signal
import stat
import sys
import time
import types
import weakref
from pathlib import Path

_MOST_ROWS = 64
_TRIED = 4
"""Samples that the child reads."""
_PATIENCE = 20.0
"""Seconds that the child may take."""
_FREE = 0.5
"""Part of the free memory that batches which wait may take."""
_ON_NODE = (
    "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE",
)  # fmt: skip
"""How many processes torchrun, Open MPI, MPICH and Slurm started on this node."""
_IN_ALL = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
"""How many these started on all nodes."""
_USUAL_AHEAD = 2
_DATA_LOADER = "torch.utils.data.DataLoader"
_IN_FLIGHT = ("num_workers", "prefetch_factor")
"""What an order may change."""
_OF_WORKERS = ("prefetch_factor", "persistent_workers")
_CHANGE_DRAWS = ("num_workers", "persistent_workers")


class Loader:
    """One loader: what it has, and the time that its consumer spends in it and between two batches."""

    def __init__(self, made: object) -> None:
        self.workers = self.ahead = self.started = 0
        self.batches = self.samples = self.iterators = self.bytes = 0
        self.wait = self.busy = 0.0
        self.needed = 0
        """Bytes of the batches that may wait."""
        self.made = weakref.ref(made)
        self.asked = False
        self.passed = None
        """The arguments that the program gave; None of a loader that was not made here."""
        self.persist_draws = False
        self.own = None
        """Workers and read-ahead that the program has; None before the first epoch."""
        self.epoch = None

    def as_json(self) -> dict:
        """As a loader of a report."""
        return {
            "workers": self.workers, "prefetch": self.ahead, "workers_started": self.started,
            "iterators": self.iterators, "batches": self.batches, "samples": self.samples,
            "batch_bytes": self.bytes, "wait": self.wait, "busy": self.busy,
        }  # fmt: skip


class Epoch:
    """One pass through a loader, which may carry out an order."""

    def __init__(self, loader, orders) -> None:
        size = getattr(loader, "batch_size", None)
        self.site = f"{_DATA_LOADER} of {type(loader.dataset).__name__} in batches of {size}"
        self.orders = orders
        self.order, self.settings = orders.take(self.site)
        self.missed, self.why = 0, ""
        self.workers = self.ahead = self.started = self.batches = self.samples = 0
        self.start = self.last = time.perf_counter()

    def carry_out(self, loader, row: Loader, target, job) -> None:
        """Give the loader what the order asks for, on top of what the program has; the clock starts behind that."""
        if row.own is None:
            row.own = {name: getattr(loader, name) for name in _IN_FLIGHT}
        if not loader.persistent_workers:
            for name, value in row.own.items():
                object.__setattr__(loader, name, value)
        wanted = {key.rpartition(".")[2]: job.setting(value) for key, value in self.settings.items()}
        if loader.persistent_workers and loader._iterator is not None:
            self.why = "its workers persist"
        elif wanted:
            try:
                _give(loader, row, types.SimpleNamespace(settings=wanted, told=target.told), job)
            except Exception as error:
                self.why = f"the loader refuses it: {type(error).__name__}"
        self.missed = sum(getattr(loader, name) != one.value for name, one in wanted.items())
        given = any(name in (row.passed or ()) for name in wanted) and not job.override
        self.why = self.why or next((one.note for one in wanted.values() if one.note), "")
        self.why = self.why or ("the program sets them itself (--override replaces its values)" if given else "")
        self.start = self.last = time.perf_counter()

    def end(self, *, whole: bool) -> None:
        """Answer; an epoch that was broken off counts until its last batch."""
        now = time.perf_counter()
        end = now if whole else self.last
        if not self.samples or end <= self.start:
            return
        seen = f"workers={self.workers} started={self.started} prefetch={self.ahead} batches={self.batches}"
        fields = {
            "bytes": str(self.samples), "seconds": f"{end - self.start:.6f}", "order": str(self.order),
            "missed": str(self.missed), "evidence": f"{seen};{self.why}",
            "settings": ";".join(f"python {key} {value}" for key, value in self.settings.items()),
        }  # fmt: skip
        self.orders.answer(self.site, time.time() - (now - end), fields)


def _begin_epoch(loader, row: Loader, target, job, orders) -> None:
    """Take an order for the pass that begins; several processes must not differ, so they take none."""
    before, row.epoch = row.epoch, None
    if before is not None:
        before.end(whole=False)
    if orders is not None and row.passed is not None and _count_of(*_ON_NODE, *_IN_ALL) == 1:
        row.epoch = Epoch(loader, orders)
        row.epoch.carry_out(loader, row, target, job)


def patch(loader, target, job, orders=None) -> None:
    """Patch the class ``DataLoader``, and that of its iterators.

    ``orders`` are those of a tuner that runs beside the program; None where there is none.
    """
    module = sys.modules[loader.__module__]
    make, begin = loader.__init__, loader.__iter__
    known = inspect.signature(make)
    rows: dict = {}

    def row_of(self: object) -> Loader:
        known = rows.get(id(self))
        if known is not None and known.made() is self and known in target.told:
            return known
        row = rows[id(self)] = Loader(self)
        if known is not None and known.made() is self:  # of the process from which this one was forked
            row.passed, row.asked, row.persist_draws = known.passed, known.asked, known.persist_draws
        target.told.append(row)
        target.calls += 1
        if len(target.told) > _MOST_ROWS:
            _fold(target.told)
        return row

    @functools.wraps(make)
    def __init__(self, *args, **kwargs):
        make(self, *args, **kwargs)
        try:
            row_of(self).passed = set(known.bind_partial(self, *args, **kwargs).arguments)
        except Exception:
            pass

    @functools.wraps(begin)
    def __iter__(self):
        start = time.perf_counter()
        row = None
        try:
            row = row_of(self)
            if not row.asked:
                row.asked = True
                _give(self, row, target, job)
            elif row.persist_draws and self._iterator is not None:
                # A new iterator draws the base seed of its workers; the one that persists must draw as often.
                module.torch.empty((), dtype=module.torch.int64).random_(generator=self.generator)
            _begin_epoch(self, row, target, job, orders)
        except Exception:
            pass
        made = begin(self)
        try:
            row.iterators += 1
            row.workers, row.ahead = self.num_workers, (self.prefetch_factor or 0) if self.num_workers else 0
            alive = len(getattr(made, "_workers", ()) or ())
            row.started = max(row.started, alive)
            row.wait += time.perf_counter() - start
            made._stripewise, made._stripewise_last, made._stripewise_epoch = row, 0.0, row.epoch
            if row.epoch is not None:
                row.epoch.workers, row.epoch.ahead, row.epoch.started = row.workers, row.ahead, alive
        except Exception:
            pass
        return made

    __init__._stripewise = target
    loader._stripewise = target
    loader.__init__, loader.__iter__ = __init__, __iter__
    _patch_iterator(module._BaseDataLoaderIter, job)


def _fold(rows: list) -> None:
    """Add rows of loaders that are gone to the first of these: a program may make one for each epoch."""
    gone = [row for row in rows if row.made() is None]
    for row in gone[1:]:
        for name in ("iterators", "batches", "samples", "wait", "busy"):
            setattr(gone[0], name, getattr(gone[0], name) + getattr(row, name))
        rows.remove(row)


def _patch_iterator(iterator, job) -> None:
    step = iterator.__next__

    @functools.wraps(step)
    def __next__(self):
        row = self.__dict__.get("_stripewise")
        if row is None:
            return step(self)
        start = time.perf_counter()
        if self._stripewise_last:
            row.busy += start - self._stripewise_last
        try:
            data = step(self)
        except BaseException as error:
            self._stripewise_last = 0.0
            row.wait += time.perf_counter() - start
            _leave_epoch(self, row, whole=isinstance(error, StopIteration))
            job.write()
            raise
        row.batches += 1
        try:
            count = _samples_of(data)
        except Exception:
            count = 1
        row.samples += count
        end = time.perf_counter()
        row.wait += end - start
        epoch = self._stripewise_epoch
        if epoch is not None:
            epoch.batches, epoch.samples, epoch.last = epoch.batches + 1, epoch.samples + count, end
        job.write(soon=True)
        self._stripewise_last = time.perf_counter()
        return data

    iterator.__next__ = __next__


def _leave_epoch(iterator, row: Loader, *, whole: bool) -> None:
    """Answer for a pass that has come to its end; one that failed is no measurement."""
    epoch, iterator._stripewise_epoch = iterator._stripewise_epoch, None
    if epoch is not None and row.epoch is epoch:
        row.epoch = None
        try:
            if whole:
                epoch.end(whole=True)
        except Exception:  # the program must not notice a full disk
            pass


def _samples_of(data: object) -> int:
    """Count the samples of a batch: the length of the first tensor or list in it."""
    while True:
        shape = getattr(data, "shape", None)
        if shape is not None:
            return int(shape[0]) if len(shape) else 1
        if isinstance(data, dict):
            data = next(iter(data.values()))
        elif isinstance(data, (list, tuple)):
            if not data or isinstance(data[0], (str, bytes, int, float)):
                return len(data) or 1
            data = data[0]
        else:
            return 1


def _give(loader, row: Loader, target, job) -> None:
    """Put the settings into a loader that is about to make its first iterator."""
    wanted = {}
    if row.passed is None:
        return
    for name, one in target.settings.items():
        own = getattr(loader, name, None)
        if name in row.passed and not job.override:
            one.got(own, acted=False)
        elif own == one.value:
            one.missed += 1
        else:
            wanted[name] = one
    workers = wanted["num_workers"].value if "num_workers" in wanted else loader.num_workers
    if not workers:
        for name in _OF_WORKERS:
            if name in wanted:
                wanted.pop(name).missed += 1
    if "pin_memory" in wanted and wanted["pin_memory"].value and not _has_accelerator(loader):
        wanted.pop("pin_memory").refuse("no accelerator is here that could copy from pinned memory")
    of_workers = [name for name in (*_OF_WORKERS, "num_workers") if name in wanted]
    if of_workers:
        ahead = wanted["prefetch_factor"].value if "prefetch_factor" in wanted else None
        ahead = ahead or loader.prefetch_factor or _USUAL_AHEAD
        why, draws = _objection(loader, row, workers, ahead, of_workers, target.told)
        for name in of_workers:
            # Reading further ahead alone changes neither who reads a sample nor how often seeds are drawn.
            if (why and (name == "num_workers" or loader.num_workers == 0)) or (draws and name in _CHANGE_DRAWS):
                wanted.pop(name).refuse(why or draws)
        if why:
            for name in [name for name in of_workers if name in wanted]:
                wanted.pop(name).refuse(why)
        if "num_workers" not in wanted and loader.num_workers == 0:
            for name in _OF_WORKERS:
                if name in wanted:
                    wanted.pop(name).refuse("without workers it does nothing")
    for name, one in wanted.items():
        object.__setattr__(loader, name, one.value)
        one.got(one.value, acted=True)
        one.echoed = str(getattr(loader, name)).lower()
    if loader.num_workers and loader.prefetch_factor is None:
        object.__setattr__(loader, "prefetch_factor", _USUAL_AHEAD)
    if not loader.num_workers:
        object.__setattr__(loader, "prefetch_factor", None)
        object.__setattr__(loader, "persistent_workers", False)
        row.needed = 0
    row.persist_draws = "persistent_workers" in wanted and bool(loader.persistent_workers)


def _has_accelerator(loader) -> bool:
    torch = sys.modules["torch"]
    return bool(torch.cuda.is_available())


def _objection(loader, row: Loader, workers: int, ahead: int, names: list, told: list) -> tuple:
    """Say why settings of workers must be left, and why those that move random numbers must."""
    module = sys.modules["torch.utils.data.dataloader"]
    if multiprocessing.current_process().daemon:
        return "a daemonic process cannot start workers", ""
    if loader._dataset_kind != module._DatasetKind.Map:
        more = "num_workers" in names
        return ("the data set is iterable: each worker would read all of it" if more else ""), ""
    context = loader.multiprocessing_context
    method = context.get_start_method() if context is not None else multiprocessing.get_start_method()
    if method != "fork" and not loader.num_workers:
        return f"workers would start by {method}, which the program may not be written for", ""
    found = _try_samples(loader)
    if found.get("why"):
        return found["why"], ""
    row.bytes = found["bytes"]
    row.needed = workers * ahead * row.bytes
    free, sharing = free_memory(), _count_of(*_ON_NODE)
    # Others that live may not have filled their batches yet, so these count as if they were not there.
    needed = sharing * sum(one.needed for one in told if one.made() is not None)
    if free is not None and needed > _FREE * free:
        row.needed = 0
        asked = f"{workers} x {ahead} batches of {row.bytes} bytes"
        return f"{asked}, {needed} in all loaders and processes, exceed half of the {free} bytes that are free", ""
    return "", "reading a sample draws random numbers, which each worker would draw anew" if found["draws"] else ""


def _count_of(*variables: str) -> int:
    """Count the processes with loaders as this one has: by variables of launchers, or by PyTorch's group of processes.

    Processes that ``torch.multiprocessing.spawn`` started have no variables, so all of the group count as on this node.
    """
    found = [re.match("[0-9]+", os.environ.get(name, "")) for name in variables]
    counts = [int(one[0]) for one in found if one]
    group = sys.modules.get("torch.distributed")
    if not counts and group is not None and group.is_available() and group.is_initialized():
        counts = [group.get_world_size()]
    return max([1, *counts])


def free_memory() -> int | None:
    """Bytes that are free: of the machine, of the groups of processes, and of the memory that processes share."""
    found = _free_of_groups(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    try:
        lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
        found += [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable")]
    except OSError:
        pass
    try:
        shared = os.statvfs("/dev/shm")
        found.append(shared.f_bavail * shared.f_frsize)
    except OSError:
        pass
    return max(0, min(found)) if found else None


def _free_of_groups(own: Path, mounted: Path) -> list:
    """Free bytes of each control group above this process that has a limit; pages of files can be had again."""
    found = []
    try:
        lines = [line.split(":", 2) for line in own.read_text("utf-8").splitlines()]
    except OSError:
        return found
    for number, kinds, place in lines:
        if number == "0":
            root, most, used = mounted, "memory.max", "memory.current"
        elif "memory" in kinds.split(","):
            root, most, used = mounted / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        group = root / place.lstrip("/")
        for folder in (group, *group.parents):
            try:
                limit = int((folder / most).read_text("utf-8"))
                taken = int((folder / used).read_text("utf-8"))
                told = dict(line.split() for line in (folder / "memory.stat").read_text("utf-8").splitlines())
                prefix = "total_" if "total_active_file" in told else ""
                taken -= sum(int(told.get(f"{prefix}{name}_file", 0)) for name in ("active", "inactive"))
                found.append(limit - taken)
            except (OSError, ValueError):  # no limit ("max"), or a group that cannot be seen from here
                pass
            if folder == root:
                break
    return found


def _positions() -> dict:
    """Where each open regular file stands: a child that reads through one moves it here, too."""
    found = {}
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        return found
    for name in names:
        try:
            if stat.S_ISREG(os.fstat(int(name)).st_mode):
                found[int(name)] = os.lseek(int(name), 0, os.SEEK_CUR)
        except OSError:
            continue
    return found


def _try_samples(loader) -> dict:
    """Let a child read a few samples: whether that can be done in workers, and what a batch takes."""
    before = _positions()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _read_in_child(loader, writing)
    os.close(writing)
    try:
        ready, _, _ = select.select([reading], [], [], _PATIENCE)
        text = os.read(reading, 4096) if ready else b""
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    moved = [number for number, place in before.items() if _moved(number, place)]
    if not text:
        return {"why": f"a worker could not read {_TRIED} samples in {_PATIENCE:.0f} s"}
    found = json.loads(text)
    if moved and not found.get("why"):
        return {"why": "the data set reads through a file that is open already: workers would share its position"}
    return found


def _moved(number: int, place: int) -> bool:
    try:
        if os.lseek(number, 0, os.SEEK_CUR) == place:
            return False
        os.lseek(number, place, os.SEEK_SET)
    except OSError:
        return False
    return True


def _read_in_child(loader, writing: int) -> None:
    """Read the first samples as a worker does, tell what happened, and end at once."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        torch = sys.modules["torch"]
        torch.set_num_threads(1)
        first = next(iter(loader._index_sampler))
        several = loader._auto_collation
        chosen = list(first)[:_TRIED] if several else [first]
        states = _states(torch)
        many = getattr(loader.dataset, "__getitems__", None)

        def read() -> object:
            found = many(chosen) if several and many else [loader.dataset[one] for one in chosen]
            return loader.collate_fn(found if several else found[0])

        batch = read()
        # A generator of the data set's own shows in what it gives the second time.
        draws = _states(torch) != states or _content(batch) != _content(read())
        whole = len(first) if several else 1
        size = _bytes_of(batch) * whole // max(1, len(chosen))
        found = {"draws": draws, "bytes": size}
    except BaseException as error:
        found = {"why": f"a worker could not read a sample: {type(error).__name__}"}
    try:
        os.write(writing, json.dumps(found).encode())
    finally:
        os._exit(0)


def _states(torch) -> tuple:
    """The states of all generators of random numbers that a data set usually draws from."""
    found = [random.getstate(), torch.get_rng_state().numpy().tobytes()]
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        kind, keys, *rest = numpy.get_state()
        found.append((kind, keys.tobytes(), tuple(rest)))
    return tuple(found)


def _content(data: object) -> object:
    """A batch as something that can be compared; whatever is neither numbers nor text counts by its type."""
    if hasattr(data, "numpy"):
        data = data.numpy()
    if hasattr(data, "tobytes"):
        return data.tobytes()
    if isinstance(data, dict):
        return [(key, _content(one)) for key, one in data.items()]
    if isinstance(data, (list, tuple)):
        return [_content(one) for one in data]
    return data if isinstance(data, (str, bytes, int, float, bool)) else type(data).__name__


def _bytes_of(data: object) -> int:
    """Bytes of a batch."""
    if hasattr(data, "element_size") and hasattr(data, "nelement"):
        return int(data.element_size() * data.nelement())
    if hasattr(data, "nbytes"):
        return int(data.nbytes)
    if isinstance(data, dict):
        return sum(_bytes_of(one) for one in data.values())
    if isinstance(data, (list, tuple)):
        return sum(_bytes_of(one) for one in data)
    return sys.getsizeof(data)
