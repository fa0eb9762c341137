# Commands for a fresh machine with python3, python3-venv and make; each installs into .venv first:
#   make reproduce   run the main job
#   make test        pass lint, types and all tests
#   make check       pass lint, types and the quick tests
# make docs builds the documentation into site/.
PYTHON ?= python3
BIN := .venv/bin
CORE := .venv/.core
INSTALLED := .venv/.installed
INSTALL := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check
# A file's tests run in one process, and make what they share once; the longest files start first. Tests
# with processes of their own often wait: three workers keep two cores busy.
PYTEST := $(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder

# Several targets at a time would install at a time.
ifeq ($(MAKELEVEL),0)
.NOTPARALLEL:
endif

.PHONY: reproduce test test-gpu check before-tests lint types kernels/finite kernels/general soak bench docs clean

reproduce: $(INSTALLED)
	$(BIN)/fedsarsa reproduce --out results/published

test: before-tests
	$(PYTEST)

# The cuda engine on a real GPU; where there is none, make test runs it in a simulator.
test-gpu: $(INSTALLED)
	$(BIN)/pytest -n 4 tests/engines/cuda_suite.py

check: before-tests
	$(PYTEST) -m "not slow and not processes"

# Tests find every kernel compiled, instead of compiling the same one in many processes at a time. On a fresh
# machine kernels are compiled while the rest is installed: from src, as fedsarsa itself is installed again.
before-tests: $(CORE)
	$(MAKE) --no-print-directory -j 2 kernels/general $(INSTALLED) kernels/finite types lint

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

kernels/finite kernels/general: $(CORE)
	PYTHONPATH=src $(BIN)/python -m tests.kernels $(@F)

# Five minutes in which parts of a deployment are killed, frozen or cut off.
soak: $(INSTALLED)
	$(BIN)/python -m examples.soak --minutes 5 --every 20

bench: $(INSTALLED)
	$(BIN)/fedsarsa bench

# Nothing is said unless there is a warning, and then the build fails.
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "wrote site/index.html"

$(CORE): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedsarsa needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(INSTALL) -e '.[gym]'
	touch $@

$(INSTALLED): $(CORE)
	$(INSTALL) -e '.[dev]'
	touch $@

clean:
	rm -rf .venv results site
	find src benchmarks tests -name __pycache__ -prune -exec rm -rf {} +
