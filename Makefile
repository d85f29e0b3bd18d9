# `make run` and `make test` on a machine that has Python 3.11 or newer and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run test check bench chaos fuzz docs lock clean

run: $(STAMP)
	@exec $(BIN)/ledger serve --demo

test: $(STAMP)
	$(BIN)/python -m pytest tests property_tests

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/ledger bench

chaos: $(STAMP)
	$(BIN)/python -m tests.chaos

# Whatever the service's own description allows and forbids, at length; the tests ask some of it every time.
fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz

# The reference pages that are read off the code; tests/docs fails when one is stale.
docs: $(STAMP)
	$(BIN)/python -m docs.generate

# The environment is made once: the stamp is older than the lock only after the lock has changed.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; try make PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

# Needs pip-tools. Hashes of every wheel, no address of any index.
lock:
	CUSTOM_COMPILE_COMMAND="make lock" pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --output-file requirements.lock requirements.in

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
