# Two commands for a fresh machine with python3, python3-venv and make:
#   make reproduce   install into .venv and run the main job
#   make test        install into .venv and pass lint, types and tests
# make docs builds the documentation into site/.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: reproduce test soak bench docs clean

reproduce: $(INSTALLED)
	$(BIN)/fedsarsa reproduce --out results/published

test: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadgroup

# Five minutes in which parts of a deployment are killed, frozen or cut off.
soak: $(INSTALLED)
	$(BIN)/python -m examples.soak --minutes 5 --every 20

bench: $(INSTALLED)
	$(BIN)/fedsarsa bench

# Nothing is said unless there is a warning, and then the build fails.
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "wrote site/index.html"

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedsarsa needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf .venv results site
	find src benchmarks tests -name __pycache__ -prune -exec rm -rf {} +
