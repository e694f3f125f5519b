#!/usr/bin/env bash
# The server called as mongod: by mongodb-memory-server, by the command line of a container, with a stock configuration file. Usage: run.sh
# QUARRY_BIN names the binary; without it the release build is taken.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
. "$root/tests/clients/lib.sh"

binary=${QUARRY_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry}
[ -x "$binary" ] || fail "no server at $binary; run make build or set QUARRY_BIN"
ln -s "$(realpath "$binary")" "$scratch/mongod"

said=$("$scratch/mongod" --version)
[[ $said == "db version v"[0-9]*.*"Build Info: {"* ]] || fail "called as mongod it printed a wrong version: $said"
python3 -c 'import json, sys; json.loads(sys.argv[1].split("Build Info: ")[1])' "$said" || fail "the build info is not JSON: $said"
[[ $("$binary" --version) == "quarry "* ]] || fail "called by its own name it printed a wrong version: $("$binary" --version)"

# refused WORD OPTION...: one line with that word, status 2.
refused() {
  local word=$1 status=0 said
  shift
  said=$("$scratch/mongod" --dbpath "$scratch/refused" --port 0 --nounixsocket "$@" 2>&1 </dev/null) || status=$?
  [ "$status" = 2 ] || fail "$*: status $status: $said"
  [[ $said == *"$word"* && $(wc -l <<<"$said") = 1 ]] || fail "$*: $said"
  [ ! -e "$scratch/refused" ] || fail "$*: the server created the data directory"
}
refused SIGTERM --shutdown
refused "one server" --shardsvr
refused always --nojournal
refused "1.2 and 1.3" --tlsDisabledProtocols TLS1_2
cat >"$scratch/bad.conf" <<'END'
sharding: {clusterRole: shardsvr}
END
refused sharding.clusterRole --config "$scratch/bad.conf"

# As a container starts it, and with what packages install as /etc/mongod.conf.
cat >"$scratch/mongod.conf" <<END
storage:
  dbPath: $scratch/data
  journal:
    enabled: true
  wiredTiger:
    engineConfig:
      cacheSizeGB: 1
systemLog:
  destination: file
  logAppend: true
  path: $scratch/mongod.log
net:
  bindIpAll: true
  tls: {disabledProtocols: "TLS1_0,TLS1_1"}
processManagement:
  timeZoneInfo: /usr/share/zoneinfo
END
python_with_pymongo
"$PYTHON" "$here/stock.py" "$scratch/mongod" "$scratch" "$scratch/mongod.conf"

install_once memory-server "$here/package-lock.json" -- bash -c "cp '$here/'{package.json,package-lock.json,.npmrc} . && npm ci --ignore-scripts --no-progress --loglevel=error"
memory_server=$INSTALLED
node_modules
HOME="$scratch" NODE_PATH="$memory_server/node_modules" "$NODE" "$here/start.cjs" "$scratch/mongod"
echo "clients: the server called as mongod passed"
