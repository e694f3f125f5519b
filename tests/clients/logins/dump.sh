#!/usr/bin/env bash
# mongodump and mongorestore carry users and roles from one server to another, over TLS. Usage: dump.sh
# QUARRY_BIN names the binary; without it the release build is taken. The tools are built from their own source (mongo_tools in
# lib.sh). Afterwards users, roles, privileges and credentials are compared, and pymongo logs in on the new server as cases.json says.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
. "$root/tests/clients/lib.sh"

certificates=$scratch/certificates
serve() {
  start_server "$scratch/$1" --auth --tlsMode requireTLS --tlsCertificateKeyFile "$certificates/server.pem" \
    --tlsCAFile "$certificates/ca.pem" --tlsCRLFile "$certificates/crl.pem" --tlsAllowConnectionsWithoutCertificates
}
access() { "$PYTHON" "$here/python/access.py" "$1" "$ADDRESS" "$certificates" "${@:2}"; }

# tool NAME USER OPTION...: as that user; what it says goes to a log, and is shown when it fails.
failed=()
check() {
  local what=$1
  shift
  "$@" >"$scratch/check.log" 2>&1 && tail -n 1 "$scratch/check.log" || { cat "$scratch/check.log" >&2; failed+=("$what"); }
}
not() { ! "$@"; }
logs_in() { "$PYTHON" "$here/python/logins.py" "$here/cases.json" required "$ADDRESS" "$certificates" | grep -v '^  ok'; }

tool() {
  local name=$1 user=$2
  shift 2
  "$TOOLS/$name" --uri "mongodb://$user:pass-$user@$ADDRESS/?authSource=admin&tls=true&tlsCAFile=$certificates/ca.pem" "$@" \
    >"$scratch/$name.log" 2>&1
}
works() { tool "$@" || { cat "$scratch/$1.log" >&2; fail "dump: $1 as $2 failed"; }; }
refused() {
  local about=$1
  shift
  if tool "$@"; then fail "dump: $1 as $2 was not refused"; fi
  grep -qi "$about" "$scratch/$1.log" || { cat "$scratch/$1.log" >&2; fail "dump: $1 as $2 failed, but not with '$about'"; }
}

python_with_pymongo
mongo_tools
"$here/certificates.sh" "$certificates"

serve first
"$PYTHON" "$here/python/users.py" "$ADDRESS" "$certificates"
access more
access list "$scratch/first.json"
refused "not authorized on elsewhere" mongodump reader --db elsewhere --out "$scratch/nothing"
refused "not authorized on admin" mongodump reader --db logins --dumpDbUsersAndRoles --out "$scratch/nothing"
works mongodump keeper --out "$scratch/all"
works mongodump keeper --db logins --dumpDbUsersAndRoles --out "$scratch/one"
stop_server

serve second
access first
access list "$scratch/before.json"
refused 'not authorized' mongorestore reader "$scratch/all"
works mongorestore keeper "$scratch/all"
access list "$scratch/second.json"
check "users and roles of a restore" access same "$scratch/first.json" "$scratch/second.json" "$scratch/before.json"
check "the comparison finds other salts" not access same "$scratch/first.json" "$scratch/second.json"
check "logins on the restored server" logs_in
stop_server

# With --drop: users that the dump does not have are gone, those that it has are as it says.
serve third
access first
access surplus
works mongorestore root --drop "$scratch/all"
access list "$scratch/third.json"
check "users and roles of a restore with --drop" access same "$scratch/first.json" "$scratch/third.json"
stop_server

# Users and roles of one database.
serve fourth
access first
works mongorestore root --db logins --restoreDbUsersAndRoles "$scratch/one/logins"
check "users and roles of one database" access one
stop_server
if [ ${#failed[@]} -gt 0 ]; then
  printf 'dump: FAILED: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "dump: passed"
