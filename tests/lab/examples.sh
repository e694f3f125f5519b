#!/usr/bin/env bash
# Runs the examples of workload files against a real server, with small sizes: acknowledged writes
# must be stored and invariants must hold (otherwise the lab exits with 4).
# Usage: examples.sh [FILE...]. QUARRY_BIN and LAB_BIN name the binaries; the default are the release builds.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/clients/lib.sh"
lab=${LAB_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry-lab}
[ -x "$lab" ] || fail "no lab at $lab; build quarry-lab or set LAB_BIN"

files=("$@")
[ $# -gt 0 ] || files=("$root"/lab/examples/*.toml)
[ ${#files[@]} -ge 1 ] || fail "no examples"
# Transactions need a member of a replica set.
start_server "$scratch/data" --memory 512M
for file in "${files[@]}"; do
  began=$SECONDS status=0
  "$lab" run "$file" --target "mongodb://$ADDRESS/?directConnection=true" --out "$scratch/results" \
    --rows 500 --seconds 1 --warmup-seconds 0 >"$scratch/lab.log" 2>&1 || status=$?
  if [ "$status" != 0 ]; then
    tail -n 20 "$scratch/lab.log" >&2
    fail "example '$file' ended with status $status"
  fi
  grep -q '^right: ' "$scratch/lab.log" ||
    fail "example '$file' checked nothing: $(tail -n 3 "$scratch/lab.log")"
  echo "lab: ${file##*/} right in $((SECONDS - began)) s"
done
# Transfers that lose money must be detected.
sed 's/"\$inc" = { balance = "@var(sum)" }/"$inc" = { balance = 1 }/' \
  "$root/lab/examples/05-trx.toml" >"$scratch/lossy.toml"
status=0
"$lab" run "$scratch/lossy.toml" --target "mongodb://$ADDRESS/?directConnection=true" \
  --out "$scratch/results" --rows 500 --seconds 1 >"$scratch/lab.log" 2>&1 || status=$?
[ "$status" = 4 ] || fail "the run with lost money ended with status $status: $(tail -n 3 "$scratch/lab.log")"
grep -q 'the sum of all balances' "$scratch/lab.log" || fail "$(tail -n 3 "$scratch/lab.log")"
# A file with a mistake must be refused with the number of the line.
sed 's/@int(1, 1000, zipf)/@integer(1, 2)/' "$root/lab/examples/01-orders.toml" >"$scratch/bad.toml"
status=0
"$lab" run "$scratch/bad.toml" --target "mongodb://$ADDRESS" --out "$scratch/results" \
  >"$scratch/lab.log" 2>&1 || status=$?
[ "$status" = 1 ] || fail "a wrong file ended with status $status"
grep -q 'bad.toml:9: .*no such generator' "$scratch/lab.log" ||
  fail "a wrong file printed: $(cat "$scratch/lab.log")"
stop_server
