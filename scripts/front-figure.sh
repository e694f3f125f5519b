#!/usr/bin/env bash
# The runs behind the chart of the README, and the chart: Quarry, MyRocks and InnoDB insert past their memory, three
# repeats each that take turns, on a machine that does nothing else. Usage: front-figure.sh OUT [REPEATS]
# Each run is one of its own, so that a quiet window is needed for a run at a time: what OUT holds already is not run
# again, and with RUNS=1 the script ends after one run (status 3 while some are missing). MEMORY_MB (256) and TIMES (8)
# make the runs smaller or larger. The chart goes to docs/images/inserts-past-memory.svg.
# Needs root for the limit on memory, and MariaDB with MyRocks. Build before: make build lab.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=${1:?usage: front-figure.sh OUT [REPEATS]}
repeats=${2:-3}
runs=${RUNS:-1000}
binaries=${CARGO_TARGET_DIR:-$root/target}/release
lab=${LAB_BIN:-$binaries/quarry-lab}
quarry=${QUARRY_BIN:-$binaries/quarry}
fail() { echo "front-figure: $*" >&2; exit 1; }
[ -x "$lab" ] || fail "no lab at $lab; run make lab"
[ -x "$quarry" ] || fail "no server at $quarry; run make build"
[ "$repeats" -ge 3 ] || fail "$repeats repeats are too few for an interval; give 3 or more"
mkdir -p "$out"
for ((repeat = 1; repeat <= repeats; repeat++)); do
  for own in quarry myrocks innodb; do
    [ ! -e "$out/$repeat-$own/whole" ] || continue
    [ "$runs" -gt 0 ] || { echo "front-figure: runs are still missing; the same command continues"; exit 3; }
    # The lab warns of a load that the run before has left, and the chart refuses what it warned of.
    for ((waited = 0; waited < 60; waited++)); do
      awk -v cpus="$(nproc)" '$1 < cpus / 4 { found = 1 } END { exit !found }' /proc/loadavg && break
      sleep 5
    done
    # A figure of a busy machine is worth nothing: at most a tenth of a processor may be in use.
    busy=$(awk '/^cpu /{print $2+$3+$4+$7+$8+$9, $5+$6}' /proc/stat; sleep 2; awk '/^cpu /{print $2+$3+$4+$7+$8+$9, $5+$6}' /proc/stat)
    awk -v cpus="$(nproc)" '{ busy[NR] = $1; idle[NR] = $2 } END {
      share = (busy[2] - busy[1]) / (busy[2] - busy[1] + idle[2] - idle[1]) * cpus
      if (share > 0.1) { printf "front-figure: the machine is busy: %.2f processors in use; at most 0.10 are allowed\n", share; exit 1 }
    }' <<<"$busy" >&2 || exit 1
    rm -rf "${out:?}/$repeat-$own"
    "$lab" run insert-grow --own "$own" --quarry "$quarry" --preset laptop --payload 512 --times-memory "${TIMES:-8}" \
      --memory-mb "${MEMORY_MB:-256}" --out "$out/$repeat-$own"
    touch "$out/$repeat-$own/whole"
    runs=$((runs - 1))
  done
done
mapfile -t folders < <(find "$out" -name result.json -printf '%h\n' | sort)
"$lab" report "${folders[@]}" --out "$out/report.html"
"$root/scripts/front-chart.py" "$out" >"$root/docs/images/inserts-past-memory.svg"
"$root/scripts/front-chart.py" --words "$out"
echo "front-figure: $root/docs/images/inserts-past-memory.svg, page $out/report.html"
