#!/usr/bin/env bash
# Runs every command of the lab's documents in a shell, exactly as a reader would, on servers at the documents' addresses.
# Separate namespaces for network and processes make 127.0.0.1:27017, 10.0.0.5 and process 4711 available. Only sizes are
# added, such as one second and few rows: the program `quarry-lab` on the path adds them if a line has none. docs/lab/map.md
# has its own script, map.sh. Takes about ten minutes; with --short, which skips lines that make several runs or take ten
# seconds, about one minute. Needs root.
# Usage: documents.sh [--short] [WORDS...]: only lines with these words.
# QUARRY_BIN and LAB_BIN name the binaries; the default are the release builds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
if [ -z "${INSIDE:-}" ]; then
  unshare --net --pid --fork --mount-proc true 2>/dev/null || { echo "lab: this machine has no namespaces: documented commands were not tried"; exit 0; }
  INSIDE=1 exec unshare --net --pid --fork --mount-proc "$0" "$@"
fi
short=
[ "${1:-}" != --short ] || { short=1; shift; }
. "$root/tests/clients/lib.sh"
lab=$(realpath "${LAB_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry-lab}")
quarry=$(realpath "${QUARRY_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry}")
[ -x "$lab" ] && [ -x "$quarry" ] || fail "no lab at $lab or no server at $quarry"
ip link set lo up
for address in 10.0.0.5 10.0.0.7 10.0.0.8; do ip address add "$address/32" dev lo; done

# The files and servers that the documents assume.
work=$scratch/work
mkdir -p "$work/old" "$work/new" "$work/results" "$scratch/bin"
cd "$work"
cp "$quarry" "$work/old/quarry"
cp "$quarry" "$work/new/quarry"
printf ' ' >>"$work/new/quarry"
cp "$root/lab/examples/01-orders.toml" mine.toml
head -c 32 /dev/urandom | base64 >token
ln -s "$quarry" "$scratch/bin/quarry"
cat >"$scratch/bin/quarry-lab" <<END
#!/usr/bin/env bash
words=("\$@") more=()
add() { [[ " \${words[*]} " == *" \$1 "* ]] || more+=("\$1" "\$2"); }
if [ "\$1" = run ] || { [ "\$1" = claims ] && [[ " \${words[*]} " != *" --list "* ]]; }; then
  for at in "\${!words[@]}"; do
    case \${words[at]} in
      A) words[at]=mongodb://127.0.0.1:27017 ;;
      B) words[at]=redb:data/b ;;
    esac
  done
  if [ "\$1" = run ]; then
    [[ " \${words[*]} " == *" --times-memory "* ]] || add --rows 500
    add --seconds 1
    add --warmup-seconds 0
    add --settle-seconds 60
    add --quarry "$quarry"
  fi
fi
exec "$lab" "\${words[@]}" "\${more[@]}"
END
chmod +x "$scratch/bin/quarry-lab"
export PATH=$scratch/bin:$PATH

declare -A server
data=$scratch/data
# serve PORT [OPTION...]: starts a server on the port, with the data of the previous server there.
serve() {
  local port=$1
  shift
  "$quarry" serve --dbpath "$data-$port" --port "$port" --bind_ip 127.0.0.1,10.0.0.5 --allowOpenAccess --nounixsocket --memory 256M "$@" \
    >>"$scratch/server.log" 2>&1 &
  server[$port]=$!
  running+=("$!")
  for ((waited = 0; waited < 300; waited++)); do
    ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || return 0
    sleep 0.1
  done
  fail "no server on $port: $(tail -n 3 "$scratch/server.log")"
}
# stop PORT...: ends the servers on these ports.
stop() {
  local port
  for port in "$@"; do
    stop_server "${server[$port]}"
  done
}
serve 27017
serve 27018
serve 27019
has_mariadb=
if command -v mariadbd >/dev/null && command -v mariadb-install-db >/dev/null; then
  has_mariadb=1
  mariadb-install-db --no-defaults --datadir="$scratch/mariadb" --auth-root-authentication-method=normal >"$scratch/mariadb.log" 2>&1
  mariadbd --no-defaults --user=root --datadir="$scratch/mariadb" --port=3306 --bind-address=127.0.0.1 \
    --socket="$scratch/mariadb.sock" >>"$scratch/mariadb.log" 2>&1 &
  running+=($!)
