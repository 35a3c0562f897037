# Two commands set everything up on a fresh machine with git, Python 3.11 and make:
#   make demo    the main job, on this machine, with no services
#   make test    installs what it needs and runs all tests

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready-$(shell cat requirements.lock pyproject.toml | cksum | cut -d' ' -f1)
# Compiled once, or every start pays for it again.
unexport PYTHONDONTWRITEBYTECODE
# Tests use programs that are installed beside them, such as uv.
ALONE := PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest
PYTEST := $(ALONE) -n 2
NONE_CHOSEN := 5

.PHONY: demo test check stress bench docs lock format clean

define ENVIRONMENT
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "launchbay needs Python 3.11 or newer; try: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)
endef

# What `bay` itself needs; the tests bring half a gigabyte more.
$(BIN)/bay: pyproject.toml
	@echo "making $(VENV), once; it takes a few seconds"
	$(ENVIRONMENT)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(STAMP): requirements.lock pyproject.toml
	@echo "making $(VENV) with all that the tests need, once; it takes a minute"
	$(ENVIRONMENT)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	rm -f $(VENV)/.ready-*
	touch $@

demo: $(BIN)/bay
	@BAY=$(abspath $(BIN))/bay PATH=$(abspath $(BIN)):$$PATH sh scripts/demo.sh

# A cluster whose daemons wait for their turn loses jobs: its tests have the machine for themselves.
# What fails in one part keeps nobody from seeing the others.
test: $(STAMP)
	@failed=0; \
	$(ALONE) -m slurm $(PYTEST_ARGS) || [ $$? -eq $(NONE_CHOSEN) ] || failed=1; \
	$(ALONE) -m kubernetes $(PYTEST_ARGS) || [ $$? -eq $(NONE_CHOSEN) ] || failed=1; \
	$(PYTEST) -m "not slurm and not kubernetes" $(PYTEST_ARGS) || [ $$? -eq $(NONE_CHOSEN) ] || failed=1; \
	exit $$failed

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python docs/generate.py --check
	$(PYTEST) -m "not slow" --quiet $(PYTEST_ARGS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The same tests at full counts, by hand.
stress: $(STAMP)
	BAY_STRESS=1 $(ALONE) -m slurm $(PYTEST_ARGS)
	BAY_STRESS=1 $(ALONE) -m kubernetes $(PYTEST_ARGS)
	BAY_STRESS=1 $(PYTEST) -m "slow and not slurm and not kubernetes" $(PYTEST_ARGS)

bench: $(STAMP)
	for file in benchmarks/[a-z]*.py; do PYTHONPATH=. $(BIN)/python $$file || exit 1; done

docs: $(STAMP)
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build --strict

lock:
	uv pip compile --quiet --group dev pyproject.toml --generate-hashes --no-emit-index-url --python-version 3.11 --universal --output-file requirements.lock

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) site dist
