#!/usr/bin/env bash
# Official clients log in over TLS, by SCRAM and by certificate. Usage: run.sh [--inverted] [python|node|mongosh|go|java]...
# QUARRY_BIN names the binary; without it the release build is taken. cases.json says what each client does and what must come
# of it; the exit status tells whether all of it did. With --inverted every expectation is replaced by one that nothing meets, and the
# run passes when every single step of every client says that it came out otherwise: so each of these checks can fail.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
. "$root/tests/clients/lib.sh"

inverted=
[ "${1:-}" != --inverted ] || { inverted=yes; shift; }
clients=("$@")
[ ${#clients[@]} -gt 0 ] || clients=(python node mongosh go java)

# Each is given the file of cases, its part, the address and the folder of certificates.
login_python() { "$PYTHON" "$here/python/logins.py" "$@"; }
login_node() { NODE_PATH="$NODE_MODULES" "$NODE" "$here/node/logins.cjs" "$@"; }
login_mongosh() {
  # The shell itself logs in by the options that a person would give; what it does then is in the script.
  local certificate=()
  [ "$2" != strict ] || certificate=(--tlsCertificateKeyFile "$4/stranger.pem")
  HOME="$scratch/home" CASES=$1 PART=$2 ADDRESS=$3 FOLDER=$4 "$NODE" "$NODE_MODULES/mongosh/bin/mongosh.js" --quiet --norc \
    "mongodb://$3/?directConnection=true&maxPoolSize=1" --tls --tlsCAFile "$4/both-ca.pem" "${certificate[@]}" \
    --username root --password pass-root --authenticationDatabase admin --authenticationMechanism SCRAM-SHA-256 \
    --file "$here/node/logins.js"
}
login_go() { "$scratch/logins-go" "$@"; }
login_java() {
  # Maven puts an escape sequence behind everything, colours or not.
  (cd "$here/java" && mvn -q -o -B -Dlogins.target="$cache/clients/java-logins" exec:java -Dexec.args="$*" | sed $'s/\e\\[[0-9;]*m//g')
}

prepare_python() { :; }
prepare_node() { node_modules; }
prepare_mongosh() { node_modules; }
prepare_go() {
  command -v go >/dev/null || fail "go: no Go toolchain"
  (cd "$here/go" && go build -o "$scratch/logins-go" .)
}
prepare_java() {
  command -v mvn >/dev/null || fail "java: no Maven"
  # Once with the network, and from then on without: what Maven says about that is no answer of the server.
  (cd "$here/java" && mvn -q -B -Dlogins.target="$cache/clients/java-logins" compile exec:java -Dexec.args=--version) \
    >"$scratch/maven.log" 2>&1 || { cat "$scratch/maven.log" >&2; fail "java: Maven failed"; }
}

# part CLIENT PART: every step must have run, and none (with --inverted: every one) have come out wrong.
part() {
  local said=$scratch/$1-$2.log steps status=0 wrong=0 began=$SECONDS
  steps=$("$PYTHON" "$here/python/expect.py" count "$cases" "$2")
  [ -z "$inverted" ] || wrong=$steps
  "login_$1" "$cases" "$2" "$ADDRESS" "$certificates" >"$said" 2>&1 || status=$?
  if ! tail -n 1 "$said" | grep -q ": $steps steps, $wrong wrong\$"; then
    cat "$said" >&2
    echo "logins: $1: $2: FAILED with status $status, expected $steps steps, $wrong wrong" >&2
    return 1
  fi
  [ -z "${LOGINS_SHOW:-}" ] || cat "$said"
  echo "logins: $1: $2: $(tail -n 1 "$said"), in $((SECONDS - began)) s"
}

# Connections of others go on while certificates are rotated.
begin_load() { "$PYTHON" "$here/python/load.py" "$ADDRESS" "$certificates" >"$scratch/load.log" 2>&1 & LOAD_PID=$!; }
end_load() {
  kill -TERM "$LOAD_PID"
  wait "$LOAD_PID" || { echo >>"$scratch/load.log"; cat "$scratch/load.log" >&2; return 1; }
  echo "logins: $1: beside it, $(tail -n 1 "$scratch/load.log")"
}

serve() {
  start_server "$scratch/data" --auth --tlsMode requireTLS --tlsCertificateKeyFile "$certificates/server.pem" \
    --tlsCAFile "$certificates/ca.pem" --tlsCRLFile "$certificates/crl.pem" "$@"
}

python_with_pymongo
for client in "${clients[@]}"; do
  declare -F "login_$client" >/dev/null || fail "no client named '$client'; there are: python node mongosh go java"
  "prepare_$client"
done
mkdir -p "$scratch/home"
certificates=$scratch/certificates
"$here/certificates.sh" "$certificates"
cases=$here/cases.json
if [ -n "$inverted" ]; then
  cases=$scratch/inverted.json
  "$PYTHON" "$here/python/expect.py" invert "$here/cases.json" >"$cases"
fi

failed=()
serve --tlsAllowConnectionsWithoutCertificates
"$PYTHON" "$here/python/users.py" "$ADDRESS" "$certificates"
"$PYTHON" "$here/python/monitor.py" "$ADDRESS" "$certificates" >"$scratch/monitor.log" 2>&1 \
  || { cat "$scratch/monitor.log" >&2; failed+=(monitor); }
echo "logins: $(tail -n 1 "$scratch/monitor.log")"
for client in "${clients[@]}"; do
  seen=$(wc -l <"$scratch/server.log")
  part "$client" required || failed+=("$client: required")
  tail -n "+$((seen + 1))" "$scratch/server.log" >"$scratch/seen.log"
  "$PYTHON" "$here/python/expect.py" log "$here/cases.json" "$scratch/seen.log" || failed+=("$client: the server's log")
  begin_load
  part "$client" rotation || failed+=("$client: rotation")
  end_load "$client" || failed+=("$client: the load beside the rotation")
  cp "$certificates/server-old.pem" "$certificates/server.pem"
done
stop_server
serve
for client in "${clients[@]}"; do
  part "$client" strict || failed+=("$client: strict")
done
stop_server
serve --tlsAllowConnectionsWithoutCertificates --tlsAllowInvalidCertificates
for client in "${clients[@]}"; do
  part "$client" lenient || failed+=("$client: lenient")
done
stop_server
if [ ${#failed[@]} -gt 0 ]; then
  printf 'logins: FAILED: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "logins: ${#clients[@]} of ${#clients[@]} clients passed${inverted:+ (inverted)}, the server ended with status 0 three times"
