#!/usr/bin/env bash
# One short run of the lab against a server of its own. Usage: bench.sh WORKLOAD; results go to ./results, or $RESULTS.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/tests/clients/lib.sh"
lab=${CARGO_TARGET_DIR:-$root/target}/release/quarry-lab
start_server "$scratch/data"
status=0
"$lab" run "${1:-insert}" --target "mongodb://$ADDRESS" --preset "${PRESET:-smoke}" --out "${RESULTS:-results}" || status=$?
stop_server
exit "$status"
