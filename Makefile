# Everything people do with this repository by hand. `make help` lists it.
.DEFAULT_GOAL := help
.PHONY: help run build install uninstall release test test-all bench faults fuzz lint clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Build for development and show a turn of an agent (obey demo); needs no key
	@scripts/check-needs run
	@test -x target/debug/obey || echo "Building; the first time takes several minutes. Cargo shows how far it is:"
	cargo run --package obey -- demo

build: ## Build the release binary, target/release/obey
	cargo build --release --package obey

# Where `make install` puts things; DESTDIR stands before it. BINARY installs a program that is there instead of building.
PREFIX ?= /usr/local
DESTDIR ?=
BINARY ?=

install: $(if $(BINARY),,build) ## Install below PREFIX (/usr/local): binary, completions, manual pages, service unit
	@scripts/release/install --binary "$(or $(BINARY),target/release/obey)" --prefix "$(PREFIX)" --destdir "$(DESTDIR)"

uninstall: ## Remove what install put below PREFIX
	@scripts/release/install --uninstall --prefix "$(PREFIX)" --destdir "$(DESTDIR)"

release: ## Packages of a release in target/release-packages; TARGETS="TRIPLE …" for others
	scripts/release/release

test: ## All tests, real agents included, then format and lints; fetches what they need
	scripts/setup-tests
	scripts/run-tests
	cargo xtask web --check
	$(MAKE) --no-print-directory lint

test-all: ## All tests, the slow ones too, with agents that are large
	OBEY_TEST_ALL=1 scripts/setup-tests
	$(if $(QDRANT_URL),,@echo 'QDRANT_URL names no Qdrant server: real_qdrant_server_… is not run')
	OBEY_TEST_FULL=1 scripts/run-tests --run-ignored all $(if $(QDRANT_URL),,-E 'not test(real_qdrant_server)')
	$(MAKE) --no-print-directory lint

bench: ## Benchmarks, with the ratio to a floor of the same run; ONLY=latency, ONLY=peers, ONLY=guard
	cargo build --release --package obey --package bench
	target/release/bench $(ONLY)

# How often the daemon is killed by `make faults`; a release is tried with 1000. SEED=N repeats a run.
COUNT ?= 200

faults: ## Break things on purpose, COUNT times (200): kills, full disks, floods; prints what was measured
	scripts/setup-tests
	OBEY_FAULTS_SEEDS=4 scripts/run-tests -E 'test(/(^|::)faults::failpoints::/)'
	cargo build --release --package obey --package e2e --bin obey --bin faults
	target/release/faults --count $(COUNT) $(if $(SEED),--seed $(SEED))

# How long each target of `make fuzz` is fed, or with how many INPUTS; TARGET=paths for one of them, SEED=N repeats a run.
SECONDS_EACH ?= 120

fuzz: ## Feed odd inputs to every decoder, SECONDS_EACH (120) or INPUTS each
	cargo run --package fuzz -- $(if $(INPUTS),--inputs $(INPUTS),--seconds $(SECONDS_EACH)) $(if $(SEED),--seed $(SEED)) $(TARGET)

lint: ## Check format, lints, and the licences, bans and sources of deny.toml
	cargo fmt --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo tidy
	$(if $(shell command -v cargo-deny),cargo deny check licenses bans sources,@echo "cargo-deny is not installed; cargo tidy has checked deny.toml")

clean: ## Remove everything that was built or fetched
	cargo clean
	rm -rf .cache
