# How Rowlock is built, tested and measured. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

module := github.com/rowlock/rowlock

# The version of Kubernetes that Rowlock speaks; it is that of k8s.io/kubernetes in go.mod.
KUBERNETES := $(shell awk '$$1 == "k8s.io/kubernetes" { print $$2 }' go.mod)
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

component_base := k8s.io/component-base/version
kubernetes_ld  := -X $(component_base).gitVersion=$(KUBERNETES) \
	-X $(component_base).gitMajor=$(word 1,$(subst ., ,$(KUBERNETES:v%=%))) \
	-X $(component_base).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES:v%=%)))

# -funcalign=4 aligns functions to 4 bytes instead of 32, which saves 1.3 MB. It does not change the cost of creates and patches: 8,000 took
# 4.6, 4.7 and 5.0 s of processor time with 4, 8 and 32 (medians of seven runs in turn of BenchmarkWrite in server/handlers; runs differ by a fifth).
rowlock_ld := -s -w -funcalign=4 -X main.version=$(VERSION) $(kubernetes_ld)

# The upper bound of the stripped binary for linux/amd64, in bytes. docs/install.md says what each feature adds to it.
MOST_BYTES ?= 84700000

# Build tags of build, test and lint.
#   grpcnotrace                  is set by upstream's releases, too: without it golang.org/x/net/trace links html/template, which
#                                prevents the linker from dropping methods that nobody calls (20 MB)
#   nopgxregisterdefaulttypes    the store passes no Go type to pgx whose Postgres type pgx would have to guess (1.4 MB)
TAGS := grpcnotrace,nopgxregisterdefaulttypes

# The compiler inlines functions in the packages of `hot` alone: those on the way of requests, and those that would be larger without inlining, such as
# registries and names of attributes. `cold` lists the exceptions below `hot`: copying, reading protobuf or CBOR, converting and validating built-in
# types, and whatever serves no request. Without inlining in `cold`, 1,500 creates and patches with the fast paths off took 4.1 s of processor time
# instead of 3.7, and the same time with the fast paths on. The binary is 5.6 MB smaller.
hot := github.com go.opentelemetry.io golang.org/x gopkg.in/evanphx gopkg.in/inf.v0 k8s.io/apiextensions-apiserver/pkg/apiserver k8s.io/apimachinery \
	k8s.io/apiserver k8s.io/component-base k8s.io/klog k8s.io/kube-openapi k8s.io/kubernetes/pkg k8s.io/kubernetes/plugin/pkg/auth k8s.io/streaming \
	k8s.io/utils modernc.org sigs.k8s.io
cold := github.com/antlr4-go github.com/coreos github.com/davecgh github.com/fsnotify github.com/fxamacker github.com/go-logr/logr/funcr \
	github.com/go-openapi github.com/golang-migrate github.com/google/cel-go/cel github.com/google/cel-go/checker github.com/google/cel-go/common/ast \
	github.com/google/cel-go/common/stdlib github.com/google/cel-go/common/types/pb github.com/google/cel-go/ext github.com/google/cel-go/parser \
	github.com/google/gnostic-models github.com/gorilla github.com/grpc-ecosystem github.com/json-iterator github.com/labstack github.com/moby \
	github.com/modern-go github.com/prometheus/common github.com/prometheus/procfs $(module)/cmd $(module)/migrations $(module)/resources/files \
	$(module)/resources/history $(module)/resources/imports $(module)/resources/upstream $(module)/resources/views $(module)/server/aggregate \
	$(module)/server/controlplane $(module)/server/discovery $(module)/server/health $(module)/server/pki $(module)/sqlstore/archive \
	$(module)/sqlstore/backup $(module)/sqlstore/etcd github.com/spf13 golang.org/x/net/html golang.org/x/net/internal golang.org/x/net/websocket \
	golang.org/x/text k8s.io/apiextensions-apiserver/pkg/apiserver/conversion k8s.io/apimachinery/pkg/util/proxy \
	k8s.io/apiserver/pkg/admission/plugin/policy k8s.io/apiserver/pkg/apis k8s.io/apiserver/pkg/cel/library k8s.io/apiserver/pkg/registry/generic \
	k8s.io/apiserver/pkg/server/options k8s.io/apiserver/pkg/storage/value k8s.io/apiserver/pkg/util/proxy k8s.io/apiserver/pkg/util/webhook \
	k8s.io/apiserver/plugin k8s.io/component-base/featuregate k8s.io/kube-openapi/pkg/aggregator k8s.io/kube-openapi/pkg/builder \
	k8s.io/kube-openapi/pkg/builder3 k8s.io/kube-openapi/pkg/schemamutation k8s.io/kube-openapi/pkg/spec3 k8s.io/kubernetes/pkg/apis \
	k8s.io/kubernetes/pkg/controller k8s.io/kubernetes/pkg/features k8s.io/kubernetes/pkg/quota k8s.io/kubernetes/pkg/printers \
	k8s.io/kubernetes/pkg/serviceaccount k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy

