#!/usr/bin/env bash
# Runs every workload's smoke preset against a real server, in steps of a second: acknowledged writes
# must be stored (otherwise the lab exits with 4). Then, if no workloads are named, at the smallest
# size: a program during a step, a server with logins and TLS, a profile, and several servers of one
# database in a TiKV cluster, if it was built (scripts/cluster.sh build).
# Usage: run.sh [WORKLOAD...]. QUARRY_BIN and LAB_BIN name the binaries; the default are the release builds.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/clients/lib.sh"
lab=${LAB_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry-lab}
[ -x "$lab" ] || fail "no lab at $lab; build quarry-lab or set LAB_BIN"

if [ $# -gt 0 ]; then
  names=("$@")
else
  mapfile -t names < <("$lab" list | sed -n 's/^\([a-z0-9-]*\): .*/\1/p')
fi
[ ${#names[@]} -gt 0 ] || fail "the lab lists no workload"

# try_out PLACE NAME: runs the workload's smoke preset with small sizes.
try_out() {
  local name=$2
  local began=$SECONDS status=0 seconds=(--seconds 1) rows=5000 settle=20
  # Loads end when all rows are stored; a time limit would cut them short on a slow machine.
  case $name in
    # A debug build of the server builds search indexes slowly.
    search | vector) rows=1000 settle=120 ;;
    insert | insert-classic | insert-grow | insert-rounds | db-bench*) seconds=() ;;
  esac
  "$lab" run "$name" "${address[@]}" --out "$scratch/results" \
    --rows "$rows" --warmup-seconds 0 --settle-seconds "$settle" "${seconds[@]}" \
    >"$scratch/lab.log" 2>&1 || status=$?
  if [ "$status" != 0 ]; then
    tail -n 20 "$scratch/lab.log" >&2
    fail "workload '$name' ended with status $status on $1"
  fi
  grep -q '^right: ' "$scratch/lab.log" ||
    fail "workload '$name' checked nothing: $(tail -n 3 "$scratch/lab.log")"
  echo "lab: $name right on $1 in $((SECONDS - began)) s"
}

# Transactions and change streams need a member of a replica set.
set=" trx tpcc linkbench backup fan-out follow "
# Workloads on several servers run below.
[ $# -gt 0 ] || names=("${names[@]/#equal-servers/}")
start_server "$scratch/data" --memory 512M --standalone
address=(--target "mongodb://$ADDRESS")
for name in "${names[@]}"; do
  [[ -z $name || $set == *" $name "* ]] || try_out "a standalone server" "$name"
done
stop_server
start_server "$scratch/set" --memory 512M
address=(--target "mongodb://$ADDRESS/?directConnection=true")
for name in "${names[@]}"; do
  [[ -z $name || $set != *" $name "* ]] || try_out "a replica set" "$name"
done
if [ $# -gt 0 ]; then
  stop_server
else
  # A migration and backups during the work; the copy must soon equal the original.
  source=$SERVER_PID from=$ADDRESS quarry=${QUARRY_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry}
  start_server "$scratch/copy" --memory 512M
  export QUARRY=$quarry COPY="mongodb://$ADDRESS/?directConnection=true" REPOSITORY=$scratch/backups
  address=(--target "mongodb://$from/?directConnection=true")
  address+=(--program '"$QUARRY" follow "$LAB_TARGET" --to "$COPY" --include quarry_lab' --copy "$COPY")
  try_out "a server that is followed" follow
  stop_server
  address=(--target "mongodb://$from/?directConnection=true")
  address+=(--program '"$QUARRY" backup make --uri "$LAB_TARGET" "$REPOSITORY"')
  try_out "a server that is backed up" backup
  # Stacks of a server under load: with perf or, if perf gets none, with gdb, which also shows waiting threads.
  if command -v perf >/dev/null || command -v gdb >/dev/null; then
    "$lab" run point --target "mongodb://$from/?directConnection=true" --out "$scratch/results" \
      --rows 1000 --clients 8 --seconds 10 --warmup-seconds 0 >"$scratch/load.log" 2>&1 &
    load=$!
    sleep 3
    for how in perf gdb; do
      "$lab" profile --pid "$source" --with "$how" --seconds 2 --out "$scratch/profile" >"$scratch/lab.log" 2>&1 && break
    done
    wait "$load" || fail "the load beside the profile failed: $(tail -n 3 "$scratch/load.log")"
    [ -s "$scratch/profile/stacks.txt" ] && [ -s "$scratch/profile/flamegraph.svg" ] ||
      fail "the profile failed: $(tail -n 3 "$scratch/lab.log")"
    echo "lab: profile by $how with $(wc -l <"$scratch/profile/stacks.collapsed") stacks"
  else
    echo "lab: neither perf nor gdb is installed: no profile was tried"
  fi
  stop_server "$source"

  # Logins and TLS.
  python_with_pymongo
  "$root/tests/clients/logins/certificates.sh" "$scratch/certificates"
  start_server "$scratch/locked" --memory 512M --auth --tlsMode requireTLS --tlsCAFile "$scratch/certificates/ca.pem" \
    --tlsCertificateKeyFile "$scratch/certificates/server.pem" --tlsAllowConnectionsWithoutCertificates
  "$PYTHON" -c 'import pymongo, sys; pymongo.MongoClient(sys.argv[1]).admin.command("createUser", "lab", pwd="k7 quarrel", roles=["root"])' \
    "mongodb://$ADDRESS/?directConnection=true&tls=true&tlsCAFile=$scratch/certificates/ca.pem"
  locked="$ADDRESS/?directConnection=true&authSource=admin&tls=true&tlsCAFile=$scratch/certificates/ca.pem"
  address=(--target "mongodb://lab:k7%20quarrel@$locked")
  try_out "a server with logins and TLS" point
  ! grep -rq 'k7%20quarrel\|k7 quarrel' "$scratch/results" || fail "a result holds the password"
  status=0
  "$lab" run point --target "mongodb://lab:another@$locked" --out "$scratch/results" --rows 100 \
    --seconds 1 >"$scratch/lab.log" 2>&1 || status=$?
  [ "$status" = 1 ] || fail "a wrong password ended with status $status: $(tail -n 3 "$scratch/lab.log")"
  stop_server

  # Three servers of one database.
  if ! compgen -G "$cache/tikv-*/unistore-server" >/dev/null; then
    echo "lab: the TiKV cluster for tests is not built (scripts/cluster.sh build): equal servers were not tried"
  elif ! has_tikv "$quarry"; then
    echo "lab: this server was built without TiKV: equal servers were not tried"
  else
    coproc HOLD { "$root/scripts/cluster.sh" hold; }
    hold=${HOLD[1]}
    read -r word pd _ <&"${HOLD[0]}"
    [ "$word" = ready ] || fail "no cluster: $word"
    hosts=() pids=()
    for number in 1 2 3; do
      start_server "$scratch/equal$number" --memory 512M --storageEngine tikv --tikvPd "$pd" --tikvPrefix lab --tikvAddress @ADDRESS@
      hosts+=("$ADDRESS") pids+=("$SERVER_PID")
    done
    address=(--target "mongodb://$(IFS=,; echo "${hosts[*]}")/")
    try_out "three servers" equal-servers
    for pid in "${pids[2]}" "${pids[1]}" "${pids[0]}"; do stop_server "$pid"; done
    exec {hold}>&-
  fi
fi
# The same transactions on InnoDB, where it is installed.
if command -v mariadbd >/dev/null && command -v mariadb-install-db >/dev/null; then
  address=(--own innodb --own-memory-mb 256)
  for name in "${names[@]}"; do
    [[ " trx tpcc linkbench backup " != *" $name "* ]] || try_out "InnoDB" "$name"
  done
else
  echo "lab: MariaDB is not installed: transactions were not tried on InnoDB"
fi
