# Each command makes its own virtual environment; only Python (3.11 or newer) and pip are needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OPTIONAL := peer or torch or export or browser or program or sklearn_suite or slow

.PHONY: demo benchmark results test test-optional test-nightly test-lowest check coverage docs dist clean

demo: $(VENV)/.demo
	$(BIN)/python -m calibrant.demo

# Every native method with 100, 300 and 1000 calibration rows, and a page with tables, figures and a leaderboard.
benchmark: $(VENV)/.demo
	$(BIN)/python -m calibrant bench run --embedded --methods all --draw 100,300,1000 --repeats 1 --out results/embedded
	$(BIN)/python -m calibrant bench report results/embedded --out results/embedded/report

# The same run as docs/results.md and docs/leaderboard.html, with date and version.
results: $(VENV)/.demo
	$(BIN)/python benchmarks/results.py

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 -q -m 'not ($(OPTIONAL) or fuzz)'

# Slow tests, and those that need Chromium, databases, torch or the packages of the extra `peers`, as .ci/run installs.
test-optional: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 -q -m '($(OPTIONAL)) and not fuzz'
	CALIBRANT_PROPERTIES=full $(BIN)/python -m pytest -n 2 -q tests/test_properties.py

# Random cases that were never tried before: their seeds come from the date, and a failure prints its own.
test-nightly: $(VENV)/.test
	CALIBRANT_PROPERTIES=fresh $(BIN)/python -m pytest -n 2 -q tests/test_properties.py
	$(BIN)/python -m tests.fuzz --first $$(( $$(date +%s) / 86400 * 1000000 )) --cases 20000

# The command line with the lowest versions that pyproject.toml allows, in an environment of its own (LOWEST, else a
# temporary one); Python 3.11 or 3.12, which these versions were made for.
test-lowest:
	$(PYTHON) tools/test_lowest.py $(if $(LOWEST),--venv $(LOWEST))

# The lines that the tests reach, in htmlcov/; compiled functions are not traced.
coverage: $(VENV)/.test
	$(BIN)/python -m pip install --quiet coverage
	$(BIN)/python -m coverage run -m pytest -q -m 'not ($(OPTIONAL) or fuzz)'
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage html -q

# Style and types.
check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site, in docs/_build/html: warnings are errors, every example of the gallery runs, and links inside are checked.
# Made pages go first: one whose source is gone would be a warning.
docs: $(VENV)/.docs
	rm -rf docs/generated docs/gallery
	$(BIN)/python -m sphinx -b html -W --keep-going -j auto docs docs/_build/html
	$(BIN)/python tools/check_links.py docs/_build/html

# The two distributions in dist/, checked, installed into fresh environments and tried there.
dist: $(VENV)/.dist
	$(BIN)/python tools/distributions.py

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.demo: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[all,dask,trees,dev]'
	touch $@ $(VENV)/.demo

$(VENV)/.docs: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	touch $@

$(VENV)/.dist: $(BIN)/python
	$(BIN)/python -m pip install --quiet build twine check-wheel-contents
	touch $@

clean:
	rm -rf $(VENV) dist htmlcov docs/_build docs/generated docs/gallery .mypy_cache .ruff_cache .pytest_cache
