#!/usr/bin/env bash
# Every command of the lab's documents, run word by word by the shell as a reader would, on servers that listen where the
# documents say: in namespaces of their own for network and processes, so that 127.0.0.1:27017, 10.0.0.5 and process 4711 are
# there to be used. Only sizes are added: a second, few rows (the program `quarry-lab` on the path adds them where a line gives
# none). docs/lab/map.md has map.sh. Takes some minutes. Needs root. Usage: documents.sh [WORDS...]: only lines with these words.
# QUARRY_BIN and LAB_BIN name the binaries, else the release builds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
if [ -z "${INSIDE:-}" ]; then
  unshare --net --pid --fork --mount-proc true 2>/dev/null || { echo "lab: no namespaces here: documented commands were not tried"; exit 0; }
  INSIDE=1 exec unshare --net --pid --fork --mount-proc "$0" "$@"
fi
. "$root/tests/clients/lib.sh"
lab=$(realpath "${LAB_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry-lab}")
quarry=$(realpath "${QUARRY_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry}")
[ -x "$lab" ] && [ -x "$quarry" ] || fail "no lab at $lab or no server at $quarry"
ip link set lo up
for address in 10.0.0.5 10.0.0.7 10.0.0.8; do ip address add "$address/32" dev lo; done

# What the documents take for granted.
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

serve() {
  "$quarry" serve --dbpath "$scratch/data-$1" --port "$1" --bind_ip 127.0.0.1,10.0.0.5 --allowOpenAccess --nounixsocket --memory 256M >>"$scratch/server.log" 2>&1 &
  running+=($!)
  for ((waited = 0; waited < 300; waited++)); do
    ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null || return 0
    sleep 0.1
  done
  fail "no server on $1: $(tail -n 3 "$scratch/server.log")"
}
serve 27017
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
[ "$spinner" = 4711 ] || fail "the process that was to be 4711 is $spinner"
kill -STOP "$spinner"

# lines PAGE: its commands, each whole and without its comment.
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

tried=0 left_out=0 failed=()
# run_line LINE: as written, and what it left.
run_line() {
  local line=$1 began=$SECONDS status=0 wanted=" 0 "
  case $line in
    *mysql:* | *innodb* | *"target mariadb"*)
      [ -n "$has_mariadb" ] || { echo "lab: left out, no MariaDB here: $line"; left_out=$((left_out + 1)); return; } ;;
    *rocksdb:*)
      "$lab" run --help | grep -q . && "$lab" run point --target rocksdb:none --plan >/dev/null 2>&1 ||
        { echo "lab: left out, this lab has no RocksDB: $line"; left_out=$((left_out + 1)); return; } ;;
  esac
  case $line in
    # They go on until they are told to end.
    *"quarry-lab agent"* | *"quarry-lab record"* | *"target mariadb"*)
      sh -c "exec ${line%&}" >"$scratch/background.log" 2>&1 &
      running+=($!)
      local pid=$!
      sleep 3
      kill -0 "$pid" 2>/dev/null || { failed+=("$line: $(tail -n 1 "$scratch/background.log")"); return; }
      case $line in
        *mariadb*) PORT=$(grep -o 'mysql://[^ ]*' "$scratch/background.log" | grep -o ':[0-9]*' | tail -n 1) ;;
        *record*)
          "$lab" run point --target 'mongodb://127.0.0.1:27018/?directConnection=true' --rows 200 --seconds 1 --out results >/dev/null 2>&1 || true
          kill -INT "$pid" && { wait "$pid" || status=$?; }
          ended "$pid"
          serve 27018 ;;
      esac ;;
    *"quarry-lab profile"*)
      kill -CONT 4711
      sh -c "$line" >"$scratch/lab.log" 2>&1 || status=$?
      kill -KILL 4711 ;;
    *)
      # A claim on smoke sizes may be refuted, a change for the worse found: that is an answer, too.
      case $line in *"--fail-on-worse"*) wanted=" 0 4 " ;; esac
      timeout 300 sh -c "${line//:PORT/${PORT:-:3306}}" >"$scratch/lab.log" 2>&1 || status=$? ;;
  esac
  [[ $wanted == *" $status "* ]] || failed+=("$line: status $status: $(tail -n 2 "$scratch/lab.log" | tr '\n' ' ')")
  tried=$((tried + 1))
  echo "lab: in $((SECONDS - began)) s, status $status: $line"
  # Later lines name runs by other names than their folders have.
  local made
  made=$(find results -mindepth 1 -maxdepth 1 -name '*-point-*' | sort | tail -n 1)
  if [ -n "$made" ] && [ ! -e results/old ]; then
    for name in A B; do cp -r "$made" "results/$name"; done
    mkdir -p results/old results/new
    for side in old new; do
      "$lab" run point --target mongodb://127.0.0.1:27017 --rows 200 --seconds 1 --warmup-seconds 0 --out "results/$side" >/dev/null 2>&1
    done
    "$lab" run point --target mongodb://127.0.0.1:27017 --rows 200 --seconds 60 --warmup-seconds 0 --out interrupted >/dev/null 2>&1 &
    local begun=$!
    sleep 3
    kill -INT "$begun"
    wait "$begun" || true
    sed -i 's/"seconds": *60/"seconds": 1/' interrupted/*/checkpoint.json
    mv interrupted/* results/RUN
  fi
}

for page in docs/lab.md docs/lab/{files,how-to,judging,method,recordings,results,targets,workloads}.md README.md; do
  while read -r line; do
    [ -n "$line" ] || continue
    if [ $# -gt 0 ] && [[ $line != *"$*"* ]]; then continue; fi
    # A line of a recording's replay follows the one that makes it.
    run_line "$line" </dev/null
  done < <(lines "$root/$page")
done
echo "lab: $tried documented commands as written, $left_out left out"
if [ ${#failed[@]} -gt 0 ]; then
  printf 'lab: FAILED: %s\n' "${failed[@]}" >&2
  exit 1
fi
