#!/usr/bin/env bash
# Runs the commands that the pages show. Usage: run.sh [PAGE]...; QUARRY_BIN names the server.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$root/tests/clients/lib.sh"
export QUARRY_BIN=${QUARRY_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry}
[ -x "$QUARRY_BIN" ] || fail "no server at $QUARRY_BIN; run make build or set QUARRY_BIN"
python_with_pymongo
PYTHONDONTWRITEBYTECODE=1 "$PYTHON" "$here/commands.py" "$@"
