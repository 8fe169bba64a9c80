"""What is put into a program's Python: it fills arguments, tells what came of them, and leaves all else as it was."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipapp
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import stripewise.runners.in_python as hook
from stripewise.catalogue.carriers import PYTHON, Program, Setting
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import load_stack
from stripewise.diagnose.site import diagnose
from stripewise.engine.definition import with_options
from stripewise.engine.effects import verdicts
from stripewise.engine.session import Session
from stripewise.errors import NothingWorks, RunFailed, UserError
from stripewise.facts import Facts
from stripewise.launch import Outcome
from stripewise.observe.from_report import activity_of
from stripewise.observe.journal import JournalPhase, parse_journal, report_of
from stripewise.observe.objectives import Conditions, kind_of
from stripewise.observe.orders import Order, append_orders
from stripewise.observe.processes import merge_parts
from stripewise.observe.report import read_report_file
from stripewise.requests.experiment import Experiment
from stripewise.runners.in_python import stripewise_loader, stripewise_settings
from stripewise.runners.injection import Guidance, inject, prepare
from stripewise.runners.program.binary import inspect
from stripewise.runners.program.mpi import why_isolated
from stripewise.runners.program_runner import Surroundings
from stripewise.runners.within.runner import WithinRunner
from stripewise.store.opening import open_store
from stripewise.trial import State
from tests.conftest import require

HOOK = Path(hook.__file__).parent
LIBRARY = """
def read(path, threads=1, buffer=0, **more): return path, threads, buffer, more
class File:
    def __init__(self, path, cache=None): self.cache = cache
    def make(self, name, *, chunks=None): return chunks
"""
# As much of PyTorch as its loaders need: the same names of attributes, and workers that are none.
TORCH = """
import random
int64 = "int64"
class _Number:
    def random_(self, generator=None): self.value = random.getrandbits(63); return self
    def item(self): return self.value
def empty(shape, dtype): return _Number()
class _State:
    def numpy(self): return self
    def tobytes(self): return b""
def get_rng_state(): return _State()
def set_num_threads(number): pass
class cuda:
    @staticmethod
    def is_available(): return False
"""
DATALOADER = """
import torch
class _DatasetKind: Map, Iterable = 0, 1
class _BaseDataLoaderIter:
    def __init__(self, loader):
        self._loader, self._workers = loader, [None] * loader.num_workers
        self._base_seed = torch.empty((), torch.int64).random_().item()
        self._reset()
    def _reset(self): self._batches = iter(self._loader._index_sampler)
    def __iter__(self): return self
    def __next__(self):
        loader = self._loader
        return loader.collate_fn([loader.dataset[at] for at in next(self._batches)])
class DataLoader:
    def __init__(self, dataset, batch_size=1, num_workers=0, pin_memory=False, *, prefetch_factor=None,
                 persistent_workers=False):
        if not num_workers and prefetch_factor: raise ValueError("prefetch_factor needs workers")
        self.dataset, self.batch_size, self.num_workers = dataset, batch_size, num_workers
        self.pin_memory, self.prefetch_factor, self.persistent_workers = pin_memory, prefetch_factor, persistent_workers
        self._dataset_kind = _DatasetKind.Iterable if not hasattr(dataset, "__len__") else _DatasetKind.Map
        self._auto_collation, self.generator, self._iterator, self.multiprocessing_context = True, None, None, None
        self.collate_fn = list
    @property
    def _index_sampler(self):
        return [list(range(at, at + self.batch_size)) for at in range(0, len(self.dataset), self.batch_size)]
    def __iter__(self):
        if self.persistent_workers and self.num_workers:
            if self._iterator is None: self._iterator = _BaseDataLoaderIter(self)
            else: self._iterator._reset()
            return self._iterator
        return _BaseDataLoaderIter(self)
"""
DATASET = """
import random, sys
from torch.utils.data import DataLoader
class Samples:
    def __init__(self, read=lambda at: at): self.read = read
    def __len__(self): return 32
    def __getitem__(self, at): return self.read(at)
