# All commands run in .venv, which is made on first use. Only Python 3.11 and make must be installed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test test-all lint pages docs clean

# The main job, and the same job for machines without Java. With --resume a run that was stopped or killed continues.
PLAN ?= experiments/page_view_join/plan_spark.yaml
WITHOUT_SPARK := experiments/page_view_join/plan.yaml

run: $(VENV)/.installed $(VENV)/.prepared    ## run the main job: Spark reads page views, Ray joins them, tables keep outputs and checkpoints
	@test -d experiments/page_view_join/input || $(BIN)/python -m experiments.page_view_join.write_input
	@$(BIN)/dgs run $(PLAN) --resume || { code=$$?; \
		if [ $$code -eq 4 ] && [ $(PLAN) != $(WITHOUT_SPARK) ]; then \
			echo "the same job runs without Spark and Java: make run PLAN=$(WITHOUT_SPARK)" >&2; fi; exit $$code; }

test: $(VENV)/.installed-dev    ## the tests that CI runs
	@$(BIN)/python -m pytest --numprocesses 3 --no-loadscope-reorder

test-all: $(VENV)/.installed-dev    ## all tests, slow ones too, with 2,000 new random cases for each property, or CASES=...
	@$(BIN)/python -m pytest -m "" --hypothesis-profile exploring --numprocesses 3 --no-loadscope-reorder

lint: $(VENV)/.installed-dev    ## style, format and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

pages: $(VENV)/.installed-dev    ## refresh the parts of docs/ that come from the code: the picture of the folders, links to definitions
	@$(BIN)/python -m tests.pages_from_code

docs: $(VENV)/.installed-docs    ## the site, from docs/ and the docstrings: build/site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:    ## remove all generated files
	rm -rf $(VENV) build *.egg-info .dgs .mypy_cache .ruff_cache .hypothesis
	rm -rf experiments/*/.dgs experiments/*/out experiments/*/input experiments/*/tables
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	@echo "installing dgs, Ray and Spark into $(VENV) (once; 600 MB, a few minutes)" >&2
	@$(PIP) --editable '.[ray,spark]'
	@touch $@

$(VENV)/.prepared: $(VENV)/.installed    # without Java there is nothing to prepare
	@echo "preparing Spark for quick starts (once; 200 MB in ~/.cache/dgs, half a minute)" >&2
	@$(BIN)/dgs doctor --no-ray --prepare-spark >/dev/null 2>&1 || true
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	@echo "installing dgs and its test packages into $(VENV) (once; 600 MB, a few minutes)" >&2
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(VENV)/bin/python
	@$(PIP) --editable '.[docs]'
	@touch $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "dgs needs Python 3.11 or newer, and $(PYTHON) is %d.%d: make PYTHON=python3.11" % sys.version_info[:2])'
	@$(PYTHON) -m venv $(VENV)
