SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# go.work joins the published modules; the pattern work stands for all their packages. bench, tools and examples are not in it.
alone := GOWORK=off

# Variables of the targets: make run RUN_FLAGS='--rules rules.yaml', make test GOTEST_FLAGS=-v, make fuzz FUZZTIME=10m FUZZ=ParseLimit
GO_TEST      ?= go test
GOTEST_FLAGS ?=
RUN_FLAGS    ?=
BENCH_FLAGS  ?=
FUZZTIME     ?= 30s
FUZZ         ?=
CHAOSTIME    ?= 10m
SOAKTIME     ?= 1h
RELEASE_FLAGS ?=

# The build tags of a release: without gRPC's pages for tracing, the program is 15 MB smaller.
tags := grpcnotrace

# Where the system's Node is too old for the web console, tools/need installs a newer one here.
export PATH := $(CURDIR)/.cache/node/node_modules/.bin:$(PATH)

# The linter remembers findings under the absolute path that it first saw a file at, so each checkout has a memory of its own:
# one shared by two checkouts reports files of the other, and loses the exclusions that go by path.
export GOLANGCI_LINT_CACHE := $(CURDIR)/.cache/golangci-lint

GOLANGCI = $(linter)
linter = $(shell GOWORK=off go tool -modfile="$(CURDIR)/tools/go.mod" -n golangci-lint)

# -race where this platform and C compiler have it, nothing elsewhere. SQLite's core is C made into Go, and four times slower if it is
# watched, too; it is not ours to find races in.
race = $(shell go list -race std >/dev/null 2>&1 && echo -race '-gcflags=modernc.org/sqlite/lib=-race=false')

# With the race detector every program sleeps a second before it ends, in case another goroutine has not finished a report. Tests start
# hundreds of programs.
export GORACE := atexit_sleep_ms=20

# Every run of the tests: a result in the test cache says nothing about servers and timing, so it never stands for a run; and go vet has
# run already.
run := -count=1 -vet=off -timeout 20m

# How many packages are tested at once. Most of the time their tests wait for servers, so there may be more than cores.
packages = $(shell echo $$((2 * $$(nproc 2>/dev/null || echo 2))))

# Test files that check more without the race detector, or with larger numbers: they say so by the build tag !race or by importing
# internal/racing. Their tests run without it, too.
unraced = $(shell grep -rlE --include='*_test.go' --exclude-dir={bench,examples,tools} '^//go:build !race|/headgate/internal/racing"' .)

# Packages that read and write sockets by other system calls without the race detector. All of their tests run without it, too.
sockets = $(shell grep -rl --include='*.go' '/internal/nonblock"' server) server/internal/nonblock/doc.go

# The packages whose tests start no server: they neither import the helpers that do nor look for a program.
serverless = $(shell go list -f '{{.Dir}} {{.TestImports}} {{.XTestImports}}' work | grep -vE '/(redistest|pgtest)\b' | \
	while read -r dir _; do grep -qs 'exec\.LookPath' "$$dir"/*_test.go || echo "$$dir"; done)

# The published modules, which go.work names.
modules = $(shell go list -m -f '{{.Dir}}')

# The examples that are modules of their own, so that the frameworks they use never enter our go.mod.
examples = $(patsubst %/go.mod,%,$(wildcard examples/*/go.mod))

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: need-go
need-go:
	@command -v go >/dev/null || { echo "make: the go command is not on the PATH; Headgate needs Go 1.26 or later" >&2; exit 1; }

# What tests and benchmarks start besides our own programs.
.PHONY: need-servers need-proxies
need-servers:
	@tools/need redis postgres libfaketime curl nginx prometheus
need-proxies:
	@tools/need redis postgres libfaketime curl nginx prometheus wrk h2load haproxy caddy protoc chromium node groff

.PHONY: run
run: need-go ## Build and run everything: a gateway on port 8080 in front of a built-in service (RUN_FLAGS)
	@mkdir -p bin
	go build -tags $(tags) -o bin/headgate ./server/cmd/headgate
	bin/headgate serve $(RUN_FLAGS)

.PHONY: proof
proof: need-go ## Write docs/accuracy.md, and the tables and pictures of other pages (PROOF_FLAGS='[--large] [PAGE]...')
	@mkdir -p bin
	go build -o bin/headgate ./server/cmd/headgate
	tools/proof bin/headgate $(PROOF_FLAGS)

.PHONY: demo
demo: need-go ## Show in the terminal what the algorithms do
	go run ./server/cmd/headgate demo

