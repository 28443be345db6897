# What one does with memtape from a checkout. Needs Python 3.11 or newer and make; everything else is fetched by `make setup`.
# PYTHON=python3.12 picks the interpreter: `make setup PYTHON=python3.12`.

BIN := .venv/bin
# Two stages: what running needs, and in addition what the tests need.
READY := .venv/.ready
RUNS := .venv/.runs
PORT ?= 8765

.PHONY: help setup run test lint bench evidence soak docs lock clean chromium FORCE
.NOTPARALLEL:

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

setup: $(READY)  ## .venv with memtape and all that the tests need, as requirements.lock says

# With PYTHON given the script always looks whether .venv is made of that interpreter.
# A stage that is installed already is kept: the second adds to the first.
$(READY): requirements.lock pyproject.toml tools/setup.sh tools/build_minilm.py $(if $(PYTHON),FORCE)
	@PYTHON='$(PYTHON)' sh tools/setup.sh test
	@touch $@ $(RUNS)

$(RUNS): requirements-run.lock pyproject.toml tools/setup.sh $(if $(PYTHON),FORCE)
	@PYTHON='$(PYTHON)' sh tools/setup.sh run
	@touch $@

# Where everything is installed already, nothing is taken away.
run: $(if $(wildcard $(READY)),$(READY),$(RUNS))  ## the demo on 127.0.0.1:8765, or on another PORT
	@$(BIN)/memtape serve --demo --db .demo/demo.db --port $(PORT)

# SEED draws the order of the tests, which is printed; `make test SEED=4711` tries another order, SEED= keeps that of the files.
SEED ?= 20261117

test: setup chromium lint  ## lint, types, all tests in the order of SEED; ends with the list of those skipped
	MEMTAPE_TEST_SEED=$(SEED) $(BIN)/python -m pytest -n 2 -r fEs --ignore=tests/soak

lint: setup  ## ruff, and mypy on src
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: setup  ## the performance budgets
	$(BIN)/python -m bench

evidence: setup  ## the studies behind what memtape claims; writes docs/evidence.md
	$(BIN)/python -m evidence

soak: setup  ## the long tests, and every property with many more examples
	MEMTAPE_SOAK=1 $(BIN)/python -m pytest tests -m 'soak or hypothesis' -n 0 -r fEs

docs: setup  ## docs/reference, written from the program itself
	$(BIN)/memtape docs-reference docs/reference

lock: setup  ## both locks from pyproject.toml; with UPGRADE=1 every package at its newest
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 $(if $(UPGRADE),--upgrade) \
		--generate-hashes --no-header --no-annotate --quiet --output-file requirements.lock >/dev/null
	$(BIN)/uv pip compile pyproject.toml --extra build --universal --python-version 3.11 --constraints requirements.lock --upgrade \
		--generate-hashes --no-header --no-annotate --quiet --output-file requirements-run.lock >/dev/null
	@! grep -nE '://|^--' requirements.lock requirements-run.lock || { echo 'the lock must not name an address'; exit 1; }

clean:  ## removes .venv, caches and the demo's data
	rm -rf .venv .demo .bench .screens .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build
	find src tests bench tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

chromium: setup
	@sh tools/chromium.sh

FORCE:
