# Everything a person does twice. `make` alone lists it.

PYTHON ?= python3
VENV   ?= .venv
TASK   ?= CartPole-v1
ARGS   ?=
PIP_ARGS ?=
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
TESTERS ?= $(shell expr $(JOBS) + 2)

BIN     := $(VENV)/bin
INSTALL := $(BIN)/python tools/install.py $(PIP_ARGS)
RUN_ENV := $(VENV)/.headrace-run
DEV_ENV := $(VENV)/.headrace-dev
DEV_LINT     := $(VENV)/.headrace-lint
DEV_TOOLS    := $(VENV)/.headrace-tools
DEV_PACKAGES := $(VENV)/.headrace-packages
DEV_MODULES  := $(VENV)/.headrace-modules
# what the installed packages are out of date against: their settings, and of compiled ones their sources
SETTINGS := pyproject.toml constraints.txt
ENGINE   := CMakeLists.txt $(shell find native/engine -type f 2>/dev/null)
ATARI    := $(ENGINE) cmake/ArcadeLearningEnvironment.cmake $(shell find native/atari -type f 2>/dev/null)
BOX2D    := $(ENGINE) cmake/Box2D.cmake $(shell find native/box2d -type f 2>/dev/null)
LEARNER  := CMakeLists.txt native/lanes/vec.hpp $(shell find native/learner -type f 2>/dev/null) $(wildcard src/headrace/train/algorithms/*/*.hpp)
MUJOCO   := $(ENGINE) cmake/MuJoCo.cmake $(shell find native/mujoco native/lanes -type f 2>/dev/null)

# pins hold for isolated builds too (newer pips read the second name for those)
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_BUILD_CONSTRAINT := $(PIP_CONSTRAINT)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# hundreds of processes import the packages: each is compiled once, also where the shell asks for no bytecode
export PYTHONDONTWRITEBYTECODE :=
# the environment's own cmake, ninja and python before the system's
export PATH := $(abspath $(BIN)):$(PATH)
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-of pytest pytest-torch nightly native-build native-test sanitize-build sanitize \
    sanitize-emulator gpu-test collected gpu-bench lint format typecheck bench wheels pages docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(DEV_ENV) ## build .venv with the package, its tools and its peers

demo: $(RUN_ENV) ## train an agent with a live dashboard: make demo [TASK=Pong-v5] [ARGS="--seed 2"]
	$(BIN)/headrace train $(TASK) $(ARGS)

test: lint typecheck gpu-test native-test pytest pytest-torch ## everything CI checks; sets itself up

# each process begins with a share of the tests, and takes others' once it is done; two more than there are cores, as a
# third of their time is waiting for a browser, a timeout or a process; a GPU is for one process at a time
PYTEST = $(BIN)/python -m pytest -n $(TESTERS) --maxprocesses 4 --dist worksteal --ignore tests/gpu

# a case may take so many seconds; what takes longer is listed, and proves something that no quicker case does
BUDGET = 1.5

pytest: $(DEV_ENV) ## the Python tests: make pytest [ARGS="tests/pool -k reset"], one by one with ARGS="-n 0"
	$(PYTEST) --durations 60 --durations-min $(BUDGET) $(ARGS)

test-of: $(DEV_ENV) ## the tests that import some files: make test-of FILES="src/headrace/pool/seeds.py tests/programs.py"
	tests="$$($(BIN)/python tools/tests_of.py $(FILES))" && $(PYTEST) --durations 10 $(ARGS) $$tests

# of what learns in compiled code where that is installed; at night with all tests of training
TORCH_TESTS = tests/train/collect $(patsubst %,tests/train/algorithms/test_%.py,ppo sac td3 ddpg dqn off_policy)

# they wait for little, and run beside the others (.ci/run)
pytest-torch: $(DEV_ENV) ## tests of collecting and of algorithms with the compiled learner left out
	HEADRACE_NO_LEARNER=1 $(PYTEST) -n $(JOBS) $(TORCH_TESTS) $(ARGS)

nightly: $(DEV_ENV) ## long learning, soaks and wider repetitions, which the other targets leave out
	$(PYTEST) --durations 0 --timeout 1200 -m nightly $(ARGS)
	HEADRACE_NO_LEARNER=1 $(PYTEST) --durations 0 --timeout 1200 -m 'nightly or not nightly' tests/train $(ARGS)

native-build: build/native/.configured $(DEV_MODULES)
	$(BIN)/cmake --build build/native -j $(JOBS)

native-test: native-build ## the C++ tests
	$(BIN)/ctest --test-dir build/native --output-on-failure

# hundreds of files are compiled when they are first imported: once here, and not in each process that tests
collected: gpu-test
	$(BIN)/python -m pytest --collect-only -q >/dev/null

gpu-test: $(DEV_ENV) ## the tests that need a CUDA device; skipped where there is none
	$(BIN)/python -m pytest tests/gpu $(ARGS)

gpu-bench: $(DEV_ENV) ## benchmarks on a CUDA device: make gpu-bench [ARGS=--quick]
	$(BIN)/python benchmarks/gpu_pool.py $(ARGS)
	$(BIN)/python benchmarks/gpu_tag.py $(ARGS)
	$(BIN)/python benchmarks/gpu_training.py $(ARGS)
	$(BIN)/python benchmarks/gpu_mujoco.py $(ARGS)

CPP = $(shell find native src tests -name '*.[ch]pp' -print -o -name '*.h' -print)

lint: $(DEV_LINT) ## ruff and clang-format: rules and format
	$(BIN)/ruff check --output-format concise .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(CPP)

format: $(DEV_LINT) ## ruff and clang-format: put right what they can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

typecheck: $(DEV_ENV) ## pyright
	$(BIN)/pyright --pythonpath $(BIN)/python

# what always runs: under the thread sanitizer the engine, whose threads step all simulators; under address + undefined
# all simulators, too
sanitize-build: build/thread/.configured build/address/.configured
	$(BIN)/cmake --build build/thread -j $(JOBS)
	$(BIN)/cmake --build build/address -j $(JOBS)

sanitize: sanitize-build ## the C++ tests under sanitizers, a core of them
	$(BIN)/ctest --test-dir build/thread -j $(JOBS) --output-on-failure
	$(BIN)/ctest --test-dir build/address -j $(JOBS) --output-on-failure

sanitize-emulator: build/thread-emulator/.configured build/address-emulator/.configured ## all of them, the emulator's own code too (nightly)
	for build in thread address; do $(BIN)/cmake --build build/$$build-emulator -j $(JOBS) && \
	    $(BIN)/ctest --test-dir build/$$build-emulator -j $(JOBS) --output-on-failure || exit; done

bench: $(DEV_ENV) ## every benchmark beside its peers, then the tables of results
	$(BIN)/python benchmarks/run_all.py $(ARGS)
	$(BIN)/python benchmarks/table.py

wheels: $(DEV_ENV) ## the wheels of this system, in dist/: headrace and its compiled modules
	$(BIN)/python tools/wheels.py

pages: $(DEV_ENV) ## what the documentation says of tasks, settings and results, written anew
	$(BIN)/python docs/families.py
	$(BIN)/python docs/settings.py
	$(BIN)/python docs/typed.py
	$(BIN)/python docs/leaderboard.py
	$(BIN)/python docs/gallery.py
	$(BIN)/python docs/llms.py

docs: $(DEV_ENV) ## the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict  # its theme's vendor advertises a successor

clean: ## remove what was built (not runs/)
	rm -rf $(VENV) build dist site .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# uv installs in a fifth of pip's processor time; what it cannot install, and where it is not to be had, pip does
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	command -v uv || $(BIN)/python -m pip install -q uv || true

# torch by itself first: pinned, and never as somebody else's dependency
# what a task needs that is compiled is built when it is first asked for (src/headrace/native_modules.py), but for what every
# training uses, and robots, which are the zoo's first agents to be played
$(RUN_ENV): $(SETTINGS) | $(BIN)/python
	$(INSTALL) torch
	$(INSTALL) -e '.[train,plots,zoo]' ./zoo ale-py mujoco
	$(BIN)/python -c "from headrace.native_modules import LEARNER, MUJOCO; LEARNER.build(); MUJOCO.build()" || true
	touch $@

$(DEV_LINT): $(SETTINGS) | $(BIN)/python
	$(INSTALL) ruff clang-format
	touch $@

# what compiling and fetching the emulator need, so that compilers may work beside the installation of everything else (.ci/run)
$(DEV_TOOLS): $(SETTINGS) | $(BIN)/python
	$(INSTALL) -e . cmake nanobind ninja scikit-build-core setuptools ale-py mujoco
	touch $@

$(DEV_PACKAGES): $(SETTINGS) | $(DEV_TOOLS)
	$(INSTALL) torch
	$(INSTALL) -e '.[train,dev,bench,docs,environments,libraries]'
	touch $(RUN_ENV) $@

# all modules, and the C++ tests, are targets of one build: the engine is compiled once for all of them, a change of a
# Python file compiles nothing, and one of a module's sources that module alone
$(DEV_MODULES): build/native/.configured $(ATARI) $(BOX2D) $(LEARNER) $(MUJOCO) | $(DEV_TOOLS)
	$(BIN)/cmake --build build/native -j $(JOBS) --target modules
	$(BIN)/cmake --install build/native --prefix "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')"
	$(BIN)/python -c "from headrace.native_modules import main; main()"
	touch $@

$(DEV_ENV): $(DEV_PACKAGES) $(DEV_MODULES)
	touch $@

# an instrumented emulator takes minutes to build, and it is not ours: `sanitize` links the one of the module
build/address/.configured: $(DEV_MODULES)

SANITIZED_thread  :=
SANITIZED_address := ATARI BOX2D LEARNER MUJOCO
build/%/.configured: SANITIZER = $(filter thread address,$(subst -, ,$*))
build/%/.configured: FAMILIES = $(if $(filter thread address,$*),$(SANITIZED_$*),ATARI BOX2D LEARNER MUJOCO)
build/%/.configured: $(ATARI) $(BOX2D) $(LEARNER) $(MUJOCO) $(wildcard native/tests/* cmake/*) | $(DEV_TOOLS)
	$(BIN)/cmake -G Ninja -S . -B build/$* -DHEADRACE_PYTHON=$(if $(SANITIZER),OFF,ON) -DHEADRACE_NATIVE_TESTS=ON \
	    $(foreach family,ATARI BOX2D LEARNER MUJOCO,-DHEADRACE_$(family)=$(if $(filter $(family),$(FAMILIES)),ON,OFF)) \
	    -DHEADRACE_SANITIZE=$(SANITIZER) -DHEADRACE_CORE_TESTS=$(if $(findstring -emulator,$*),OFF,ON) \
	    -DHEADRACE_ALE=$(if $(filter address,$*),$(CURDIR)/build/native/ale.cmake) \
	    -Dnanobind_DIR="$$($(BIN)/python -m nanobind --cmake_dir)" -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python
	touch $@
