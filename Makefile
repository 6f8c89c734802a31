# Everything that one does here. `make test` and `make demo` do all their own set-up.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

JOBS ?= $(shell nproc)
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
CMAKE := $(BIN)/cmake
CTEST := $(BIN)/ctest
PYTHON := $(BIN)/python

# Where ccache is installed, what one build folder has compiled is not compiled again in another.
ifneq ($(shell command -v ccache),)
export CMAKE_CXX_COMPILER_LAUNCHER := ccache
export CCACHE_DIR := $(CURDIR)/.cache/ccache
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
export CCACHE_MAXSIZE := 2G
endif

WHEEL_STAMP := build/wheel.stamp
WHEEL_SOURCES := $(shell find CMakeLists.txt pyproject.toml cmake src include bindings python \
	-type f -not -path '*/__pycache__/*' 2>/dev/null)

.PHONY: help setup setup-demo setup-lint setup-bench setup-compilers compilers lint-weekly demo examples test bench lint docs format core wheel test-cpp test-py test-py-weekly soak chaos conformance conformance-full suites slices folders packages weekly step storm model \
	asan tsan clang seedfault clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: ## install what this machine lacks, make .venv
	@tools/setup.sh

setup-demo:
	@tools/setup.sh demo

setup-lint:
	@tools/setup.sh lint

setup-bench:
	@tools/setup.sh bench

demo: examples ## build, run the examples, print the comparison
	@test -f examples/demo.py || { echo "examples/demo.py is missing: nothing to show yet" >&2; exit 1; }
	$(PYTHON) examples/demo.py

test: test-cpp test-py conformance ## build and run every test

bench: setup-bench core wheel ## measure side by side with the peers
	@test -f bench/run.py || { echo "bench/run.py is missing: nothing to measure yet" >&2; exit 1; }
	$(PYTHON) bench/run.py $(BENCH_ARGS)

lint: setup-lint ## formatting, static checks, layers
	@tools/lint.sh

lint-weekly: setup-lint ## clang-tidy over the benchmarks; does each source of the core include what it uses?
	$(CMAKE) --preset release -B build/tidy -D FORKLIFT_UNITY_BATCH=100 --log-level=WARNING >/dev/null
	$(PYTHON) tools/tidy.py build/tidy --weekly

setup-compilers:
	@tools/setup.sh compilers

compilers: setup-compilers ## every header and example with g++ and clang, C++20 to 26, and with libc++
	$(PYTHON) tools/check_compilers.py -j $(JOBS)

docs: setup-lint ## the C++ API's reference (build/docs/html); fails where something public lacks a word
	$(PYTHON) tools/check_docs.py

format: setup-lint ## rewrite the sources in the project's format
	git ls-files -co --exclude-standard '*.h' '*.cpp' | xargs -r $(BIN)/clang-format -i
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix-only .

core: setup ## the C++ library, its tests, benchmarks and examples (build/release)
	@$(CMAKE) --preset release --log-level=WARNING
	$(CMAKE) --build --preset release -j $(JOBS)

test-cpp: core ## the C++ tests: unit, step, storm, models (CTEST_ARGS=... chooses)
	$(CTEST) --preset release --progress $(CTEST_ARGS)

step: core ## only the step tests (a kill after every instruction)
	$(CTEST) --preset release -L '^step$$' -V

storm: core ## only the storm (random kills under load)
	$(CTEST) --preset release -L '^storm$$' -V

model: setup ## check the protocols' models in every state (spin)
	$(PYTHON) tests/model/run.py

examples: wheel  # what `make demo` runs of C++, against the library that the wheel carries
	@$(CMAKE) -S examples -B build/examples -G Ninja -D CMAKE_BUILD_TYPE=Release --log-level=WARNING \
		-D CMAKE_PREFIX_PATH="$$($(PYTHON) -m forklift --cmake-dir)"
	$(CMAKE) --build build/examples -j $(JOBS)

