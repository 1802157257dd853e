# `make` or `make help` lists what can be done. Go and a C compiler are all it takes to build; `make test` installs what is missing,
# Node.js and Chromium for the dashboard's tests, Python's tools for its client's, and Prometheus for the alerts', among it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export CGO_ENABLED := 1
# SQLite calls fsync unless it is told that fdatasync can be relied on. fsync also writes the time of the last change: an I/O more for many a commit.
export CGO_CFLAGS ?= -O2 -g -DHAVE_FDATASYNC
# Everything is built in one way, so that the cache (SQLite takes a minute to compile) serves build, tests and tools alike.
export GOFLAGS := -trimpath -buildvcs=false

# The revision goes into the binary where git can tell it.
VCS      := $(if $(shell git rev-parse --quiet --verify HEAD 2>/dev/null),auto,false)
TOOL     := go tool -modfile=internal/tools/go.mod
# Their tests start processes, or run for long: without the race detector, which would only slow down what it cannot see.
HEAVY    := /cmd/|/examples/|/sdk/conformance|/engine/powerloss|/engine/repair|/engine/check
# The simulations take five times as long under the race detector: with it only those of its tests run in which calls overlap, and all without.
SIMULATED := engine/simtest
OVERLAP   := Crowd|Concurrent|Overlap|Reload|Wait|Live|Close|Woken
# Pure code: no goroutine, channel or lock in it, which internal/archtest checks. The race detector sees nothing there, and makes these
# tests, which compute, take five times as long. `make race` has them under it too.
PURE     := engine/shard/audit engine/shard/schedules engine/backlog engine/fair engine/fair/gps engine/journal engine/queue engine/reserver engine/shard/rules engine/schedule engine/strategy plugins/score sdk/abi sdk/api wasm/instrument wasm/manifest wasm/scan wasm/scan/decode internal/archtest
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
ARCHES   ?= amd64 arm64
FUZZTIME ?= 10s
SOAK     ?= 10000
SEEDS    ?= 100000

DASHBOARD := web/dashboard
TYPESCRIPT := sdk/typescript

.PHONY: help test-race test-overlap test-pure test-processes guarantees container container-check proxies release release-check mutate run build objects plugins dashboard dashboard-check browser browser-tools clients client-python client-typescript client-openapi client-objects client-tools node-tools pictures picture-tools test race fuzz bench soak fmt lint golden clean prepare monitors format-check vet

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## build, then run the demo: a server, five companies' work and 20 consumers, until ctrl-c
	./bin/quern demo

build: prepare ## build ./bin/quern
	go build -buildvcs=$(VCS) -o bin/quern ./cmd/quern

objects: prepare ## build ./bin/quern-objects, the commands for chunks in object storage, without cgo
	cd sdk/objects && CGO_ENABLED=0 go build -buildvcs=$(VCS) -o ../../bin/quern-objects ./cmd/quern-objects

plugins: prepare ## build the example plugins in Rust, C and AssemblyScript into bin/plugins (installs their toolchains), and test them
	examples/plugins/build.sh bin/plugins
	QUERN_PLUGINS=$(CURDIR)/bin/plugins go test -count 1 ./examples/plugins/...
	QUERN_PLUGINS=$(CURDIR)/bin/plugins go test -count 1 -run TestPluginBehaviour01EveryLanguage ./web

dashboard: browser-tools ## build the dashboard into web/dashboard/dist, which is committed
	cd $(DASHBOARD) && npm run --silent check && npm run --silent build

dashboard-check: browser-tools
	cd $(DASHBOARD) && npm run --silent check && node build.mjs node_modules/.dist
	diff -r $(DASHBOARD)/dist $(DASHBOARD)/node_modules/.dist || { echo "the committed dashboard is not what its sources make: make dashboard"; exit 1; }

browser: dashboard-check build ## the dashboard in a real browser against a real server under load
	cd $(DASHBOARD) && npm run --silent test

clients: client-python client-typescript client-openapi client-objects ## build the clients in other languages, and test them against real servers and with the conformance suite

client-objects: prepare # in a module of its own
	cd sdk/objects && go vet ./... && go test -race -timeout 30m . && go test -timeout 30m ./cmd/...

client-tools: prepare # what tests of the clients start: a server that speaks S3, and the commands for objects
	cd sdk/objects && go build -o ../../bin/s3serve ./internal/s3serve && go build -o ../../bin/quern-objects ./cmd/quern-objects

client-openapi: node-tools build
	sdk/openapi/check.sh bin/quern

client-python: build client-tools
	sdk/python/check.sh bin/quern bin/clients

client-typescript: node-tools build client-tools
	cd $(TYPESCRIPT) && { [ node_modules/.package-lock.json -nt package-lock.json ] || { npm ci --silent && touch node_modules/.package-lock.json; }; }
	cd $(TYPESCRIPT) && npm run --silent build && npm run --silent test
	go build -o bin/conformance ./sdk/conformance
	@echo "in Node.js with its connections, and in Deno with fetch, as browsers have it:"
	bin/conformance node $(TYPESCRIPT)/test/conformant.mjs & node=$$!; bin/conformance $(TYPESCRIPT)/node_modules/.bin/deno run -A $(TYPESCRIPT)/test/conformant.mjs; wait $$node

