# What people and CI have in common. `make` alone lists it.

TARGET := $(or $(CARGO_TARGET_DIR),target)

# How many seeds the simulation runs, or which one.
SIM_SEEDS ?= 3000
SIM_SEED ?=
# The sink that the conformance kit checks; all of them if empty.
SINK ?=
# What the benchmark measures (everything if empty), and how often.
SECTION ?=
BENCH_ROUNDS ?= 7

.DEFAULT_GOAL := help
.PHONY: help demo test test-servers conformance guide sim mutations bench build lint fmt clean

help: ## Lists what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Ships sample events from a Postgres of its own to a file, for 20 seconds
	@scripts/setup-build
	@scripts/setup-postgres
	cargo build --release --locked -p outbox-runtime --bin sinks
	@mkdir -p target/demo
	$(TARGET)/release/sinks dev --for 20s --output target/demo/events.ndjson

test: ## Runs all tests against real servers, which it installs if need be
	@scripts/setup-build
	@scripts/setup-test-servers
	@scripts/run-tests
	@$(MAKE) --no-print-directory sim mutations

test-servers: ## Installs the servers that the tests start, and lists them
	@scripts/setup-test-servers

conformance: ## Holds every sink and the examples against the contract: SINK=kafka does that one
	@scripts/setup-build
	@scripts/setup-test-servers
	@cargo test --quiet --locked -p outbox-tests --all-features --test conformance -- $(SINK)

guide: ## Follows docs/write-a-sink.md to the letter, as `make test` does among other things
	@scripts/setup-build
	@scripts/setup-test-servers
	@scripts/follow-guide


sim: ## Simulates the loop: SIM_SEEDS=10000 runs so many seeds, SIM_SEED=7 that one
	@scripts/setup-build
	@cargo run --quiet --locked -p simulation -- $(if $(SIM_SEED),--seed $(SIM_SEED),--seeds $(SIM_SEEDS))

mutations: ## Proves that the simulation finds bugs: makes lines wrong, one at a time
	@scripts/setup-build
	@cargo run --quiet --locked -p simulation --bin mutations

bench: ## Measures against the parts and against Debezium: SECTION=drain-kafka, BENCH_ROUNDS=9
	@scripts/setup-build
	@scripts/setup-test-servers
	@scripts/setup-debezium
	cargo build --release --locked -p outbox-bench -p outbox-runtime --bin floor --bin sinks
	@BENCH_ROUNDS=$(BENCH_ROUNDS) cargo run --quiet --locked -p outbox-bench --bin bench -- $(SECTION)

build: ## Builds the binary `sinks`, optimised
	@scripts/setup-build
	cargo build --release --locked -p outbox-runtime --bin sinks

lint: ## Checks format, lints, documentation and scripts
	@scripts/setup-build
	@scripts/run-lints

fmt: ## Formats the code
	cargo fmt --all

clean: ## Removes what was built; the servers for tests stay
	cargo clean
