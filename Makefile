# The commands of this project; `make help` is the menu.

PYTHON ?= python3
VENV ?= .venv
PYTHONS ?= 3.12 3.13 3.14
HOST ?= 127.0.0.1
PORT ?= 8000
SECONDS ?= 600
export HOST PORT

.DEFAULT_GOAL := help
.PHONY: help run demo screenshots test test-fast test-lowest test-pythons mutants soak bench check docs clean

help: ## this menu
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

run: $(VENV)/installed ## serve the example application on http://127.0.0.1:8000 (HOST, PORT, DATABASE_URL)
	@exec $(VENV)/bin/gunicorn -c example_app/gunicorn.conf.py example_app.wsgi:application

demo: $(VENV)/installed ## serve the example with half a year of traffic, and write its pages to instance/demo
	@$(VENV)/bin/python -m example_app.demo instance/demo
	@DATABASE_URL="sqlite:///$(CURDIR)/instance/demo/example.sqlite3" EXAMPLE_PLAN="$(CURDIR)/instance/demo/retirement.toml" \
		exec $(VENV)/bin/gunicorn -c example_app/gunicorn.conf.py example_app.wsgi:application

screenshots: $(VENV)/installed ## take the pictures in docs/ anew, with Chromium
	$(VENV)/bin/python -m example_app.screenshots

test: $(VENV)/tested ## run the tests; what needs a server that is missing is skipped by name
	$(VENV)/bin/coverage erase
	$(VENV)/bin/coverage run -m pytest
	$(VENV)/bin/coverage report

# Slow tests start a server, a database, a browser or another process. Properties are tried with fewer examples.
FAST = -m 'not slow' --hypothesis-profile=fast -p no:schemathesis

test-fast: $(VENV)/tested ## run the tests that need no server, browser, database or other process, in under 20 seconds
	$(VENV)/bin/python -m pytest -q -n auto --dist loadfile $(FAST)

# Not those whose outcome changes with the releases of a server: how it parses a request, what it does when the storage
# exits, and how gunicorn's gthread workers are replaced.
OF_SERVERS = tests/resilience/test_inputs.py::test_a_request_has_the_expected_outcome_on_every_server \
	tests/resilience/test_storage_failures.py::test_an_exit_gets_no_response_from_the_library_and_leaves_nothing_open \
	'tests/usage/test_servers.py::test_no_call_is_lost_when_workers_are_replaced[sqlite-gthread]' \
	'tests/usage/test_servers.py::test_no_call_is_lost_when_workers_are_replaced[postgresql-gthread]'

test-lowest: .venv-lowest/installed ## run the tests with the oldest dependencies that pyproject.toml allows
	.venv-lowest/bin/python -m pytest $(OF_SERVERS:%=--deselect=%)

# Not those that need Node.js or a browser, nor the tests of other applications.
SUITE = -m 'not browser' --ignore=tests/applications

test-pythons: ## run the tests on other versions of Python that are found (PYTHONS, SUITE), and name those that are missing
	@PYTHONS='$(PYTHONS)' .ci/test-pythons $(SUITE)

soak: $(VENV)/tested ## serve under traffic and random failures for a while (SECONDS, SEED, WORKER), and check every response
	$(VENV)/bin/python -m tests.soak $(SECONDS) $(SEED:%=--seed=%) $(WORKER:%=--worker=%)

mutants: $(VENV)/mutated ## change the core modules in many small ways, and list the changes that no fast test notices (ONLY)
	$(VENV)/bin/mutmut run $(ONLY:%='flask_notifications.%.*')
	$(VENV)/bin/mutmut results

bench: $(VENV)/benched ## measure what the library costs next to others, and write docs/benchmarks.md (a quarter of an hour)
	$(VENV)/bin/python -m benchmarks --write

check: $(VENV)/checked ## format, lint, types, import layers, metadata, words, docs
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" PYTHONPATH=. pyright --ignoreexternal --verifytypes flask_notifications
	$(VENV)/bin/lint-imports
	$(VENV)/bin/python -m pytest -q tests/test_package.py -k 'metadata or dependencies or dependency or changelog'
	$(VENV)/bin/mdformat --check $(PAGES)
	$(VENV)/bin/codespell $(FOLDERS)
	$(VENV)/bin/codespell --config docs/vocabulary/pages.cfg $(wildcard *.md docs/*.md)
	$(VENV)/bin/sphinx-build -q -W --keep-going docs docs/_build

FOLDERS = .ci benchmarks example_app flask_notifications tests Makefile pyproject.toml setup.cfg

# Not those that a command writes.
PAGES = $(wildcard *.md) $(filter-out docs/benchmarks.md docs/compatibility.md, $(wildcard docs/*.md))

docs: $(VENV)/checked ## build the documentation in docs/_build, and open it in a browser if there is one (NO_BROWSER=1: do not)
	$(VENV)/bin/sphinx-build -q -W --keep-going docs docs/_build
	@echo 'file://$(CURDIR)/docs/_build/index.html'
	@test -n '$(NO_BROWSER)' || $(VENV)/bin/python -m webbrowser 'file://$(CURDIR)/docs/_build/index.html' >/dev/null 2>&1 || true

clean: ## remove the virtual environments and all that was made in them
	rm -rf .venv .venv-* .pythons mutants build dist instance *.egg-info .coverage* .*_cache

# Virtual environments, made again when the project's dependencies change.

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python pyproject.toml
	$(VENV)/bin/pip install --quiet --upgrade 'pip>=25.1' # the first that knows dependency groups
	$(VENV)/bin/pip install --quiet --editable . --group example
	@touch $@

$(VENV)/tested: $(VENV)/installed
	$(VENV)/bin/pip install --quiet --group test
	if command -v mariadb_config >/dev/null; then $(VENV)/bin/pip install --quiet --group test-mariadb; fi
	@touch $@

$(VENV)/mutated: $(VENV)/tested
	$(VENV)/bin/pip install --quiet --group mutants
	@touch $@

$(VENV)/benched: $(VENV)/tested
	$(VENV)/bin/pip install --quiet --group bench
	@touch $@

LOWEST = .venv-lowest/bin/uv pip install --quiet --compile-bytecode --python .venv-lowest

.venv-lowest/installed: $(VENV)/bin/python pyproject.toml
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/pip install --quiet uv
	$(LOWEST) --resolution lowest-direct --editable '.[openapi,prometheus,sqlalchemy,usage]' --group example
	$(LOWEST) --group test
	if command -v mariadb_config >/dev/null; then $(LOWEST) --group test-mariadb; fi
	@touch $@

$(VENV)/checked: $(VENV)/tested
	$(VENV)/bin/pip install --quiet --group check
	@touch $@
