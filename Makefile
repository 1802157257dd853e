# `make` or `make help` lists what can be done. A build needs only Go and a C compiler; internal/install.sh installs other missing tools.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export CGO_ENABLED := 1
# SQLite calls fsync, which also writes the time of the last change, unless it is told that fdatasync can be relied on.
export CGO_CFLAGS ?= -O2 -DHAVE_FDATASYNC
# The race detector waits a second at the end of each process, for reports that other goroutines are about to make. A report that has begun is
# waited for without it.
export GORACE ?= atexit_sleep_ms=0
# Everything is built in one way, so that the cache (SQLite takes a minute to compile) serves build, tests and tools alike.
export GOFLAGS := -trimpath -buildvcs=false

# The revision goes into the binary where git can tell it.
VCS      := $(if $(shell git rev-parse --quiet --verify HEAD 2>/dev/null),auto,false)
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
ARCHES   ?= amd64 arm64
FUZZTIME ?= 10s
SOAK     ?= 10000
SEEDS    ?= 100000
INSTALL   := internal/install.sh
DASHBOARD := web/dashboard
# Tests that `make vet` has looked at. Linking debug information takes longer than the rest of linking, so it is left out, even in binaries
# that tests build. Builds for the race detector share no cache with others: compiling SQLite with -O1 makes them ready sooner.
TEST      := GOFLAGS='$(GOFLAGS) -ldflags=-w' go test -vet=off -timeout 30m
RACED     := CGO_CFLAGS='-O1 -DHAVE_FDATASYNC' GOGC=100 $(TEST) -race -gcflags=all=-dwarf=false
MEMORY    := internal/in-memory.sh
# The targets that `make test` runs, some at a time where they are joined with a +: those that take longest come first. Everything they need is
# built and installed before them.
STAGES    := format-check tools+client-tools browser+test-race+test-processes+test-kills+test-overlap+test-mixed+client-python+test-nodes+test-sequential+test-pure+client-typescript+client-openapi+client-objects+client-rust+vet

.PHONY: $(shell sed -nE 's/^([a-z-]+):.*/\1/p' Makefile)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## build, then run the demo: a server, five companies' work and 20 consumers
	./bin/quern demo
build: prepare ## build ./bin/quern
	go build -buildvcs=$(VCS) -o bin/quern ./cmd/quern
objects: prepare ## build ./bin/quern-objects, the commands for object storage, without cgo
	cd sdk/objects && CGO_ENABLED=0 go build -buildvcs=$(VCS) -o ../../bin/quern-objects ./cmd/quern-objects
plugins: prepare ## build and test the example plugins in Rust, C and AssemblyScript
	examples/plugins/build.sh bin/plugins
	QUERN_PLUGINS=$(CURDIR)/bin/plugins go test -count 1 ./examples/plugins/...
	QUERN_PLUGINS=$(CURDIR)/bin/plugins go test -count 1 -run TestPluginBehaviour01EveryLanguage ./web
dashboard: dashboard-tools ## build the dashboard into web/dashboard/dist, which is committed
	cd $(DASHBOARD) && npm run --silent check && npm run --silent build
clean: ## remove what was built
	rm -rf bin

test: prepare ## everything that must hold; runs all stages, also after one failed
	+@internal/stages.sh $(STAGES)
format-check:
	@found=$$(gofmt -l .); [ -z "$$found" ] || { echo "not formatted (make fmt does it): $$found"; exit 1; }
vet: prepare
	go vet ./...
# internal/kind.sh says which packages and tests are tested how.
test-race: prepare
	$(MEMORY) $(RACED) -skip "$$(internal/kind.sh sequential)" $$(internal/kind.sh other)
test-sequential: prepare
	$(MEMORY) $(TEST) -run "$$(internal/kind.sh sequential)" $$(internal/kind.sh with sequential)
test-overlap: prepare
	$(INSTALL) postgresql
	$(MEMORY) $(RACED) -run "$$(internal/kind.sh overlapping)" $$(internal/kind.sh mixed)
test-mixed: prepare
	$(MEMORY) $(TEST) -skip "$$(internal/kind.sh overlapping)" $$(internal/kind.sh mixed)
test-pure: prepare
	$(MEMORY) $(TEST) $$(internal/kind.sh pure)
test-processes: prepare
	$(INSTALL) postgresql
	GOGC=100 $(MEMORY) $(TEST) -parallel 3 -skip "$$(internal/kind.sh killing)" $$(internal/kind.sh processes) # they wait for much of their time
# Of these, the tests of what a disk has after a kill or a loss.
test-kills: prepare
	$(INSTALL) postgresql
	$(TEST) -parallel 3 -run "$$(internal/kind.sh killing)" $$(internal/kind.sh with killing)
