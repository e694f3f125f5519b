#!/usr/bin/env bash
# Runs the example on a server of its own, restarted half way; `--into HOST:PORT` uses a running server and leaves the data there.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/clients/lib.sh"
program=$root/examples/debian-packages/debian_packages.py

if ! command -v apt-cache >/dev/null; then
  echo "debian-packages: SKIPPED, there is no apt-cache on this machine"
  exit 0
fi
apt-cache dumpavail >"$scratch/available"
if ! [ -s "$scratch/available" ]; then
  echo "debian-packages: SKIPPED, the package index of this machine is empty (apt-get update fills it)"
  exit 0
fi
python_with_pymongo
if [ "${1:-}" = --into ]; then
  "$PYTHON" "$program" load "${2:?--into needs HOST:PORT}" "$scratch/available" "$scratch/state.json"
  exit
fi
start_server "$scratch/data"
"$PYTHON" "$program" load "$ADDRESS" "$scratch/available" "$scratch/state.json"
stop_server
start_server "$scratch/data"
"$PYTHON" "$program" verify "$ADDRESS" "$scratch/available" "$scratch/state.json"
stop_server
echo "debian-packages: passed"
