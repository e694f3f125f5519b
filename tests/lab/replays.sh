#!/usr/bin/env bash
# Records the requests of PyMongo and mongosh and replays them against an empty server: every answer must equal the
# recorded one, and the documents must be the same afterwards.
# Usage: replays.sh [python] [mongosh]. QUARRY_BIN and LAB_BIN name the binaries; the default are the release builds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$root/tests/clients/lib.sh"
lab=${LAB_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry-lab}
[ -x "$lab" ] || fail "no lab at $lab; build quarry-lab or set LAB_BIN"
clients=("$@")
[ ${#clients[@]} -gt 0 ] || clients=(python mongosh)
python_with_pymongo

send_python() { "$PYTHON" "$here/replayed.py" "$1"; }
send_mongosh() {
  mkdir -p "$scratch/home"
  HOME="$scratch/home" "$NODE" "$NODE_MODULES/mongosh/bin/mongosh.js" --quiet --norc "$1" --file "$here/replayed.js"
}

for client in "${clients[@]}"; do
  declare -F "send_$client" >/dev/null || fail "no client named '$client'; there are: python mongosh"
  [ "$client" != mongosh ] || node_modules
  began=$SECONDS
  start_server "$scratch/$client-source" --memory 512M
  source=$ADDRESS source_pid=$SERVER_PID
  "$lab" record --listen 127.0.0.1:0 --upstream "mongodb://$source" --out "$scratch/$client.qrec" >"$scratch/$client-record.log" 2>&1 &
  recorder=$!
  running+=("$recorder")
  for ((waited = 0; waited < 100; waited++)); do
    listens=$(grep -o '127.0.0.1:[0-9]*' "$scratch/$client-record.log" | head -n 1) || true
    [ -z "$listens" ] || break
    sleep 0.1
  done
  [ -n "$listens" ] || fail "the recorder does not listen: $(cat "$scratch/$client-record.log")"
  "send_$client" "mongodb://$listens/?directConnection=true" >"$scratch/$client.log" 2>&1 ||
    { tail -n 20 "$scratch/$client.log" >&2; fail "$client failed through the recorder"; }
  kill -INT "$recorder"
  wait "$recorder" || fail "the recorder failed: $(tail -n 3 "$scratch/$client-record.log")"
  ended "$recorder"
  start_server "$scratch/$client-target" --memory 512M
  "$lab" replay "$scratch/$client.qrec" --style stress --order recorded --target "mongodb://$ADDRESS/?directConnection=true" \
    --out "$scratch/$client-results" >"$scratch/lab.log" 2>&1 ||
    { tail -n 20 "$scratch/lab.log" >&2; fail "the replay of $client ended with status $?"; }
  "$PYTHON" - "mongodb://$source/?directConnection=true" "mongodb://$ADDRESS/?directConnection=true" <<'END'
import sys
import pymongo
one, other = (pymongo.MongoClient(uri).replayed for uri in sys.argv[1:])
names = sorted(one.list_collection_names())
assert names and names == sorted(other.list_collection_names()), names
for name in names:
    same = list(one[name].find(sort=[("_id", 1)])) == list(other[name].find(sort=[("_id", 1)]))
    assert same, f"{name} holds other documents after the replay"
END
  stop_server
  stop_server "$source_pid"
  echo "lab: $client replayed alike in $((SECONDS - began)) s: $(grep -i 'answers\|differ\|operations' "$scratch/lab.log" | tail -n 1)"
done
