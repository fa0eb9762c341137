# Two commands for a fresh machine with python3, python3-venv and make:
#   make reproduce   install into .venv and run the main job
#   make test        install into .venv and pass lint, types and tests
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: reproduce test bench clean

reproduce: $(INSTALLED)
	$(BIN)/fedsarsa reproduce --out results/published

test: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadgroup

bench: $(INSTALLED)
	$(BIN)/fedsarsa bench

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedsarsa needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf .venv results
	find src benchmarks tests -name __pycache__ -prune -exec rm -rf {} +
