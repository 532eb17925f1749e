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

# Functions on 4 bytes instead of 32 save 1.3 MB. Creates and patches take the same processor time on 4, 8 and 32: 4.6, 4.7 and 5.0 s for 8,000
# (medians of seven runs in turn that differ by a fifth, of BenchmarkWrite in server/handlers).
rowlock_ld := -s -w -funcalign=4 -X main.version=$(VERSION) $(kubernetes_ld)

# How large the stripped binary may be for linux/amd64. It was 78.7 MB before access: authorization (RBAC, the graph of nodes), the
# authenticators of tokens, admission by webhooks and policies, and kube-controller-manager's controllers for all of that are 5.1 MB,
# and NodeRestriction with its names of drivers 0.3 MB. The plugins that are off by default, with the versions of their
# configurations, and manifests of admission are 0.4 MB, webhooks and files that authorize 0.25 MB, the controllers of quotas
# and of the status of policies, with a client for these, 0.5 MB. Backups, their encryption and restore are 0.25 MB.
# Encryption at rest, with gRPC to KMS plugins, is 1.2 MB.
# The audit, its policies and back ends are 0.29 MB. rowlock verify and taking back parts of backups are 0.12 MB.
# What was mended of these in reviews is 0.05 MB.
# The object history is 0.08 MB; its API group, and the commands that read it and take objects back, are 0.13 MB.
# rowlock migrate, and rowlock import with bbolt, are 0.4 MB; import of a server that runs, adoption of keys and rowlock export 0.13 MB.
# What came at the same time to access and to custom resources is 0.15 MB, which was measured together.
# Of these, rowlock sql and the views (tables of a query, csv, regular expressions of its own) are 0.26 MB at most.
# Metrics of who was known and what was allowed, and tokens that are bound to webhooks, are 0.05 MB.
# Custom resources in OpenAPI v2 from their stored text, and what was mended at the same time, are 0.07 MB.
# What answers while a server starts took 0.02 MB, which is a page of 32 KiB more. Strategic merge patches as text are 0.03 MB.
# Watches that go on without their handlers, and lists of OpenAPI v2 in fewer pieces of memory, are 0.05 MB.
# That functions are put into others where it matters alone (below) takes 5.6 MB off.
MOST_BYTES ?= 84700000

# Build tags, in one place for build, test and lint.
#   grpcnotrace                  as upstream's releases: without it golang.org/x/net/trace brings html/template, which keeps
#                                the linker from leaving out methods that nobody calls (20 MB)
#   nopgxregisterdefaulttypes    the store names no Go type for which pgx would have to guess Postgres' (1.4 MB)
TAGS := grpcnotrace,nopgxregisterdefaulttypes

# Packages in which functions may be put into those that call them: what is on the way of requests, and what would be larger without, as registries
# and names of attributes. What is elsewhere, or in cold, which is within these, copies, reads protobuf or CBOR, converts and validates built-in types
# (1,500 creates and patches without fast paths took 3.7 s of processor time, 4.1 with it: the same), or does nothing for a request.
hot := github.com go.opentelemetry.io golang.org/x gopkg.in/evanphx gopkg.in/inf.v0 k8s.io/apiextensions-apiserver/pkg/apiserver k8s.io/apimachinery \
	k8s.io/apiserver k8s.io/component-base k8s.io/klog k8s.io/kube-openapi k8s.io/kubernetes/pkg k8s.io/kubernetes/plugin/pkg/auth k8s.io/streaming \
	k8s.io/utils modernc.org sigs.k8s.io
cold := github.com/antlr4-go github.com/coreos github.com/fxamacker github.com/golang-migrate github.com/google/cel-go/common/stdlib \
	github.com/google/cel-go/ext github.com/google/gnostic-models github.com/labstack github.com/prometheus/common $(module)/cmd $(module)/migrations \
	$(module)/resources/files $(module)/resources/imports $(module)/server/controlplane $(module)/server/pki $(module)/sqlstore/backup \
	$(module)/sqlstore/etcd github.com/spf13 golang.org/x/text k8s.io/apiserver/pkg/apis k8s.io/apiserver/pkg/cel/library k8s.io/apiserver/plugin \
	k8s.io/kubernetes/pkg/apis k8s.io/kubernetes/pkg/controller k8s.io/kubernetes/pkg/quota k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy

