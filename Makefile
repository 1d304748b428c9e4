# Set-up, demo, tests. Needs Python 3.11 or newer with venv, and make; `make help` lists the targets.
# Settings: PYTHON=... picks the interpreter, PYTEST_ARGS=... goes to pytest, TEST_JOBS=... processes,
# BENCH_ARGS=... to benchmarks, BLENDER_ARGS=... to test-blender-all (5.2.3 -- -k gather).

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

VENV        ?= .venv
VENV_PEERS  ?= .venv-peers
PYTEST_ARGS ?=
# Tests wait for compilers and devices much of the time: more processes than cores, so that threads
# had better not be pinned to any.
TEST_JOBS   ?= 3
BENCH_ARGS  ?=
BLENDER_ARGS ?=
PACKAGE_ARGS ?=
DEMO        := out/demo
BIN         := $(VENV)/bin
METADATA    := setup.py pyproject.toml tests/constraints.txt
# -qq: errors only
PIP_INSTALL := -m pip install -qq --disable-pip-version-check

.PHONY: help demo test check lint types docs docs-check bench clean distclean \
    houdini-package test-numpy-124 blender-addon blender-window test-blender-all bench-blender bench-bodies bench-colliders bench-forecast bench-history bench-quality bench-scale bench-startup

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | \
	    while IFS='|' read -r name text; do printf '%-21s %s\n' "$$name" "$$text"; done

# --- environment ----------------------------------------------------------------------------------

# The first interpreter that is new enough and can make virtual environments.
$(VENV)/pyvenv.cfg:
	@sh tests/tools/make_venv.sh $(VENV) $(PYTHON)

# One stamp for each set of extras: an install runs again only when the metadata changes.
$(VENV)/.installed-%: $(VENV)/pyvenv.cfg $(METADATA)
	@echo "Installing Runnel and what it needs ($*) into $(VENV) ..."
	@$(BIN)/python $(PIP_INSTALL) --constraint tests/constraints.txt --editable ".[$*]"
	@touch $@

# --- targets --------------------------------------------------------------------------------------

demo: $(VENV)/.installed-all ## simulate the dam break; cache, pictures, mesh and report in out/demo
	@rm -rf $(DEMO)
	$(BIN)/runnel run dam_break --out $(DEMO)
	$(BIN)/runnel preview $(DEMO)
	$(BIN)/runnel mesh $(DEMO) --frames 24
	$(BIN)/runnel report $(DEMO)
	@echo; echo "Look at:"
	@find $(DEMO) -type f \( -name '*sheet*.png' -o -name '*.mp4' -o -name '*.gif' -o -name '*.ply' \
	    -o -name '*.obj' -o -name 'report*' \) | sort | sed 's/^/  /'

test: $(VENV)/.installed-test ## run the whole test suite
	@POCL_AFFINITY=$${POCL_AFFINITY:-0} $(BIN)/python -m pytest -n $(TEST_JOBS) --dist loadfile $(PYTEST_ARGS)

test-blender-all: $(VENV)/.installed-test ## run the tests in Blender 4.5, 5.0 and 5.2
	@TEST_JOBS=$(TEST_JOBS) $(BIN)/python -m tests.tools.blender_versions $(BLENDER_ARGS)

blender-addon: $(VENV)/.installed-test ## build the Blender extension, a zip per platform in dist/blender
	@$(BIN)/python blender_addon/build.py

blender-window: ## install what the test in a real Blender window needs (Debian, root)
	@sh tests/tools/window_tools.sh

check: lint types docs-check test ## lint, types, freshness of generated docs, tests

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

docs: $(VENV)/.installed-all ## write the generated pages anew
	$(BIN)/python -m tests.tools.generated_docs

docs-check: $(VENV)/.installed-all
	$(BIN)/python -m tests.tools.generated_docs --check

bench: $(VENV)/.installed-all ## time Runnel beside SPlisHSPlasH's PBF; adds a line to the history
	@$(BIN)/python benchmarks/compare_peers.py --peer-venv $(VENV_PEERS) $(BENCH_ARGS)

bench-history: $(VENV)/.installed-dev ## draw the history of `make bench`
	@$(BIN)/python benchmarks/plot_history.py

bench-quality: $(VENV)/.installed-dev ## error against wall time, beside SPlisHSPlasH (hours)
	@$(BIN)/python benchmarks/quality.py --peer-venv $(VENV_PEERS) $(BENCH_ARGS)

bench-scale: $(VENV)/.installed-dev ## time and memory from 30 thousand to 2 million particles
	@$(BIN)/python benchmarks/scale.py $(BENCH_ARGS)

bench-bodies: $(VENV)/.installed-dev ## what rigid and deformable bodies cost in a step
	@$(BIN)/python benchmarks/bodies.py $(BENCH_ARGS)

bench-colliders: $(VENV)/.installed-dev ## what mesh colliders cost in a step, and making their fields
	@$(BIN)/python benchmarks/colliders.py $(BENCH_ARGS)

bench-forecast: $(VENV)/.installed-dev ## forecasts of `runnel check --measure` beside runs, all shipped scenes
	@$(BIN)/python benchmarks/forecast.py $(BENCH_ARGS)

bench-blender: $(VENV)/.installed-test ## a frame change of 500 thousand particles in Blender
	@$(BIN)/python benchmarks/blender.py $(BENCH_ARGS)

bench-startup: $(VENV)/.installed-dev ## import, first step, transfers
	@$(BIN)/python benchmarks/startup.py $(BENCH_ARGS)

test-numpy-124: $(VENV)/.installed-test ## tests of the Houdini adapter with the numpy of Houdini 20.5
	@$(BIN)/python $(PIP_INSTALL) --no-deps --upgrade --target $(VENV)/numpy-1.24 numpy==1.24.4
	@PYTHONPATH=$(VENV)/numpy-1.24 $(BIN)/python -m pytest tests/houdini tests/unit/test_points.py \
	    -W "ignore:A NumPy version" $(PYTEST_ARGS)

houdini-package: $(VENV)/.installed-all ## zip for Houdini's packages folder, in dist (PACKAGE_ARGS=--light without PoCL)
	@$(BIN)/python houdini_hda/package.py $(PACKAGE_ARGS)

clean: ## remove what runs leave behind, keep the virtual environments
	rm -rf out build dist peers-work .pytest_cache .mypy_cache .ruff_cache .hypothesis core/*.egg-info
	find core tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove the virtual environments too
	rm -rf $(VENV) $(VENV_PEERS)
