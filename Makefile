# Everything happens in .venv, which is made on first use; nothing has to be installed by hand but Python 3.11 and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test test-all lint clean

run: $(VENV)/.installed    ## run the main job: the page-view join on Ray
	@$(BIN)/dgs run experiments/page_view_join/plan.yaml

test: $(VENV)/.installed-dev    ## the tests that CI runs
	@$(BIN)/python -m pytest

test-all: $(VENV)/.installed-dev    ## the slow ones too
	@$(BIN)/python -m pytest -m ""

lint: $(VENV)/.installed-dev    ## style, format and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

clean:    ## remove everything that was made here
	rm -rf $(VENV) build *.egg-info .dgs experiments/*/.dgs experiments/*/out .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# PySpark (400 MB) is an extra, `pip install 'dgs[spark]'`: the main job does not read or write through Spark.
$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	@echo "installing dgs and Ray into $(VENV) (once; about a minute)" >&2
	@$(PIP) --editable '.[ray]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	@echo "installing dgs and what its tests need into $(VENV) (once; about a minute)" >&2
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "dgs needs Python 3.11 or newer, and $(PYTHON) is %d.%d: make PYTHON=python3.11" % sys.version_info[:2])'
	@$(PYTHON) -m venv $(VENV)