"""
LOADER = "torch.utils.data.DataLoader"


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    """A folder with the stand-ins."""
    data = tmp_path / "lib" / "torch" / "utils" / "data"
    data.mkdir(parents=True)
    (tmp_path / "lib" / "library.py").write_text(LIBRARY, "utf-8")
    (tmp_path / "lib" / "torch" / "__init__.py").write_text(TORCH, "utf-8")
    (tmp_path / "lib" / "torch" / "utils" / "__init__.py").write_text("", "utf-8")
    (data / "__init__.py").write_text("from torch.utils.data.dataloader import DataLoader", "utf-8")
    (data / "dataloader.py").write_text(DATALOADER, "utf-8")
    return tmp_path


def run(
    home: Path,
    code: str,
    settings: dict[str, str],
    *,
    override: bool = False,
    words: tuple[str, ...] = (),
    watch: Sequence[str] = (),
    **more: str,
) -> tuple[str, dict]:
    """Run a text in a new Python with settings; gives what it printed, and its report."""
    report = home / "run" / "report.json"
    report.parent.mkdir(exist_ok=True)
    asked = {
        "set": settings,
        "watch": [f"{one}." for one in (LOADER, *watch)],
        "override": override,
        "report": str(report.parent),
    }
    environment = {
        "PATH": os.environ["PATH"], "PYTHONPATH": f"{HOOK}:{home / 'lib'}", "STRIPEWISE_PYTHON": json.dumps(asked),
        "PYTHONDONTWRITEBYTECODE": "1", **more,
    }  # fmt: skip
    command = words or (sys.executable, "-c", code)
    done = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout, read_report_file(report).model_dump() if merge_parts(report.parent, report) else {}


def outcomes(report: dict) -> dict[str, tuple]:
    return {
        one["key"].rpartition(".")[2]: (one["outcome"], one["acted"], one["missed"], one["note"])
        for found in report["objects"]
        for one in found["settings"]
    }


def test_arguments_that_are_left_out_are_filled_and_others_are_the_programs_own(libraries: Path) -> None:
    settings = {"library.read.threads": "4", "library.read.buffer": "1024", "library.File.cache": "7"}
    code = "import library as l; print(l.read('a'), l.read('b', 2), l.read('c', threads=3), l.File('d').cache)"
    printed, report = run(libraries, code, settings)
    assert printed == "('a', 4, 1024, {}) ('b', 2, 1024, {}) ('c', 3, 1024, {}) 7\n"
    assert outcomes(report)["threads"][:3] == ("applied", 1, 2) and outcomes(report)["buffer"][1:3] == (3, 0)
    printed, _ = run(libraries, code, settings, override=True)
    assert printed == "('a', 4, 1024, {}) ('b', 2, 1024, {}) ('c', 4, 1024, {}) 7\n", (
        "by its place it cannot be replaced"
    )


def test_arguments_of_methods_are_filled_and_unknown_ones_leave_the_call_as_it_was(libraries: Path) -> None:
    settings = {"library.File.make.chunks": "8", "library.File.wrong": "1", "library.none.x": "1"}
    printed, report = run(libraries, "import library; print(library.File('d').make('x'))", settings)
    assert printed == "8\n"
    status, acted, _, note = outcomes(report)["wrong"]
    assert (status, acted) == ("refused", 0) and "unexpected keyword argument 'wrong'" in note


def test_errors_are_those_of_the_program(libraries: Path) -> None:
    code = "import library\ntry: library.read()\nexcept TypeError as e: print(e)"
    plain, _ = run(libraries, code, {})
    assert run(libraries, code, {"library.read.threads": "4"})[0] == plain and "path" in plain


SIZES = {f"{LOADER}.num_workers": "4", f"{LOADER}.prefetch_factor": "8", f"{LOADER}.persistent_workers": "true"}
EPOCHS = f"""{DATASET}
loader = DataLoader(Samples(), batch_size=8)
print([batch for _ in range(3) for batch in loader], random.random())
"""


def test_a_loader_gets_workers_and_gives_the_same_samples_and_random_numbers(libraries: Path) -> None:
    seeded = EPOCHS.replace("loader =", "random.seed(1)\nloader =")
    plain, without = run(libraries, seeded, {})
    printed, report = run(libraries, seeded, SIZES)
    assert printed == plain
    assert {name: one[0] for name, one in outcomes(report).items()} == dict.fromkeys(
        ("num_workers", "prefetch_factor", "persistent_workers"), "applied"
    )
    (loader,), (usual,) = report["loaders"], without["loaders"]
    assert (loader["workers"], loader["prefetch"], loader["workers_started"], usual["workers"]) == (4, 8, 4, 0)
    assert (loader["batches"], loader["samples"], loader["iterators"]) == (12, 96, 3)


@pytest.mark.parametrize(
    ("dataset", "why"),
    [
        ("Samples(lambda at: at + random.random())", "draws random numbers"),
        ("Samples(lambda at, own=random.Random(1): own.random())", "draws random numbers"),
        ("Samples(lambda at, file=open('x', 'rb', 0): file.read(1))", "a file that is open already"),
        ("Samples(lambda at: open('x', 'rb').read(1))", ""),
        ("Samples(lambda at: 1 // 0 if at == 1 else at)", "could not read a sample: ZeroDivisionError"),
        ("(at for at in range(32))", "iterable"),
    ],
)
def test_workers_are_refused_where_samples_would_differ(libraries: Path, dataset: str, why: str) -> None:
    (libraries / "x").write_bytes(b"0123456789" * 10)
    take = f"loader = DataLoader({dataset}, batch_size=8)\ntry: print(next(iter(loader)))"
    code = f"{DATASET}\nrandom.seed(3)\n{take}\nexcept Exception as error: print(repr(error))"
    plain, _ = run(libraries, code, {})
    printed, report = run(libraries, code, {f"{LOADER}.num_workers": "4"})
    assert printed == plain
    status, acted, _, note = outcomes(report)["num_workers"]
    assert (status, acted) == (("refused", 0) if why else ("applied", 1)) and why in note
    assert report["loaders"][0]["workers"] == (0 if why else 4)


def test_workers_that_would_fill_the_memory_are_refused(libraries: Path) -> None:
    loader = "DataLoader(Samples(lambda at: Huge(1)), batch_size=8)"
    code = f"{DATASET}class Huge(bytes): nbytes = 1 << 45\nfor batch in {loader}: break"
    _, report = run(libraries, code, {f"{LOADER}.num_workers": "4"})
    assert "exceed half of the" in outcomes(report)["num_workers"][3]


GROUP = """import sys, types, torch
sys.modules["torch.distributed"] = types.SimpleNamespace(
    is_available=lambda: True, is_initialized=lambda: True, get_world_size=lambda: {size})