fi
# Process 4711 of the profile.
echo 4710 >/proc/sys/kernel/ns_last_pid
sh -c 'while :; do :; done' &
spinner=$!
running+=("$spinner")
[ "$spinner" = 4711 ] || fail "the process should have had the id 4711, but has $spinner"
kill -STOP "$spinner"

# lines PAGE: prints the page's commands, one per line, without comments.
lines() {
  python3 - "$1" <<'END'
import sys
code = goes_on = False
out = []
for line in open(sys.argv[1]):
    line = line.rstrip("\n")
    if line.startswith("```"):
        code = not code
        continue
    if not code and not line.startswith("    "):
        continue
    line = line.strip().removeprefix("target/release/")
    if not line.startswith("quarry-lab ") and not goes_on:
        continue
    line = line.split(" #")[0].strip()
    part = line.rstrip("\\").strip()
    if goes_on:
        out[-1] += " " + part
    else:
        out.append(part)
    goes_on = line.endswith("\\")
print("\n".join(out))
END
}

# Runs that the documents name: two runs of each of two groups, and an interrupted run.
smallest=(--target mongodb://127.0.0.1:27017 --rows 200 --seconds 1 --warmup-seconds 0)
for name in old new; do
  "$lab" run point "${smallest[@]}" --out "results/$name" >"$scratch/lab.log" 2>&1 || fail "a run failed: $(tail -n 2 "$scratch/lab.log")"
done
cp -r results/old/*-point-* results/A
cp -r results/new/*-point-* results/B
"$lab" run point --target mongodb://127.0.0.1:27017 --rows 200 --seconds 5 --warmup-seconds 0 --out interrupted >"$scratch/lab.log" 2>&1 &
begun=$!
for ((waited = 0; waited < 100; waited++)); do
  ! compgen -G 'interrupted/*/checkpoint.json' >/dev/null || break
  sleep 0.1
done
sleep 1
kill -INT "$begun"
wait "$begun" || true
compgen -G 'interrupted/*/checkpoint.json' >/dev/null || fail "the interrupted run left no checkpoint: $(tail -n 2 "$scratch/lab.log")"
mv interrupted/* results/RUN

tried=0 left_out=0 later=0 failed=()
# measure_equals LINE: runs the line on three servers that share one database in a TiKV cluster, in place of the usual servers.
measure_equals() {
  local pd word port hold
  stop 27017 27018 27019
  coproc HOLD { "$root/scripts/cluster.sh" hold; }
  hold=${HOLD[1]}
  read -r word pd _ <&"${HOLD[0]}"
  [ "$word" = ready ] || fail "no cluster: $word"
  # The usual servers keep their data in another directory.
  data=$scratch/equal
  for port in 27017 27018 27019; do
    serve "$port" --storageEngine tikv --tikvPd "$pd" --tikvPrefix lab --tikvAddress "127.0.0.1:$port"
  done
  timeout 300 sh -c "$1" >"$scratch/lab.log" 2>&1 || status=$?
  stop 27019 27018 27017
  exec {hold}>&-
  data=$scratch/data
  for port in 27017 27018 27019; do serve "$port"; done
}
# run_line LINE: runs the line as written, and checks its status.
run_line() {
  local line=$1 began=$SECONDS status=0 wanted=" 0 "
  if [ -n "$short" ]; then
    case $line in *--repeats* | *--own* | *"--clients "*,* | *"run ycsb"* | *" claims "* | *" profile "* | *vector,search*)
      later=$((later + 1))
      return ;;
    esac
  fi
  case $line in
    *mysql:* | *innodb* | *"target mariadb"*)
      [ -n "$has_mariadb" ] || { echo "lab: left out, MariaDB is not installed: $line"; left_out=$((left_out + 1)); return; } ;;
    *equal-servers*)
      { compgen -G "$cache/tikv-*/unistore-server" >/dev/null && has_tikv "$quarry"; } ||
        { echo "lab: left out, the TiKV cluster for tests is not built (scripts/cluster.sh build): $line"; left_out=$((left_out + 1)); return; } ;;
    *rocksdb:* | *lmdb:*)
      local engine=rocksdb
      [[ $line != *lmdb:* ]] || engine=lmdb
      "$lab" run point --target $engine:none --plan >/dev/null 2>&1 ||
        { echo "lab: left out, this lab has no driver of $engine: $line"; left_out=$((left_out + 1)); return; } ;;
  esac
  case $line in
    # These commands run until they are told to end.
    *"quarry-lab agent"* | *"quarry-lab record"* | *"target mariadb"*)
      # The recorded server starts empty, and the recorder takes the port of another server.
      case $line in *record*)
        stop 27017 27018
        rm -rf "$scratch"/data-27017
        serve 27017 ;;
      esac
      : >"$scratch/background.log"
      sh -c "exec ${line%&}" >"$scratch/background.log" 2>&1 &
      running+=($!)
      local pid=$!
      for ((waited = 0; waited < 600; waited++)); do
        # Each of these commands prints its address.
        ! grep -q ':[0-9]' "$scratch/background.log" || break
        kill -0 "$pid" 2>/dev/null || { failed+=("$line: $(tail -n 1 "$scratch/background.log")"); return; }
        sleep 0.1
      done
      case $line in
        *mariadb*)
          mariadb_target=$pid
          PORT=$(grep -o 'mysql://[^ ]*' "$scratch/background.log" | grep -o ':[0-9]*' | tail -n 1) ;;
        *record*)
          "$lab" run point --target 'mongodb://127.0.0.1:27018/?directConnection=true' --rows 200 --seconds 1 --out results \
            >"$scratch/lab.log" 2>&1 || status=$?
          kill -INT "$pid" && { wait "$pid" || status=$?; }
          ended "$pid"
          serve 27018 ;;
      esac ;;
    *equal-servers*) measure_equals "$line" ;;
    *"quarry-lab profile"*)
      kill -CONT 4711
      sh -c "$line" >"$scratch/lab.log" 2>&1 || status=$?
      kill -STOP 4711 ;;
    *"quarry-lab replay"*)
      # The recordings began with an empty server.
      stop 27019
      rm -rf "$scratch/data-27019"
      serve 27019
      timeout 300 sh -c "$line" >"$scratch/lab.log" 2>&1 || status=$? ;;
    *)
      # With smoke sizes the lab may find a change for the worse (status 4), which is a valid result.
      case $line in *"--fail-on-worse"*) wanted=" 0 4 " ;; esac
      timeout 300 sh -c "${line//:PORT/${PORT:-:3306}}" >"$scratch/lab.log" 2>&1 || status=$? ;;
  esac
  [[ $wanted == *" $status "* ]] || failed+=("$line: status $status: $(tail -n 2 "$scratch/lab.log" | tr '\n' ' ')")
  tried=$((tried + 1))
  echo "lab: in $((SECONDS - began)) s, status $status: $line"
}

for page in docs/lab.md docs/lab/{files,how-to,judging,method,recordings,results,targets,workloads}.md README.md; do
  while read -r line; do
    [ -n "$line" ] || continue
    if [ $# -gt 0 ] && [[ $line != *"$*"* ]]; then continue; fi
    # The line that replays a recording follows the line that makes it.
    run_line "$line" </dev/null
  done < <(lines "$root/$page")
done
[ -z "${mariadb_target:-}" ] || { kill -INT "$mariadb_target"; wait "$mariadb_target" || true; ended "$mariadb_target"; }
echo "lab: $tried documented commands as written, $left_out left out$([ -z "$short" ] || echo ", $later only in the whole run (make lab-documents)")"
if [ ${#failed[@]} -gt 0 ]; then
  printf 'lab: FAILED: %s\n' "${failed[@]}" >&2
  exit 1
fi
