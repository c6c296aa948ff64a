# Two commands are complete on a fresh machine with Python >= 3.11: `make gate` and `make test`.
#
#   make gate       set up what a gate needs, then run it on this machine
#   make test       set up everything, then what CI runs: format, lint, types, import contracts, tests
#   make check      the same without setting up
#   make quick      after each edit: format, lint, types, and the tests that start no server: below a minute
#   make lint       format, lint, types, import contracts
#   make test-long  the tests marked long; at its end it prints what each proves beyond `make test`
#   make anywhere   a gate and the tests on a young machine, at another time, as another user, in a container, on a busy machine ...
#   make mutants    change single lines of the code that decides; the fast tests have to notice 90 % of the changes
#   make format     put the code in shape
#   make docs       build the documentation as a site in build/site; a link that leads nowhere is an error
#   make setup      .venv with all extras, and the system packages that tests want
#   make parallelcluster  aws-parallelcluster into build/, 184 MB, for the tests that ask its schema; `make test-long` does it too
#   make freeze     write constraints.txt anew from .venv, after a dependency was changed
#   make wheel      build the wheel into dist/
#   make release    of a tagged commit: wheel, prelaunch.pyz, notes, SBOM and checksums into dist/
#   make pictures   make the pictures of docs/ anew, or those in PICTURES; it takes minutes
#   make audit      list the known vulnerabilities of what is installed; it fails if it could not look them up
#   make clean      remove .venv and every cache
#
# PYTHON=... chooses the interpreter, PYTEST=... adds arguments for pytest, MUTANTS=... for the mutants, LEGS=... chooses legs, GATE=... another gate file.

GATE ?= deployments/gates/local.toml
PYTEST ?=
MUTANTS ?=
LEGS ?=
PICTURES ?=

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Without bytecode each start of Prefect costs a second more, and each of PyTorch's ranks as well.
unexport PYTHONDONTWRITEBYTECODE
unexport PYTHONHOME
unexport PYTHONPATH
unexport VIRTUAL_ENV

.PHONY: gate test check quick pure lint test-long anywhere mutants format docs setup parallelcluster freeze wheel release pictures audit clean
.DEFAULT_GOAL := check

gate: .venv/core
	@$(BIN)/prelaunch gate $(GATE)

setup: .venv/all .venv/system

test: setup
	@$(MAKE) --no-print-directory check

# Four workers keep two cores busy. With five the tests of the flows, judge, containers and corpus took a tenth more CPU time, with three they wait.
check: lint
	.ci/tests $(BIN)/python -m "not long and not alone" -n 4 --durations=20 $(PYTEST)
	.ci/tests $(BIN)/python -m "alone and not long" --durations=10 $(PYTEST)

# Folders whose tests compute: no server, no torchrun, nothing that is waited for.
PURE := $(addprefix tests/checks/,culprit documents explain facts judge test_merge.py test_policy.py) \
        $(addprefix tests/tasks/,gate gate_file paging render/test_golden.py render/test_terminal.py)

quick: .venv/all
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -n 2 -m "not long and not alone" $(PURE) $(PYTEST)

pure:
	@echo $(PURE)

lint: .venv/all
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@# At once: each uses one core. Whoever collects the tests first compiles their files; otherwise each worker would.
	{ $(BIN)/mypy --python-version 3.10 --cache-dir .mypy_cache/node checks container; \
	  $(BIN)/python .ci/compiled.py || said=$$($(BIN)/python -m pytest --collect-only -qq 2>&1) || { echo "$$said"; false; }; \
	  $(BIN)/lint-imports; } & others=$$!; \
	all=0; $(BIN)/mypy || all=$$?; wait $$others && exit $$all

test-long: setup parallelcluster
	$(BIN)/python -m pytest -m long --durations=20 $(PYTEST)
	@# The property tests again: `make test` tries the same examples each time, this tries new ones.
	NEW_EXAMPLES=1 $(BIN)/python -m pytest -q -n 2 -m "not long and not alone" tests/properties tests/checks
	$(BIN)/python -m pytest tests/tasks/parallelcluster/test_schema.py
	$(BIN)/python -m tests.anywhere $(LEGS)

# Not in `setup`, which it would make longer by a minute or more.
parallelcluster: .venv/core
	@.ci/parallelcluster

# Legs are chosen by LEGS, the beginning of a name.
anywhere: setup
	$(BIN)/python -m tests.anywhere $(LEGS)

mutants: .venv/all
	nice $(BIN)/python -m tests.mutants $(MUTANTS)

format: .venv/all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: .venv/all
	@$(BIN)/python -m mkdocs build --strict
	@echo build/site/index.html

# Lines that hold for another Python than this one (they carry a marker) and comments stay.
freeze: .venv/all
	@{ grep '^#' constraints.txt; \
	   $(PIP) freeze --all --exclude pip --exclude-editable | sed -E 's/^torch==([0-9.]+).*/torch==\1/' | LC_ALL=C sort -f; \
	   grep '; python' constraints.txt; } >constraints.new
	@mv constraints.new constraints.txt

# Without what an earlier build left: setuptools would put it into the wheel as well.
wheel: .venv/core
	@rm -rf build/lib build/bdist.*
	@$(PIP) wheel --quiet --no-deps --wheel-dir dist .
	@rm -rf build/lib build/bdist.*
	@ls dist/*.whl

release: .venv/all
	@$(BIN)/python .ci/release.py

pictures: .venv/all .venv/system
	nice $(BIN)/python -m tests.browser.pictures docs $(PICTURES)

audit: .venv/all
	@$(BIN)/python -m tests.architecture.installed

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -not -path './.git/*' -exec rm -rf {} +

# A .venv that another folder's was copied to would run that folder's code, so the stamp bears the folder's name.
ifneq ($(shell cat .venv/made-for 2>/dev/null),$(CURDIR))
.PHONY: .venv/made-for
endif

.venv/made-for:
	@.ci/venv

# PyTorch first and alone, by pip: together with the rest, a resolver may choose another build of it.
.venv/core: .venv/made-for pyproject.toml constraints.txt
	@# stdout is for the answer.
	@echo "installing into .venv, for a minute or two" >&2
	@$(PIP) install --quiet --constraint constraints.txt torch
	@$(PIP) install --quiet --constraint constraints.txt --editable '.[torch]'
	@# Without compiled files each command starts a second later; nothing ends here.
	-@$(BIN)/python -m compileall -q checks container tasks flows
	@# A migrated database for the embedded Prefect server: the first gate starts five seconds sooner. Nothing ends here without it.
	-@$(BIN)/python -m tasks.orchestration.server.server >&2
	@touch $@

.venv/all: .venv/core
	$(PIP) install --quiet --constraint constraints.txt --editable '.[torch,sagemaker,kubernetes,docs,test,dev]'
	@# A dependency of sagemaker installs its own tests/ as a top-level package, which would hide ours.
	@rm -rf .venv/lib/python*/site-packages/tests
	@touch $@

.venv/system: .venv/made-for .ci/system
	@.ci/system
	@touch $@