"""


@pytest.mark.parametrize(
    ("more", "loaders", "expected"),
    [
        ({}, 1, 1),
        ({"LOCAL_WORLD_SIZE": "8"}, 1, 0),
        ({"LOCAL_WORLD_SIZE": "1", "WORLD_SIZE": "8"}, 1, 1),
        ({"SLURM_STEP_TASKS_PER_NODE": "8(x2)"}, 1, 0),
        ({"GROUP": "8"}, 1, 0),
        ({}, 5, 2),
    ],
)
def test_memory_counts_for_all_loaders_and_processes_of_a_node(
    libraries: Path, more: dict[str, str], loaders: int, expected: int
) -> None:
    free = stripewise_loader.free_memory()
    assert free
    # 4 workers, 2 batches of 8 samples each: a fifth of what is free, so that two fit whatever else ends meanwhile.
    group = GROUP.format(size=more["GROUP"]) if "GROUP" in more else ""
    code = f"""{group}{DATASET}class Huge(bytes): nbytes = {free // (4 * 2 * 8 * 5)}
made = [DataLoader(Samples(lambda at: Huge(1)), batch_size=8) for _ in range({loaders})]
for loader in made: next(iter(loader))"""
    _, report = run(libraries, code, {f"{LOADER}.num_workers": "4"}, **more)
    with_workers = [one["workers"] for one in report["loaders"]].count(4)
    assert with_workers == expected
    assert ("exceed half of the" in outcomes(report)["num_workers"][3]) == (expected < loaders)


@pytest.mark.parametrize(
    ("line", "below", "names", "prefix"),
    [("0::/job/step", "", ("memory.max", "memory.current"), ""),
     ("4:cpu,memory:/job/step", "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_")],
)  # fmt: skip
def test_free_memory_is_that_of_the_jobs_own_control_group(
    tmp_path: Path, line: str, below: str, names: tuple[str, str], prefix: str
) -> None:
    job = tmp_path / below / "job"
    (job / "step").mkdir(parents=True)
    for folder, limit in ((job, "1000"), (job / "step", "max")):
        for name, text in (*zip(names, (limit, "900"), strict=True), ("memory.stat", "")):
            (folder / name).write_text(text, "utf-8")
    (job / "memory.stat").write_text(f"anon 100\n{prefix}active_file 300\n{prefix}inactive_file 400", "utf-8")
    (tmp_path / "own").write_text(f"7:pids:/\n{line}\n", "utf-8")
    assert stripewise_loader._free_of_groups(tmp_path / "own", tmp_path) == [800]


def test_a_programs_own_workers_stay_unless_the_plan_overrides(libraries: Path) -> None:
    code = DATASET + "loader = DataLoader(Samples(), 8, num_workers=1)\nprint(len(list(loader)), loader.num_workers)"
    printed, report = run(libraries, code, {f"{LOADER}.num_workers": "4", f"{LOADER}.prefetch_factor": "8"})
    assert printed == "4 1\n" and outcomes(report)["num_workers"][0] == "application_wins"
    assert outcomes(report)["prefetch_factor"][0] == "applied" and report["loaders"][0]["prefetch"] == 8
    assert run(libraries, code, {f"{LOADER}.num_workers": "4"}, override=True)[0] == "4 4\n"


def ordered(home: Path, code: str, orders: Sequence[dict[str, str]], site: str) -> tuple[str, list[JournalPhase]]:
    """Run a text whose loaders carry out orders; gives what it printed, and the answers."""
    answers, path = home / "answers", home / "orders"
    keys = {"workers": f"{LOADER}.num_workers", "ahead": f"{LOADER}.prefetch_factor"}
    settings = [[Setting(PYTHON, keys[name], value) for name, value in one.items()] for one in orders]
    append_orders(path, [Order(number, site, "read", one) for number, one in enumerate(settings, 1)])
    asked = {"set": {}, "watch": [f"{LOADER}."], "report": str(home), "orders": [str(path), str(answers)]}
    printed, _ = run(home, code, {}, STRIPEWISE_PYTHON=json.dumps(asked))
    return printed, list(parse_journal(answers.read_text("utf-8")).phases)


PASSES = (
    DATASET
    + """
random.seed(5)
loader = DataLoader(Samples({read}), 8)
for epoch in range(5): print(list(loader), random.random())
next(iter(loader))
"""
)
SITE = f"{LOADER} of Samples in batches of 8"


def test_epochs_carry_out_orders_and_answer(libraries: Path) -> None:
    code = PASSES.format(read="")
    plain, _ = run(libraries, code, {})
    orders = [{"workers": "4", "ahead": "8"}, {}, {"workers": "2"}]
    printed, answers = ordered(libraries, code, orders, SITE)
    assert printed == plain
    assert [one.order for one in answers] == [1, 2, 3, 0, 0]  # the sixth pass has not ended
    assert {one.kind for one in answers} == {(SITE, "read", False, False)} and {one.moved for one in answers} == {32.0}
    loaders = [report_of([one]).loaders[0] for one in answers]
    assert [(one.workers, one.workers_started, one.prefetch) for one in loaders] == [
        (4, 4, 8), (0, 0, 0), (2, 2, 2), (0, 0, 0), (0, 0, 0)
    ]  # fmt: skip
    assert not any(one.missed for one in answers) and answers[2].settings == {f"{LOADER}.num_workers": "2"}
    # A process that starts later carries none out again.
    _, more = ordered(libraries, code, [], SITE)
    assert [one.order for one in more[5:]] == [0] * 5


def test_a_pass_that_is_broken_off_counts_until_its_last_batch(libraries: Path) -> None:
    code = (
        DATASET
        + """
import itertools, time
loader = DataLoader(Samples(), 8)
for epoch in range(2):
    for batch in itertools.islice(loader, 2): pass
    time.sleep(0.2)
list(loader)
"""
    )
    _, answers = ordered(libraries, code, [{}, {}, {}], SITE)
    assert [(one.order, one.moved) for one in answers] == [(1, 16.0), (2, 16.0), (3, 32.0)]
    assert answers[0].seconds < 0.2


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (PASSES.format(read="lambda at: random.random()"), "draws random numbers"),
        (PASSES.format(read="").replace(", 8)", ", 8, num_workers=3)"), "the program sets them itself"),
        (PASSES.format(read="").replace(", 8)", ", 8, num_workers=3, persistent_workers=True)"), "persist"),
    ],
)
def test_orders_that_cannot_be_carried_out_say_why(libraries: Path, code: str, why: str) -> None:
    plain, _ = run(libraries, code, {})
    printed, answers = ordered(libraries, code, [{}, {"workers": "2"}], SITE)
    assert printed == plain and [one.missed for one in answers[:3]] == [0, 1, 0]
    assert why in answers[1].evidence


@pytest.mark.parametrize(
    ("before", "answers"),
    [
        ("import os; os.environ['LOCAL_WORLD_SIZE'] = '2'\n", 0),
        ("import os; os.environ |= {'LOCAL_WORLD_SIZE': '1', 'WORLD_SIZE': '4'}\n", 0),
        (GROUP.format(size=2), 0),
        (GROUP.format(size=1), 3),
    ],
)
def test_processes_that_share_the_work_take_no_orders(libraries: Path, before: str, answers: int) -> None:
    (libraries / "answers").write_text("", "utf-8")
    assert len(ordered(libraries, before + PASSES.format(read=""), [{"workers": "4"}], SITE)[1]) >= answers
    assert bool((libraries / "answers").read_text("utf-8")) == bool(answers)


@pytest.mark.parametrize(("torchrun", "rank"), [({}, "0"), ({"TORCHELASTIC_RUN_ID": "1"}, "3")])
def test_workers_of_torchrun_below_srun_have_ranks_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torchrun: dict[str, str], rank: str
) -> None:
    for name, value in {"SLURM_PROCID": "0", "RANK": "3", **torchrun}.items():
        monkeypatch.setenv(name, value)
    job = stripewise_settings.Job(json.dumps({"set": FILL, "report": str(tmp_path)}))
    job.targets["library.read"].calls = 1
    job.write()
    (part,) = tmp_path.iterdir()
    assert json.loads(part.read_text("utf-8"))["rank"] == rank


def test_settings_that_do_nothing_here_say_so(libraries: Path) -> None:
    settings = {f"{LOADER}.pin_memory": "true", f"{LOADER}.prefetch_factor": "8"}
    _, report = run(libraries, EPOCHS, settings)
    assert "no accelerator" in outcomes(report)["pin_memory"][3]
    assert outcomes(report)["prefetch_factor"][:2] == ("not_applicable", 0)


FILL = {"library.read.threads": "4"}
PRINT = "import library; print(library.read('a')[1])"
# All that a program can see of its interpreter, and what the call gets; the exit code is its own, too.
SEEN = """
import os, sys
def seen():
    print(sys.argv, sys.path, sorted(sys.path_importer_cache), sys.flags, sys.warnoptions, sorted(sys.modules))
    sys.path.append(os.environ["LIB"])
    import library
    print(library.read("a")[1])
"""
CALLED = SEEN + "seen()\nsys.exit(3)\n"
SPAWNED = (
    SEEN
    + """
import multiprocessing
def work():
    seen(); sys.stdout.flush()
if __name__ == "__main__":
    process = multiprocessing.get_context(sys.argv[1]).Process(target=work)
    process.start(); process.join()
    sys.exit(process.exitcode)
"""
)
FORKED = SEEN + "if os.fork(): sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\nseen()\nsys.exit(3)"
THREADS = """
import os, sys, threading
sys.path.append(os.environ["LIB"])
started = [threading.Thread(target=__import__, args=("library",)) for _ in range(8)]
for one in started: one.start()
for one in started: one.join()
import library
print(library.read("a")[1])
"""
GONE = "import os\nos.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\n"
OLD_FINDER = (
    "import sys\nclass Finder:\n    def find_module(self, *_): return None\nsys.meta_path.insert(0, Finder())\n"
)
PYTHON_ITSELF = "{python}"
PROGRAMS: dict[str, tuple[str, ...]] = {
    "code": (PYTHON_ITSELF, "-c", CALLED),
    "script": (PYTHON_ITSELF, "called.py", "a"),
    "module": (PYTHON_ITSELF, "-m", "called"),
    "package": (PYTHON_ITSELF, "-m", "app"),
    "folder": (PYTHON_ITSELF, "app"),
    "zipapp": (PYTHON_ITSELF, "app.pyz"),
    "standard input": ("bash", "-c", "{python} - < called.py"),
    "interactive, PYTHONSTARTUP": ("bash", "-c", "PYTHONSTARTUP=called.py {python} -iq < /dev/null 2>&1"),
    "runpy": (PYTHON_ITSELF, "-c", "import runpy; runpy.run_path('called.py', run_name='__main__')"),
    "virtual environment": ("env/bin/python", "called.py"),
    "fork": (PYTHON_ITSELF, "-c", FORKED),
    "multiprocessing fork": (PYTHON_ITSELF, "spawned.py", "fork"),
    "multiprocessing spawn": (PYTHON_ITSELF, "spawned.py", "spawn"),
    "multiprocessing forkserver": (PYTHON_ITSELF, "spawned.py", "forkserver"),
    "subprocess": (PYTHON_ITSELF, "-c", "import subprocess as s; exit(s.call(['{python}', 'called.py']))"),
    "exec": (PYTHON_ITSELF, "-c", "import os; os.execv('{python}', ['{python}', 'called.py'])"),
    "threads that import": (PYTHON_ITSELF, "-c", THREADS),
    "working folder that is gone": (PYTHON_ITSELF, "-c", GONE + CALLED),
    "a path with blanks": ("env", "PYTHONPATH={hook}a b:c  d", PYTHON_ITSELF, "called.py"),
    "an empty path": ("env", "PYTHONPATH={hook}", PYTHON_ITSELF, "called.py"),
    "PYTHONSAFEPATH": ("env", "PYTHONSAFEPATH=1", PYTHON_ITSELF, "called.py"),
    "own sitecustomize": ("env", "PYTHONPATH={hook}own", PYTHON_ITSELF, "called.py"),
    "own sitecustomize that fails": ("env", "PYTHONPATH={hook}broken", PYTHON_ITSELF, "called.py"),
    "own sitecustomize that imports what is not there": ("env", "PYTHONPATH={hook}lost", PYTHON_ITSELF, "called.py"),
    "usercustomize": ("env", "PYTHONUSERBASE=user", PYTHON_ITSELF, "called.py"),
    "no module sitecustomize": (PYTHON_ITSELF, "-c", CALLED + "import sitecustomize"),
    "warnings are errors": (PYTHON_ITSELF, "-X", "dev", "-W", "error", "-bb", "called.py"),
    "no docstrings": (PYTHON_ITSELF, "-OO", "called.py"),
    "no user site": (PYTHON_ITSELF, "-s", "called.py"),
    "an importer of the old kind": (PYTHON_ITSELF, "-c", OLD_FINDER + CALLED),
    "no arguments": (PYTHON_ITSELF, "-c", "import sys; sys.argv.clear()\n" + CALLED),
    "isolated": (PYTHON_ITSELF, "-I", "called.py"),
    "no environment": (PYTHON_ITSELF, "-E", "called.py"),
    "no site": (PYTHON_ITSELF, "-S", "called.py"),
    "PyPy": ("pypy3", "called.py"),
}
UNSET = {"isolated", "no environment", "no site", "an importer of the old kind", "a module without exec_module"}
OLD = """
import importlib.machinery, importlib.util, os, sys
class Loader:
    def load_module(self, name):
        spec = importlib.util.spec_from_file_location(name, os.path.join(os.environ["LIB"], "library.py"))
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
class Finder:
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, Loader()) if name == "library" else None
sys.meta_path.insert(0, Finder())
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the programs of the table need."""
    home = tmp_path_factory.mktemp("programs")
    for folder in ("lib", "app", "own", "broken", "lost", "a b"):
        (home / folder).mkdir()
    (home / "lib" / "library.py").write_text(LIBRARY, "utf-8")
    for name, text in (("called", CALLED), ("app/__main__", CALLED), ("spawned", SPAWNED), ("old", OLD)):
        (home / f"{name}.py").write_text(text, "utf-8")
    for folder, text in (("own", "print('mine')"), ("broken", "1 / 0"), ("lost", "import nowhere")):
        (home / folder / "sitecustomize.py").write_text(text, "utf-8")
    site = home / "user" / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    site.mkdir(parents=True)
    (site / "usercustomize.py").write_text("print('the user')", "utf-8")
    zipapp.create_archive(home / "app", home / "app.pyz")
    venv.create(home / "env", with_pip=False)
    return home


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_sees_and_does_what_it_would_without(programs: Path, name: str) -> None:
    base = getattr(sys, "_base_executable", sys.executable)  # a virtual environment has no user's site
    if name == "PyPy" and not shutil.which("pypy3"):
        pytest.skip("no pypy3")
    common = {"PATH": os.environ["PATH"], "LIB": str(programs / "lib"), "PYTHONDONTWRITEBYTECODE": "1"}
    carried = {"STRIPEWISE_PYTHON": json.dumps({"set": FILL}), "PYTHONPATH": str(HOOK)}
    results = []
    for more, first in (({}, ""), (carried, f"{HOOK}:")):
        words = [word.replace("{python}", base).replace("{hook}", first) for word in PROGRAMS[name]]
        words = [word.rstrip(":") if word.startswith("PYTHONPATH=") else word for word in words]
        done = subprocess.run(
            words, env={**common, **more}, cwd=programs, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False, timeout=60,
        )  # fmt: skip
        seen, _, threads = done.stdout.strip().rpartition("\n")
        if name == "no site":  # nothing of ours runs that could take the folder off the path
            seen = re.sub(f"('{HOOK}', |, '{HOOK}')", "", seen)
        results.append((done.returncode, done.stderr, seen, threads.strip()))
    assert results[1][:3] == results[0][:3]
    assert (results[0][3], results[1][3]) == ("1", "1" if name in UNSET else "4")


def _starts(python: str) -> bool:
    """Whether it is a Python, and not a shim of pyenv without one."""
    return subprocess.run([python, "-c", ""], stderr=subprocess.DEVNULL, check=False).returncode == 0


def test_pythons_before_3_8_run_their_own_sitecustomize_alone(programs: Path) -> None:
    """Python 2 printed that the module failed, and went without the program's own."""
    called = "import library, sys; print(library.read('a')[1]); sys.exit(3)"
    (programs / "own2").mkdir()
    (programs / "own2" / "sitecustomize.py").write_text("print('mine')", "utf-8")
    (programs / "own2" / "library.py").write_text("def read(path):\n    return path, 1\n", "utf-8")
    environment = {
        **{"STRIPEWISE_PYTHON": json.dumps({"set": FILL}), "PYTHONDONTWRITEBYTECODE": "1"},
        **{"PYTHONPATH": f"{HOOK}:{programs / 'own2'}", "PATH": os.environ["PATH"]},
    }
    tree = ast.parse((HOOK / "sitecustomize.py").read_text("utf-8"), feature_version=(3, 4))  # refuses f-strings
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.returns]
    names = ("python2.7", "python3.6", "python3.7")
    for python in [found for name in names if (found := shutil.which(name)) and _starts(found)]:
        done = subprocess.run([python, "-c", called], env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr, done.stdout) == (3, "", "mine\n1\n"), python


