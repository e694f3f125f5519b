#!/usr/bin/env bash
# Makes the folders of this version's formats that crates/server/tests/it/formats.rs opens. Usage: make.sh [NAME]...; QUARRY_BIN names the server.
# Names: rocksdb, lmdb, encrypted, backups. One that is there is never made again: a version's folders are those that it wrote.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$root/tests/clients/lib.sh"
export QUARRY_BIN=${QUARRY_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry}
[ -x "$QUARRY_BIN" ] || fail "no server at $QUARRY_BIN; run make build or set QUARRY_BIN"
python_with_pymongo
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/tests/server "$PYTHON" "$here/make.py" "$@"