# The packages that the console is built with, as package-lock.json has them.
server/ui/node_modules/.package-lock.json: server/ui/package-lock.json server/ui/package.json server/ui/.npmrc
	@tools/need node
	cd server/ui && npm ci --no-progress --loglevel=error
	@touch $@

.PHONY: ui ui-test
ui: server/ui/node_modules/.package-lock.json ## Build the web console into server/ui/dist, which is checked in
	cd server/ui && npm run --silent check && npm run --silent build

# What is embedded has to be what the sources build.
ui-test: server/ui/node_modules/.package-lock.json ## Check and test the web console, and that server/ui/dist is what it builds
	cd server/ui && npm run --silent check && npm run --silent test
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	(cd server/ui && npm run --silent build -- --logLevel warn --outDir "$$fresh"); \
	diff -r server/ui/dist "$$fresh" >/dev/null || { echo "test: server/ui/dist is not what server/ui/src builds; run make ui" >&2; exit 1; }

.PHONY: screenshots
screenshots: need-go ui ## Take the pictures of docs/console.md in Chromium, in about four minutes
	@tools/need chromium
	go test -count=1 -timeout 20m -run '^TestConsoleViews$$' ./server/cmd/headgate -screenshots "$(CURDIR)/docs/console"

.PHONY: docs
docs: need-go ## Write the documentation as a web site into bin/docs
	go run ./server/cmd/headgate docs --dir bin/docs

.PHONY: check
check: need-go ## Vet everything and run the tests that need no server, with short histories, in about a minute
	go vet work
	go test $(run) -short -p $(packages) $(GOTEST_FLAGS) $(serverless)

# Two steps run at once, since tests wait more than they compute.
.PHONY: test
test: need-go ## Vet and test everything, with the race detector where there is one (GOTEST_FLAGS)
	@$(MAKE) --no-print-directory -k -j 2 test-raced ui-test test-unraced test-modules

# With -trimpath, another checkout finds in the build cache what this one compiled.
test check test-raced test-unraced test-modules: export GOFLAGS += -trimpath

.PHONY: test-raced test-unraced test-modules
test-raced: need-go need-proxies server/ui/node_modules/.package-lock.json
	@[[ -n "$(race)" ]] || echo "test: no race detector here (it needs cgo and a C compiler); testing without it"
	$(GO_TEST) $(run) -p $(packages) $(race) $(GOTEST_FLAGS) work

test-unraced: need-go need-proxies
	go vet work
	@echo "go test, without the race detector, of the test files that check more then"; [[ -z "$(race)" ]] || \
		$(GO_TEST) $(run) -run "^($$(sed -nE 's/^func ((Test|Example|Fuzz)\w*)\(.*/\1/p' $(unraced) | sort -u | paste -sd'|'))$$" \
			$(GOTEST_FLAGS) $(sort $(dir $(unraced)))
	[[ -z "$(race)" ]] || $(GO_TEST) $(run) $(GOTEST_FLAGS) $(addprefix ./,$(sort $(dir $(sockets))))

# The modules that go.work does not join.
test-modules: need-go need-proxies
	printf '%s\n' bench tools/release $(examples) | xargs -P 2 -I{} sh -c 'cd {} && export $(alone) && go vet ./... && $(GO_TEST) $(run) $(GOTEST_FLAGS) ./...'

.PHONY: lint
lint: need-go ## Check words, formatting, code and import rules (the first run builds the linter)
	tools/words
	$(GOLANGCI) config verify
	$(GOLANGCI) fmt --diff || { echo "lint: not formatted; run make fmt" >&2; exit 1; }
	for module in $(modules); do (cd "$$module" && $(GOLANGCI) run ./...); done
	cd bench && $(alone) $(GOLANGCI) run ./...
	for module in $(examples); do (cd "$$module" && $(alone) $(GOLANGCI) run ./...); done

# It needs the database at vuln.go.dev, so it is not part of lint.
.PHONY: vulncheck
vulncheck: need-go ## Look for known vulnerabilities in what the published modules call (needs vuln.go.dev)
	go run golang.org/x/vuln/cmd/govulncheck@v1.1.4 work

.PHONY: fmt
fmt: need-go ## Format all Go files with gofumpt
	$(GOLANGCI) fmt

# go mod tidy does not read go.work, so it finds the modules of this repository in a proxy made of the tree.
.PHONY: tidy
tidy: need-go ## Bring go.mod and go.sum of every published module up to date
	@temp=$$(mktemp -d); trap 'chmod -R u+w "$$temp"; rm -rf "$$temp"' EXIT; go run ./internal/moduleproxy "$$temp/proxy"; \
	export $(alone) GONOSUMDB='*' GOPROXY="file://$$temp/proxy,file://$$(go env GOMODCACHE)/cache/download,$$(go env GOPROXY)" GOMODCACHE="$$temp/cache"; \
	for module in $(modules); do (cd "$$module" && go mod tidy -e && \
		{ [[ ! -e go.sum ]] || sed -i '/^github.com\/headgate\/headgate/d' go.sum; }); done