EMBEDDED = """
#include <Python.h>
int main(int count, char **words)
{
    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    if (count == 2) Py_Initialize(); else Py_InitializeFromConfig(&config);
    int failed = PyRun_SimpleString(words[1]);
    return Py_FinalizeEx() || failed ? 3 : 0;
}
"""


def test_an_embedded_interpreter_has_the_settings_unless_it_is_isolated(programs: Path) -> None:
    folder, library = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LDLIBRARY") or ""
    header = Path(sysconfig.get_path("include")) / "Python.h"
    there = shutil.which("cc") and library.endswith(".so") and Path(folder, library).exists() and header.exists()
    require(there, "no C compiler, or no shared library of Python")
    (programs / "embed.c").write_text(EMBEDDED, "utf-8")
    subprocess.run(
        ["cc", "embed.c", "-o", "embed", f"-I{header.parent}", f"-L{folder}", f"-Wl,-rpath,{folder}",
         f"-l{library[3:-3]}"], cwd=programs, check=True,
    )  # fmt: skip
    environment = {
        "STRIPEWISE_PYTHON": json.dumps({"set": FILL}),
        "PYTHONPATH": str(HOOK),
        "LIB": str(programs / "lib"),
    }
    for words, threads in ((["./embed", CALLED], "4"), (["./embed", CALLED, "isolated"], "1")):
        done = subprocess.run(words, env=environment, cwd=programs, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr, done.stdout.split()[-1]) == (3, "", threads)


