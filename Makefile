# Two commands do all the set-up: `make run` opens the app, `make test` passes the tests. Neither needs the Hub.
FOUND := $(shell for p in python3.11 python3.12 python3.13 python3.14; do $$p -c "" 2>/dev/null && echo $$p && break; done)
PYTHON ?= $(or $(FOUND),python3)
PORT ?=
VENV := .venv
BIN := $(VENV)/bin
# The CPU build is taken where it is offered; installed first, so that nothing else chooses another one.
TORCH := torch==2.13.0
# The version of Gradio stands where a Space reads it, and nowhere else.
GRADIO = gradio==$(shell sed -n 's/^sdk_version: *//p' README.md)
# Ends with one line where it is run by a Python that is too old, which the pip of that Python would tell in ten.
RECENT := -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hfposemb needs Python 3.11 or later, and %s is \
	Python %d.%d; install one, then: make clean run PYTHON=/path/to/python" % ((sys.executable,) + sys.version_info[:2]))'
# Every package of `make run` with its digest, of the versions that the tests run with.
LOCK := .github/run-requirements.txt
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test test-unit test-browser test-full test-families lint lint-js check coverage bench bench-quick pictures js plotly docs lock publish-check browser dist clean

run: $(VENV)/run.stamp
	$(BIN)/hfposemb app $(if $(PORT),--port $(PORT))

# Four processes side by side, browsers as well: on two cores half of the time of two is waiting, for servers, children and
# pages. A test that fails runs a second time, since a busy machine lets a deadline pass; pytest lists those that did. Each
# process computes with one thread: matrices as small as those of tests cost more CPU time with several. Compiled modules
# are kept even where a container's environment says not to: otherwise each process and each child compiles them again.
# Folders are named where few have such tests: to import all takes a minute.
TESTS := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 4 --dist worksteal --reruns 1 -r R

test: test-unit test-browser

test-unit: $(VENV)/dev.stamp browser
	$(TESTS) -m "not browser" --ignore tests/browser

test-browser: $(VENV)/dev.stamp browser
	$(TESTS) -m browser tests/browser tests/real
	@$(BIN)/python -m tests.browser.chromium || true

# Which lines and branches the unit tests run, printed for each file that is not covered whole. Slower than the tests.
coverage: $(VENV)/dev.stamp browser
	$(TESTS) -m "not browser" --ignore tests/browser --cov=hfposemb --cov=app --cov-branch \
	  --cov-report=term-missing:skip-covered

# Every count in full: all faults three times, fifty kills, fifty visitors for a minute, and what builds or installs again.
test-full:
	PYTEST_TIMEOUT=7200 HFPOSEMB_FULL=1 $(MAKE) test

# Every model type of transformers, built small and compared with what is extracted from it, about two minutes, then
# checked for faults with and without an output head: about ten.
test-families: $(VENV)/dev.stamp
	$(BIN)/python -m tests.architectures
	$(BIN)/python -m tests.checks.sound

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --strict tests/typed.py

# The page's JavaScript: ESLint, the types in its comments, and node's own tests. Nothing that is installed needs node, so
# a machine without a recent one, or without a registry of packages, skips this.
JS := tests/javascript
JS_CODE := hfposemb/figures/static hfposemb/reports/site app/static $(JS)
NODE := process.exit(process.versions.node.localeCompare("20.19", "en", { numeric: true }) < 0 ? 1 : 0)

lint-js:
	@if ! node -e '$(NODE)' 2>/dev/null || ! command -v npm >/dev/null; then \
	  echo "lint-js is skipped: it needs node 20.19 or later and npm"; \
	elif ! $(MAKE) --no-print-directory $(JS)/node_modules/stamp; then \
	  echo "lint-js is skipped: npm could not install its packages"; \
	else set -x \
	  && $(JS)/node_modules/.bin/eslint --config $(JS)/eslint.config.js $(JS_CODE) \
	  && $(JS)/node_modules/.bin/tsc --project $(JS) \
	  && node $(JS)/build.js --check \
	  && node --disable-warning=MODULE_TYPELESS_PACKAGE_JSON --test --test-reporter=spec $(JS)/*.test.js; fi

$(JS)/node_modules/stamp: $(JS)/package.json $(JS)/package-lock.json
	cd $(JS) && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# The scripts of the pages, from their modules, with source maps: what is committed must be current.
js: $(JS)/node_modules/stamp
	node $(JS)/build.js

# plotly.js with the traces that are drawn, from its source into hfposemb/figures/bundle/: needs node, npm and a registry.
plotly:
	cd $(JS)/bundle && npm ci --no-audit --no-fund --loglevel=error && npm run --silent build

lock: $(VENV)/dev.stamp
	@mkdir -p build && $(BIN)/python -m pip freeze --exclude-editable | grep == > build/tested.txt
	echo "# What make run installs, all of it, by digest; made by: make lock" > build/locked.txt
	uv pip compile pyproject.toml --extra app --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-annotate --constraint build/tested.txt --quiet >> build/locked.txt
	mv build/locked.txt $(LOCK)

# What is left for whoever publishes: placeholders, pages that install from a checkout, and what only an account can do.
publish-check: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.publishing

check: lint lint-js docs
	$(MAKE) test

# Our cost beside its bounds and other libraries, in one run: a table on the terminal, and the page and its
# figures in docs/benchmarks.{md,json}; 20 minutes. Quick: two minutes, smaller tables, nothing written. Some groups:
# python -m tests.benchmarks.bench --only umap,pca.
bench: $(VENV)/dev.stamp
	$(BIN)/python -m tests.benchmarks.bench

bench-quick: $(VENV)/dev.stamp
	$(BIN)/python -m tests.benchmarks.bench --quick

# Every tab in light, dark and at the width of a phone, and what the gallery shows, from the app into docs/: minutes.
pictures: $(VENV)/dev.stamp browser
	$(BIN)/python -m tests.pictures

# The documentation site, in site/: offline, and a warning or a broken link is an error.
docs: $(VENV)/dev.stamp
	$(BIN)/python -m tests.documentation
	@echo "site/index.html"

# A Chromium from PATH, else Debian's (whole, since PNG and PDF need it, and its quicker shell), else
# Playwright's. Without one the browser tests are skipped, and `make test` says so.
browser: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.browser.chromium >/dev/null 2>&1 \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	     && apt-get update -qq >/dev/null 2>&1 && apt-get install -y -qq chromium >/dev/null 2>&1 \
	     && { apt-get install -y -qq chromium-headless-shell >/dev/null 2>&1 || true; }; } \
	|| $(BIN)/python -m playwright install chromium >/dev/null 2>&1 || true

# A wheel and an sdist whose bytes depend on the sources and the version of setuptools only, as an index wants them.
dist: $(VENV)/dev.stamp
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

clean:
	rm -rf $(VENV) $(JS)/node_modules build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) $(RECENT)
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: $(BIN)/python pyproject.toml $(LOCK)
	@$(BIN)/python $(RECENT)
	@echo "Setting up, once; this takes a minute."
	$(PIP) --require-hashes -r $(LOCK)
	$(PIP) --no-deps -e .
	@touch $@

$(VENV)/dev.stamp: $(BIN)/python pyproject.toml requirements.txt
	@$(BIN)/python $(RECENT)
	@echo "Setting up, once; this takes a few minutes."
	$(PIP) -c requirements.txt '$(TORCH)' '$(GRADIO)' -e '.[dev]'
	@touch $@
