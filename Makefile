# Every target sets up what it needs in .venv; nothing has to be installed by hand but Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
INSTALL := $(PIP) install --constraint constraints.txt --editable
# What builds the package, in an environment of its own, is pinned as well.
export PIP_BUILD_CONSTRAINT := constraints.txt
# Keep byte code, even where the machine says not to: tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo site test test-all check dist bench soak docs links format lock locked clean
.DEFAULT_GOAL := test

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "acqh needs Python 3.11 or newer; set PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --constraint constraints.txt --upgrade pip

# To save space: byte code only of what is used, no tests of packages (40 MB), no setuptools.
$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(subst install,install --no-compile,$(INSTALL)) '.[images,text,serve]'
	@[ -e $(VENV)/.test ] || { $(PIP) --quiet uninstall --yes setuptools; find $(VENV)/lib -type d -name tests -prune -exec rm -r {} +; }
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) '.[images,hog,video,ocr,text,languages,hub,plot,parquet,mat,zarr,faiss,dask,serve]' --group test
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) '.[all,ocr,torch]' --group test-all --group check --group docs
	@touch $(VENV)/.test $@

$(VENV)/.dist: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --constraint constraints.txt --group dist
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(PIP) install --constraint constraints.txt --group bench
	@touch $@

demo: $(VENV)/.demo  ## the embedded emoji set: its evaluation, then, on a terminal, the web interface
	$(BIN)/acqh demo --evaluate

# Workers have one thread each: more would only wait for one another.
RUN_TESTS := $(BIN)/python tests/compile_once.py && OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses=auto --dist=worksteal

test: $(VENV)/.test  ## the tests that are not slow; those of extras that are not installed are skipped
	$(RUN_TESTS) -m "not slow"

test-all: $(VENV)/.dev  ## all tests, with everything that they need
	HYPOTHESIS_PROFILE=thorough $(RUN_TESTS)

check: $(VENV)/.dev  ## formatter, linter, strict types, doctests, layer rules, docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/check_types.py
	$(BIN)/python tools/check_language.py
	$(BIN)/python tools/check_numbers.py
	$(BIN)/python -m pytest --doctest-modules -q src
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/check_dependencies.py
	rm -rf docs/reference/generated  # pages of names that are gone would be warned of
	$(BIN)/sphinx-build --fail-on-warning --quiet docs docs/_build/html

dist: $(VENV)/.dist  ## wheel and sdist in dist/, tried in an empty environment: library, command line, page
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/python tools/check_dist.py

bench: $(VENV)/.bench  ## every benchmark but the billion items, one JSON line each
	@failed=; $(BIN)/python -m benchmarks.paper --quick || failed=" benchmarks.paper"; for script in $(subst /,.,$(basename $(filter-out %/billion.py %/__main__.py,$(wildcard benchmarks/*/*.py)))); do $(BIN)/python -m $$script || failed="$$failed $$script"; done; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

site: $(VENV)/.dev  ## the emoji site in the folder site, checked in a browser
	$(BIN)/python tools/make_site.py site

soak: $(VENV)/.dev  ## kills, rebuilds, hostile clients and mutations for about ten minutes, one line of counts
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python tools/soak.py

docs: $(VENV)/.dev  ## the documentation, in docs/_build/html
	rm -rf docs/reference/generated
	$(BIN)/sphinx-build --fail-on-warning docs docs/_build/html

links: $(VENV)/.dev  ## the links of the documentation to other sites; needs a network
	$(BIN)/sphinx-build --builder linkcheck --quiet docs docs/_build/links

format: $(VENV)/.dev  ## rewrite the code the way check wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: | $(BIN)/python  ## renew constraints.txt and requirements.lock; UPGRADE=--upgrade takes newer versions
	$(BIN)/python tools/lock.py $(UPGRADE)

locked: | $(BIN)/python  ## install everything from requirements.lock, every file checked against its hash
	$(PIP) install --require-hashes --no-deps --requirement requirements.lock
	env -u PIP_BUILD_CONSTRAINT $(PIP) install --no-deps --no-build-isolation --editable .
	@touch $(VENV)/.demo $(VENV)/.dev $(VENV)/.bench

clean:
	rm -rf $(VENV) dist docs/_build docs/gallery docs/reference/generated