@pytest.mark.parametrize("options", ["-I", "-E", "-S", "-sI"])
def test_the_reason_is_told_where_nothing_can_be_set(tmp_path: Path, options: str) -> None:
    letter = next(letter for letter in options if letter in "IES")
    reason = f" -{letter} runs no sitecustomize of PYTHONPATH"
    assert reason in why_isolated(["python3", options, "train.py"])
    assert reason in why_isolated(["pypy3", "-X", "dev", "-W", "error", options, "train.py"])
    script = tmp_path / "train"
    for first in (f"#!/usr/bin/python3 {options}", f"#!/usr/bin/env -S python3 {options}"):
        script.write_text(f"{first}\n", "utf-8")
        script.chmod(0o755)
        assert reason in why_isolated([str(script)], inspect(script, dict(os.environ), tmp_path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("set -e\npython3 prepare.py\n  python3 -Iu train.py 3\n", "python3 -I"),
        ("#!/bin/sh\n# python3 -I train.py\npython3 -u train.py -I\n", ""),
        ("import sys, subprocess\nsubprocess.run([sys.executable, '-S', 'train.py'])\n", "python -S"),
        ("import sys, subprocess\nsubprocess.run([sys.executable, '-m', 'train'])\n", ""),
    ],
)
def test_a_child_in_which_nothing_can_be_set_is_named(tmp_path: Path, text: str, said: str) -> None:
    script = tmp_path / ("job.py" if "import" in text else "job.sh")
    script.write_text(text, "utf-8")
    starter = sys.executable if "import" in text else "bash"
    ready = prepare(
        Plan((Setting(PYTHON, "h5py.File.rdcc_nbytes", "1"),)), [starter, str(script)], tmp_path / "run", cwd=tmp_path
    )
    told = [line for line in ready.warnings if "starts a child" in line]
    assert (f"{script.name} starts a child: {said} runs no sitecustomize" in " ".join(told)) == bool(said)
    assert len(told) == bool(said)


def test_programs_frozen_by_pyinstaller_are_told_from_others(tmp_path: Path) -> None:
    for end, told in ((b"MEI\014\013\012\013\016" + bytes(80), "frozen by PyInstaller"), (b"MEI" + bytes(80), "")):
        program = tmp_path / "train"
        program.write_bytes(Path("/bin/true").read_bytes() + end + bytes(2000))
        program.chmod(0o755)
        found = why_isolated(["train"], inspect(program, dict(os.environ), tmp_path))
        assert (told in found) if told else not found


@pytest.mark.parametrize(
    "words", [["python", "-m", "I"], ["python", "-c", "-I"], ["python", "t.py", "-I"], ["bash", "-I"]]
)
def test_options_of_the_program_are_not_pythons(words: list[str]) -> None:
    assert why_isolated(words) == ""


@pytest.mark.parametrize(
    "text", ["", "no JSON 'library.", '{"set": {"library.read.threads": []}}', '["library.read."]']
)
def test_a_damaged_variable_changes_nothing(libraries: Path, text: str) -> None:
    assert run(libraries, PRINT, {}, STRIPEWISE_PYTHON=text)[0] == "1\n"


def test_a_report_that_cannot_be_written_is_left(libraries: Path) -> None:
    asked = json.dumps({"set": FILL, "report": "/nowhere"})
    assert run(libraries, PRINT, {}, STRIPEWISE_PYTHON=asked)[0] == "4\n"


def activity(home: Path, settings: dict[str, str], code: str = EPOCHS, **more):
    run(home, code, settings, **more)
    report = home / "run" / "report.json"
    found = activity_of(read_report_file(report), "test")
    report.unlink()
    return found


def test_effects_objectives_and_findings_are_read_from_what_python_left(libraries: Path) -> None:
    slow = EPOCHS.replace("Samples()", "Samples(lambda at: __import__('time').sleep(0.001) or at)")
    made, usual = activity(libraries, {f"{LOADER}.num_workers": "4"}, slow), activity(libraries, {}, slow)
    space = Space(tuple(load_stack("torch").parameters), (), (), {})
    (effect,) = verdicts(space, [Setting(PYTHON, f"{LOADER}.num_workers", "4")], [made], [usual])
    assert (effect.name, effect.status) == ("loader_workers", "effective")
    assert effect.evidence == f"it changed 1 of 1 use of {LOADER}; the object says 4"
    outcome = Outcome(1, State.FINISHED, 1.0, 0.0)
    outcome.__dict__["activity"] = made
    (loader,) = made.loaders
    assert kind_of("sample_rate").value(outcome) == pytest.approx(96 / (loader.wait + loader.busy))
    assert kind_of("busy_share").value(outcome) == pytest.approx(100 * loader.busy / (loader.wait + loader.busy))
    (finding,) = (one for one in diagnose(usual).findings if one.code == "loader-balance")
    assert finding.says.startswith("input-bound: ") and finding.says.endswith("with 0 workers")


OWN = (
    'name = "own"\n[[parameter]]\nname = "threads"\nkey = "library.read.threads"\nkind = "ordinal"\n'
    'values = [1, 4]\ncarrier = "python"\nevidence = "objects"\n'
)


