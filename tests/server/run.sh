#!/usr/bin/env bash
# Runs tests of the real server binary as a child process. Usage: run.sh [NAME [ARGUMENT]...]; without a name, the ordinary ones.
# Names: kill, power, term, stream, start, journal, disk, hostile, queries, large, collections, waiting, transactions, soak-ddl, all, engines, tikv, equals, several, deaths, upgrade, reads, outage, standby, backup, bucket, strangers, private, follow. QUARRY_BIN names the binary (default: the release build).
# QUARRY_SEED repeats a run's random choices. QUARRY_IDENTS names the server's example `idents`, with which soak-ddl looks for leaked keys.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$root/tests/clients/lib.sh"

export QUARRY_BIN=${QUARRY_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry}
[ -x "$QUARRY_BIN" ] || fail "no server at $QUARRY_BIN; run make build or set QUARRY_BIN"
python_with_pymongo
export PYTHONDONTWRITEBYTECODE=1

# Every other engine that is present: kill -9, loss of power, SIGTERM, change streams, bad starts, transactions, DDL.
engines() {
  local engine seconds=${1:-20}
  for engine in lmdb wiredTiger; do
    if ! "$PYTHON" "$here/has_engine.py" "$engine"; then
      echo "server: engine $engine is skipped"
      continue
    fi
    export QUARRY_ENGINE=$engine
    "$PYTHON" "$here/crash.py" kill 3
    "$PYTHON" "$here/crash.py" power 3
    "$PYTHON" "$here/crash.py" term 2
    "$PYTHON" "$here/stream.py" 3
    "$PYTHON" "$here/bad_start.py"
    "$PYTHON" "$here/soak_transactions.py" "$seconds" 10
    "$PYTHON" "$here/soak_ddl.py" "$seconds"
    unset QUARRY_ENGINE
    echo "server: engine $engine passed"
  done
}

run() {
  local name=$1
  shift
  case $name in
    kill) "$PYTHON" "$here/crash.py" kill "${1:-3}" ;;
    power) "$PYTHON" "$here/crash.py" power "${1:-3}" ;;
    term) "$PYTHON" "$here/crash.py" term "${1:-2}" ;;
    stream) "$PYTHON" "$here/stream.py" "${1:-3}" ;;
    start) "$PYTHON" "$here/bad_start.py" ;;
    journal) "$PYTHON" "$here/journal.py" "$@" ;;
    disk) "$PYTHON" "$here/full_disk.py" ;;
    hostile) "$PYTHON" "$here/hostile.py" "${1:-10000}" ;;
    queries) "$PYTHON" "$here/hostile_queries.py" "$@" ;;
    large) "$PYTHON" "$here/large_documents.py" "$@" ;;
    collections) "$PYTHON" "$here/many_collections.py" "${1:-20000}" ;;
    waiting) "$PYTHON" "$here/waiting.py" "${1:-1000}" ;;
    transactions)
      "$PYTHON" "$here/isolation_test.py" -q
      "$PYTHON" "$here/soak_transactions.py" "${1:-20}" "${2:-10}"
      ;;
    soak-ddl) "$PYTHON" "$here/soak_ddl.py" "${1:-20}" ;;
    all) "$PYTHON" "$here/soak_all.py" "${1:-60}" "${@:2}" ;;
    engines) engines "$@" ;;
    tikv) "$PYTHON" "$here/tikv.py" "$@" ;;
    equals) "$PYTHON" "$here/equals.py" "$@" ;;
    several) "$PYTHON" "$here/several.py" "$@" ;;
    deaths) "$PYTHON" "$here/deaths.py" "$@" ;;
    upgrade) "$PYTHON" "$here/upgrade.py" "$@" ;;
    reads) "$PYTHON" "$here/reads.py" "$@" ;;
    outage) "$PYTHON" "$here/outage.py" "$@" ;;
    backup) "$PYTHON" "$here/backup.py" "$@" ;;
    bucket) "$PYTHON" "$here/bucket.py" "$@" ;;
    standby) "$PYTHON" "$here/standby.py" "${1:-3}" "${2:-4}" "${3:-0}" ;;
    follow) "$PYTHON" "$here/follow_soak.py" "$@" ;;
    strangers) "$PYTHON" "$here/strangers.py" "$@" ;;
    private) "$PYTHON" "$here/private.py" "$@" ;;
    *) fail "no test named '$name'; there are: kill power term stream start journal disk hostile queries large collections waiting transactions soak-ddl all engines tikv equals several deaths reads outage standby backup bucket strangers private follow" ;;
  esac
}

if [ $# -gt 0 ]; then
  run "$@"
  exit
fi
for name in kill power term stream start journal disk hostile queries large collections waiting transactions soak-ddl engines tikv equals reads outage standby bucket strangers private; do
  began=$SECONDS
  # In a separate process: under `||` bash would continue after a failing command.
  bash "$here/run.sh" "$name" || fail "server test '$name' FAILED"
  echo "server: $name passed in $((SECONDS - began)) s"
done