# The behaviours once more, of a cluster.
test-nodes: prepare
	$(INSTALL) postgresql
	$(TEST) -short -parallel 4 -run '^TestBehaviour|^TestPluginBehaviour|^TestScene|^TestCrew|^TestShared|^TestShards|^TestScripts$$|^TestAnyCalls$$' ./web -args -nodes 3
browser: dashboard-check build ## the dashboard in a real browser against a real server under load
	cd $(DASHBOARD) && npm run --silent test
dashboard-check: dashboard-tools
	cd $(DASHBOARD) && npm run --silent check && node build.mjs node_modules/.dist
	diff -r $(DASHBOARD)/dist $(DASHBOARD)/node_modules/.dist || { echo "the committed dashboard is not what its sources make: make dashboard"; exit 1; }

clients: client-python client-typescript client-rust client-openapi client-objects ## the clients in other languages
client-objects: export QUERN := $(CURDIR)/bin/quern
client-objects: client-tools # in a module of its own
	cd sdk/objects && go vet ./... && $(RACED) . && $(TEST) . ./cmd/...
client-tools: build # what tests of the clients start: a server, one that speaks S3, and the commands for objects
	cd sdk/objects && go build -o ../../bin/ ./internal/s3serve ./cmd/quern-objects
client-openapi: build
	$(INSTALL) node && sdk/openapi/check.sh bin/quern
client-python: client-tools
	sdk/python/check.sh bin/quern bin/clients
client-typescript: client-tools
	$(INSTALL) node npm=sdk/typescript && sdk/typescript/check.sh
client-rust: build
	$(INSTALL) rust && sdk/rust-client/check.sh bin/quern

race: prepare ## all tests under the race detector
	go test -race -timeout 60m ./...
fuzz: prepare ## every fuzz target for FUZZTIME (10s) each
	internal/fuzz.sh $(FUZZTIME)
soak: build dashboard-tools ## the long runs: SOAK=10000 kills, SEEDS=100000 simulations, and more
	internal/soak.sh $(SOAK) $(SEEDS)
mutate: prepare ## change the code in small ways, and print what no test noticed (an hour)
	go run ./internal/mutate $(MUTATE)
guarantees: prepare ## run the tests behind the promises, and write what they counted
	go run ./internal/guarantees
bench: build ## Go benchmarks, then all suites of quern-bench; on an idle machine
	$(INSTALL) postgresql
	go test -run '^$$' -bench . -benchmem ./engine/... ./sdk/... ./wasm/...
	go build -buildvcs=$(VCS) -o bin/quern-bench ./cmd/quern-bench
	for suite in $$(./bin/quern-bench --list | grep -v "^ "); do ./bin/quern-bench "$$suite"; done

fmt: ## format all Go files
	gofmt -w .
count: prepare ## lines, comments and wide lines per folder
	go test ./internal/archtest -run '^TestCounts$$' -v -count=1
# Not stringsbuilder: a text of three parts is easier to read as a sum.
lint: format-check vet ## format, vet, staticcheck, and the modernisers of go fix
	go tool -modfile=internal/tools/go.mod staticcheck ./...
	@found=$$(go fix -stringsbuilder=false -diff ./...); [ -z "$$found" ] || { echo "go fix -stringsbuilder=false ./... would change: $$found"; exit 1; }
golden: prepare ## rewrite the golden files; then read the difference before you commit it
	$(INSTALL) node && internal/golden.sh
pictures: dashboard-check build ## take the pictures in docs/img again
	$(INSTALL) optipng && $(DASHBOARD)/pictures.sh

release: prepare ## the files of a release in bin/release (VERSION=v1.2.3 ARCHES='amd64 arm64')
	deploy/release.sh $(VERSION) bin/release $(ARCHES)
release-check: release ## build the release again elsewhere, and compare the bytes
	deploy/release-check.sh $(VERSION) bin/release $(ARCHES)
container: prepare ## the folder bin/container, for docker, podman or buildah (VERSION=v1.2.3)
	deploy/release.sh $(VERSION) bin/container.release $(firstword $(ARCHES))
	deploy/container/context.sh bin/container.release/quern-$(VERSION)-linux-$(firstword $(ARCHES)) bin/container
	@echo "docker build -t quern -f bin/container/Containerfile bin/container"
container-check: container ## build the container with buildah (as root, without a daemon), and try it
	$(INSTALL) buildah && deploy/container/check.sh bin/container

prepare:
	@$(INSTALL) compiler curl
tools: prepare
	@$(INSTALL) prometheus proxies postgresql python rust node chromium npm=sdk/typescript
dashboard-tools: prepare
	@$(INSTALL) node chromium postgresql npm=$(DASHBOARD)