def test_uses_that_failed_show_nothing_of_a_setting(libraries: Path) -> None:
    (libraries / "own.toml").write_text(OWN, "utf-8")
    space = Space(tuple(load_stack(str(libraries / "own.toml")).parameters), (), (), {})
    failed = "import library\ntry: library.read()\nexcept TypeError: pass"
    made = activity(libraries, {"library.read.threads": "4"}, failed)
    (effect,) = verdicts(space, [Setting(PYTHON, "library.read.threads", "4")], [made], [])
    assert (effect.status, effect.evidence) == ("requested", "no use of library.read succeeded")
    (effect,) = verdicts(space, [Setting(PYTHON, "library.read.threads", "4")], [], [])
    assert effect.evidence == "passed to the program; no Python of the run reported a use of library.read"


def test_files_that_h5py_makes_of_open_ones_are_no_uses(libraries: Path) -> None:
    require(find_spec("h5py"), "no h5py: pip install h5py")
    code = "import h5py\nf = h5py.File('x.h5', 'w')\nf['a'] = 1\nprint(f['a'].file == f)"
    printed, report = run(libraries, code, {"h5py.File.rdcc_nbytes": "33554432"})
    assert printed == "True\n"
    assert [(one["calls"], one["settings"][0]["acted"]) for one in report["objects"]] == [(1, 1)]


KEPT = """
import gc, h5py
with h5py.File("x.h5", "w") as f:
    f.create_dataset("g/a", data=range(100), chunks=(10,))
    f["b"], f["soft"] = 1, h5py.SoftLink("/g/a")
with h5py.File("other.h5", "w") as f: f["far"] = h5py.ExternalLink("x.h5", "g/a")
f = h5py.File("x.h5")
print([int(f["g/a"][at]) for at in range(5)], f["b"][()], f["b"][()], f["g"]["a"][3], f["soft"][4], f.get("none"))
found = f["g/a"]
f.close()
print(bool(found))
f = h5py.File("x.h5")
print(f["g/a"][0])
del f; gc.collect()
with h5py.File("x.h5", "r+") as f: f["g/a"][0] = 7; print(f["g/a"][0])
with h5py.File("other.h5") as f:
    print(f["far"][0], f["far"][1])
    with h5py.File("x.h5", "r+"): print("free")
"""


def test_datasets_of_files_that_are_only_read_stay_open_as_long_as_these(libraries: Path) -> None:
    require(find_spec("h5py"), "no h5py: pip install h5py")
    plain, _ = run(libraries, KEPT, {})
    printed, report = run(libraries, KEPT, {"h5py.Group.kept_open": "true"})
    assert printed == plain and "free" in printed
    # Four of the first five, the soft link, and `found`.
    assert outcomes(report)["kept_open"][:2] == ("applied", 6)
    _, report = run(libraries, KEPT, {"h5py.Group.kept_open": "false"})
    assert outcomes(report)["kept_open"][:2] == ("not_applicable", 0)


MAPPED = """
import pickle, re
import numpy as np
np.save("x.npy", np.arange(1 << 18))
class Own(np.memmap): pass
def flags(array):
    at = array.ctypes.data
    for text in re.split("(?m)^(?=[0-9a-f]+-)", open("/proc/self/smaps").read())[1:]:
        low, high = (int(one, 16) for one in text.split(" ", 1)[0].split("-"))
        if low <= at < high: return {"rr", "sr"} & set(text.split("VmFlags:")[1].split())
loaded, own = np.load("x.npy", mmap_mode="r"), Own("x.npy", dtype="u1", mode="r", offset=128)
copied = pickle.loads(pickle.dumps(np.memmap("x.npy", "u1", "r", 0, (4,))))
print(type(loaded), type(own), type(copied), int(loaded.sum()), own[:9].tolist(), copied.tolist(), loaded[3:5].tolist())
print(flags(loaded), flags(own))
"""


@pytest.mark.parametrize(("advice", "flag"), [("random", "rr"), ("sequential", "sr"), ("willneed", ""), ("normal", "")])
def test_the_kernel_is_told_how_files_that_numpy_maps_are_read(libraries: Path, advice: str, flag: str) -> None:
    plain, _ = run(libraries, MAPPED, {})
    printed, report = run(libraries, MAPPED, {"numpy.memmap.advice": advice})
    assert printed.splitlines()[:-1] == plain.splitlines()[:-1] and "'rr'" not in plain
    assert printed.splitlines()[-1] == (f"{{'{flag}'}} {{'{flag}'}}" if flag else "set() set()")
    assert outcomes(report)["advice"][:2] == (("not_applicable", 0) if advice == "normal" else ("applied", 3))


ZARR = """
import sys, zarr
from zarr.core import codec_pipeline
most = set()
limited = codec_pipeline.concurrent_map
def seen(items, work, limit=None): most.add(limit); return limited(items, work, limit)
codec_pipeline.concurrent_map = seen
array = zarr.create_array("x.zarr", shape=64, chunks=4, dtype="i4", overwrite=True)
if "own" in sys.argv: zarr.config.set({"async.concurrency": 3})
array[:] = range(64)
print(most, int(array[:].sum()))
if "threads" in sys.argv:
    from zarr.core.sync import _get_executor
    print(_get_executor()._max_workers)
"""


def test_zarr_reads_and_writes_as_many_chunks_at_once_as_it_is_told(libraries: Path) -> None:
    found = find_spec("zarr")
    if not found:
        pytest.skip("no zarr: `make ann` installs it")
    key, site = "zarr.core.config.config.async.concurrency", str(Path(found.submodule_search_locations[0]).parent)
    (libraries / "main.py").write_text(ZARR, "utf-8")
    path = {"PYTHONPATH": f"{HOOK}:{site}"}
    watch, file = ["zarr.core.config.config.async"], libraries / "run" / "report.json"
    plain, _ = run(libraries, "", {}, words=(sys.executable, "main.py"), watch=watch, **path)
    usual = activity_of(read_report_file(file), "test")
    for part in file.parent.iterdir():
        part.unlink()
    printed, report = run(libraries, "", {key: "64"}, words=(sys.executable, "main.py"), **path)
    assert (plain, printed) == ("{10} 2016\n", "{64} 2016\n")
    (told,) = (one for one in report["objects"] if one["settings"])
    assert told["calls"] == told["settings"][0]["acted"] > 0 and told["settings"][0]["echoed"] == "64"
    made = activity_of(read_report_file(file), "test")
    space = Space(tuple(load_stack("zarr").parameters), (), (), {})
    (effect,) = verdicts(space, [Setting(PYTHON, key, "64")], [made], [usual])
    assert (effect.name, effect.status) == ("zarr_concurrency", "effective")
    printed, report = run(libraries, "", {key: "64"}, words=(sys.executable, "main.py", "own"), **path)
    assert printed == "{3} 2016\n" and outcomes(report)["concurrency"][0] == "application_wins"
    printed, _ = run(libraries, "", {key: "64"}, words=(sys.executable, "main.py"), ZARR_ASYNC__CONCURRENCY="5", **path)
    assert printed == "{5} 2016\n"
    words = (sys.executable, "main.py", "threads")
    both = {key: "64", "zarr.core.config.config.threading.max_workers": "7"}
    printed, report = run(libraries, "", both, words=words, **path)
    assert printed == "{64} 2016\n7\n" and outcomes(report)["max_workers"][0] == "applied"


