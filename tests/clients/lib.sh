# Sourced by the scripts that need a server or a client: starts and stops servers, installs clients into the cache.
# Expects: root. Gives: fail, scratch, cache, start_server, start_several, stop_server, stop_and_judge, python_with_pymongo, node_modules, mongo_tools.

fail() { echo "clients: $*" >&2; exit 1; }

cache=$("$root/scripts/cache.sh")
scratch=$(mktemp -d)
SERVER_PID=
running=()

clean_up() {
  local pid
  # A subshell inherits this trap but not the servers.
  [ "$BASHPID" = $$ ] || return 0
  for pid in "${running[@]}"; do
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$scratch"
}
trap clean_up EXIT

# start_server DBPATH [OPTION...]: sets ADDRESS and SERVER_PID when the server accepts connections; @ADDRESS@ in an option is its own.
start_server() {
  local dbpath=$1 port waited
  shift
  local binary=${QUARRY_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry}
  [ -x "$binary" ] || fail "no server at $binary; run make build or set QUARRY_BIN"
  mkdir -p "$dbpath"
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  "$binary" serve --dbpath "$dbpath" --port "$port" --bind_ip 127.0.0.1 --nounixsocket "${@//@ADDRESS@/127.0.0.1:$port}" </dev/null >>"$scratch/server.log" 2>&1 &
  SERVER_PID=$!
  running+=("$SERVER_PID")
  for ((waited = 0; waited < 600; waited++)); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      ADDRESS=127.0.0.1:$port
      return
    fi
    if ! kill -0 "$SERVER_PID" 2>/dev/null; then
      ended "$SERVER_PID"
      cat "$scratch/server.log" >&2
      fail "the server ended before it accepted connections"
    fi
    sleep 0.1
  done
  fail "the server did not accept connections on port $port within 60 s"
}

# start_several COUNT PREFIX [OPTION...]: a TiKV cluster for tests and so many servers that all write one database in it; ADDRESS is their list.
# False, with the reason told, where there is no cluster or the server is built without TiKV.
start_several() {
  local count=$1 prefix=$2 word pd rest addresses=() n
  shift 2
  local binary=${QUARRY_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry}
  has_tikv "$binary" || { echo "clients: skipped: the server is built without TiKV"; return 1; }
  # It ends with this script, whose end of the pipe it reads.
  coproc CLUSTER { exec "$root/scripts/cluster.sh" hold 2>/dev/null; }
  read -r word pd rest <&"${CLUSTER[0]}" || true
  [ "$word" = ready ] || { echo "clients: $word $pd $rest"; return 1; }
  for ((n = 0; n < count; n++)); do
    start_server "$scratch/$prefix-$n" --storageEngine tikv --tikvPd "$pd" --tikvPrefix "$prefix" --tikvWrites here "$@"
    addresses+=("$ADDRESS")
  done
  ADDRESS=$(IFS=,; echo "${addresses[*]}")
}

ended() {
  local pid still=()
  for pid in "${running[@]}"; do [ "$pid" = "$1" ] || still+=("$pid"); done
  running=("${still[@]}")
  [ "$SERVER_PID" != "$1" ] || SERVER_PID=
}

# stop_server [PID]: SIGTERM to that server or to the one started last, and the status must be 0.
stop_server() {
  local status=0 pid=${1:-$SERVER_PID}
  kill -TERM "$pid" || fail "the server ended before the test stopped it: $(tail -n 5 "$scratch/server.log")"
  wait "$pid" || status=$?
  ended "$pid"
  [ "$status" = 0 ] || { tail -n 20 "$scratch/server.log" >&2; fail "the server ended with status $status after SIGTERM"; }
}

# stop_and_judge COUNT KIND [FAILED...]: stops the server, and fails with its last lines when some of so many failed.
stop_and_judge() {
  local count=$1 kind=$2
  shift 2
  while [ ${#running[@]} -gt 0 ]; do stop_server "${running[0]}"; done
  if [ $# -gt 0 ]; then
    echo "clients: the last lines of the servers:" >&2
    tail -n 20 "$scratch/server.log" >&2
    fail "failed: $*"
  fi
  echo "clients: $count of $count $kind passed, every server ended with status 0"
}

# install_once KIND KEY_FILE... -- COMMAND: runs the command in a new folder of the cache, once per content of the key files.
install_once() {
  local kind=$1 files=()
  shift
  while [ "$1" != -- ]; do files+=("$1"); shift; done
  shift
  INSTALLED=$cache/clients/$kind-$(cat "${files[@]}" | sha256sum | cut -c1-16)
  mkdir -p "$cache/clients"
  (
    flock 9
    [ -e "$INSTALLED/ready" ] && exit 0
    echo "clients: installing $kind into $INSTALLED"
    rm -rf "$INSTALLED" && mkdir -p "$INSTALLED"
    cd "$INSTALLED" && "$@" && touch ready
  ) 9>"$cache/clients/$kind.lock" </dev/null || fail "installing $kind failed"
}

install_python() { python3 -m venv venv && venv/bin/pip install -q --disable-pip-version-check -r "$root/tests/clients/python/requirements.txt"; }

# python_with_pymongo: sets PYTHON.
python_with_pymongo() {
  command -v python3 >/dev/null || fail "no python3"
  install_once python "$root/tests/clients/python/requirements.txt" -- install_python
  PYTHON=$INSTALLED/venv/bin/python
}

install_node() {
  cp "$root/tests/clients/node/"{package.json,package-lock.json,.npmrc} . && npm ci --ignore-scripts --no-progress --loglevel=error
}

# Drivers and shell need Node.js 20.19; Debian 12 has 18.
node_is_enough() { "$1" -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null; }

install_newer_node() { npm install --ignore-scripts --no-progress --loglevel=error --no-save --prefix . "node-linux-$1@$(cat "$root/tests/clients/node/node-version")"; }

# node_modules: sets NODE and NODE_MODULES.
node_modules() {
  command -v npm >/dev/null || fail "no npm"
  NODE=$(command -v node)
  if ! node_is_enough "$NODE"; then
    local machine=x64
    [ "$(uname -m)" = aarch64 ] && machine=arm64
    install_once nodejs "$root/tests/clients/node/node-version" -- install_newer_node "$machine"
    NODE=$INSTALLED/node_modules/node-linux-$machine/bin/node
  fi
  install_once node "$root/tests/clients/node/package-lock.json" -- install_node
  NODE_MODULES=$INSTALLED/node_modules
}

build_mongo_tools() {
  local tool to=$PWD
  for tool in bsondump mongodump mongoexport mongofiles mongoimport mongorestore mongostat mongotop; do
    (cd "$root/tests/clients/mongo-tools" && go build -o "$to/$tool" "github.com/mongodb/mongo-tools/$tool/main") || return 1
  done
}

# mongo_tools: sets TOOLS, the folder of mongodump and the others, built from their own source (mongo-tools/go.mod pins it).
mongo_tools() {
  command -v go >/dev/null || fail "no Go toolchain"
  install_once mongo-tools "$root/tests/clients/mongo-tools/"go.{mod,sum} -- build_mongo_tools
  TOOLS=$INSTALLED
}

# has_tikv QUARRY: whether a server is built with TiKV. Every build's help names TiKV's options; who asks for an engine that nobody has is told
# which there are.
has_tikv() { grep -q "this build has.* tikv" <<<"$("$1" serve --storageEngine none --dbpath /tmp 2>&1 || true)"; }
