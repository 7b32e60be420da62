# The commands of this project; `make help` is the menu.

PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 8000
SECONDS ?= 600
export HOST PORT

.DEFAULT_GOAL := help
.PHONY: help run test test-lowest mutants soak bench check clean

help: ## this menu
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

run: .venv/installed ## serve the example application on http://127.0.0.1:8000 (HOST, PORT, DATABASE_URL)
	@exec .venv/bin/gunicorn -c example_app/gunicorn.conf.py example_app.wsgi:application

test: .venv/tested ## run the tests; what needs a server that is missing is skipped by name
	.venv/bin/coverage erase
	.venv/bin/coverage run -m pytest
	.venv/bin/coverage report

# Not those that say what a server itself makes of a request, which changes with its releases.
OF_SERVERS = tests/faults/test_inputs.py::test_what_a_request_comes_to \
	tests/faults/test_storage_faults.py::test_what_ends_a_process_is_no_answer_of_ours_and_leaves_nothing_behind

test-lowest: .venv-lowest/installed ## run the tests with the oldest dependencies that pyproject.toml allows
	.venv-lowest/bin/python -m pytest $(OF_SERVERS:%=--deselect=%)

mutants: .venv/tested ## break each room in every way, and see the tests go red (ROOMS="sessions records")
	.venv/bin/python -m tests.mutation $(ROOMS)

soak: .venv/tested ## serve under traffic and random faults for a while (SECONDS, SEED, WORKER), and check every answer
	.venv/bin/python -m tests.soak $(SECONDS) $(SEED:%=--seed=%) $(WORKER:%=--worker=%)

bench: .venv/benched ## measure what the library costs next to others, and write docs/benchmarks.md (a quarter of an hour)
	.venv/bin/python -m benchmarks --write

check: .venv/checked ## format, lint, types, import arrows, metadata, docs
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	PATH="$(CURDIR)/.venv/bin:$$PATH" PYTHONPATH=. pyright --ignoreexternal --verifytypes flask_notifications
	.venv/bin/lint-imports
	.venv/bin/python -m pytest -q tests/test_package.py -k 'metadata or dependencies or dependency or changelog'
	.venv/bin/sphinx-build -q -W --keep-going docs docs/_build

clean: ## remove the virtual environments and all that was made in them
	rm -rf .venv .venv-* build dist instance *.egg-info .coverage* .*_cache

# Virtual environments, made again when the project's dependencies change.

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml
	.venv/bin/pip install --quiet --upgrade 'pip>=25.1' # the first that knows dependency groups
	.venv/bin/pip install --quiet --editable '.[example]'
	@touch $@

.venv/tested: .venv/installed
	.venv/bin/pip install --quiet --group test
	@touch $@

.venv/benched: .venv/tested
	.venv/bin/pip install --quiet --group bench
	@touch $@

.venv-lowest/installed: .venv/bin/python pyproject.toml
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/pip install --quiet uv
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest --resolution lowest-direct --editable '.[example]'
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest --group test
	@touch $@

.venv/checked: .venv/tested
	.venv/bin/pip install --quiet --group check
	@touch $@