CONFIGURATION = """
class Config:
    def __init__(self):
        self.now = {"most": 10, "other": 1, "free": None}
        self.defaults = [{"async": dict(self.now)}]
    def get(self, key, default=None): return self.now.get(key[6:], default)
config, another = Config(), Config()
"""


def test_a_configuration_answers_with_the_setting_where_the_program_left_the_default(libraries: Path) -> None:
    (libraries / "lib" / "configured.py").write_text(CONFIGURATION, "utf-8")
    code = """from configured import config, another
print(config.get("async.most"), config.get("async.other"), another.get("async.most"), config.get("none", 7))
config.now["most"] = 3
print(config.get("async.most"))"""
    printed, report = run(libraries, code, {"configured.config.async.most": "64"})
    assert printed == "64 1 10 7\n3\n"
    assert outcomes(report)["most"] == ("applied", 1, 1, "") and report["objects"][0]["calls"] == 2
    assert run(libraries, code, {"configured.config.async.most": "64"}, override=True)[0] == "64 1 10 7\n64\n"
    assert run(libraries, code, {}, watch=["configured.config.async"])[0] == "10 1 10 7\n3\n"
    code = """from configured import config
print(config.get("async.free"))
config.now["free"] = 3
print(config.get("async.free"))"""
    key = "configured.config.async.free"
    printed = [run(libraries, code, {key: value}, override=True)[0] for value in ("64", "0")]
    assert (run(libraries, code, {key: "64"})[0], *printed) == ("64\n3\n", "64\n64\n", "None\nNone\n")


def test_use_without_a_setting_is_counted_to_compare_with(libraries: Path) -> None:
    plan = Plan((Setting(PYTHON, "library.read.threads", "4"),))
    made, usual = (
        activity(libraries, settings, PRINT, watch=["library.read"]) for settings in ({"library.read.threads": "4"}, {})
    )
    stack = libraries / "own.toml"
    stack.write_text(OWN, "utf-8")
    space = Space(tuple(load_stack(str(stack)).parameters), (), (), {})
    assert [one.status for one in verdicts(space, plan.settings, [made], [usual])] == ["effective"]
    assert [one.status for one in verdicts(space, plan.settings, [usual], [usual])] == ["requested"]
    guidance = Guidance(in_python=True, watched=("library.read",))
    launched = inject(Plan(), Program(), None, libraries, guidance).environment["STRIPEWISE_PYTHON"]
    assert json.loads(launched)["watch"] == [f"{LOADER}.", "library.read."]


def test_runs_without_loaders_have_no_rate_and_say_why(libraries: Path) -> None:
    outcome = Outcome(1, State.FINISHED, 1.0, 0.0)
    with pytest.raises(RunFailed, match="no loader was seen"):
        kind_of("sample_rate").value(outcome)
    with pytest.raises(UserError, match="python -I runs no sitecustomize"):
        kind_of("busy_share").check(Conditions("local", isolated=why_isolated(["python", "-I", "x"])))


def test_a_plan_reaches_the_program_that_run_starts(libraries: Path) -> None:
    plan = Plan((Setting(PYTHON, f"{LOADER}.num_workers", "4"),))
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": "/mine"}
    ready = prepare(plan, ["python3", "-c", "1"], libraries / "run", environment=environment, cwd=libraries)
    assert ready.observed and ready.injection.environment["PYTHONPATH"] == f"{HOOK}:/mine"
    assert json.loads(ready.injection.environment["STRIPEWISE_PYTHON"])["set"] == {f"{LOADER}.num_workers": "4"}
    ready = prepare(plan, ["python3", "-I", "-c", "1"], libraries / "run", environment=environment, cwd=libraries)
    assert "STRIPEWISE_PYTHON" not in ready.injection.environment
    assert any("-I runs no sitecustomize" in line for line in ready.warnings)


def test_a_program_of_few_epochs_is_not_tuned_within_its_launch(tmp_path: Path, libraries: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(libraries / 'lib')!r})\n{DATASET}list(DataLoader(Samples(), 8))\n"
    fields: dict[str, Any] = {"runner": "within", "objective": {"name": "sample_rate"}, "stacks": ["torch"]}
    wanted = with_options(Experiment(), command=[sys.executable, "-c", code], **fields)
    with open_store(f"sqlite:///{tmp_path}/store.db") as store:
        identifier = store.create(wanted, Facts(folder=str(tmp_path)))
        runner = WithinRunner(wanted, tmp_path / "runs", Surroundings(cwd=tmp_path))
        with pytest.raises(NothingWorks, match="in one process that does all the work, had passed its data 3 times"):
            Session(store, identifier, runner, "test").run()


# Its clock goes by what it reads, and it gives the tuner time, so that the machine's load changes nothing.
TRAINING = """
import json, os, random, sys, time
sys.path.insert(0, {lib!r})
now, noise = 0.0, random.Random(5)
time.perf_counter = lambda: now
from torch.utils.data import DataLoader
class Samples:
    def __len__(self): return 16
    def __getitem__(self, at):
        global now
        now += (0.002 if loader.num_workers < 4 else 0.0005) * noise.uniform(0.9, 1.1)
        return at
def count(): return len(open(orders).readlines())
orders = json.loads(os.environ["STRIPEWISE_PYTHON"])["orders"][0]
loader = DataLoader(Samples(), 8)
for epoch in range(400):
    before = count()
    seen = list(loader)
    if before > epoch + 50: break
    for _ in range(10):
        if count() > before: break
        time.sleep(0.002)
print(seen)
"""


