"""What is put into a program's Python: it fills arguments, tells what came of them, and leaves all else as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipapp
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

import stripewise.runners.in_python as hook
from stripewise.catalogue.carriers import PYTHON, Program, Setting
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import load_stack
from stripewise.diagnose.site import diagnose
from stripewise.engine.effects import verdicts
from stripewise.errors import RunFailed, UserError
from stripewise.launch import Outcome
from stripewise.observe.from_report import activity_of
from stripewise.observe.objectives import Conditions, kind_of
from stripewise.observe.processes import merge_parts
from stripewise.observe.report import read_report_file
from stripewise.runners.injection import Guidance, inject, prepare
from stripewise.runners.program.mpi import why_isolated
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


def test_a_programs_own_workers_stay_unless_the_plan_overrides(libraries: Path) -> None:
    code = DATASET + "loader = DataLoader(Samples(), 8, num_workers=1)\nprint(len(list(loader)), loader.num_workers)"
    printed, report = run(libraries, code, {f"{LOADER}.num_workers": "4", f"{LOADER}.prefetch_factor": "8"})
    assert printed == "4 1\n" and outcomes(report)["num_workers"][0] == "application_wins"
    assert outcomes(report)["prefetch_factor"][0] == "applied" and report["loaders"][0]["prefetch"] == 8
    assert run(libraries, code, {f"{LOADER}.num_workers": "4"}, override=True)[0] == "4 4\n"


def test_settings_that_do_nothing_here_say_so(libraries: Path) -> None:
    settings = {f"{LOADER}.pin_memory": "true", f"{LOADER}.prefetch_factor": "8"}
    _, report = run(libraries, EPOCHS, settings)
    assert "no accelerator" in outcomes(report)["pin_memory"][3]
    assert outcomes(report)["prefetch_factor"][:2] == ("not_applicable", 0)


FILL = {"library.read.threads": "4"}
PRINT = "import library; print(library.read('a')[1])"
SPAWNED = """
import multiprocessing, library
def work(queue): queue.put(library.read('a')[1])
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start(); print(queue.get()); process.join()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_that_python_starts_have_the_settings(libraries: Path, method: str) -> None:
    (libraries / "main.py").write_text(SPAWNED.format(method=method), "utf-8")
    printed, _ = run(libraries, "", FILL, words=(sys.executable, "main.py"))
    assert printed == "4\n"


@pytest.mark.parametrize("options", ["-I", "-E", "-S", "-sI"])
def test_pythons_that_read_no_pythonpath_are_left_alone_and_the_reason_is_told(libraries: Path, options: str) -> None:
    code = f"import sys; sys.path.insert(0, 'lib'); {PRINT}"
    printed, report = run(libraries, "", FILL, words=(sys.executable, options, "-c", code))
    assert (printed, report) == ("1\n", {})
    letter = next(letter for letter in options if letter in "IES")
    assert why_isolated(["python3", options, "train.py"]).startswith(f"python3 -{letter} runs no sitecustomize")


@pytest.mark.parametrize(
    "words", [["python", "-m", "I"], ["python", "-c", "-I"], ["python", "t.py", "-I"], ["bash", "-I"]]
)
def test_options_of_the_program_are_not_pythons(words: list[str]) -> None:
    assert why_isolated(words) == ""


def test_modules_archives_and_virtual_environments_have_the_settings(libraries: Path) -> None:
    (libraries / "app").mkdir()
    (libraries / "app" / "__main__.py").write_text(PRINT, "utf-8")
    zipapp.create_archive(libraries / "app", libraries / "app.pyz")
    venv.create(libraries / "env", with_pip=False)
    python = str(libraries / "env" / "bin" / "python")
    for words in ((sys.executable, "-m", "app"), (sys.executable, "app.pyz"), (python, "-c", PRINT)):
        assert run(libraries, "", FILL, words=words)[0] == "4\n"


@pytest.mark.parametrize(
    ("own", "shown"), [("import builtins; builtins.mine = 5", "5\n"), ("", "None\n"), (None, "None\n")]
)
def test_the_users_sitecustomize_runs_as_before(libraries: Path, own: str | None, shown: str) -> None:
    if own is not None:
        (libraries / "lib" / "sitecustomize.py").write_text(own, "utf-8")
    code = "import builtins, sys, library; print(getattr(builtins, 'mine', None), library.read('a')[1], *sys.path)"
    printed, _ = run(libraries, code, FILL)
    assert printed.startswith(shown.strip() + " 4 ") and str(HOOK) not in printed
    name = run(libraries, "import sitecustomize; print(sitecustomize.__file__)", FILL)[0]
    assert name.startswith(str(HOOK if own is None else libraries))


def test_an_error_of_the_users_sitecustomize_is_told_as_before(libraries: Path) -> None:
    (libraries / "lib" / "sitecustomize.py").write_text("1 / 0", "utf-8")
    environment = {"PYTHONPATH": f"{HOOK}:{libraries / 'lib'}", "STRIPEWISE_PYTHON": json.dumps({"set": FILL})}
    ways = [environment, {"PYTHONPATH": str(libraries / "lib")}]
    with_us, without = (
        subprocess.run([sys.executable, "-c", "print(1)"], env=one, capture_output=True, text=True, check=True)
        for one in ways
    )
    assert with_us.stderr == without.stderr and "ZeroDivisionError" in without.stderr and with_us.stdout == "1\n"


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


def test_files_that_h5py_makes_of_open_ones_are_no_uses(libraries: Path) -> None:
    require(find_spec("h5py"), "no h5py: pip install h5py")
    code = "import h5py\nf = h5py.File('x.h5', 'w')\nf['a'] = 1\nprint(f['a'].file == f)"
    printed, report = run(libraries, code, {"h5py.File.rdcc_nbytes": "33554432"})
    assert printed == "True\n"
    assert [(one["calls"], one["settings"][0]["acted"]) for one in report["objects"]] == [(1, 1)]


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