wheel: setup-demo $(WHEEL_STAMP)

# After `make core` the library is compiled by the same compiler (scikit-build-core would call it g++) with the same
# flags, -Werror included, so that ccache knows it.
$(WHEEL_STAMP): $(WHEEL_SOURCES) tools/requirements-build.txt
	CXX="$${CXX:-c++}" $(PYTHON) -m pip install --quiet --disable-pip-version-check --no-index --no-deps \
		--no-build-isolation --force-reinstall $(if $(wildcard build/release),--config-settings=cmake.define.FORKLIFT_WERROR=ON) .
	@touch $@

# Files whose tests run under the sharing strategy file_system as well.
UNDER_FILE_SYSTEM := $(addprefix tests/python/adapters/test_torch,.py $(addsuffix .py,_every_kind _identity _kinds _memory _processes _sharing))

test-py: setup core wheel ## the Python tests but for the weekly ones, against the installed wheel, in two processes; PYTEST_ARGS=... in one
	$(if $(PYTEST_ARGS),$(PYTHON) -m pytest $(PYTEST_ARGS),$(PYTHON) tests/run_python.py)
	$(if $(PYTEST_ARGS),,FORKLIFT_TEST_STRATEGY=file_system $(PYTHON) tests/run_python.py $(UNDER_FILE_SYSTEM) -- -k "not spawn")

soak: setup wheel ## a million mixed messages between processes that come and go; what is held must stay flat
	$(PYTHON) tests/chaos/soak.py $(SOAK_ARGS)

chaos: core wheel ## a C++ camera and a Python viewer that meet by name, either killed at random 200 times
	$(PYTHON) tests/chaos/meeting.py $(CHAOS_ARGS)

conformance: setup wheel ## CPython's own tests of multiprocessing against us: a selection
	$(PYTHON) tests/conformance/run.py --short

conformance-full: setup wheel ## all of them, and the standard library as control (half an hour)
	$(PYTHON) tests/conformance/run.py --start-method all --control

suites: setup wheel ## other packages' tests, plain and with ours (SUITES_ARGS="--suite joblib"; see tests/conformance/run.py)
	$(PYTHON) tests/conformance/run.py $(SUITES_ARGS)

slices: setup ## all tests in a build whose sleepers do not look around: finds wake-ups that are never given
	$(PYTHON) tests/slices.py $(SLICES_ARGS)

folders: ## demo, tests and benchmarks in clones at awkward paths, and as an ordinary user (hours; see tests/folders.sh)
	tests/folders.sh $(FOLDERS_ARGS)

packages: setup-compilers core ## Meson, Bazel, Conan, vcpkg, libc++, FetchContent, Clang, a shared library: the package in other builds
	FORKLIFT_SLOW_TESTS=1 $(CTEST) --preset release -L '^package$$' --output-on-failure

test-py-weekly: setup core wheel ## those Python tests that take too long for each change
	$(PYTHON) tests/run_python.py --weekly
	FORKLIFT_TEST_STRATEGY=file_system $(PYTHON) tests/run_python.py $(UNDER_FILE_SYSTEM) --every -- -k spawn

weekly: lint-weekly compilers step model slices folders packages test-py-weekly ## what takes too long for each change
	$(MAKE) conformance-full
	$(MAKE) suites SUITES_ARGS="--suite joblib --suite scikit-learn"  # those whose packages carry their tests

asan tsan clang seedfault: setup
	$(CMAKE) --preset $@ >/dev/null
	$(CMAKE) --build --preset $@ -j $(JOBS)
	$(if $(filter seedfault,$@),,$(CTEST) --preset $@ --progress)
asan: ## the C++ tests under the address and undefined behaviour sanitizers
tsan: ## the C++ tests under the thread sanitizer
clang: ## the C++ tests built with Clang
seedfault: ## a build with one commit step left out (the step tests must fail in it)

clean: ## remove what was built, keep .venv
	rm -rf build dist .cache
