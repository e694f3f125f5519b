#!/usr/bin/env bash
# Debezium's embedded engine follows a collection through restarts of the server and of itself (follow.py). Needs Java 17 and Maven;
# the engine comes from Maven Central, pinned in pom.xml. QUARRY_BIN names the binary; without it the release build is taken.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
. "$root/tests/clients/lib.sh"

export QUARRY_BIN=${QUARRY_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry}
[ -x "$QUARRY_BIN" ] || fail "no server at $QUARRY_BIN; run make build or set QUARRY_BIN"
command -v mvn >/dev/null || fail "debezium: no Maven"

install_debezium() {
  mvn -q -B -f "$here/pom.xml" -Ddebezium.target="$PWD/target" compile dependency:copy-dependencies -DoutputDirectory="$PWD/lib"
}
install_once debezium "$here/pom.xml" "$here/src/main/java/debezium/Consumer.java" -- install_debezium
classpath=$INSTALLED/target/classes:$INSTALLED/lib/*
python_with_pymongo
export PYTHONDONTWRITEBYTECODE=1
# The parts are bounded in time themselves; this is for the whole of them.
timeout 180 "$PYTHON" "$here/follow.py" "$classpath"
