#!/usr/bin/env bash
# Runs client smokes against the real server binary. Usage: run.sh [--several] [python|node|mongosh|go|java]...
# --several: through three servers that all write one database in a TiKV cluster for tests.
# QUARRY_BIN names the binary; without it the release build is taken. The exit status tells whether every smoke passed
# and the server ended well.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/lib.sh"

several=
if [ "${1:-}" = --several ]; then several=1; shift; fi
smokes=("$@")
[ ${#smokes[@]} -gt 0 ] || smokes=(python node mongosh ${several:+balanced})

smoke_python() { python_with_pymongo; "$PYTHON" "$here/python/smoke.py" "$1"; }
# Through one address for all servers, as a load balancer has it.
smoke_balanced() { python_with_pymongo; "$PYTHON" "$here/python/balanced.py" "$1"; }
smoke_node() { node_modules; NODE_PATH="$NODE_MODULES" "$NODE" "$here/node/driver.cjs" "$1"; }
smoke_mongosh() {
  node_modules
  # The shell keeps its settings in the home folder; this one is thrown away.
  HOME="$scratch/home" "$NODE" "$NODE_MODULES/mongosh/bin/mongosh.js" --quiet --norc "mongodb://$1/$direct" "$here/node/shell.js"
}
smoke_go() { command -v go >/dev/null || fail "go: no Go toolchain"; (cd "$here/go" && go run . "$1"); }
smoke_java() {
  command -v mvn >/dev/null || fail "java: no Maven"
  (cd "$here/java" && mvn -q -B -Dsmoke.target="$cache/clients/java" compile exec:java -Dexec.args="$1")
}

mkdir -p "$scratch/home"
direct='?directConnection=true'
if [ -n "$several" ]; then
  start_several 3 smokes || exit 0
  direct=
else
  start_server "$scratch/data"
fi
failed=()
for smoke in "${smokes[@]}"; do
  declare -F "smoke_$smoke" >/dev/null || fail "no smoke named '$smoke'; there are: python node mongosh go java, and with --several balanced"
  began=$SECONDS
  if ("smoke_$smoke" "$ADDRESS"); then
    echo "clients: $smoke passed in $((SECONDS - began)) s"
  else
    failed+=("$smoke")
    echo "clients: $smoke FAILED" >&2
  fi
done
stop_and_judge "${#smokes[@]}" "smokes" "${failed[@]}"
