"""What every test may use: `from tests.conftest import require`."""

import contextlib
import gc
import importlib
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path

# Several workers share the cores. Threads of OpenBLAS and OpenMP beyond that spin while they wait for one another: a
# model takes three times the processor time then. Both libraries read these as they are loaded, hence before all else.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# Every process that loads Pydantic would read the entry points of all installed packages, for plug-ins of Pydantic.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

# jsonschema loads it where a tool for releases has brought it, and builds grammars of IRIs for 4 s.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

THOROUGH = os.environ.get("STRIPEWISE_THOROUGH") == "1"
"""Whether property tests try all their examples, as `make test` does, or a fifth of them, as `make unit` does."""

# How long an example takes says more about the machine's other work than about the code.
settings.register_profile("thorough", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("thorough"), max_examples=20)
settings.load_profile("thorough" if THOROUGH else "quick")


# A shell without job control starts what runs in the background with SIGINT ignored, nohup starts programs with SIGHUP
# ignored, and programs inherit both. Tests send these signals to programs, which must find them as a terminal leaves
# them.
for _signal in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        # A handler is not inherited: a program gets the default action instead.
        signal.signal(_signal, lambda *_: None)


LONG = ["test_kernel", "test_batch_runner", "test_service_cli", "test_tune", "test_runtime_hdf5", "test_runtime_modes"]
LONG += ["test_samplers", "test_tune_cli", "test_kernel_hdf5", "test_local_runner", "test_runtime_bytes"]
LONG += ["test_hostile_text", "test_tune_within_families", "test_stores", "test_docs_reference", "test_models"]
LONG += ["test_runtime_faults", "test_kernel_errors", "test_runtime_fortran"]
# Of make system.
LONG += ["test_release", "test_pages_use", "test_runtime_core", "test_fuzz", "test_studies", "test_service_workers"]
LONG += ["test_tune_hdf5", "test_kernel_large", "test_windows", "test_service_schema", "test_build"]
LONG += ["test_lustre_driver"]
"""Files that take longest: they come first, so that no worker is left alone with one at the end.

The first three start together on two cores, and none of them waits for what another one builds.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long files first."""
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))


def _import_own_share(config: pytest.Config) -> None:
    """Import this worker's share of the files first: the other workers then find their byte code, and it theirs.

    All workers collect all files, in one order. Where nothing is compiled yet, each would compile everything.
    """
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if count == 1:
        return
    left_out = {Path(path).resolve() for path in config.getoption("ignore") or ()}
    files = [path for given in config.args for path in sorted(Path(given).resolve().rglob("test_*.py"))]
    for path in files[int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) % count :: count]:
        if path not in left_out:
            # Whatever keeps it from being imported is told when it is collected.
            with contextlib.suppress(Exception, pytest.skip.Exception):
                importlib.import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Spare the garbage collector what lives to the end: every full collection would visit all tests and modules."""
    gc.disable()
    try:
        _import_own_share(session.config)
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def examples(number: int) -> int:
    """Give the number of examples of a property test that wants more than others."""
    return number if THOROUGH else number // 5


def require(condition: object, reason: str) -> None:
    """Skip the test with the reason unless the condition holds; fail where nothing may be missing.

    STRIPEWISE_REQUIRE_ALL=1 marks a machine on which every optional tool is to be installed, as in CI:
    there a skipped test would hide that it never runs.
    """
    if condition:
        return
    if os.environ.get("STRIPEWISE_REQUIRE_ALL") == "1":
        pytest.fail(f"missing on a machine that is to have everything: {reason}")
    pytest.skip(reason)
