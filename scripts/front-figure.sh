#!/usr/bin/env bash
# The runs behind the chart of the README, and the chart: Quarry, MyRocks and InnoDB insert past their memory, three
# repeats each that take turns, on a machine that does nothing else. Usage: front-figure.sh OUT [REPEATS]
# OUT gets the sweep's folder with its page; the chart goes to docs/images/inserts-past-memory.svg.
# Needs root for the limit on memory, MariaDB with MyRocks, and about fifteen minutes a repeat. Build before:
# make build lab.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=${1:?usage: front-figure.sh OUT [REPEATS]}
repeats=${2:-3}
binaries=${CARGO_TARGET_DIR:-$root/target}/release
fail() { echo "front-figure: $*" >&2; exit 1; }
[ -x "$binaries/quarry-lab" ] || fail "no lab in $binaries; run make lab"
[ -x "$binaries/quarry" ] || fail "no server in $binaries; run make build"
[ "$repeats" -ge 3 ] || fail "$repeats repeats have no interval worth showing; give 3 or more"
# A figure of a busy machine is worth nothing: at most a tenth of a processor may be in use.
read -r load _ </proc/loadavg
awk -v load="$load" 'BEGIN { exit load > 0.1 }' || fail "the machine is busy: load average $load, at most 0.10 may be"
"$binaries/quarry-lab" run insert-grow --own quarry,myrocks,innodb --quarry "$binaries/quarry" \
  --preset laptop --times-memory 8 --memory-mb 256 --repeats "$repeats" --out "$out"
sweep=$(find "$out" -mindepth 1 -maxdepth 1 -name '*sweep-insert-grow*' | sort | tail -n 1)
"$root/scripts/front-chart.py" "$sweep" >"$root/docs/images/inserts-past-memory.svg"
echo "front-figure: $root/docs/images/inserts-past-memory.svg, page $sweep/report.html"
