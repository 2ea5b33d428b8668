# Needs make and Python 3.11 or newer, nothing else. `make` alone lists what there is.
VENV := .venv
PYTHON := $(VENV)/bin/python
CORES ?= $(shell getconf _NPROCESSORS_ONLN)

# What the dashboard is made from: its sources, and the API whose types it uses.
DASHBOARD := $(wildcard dashboard/*.* dashboard/public/* dashboard/src/*.* dashboard/src/*/*.* server/*/schemas.py)

.PHONY: help setup demo test test-fast check performance docs lock
help:
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/installed server/dashboard/index.html ## make the virtual environment .venv from requirements.lock

# The stamp is newer than both files exactly as long as the environment is up to date.
$(VENV)/installed: requirements.lock pyproject.toml
	@scripts/setup $(VENV)
	@touch $@

server/dashboard/index.html: $(VENV)/installed $(filter-out dashboard/openapi.json,$(DASHBOARD))
	@echo "setup: building the dashboard"
	@$(PYTHON) dashboard/build.py

demo: setup ## tune a real model on this machine in about three minutes (MODEL=path.onnx for your own, DEMO_SECONDS=n)
	@$(PYTHON) -m bench.demo $(if $(MODEL),--model "$(MODEL)") $(if $(DEMO_SECONDS),--seconds $(DEMO_SECONDS))

# A test that kills processes under other tests' load may be unlucky: the summary lists who needed another run.
test: setup ## all checks and all tests, in parallel on all cores (CORES=n for fewer)
	@scripts/system-packages
	@$(MAKE) --no-print-directory check
# Tests start some thousand processes of the product; where nothing keeps its bytecode, each would compile it anew.
	@$(PYTHON) -m compileall -q bench compiler kernels lab migrations server tilefleet tuner worker
	$(PYTHON) -m pytest -n $(CORES) --dist loadgroup --reruns 2 --reruns-delay 5 -rR --durations 20

# Boards, services, browsers and whole models take most of the time of all tests; these do without. Of the
# kernels one float family stays, matrix products, and what all families are made of.
FAST := tests/test_project.py tests/kernels tests/server tests/tuner
SLOW := $(addprefix tests/tuner/,operators test_apply.py test_c_library.py test_comparison.py test_objects.py \
  test_quantized_build.py) \
  $(addprefix tests/server/,test_real_engine.py test_simulated_board.py) \
  $(addprefix tests/kernels/,test_attention.py test_depthwise.py test_epilogue_activations.py test_fconv.py \
  test_fconv_layouts.py test_vector_math.py \
  test_gemm.py test_grouped.py test_loops.py test_qborder.py test_qdepthwise_bytes.py test_qdirect.py \
  test_qgrouped.py test_qpairs.py test_qwinograd.py test_sconv.py test_winograd.py)

test-fast: setup ## the quick tests: without boards, browsers, PostgreSQL and whole models
	$(PYTHON) -m pytest -n $(CORES) --dist loadgroup -k "not postgresql" $(FAST) $(addprefix --ignore=,$(SLOW))

check: setup ## formatting, lint and types
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	cd dashboard && PATH="$(abspath $(VENV))/bin:$$PATH" npm run --silent check

# Not slower than bench/performance.json, by a simulated clock: the same on every machine (docs/ci.md).
performance: setup ## time three models on a simulated board (UPDATE=1 keeps what they take now)
	@scripts/system-packages
	$(PYTHON) -m bench.performance $(if $(UPDATE),--update)

docs: setup ## build the documentation as a site, build/site/index.html
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --quiet
	@echo "docs: build/site/index.html"

# Keeps the versions that are there; raise one with: make lock LOCK="--upgrade-package name". No index
# address gets in, so that the lock installs from any index that has the same files. The second file, what the
# image needs, takes the versions of the first.
COMPILE := $(PYTHON) -m piptools compile --quiet --generate-hashes --strip-extras --allow-unsafe \
  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header --no-config --annotation-style=line
lock: setup ## write requirements.lock and requirements-run.lock anew from pyproject.toml
	$(COMPILE) $(LOCK) --extra dev --output-file requirements.lock pyproject.toml
	cp requirements.lock requirements-run.lock
	$(COMPILE) --output-file requirements-run.lock pyproject.toml
