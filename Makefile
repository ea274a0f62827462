# svc: every target installs what it needs by itself. `make` alone prints this help.
.DEFAULT_GOAL := help
# Not /bin/sh by its own name: for that one make starts simple commands itself, and the make of macOS (3.81) then looks for them
# in the PATH that it was started with.
SHELL := /usr/bin/env sh
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
TESTS := 'cmd/**/!(*.crash|*.fuzz|*.engines|*.kubernetes).test.ts' 'internal/**/!(*.crash|*.fuzz|*.engines|*.kubernetes).test.ts' 'schemas/**/*.test.ts'
KILL_TESTS := 'cmd/**/*.crash.test.ts' 'internal/**/*.crash.test.ts' 'internal/**/*.kubernetes.test.ts'
FUZZ_TESTS := 'cmd/**/*.fuzz.test.ts' 'internal/**/*.fuzz.test.ts'
CORE_TESTS := 'internal/core.test.ts' 'internal/core/**/*.test.ts' 'schemas/**/*.test.ts'

.PHONY: help setup run test check types lint format format-check dead cover bench profile mutants schemas reference golden test-kill test-crash test-fuzz test-history test-long test-harness test-pgbouncer test-engines test-image test-kubernetes

help: ## print this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:
	@scripts/setup

run: setup ## start svcd on an embedded database with the demo repository (or REPO=<path or url>)
	@exec scripts/run cmd/demo/main.ts $(if $(REPO),--repo '$(REPO)')

# Of the processes of tests, not of what they start: to start a program takes a process as long as it is large, and what V8 takes
# for young objects is a third of one.
SMALL := --max-semi-space-size=2
# A test that hangs fails by its name, and a process that does not end behind its tests has failed: neither holds up the run.
ENDS := --test-timeout=900000 --import ./internal/base/testkit/ends.ts
NODE_TEST := node $(SMALL) --test $(ENDS) --test-concurrency=4 --test-global-setup=internal/base/testkit/global-setup.ts
# Every process of tests compiles the same modules: cached, that costs half.
test test-kill: export NODE_COMPILE_CACHE := $(CURDIR)/node_modules/.cache/svc
test: setup ## run the tests (twelve minutes on two cores; slow ones take longer), or those of one room with its kill tests: ROOM=core/compile
ifdef ROOM
	@$(NODE_TEST) 'internal/$(ROOM)/**/*.test.ts'
else
	@files=$$(node internal/base/testkit/batches.ts $(TESTS)) && $(NODE_TEST) $$files
endif

check: setup types lint format-check dead ## types, lint, import rules, size limits, dead code (coverage of the core: make cover)

types: setup
	@tsc --noEmit -p tsconfig.json
	@tsc --noEmit -p tsconfig.web.json

lint: setup
	@oxlint cmd internal schemas
	@node --test internal/tidy.test.ts

format: setup ## rewrite the sources in the house format
	@biome format --write cmd internal schemas testdata/scripted-agent testdata/kubernetes scripts package.json tsconfig.json

format-check: setup
	@biome format cmd internal schemas testdata/scripted-agent testdata/kubernetes package.json tsconfig.json

dead: setup
	@knip

cover: setup ## coverage of the core: at least 95 % of lines and branches
	@node --test --experimental-test-coverage --test-coverage-include='internal/core/**' --test-coverage-exclude='**/*.test.ts' --test-coverage-exclude='**/{testkit,fixture}.ts' \
	  --test-coverage-lines=95 --test-coverage-branches=95 $(CORE_TESTS)

bench: setup ## measure speed as ratios against baselines in the same run; ONLY='route stall' for some of them
	@node cmd/bench/main.ts $(ONLY)

profile: setup ## record a CPU profile and a heap snapshot of svcd under load, in profile/
	@node cmd/profile/main.ts

