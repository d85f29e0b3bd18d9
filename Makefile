# `make run` and `make test` on a machine that has Python 3.11 or newer and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The lock files are complete, so nothing is resolved. Most modules are never imported: each is compiled when it is.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile
COMPILE := CUSTOM_COMPILE_COMMAND="make lock" pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe \
  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links $(UPGRADE)
TESTS ?= property_tests tests
PROCESSORS := $(shell nproc 2>/dev/null || echo 1)
JOBS ?= $(shell expr $(PROCESSORS) + 2)
PYTEST = $(if $(POSTGRES),LEDGER_TEST_POSTGRES=$(POSTGRES)) $(BIN)/python -m pytest $(TESTS) --numprocesses $(JOBS) \
  --maxprocesses 4 --dist worksteal
STAMP := $(VENV)/.installed
TOOLS := $(VENV)/.tools

# Tests start hundreds of processes of ours: without its bytecode on the disk, each compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-long check bench chaos fuzz stand-ins fake-stripe docs openapi-tools citus lock clean

run: $(STAMP)
	@exec $(BIN)/ledger serve --demo

# make test POSTGRES=15 runs on Debian's PostgreSQL 15 instead of the embedded one; TESTS=tests/journal runs one package; JOBS=1
# runs one test after another. Every job has its own server and often waits, so the default is two jobs more than processors.
test: $(TOOLS)
	$(PYTEST)

# The long runs of the same programmes: campaigns, every crash of a payment, the pages' commands, more random examples.
# Many of them run whole services of their own.
test-long: JOBS = $(shell expr $(PROCESSORS) + 1)
test-long: $(TOOLS)
	$(PYTEST) -m long

check: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# make bench NAME=http runs one benchmark; without a name, all of them.
bench: $(TOOLS)
	$(BIN)/python -m benchmarks $(NAME)

chaos: $(TOOLS)
	$(BIN)/python -m campaigns chaos

# Every malformed request that has a name, with its cost; then all that the service's own description allows and forbids, at
# length. The tests run a part of it every time.
fuzz: $(TOOLS)
	$(BIN)/python -m campaigns corpus
	$(BIN)/python -m campaigns fuzz

# What stands in for Stripe: the fake of this project, and Stripe World where Python 3.13 or newer is. Prints their addresses and
# serves until it is interrupted. `python -m campaigns.stand_ins compare` compares the two.
stand-ins: $(TOOLS)
	$(BIN)/python -m campaigns.stand_ins

# The fake of Stripe alone, at the address that the tutorial about Stripe names.
fake-stripe: $(TOOLS)
	@exec $(BIN)/python -m campaigns.fake_stripe --port 12111

# The reference pages that are generated from the code; tests/docs fails when one is stale.
docs: $(TOOLS)
	$(BIN)/python -m docs.generate

# Linters of the description and generators of clients, in pinned versions, where Node and Java are: `make test-long` then runs
# them, and skips them otherwise.
OPENAPI_TOOLS := .openapi-tools
openapi-tools:
	mkdir -p $(OPENAPI_TOOLS)
	cp tests/api/openapi/tools/package.json $(OPENAPI_TOOLS)/
	npm install --prefix $(OPENAPI_TOOLS) --no-audit --no-fund --no-package-lock
	$(PYTHON) -m venv $(OPENAPI_TOOLS)/python
	$(OPENAPI_TOOLS)/python/bin/python -m pip install --quiet -r tests/api/openapi/tools/requirements.txt

# Builds Citus from its repository, or from a clone that CITUS_SOURCE names, and runs its tests on a cluster of three servers.
citus: $(TOOLS)
	$(BIN)/python -m campaigns.citus
	$(BIN)/python -m pytest -m long tests/citus
	LEDGER_TEST_CITUS=1 $(BIN)/python -m pytest tests/recorder tests/journal tests/operations

# The environment is created once: a stamp is older than its lock only after the lock has changed. Running needs less than
# half of what testing needs, so the tools are installed for the targets that use them. The project's own package is built
# while the others are downloaded.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; try make PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable . & $(INSTALL) -r requirements.lock && wait $$!
	@touch $@

$(TOOLS): requirements-dev.lock $(STAMP)
	$(INSTALL) -r requirements-dev.lock
	@touch $@

# Needs pip-tools. Writes the hashes of every wheel and no address of any index. A pinned version stays while pyproject.toml
# allows it: `make lock UPGRADE=--upgrade` takes the newest, `UPGRADE="--upgrade-package NAME"` that of one package.
lock:
	$(COMPILE) --output-file requirements.lock pyproject.toml
	$(COMPILE) --constraint requirements.lock --extra traces --output-file requirements-traces.lock pyproject.toml
	$(COMPILE) --constraint requirements.lock --constraint requirements-traces.lock --extra dev --output-file requirements-dev.lock pyproject.toml

clean:
	rm -rf $(VENV) $(OPENAPI_TOOLS) .stand-ins build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
