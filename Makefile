# Everything a newcomer needs: `make serve` and `make test`. Both install what is missing first.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.PHONY: compat lab-documents lab-history lab-table try-parts help setup fresh-root build release packages package-tests serve test tidy format lint site clients clients-all clients-more logins dump-users dumps debezium orms pymongo-suite server-tests soak-kill soak-collections soak-ddl standby-tests follow-soak point-in-time backup-figures soak-transactions soak-all crash-images mutants example lab bench cluster clean fuzz differential deterministic bit-rot

PORT ?= 27017
BIND_IP ?= 127.0.0.1
DBPATH ?= ./data
# More options for `make serve`, such as OPTIONS="--memory 2GB".
OPTIONS ?=
WORKLOAD ?= insert
ROUNDS ?= 20
COLLECTIONS ?= 370000

target := $(or $(CARGO_TARGET_DIR),target)
# The lab is a workspace of its own with the same folder of build output.
lab := --manifest-path lab/Cargo.toml --target-dir "$(target)"
# rustup puts cargo here without touching the running shell.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)
# Cargo would build RocksDB itself, but without showing how far it is.
natives := scripts/natives.sh

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'
	@echo "variables of serve: PORT=$(PORT) BIND_IP=$(BIND_IP) DBPATH=$(DBPATH) OPTIONS=$(OPTIONS)"

setup: ## install missing Debian packages and the Rust toolchain
	@scripts/setup.sh build

build: setup ## build the server in release
	@$(natives) && cargo build --release --locked -p quarry-server --features tikv

serve: build ## build and start the server
	@mkdir -p "$(DBPATH)"
	@exec "$(target)/release/quarry" serve --dbpath "$$(cd "$(DBPATH)" && pwd)" --port "$(PORT)" --bind_ip "$(BIND_IP)" $(OPTIONS)

release: setup ## build the server as one static file, compiled for what runs often, packed, in target/dist (45 minutes)
	@scripts/release.sh

packages: release ## build Debian, npm and PyPI packages and a container image of the release, in target/dist
	@scripts/packages.sh

package-tests: ## test the packages in target/dist: a new Debian root, Node.js, Python (root, debootstrap)
	@packaging/tests/run.sh "$(target)/dist"

test: ## run every test: tidy, client smokes, the Debian example, cargo test
	@scripts/setup.sh test
	@scripts/test.sh

tidy: ## check imports between crates and files, file heads, sizes, links
	@cargo run -q --locked -p xtask -- tidy

site: ## build the documents as a static site in target/site and check its links (mdBook)
	@scripts/site.sh

format: ## run rustfmt over every file
	@git ls-files -z '*.rs' ':!natives/rocksdb-sys/src/bindings.rs' ':!third_party' | xargs -0 rustfmt --edition 2024

lint: ## run clippy; warnings are errors
	@$(natives) && cargo clippy --workspace --all-targets --locked -- -D warnings
	@cargo clippy $(lab) --workspace --all-targets --locked -- -D warnings

clients: build ## run smoke tests of pymongo, the Node.js driver and mongosh against the release build
	@tests/clients/run.sh python node mongosh

clients-all: build ## run the same smoke tests, and those of the Go and Java drivers
	@tests/clients/run.sh python node mongosh go java

clients-more: build ## test C, PHP, Ruby, Kafka, LangChain, Celery and other clients, and write docs/clients.md (ARGS="php celery" for some)
	@tests/clients/more/run.sh $(ARGS)

debezium: build ## Debezium's engine follows a collection through SIGTERM, kill -9 and a stop of its own (Java 17, Maven)
	@tests/clients/debezium/run.sh

orms: build ## Mongoose, MikroORM, Django and Spring Data: transactions, rollback, change events (Java 17, Maven)
	@tests/clients/orm/run.sh

logins: build ## test logins of the same clients over TLS, by SCRAM and by certificate (ARGS="python go" for some of them)
	@tests/clients/logins/run.sh $(ARGS)

dump-users: build ## mongodump and mongorestore carry users and roles to another server (builds the tools by Go, once)
	@tests/clients/logins/dump.sh

dumps: build ## mongodump, mongorestore and the other database tools, alone and beside writers (ARGS="copies log programs" for some of it)
	@tests/clients/dump/run.sh $(ARGS)

pymongo-suite: build ## pymongo's own tests against the release build (ARGS=--all for more of them, --auth for those about logging in)
	@tests/clients/pymongo-suite/run.sh $(ARGS)

server-tests: build ## kill -9, SIGTERM, bad starts, a full disk, hostile frames, many collections against the release build
	@tests/server/run.sh

soak-kill: build ## kill -9 in the middle of a load, 20 rounds on one directory (ROUNDS=20)
	@tests/server/run.sh kill "$(ROUNDS)"

soak-collections: build ## 370,000 collections with an index each (COLLECTIONS=370000)
	@tests/server/run.sh collections "$(COLLECTIONS)"

fresh-root: ## both commands in a new Debian root with nothing in it (needs root and debootstrap; WITH="libclang-cpp14" ONLY=serve)
	@scripts/fresh-root.sh $(if $(WITH),--with "$(WITH)") $(if $(ONLY),--only "$(ONLY)") $(if $(LOG),--log "$(LOG)")

soak-ddl: build ## DDL beside reads and writes, kill -9, late and failing flushes, 20 minutes on one directory (MINUTES=20)
	@cargo build --release --locked -p quarry-server --example idents
	@QUARRY_IDENTS="$(target)/release/examples/idents" tests/server/run.sh soak-ddl "$$(( $(or $(MINUTES),20) * 60 ))"