def test_a_loaders_workers_are_tuned_between_the_epochs_of_one_launch(tmp_path: Path, libraries: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(TRAINING.format(lib=str(libraries / "lib")), "utf-8")
    fields: dict[str, Any] = {
        "runner": "within",
        "objective": {"name": "sample_rate"},
        "budget": {"runs": 60},
        "stacks": ["torch"],
        "parameters": {"loader_prefetch": {"values": [2]}},
        "within": {"max_loss": 0.5},
    }
    wanted = with_options(Experiment(), command=[sys.executable, str(program)], **fields)
    with open_store(f"sqlite:///{tmp_path}/store.db") as store:
        identifier = store.create(wanted, Facts(folder=str(tmp_path)))
        runner = WithinRunner(wanted, tmp_path / "runs", Surroundings(cwd=tmp_path))
        result = Session(store, identifier, runner, "test").run()
    assert result.confirmed and "Proven within one launch" in result.verdict, result.verdict
    assert int(result.best.configuration["loader_workers"]) >= 4 and result.speedup > 3
    assert "when Python starts: ordinary trials can search it" in result.left_out["loader_persistent"]
    said = " ".join(effect.evidence for effect in result.effects if effect.name == "loader_workers")
    assert "it changed 1 of 1 use of torch.utils.data.DataLoader" in said, said
    (folder,) = (tmp_path / "runs").glob("launch-*")
    assert (folder / "stdout").read_text("utf-8") == "[[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15]]\n"
    last = parse_journal((folder / "answers").read_text("utf-8")).phases[-1]
    assert last.order and last.settings[f"{LOADER}.num_workers"] in {"4", "8", "16"}


FSSPEC = """
class _Cache:
    def __init__(self, name): self.name = name
class _File:
    def __init__(self, size, kind): self.blocksize, self.cache = size, _Cache(kind)
class AbstractFileSystem:
    default = 5
    def __init__(self, **storage_options): self.storage_options = storage_options
    def open(self, path, mode="rb", block_size=None, cache_options=None, compression=None, **kwargs):
        if mode == "r": return self.open(path, "rb", block_size=block_size, cache_options=cache_options, **kwargs)
        return self._open(path, block_size=block_size, **kwargs)
    def _open(self, path, block_size=None, cache_type=None):
        chosen = self.storage_options
        size, kind = chosen.get("default_block_size", 5), chosen.get("default_cache_type", "readahead")
        return _File(block_size or size, cache_type or kind)
class Local(AbstractFileSystem):
    def _open(self, path, **_): return object()
class Narrow(AbstractFileSystem):
    def _open(self, path, block_size=None): return _File(block_size or 5, "readahead")
class Before(AbstractFileSystem):
    def __init__(self): self.fs = None; self.storage_options = {}
"""
OPENED = """
from fsspec.spec import *
def tell(made): return getattr(made, "blocksize", None), getattr(getattr(made, "cache", None), "name", None)
plain, chosen = AbstractFileSystem(), AbstractFileSystem(default_block_size=9, default_cache_type="none")
print(*map(tell, [
    plain.open("a"), plain.open("a", "r"), plain.open("a", block_size=7), plain.open("a", "wb"),
    chosen.open("a"), Local().open("a"), Narrow().open("a"), Before().open("a")]))
"""
BLOCK, CACHE = ("fsspec.spec.AbstractFileSystem." + name for name in ("block_size", "cache_type"))


def test_files_of_fsspec_read_ahead_as_told_where_nobody_chose(libraries: Path) -> None:
    (libraries / "lib" / "fsspec").mkdir()
    (libraries / "lib" / "fsspec" / "__init__.py").touch()
    (libraries / "lib" / "fsspec" / "spec.py").write_text(FSSPEC, "utf-8")
    plain, _ = run(libraries, OPENED, {})
    usual = "(5, 'readahead')"
    ours, block = "(1024, 'blockcache')", "(7, 'readahead')"
    assert plain == f"{usual} {usual} {block} {usual} (9, 'none') (None, None) {usual} {usual}\n"
    printed, report = run(libraries, OPENED, {BLOCK: "1024", CACHE: "blockcache"})
    block = "(7, 'blockcache')"
    assert printed == f"{ours} {ours} {block} {usual} (9, 'none') (None, None) {usual} {usual}\n"
    assert outcomes(report)["block_size"][:3] == ("applied", 2, 4)
    assert report["objects"][0]["calls"] == 6 and report["objects"][0]["settings"][0]["echoed"] == "1024"
    assert run(libraries, OPENED, {BLOCK: "0", CACHE: "default"})[0] == plain
    # Blocks that would fill the memory are refused.
    printed, report = run(libraries, OPENED, {BLOCK: str(1 << 45)})
    assert printed == plain and "exceed a quarter" in outcomes(report)["block_size"][3]
    assert run(libraries, OPENED, {BLOCK: "1024"}, override=True)[0].startswith("(1024, 'readahead') (1024,")


DASK = """
import threading
from dask import config, threaded
def call(**own): print(threaded.get({}, [], **own), end=" ")
call(); call(num_workers=3); call(pool="own")
thread = threading.Thread(target=call); thread.start(); thread.join()
config.now["num_workers"] = 5
call()
"""


@pytest.mark.parametrize(("processors", "expected"), [(2, "16"), (1, "None")])
def test_dask_gets_threads_where_nobody_chose(libraries: Path, processors: int, expected: str) -> None:
    home = libraries / "lib" / "dask"
    home.mkdir()
    for name, text in {
        "__init__": "",
        "config": "now = {}\ndef get(key, default=None): return now.get(key, default)",
        "system": f"CPU_COUNT = {processors}",
        "threaded": "from dask import config, system\ndef get(dsk, keys, cache=None, num_workers=None, pool=None):\n"
        "    return pool or num_workers or config.get('num_workers')",
    }.items():
        (home / f"{name}.py").write_text(text, "utf-8")
    plain, _ = run(libraries, DASK, {})
    printed, report = run(libraries, DASK, {"dask.threaded.get.num_workers": "16"})
    assert (plain, printed) == ("None 3 own None 5 ", f"{expected} 3 own None 5 ")
    assert report["objects"][0]["calls"] == 5
    assert outcomes(report)["num_workers"][1:3] == ((1, 4) if processors > 1 else (0, 5))


REAL = """
import sys, threading
import fsspec, dask
from dask import delayed
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
text = bytes(range(256)) * 4096
class Answer(BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_HEAD(self): self.do_GET()
    def do_GET(self):
        first, _, last = self.headers.get("Range", f"bytes=0-{len(text) - 1}")[6:].partition("-")
        part = text[int(first) : int(last) + 1]
        self.send_response(206 if "Range" in self.headers else 200)
        for name, value in {"Content-Length": len(part), "Accept-Ranges": "bytes",
                            "Content-Range": f"bytes {first}-{last}/{len(text)}"}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET": self.wfile.write(part)
server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
with fsspec.filesystem("http").open(f"http://127.0.0.1:{server.server_port}/x") as file:
    print(type(file).__name__, file.read(300) == text[:300], file.seek(999999), file.read() == text[999999:])
    print(file.blocksize, file.cache.name, file=sys.stderr)
names = {thread for thread in dask.compute(*[delayed(threading.get_ident)() for _ in range(9)])}
print(sum(dask.compute(*[delayed(abs)(-one) for one in range(9)])))
from dask import threaded
print(sorted(n for pool in threaded.pools.values() for n in pool), file=sys.stderr)
"""


def test_fsspec_and_dask_themselves_take_the_settings(libraries: Path) -> None:
    if not (find_spec("fsspec") and find_spec("aiohttp") and find_spec("dask")):
        pytest.skip("no fsspec with aiohttp, or no dask: `make ann` installs them")
    site = str(Path(find_spec("dask").submodule_search_locations[0]).parent)  # type: ignore[union-attr,index]
    results = []
    for settings in ({}, {BLOCK: "65536", CACHE: "blockcache", "dask.threaded.get.num_workers": "6"}):
        asked = {"set": settings, "watch": [], "override": False, "report": ""}
        environment = {
            "PATH": os.environ["PATH"], "PYTHONPATH": f"{HOOK}:{site}", "STRIPEWISE_PYTHON": json.dumps(asked),
        }  # fmt: skip
        words = [sys.executable, "-c", REAL]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=120)
        results.append((done.stdout, done.stderr))
    assert results[0][0] == results[1][0] == "HTTPFile True 999999 True\n36\n"
    assert (results[0][1], results[1][1]) == ("5242880 bytes\n[]\n", "65536 blockcache\n[6]\n")
