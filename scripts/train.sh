#!/usr/bin/env bash
# Runs an instrumented server under the laboratory's workloads, so that the compiler learns which code is used often.
#   scripts/train.sh SERVER LAB FOLDER     FOLDER gets the laboratory's results; the server writes its profile where it was built to
# Takes two minutes. The figures mean nothing: an instrumented server is slow.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
server=$1 lab=$2 out=$3

# workload, rows, further options: cached and uncached, with the log of changes and without, reads and writes alike.
while read -r workload rows options; do
  case $workload in '' | '#'*) continue ;; esac
  path=$root/lab/workloads/$workload.toml
  [ -e "$path" ] || path=$root/lab/speed/$workload.toml
  # shellcheck disable=SC2086
  "$lab" run "$path" --quarry "$server" --out "$out/$workload" --rows "$rows" --clients 4 --warmup-seconds 0 --seconds 4 $options \
    >"$out.log" 2>&1 || { cat "$out.log" >&2; echo "train: $workload failed" >&2; exit 1; }
  echo "train: $workload"
done <<'LIST'
insert 200000 --own quarry --indexes 3 --batch 100
change-log 100000 --own quarry:replica-set=on
insert-classic 50000 --own quarry
point 50000 --own quarry
update 50000 --own quarry
update-inc 50000 --own quarry:replica-set=on
trx 20000 --own quarry:replica-set=on
ycsb-a 50000 --own quarry
ycsb-e 50000 --own quarry
linkbench 20000 --own quarry:replica-set=on
analytics 50000 --own quarry
kinds-of-write 20000 --own quarry:replica-set=on
capped 60000 --own quarry
update-settled 400000 --own quarry --memory-mb 128 --tables 1
LIST
