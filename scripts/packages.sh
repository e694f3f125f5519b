#!/usr/bin/env bash
# Makes the packages of packaging/README.md. Usage: packages.sh [FOLDER]
# QUARRY_BINARY=FILE is packed; without it the one that release.sh has built, which needs no library of the system.
# FOLDER (target/dist) gets a Debian package, an npm package, a wheel and a container image, and their SHA-256.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
target=${CARGO_TARGET_DIR:-target}
out=${1:-$target/dist}
fail() { echo "packages: $*" >&2; exit 1; }
for tool in dpkg-deb npm python3 readelf strip; do command -v "$tool" >/dev/null || fail "missing: $tool"; done
[ "$(uname -m)" = x86_64 ] || fail "packages can only be built on x86_64, but this machine is $(uname -m)"

mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
binary=$work/quarry
if [ -n "${QUARRY_BINARY:-}" ]; then
  [ -x "$QUARRY_BINARY" ] || fail "QUARRY_BINARY must name a program, given $QUARRY_BINARY"
  strip -o "$binary" "$QUARRY_BINARY"
else
  packed=$(ls -t "$out"/quarry-*-x86_64-linux.tar.gz 2>/dev/null | head -n 1)
  [ -n "$packed" ] || fail "no binary: run make release, or give QUARRY_BINARY=FILE"
  tar -xzOf "$packed" --wildcards '*/quarry' >"$binary"
fi
chmod 755 "$binary"
version=$("$binary" --version | awk '/^quarry / { print $NF }')
[ -n "$version" ] || fail "the binary does not print its version"
# That of the profile without --compat.
mongodb=$(sed -n '/^static V8_2: /,/^}/s/^ *version: "\(.*\)",$/\1/p' crates/state/src/release.rs)
[ -n "$mongodb" ] || fail "crates/state/src/release.rs has no version in V8_2"
sed "s/@MONGODB@/$mongodb/" packaging/mongod.sh >"$work/mongod"
chmod 755 "$work/mongod"
# Times in archives are those of the commit, so that the same commit makes the same bytes.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
needed=$(readelf -d "$binary" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')

# Debian packages that hold the libraries a binary needs.
depends() {
  local library path
  for library in $needed; do
    path=$(ldd "$binary" | awk -v name="$library" '$1 == name && $3 { print $3 } index($1, "/") && $1 ~ name { print $1 }' | head -n 1)
    [ -n "$path" ] || fail "$library of the binary is not on this machine"
    { dpkg -S "$(readlink -f "$path")" "$path" 2>/dev/null || true; } | sed 's/:.*//' | head -n 1
  done | sort -u | paste -sd, | sed 's/,/, /g'
}

debian() {
  local tree=$work/deb list
  install -D -m 755 "$binary" "$tree/usr/bin/quarry"
  install -D -m 644 packaging/debian/quarry.yaml "$tree/etc/quarry.yaml"
  install -D -m 644 packaging/debian/quarry.service "$tree/usr/lib/systemd/system/quarry.service"
  install -D -m 644 packaging/debian/quarry.logrotate "$tree/etc/logrotate.d/quarry"
  install -D -m 644 LICENSE "$tree/usr/share/doc/quarry/copyright"
  install -m 644 README.md CHANGELOG.md docs/configuration.md docs/operations.md SECURITY.md "$tree/usr/share/doc/quarry/"
  install -d "$tree/DEBIAN"
  for script in postinst prerm postrm; do install -m 755 "packaging/debian/$script" "$tree/DEBIAN/$script"; done
  printf '/etc/quarry.yaml\n/etc/logrotate.d/quarry\n' >"$tree/DEBIAN/conffiles"
  list=$(depends)
  cat >"$tree/DEBIAN/control" <<CONTROL
Package: quarry
Version: $version
Architecture: amd64
Maintainer: The Quarry developers <quarry@localhost>
Section: database
Priority: optional
Installed-Size: $(du -sk "$tree/usr" | cut -f1)
Pre-Depends: passwd
${list:+Depends: $list
}Suggests: logrotate
Description: document database that speaks MongoDB's protocol
 Quarry keeps documents in a write-optimized storage engine and answers
 MongoDB's drivers and tools.
CONTROL
  dpkg-deb --root-owner-group --build "$tree" "$out/quarry_${version}_amd64.deb" >/dev/null
  echo "$out/quarry_${version}_amd64.deb"
}

npm_package() {
  local tree=$work/npm
  mkdir -p "$tree/bin"
  sed "s/@VERSION@/$version/" packaging/npm/package.json >"$tree/package.json"
  cp packaging/npm/index.js packaging/npm/index.d.ts packaging/npm/README.md LICENSE "$tree/"
  cp "$binary" "$work/mongod" "$tree/bin/"
  (cd "$tree" && npm pack --silent --pack-destination "$out" >/dev/null)
  echo "$out/quarry-server-$version.tgz"
}

wheel() {
  local tag=manylinux2014_x86_64
  # With libraries of this system it runs on systems like this one only.
  if [ -n "$needed" ]; then tag=linux_x86_64; fi
  python3 packaging/pypi/wheel.py "$binary" "$work/mongod" "$version" "$tag" "$out"
}

image() {
  local tree=$work/image library
  mkdir -p "$tree/data" "$tree/tmp" "$tree/etc"
  chmod 1777 "$tree/tmp"
  cp "$binary" "$tree/quarry"
  echo "quarry:x:27017:27017::/data:/quarry" >"$tree/etc/passwd"
  if [ -n "$needed" ]; then
    ldd "$binary" | awk 'index($3, "/") == 1 { print $3 } index($1, "/") == 1 { print $1 }' | while read -r library; do
      install -D -m 755 "$(readlink -f "$library")" "$tree$library"
    done
  fi
  python3 packaging/image.py "$tree" "$version" "$out/quarry-$version-image.tar"
}

debian
npm_package
wheel
image
(cd "$out" && sha256sum "quarry_${version}_amd64.deb" "quarry-server-$version.tgz" quarry_server-"$version"-*.whl "quarry-$version-image.tar" >"quarry-$version-packages.sha256")
(cd "$out" && stat -c '%s bytes %n' "quarry_${version}_amd64.deb" "quarry-server-$version.tgz" quarry_server-"$version"-*.whl "quarry-$version-image.tar")
