# The commands of this project; `make help` is the menu.

PYTHON ?= python3
VENV ?= .venv
PYTHONS ?= 3.12 3.13 3.14 3.15
HOST ?= 127.0.0.1
PORT ?= 8000
SECONDS ?= 600
export HOST PORT
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.PHONY: help run demo screenshots test test-fast test-world test-lowest test-pythons mutants soak bench check docs dist clean

help: ## this menu
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

run: $(VENV)/installed ## serve the example application on http://127.0.0.1:8000 (HOST, PORT, DATABASE_URL)
	@exec $(VENV)/bin/gunicorn -c example_app/gunicorn.conf.py example_app.wsgi:application

demo: $(VENV)/installed ## serve the example with half a year of traffic, and write its pages to instance/demo
	@$(VENV)/bin/python -m example_app.demo instance/demo
	@DATABASE_URL="sqlite:///$(CURDIR)/instance/demo/example.sqlite3" EXAMPLE_PLAN="$(CURDIR)/instance/demo/retirement.toml" \
		exec $(VENV)/bin/gunicorn -c example_app/gunicorn.conf.py example_app.wsgi:application

screenshots: $(VENV)/installed ## take the screenshots in docs/ again, with Chromium
	$(VENV)/bin/python -m example_app.screenshots

# Each file runs in one process, so that it starts its servers once. conftest.py orders them.
PARALLEL = -q -n auto --maxprocesses=4 --dist loadfile --no-loadscope-reorder

test: $(VENV)/tested ## run the tests, and skip those of missing programs by name (CI=1: require all branches)
	$(VENV)/bin/python -m pytest $(PARALLEL) $(if $(CI),--cov --cov-fail-under=100)

test-world: $(VENV)/world ## run the tests whose outcome depends on the release of a server
	$(VENV)/bin/python -m pytest $(PARALLEL) -m world

# Slow tests start a server, a database, a browser or another process. Properties are tried with fewer examples.
FAST = -m 'not slow' --hypothesis-profile=fast -p no:schemathesis

test-fast: $(VENV)/tested ## run the tests that need no server, browser, database or other process, in under 20 seconds
	$(VENV)/bin/python -m pytest $(PARALLEL) $(FAST)

test-lowest: .venv-lowest/installed ## run the tests with the oldest dependencies that pyproject.toml allows
	.venv-lowest/bin/python -m pytest $(PARALLEL) -m 'not world and not newest'

test-pythons: ## run the tests on the other installed versions of Python (PYTHONS), and list the missing ones
	@PYTHONS='$(PYTHONS)' .ci/test-pythons

soak: $(VENV)/tested ## serve traffic under random failures for a while (SECONDS, SEED), or simulate HISTORIES of usage
	$(VENV)/bin/python -m $(if $(HISTORIES),tests.usage.histories $(or $(SEED),0) $(HISTORIES),tests.soak $(SECONDS) $(SEED:%=--seed=%))

mutants: $(VENV)/mutated ## change the core modules in many small ways, and list the changes that no fast test notices (ONLY)
	$(VENV)/bin/mutmut run $(ONLY:%='flask_notifications.%.*')
	@$(VENV)/bin/mutmut results | grep -v 'not checked' || true

bench: $(VENV)/tested ## measure the library beside others, and write docs/benchmarks.md
	$(VENV)/bin/python -m benchmarks --write

