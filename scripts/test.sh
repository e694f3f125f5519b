#!/usr/bin/env bash
# Every test, in the order of how soon it tells something; `make test` installs what is missing before.
# Ends with the results of cargo test, and their sum.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
export CARGO_TERM_PROGRESS_WHEN=never
# Both workspaces, the server's and the lab's, write there.
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR
scratch=$(mktemp -d)
beside=
trap '[ -z "$beside" ] || kill -- "-$beside" 2>/dev/null || true; rm -rf "$scratch"' EXIT

step() {
  local name=$1 began=$SECONDS
  shift
  echo "== $name"
  "$@" 2>&1 | tee -a "$scratch/said" || { echo "test: FAILED in step '$name' after $((SECONDS - began)) s" >&2; exit 1; }
  echo "== $name: $((SECONDS - began)) s"
}

# A step that mostly waits runs beside the next ones; `join` shows what it said, and ends the run if it failed.
start() {
  local name=$1
  shift
  set -m
  (SECONDS=0; status=0; "$@" || status=$?; echo "$SECONDS" >"$scratch/beside.seconds"; exit "$status") >"$scratch/beside.log" 2>&1 &
  beside=$!
  set +m
  echo "== $name: runs beside the next steps"
}

join() {
  local name=$1 status=0
  wait "$beside" || status=$?
  beside=
  tee -a "$scratch/said" <"$scratch/beside.log"
  [ "$status" = 0 ] || { echo "test: FAILED in step '$name'" >&2; exit 1; }
  echo "== $name: $(cat "$scratch/beside.seconds") s"
}

skip() { echo "$1: skipped, $2" | tee -a "$scratch/said"; }

# Steps run under `||`, where bash does not stop at a failing command: each chains its commands itself.
# The selection of targets is that of the step "build server and tests": any other, `--doc` among them, has cargo choose other features
# for macros and compile a third of all crates again. Doc tests are switched off in each library's manifest.
cargo_tests() {
  # What passing tests print is kept for the list of what was skipped, and not shown.
  local log=$1 shown='/^successes:$/,/^failures:$|^test result:/{/^failures:$|^test result:/!d}'
  # After the log come more arguments of cargo: which workspace.
  shift
  cargo test --locked --workspace "$@" --no-fail-fast -- --quiet --show-output 2>&1 | tee -a "$log" | sed -E "$shown"
}

# By name: rustfmt does not follow modules that are declared inside of macros.
formatted() {
  git ls-files -z '*.rs' ':!natives/rocksdb-sys/src/bindings.rs' ':!third_party' | xargs -0 rustfmt --edition 2024 --check >"$scratch/format.log" \
    || { head -n 40 "$scratch/format.log"; echo "format: run \`make format\`" >&2; return 1; }
}

# Downloads what the client smokes need, so that a registry that cannot be reached is known before anything is compiled.
client_packages() { bash -c 'set -euo pipefail; root=$PWD; . tests/clients/lib.sh; python_with_pymongo; node_modules'; }

# The binaries that other checkouts or later builds may replace are copied away first.

step "client packages" client_packages
step "live page" tests/page/run.sh
step natives scripts/natives.sh
if rustfmt --version >/dev/null 2>&1; then step format formatted; else skip format "rustfmt is not installed"; fi
step tidy cargo run -q --locked -p xtask -- tidy
# The server is part of it: building it by itself would compile most of what it uses twice, with fewer features.
step "build server and tests" cargo test --locked --workspace --no-run --quiet
cp "${CARGO_TARGET_DIR:-target}/debug/quarry" "$scratch/quarry"
lab=(--manifest-path "$root/lab/Cargo.toml")
step "build the lab and its tests" cargo test --locked --workspace "${lab[@]}" --no-run --quiet
cp "${CARGO_TARGET_DIR:-target}/debug/quarry-lab" "$scratch/quarry-lab"
if cargo clippy --version >/dev/null 2>&1; then
  step clippy cargo clippy --locked --workspace --all-targets --quiet -- -D warnings
  step "clippy of the lab" cargo clippy --locked --workspace "${lab[@]}" --all-targets --quiet -- -D warnings
else
  skip clippy "it is not installed"
fi
QUARRY_BIN=$scratch/quarry step "client smokes" tests/clients/run.sh python node mongosh
QUARRY_BIN=$scratch/quarry step "client smokes through several servers" tests/clients/run.sh --several python balanced node
QUARRY_BIN=$scratch/quarry step "files of packages" packaging/tests/files.sh
QUARRY_BIN=$scratch/quarry step "commands of the pages" tests/docs/run.sh
QUARRY_BIN=$scratch/quarry step "called as mongod" tests/clients/memory-server/run.sh
QUARRY_BIN=$scratch/quarry step "clients from another machine" tests/clients/elsewhere/run.sh python node
start "pymongo suite" env QUARRY_BIN="$scratch/quarry" tests/clients/pymongo-suite/run.sh
cp "${CARGO_TARGET_DIR:-target}/debug/examples/idents" "$scratch/idents"
QUARRY_BIN=$scratch/quarry QUARRY_IDENTS=$scratch/idents step "server tests" tests/server/run.sh
join "pymongo suite"
step "workloads of the lab" env QUARRY_BIN="$scratch/quarry" LAB_BIN="$scratch/quarry-lab" tests/lab/run.sh
step "map of the lab" env QUARRY_BIN="$scratch/quarry" LAB_BIN="$scratch/quarry-lab" tests/lab/map.sh
step "examples of the lab" env QUARRY_BIN="$scratch/quarry" LAB_BIN="$scratch/quarry-lab" tests/lab/examples.sh
step "documents of the lab" env QUARRY_BIN="$scratch/quarry" LAB_BIN="$scratch/quarry-lab" tests/lab/documents.sh --short
step "replays of the lab" env QUARRY_BIN="$scratch/quarry" LAB_BIN="$scratch/quarry-lab" tests/lab/replays.sh
QUARRY_BIN=$scratch/quarry step "Debian example" examples/debian-packages/run.sh
# With --workspace, other crates keep their features: only the store and the scheduler are compiled again.
step interleavings cargo test --locked --workspace --features quarry-store/shuttle --test interleave --quiet
step "cargo test" cargo_tests "$scratch/tests.log"
step "cargo test of the lab" cargo_tests "$scratch/tests.log" "${lab[@]}"
awk '/^test result:/ { binaries++; passed += $4; failed += $6; ignored += $8 }
  END { printf "test: %d passed, %d failed, %d ignored in %d test binaries; client smokes, server tests, workloads of the lab and Debian example passed before\n",
        passed, failed, ignored, binaries }' "$scratch/tests.log"
# Each test that cannot run here says so in a line of its own.
grep -hE '^skipped:|: skipped,|are skipped,' "$scratch/said" "$scratch/tests.log" | sort | uniq -c | sed -E 's/^ *([0-9]+) (skipped: )?/test: skipped (\1): /' || true