# Only the program is built with these: for each package of each test Go compiles each pattern anew (but all and std). To run the tests of twenty
# packages, all of them built, took half a minute of that, and to list for the linter what they are made of two minutes.
program := -gcflags=all=-l -gcflags=std= $(hot:%=-gcflags=%/...=) $(cold:%=-gcflags=%/...=-l)

# SQLite is C that was translated to Go: it works on memory of its own, guarded by locks of its own, and its driver copies what goes in and comes out.
# Under the race detector, which checks every pointer there too, a query takes fifteen times as long, and tests on SQLite spent most of their time so.
# The driver, database/sql and all that is ours are watched as everything else is. What is not watched orders nothing in the eyes of the detector, and
# nothing of ours relies on SQLite's locks: database/sql gives a connection to one goroutine at a time.
translated := modernc.org/sqlite/lib modernc.org/libc modernc.org/memory
race       := -race $(translated:%=-gcflags=%/...=-race=false)

# The same flags for build, test and lint, and no cgo but where it is asked for: with others Go compiles everything a second
# time. Binaries are static and without the machine's paths. The version is given by -ldflags: Go need not ask git, which may
# not trust the directory.
export GOFLAGS := $(strip $(filter-out -buildvcs=% -trimpath -tags=% -gcflags=%,$(GOFLAGS)) -buildvcs=false -trimpath -tags=$(TAGS))
export CGO_ENABLED := 0
bin/rowlock lean: export GOFLAGS := $(GOFLAGS) $(program)

# `lint` makes the checks of vet, once for all of these.
go_test := go test -vet=off -timeout 80m

DATA_DIR ?= .rowlock
LISTEN   ?= 127.0.0.1:6443
FUZZTIME ?= 20
ARGS     ?=
OFF      ?= -all

# Packages in which many goroutines meet; the rest gains nothing from the race detector and takes ten times as long.
race_packages := ./sqlstore/... ./server/... ./resources ./resources/follow
# Comparisons of every document and every type with what upstream makes of them, by one goroutine: the race detector, which has
# nothing to find there, makes minutes of them. `unit` runs them without it; no other test of race_packages may have such a name. They turn fast
# paths on and off themselves: `unit-plain` leaves them out. So it is with what fuzz targets begin with, which `fuzz-briefly` runs as well;
# where one starts goroutines, as those of frames and of seats, tests of the same run under the detector.
race_leaves   := ^(TestWhatIsServedIsWhatIsBuilt|TestPreparedFilesAreFresh|TestEmbeddedDefinitionsAreUpstreams|TestV[23]IsUpstreams|TestAgreesWithUpstream|TestFastPathsAgree|TestMergeStrategicAgrees|TestPlansOfPublishedDefinitions|TestPublishedDefinitions(Applied)?AsText|TestOpenAPIOfPublishedDefinitions)$$|^Fuzz
# Walks by one goroutine, in which the detector finds nothing either. `unit-plain` makes them as well.
race_walks    := ^(TestWideDocument|TestStoredSchemasAreCovered|TestUntypedIsDescribedAsCustomResources|TestRightsOpenNothingElse|TestEveryRouteTakesItsRight)$$
# What the end-to-end tests run: built beforehand, so that their time limit is for the tests.
e2e_needs     := $(addprefix bin/,kubectl helm kube-controller-manager nfpm h2spec litestream)
race_tests    := Crash|Drain|Restart|Concurrent|Informers|Watch|Pages|Manager|Servers

