# Millrace. `make` alone lists what there is.
SHELL := /bin/bash
.DEFAULT_GOAL := help
GO ?= go
# The soak's length, for each random and crash test.
SOAK ?= 30m
PKG ?= ./...
BENCHTIME ?= 1s

.PHONY: help build demo test test-peers soak check fmt vet lint arrows docs vuln bench clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/millrace, one static binary
	CGO_ENABLED=0 $(GO) build -o bin/millrace ./cmd/millrace

demo: build ## the main job on real input, checked; KEEP=1 leaves the node running
	bin/millrace demo $(if $(KEEP),--keep)

test: ## every test, with a summary of what ran against what; installs what it needs when root
	scripts/test

test-peers: ## tests against servers that `make test` does not install: OpenSearch, from Maven
	scripts/test-peers

soak: ## the same tests, with each random and crash test SOAK (30m) long
	MILLRACE_SOAK=$(SOAK) MILLRACE_KILLS=500 scripts/test

check: fmt vet lint arrows docs vuln ## format, vet, lint, arrows, generated pages, known vulnerabilities

fmt:
	@unformatted=$$(git ls-files -z '*.go' | xargs -0 gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "run gofmt -w on:" $$unformatted; exit 1; fi

vet:
	CGO_ENABLED=0 $(GO) vet ./...

lint:
	CGO_ENABLED=0 $(GO) tool -modfile=tools/go.mod golangci-lint run ./...

arrows:
	CGO_ENABLED=0 $(GO) test -count=1 -run '^Test(Arrows|Shape|Invariants|Pages|Decisions)' ./cmd/millrace

docs:
	CGO_ENABLED=0 $(GO) test -count=1 -run 'Docs' ./transforms ./connectors/builtin

vuln:
	scripts/vuln

bench: ## benchmarks of PKG (all), BENCHTIME (1s) each
	CGO_ENABLED=0 $(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) $(PKG)

clean: ## take bin/ away
	rm -rf bin
