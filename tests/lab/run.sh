#!/usr/bin/env bash
# Every workload's smoke preset against a real server, in steps of a second: what the lab was
# acknowledged is what the server holds (the lab exits with 4 where not).
# Usage: run.sh [WORKLOAD...]. QUARRY_BIN and LAB_BIN name the binaries, else the release builds.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/clients/lib.sh"
lab=${LAB_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry-lab}
[ -x "$lab" ] || fail "no lab at $lab; build quarry-lab or set LAB_BIN"

if [ $# -gt 0 ]; then
  names=("$@")
else
  mapfile -t names < <("$lab" list | sed -n 's/^\([a-z0-9-]*\): .*/\1/p')
fi
[ ${#names[@]} -gt 0 ] || fail "the lab lists no workload"

# try_out PLACE NAME: its smoke preset in small.
try_out() {
  local name=$2
  local began=$SECONDS status=0 seconds=(--seconds 1)
  # Loads of rows end when the rows are there: a second would cut them short on a slow machine.
  case $name in
    insert | insert-classic | insert-grow | insert-rounds | db-bench*) seconds=() ;;
  esac
  "$lab" run "$name" "${address[@]}" --out "$scratch/results" \
    --rows 5000 --warmup-seconds 0 --settle-seconds 20 "${seconds[@]}" \
    >"$scratch/lab.log" 2>&1 || status=$?
  if [ "$status" != 0 ]; then
    tail -n 20 "$scratch/lab.log" >&2
    fail "workload '$name' left $status on $1"
  fi
  grep -q '^right: ' "$scratch/lab.log" ||
    fail "workload '$name' checked nothing: $(tail -n 3 "$scratch/lab.log")"
  echo "lab: $name right on $1 in $((SECONDS - began)) s"
}

# Transactions and change streams want a member of a replica set.
set=" trx tpcc linkbench backup fan-out "
start_server "$scratch/data" --memory 512M --standalone
address=(--target "mongodb://$ADDRESS")
for name in "${names[@]}"; do
  [[ $set == *" $name "* ]] || try_out "a standalone server" "$name"
done
stop_server
start_server "$scratch/set" --memory 512M
address=(--target "mongodb://$ADDRESS/?directConnection=true")
for name in "${names[@]}"; do
  [[ $set != *" $name "* ]] || try_out "a replica set" "$name"
done
stop_server
# The same transactions on InnoDB, where it is installed.
if command -v mariadbd >/dev/null && command -v mariadb-install-db >/dev/null; then
  address=(--own innodb --own-memory-mb 256)
  for name in "${names[@]}"; do
    [[ " trx tpcc linkbench backup " != *" $name "* ]] || try_out "InnoDB" "$name"
  done
else
  echo "lab: no MariaDB here: transactions were not tried on InnoDB"
fi