pictures: dashboard-check build picture-tools ## retake the pictures of the dashboard in docs/img, from a server under load
	dir=$$(mktemp -d) && (cd $(DASHBOARD) && SHOTS=$$dir node --test --test-name-pattern '1440 px' test/dashboard.test.mjs) && \
	for picture in overview-light overview-dark keys-dark submission-light chunk-light strategies-dark fairness-dark plugin-light dead-letters-light rules-dark operations-dark; do cp $$dir/$$picture-1440.png docs/img/$$picture.png; done; rm -rf $$dir
	optipng -quiet docs/img/*.png

picture-tools:
	@command -v optipng >/dev/null || { echo "installing OptiPNG (it makes the pictures smaller, and leaves every point as it is)"; apt-get update -qq && apt-get install -y -qq optipng; }

# Each stage is a target, so that one that failed can be run again alone. monitors and proxies only install; the processes are tested with them.
STAGES := format-check vet monitors proxies test-race test-overlap test-pure test-processes browser client-python client-typescript client-openapi client-objects

test: prepare ## everything that must hold: format, vet, and all tests (some minutes on two cores); runs all stages, also after a failure
	+@internal/stages.sh $(STAGES)

test-race: prepare
	go test -race -timeout 30m $$(go list ./... | grep -Ev '$(HEAVY)' | grep -vxF "$$(go list $(addprefix ./,$(PURE) $(SIMULATED)))")

test-overlap: prepare
	go test -race -timeout 30m -run '$(OVERLAP)' $(addprefix ./,$(SIMULATED))

test-pure: prepare
	go test -timeout 30m $(addprefix ./,$(PURE) $(SIMULATED))

test-processes: prepare
	go test -timeout 30m $$(go list ./... | grep -E '$(HEAVY)')

race: prepare ## all tests under the race detector, the heavy and the pure ones too
	go test -race -timeout 60m ./...

fuzz: prepare ## every fuzz target for FUZZTIME (10s) each
	@grep -rn --include='*_test.go' -o '^func Fuzz[A-Za-z0-9_]*' cmd engine plugins sdk wasm web | sort | while IFS=: read -r file _ name; do \
		echo "== $${name#func } in $${file%/*}"; \
		go test -run '^$$' -fuzz "^$${name#func }$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x "./$${file%/*}"; \
	done

bench: build ## Go benchmarks, then all suites of quern-bench; run it on an idle machine
	go test -run '^$$' -bench . -benchmem ./engine/... ./sdk/... ./wasm/...
	go build -buildvcs=$(VCS) -o bin/quern-bench ./cmd/quern-bench
	for suite in $$(./bin/quern-bench --list | grep -v "^ "); do ./bin/quern-bench "$$suite"; done

soak: build browser-tools ## all kill -9 loops for long, those of the audit log, of the restart grace, of forwarding and of schedules too: SOAK=10000 rounds; Fair against its ideal, 10,000 instances per bound; 100,000 new seeds of the simulation without and with faults and of overlapping calls (SEEDS), a failing one with the line that replays it; the orders of Random; 100,000 failures of power; a million idempotency keys; the times of guessed tokens; the dashboard on a slow machine, and left open for an hour
	go test -timeout 1h -count 1 -v -run TestBound ./engine/fair -args -fair.instances=10000
	QUERN_SIM_SEEDS=$(SEEDS) go test -timeout 48h -count 1 -run 'TestSimulation$$|TestFaults$$|TestOverlaps$$|TestRandomIsUniform' ./engine/simtest
	QUERN_KEYS=1060000 go test -timeout 2h -count 1 -v -run 'TestKeysAreNotForgotten$$' ./engine/simtest
	QUERN_POWER_STATES=100000 QUERN_DISK_FAULTS=5000 go test -timeout 24h -count 1 -v ./engine/powerloss
	QUERN_RESTORE_ROUNDS=100 go test -timeout 12h -count 1 -v -run "TestBackupUnderLoad|TestCopyOfALiveDirectory" ./engine
	QUERN_KEEP_ROUNDS=200 go test -timeout 12h -count 1 -v -run "KillNineOf(Check|Restore|Increment)" ./cmd/quern
	QUERN_ANSWERS=yes go test -timeout 1h -count 1 -v -run TestMemoryOfAnswersThatNoOneReads ./cmd/quern
	QUERN_NEW_SEEDS=yes go test -count 1 -v -run 'Order|Random' ./engine/backlog
	QUERN_GUESSES=20000 go test -count 1 -v -run TestGuessesTakeTheSameTime ./engine/access
	QUERN_CRASH_ROUNDS=$(SOAK) QUERN_GRACE_ROUNDS=$(SOAK) go test -timeout 72h -count 1 -v -run 'KillNine' ./cmd/quern
	cd $(DASHBOARD) && HOSTILE=400 npm run --silent test && npm run --silent soak

mutate: prepare ## change the code in 217 small ways, and see that tests notice (an hour or more; MUTATE='-run REGEXP -short' for less); prints those that nothing noticed
	go run ./internal/mutate $(MUTATE)

guarantees: prepare ## run the tests behind the promises of docs/GUARANTEES.md and SECURITY.md, and write there what they counted
	go run ./internal/guarantees

fmt: ## format all Go files
	gofmt -w .

# Not stringsbuilder: a text of three parts is easier to read as a sum.
lint: format-check vet ## format, vet, staticcheck, and the modernisers of go fix
	$(TOOL) staticcheck ./...
	@found=$$(go fix -stringsbuilder=false -diff ./...); [ -z "$$found" ] || { echo "go fix -stringsbuilder=false ./... would change: $$found"; exit 1; }

golden: node-tools ## rewrite the golden files; then read the difference before you commit it
	@grep -rEo --include='*_test.go' 'flag.Bool\("(rewrite|update)"' . | sed -E 's|/[^/]*:.*"(.*)"| \1|' | sort -u | while read -r folder flag; do \
		go test -count 1 -short "$$folder" "-$$flag"; \
	done
	go run ./cmd/quern man --markdown >docs/CLI.md.new && mv docs/CLI.md.new docs/CLI.md
	node $(TYPESCRIPT)/generate.mjs web/testdata/openapi.json $(TYPESCRIPT)/src/generated
	python3 sdk/python/generate.py

release: prepare ## the files of a release in bin/release: static binaries for linux on amd64 and arm64, their SBOMs, manual pages, sums (VERSION=v1.2.3 ARCHES='amd64 arm64')
	deploy/release.sh $(VERSION) bin/release $(ARCHES)

release-check: release ## build the release again, from a copy elsewhere and with an empty cache, and compare
	copy=$$(mktemp -d) && trap 'chmod -R u+w "$$copy" && rm -rf "$$copy"' EXIT && mkdir "$$copy/tree" && \
	git ls-files -z --cached --others --exclude-standard | tar --null -T - -c .git | tar -x -C "$$copy/tree" && \
	GOCACHE=$$copy/cache "$$copy/tree/deploy/release.sh" $(VERSION) "$$copy/again" $(ARCHES) && \
	diff bin/release/SHA256SUMS "$$copy/again/SHA256SUMS" && echo "both builds have the same bytes"

clean: ## remove what was built
	rm -rf bin

prepare:
	@command -v go >/dev/null || { echo "Go 1.26 or later is needed: https://go.dev/doc/install"; exit 1; }
	@command -v gcc >/dev/null || { echo "installing a C compiler (SQLite is C)"; apt-get update -qq && apt-get install -y -qq gcc libc6-dev; }
	@command -v curl >/dev/null || { echo "installing curl (the README's commands are tests)"; apt-get update -qq && apt-get install -y -qq curl; }

monitors: prepare
	@command -v promtool >/dev/null || { echo "installing Prometheus (the alerts and boards are tested in it)"; apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus; }

# Only unpacked: installed, they would serve on this machine.
proxies: prepare
	@[ -x bin/proxies/usr/bin/caddy ] || { echo "fetching nginx and Caddy (the examples for proxies are tested in them)"; \
		dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && apt-get update -qq && (cd "$$dir" && apt-get download -qq nginx caddy) && \
		mkdir -p bin/proxies && \
		for package in "$$dir"/*.deb; do dpkg-deb -x "$$package" bin/proxies; done; }

node-tools: prepare
	@command -v npm >/dev/null || { echo "installing Node.js (the dashboard and the TypeScript client are built and tested with it)"; apt-get update -qq && apt-get install -y -qq nodejs npm; }

browser-tools: node-tools
	@command -v chromium-headless-shell chromium >/dev/null || { echo "installing Chromium (the dashboard is tested in it)"; apt-get update -qq && apt-get install -y -qq chromium-headless-shell; }
	@cd $(DASHBOARD) && { [ node_modules/.package-lock.json -nt package-lock.json ] || { npm ci --silent && touch node_modules/.package-lock.json; }; }

format-check:
	@found=$$(gofmt -l .); [ -z "$$found" ] || { echo "not formatted (make fmt does it): $$found"; exit 1; }

vet: prepare
	go vet ./...

container: prepare ## the folder bin/container, from which docker, podman or buildah build the container, with the static binary in it (VERSION=v1.2.3 ARCHES=amd64)
	deploy/release.sh $(VERSION) bin/container.release $(firstword $(ARCHES))
	deploy/container/context.sh bin/container.release/quern-$(VERSION)-linux-$(firstword $(ARCHES)) bin/container
	@echo "docker build -t quern -f bin/container/Containerfile bin/container"

container-check: container ## build the container with buildah (as root, without a daemon), and try it
	@command -v buildah >/dev/null || { echo "installing buildah (the container is tried with it)"; apt-get update -qq && apt-get install -y -qq buildah; }
	deploy/container/check.sh bin/container