mutants: setup ## mutants of one room of the core, killed by its own tests: ROOM=core/match, one file with FILE=match.ts
	@cd tools/mutants && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@rm -rf .mutants && git checkout-index -a --prefix=.mutants/ && ln -s ../node_modules .mutants/node_modules
	@ln -s ../../../tools/mutants/node_modules .mutants/tools/mutants/node_modules
	@cd .mutants && export ROOM='$(ROOM)' FILE='$(FILE)' && tools/mutants/node_modules/.bin/stryker run tools/mutants/stryker.config.mjs && node tools/mutants/score.mjs mutants.json; status=$$?; rm -rf ../.mutants; exit $$status

schemas: setup ## regenerate the JSON Schemas under schemas/json
	@node cmd/svc/main.ts schema --write schemas/json

reference: setup ## write the pages of docs/reference that tables make
	@node --test --test-update-snapshots --test-reporter=dot internal/reference/reference.test.ts

golden: setup ## regenerate golden files under testdata
	@node --test --test-update-snapshots $(CORE_TESTS)

test-kill: setup ## the tests that kill processes, at some of their points, and those that draw hostile input (all: make test-crash, test-fuzz)
	@node $(SMALL) --test $(ENDS) --test-concurrency=3 --test-global-setup=internal/base/testkit/global-setup.ts $(KILL_TESTS) $(FUZZ_TESTS)

test-crash: setup ## the long form of the kill tests
	@SVC_LONG=1 node --test --test-concurrency=1 --test-global-setup=internal/base/testkit/global-setup.ts $(KILL_TESTS)

test-engines: setup ## sandboxes on real container engines (installs the distribution's dockerd, podman and registry)
	@scripts/test-engines

test-image: setup ## the container image, built and run on a dockerd of its own (fetches packages of Debian and npm)
	@scripts/test-image

test-pgbouncer: setup ## two daemons behind a real transaction-mode pooler (installs the distribution's pgbouncer)
	@scripts/test-pgbouncer

test-kubernetes: setup ## the suite of sandboxes over a cluster: KUBECONFIG=path NAMESPACE=name IMAGE=reference, and DIAL=host:port where pods reach this machine
	@[ -n '$(KUBECONFIG)' ] && [ -n '$(IMAGE)' ] || { echo 'test-kubernetes: it takes KUBECONFIG=path and IMAGE=reference (Node 18 or later, /bin/sh, tar), and may take NAMESPACE=name and DIAL=host:port' >&2; exit 2; }
	@[ -r '$(KUBECONFIG)' ] || { echo 'test-kubernetes: KUBECONFIG=$(KUBECONFIG) cannot be read' >&2; exit 2; }
	@SVC_TEST_KUBECONFIG='$(abspath $(KUBECONFIG))' SVC_TEST_NAMESPACE='$(or $(NAMESPACE),svc-sandboxes)' SVC_TEST_IMAGE='$(IMAGE)' SVC_TEST_DIAL='$(DIAL)' \
	  node --test internal/adapters/sandbox/sandbox.kubernetes.test.ts

test-harness: setup ## the real harnesses at their pinned versions against a stub model (fetches 800 MB)
	@node cmd/harness-check/main.ts $(if $(DATA_DIR),--data-dir '$(DATA_DIR)')

test-fuzz: setup ## the long form of the property and hostile-input tests
	@SVC_LONG=1 node --test --test-concurrency=2 --test-global-setup=internal/base/testkit/global-setup.ts $(FUZZ_TESTS)

test-history: setup ## every statement that a loop or a list sends, explained on a million rows of each kind
	@SVC_LONG=1 node --test --test-global-setup=internal/base/testkit/global-setup.ts cmd/svcd/svcd.history.test.ts

test-long: setup ## the long form of the other tests that have one: every page and route in every state, routing beside a naive one, what a daemon holds behind hours of work
	@SVC_LONG=1 node --test --test-concurrency=2 --test-global-setup=internal/base/testkit/global-setup.ts \
	  $$(grep -rlE 'isLong|howMany|SVC_LONG' cmd internal schemas | grep -E '\.test\.ts$$' | grep -vE '\.(crash|fuzz|engines|kubernetes|history)\.test\.ts$$')
