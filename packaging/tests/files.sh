#!/usr/bin/env bash
# Checks the files that other programs read, by these programs. Usage: files.sh [packing|unit|monitoring|manifests]...
#   packing     scripts/packages.sh packs a small program in place of the server, which takes seconds; what is in the packages
#   unit        the systemd unit, by systemd-analyze
#   monitoring  each metric that alert rules and the dashboard name must be one that the server has; their syntax, by promtool
#   manifests   deploy/kubernetes*.yaml, against the schemas of Kubernetes (kubernetes-validate in PYTHON)
# QUARRY_BIN names the server (monitoring, unit); PROMTOOL and PYTHON the tools. What has no tool here is skipped, by name.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
fail() { echo "packages: FAILED: $*" >&2; exit 1; }
binary=${QUARRY_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/quarry}
promtool=${PROMTOOL:-promtool}
python=${PYTHON:-python3}
work=$(mktemp -d)
server=
leave() {
  if [ -n "$server" ]; then kill -KILL "$server" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap leave EXIT
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

check_unit() {
  command -v systemd-analyze >/dev/null || { echo "packages: unit: skipped, no systemd-analyze"; return; }
  # The unit's program need not be installed where this runs.
  sed "s#^ExecStart=/usr/bin/quarry #ExecStart=$binary #" "$root/packaging/debian/quarry.service" >"$work/quarry.service"
  # It ignores a wrong value with status 0, and says so.
  systemd-analyze verify "$work/quarry.service" >"$work/verified" 2>&1 && [ ! -s "$work/verified" ] || { cat "$work/verified"; fail "systemd-analyze refuses the unit"; }
  echo "packages: unit: systemd-analyze finds nothing"
}

# check_rules FILE WHAT: rules as Prometheus reads them.
check_rules() {
  command -v "$promtool" >/dev/null || { echo "packages: $2: skipped, no promtool"; return; }
  "$promtool" check rules "$1" >"$work/rules" || { cat "$work/rules"; fail "promtool refuses: $2"; }
}

check_monitoring() {
  local port metrics
  port=$(free_port) metrics=$(free_port)
  "$binary" serve --dbpath "$work/data" --port "$port" --bind_ip 127.0.0.1 --nounixsocket --metricsPort "$metrics" </dev/null >"$work/log" 2>&1 &
  server=$!
  for _ in $(seq 600); do
    python3 -c 'import sys, urllib.request; sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1]).read())' "http://127.0.0.1:$metrics/metrics" \
      >"$work/metrics" 2>/dev/null && break
    sleep 0.1
  done
  [ -s "$work/metrics" ] || { tail -n 5 "$work/log"; fail "no metrics within a minute"; }
  kill -TERM "$server" && wait "$server" && server= || fail "the server did not end well"
  python3 "$here/queries.py" "$root/packaging/monitoring" "$work/metrics" "$work/queries.yaml"
  check_rules "$root/packaging/monitoring/alerts.yaml" "alert rules"
  check_rules "$work/queries.yaml" "queries of the dashboard"
}

check_manifests() {
  "$python" -c 'import kubernetes_validate' 2>/dev/null || { echo "packages: manifests: skipped, no kubernetes-validate in $python"; return; }
  "$python" "$here/manifests.py" "$root"/deploy/kubernetes*.yaml
}

check_packing() {
  local out=$work/dist tool archive
  for tool in cc dpkg-deb npm readelf; do command -v "$tool" >/dev/null || { echo "packages: packing: skipped, no $tool"; return; }; done
  printf '#include <stdio.h>\nint main(void) { return puts("quarry 9.9.9") < 0; }\n' >"$work/small.c"
  cc -O2 "$work/small.c" -o "$work/small"
  QUARRY_BINARY=$work/small "$root/scripts/packages.sh" "$out" >"$work/packed" 2>&1 || { cat "$work/packed"; fail "scripts/packages.sh"; }
  dpkg-deb --contents "$out/quarry_9.9.9_amd64.deb" >"$work/contents"
  grep -q ' \./usr/bin/quarry$' "$work/contents" || fail "no /usr/bin/quarry in the Debian package"
  mkdir -p "$work/npm" "$work/wheel"
  tar -C "$work/npm" -xzf "$out/quarry-server-9.9.9.tgz"
  python3 -m zipfile -e "$out"/quarry_server-9.9.9-*.whl "$work/wheel"
  chmod -R u+x "$work/wheel"
  for archive in npm wheel; do
    tool=$(find "$work/$archive" -name mongod -type f | head -n 1)
    [ -n "$tool" ] || fail "no mongod in the $archive package"
    # It says the version of MongoDB that the server presents, whatever is asked for besides.
    sh "$tool" --version >"$work/version"
    grep -qE '^db version v[0-9]+\.[0-9]+\.[0-9]+$' "$work/version" || { cat "$work/version"; fail "mongod of the $archive package tells no version"; }
  done
  echo "packages: packing: $(find "$out" -type f | wc -l) files"
}

[ $# -gt 0 ] || set -- packing unit monitoring manifests
mkdir "$work/data"
for what in "$@"; do
  case $what in packing | unit | monitoring | manifests) "check_$what" ;; *) fail "'$what' is unknown; allowed are: packing unit monitoring manifests" ;; esac
done
