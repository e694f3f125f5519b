#!/usr/bin/env bash
# Runs every command of docs/lab/map.md that starts its own servers, at smoke size, with the servers
# and settings of the command and the first value of each list. lab/cli/tests/it/map.rs tests the
# commands on the user's targets.
# Usage: map.sh. QUARRY_BIN and LAB_BIN name the binaries; the default are the release builds.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/clients/lib.sh"
lab=${LAB_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry-lab}
quarry=${QUARRY_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry}
[ -x "$lab" ] || fail "no lab at $lab; build quarry-lab or set LAB_BIN"
[ -x "$quarry" ] || fail "no server at $quarry; run make build or set QUARRY_BIN"
has_mariadb=
if command -v mariadbd >/dev/null && command -v mariadb-install-db >/dev/null; then has_mariadb=1; fi

# present SPECS: prints the servers of the list that can be started on this machine.
present() {
  local spec out=
  for spec in ${1//,/ }; do
    case $spec in
      innodb* | myrocks*) [ -n "$has_mariadb" ] || continue ;;
    esac
    case $spec in
      *:allocator=*) [ -e "${spec#*:allocator=}" ] || continue ;;
    esac
    out+=${out:+,}$spec
  done
  echo "$out"
}

tried=0 left_out=0
while read -ra words; do
  small=() own= seconds=(--seconds 1 --warmup-seconds 0)
  for ((at = 2; at < ${#words[@]}; at += 2)); do
    name=${words[at]} value=${words[at + 1]}
    case $name in
      --own) own=$(present "$value") ;;
      --preset | --repeats | --out | --memory-mb | --times-memory) ;;
      --rounds) small+=(--rounds 2) ;;
      --extra-tables) small+=(--extra-tables 3) ;;
      --databases) small+=(--databases 1,2) ;;
      --clients | --payload | --hot-rows)
        small+=("$name" "${value%%,*}")
        ;;
      *) small+=("$name" "$value") ;;
    esac
  done
  if [ -z "$own" ]; then
    echo "lab: the map's '${words[1]}' was not tried: none of its servers is installed"
    left_out=$((left_out + 1))
    continue
  fi
  # Loads end when all rows are stored, not by time.
  case ${words[1]} in insert* | change-log) seconds=() ;; esac
  began=$SECONDS status=0
  "$lab" run "${words[1]}" "${small[@]}" --own "$own" --own-memory-mb 256 \
    --quarry "$quarry" --out "$scratch/results" --rows 2000 \
    --settle-seconds 2 "${seconds[@]}" >"$scratch/lab.log" 2>&1 || status=$?
  if [ "$status" != 0 ]; then
    tail -n 20 "$scratch/lab.log" >&2
    fail "the map's '${words[*]}' ended with status $status"
  fi
  page=$(find "$scratch/results" -mindepth 2 -maxdepth 2 -name report.html | head -n 1)
  grep -q '<h1>' "$page" || fail "the map's '${words[*]}' has no page"
  rm -rf "$scratch/results"
  tried=$((tried + 1))
  echo "lab: the map's '${words[1]}' on $own in $((SECONDS - began)) s"
done < <(sed -n 's/^quarry-lab \(run .* --own .*\)$/\1/p' "$root/docs/lab/map.md")
[ $((tried + left_out)) -ge 10 ] || fail "the map has only $((tried + left_out)) commands with --own"