# These flags are for the program only. With per-package patterns, Go compiles every package again for each test binary: listing the packages of the
# linter took two minutes longer, and running the tests of twenty packages that were already built took half a minute longer.
program := -gcflags=all=-l -gcflags=std= $(hot:%=-gcflags=%/...=) $(cold:%=-gcflags=%/...=-l)

# The race detector does not watch the packages of SQLite's translated C code. They work on memory and locks of their own, and the driver copies
# everything in and out. With the detector, a query takes fifteen times as long there. The driver, database/sql and all packages of Rowlock are
# watched. The detector sees no ordering from the packages that it does not watch, and Rowlock relies on none: database/sql gives a connection to one
# goroutine at a time.
translated := modernc.org/sqlite/lib modernc.org/libc modernc.org/memory
race       := -race $(translated:%=-gcflags=%/...=-race=false)

# Build, test and lint share these flags; with different flags Go would compile every package a second time. Binaries are static (no cgo) and contain no
# paths of this machine. -ldflags sets the version, so Go does not need to ask git, which may not trust the directory.
export GOFLAGS := $(strip $(filter-out -buildvcs=% -trimpath -tags=% -gcflags=%,$(GOFLAGS)) -buildvcs=false -trimpath -tags=$(TAGS))
export CGO_ENABLED := 0
bin/rowlock lean: export GOFLAGS := $(GOFLAGS) $(program)

# Tests run without vet, because `lint` includes its checks.
go_test := go test -vet=off -timeout 80m

DATA_DIR ?= .rowlock
LISTEN   ?= 127.0.0.1:6443
FUZZTIME ?= 20
ARGS     ?=
PACKAGES ?=
OFF      ?= -all

# Packages with concurrent code. The race detector finds nothing in the others, and makes their tests take ten times as long.
race_packages := ./sqlstore/... ./server/... ./resources ./resources/follow
# Tests of one goroutine that compare every document and every type with upstream's result. The race detector finds nothing in them and would make
# minutes of them, so `unit` runs them without it; no other test of race_packages may have one of these names. They turn fast paths on and off
# themselves, so `unit-plain` leaves them out.
race_leaves   := TestWhatIsServedIsWhatIsBuilt|TestPreparedFilesAreFresh|TestEmbeddedDefinitionsAreUpstreams|TestV[23]IsUpstreams|TestAgreesWithUpstream|TestFastPathsAgree|TestMergeStrategicAgrees|TestPlansOfPublishedDefinitions|TestPublishedDefinitions(Applied)?AsText|TestOpenAPIOfPublishedDefinitions|TestWhatControllersAsk|TestConditionsAreUpstreams
# Other tests of one goroutine that are slow under the detector. `unit-plain` runs them as well.
race_walks    := TestWideDocument|TestStoredSchemasAreCovered|TestUntypedIsDescribedAsCustomResources|TestRightsOpenNothingElse|TestEveryRouteTakesItsRight
without_race  := ^($(race_leaves)|$(race_walks))$$
# `fuzz` runs the seeds of all fuzz targets with the binaries that it builds; `unit`, `unit-plain` and `test-race` do not repeat them. Targets that
# start goroutines (frames, seats) have ordinary tests of the same code, which run under the detector.
seeds         := ^Fuzz
# Packages of `unit-plain`: those whose tests send requests through fast paths. Left out are packages without fast paths, and packages whose tests turn
# their fast paths off themselves to compare the results. `test-fast-paths` runs all packages.
plain_packages := ./resources ./resources/admission ./resources/builtin ./resources/upstream ./server ./server/codec ./server/controlplane \
	./server/controlplane/controllers ./server/handlers ./server/openapi