.PHONY: help run build test check lean unit unit-plain vet lint test-race test-fast-paths e2e compare extensions conformance check-histories bench bench-postgres bench-custom-resources bench-definitions fuzz packages chart rules sbom vulncheck generate upgrade flags env clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  \033[1m%-14s\033[0m %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## Build and start `rowlock serve` (DATA_DIR=.rowlock LISTEN=127.0.0.1:6443 ARGS=...)
	@exec bin/rowlock serve --data-dir $(DATA_DIR) --listen $(LISTEN) $(ARGS)

build: bin/rowlock ## Build the static binary bin/rowlock

# Three at a time, first what computes: the end-to-end tests, those on one database beside those on the other, wait for most of their time, and
# for less where little else computes. `lint` makes the checks of `vet`, too. What several of them need is built first, so that nobody builds it
# twice. The output of each is shown when it is over.
test: bin/rowlock bin/rowlock-race bin/golangci-lint $(e2e_needs) ## Everything that has to pass
	@$(MAKE) --no-print-directory -j3 --output-sync=target lint test-race lean unit unit-plain e2e-sqlite e2e-postgres fuzz-briefly bench-briefly rules

check: vet lint ## What to run while one works: unit tests, the store's contract on SQLite; under 3 minutes when the cache is warm
	$(go_test) $$(go list ./... | grep -v -x -E -e '$(module)/(e2e|sqlstore|migrations)')
	$(go_test) -run '^TestSQLite$$' ./sqlstore

vet: ## go vet
	go vet ./...

lint: bin/golangci-lint ## Lint; the layers of the design are among the rules
	bin/golangci-lint run ./...

# A look-up of methods by a name that is not known when linking (text/template has one) makes the linker keep all exported
# methods of all types: 20 MB. -dumpdep shows where that is. The file is linked anew each time: otherwise nothing is shown.
# Then it is linked without: Go shows with any later build what the last link of the program has printed.
lean: ## The stripped binary has at most MOST_BYTES, and the linker may leave out methods that nobody calls
	@mkdir -p bin; rm -f bin/rowlock-lean
	@go build -ldflags '-dumpdep $(rowlock_ld)' -o bin/rowlock-lean ./cmd/rowlock 2>&1 \
	  | awk '/<ReflectMethod>/ { print; bad = 1 } !/ -> |^# / { print } END { exit bad }'
	@rm bin/rowlock-lean; go build -ldflags '$(rowlock_ld)' -o bin/rowlock-lean ./cmd/rowlock
	@size=$$(wc -c < bin/rowlock-lean); rm bin/rowlock-lean; echo "bin/rowlock: $$size bytes"; [ "$$size" -le $(MOST_BYTES) ]

unit: ## Unit tests of the packages that test-race leaves out, and the tests that it leaves out of others
	$(go_test) $$(go list ./... | grep -v -x -F -e $(module)/e2e -f <(go list $(race_packages)))
	$(go_test) -run '$(race_leaves)|$(race_walks)' $(race_packages)

test-race: ## Where goroutines meet, under the race detector: unit tests, the store's conformance suite, the crash test
	CGO_ENABLED=1 $(go_test) $(race) -skip '$(race_leaves)|$(race_walks)' $(race_packages)
	CGO_ENABLED=1 $(go_test) $(race) -count=1 -run '$(race_tests)' ./e2e

# The environment is inherited by the servers of the end-to-end tests. Tests that depend on it are not taken for done because
# they were under another one: go test notices that they read it.
unit-plain: ## Unit tests without the fast paths (OFF=-merge-patch: without one of them), of the packages that have any
	ROWLOCK_FAST_PATHS=$(OFF) $(go_test) -skip '$(race_leaves)' ./resources ./resources/admission ./resources/builtin ./resources/upstream ./server/...

test-fast-paths: ## All unit tests and the end-to-end tests without the fast paths (OFF=-merge-patch: without one of them)
	ROWLOCK_FAST_PATHS=$(OFF) $(go_test) $$(go list ./... | grep -v -x -F -e $(module)/e2e)
	ROWLOCK_FAST_PATHS=$(OFF) $(go_test) -count=1 ./e2e

e2e: bin/rowlock $(e2e_needs) ## The built binary on each database against kubectl, helm, client-go, controller-runtime and kube-controller-manager, and a quick run of the benchmark
	@$(MAKE) --no-print-directory -j2 --output-sync=target e2e-sqlite e2e-postgres
	@$(MAKE) --no-print-directory bench-briefly

# What does not depend on the database is tested beside SQLite alone. Who makes these two has built what they need.
.PHONY: e2e-sqlite e2e-postgres bench-briefly
e2e-sqlite e2e-postgres:
	E2E_DATABASE=$(@:e2e-%=%) $(go_test) -count=1 ./e2e

# That it works, not how fast.
bench-briefly:
	go run ./e2e/bench compare --servers rowlock --quick --protocol both
	go run ./e2e/bench day --day 5m --within 5s --backups

compare: ## Send the tables of e2e/testdata/sections, the published objects, what published webhooks are asked about and the table of decisions to kube-apiserver too: it must pass them, answer as Rowlock does, and record the same; and move its objects into Rowlock and back
	E2E_PEER=kube-apiserver $(go_test) -count=1 -run "TestSections|TestPublished$$|TestPublishedWebhooks|TestDecisions|TestMoves" ./e2e

extensions: ## Kubernetes' sample-apiserver and metrics-server behind APIServices, as they are published
	E2E_EXTENSIONS=1 $(go_test) -count=1 -run "TestSampleAPIServer|TestMetricsServer" ./e2e

conformance: ## Upstream's own end-to-end tests that need no nodes, kube-controller-manager on top (ARGS='-only Watchers')
	go run ./e2e/conformance $(ARGS)

check-histories: ## Let clients work while faults are injected, and verify all they were told; see docs/reliability.md (ARGS='-duration 10m -databases sqlite -faults kill,stop')
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

# Only Rowlock's own packages are instrumented: to build all the others again takes ten minutes, and what they cover does
# not lead anywhere. SIGINT ends a target well, when the coordinator alone gets it: its own limit of time may end it with an error
# (context deadline exceeded), as may a worker that is interrupted (terminated unexpectedly). A limit of RUNS interrupts nobody.
# All are built at once, as what they are built of is looked at once then: two packages with targets cannot have one last name.
fuzz: ## Run every fuzz target for FUZZTIME seconds (20); a failing input goes to testdata/fuzz
	@rm -rf bin/fuzz; mkdir -p bin/fuzz; packages=$$(grep -rl --include='*_test.go' '^func Fuzz' cmd resources server sqlstore | xargs -n1 dirname | sort -u); \
	go test -c -ldflags='-s -w' -gcflags='$(module)/...=-d=libfuzzer' -o bin/fuzz/ $$(printf './%s ' $$packages); \
	for package in $$packages; do \
	  binary=$(CURDIR)/bin/fuzz/$${package##*/}.test; \
	  (cd "$$package"; "$$binary" -test.list '^Fuzz') | while read -r target; do \
	    echo "$$package $$target"; \
	    (cd "$$package"; timeout --foreground --preserve-status --signal=INT --kill-after=60 $(FUZZTIME) "$$binary" -test.run '^$$' $(if $(RUNS),-test.fuzztime $(RUNS)x) \
	      -test.fuzz "^$$target$$" -test.fuzzcachedir "$$(go env GOCACHE)/fuzz/$(module)/$$package" </dev/null); \
	  done; \
	done

# What CI runs of it.
.PHONY: fuzz-briefly
fuzz-briefly:
	@$(MAKE) --no-print-directory fuzz FUZZTIME=5 RUNS=1000

# What of a package is the same for all machines is made by the program itself, and by its test.
stage := bin/packages
ARCHS ?= amd64 arm64 armv7
# Without a release before it, it sorts before all of them, and begins with a digit, as dpkg wants. rpm has no - in a version, and what is before a
# release, as v1.0.0-rc.1, sorts before it: ~ says so to both.
package_version := $(subst -,.,$(subst -rc,~rc,$(subst -beta,~beta,$(subst -alpha,~alpha,$(if $(filter v%,$(VERSION)),$(VERSION:v%=%),0~git$(VERSION))))))
packages: bin/nfpm ## Debian and RPM packages in bin/packages (ARCHS='amd64 arm64 armv7')
	@rm -rf $(stage); mkdir -p $(stage)/man $(stage)/completion
	go test -count=1 -run '^TestManualPages$$' ./cmd/rowlock -args -man $(CURDIR)/$(stage)/man
	for shell in bash zsh fish; do go run ./cmd/rowlock completion $$shell > $(stage)/completion/rowlock.$$shell; done
	for arch in $(ARCHS); do \
	  mkdir -p $(stage)/$$arch; ln -s ../man ../completion $(stage)/$$arch; \
	  GOOS=linux GOARCH=$${arch%v7} GOARM=7 go build $(program) -ldflags '$(rowlock_ld)' -o $(stage)/$$arch/rowlock ./cmd/rowlock; \
	  for kind in deb rpm; do \
	    VERSION='$(package_version)' ARCH=$${arch/armv7/arm7} STAGE=$(stage)/$$arch bin/nfpm package -f packaging/package.yaml -p $$kind -t $(stage); \
	  done; \
	done

# Versions of charts are semantic ones; images have the version as it is.
chart: bin/helm ## The Helm chart in bin/packages, with this version (VERSION=v1.0.0)
	@mkdir -p $(stage)
	bin/helm package packaging/chart --destination $(stage) --app-version '$(VERSION)' \
	  --version '$(if $(filter v%,$(VERSION)),$(VERSION:v%=%),0.0.0-git$(VERSION))'

rules: bin/promtool ## The alert rules, and their tests, by promtool
	bin/promtool check rules packaging/prometheus/rowlock.rules.yaml
	bin/promtool test rules packaging/prometheus/rowlock.rules.test.yaml

# What the linker has put in, by the binary's own account of it. No proxy is asked for what is not published: licenses are read of the modules
# that were built, whose checksums were compared with go.sum then. Without a database of checksums to ask, the cache would not give them out.
sbom: bin/rowlock bin/cyclonedx-gomod ## What bin/rowlock is made of, with licenses, as CycloneDX: bin/packages/rowlock.cdx.json
	@mkdir -p $(stage)
	GOPROXY=off GOSUMDB=off bin/cyclonedx-gomod bin -json -std -licenses -version '$(VERSION)' -output $(stage)/rowlock.cdx.json bin/rowlock

# Not a part of test: what it finds depends on the day. `.ci/run` asks it where the database can be reached, and says what it finds. The symbols say which functions are in the binary, and which of a module are not.
VULNDB ?= https://vuln.go.dev
vulncheck: bin/govulncheck ## Known vulnerabilities of what is in the binary, by Go's database (VULNDB=file:///a/copy); fails, and says so, where that cannot be reached
	@go build $(program) -ldflags '$(filter-out -s -w,$(rowlock_ld))' -o bin/rowlock-symbols ./cmd/rowlock
	@bin/govulncheck -db '$(VULNDB)' -mode=binary bin/rowlock-symbols || { code=$$?; [ $$code -eq 3 ] || echo 'vulncheck: nothing was checked' >&2; exit $$code; }

generate: ## Write again what is generated from upstream's sources and from flags; tests fail while any of it is stale
	@mkdir -p bin
	go run ./resources/fieldmanager/schemagen > bin/schema.txt && gzip -9nc bin/schema.txt > resources/fieldmanager/schema.txt.gz
	go run ./server/openapi/openapigen server/openapi
	go test -count=1 -run '^TestPackagedConfig$$' ./cmd/rowlock -args -write
	@grep -qx '# of kube-apiserver $(KUBERNETES)' cmd/rowlock/kubeapiserver_flags.txt || $(MAKE) --no-print-directory flags

# Where something fails when upstream has changed what Rowlock copies, sets or takes for granted of it.
upstream_tests := ./resources/upstream/... ./resources/admission ./resources/builtin ./resources/equality ./resources/fieldmanager/... \
	./resources/typedjson ./server/codec/... ./server/cork ./server/discovery ./server/openapi/... ./cmd/rowlock

upgrade: ## Take another release of Kubernetes (VERSION=v1.38.0), and show what it changes; see docs/upgrading.md
	$(if $(filter command,$(firstword $(origin VERSION))),,$(error say which one: make upgrade VERSION=v1.38.0))
	go run ./resources/upstream/upgrade $(VERSION)
	$(MAKE) --no-print-directory upgraded

# With what go.mod says now. Prepared files are written anew before the tests look at them.
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

# Go's build cache knows better than make what has changed.
.PHONY: bin/rowlock
bin/rowlock:
	go build -ldflags '$(rowlock_ld)' -o $@ ./cmd/rowlock

# For the end-to-end tests under the race detector, which has to be in the server as well.
.PHONY: bin/rowlock-race
bin/rowlock-race:
	CGO_ENABLED=1 go build $(race) -ldflags '-X main.version=$(VERSION) $(kubernetes_ld)' -o $@ ./cmd/rowlock

# The peers of the benchmark, kubectl, helm, Litestream and the linter come from modules of their own, so that their dependencies are not
# Rowlock's. Peers are built as they would be by themselves.
bin/kubectl bin/kube-apiserver bin/kube-controller-manager: e2e/peers/kubernetes/go.mod
	go build -C e2e/peers/kubernetes -ldflags '-s -w $(kubernetes_ld)' -o $(CURDIR)/$@ k8s.io/kubernetes/cmd/$(@F)

# Upstream's end-to-end tests, a program of their own.
bin/e2e.test: e2e/peers/kubernetes/go.mod
	go test -C e2e/peers/kubernetes -c -ldflags '-s -w $(kubernetes_ld)' -o $(CURDIR)/$@ k8s.io/kubernetes/test/e2e

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

# Its engine, with files for replicas: the whole has clients of all clouds.
bin/litestream: e2e/testdata/litestream/go.mod e2e/testdata/litestream/main.go
	go build -C e2e/testdata/litestream -ldflags '-s -w' -o $(CURDIR)/$@ .

bin/h2spec: e2e/peers/h2spec/go.mod
	go build -C e2e/peers/h2spec -ldflags '-s -w' -o $(CURDIR)/$@ github.com/summerwind/h2spec/cmd/h2spec

# kine has SQLite only with cgo.
bin/kine: e2e/peers/kine/go.mod
	CGO_ENABLED=1 go build -C e2e/peers/kine -ldflags '-s -w' -o $(CURDIR)/$@ github.com/k3s-io/kine

bin/nfpm: packaging/nfpm/go.mod
	go build -C packaging/nfpm -ldflags '-s -w' -o $(CURDIR)/$@ github.com/goreleaser/nfpm/v2/cmd/nfpm

bin/govulncheck: tools/vulncheck/go.mod
	go build -C tools/vulncheck -ldflags '-s -w' -o $(CURDIR)/$@ golang.org/x/vuln/cmd/govulncheck

# Without the clients of clouds that Prometheus can ask for what to scrape: they are most of it.
bin/promtool: tools/promtool/go.mod
	GOFLAGS=-trimpath go build -C tools/promtool -tags remove_all_sd -ldflags '-s -w' -o $(CURDIR)/$@ github.com/prometheus/prometheus/cmd/promtool

bin/cyclonedx-gomod: tools/sbom/go.mod
	go build -C tools/sbom -ldflags '-s -w' -o $(CURDIR)/$@ github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

bin/golangci-lint: tools/go.mod
	go build -C tools -ldflags '-s -w' -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
