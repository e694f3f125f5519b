#!/usr/bin/env bash
# Tries the packages that scripts/packages.sh has made. Usage: run.sh FOLDER [debian|npm|pypi|image|chart]...
# The Debian package is installed, upgraded and removed in a new Debian root; the npm package and the wheel with this machine's Node.js
# and Python; the image's layer is the root folder of a process. Needs root and debootstrap for the first and the last.
# FRESH_ROOT=DIR (below $TMPDIR) is where roots are made; DIR.base keeps the bare Debian for the next run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
fail() { echo "packages: FAILED: $*" >&2; exit 1; }
[ $# -gt 0 ] || fail "usage: run.sh FOLDER [debian|npm|pypi|image|chart]..."
folder=$(cd "$1" && pwd); shift
[ $# -gt 0 ] || set -- debian npm pypi image chart
root=${FRESH_ROOT:-${TMPDIR:-/tmp}/quarry-package-root}
work=$(mktemp -d)
server=
leave() {
  if [ -n "$server" ]; then kill -KILL "$server" 2>/dev/null || true; fi
  unmount
  rm -rf "$work"
}
unmount() {
  awk -v below="$root/" 'index($2, below) == 1 { print $2 }' /proc/mounts | sort -r | while read -r mounted; do umount -l "$mounted"; done
  if grep -q " $root/" /proc/mounts; then fail "still mounted below $root"; fi
}
trap leave EXIT
one() { ls "$folder"/$1 2>/dev/null | head -n 1 | grep . || fail "$folder holds no $1"; }

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
# answers PORT: sends `hello` in the wire protocol, wants the answer of a primary.
answers() {
  local reply
  exec 7<>"/dev/tcp/127.0.0.1/$1" || return 1
  printf '\x34\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0\x1f\0\0\0\x10hello\0\x01\0\0\0\x02$db\0\x06\0\0\0admin\0\0' >&7
  reply=$(timeout 5 head -c 200 <&7 | tr -cd 'a-zA-Z')
  exec 7>&-
  [[ $reply == *isWritablePrimary* ]]
} 2>/dev/null
# wait_for PORT: until it answers, at most a minute.
wait_for() {
  local began=$SECONDS
  until answers "$1"; do
    kill -0 "$server" 2>/dev/null || { cat "$work/log" >&2; fail "the server ended"; }
    [ $((SECONDS - began)) -lt 60 ] || { cat "$work/log" >&2; fail "no answer within a minute"; }
    sleep 0.2
  done
}
# end: SIGTERM to the server, which must end with status 0.
end() {
  local status=0
  kill -TERM "$server"
  wait "$server" || status=$?
  server=
  [ "$status" = 0 ] || { cat "$work/log" >&2; fail "status $status after SIGTERM"; }
}

# A new Debian root without anything installed.
make_root() {
  local mirror
  [ "$(id -u)" = 0 ] || fail "needs root"
  mirror=$({ sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/*.sources; sed -n 's/^deb \(\[[^]]*\] \)\?\([^ ]*\).*/\2/p' /etc/apt/sources.list; } 2>/dev/null | head -n 1 || true)
  if ! [ -e "$root.base/bare" ]; then
    command -v debootstrap >/dev/null || fail "missing: debootstrap"
    rm -rf --one-file-system "$root.base"
    debootstrap --variant=minbase bookworm "$root.base" $mirror >"$work/debootstrap.log" 2>&1 || { tail "$work/debootstrap.log" >&2; fail "debootstrap"; }
    touch "$root.base/bare"
  fi
  unmount
  rm -rf --one-file-system "$root"
  cp -a "$root.base" "$root"
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  for file in /etc/apt/apt.conf.d/*; do
    if grep -qiE 'proxy|acquire' "$file" && ! [ -e "$root$file" ]; then cp "$file" "$root$file"; fi
  done
  if [ -e /etc/ssl/certs/ca-certificates.crt ]; then install -D /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"; fi
  mount -t proc proc "$root/proc"
}
# inside COMMAND...: becomes the command in the root; enter COMMAND...: runs it there.
inside() { exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive $(env | grep -E '^(https?_proxy|HTTPS?_PROXY|NO_PROXY|no_proxy)=' | tr '\n' ' ') chroot "$root" "$@"; }
enter() { (inside "$@"); }
is() { [ "$(enter stat -c '%U:%G %a' "$1")" = "$2" ] || fail "$1 is $(enter stat -c '%U:%G %a' "$1"), not $2"; }

# serve_as_unit: the command of the systemd unit, as its user; the port is that of the configuration.
serve_as_unit() {
  local command
  command=$(sed -n 's/^ExecStart=//p' "$root/usr/lib/systemd/system/quarry.service")
  # shellcheck disable=SC2086
  inside setpriv --reuid=quarry --regid=quarry --clear-groups $command >"$work/log" 2>&1 &
  server=$!
}

try_debian() {
  local package port began=$SECONDS
  package=$(one 'quarry_*_amd64.deb')
  make_root
  cp "$package" "$root/quarry.deb"
  enter apt-get update -qq >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; fail "apt-get update"; }
  began=$SECONDS
  enter apt-get install -y -qq --no-install-recommends /quarry.deb >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; fail "the package cannot be installed"; }
  is /var/lib/quarry 'quarry:quarry 750'
  is /var/log/quarry 'quarry:quarry 750'
  is /etc/quarry.yaml 'root:root 644'
  port=$(free_port)
  sed -i "s/port: 27017/port: $port/" "$root/etc/quarry.yaml"
  serve_as_unit
  wait_for "$port"
  echo "packages: debian: installed and serving after $((SECONDS - began)) s"
  [ -s "$root/var/log/quarry/quarry.log" ] || fail "the configuration's log is empty"
  # The rotation renames the file; the signal has the server open a new one.
  mv "$root/var/log/quarry/quarry.log" "$root/var/log/quarry/quarry.log.1"
  kill -USR1 "$server"
  for _ in $(seq 50); do [ -e "$root/var/log/quarry/quarry.log" ] && break; sleep 0.1; done
  [ -e "$root/var/log/quarry/quarry.log" ] || fail "the log was not opened again"
  end
  # An upgrade keeps data and the changed configuration.
  local marker="$root/var/lib/quarry/QUARRY-ENGINE"
  [ -e "$marker" ] || fail "no data in /var/lib/quarry"
  rm -rf "$work/newer"
  dpkg-deb -R "$package" "$work/newer"
  sed -i 's/^Version: .*/&+next/' "$work/newer/DEBIAN/control"
  dpkg-deb --root-owner-group --build "$work/newer" "$root/newer.deb" >/dev/null
  enter apt-get install -y -qq /newer.deb >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; fail "no upgrade"; }
  grep -q "port: $port" "$root/etc/quarry.yaml" || fail "the upgrade has changed the configuration"
  serve_as_unit
  wait_for "$port"
  end
  enter apt-get purge -y -qq quarry >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; fail "cannot be removed"; }
  [ -e "$marker" ] || fail "purge has removed data"
  if [ -e "$root/usr/bin/quarry" ] || [ -e "$root/etc/quarry.yaml" ]; then fail "purge has left files"; fi
  echo "packages: debian: upgraded with its data, removed without them"
  unmount
}

try_npm() {
  local package
  package=$(one 'quarry-server-*.tgz')
  mkdir -p "$work/npm" && cd "$work/npm"
  echo '{"private": true}' >package.json
  npm install --silent --no-audit --no-fund "$package" mongodb@6 mongodb-memory-server-core@10 >"$work/npm.log" 2>&1 || { cat "$work/npm.log" >&2; fail "npm install"; }
  cp "$here/npm.js" .
  node npm.js
  npx --no-install quarry --version
  cd - >/dev/null
  echo "packages: npm: a server of its own, and one of mongodb-memory-server"
}

try_pypi() {
  local package
  package=$(one 'quarry_server-*.whl')
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install -q "$package" pymongo pytest >"$work/pip.log" 2>&1 || { cat "$work/pip.log" >&2; fail "pip install"; }
  "$work/venv/bin/quarry" --version
  "$work/venv/bin/python" -m pytest -q -p no:cacheprovider "$here/test_wheel.py"
  echo "packages: pypi: fixtures of pytest"
}

try_image() {
  local packed layer port bytes
  packed=$(one 'quarry-*-image.tar')
  [ "$(id -u)" = 0 ] || fail "needs root"
  mkdir -p "$work/image" "$work/layer"
  tar -C "$work/image" -xf "$packed"
  layer=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[0]["Layers"][0])' "$work/image/manifest.json")
  tar -C "$work/layer" --numeric-owner -xpf "$work/image/$layer"
  port=$(free_port)
  chroot --userspec=27017:27017 "$work/layer" /quarry serve --dbpath /data --bind_ip 127.0.0.1 --port "$port" >"$work/log" 2>&1 &
  server=$!
  wait_for "$port"
  end
  bytes=$(stat -c %s "$packed")
  echo "packages: image: serves as user 27017 in its own root; $bytes bytes"
  # Of a debug build the size says nothing.
  if [ -z "${QUARRY_BINARY:-}" ]; then [ "$bytes" -lt 60000000 ] || fail "the image is not below 60 MB"; fi
}

try_chart() {
  python3 "$here/chart.py" "$here/../helm/quarry"
}

for what in "$@"; do
  case $what in debian | npm | pypi | image | chart) "try_$what" ;; *) fail "'$what' is unknown; allowed are: debian npm pypi image chart" ;; esac
done