.PHONY: proto
proto: need-go ## Check the protos with buf and write their Go code (the first run builds buf)
	@tools/need protoc
	cd proto && $(alone) go tool -modfile="$(CURDIR)/tools/proto/go.mod" buf lint
	tools/generate-proto

.PHONY: bench
bench: need-go need-proxies ## Run the benchmarks against peers and write bench/RESULTS.md (BENCH_FLAGS)
	cd bench && $(alone) go run . $(BENCH_FLAGS)

.PHONY: fuzz
fuzz: need-go ## Run every fuzz target for FUZZTIME each, or those that match FUZZ
	@listed=$$(go test -list '^Fuzz.*$(FUZZ)' work) || { echo "$$listed"; exit 1; }; \
	targets=$$(awk '/^Fuzz/ { names[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, names[i]; n = 0 }' <<<"$$listed"); \
	[[ -n "$$targets" ]] || { echo "fuzz: no fuzz target matches '$(FUZZ)'" >&2; exit 1; }; \
	total=$$(wc -l <<<"$$targets"); i=0; failed=(); \
	while read -r pkg name; do \
		i=$$((i + 1)); echo "fuzz: $$i/$$total $$name in $$pkg for $(FUZZTIME)"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime "$(FUZZTIME)" -fuzzminimizetime 20x "$$pkg" </dev/null || failed+=("$$name in $$pkg"); \
	done <<<"$$targets"; \
	if (( $${#failed[@]} )); then printf 'fuzz: FAILED %s\n' "$${failed[@]}" >&2; exit 1; fi; \
	echo "fuzz: all $$total passed"

.PHONY: soak
soak: need-go need-servers ## Run the long tests one after the other; one lasts SOAKTIME and checks that nothing grows under 70 % load
	HEADGATE_SOAK=1 HEADGATE_SOAK_TIME=$(SOAKTIME) go test -count=1 -p 1 -run Soak -timeout 180m -v $(GOTEST_FLAGS) work

.PHONY: chaos
chaos: need-go need-servers ## Break a fleet of real processes at random for CHAOSTIME and check what must hold; writes bin/chaos.svg
	@mkdir -p bin
	HEADGATE_CHAOS=$(CHAOSTIME) HEADGATE_CHAOS_TIMELINE="$(CURDIR)/bin/chaos.svg" \
		go test -count=1 -timeout 120m -run '^TestChaos$$' -v $(GOTEST_FLAGS) ./server/chaos

# The version to upgrade from is the last one in CHANGELOG.md.
.PHONY: upgrade-test
upgrade-test: need-go need-servers ## Upgrade a fleet under load from the last version to this one, and back
	HEADGATE_UPGRADE_FROM=$$(awk '/^Commit [0-9a-f]+/ { sub(/\./, "", $$2); print $$2; exit }' CHANGELOG.md) \
		go test -count=1 -timeout 20m -run '^TestUpgrade$$' -v $(GOTEST_FLAGS) ./server/chaos

# The release tool is a module of its own, because it needs a packager. RELEASE_FLAGS: --version v1.2.3, --targets linux/amd64
.PHONY: release-snapshot release-test
release-snapshot: need-go ## Build archives, packages, image, formula, SBOMs and checksums into dist (RELEASE_FLAGS)
	cd tools/release && $(alone) go run . --root "$(CURDIR)" --out "$(CURDIR)/dist" $(RELEASE_FLAGS)

release-test: need-go ## Test the release tool; install, run, upgrade and remove the Debian package on a copy of this system (as root)
	cd tools/release && $(alone) go vet ./... && HEADGATE_RELEASE_TEST=1 $(alone) $(GO_TEST) -count=1 -timeout 20m $(GOTEST_FLAGS) ./...

.PHONY: debian-test
debian-test: need-go ## Install what tests need on a bare Debian 12 in a temporary directory, and test there (as root)
	tools/debian-test

.PHONY: clean
clean: ## Remove what builds, profiles and coverage leave behind
	rm -rf bin dist .cache server/ui/.unit
	find . \( -name .git -o -name node_modules -o -name testdata \) -prune -o \
		-type f \( -name '*.test' -o -name '*.prof' -o -name coverage.out -o -name coverage.html \) -exec rm -f {} +
