#!/usr/bin/env bash
# Official clients from another machine: server and clients in two network namespaces, which have nothing in common but one cable. Usage: run.sh
# [python|node|go|java]...
# By plain URI, by the name of the replica set, by a name over TLS, through a forwarded port. QUARRY_BIN names the binary; without it the release
# build is taken. Needs the right to make network namespaces; says so when skipped.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
. "$root/tests/clients/lib.sh"

clients=("$@")
[ ${#clients[@]} -gt 0 ] || clients=(python node)
binary=${QUARRY_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry}
[ -x "$binary" ] || fail "no server at $binary; run make build or set QUARRY_BIN"

there=quarry-there-$$ home=quarry-home-$$
server_address=10.203.0.1 client_address=10.203.0.2 name=db.quarry.test
if ! ip netns add "$there" 2>/dev/null; then
  echo "clients: elsewhere is skipped: network namespaces cannot be made here"
  exit 0
fi
leave() {
  clean_up
  ip netns del "$there" 2>/dev/null || true
  ip netns del "$home" 2>/dev/null || true
  rm -rf "/etc/netns/$home"
}
trap leave EXIT
ip netns add "$home"
ip link add name quarry-a netns "$there" type veth peer name quarry-b netns "$home"
ip -n "$there" address add "$server_address/24" dev quarry-a
ip -n "$home" address add "$client_address/24" dev quarry-b
for side in "$there" "$home"; do
  ip -n "$side" link set lo up
done
ip -n "$there" link set quarry-a up
ip -n "$home" link set quarry-b up
# `ip netns exec` shows this file as /etc/hosts there.
mkdir -p "/etc/netns/$home"
echo "$server_address $name" >"/etc/netns/$home/hosts"

in_home() { ip netns exec "$home" "$@"; }

# serve PORT [OPTION...]: a server in the other namespace.
serve() {
  local port=$1 waited
  shift
  ip netns exec "$there" "$binary" serve --dbpath "$scratch/data-$port" --port "$port" --nounixsocket --allowOpenAccess "$@" \
    </dev/null >>"$scratch/server.log" 2>&1 &
  SERVER_PID=$!
  running+=("$SERVER_PID")
  for ((waited = 0; waited < 600; waited++)); do
    if in_home bash -c "exec 3<>/dev/tcp/$server_address/$port" 2>/dev/null; then return; fi
    kill -0 "$SERVER_PID" 2>/dev/null || { cat "$scratch/server.log" >&2; fail "the server ended before it accepted connections"; }
    sleep 0.1
  done
  fail "the server did not accept connections within 60 s"
}

# Writes and reads by one URI; the driver must not have lost the server, nor have gone elsewhere.
plain_python() { in_home "$PYTHON" "$here/plain.py" "$@"; }
plain_node() { NODE_PATH="$NODE_MODULES" in_home "$NODE" "$here/plain.cjs" "$@"; }
smoke_python() { in_home "$PYTHON" "$here/../python/smoke.py" "$1"; }
smoke_node() { NODE_PATH="$NODE_MODULES" in_home "$NODE" "$here/../node/driver.cjs" "$1"; }
plain_go() { in_home "$scratch/go/plain" "$@"; }
# The URI of the Java driver takes no file of certificates.
plain_java() {
  local file=
  [[ $1 != *tlsCAFile=* ]] || file=${1##*tlsCAFile=}
  in_home "${java[@]}" smoke.Plain "${1%&tlsCAFile=*}" "$2" ${file:+"$file"}
}
smoke_go() { in_home "$scratch/go/smoke" "$1"; }
smoke_java() { in_home "${java[@]}" smoke.Smoke "$1"; }
prepare_python() { python_with_pymongo; }
prepare_node() { node_modules; }
prepare_go() { mkdir "$scratch/go" && (cd "$here/../go" && go build -o "$scratch/go/" ./...); }
prepare_java() {
  (cd "$here/../java" && mvn -q -B -Dsmoke.target="$cache/clients/java" compile dependency:build-classpath -Dmdep.outputFile="$scratch/classpath") || return 1
  java=(java -cp "$cache/clients/java/classes:$(cat "$scratch/classpath")")
}

python_with_pymongo
for client in "${clients[@]}"; do "prepare_$client" || fail "$client could not be prepared"; done

# Which addresses it listens on makes no difference.
serve 27017 --bind_ip 0.0.0.0
serve 27018 --bind_ip "127.0.0.1,$server_address"
for port in 27017 27018; do
  for client in "${clients[@]}"; do
    "smoke_$client" "$server_address:$port" || fail "$client as a replica set on port $port"
    for options in "" "?replicaSet=rs0"; do
      "plain_$client" "mongodb://$server_address:$port/$options" "$server_address:$port" || fail "$client with '$options' on port $port"
    done
    echo "clients: $client passed on port $port"
  done
done
# On its own machine, too.
ip netns exec "$there" "$PYTHON" "$here/plain.py" "mongodb://localhost:27017/" "" || fail "the server's own machine"

# Over TLS the client goes on with the name that the certificate has.
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout "$scratch/key.pem" -out "$scratch/ca.pem" -subj "/CN=$name" -addext "subjectAltName=DNS:$name" 2>/dev/null
cat "$scratch/ca.pem" "$scratch/key.pem" >"$scratch/server.pem"
serve 27019 --bind_ip 0.0.0.0 --tlsMode requireTLS --tlsCertificateKeyFile "$scratch/server.pem"
for client in "${clients[@]}"; do
  "plain_$client" "mongodb://$name:27019/?tls=true&tlsCAFile=$scratch/ca.pem" "$name:27019" || fail "$client over TLS"
done

# Through a forwarded port the server cannot know how clients reach it, and is told.
# No function: the process that is ended at the end must be this one.
ip netns exec "$home" "$PYTHON" "$here/forward.py" 127.0.0.1:37020 "$server_address:27020" </dev/null >>"$scratch/forward.log" 2>&1 &
running+=("$!")
serve 27020 --bind_ip 0.0.0.0 --advertise 127.0.0.1:37020
for client in "${clients[@]}"; do
  for options in "" "?replicaSet=rs0"; do
    "plain_$client" "mongodb://127.0.0.1:37020/$options" 127.0.0.1:37020 || fail "$client with '$options' through a forwarded port"
  done
done
echo "clients: ${clients[*]} passed from another machine: plain URIs, the replica set's name, TLS, a forwarded port"