check: $(VENV)/checked .venv-docs/installed ## check the format, lint, types, import layers, metadata, words and documentation
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" PYTHONPATH=. pyright --ignoreexternal --verifytypes flask_notifications
	@mkdir -p build
	sed -n '/^```python$$/,/^```$$/{/^```/!p;}' README.md > build/readme.py # mypy takes app.wsgi_app, as Flask documents it, for a method
	$(VENV)/bin/mypy --disable-error-code=method-assign --allow-untyped-defs --allow-untyped-calls build/readme.py
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" PYTHONPATH=. pyright build/readme.py
	$(VENV)/bin/lint-imports
	$(VENV)/bin/zizmor --quiet --offline .github/workflows
	.ci/check-subjects
	$(VENV)/bin/python .ci/density flask_notifications tests
	$(VENV)/bin/python -m pytest -q -m metadata tests/test_package.py
	$(VENV)/bin/mdformat --check $(PAGES)
	$(VENV)/bin/codespell $(FOLDERS)
	$(VENV)/bin/codespell --config docs/vocabulary/pages.cfg $(wildcard *.md docs/*.md)
	$(SITE)
	# It lists each package for which a mirror of the index has no advisories.
	$(VENV)/bin/pip-audit --skip-editable --progress-spinner off > build/audit.txt || { cat build/audit.txt; exit 1; }

FOLDERS = .ci benchmarks example_app flask_notifications tests Makefile pyproject.toml setup.cfg

SITE = .venv-docs/bin/sphinx-build -q -W --keep-going docs docs/_build

# Not those that a command writes.
PAGES = $(wildcard *.md tests/*.md) $(filter-out docs/benchmarks.md, $(wildcard docs/*.md))

docs: .venv-docs/installed ## build the documentation in docs/_build, and open it in a browser, if any (NO_BROWSER=1: only build)
	$(SITE)
	@echo 'file://$(CURDIR)/docs/_build/index.html'
	@test -n '$(NO_BROWSER)' || $(PYTHON) -m webbrowser 'file://$(CURDIR)/docs/_build/index.html' >/dev/null 2>&1 || true

dist: $(VENV)/checked ## build the source distribution and the wheel in dist/, and check their metadata
	rm -rf dist
	$(VENV)/bin/python -m build --outdir dist
	$(VENV)/bin/twine check --strict dist/*

clean: ## remove the virtual environments, builds, caches and the data of the example
	rm -rf .venv .venv-* .pythons mutants build dist instance *.egg-info .coverage* .*_cache

# Virtual environments, made again when the project's dependencies change.

# Without pip, the environment is what an attempt without python3-venv has left.
$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	@echo 'Making $(VENV), which takes a minute'
	@$(PYTHON) -m venv --clear $(VENV)

# Quiet twice: build tools of other packages warn about what we cannot change.
INSTALL = @$(VENV)/bin/pip install -qq

$(VENV)/installed: $(VENV)/bin/pip pyproject.toml
	$(INSTALL) --upgrade 'pip>=25.1' # the first that knows dependency groups
	$(INSTALL) --editable . --group example
	@touch $@

$(VENV)/tested: $(VENV)/installed
	@echo 'Installing what the tests need'
	$(INSTALL) --group test
	@if command -v mariadb_config >/dev/null; then $(VENV)/bin/pip install -qq --group test-mariadb; fi
	@touch $@

$(VENV)/world: $(VENV)/tested
	$(INSTALL) --group world
	@touch $@

$(VENV)/mutated: $(VENV)/tested
	$(INSTALL) --group mutants
	@touch $@

LOWEST = .venv-lowest/bin/uv pip install --quiet --compile-bytecode --python .venv-lowest

.venv-lowest/installed: $(VENV)/bin/pip pyproject.toml
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/pip install --quiet uv
	$(LOWEST) --resolution lowest-direct --editable '.[openapi,prometheus,sqlalchemy,usage]'
	.venv-lowest/bin/uv pip freeze --quiet --python .venv-lowest --exclude-editable | grep -v ^setuptools > .venv-lowest/lowest.txt
	$(LOWEST) --constraints .venv-lowest/lowest.txt --group example --group test
	if command -v mariadb_config >/dev/null; then $(LOWEST) --constraints .venv-lowest/lowest.txt --group test-mariadb; fi
	@touch $@

$(VENV)/checked: $(VENV)/tested
	$(INSTALL) --group check
	@touch $@

.venv-docs/installed: pyproject.toml
	$(PYTHON) -m venv --clear .venv-docs
	.venv-docs/bin/pip install --quiet --upgrade 'pip>=25.1'
	.venv-docs/bin/pip install --quiet --editable . --group docs
	@touch $@
