# Two commands on a fresh machine: `make tune` and `make test`. `make help` lists the rest.
SHELL := /bin/sh
VENV ?= .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
PIP := $(PY) -m pip --disable-pip-version-check
TORCH := torch==2.13.0
# Threads of several processes that wait for each other on the same cores make tests several times slower.
BY_FILE := --dist loadfile --no-loadscope-reorder
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
# Hundreds of processes that tests start would compile the same modules each.
KEEP_COMPILED := PYTHONDONTWRITEBYTECODE=

# make tune: MODEL=file.onnx|file.pt2|gemm:1024x1024x1024:float32  TRIALS=n  TARGET=cpu  OUT=dir  TIME=seconds
MODEL ?=
TARGET ?= cpu
OUT ?= out
TRIALS ?=
TIME ?= $(if $(TRIALS),,160)
PORT ?= 8700

PYTHON := $(shell for p in python3.12 python3.11 python3.10 python3 python; do \
  "$$p" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null && { echo "$$p"; break; }; done)
COMPILER := $(shell for c in c++ g++ clang++; do command -v "$$c" 2>/dev/null && break; done)

# What is started over and over is compiled once, also where the surroundings say otherwise.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv tune up test lint site clean
.DEFAULT_GOAL := help

help:
	@echo "make tune   tune a model on this machine: MODEL=$(if $(MODEL),$(MODEL),squeezenet-random.onnx) TARGET=$(TARGET) OUT=$(OUT) TRIALS=$(TRIALS) TIME=$(TIME)"
	@echo "make up     keep the stack running at http://127.0.0.1:$(PORT)"
	@echo "make test   lint, types, layers and the whole test suite"
	@echo "make lint   ruff, mypy and import-linter only"
	@echo "make site   the documents as a site in build/site, with every link checked"
	@echo "make venv   only create $(VENV) with everything the server needs"

$(PY):
	@test -n "$(PYTHON)" || { echo "Tunesmith needs Python 3.10, 3.11 or 3.12 on the PATH, and there is none." >&2; \
	  echo "Get one with 'apt-get install python3 python3-venv' or from https://www.python.org/downloads/." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "$(PYTHON) cannot create a virtual environment: its module venv is incomplete." >&2; \
	  echo "Get it with 'apt-get install $(notdir $(PYTHON))-venv' (or python3-venv)." >&2; exit 1; }

$(VENV)/.server: requirements/server.txt pyproject.toml | $(PY)
	$(PIP) install --quiet -r requirements/server.txt
	$(PIP) install --quiet --no-deps -e .
	@touch $@

# Linking needs a C++ compiler: the system's, else the wheel.
$(VENV)/.linker: requirements/zig.txt | $(PY)
	$(if $(COMPILER),,$(PIP) install --quiet -r requirements/zig.txt && touch $@)

$(VENV)/.test: $(VENV)/.server requirements/test.txt requirements/zig.txt
	$(PIP) install --quiet $(TORCH)
	$(PIP) install --quiet -r requirements/test.txt -r requirements/zig.txt
	@touch $@

venv: $(VENV)/.server $(VENV)/.linker $(VENV)/.demo

# The default model, with random weights, in a folder of the environment.
$(VENV)/.demo: tools/default_model.py | $(VENV)/.server
	@$(PY) -m tools.default_model > $@

tune: venv
	@$(BIN)/tunesmith tune "$(if $(MODEL),$(MODEL),$$($(PY) -m tools.default_model))" --target '$(TARGET)' --out '$(OUT)' \
	  $(if $(TRIALS),--trials $(TRIALS)) $(if $(TIME),--time $(TIME))

up: venv
	@exec $(BIN)/tunesmith up --port $(PORT)

LINT := $(BIN)/ruff format --check --quiet . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/lint-imports

lint: $(VENV)/.test
	$(LINT)

# The checks of lint run next to the first tests: by themselves they leave all cores but one idle.
test: venv $(VENV)/.test
	$(PY) -m tools.browser
	@status=0; { $(LINT); } >$(VENV)/lint.log 2>&1 & linting=$$!; \
	  $(KEEP_COMPILED) $(ONE_THREAD) $(PY) -m pytest --phase parallel --numprocesses logical --maxprocesses 8 $(BY_FILE) || status=1; \
	  wait $$linting || status=1; cat $(VENV)/lint.log; \
	  $(KEEP_COMPILED) $(ONE_THREAD) $(PY) -m pytest --phase servers --numprocesses 3 $(BY_FILE) || status=1; \
	  $(KEEP_COMPILED) $(PY) -m pytest --phase alone || status=1; exit $$status

$(VENV)/.site: requirements/docs.txt | $(PY)
	$(PIP) install --quiet -r requirements/docs.txt
	@touch $@

# Not with --quiet: MkDocs then counts no warning, and --strict finds nothing wrong.
site: $(VENV)/.site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean

clean:
	rm -rf $(VENV) build dist
