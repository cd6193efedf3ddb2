# Everything is installed into a virtual environment; nothing else on the machine is changed.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format clean

help:
	@echo 'make demo   install Harrow into $(VENV) and run it: a cluster, a minute of faults, a verdict, a report'
	@echo 'make test   install the development requirements, lint, and run the tests except slow ones: some minutes on two cores'
	@echo 'make test-all  like make test, with slow tests: everything that this machine can run'
	@echo 'make lint   lint only'
	@echo 'make format format the sources'
	@echo 'make clean  remove $(VENV) and caches; runs in store/ are kept'

DURATION ?= 60

demo: $(VENV)/.installed
	$(BIN)/harrow run --duration $(DURATION)

# Many tests wait for a cluster, so three run at a time; the tests of a file share fixtures and run in one process.
# They start hundreds of processes, each of which would compile the modules again without a bytecode cache.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest --numprocesses 3 --dist loadfile

test: lint
	$(PYTEST) -m 'not slow'

test-all: lint
	$(PYTEST)

lint: $(VENV)/.installed-for-development
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-for-development
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "expected Python 3.11 or newer, found %d.%d; say make PYTHON=python3.11" % sys.version_info[:2])'
	@$(PYTHON) -c 'import importlib.util, sys; sys.exit(None if importlib.util.find_spec("ensurepip") else "expected a Python that can make virtual environments, found no module ensurepip; say apt-get install python3-venv")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet wheel
	touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-for-development: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[clients,docker,fuse,ssh,systems,zookeeper,dev]'
	touch $@ $(VENV)/.installed