soak-all: build ## everything at once on one directory, kill -9, late and failing flushes (MINUTES=120, QUARRY_SEED=1, QUARRY_ENGINE=lmdb)
	@tests/server/run.sh all "$$(( $(or $(MINUTES),120) * 60 ))"

standby-tests: build ## a standby follows under load: lag, promotions after kill -9 (PROMOTIONS=50, WRITERS=4, RATE=0)
	@tests/server/run.sh standby "$(or $(PROMOTIONS),50)" "$(or $(WRITERS),4)" "$(or $(RATE),0)"

backup-figures: build ## measure the cost of backups under a steady load, and the speed of restores (MB=1000, RATE=400)
	@tests/server/run.sh backup "$(or $(MB),1000)" "$(or $(RATE),400)"

point-in-time: setup ## restore moments of a server under writers and compare them with a model (POINTS=100, SEED=1)
	@QUARRY_POINTS="$(or $(POINTS),100)" QUARRY_SEED="$(or $(SEED),1)" cargo test --locked -p quarry-server --test it point_in_time -- --nocapture

follow-soak: build ## migrate a source under writes, renames and kills, by change streams and by the log (MB=200, RATE=300, KILLS=10, COPY_RATE=20M)
	@tests/server/run.sh follow "$(or $(MB),200)" "$(or $(RATE),300)" "$(or $(KILLS),10)" $(COPY_RATE)
	@tests/server/run.sh follow "$(or $(MB),200)" "$(or $(RATE),300)" "$(or $(KILLS),10)" log $(COPY_RATE)

soak-transactions: build ## concurrent transactions, kill -9 every 30 s, a check of isolation and of a change stream (MINUTES=10)
	@tests/server/run.sh transactions "$$(( $(or $(MINUTES),10) * 60 ))" 30

crash-images: setup ## cut a recorded workload at every place, drop the writes that no sync covered, and open the rest (IMAGES=1000000, SEED=1)
	@QUARRY_IMAGES="$(or $(IMAGES),1000000)" QUARRY_SEED="$(or $(SEED),1)" cargo test --locked -p quarry-proof --test crash -- --nocapture --test-threads 1

fuzz: setup ## fuzz every parser and decoder with mutated corpora, MINUTES minutes each (MINUTES=60, SEED=1, TARGETS="messages bson")
	@QUARRY_FUZZ_SECONDS="$$(( $(or $(MINUTES),60) * 60 ))" QUARRY_SEED="$(or $(SEED),1)" cargo test --locked -p quarry-proof --test fuzz -- --nocapture $(TARGETS)

differential: setup ## run the same random commands on every engine, with and without indexes and rewriting (ROUNDS=20000, SEED=1)
	@QUARRY_ROUNDS="$(or $(ROUNDS),20000)" QUARRY_SEED="$(or $(SEED),1)" cargo test --locked -p quarry-proof --test differential -- --nocapture

bit-rot: setup ## flip one bit in any file of a data directory: it must be reported or change nothing (BITS=100000, SEED=1)
	@QUARRY_ROT="$(or $(BITS),100000)" QUARRY_SEED="$(or $(SEED),1)" cargo test --locked -p quarry-proof --test rot -- --nocapture

deterministic: setup ## run a whole server under a scheduler by seed and check its histories (SEEDS=100000, SEED=1)
	@QUARRY_SCHEDULES="$(or $(SEEDS),100000)" QUARRY_SEED="$(or $(SEED),1)" cargo test --locked -p quarry-proof --test deterministic -- --nocapture

mutants: setup ## apply each deliberate defect of crates/proof/mutants, and print which test catches it and how soon (NAMES=...)
	@scripts/mutants.sh $(NAMES)

cluster: build ## run PD, three stores and three servers on loopback (builds PD and a store for tests by Go, once)
	@scripts/cluster.sh build && PORT="$(PORT)" scripts/cluster.sh serve "$(target)/release/quarry"

example: build ## load this machine's Debian package index and check every answer
	@examples/debian-packages/run.sh

lab: setup ## build the laboratory in release with the drivers of every engine, target/release/quarry-lab
	@$(natives) && cargo build $(lab) --release --locked -p quarry-lab --features drivers

lab-documents: build lab ## run every command of the lab's documents as written (root; release builds of server and lab with all drivers)
	@tests/lab/documents.sh

try-parts: ## add a toy operator, stage, command, worker, consumer and engine: one file and one line each
	@$(natives) && tests/parts/try.sh

lab-history: ## draw the project's own history in target/history: rate and CPU by build, and regressions (RESULTS=DIR adds runs)
	@cargo build $(lab) --release --locked -p quarry-lab
	@"$(target)/release/quarry-lab" history "$(or $(RESULTS),lab/runs)" --values lab/runs/history.csv --out "$(target)/history" --fail-on-worse 5

lab-table: build ## measure the cases in which another engine was ahead, and draw them side by side in target/table (root, MariaDB; 25 minutes)
	@cargo build $(lab) --release --locked -p quarry-lab
	@lab/speed/table.py --lab "$(target)/release/quarry-lab" --quarry "$(target)/release/quarry" --out "$(target)/table"

bench: build ## run the lab briefly against the release build (WORKLOAD=insert)
	@cargo build $(lab) --release --locked -p quarry-lab
	@scripts/bench.sh "$(WORKLOAD)"

compat: ## write COMPAT.md from the registries
	@table=$$(mktemp) && cargo run -q --locked -p quarry-commands --example compat > $$table && cp $$table COMPAT.md && rm $$table

clean: ## remove build output (the cache of natives and clients stays)
	@cargo clean
