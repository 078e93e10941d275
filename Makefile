# rankmap. `make help` lists the targets.
GO        ?= go
FUZZTIME  ?= 30s
DATA      ?= ../shared/measured
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.7.0

.PHONY: help build test race fmt vet staticcheck fuzz bench golden examples builds qualify profiles accuracy placements cover pictures

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/rankmap (with NVML where cgo is available)
	$(GO) build -o bin/rankmap ./cmd/rankmap

test: ## run every test
	$(GO) test ./...

race: ## run the tests under the race detector, long searches shortened
	$(GO) test -race -short ./...

fmt: ## fail when a file is not formatted
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "not formatted:"; echo "$$out"; exit 1; fi

vet: ## go vet
	$(GO) vet ./...

staticcheck: ## staticcheck, pinned
	$(GO) run $(STATICCHECK) ./...

fuzz: ## run every fuzz target for FUZZTIME each
	@GO="$(GO)" sh scripts/fuzz.sh $(FUZZTIME)

bench: ## benchmarks against the budgets of ARCHITECTURE.md
	$(GO) test -run '^$$' -bench . -benchmem ./...

golden: ## rewrite the golden files; read the diff before you commit it
	$(GO) test ./cmd/rankmap ./planner/... ./layout/... ./report/... -update

examples: ## run every example and compare with its expected output
	$(GO) test -count=1 -run TestExamples ./cmd/rankmap

builds: ## build with and without cgo
	CGO_ENABLED=0 $(GO) build -o bin/rankmap-nocgo ./cmd/rankmap
	CGO_ENABLED=1 $(GO) build -o bin/rankmap ./cmd/rankmap

qualify: fmt vet staticcheck test race examples builds ## what CI runs
	@GO="$(GO)" sh scripts/fuzz.sh 5s

profiles: ## fit configs/hardware again from DATA
	$(GO) run ./internal/tools/fitprofiles --data $(DATA)
	$(GO) run ./internal/tools/fitkernels --data $(DATA)/public

accuracy: ## confront the predictions with DATA; writes docs/accuracy.md
	$(GO) run ./internal/tools/accuracy --data $(DATA)

placements: ## confront the planner with published placements; writes docs/placements.md
	$(GO) run ./internal/tools/placements --data ../shared/placements

cover: ## coverage of each package
	$(GO) test -cover ./...

pictures: ## draw docs/images/plan.svg from the example
	$(GO) run ./internal/tools/termsvg "go run ./cmd/rankmap plan --example" < examples/llama-70b-two-hgx-h100/expected.txt > docs/images/plan.svg