# End-to-end tests of `e2e-plain`. Together they use every verb, watches, lists in pages, Tables, both kinds of apply, the encodings, a custom resource in
# two versions, discovery and OpenAPI, by kubectl, client-go and controller-runtime over HTTP/2, in less than a minute. `test-fast-paths` runs all.
e2e_plain     := TestKubectl(CreateAndDelete|Apply|ServerSideApply|Change|Watch|Discovery|Refusals)|TestPages|TestWatchSelector|TestConcurrentUpdates|TestEncodings|TestOpenAPI|TestCascade|TestOperator
# Programs that the end-to-end tests run. They are built beforehand, so that the time limit of the tests covers the tests alone.
e2e_needs     := $(addprefix bin/,kubectl helm kube-controller-manager nfpm h2spec litestream)
race_tests    := Crash|Drain|Restart|Concurrent|Informers|Watch|Pages|Manager|Servers

.PHONY: help run build test check lean unit unit-plain vet lint test-race test-fast-paths e2e compare extensions conformance integration check-histories bench bench-postgres bench-custom-resources bench-definitions fuzz packages chart rules sbom vulncheck generate upgrade flags env clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  \033[1m%-14s\033[0m %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## Build and start `rowlock serve` (DATA_DIR=.rowlock LISTEN=127.0.0.1:6443 ARGS=...)
	@exec bin/rowlock serve --data-dir $(DATA_DIR) --listen $(LISTEN) $(ARGS)

build: bin/rowlock ## Build the static binary bin/rowlock

# Three targets run at a time. Those that compute come first; the end-to-end tests of the two databases wait most of their time, and wait less when
# little else computes. Binaries that several targets need are built before, so that none is built twice. The output of a target appears when it ends.
test: bin/rowlock bin/rowlock-race bin/golangci-lint $(e2e_needs) ## Lint, and every test
	@$(MAKE) --no-print-directory -j3 --output-sync=target lint test-race lean unit unit-plain e2e-plain e2e-sqlite e2e-postgres fuzz-briefly bench-briefly rules

check: vet lint ## While you work: vet, lint, unit tests, the store's contract on SQLite; under 3 minutes with a warm cache
	$(go_test) $$(go list ./... | grep -v -x -E -e '$(module)/(e2e|sqlstore|migrations)')
	$(go_test) -run '^TestSQLite$$' ./sqlstore

vet: ## go vet
	go vet ./...

lint: bin/golangci-lint ## Lint; the layers of the design are among the rules
	bin/golangci-lint run ./...

# A lookup of methods by a name that the linker does not know (text/template has one) makes the linker keep all exported methods of all types: 20 MB.
# -dumpdep shows such lookups. The file is removed first, because Go shows the output only when it links. The second link, without -dumpdep, replaces the
# output that Go would otherwise repeat with every later build.
lean: ## The stripped binary has at most MOST_BYTES, and the linker may leave out methods that nobody calls
	@mkdir -p bin; rm -f bin/rowlock-lean
	@go build -ldflags '-dumpdep $(rowlock_ld)' -o bin/rowlock-lean ./cmd/rowlock 2>&1 \
	  | awk '/<ReflectMethod>/ { print; bad = 1 } !/ -> |^# / { print } END { exit bad }'
	@rm bin/rowlock-lean; go build -ldflags '$(rowlock_ld)' -o bin/rowlock-lean ./cmd/rowlock
	@size=$$(wc -c < bin/rowlock-lean); rm bin/rowlock-lean; echo "bin/rowlock: $$size bytes"; [ "$$size" -le $(MOST_BYTES) ]

unit: ## Unit tests of the packages that test-race leaves out, and the tests that it skips
	$(go_test) -skip '$(seeds)' $$(go list ./... | grep -v -x -F -e $(module)/e2e -f <(go list $(race_packages)))
	$(go_test) -run '$(without_race)' $$(go list -f '{{.Dir}}' $(race_packages) | while read -r dir; do \
	  grep -qsE '^func ($(race_leaves)|$(race_walks))\(' "$$dir"/*_test.go && echo "$$dir"; done)

test-race: ## Unit tests of concurrent code, the store's conformance suite and the crash tests, under the race detector
	CGO_ENABLED=1 $(go_test) $(race) -skip '$(without_race)|$(seeds)' $(race_packages)
	CGO_ENABLED=1 $(go_test) $(race) -count=1 -run '$(race_tests)' ./e2e

# The servers of the end-to-end tests inherit the environment. go test notices that tests read the variable, so cached results of another value are not used.
unit-plain: ## Unit tests without the fast paths (OFF=-merge-patch: without one of them), where requests go through any
	ROWLOCK_FAST_PATHS=$(OFF) $(go_test) -skip '^($(race_leaves))$$|$(seeds)' $(plain_packages)

test-fast-paths: ## All unit tests and the end-to-end tests without the fast paths (OFF=-merge-patch: without one of them)
	ROWLOCK_FAST_PATHS=$(OFF) $(go_test) $$(go list ./... | grep -v -x -F -e $(module)/e2e)
	ROWLOCK_FAST_PATHS=$(OFF) $(go_test) -count=1 ./e2e

e2e: bin/rowlock $(e2e_needs) ## The built binary on each database against kubectl, helm, client-go, controller-runtime and kube-controller-manager, and a quick run of the benchmark
	@$(MAKE) --no-print-directory -j2 --output-sync=target e2e-sqlite e2e-postgres
	@$(MAKE) --no-print-directory bench-briefly

# Tests that do not depend on the database run with SQLite alone. The targets that call these two have built e2e_needs.
.PHONY: e2e-sqlite e2e-postgres e2e-plain bench-briefly
e2e-sqlite e2e-postgres:
	E2E_DATABASE=$(@:e2e-%=%) $(go_test) -count=1 ./e2e

# The built binary without the fast paths.
e2e-plain:
	ROWLOCK_FAST_PATHS=$(OFF) E2E_DATABASE=sqlite $(go_test) -count=1 -run '^($(e2e_plain))$$' ./e2e

# Checks that the benchmark works; the figures mean nothing.
bench-briefly:
	go run ./e2e/bench compare --servers rowlock --quick --protocol both
	go run ./e2e/bench day --day 5m --within 5s --backups

compare: ## Send the tables of e2e/testdata/sections, the published objects, what published webhooks are asked about and the table of decisions to kube-apiserver too: it must pass them, answer as Rowlock does, and record the same; and move its objects into Rowlock and back
	E2E_PEER=kube-apiserver $(go_test) -count=1 -run "TestSections|TestPublished$$|TestPublishedWebhooks|TestDecisions|TestMoves" ./e2e

extensions: ## Kubernetes' sample-apiserver and metrics-server behind APIServices, as they are published
	E2E_EXTENSIONS=1 $(go_test) -count=1 -run "TestSampleAPIServer|TestMetricsServer" ./e2e

conformance: ## Upstream's own end-to-end tests of the API, kube-controller-manager on top; on Linux (ARGS='-only Watchers')
	go run ./e2e/conformance $(ARGS)

integration: ## Upstream's own integration tests, against the built binary (PACKAGES='auth apiserver/cel' ARGS='-run TestPodSecurity', or -postgres); see docs/conformance.md
	go run ./e2e/integration $(ARGS) $(PACKAGES)

check-histories: ## Let clients work while faults are injected, and verify every answer and event; see docs/reliability.md (ARGS='-duration 10m -databases sqlite -faults kill,stop')
	go run ./e2e/checker $(ARGS)

bench: ## Measure Rowlock beside kube-apiserver + etcd and + kine; writes docs/benchmarks.md (ARGS=--quick)
	go run ./e2e/bench compare --protocol both --page docs/benchmarks.md --json bin/benchmarks.json $(ARGS)

bench-postgres: ## The same with Postgres under Rowlock and under kine; writes docs/benchmarks-postgres.md (ARGS=--quick)
	go run ./e2e/bench compare --servers rowlock-postgres,kine-postgres --protocol both --page docs/benchmarks-postgres.md \
	  --json bin/benchmarks-postgres.json $(ARGS)
	go test -run '^$$' -bench EventOnAnotherServer -benchtime 5000x ./sqlstore

bench-definitions: ## Measure what 1,000 definitions of custom resources cost (ARGS='--server etcd --count 100': kube-apiserver's)
	go run ./e2e/bench definitions $(ARGS)

bench-custom-resources: ## Measure what custom resources of published definitions cost to create, patch and get, in one process
	go test -run '^$$' -bench CustomResource -benchtime 4000x ./server/handlers

# Only Rowlock's packages are instrumented: instrumenting the others takes ten minutes and guides the fuzzer nowhere. timeout sends SIGINT to the
# coordinator alone, which then ends a target without an error. The fuzzer's own limit of time can end a target with an error (context deadline exceeded),
# and so can an interrupted worker (terminated unexpectedly); RUNS, a limit of runs, interrupts nobody. All targets are built by one command, which shares
# the packages that they have in common; the last names of the packages must therefore differ.
fuzz: ## Run every fuzz target for FUZZTIME seconds (20); a failing input goes to testdata/fuzz
	@rm -rf bin/fuzz; mkdir -p bin/fuzz; packages=$$(grep -rl --include='*_test.go' '^func Fuzz' cmd resources server sqlstore | xargs -n1 dirname | sort -u); \
	go test -c -ldflags='-s -w' -gcflags='$(module)/...=-d=libfuzzer' -o bin/fuzz/ $$(printf './%s ' $$packages); \
	for package in $$packages; do \
	  binary=$(CURDIR)/bin/fuzz/$${package##*/}.test; \
	  echo "$$package, what its targets begin with"; (cd "$$package"; "$$binary" -test.run '$(seeds)' </dev/null); \
	  (cd "$$package"; "$$binary" -test.list '^Fuzz') | while read -r target; do \
	    echo "$$package $$target"; \
	    (cd "$$package"; timeout --foreground --preserve-status --signal=INT --kill-after=60 $(FUZZTIME) "$$binary" -test.run '^$$' $(if $(RUNS),-test.parallel 1 -test.fuzztime $(RUNS)x) \
	      -test.fuzz "^$$target$$" -test.fuzzcachedir "$$(go env GOCACHE)/fuzz/$(module)/$$package" </dev/null); \
	  done; \
	done

# The part of fuzz that CI runs.
.PHONY: fuzz-briefly
fuzz-briefly:
	@$(MAKE) --no-print-directory fuzz FUZZTIME=5 RUNS=1000

# Manual pages and completions are the same for all architectures; the program and its tests write them.
# BINARY_arm64=FILE packages that file instead of building the program for arm64.
stage := bin/packages
ARCHS ?= amd64 arm64 armv7
# Before the first release, the version begins with 0, so that it sorts before all releases and begins with a digit, as dpkg requires. rpm allows no - in
# a version. A pre-release such as v1.0.0-rc.1 sorts before its release, which ~ expresses for both.
package_version := $(subst -,.,$(subst -rc,~rc,$(subst -beta,~beta,$(subst -alpha,~alpha,$(if $(filter v%,$(VERSION)),$(VERSION:v%=%),0~git$(VERSION))))))
packages: bin/nfpm ## Debian and RPM packages in bin/packages (ARCHS='amd64 arm64 armv7')
	@rm -rf $(stage); mkdir -p $(stage)/man $(stage)/completion
	go test -count=1 -run '^TestManualPages$$' ./cmd/rowlock -args -man $(CURDIR)/$(stage)/man
	for shell in bash zsh fish; do go run ./cmd/rowlock completion $$shell > $(stage)/completion/rowlock.$$shell; done
	for arch in $(ARCHS); do \
	  mkdir -p $(stage)/$$arch; ln -s ../man ../completion $(stage)/$$arch; \
	  built=BINARY_$$arch; \
	  if [ -n "$${!built:-}" ]; then cp "$${!built}" $(stage)/$$arch/rowlock; \
	  else GOOS=linux GOARCH=$${arch%v7} GOARM=7 go build $(program) -ldflags '$(rowlock_ld)' -o $(stage)/$$arch/rowlock ./cmd/rowlock; fi; \
	  for kind in deb rpm; do \
	    VERSION='$(package_version)' ARCH=$${arch/armv7/arm7} STAGE=$(stage)/$$arch bin/nfpm package -f packaging/package.yaml -p $$kind -t $(stage); \
	  done; \
	done

# A chart needs a semantic version; the tag of an image is the version itself.
chart: bin/helm ## The Helm chart in bin/packages, with this version (VERSION=v1.0.0)
	@mkdir -p $(stage)
	bin/helm package packaging/chart --destination $(stage) --app-version '$(VERSION)' \
	  --version '$(if $(filter v%,$(VERSION)),$(VERSION:v%=%),0.0.0-git$(VERSION))'

rules: bin/promtool ## The alert rules, and their tests, by promtool
	bin/promtool check rules packaging/prometheus/rowlock.rules.yaml
	bin/promtool test rules packaging/prometheus/rowlock.rules.test.yaml

# The list of modules comes from the binary itself. No proxy is asked: the licenses are read from the module cache, whose checksums were compared with go.sum
# when the binary was built. Without GOSUMDB=off, the cache would not hand out the modules, because the database of checksums cannot be asked.
sbom: bin/rowlock bin/cyclonedx-gomod ## The modules of bin/rowlock and their licenses, as CycloneDX: bin/packages/rowlock.cdx.json
	@mkdir -p $(stage)
	GOPROXY=off GOSUMDB=off bin/cyclonedx-gomod bin -json -std -licenses -version '$(VERSION)' -output $(stage)/rowlock.cdx.json bin/rowlock

# `make test` leaves vulncheck out, because its result depends on the day. `.ci/run` runs it where the database can be reached. The symbols tell govulncheck
# which functions of a module the binary contains.
VULNDB ?= https://vuln.go.dev
vulncheck: bin/govulncheck ## Known vulnerabilities of the binary, by Go's database (VULNDB=file:///a/copy); fails when that cannot be reached
	@go build $(program) -ldflags '$(filter-out -s -w,$(rowlock_ld))' -o bin/rowlock-symbols ./cmd/rowlock
	@bin/govulncheck -db '$(VULNDB)' -mode=binary bin/rowlock-symbols || { code=$$?; [ $$code -eq 3 ] || echo 'vulncheck: nothing was checked' >&2; exit $$code; }

generate: ## Regenerate the files that are made from upstream's sources and from flags; tests fail while one of them is stale
	@mkdir -p bin
	go run ./resources/fieldmanager/schemagen > bin/schema.txt && gzip -9nc bin/schema.txt > resources/fieldmanager/schema.txt.gz
	go run ./server/openapi/openapigen server/openapi
	go test -count=1 -run '^TestPackagedConfig$$' ./cmd/rowlock -args -write
	@grep -qx '# of kube-apiserver $(KUBERNETES)' cmd/rowlock/kubeapiserver_flags.txt || $(MAKE) --no-print-directory flags

# Packages whose tests fail when upstream changes something that Rowlock copies, sets or assumes.
upstream_tests := ./resources/upstream/... ./resources/admission ./resources/builtin ./resources/equality ./resources/fieldmanager/... \
	./resources/requestctx ./resources/typedjson ./server/codec/... ./server/controlplane/controllers ./server/cork ./server/discovery ./server/openapi/... \
	./cmd/rowlock

upgrade: ## Take another release of Kubernetes (VERSION=v1.38.0), and show what it changes; see docs/upgrading.md
	$(if $(filter command,$(firstword $(origin VERSION))),,$(error say which one: make upgrade VERSION=v1.38.0))
	go run ./resources/upstream/upgrade $(VERSION)
	$(MAKE) --no-print-directory upgraded

# Uses the versions that go.mod has now. Generated files are written before the tests compare them.
.PHONY: upgraded
upgraded:
	$(MAKE) --no-print-directory generate
	@git --no-pager diff --stat
	@was=$$(git show HEAD:go.mod | awk '$$1 == "k8s.io/kubernetes" { print $$2 }'); now=$(KUBERNETES); \
	if [ "$${was%.*}" != "$${now%.*}" ]; then was=$${was%.*}; fi; echo; echo "Where $$was is named:"; \
	git --no-pager grep -nF "$${was#v}" -- '*.md' '*.go' '*.yaml' ':!CHANGELOG.md' ':!docs/benchmarks*' ':!docs/upgrading.md' || true
	@echo; echo 'What each failing test means is in docs/upgrading.md.'
	go test $(upstream_tests)

flags: bin/kube-apiserver ## Write down the flags of kube-apiserver, after a new version of it
	( echo '# of kube-apiserver $(KUBERNETES)'; bin/kube-apiserver --help | sed -nE 's/^ +(-v, )?--([a-z0-9-]+)( [^ ]+)?(  .*)?$$/\2\3/p' | grep -vx help \
	  | sed -E 's/^([^ ]+)$$/\1 bool/; s/^(version|vmodule) .*/\1 string/' | LC_ALL=C sort ) > cmd/rowlock/kubeapiserver_flags.txt

.PHONY: race
race:
	@echo '$(race)'

env: ## Print the environment for go commands by hand: eval "$$(make -s env)"
	@echo 'export GOFLAGS="$(GOFLAGS)" CGO_ENABLED=$(CGO_ENABLED)'

clean: ## Remove what was built
	rm -rf bin

# These targets are always made: Go's build cache knows better than make which files have changed.
.PHONY: bin/rowlock
bin/rowlock:
	go build -ldflags '$(rowlock_ld)' -o $@ ./cmd/rowlock

# The server of the end-to-end tests under the race detector has the detector, too.
.PHONY: bin/rowlock-race
bin/rowlock-race:
	CGO_ENABLED=1 go build $(race) -ldflags '-X main.version=$(VERSION) $(kubernetes_ld)' -o $@ ./cmd/rowlock

# The peers of the benchmark, kubectl, helm, Litestream and the linter have modules of their own, so that their dependencies do not become
# Rowlock's. Peers are built as their own projects build them.
bin/kubectl bin/kube-apiserver bin/kube-controller-manager: e2e/peers/kubernetes/go.mod
	go build -C e2e/peers/kubernetes -ldflags '-s -w $(kubernetes_ld)' -o $(CURDIR)/$@ k8s.io/kubernetes/cmd/$(@F)

# Upstream's end-to-end tests.
bin/e2e.test: e2e/peers/kubernetes/go.mod
	go test -C e2e/peers/kubernetes -c -ldflags '-s -w $(kubernetes_ld)' -o $(CURDIR)/$@ k8s.io/kubernetes/test/e2e

# The program of the images that most of them run in Pods.
bin/agnhost: e2e/peers/kubernetes/go.mod
	go build -C e2e/peers/kubernetes -ldflags '-s -w' -o $(CURDIR)/$@ k8s.io/kubernetes/test/images/agnhost

bin/etcd: e2e/peers/etcd/go.mod
	go build -C e2e/peers/etcd -ldflags '-s -w' -o $(CURDIR)/$@ go.etcd.io/etcd/server/v3

bin/etcdutl: e2e/peers/etcd/go.mod
	go build -C e2e/peers/etcd -ldflags '-s -w' -o $(CURDIR)/$@ go.etcd.io/etcd/etcdutl/v3

bin/sample-apiserver: e2e/peers/extensions/go.mod
	go build -C e2e/peers/extensions -ldflags '-s -w' -o $(CURDIR)/$@ k8s.io/sample-apiserver

bin/metrics-server: e2e/peers/extensions/go.mod
	go build -C e2e/peers/extensions -ldflags '-s -w' -o $(CURDIR)/$@ sigs.k8s.io/metrics-server/cmd/metrics-server

bin/helm: e2e/peers/helm/go.mod
	go build -C e2e/peers/helm -ldflags '-s -w' -o $(CURDIR)/$@ helm.sh/helm/v4/cmd/helm

# Litestream's engine with replicas in files. The whole program links the clients of all clouds.
bin/litestream: e2e/testdata/litestream/go.mod e2e/testdata/litestream/main.go
	go build -C e2e/testdata/litestream -ldflags '-s -w' -o $(CURDIR)/$@ .

bin/h2spec: e2e/peers/h2spec/go.mod
	go build -C e2e/peers/h2spec -ldflags '-s -w' -o $(CURDIR)/$@ github.com/summerwind/h2spec/cmd/h2spec

# kine supports SQLite only with cgo.
bin/kine: e2e/peers/kine/go.mod
	CGO_ENABLED=1 go build -C e2e/peers/kine -ldflags '-s -w' -o $(CURDIR)/$@ github.com/k3s-io/kine

bin/nfpm: packaging/nfpm/go.mod
	go build -C packaging/nfpm -ldflags '-s -w' -o $(CURDIR)/$@ github.com/goreleaser/nfpm/v2/cmd/nfpm

bin/govulncheck: tools/vulncheck/go.mod
	go build -C tools/vulncheck -ldflags '-s -w' -o $(CURDIR)/$@ golang.org/x/vuln/cmd/govulncheck

# The tag leaves out the clients of cloud providers (service discovery), which are most of the program.
bin/promtool: tools/promtool/go.mod
	GOFLAGS=-trimpath go build -C tools/promtool -tags remove_all_sd -ldflags '-s -w' -o $(CURDIR)/$@ github.com/prometheus/prometheus/cmd/promtool

bin/cyclonedx-gomod: tools/sbom/go.mod
	go build -C tools/sbom -ldflags '-s -w' -o $(CURDIR)/$@ github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

bin/golangci-lint: tools/go.mod
	go build -C tools -ldflags '-s -w' -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
