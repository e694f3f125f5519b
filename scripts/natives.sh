#!/usr/bin/env bash
# Builds the archive of RocksDB once into a cache outside the checkout; cargo asks here for it (natives/rocksdb-sys/build.rs).
#   scripts/natives.sh           builds it when the cache has none
#   scripts/natives.sh folder    the same, and prints the archive's folder
#   scripts/natives.sh sources   prints the folder of the package with RocksDB's sources; builds nothing
# The cache is $QUARRY_CACHE, else $XDG_CACHE_HOME/quarry, else ~/.cache/quarry. Several checkouts may share it.
# A build that was broken off goes on with the object files it has.
# QUARRY_NATIVES_PROFILE makes another archive beside the ordinary one (scripts/release.sh):
#   generate:FOLDER   one that writes to FOLDER how often each branch is taken, when its process ends
#   use:FOLDER        one compiled with what is in FOLDER
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
purpose=${1:-build}
triple=x86_64-unknown-linux-gnu

fail() { echo "natives: $*" >&2; exit 1; }
case $purpose in build | folder | sources) ;; *) fail "'$purpose' is unknown; allowed are: build, folder, sources" ;; esac
[ "$(uname -sm)" = "Linux x86_64" ] || fail "the archive can only be built for Linux on x86-64, but this machine is $(uname -sm)"

# package NAME: folder of a package that natives/rocksdb/Cargo.lock pins; cargo downloads it when it is not there.
package() {
  local manifest
  manifest=$(grep -o "\"manifest_path\":\"[^\"]*/$1-[0-9][^\"]*\"" <<<"$metadata" | head -n 1 | cut -d'"' -f4)
  [ -n "$manifest" ] || fail "natives/rocksdb/Cargo.lock has no package $1"
  dirname "$manifest"
}
read_metadata() {
  metadata=$(cd "$root/natives/rocksdb" && cargo metadata --locked --format-version 1 --filter-platform $triple) \
    || fail "cargo could not download the sources of RocksDB (see above)"
}

if [ "$purpose" = sources ]; then
  read_metadata
  package rust-librocksdb-sys
  exit
fi

# One place says which processors are supported: the options of rustc.
baseline=$root/.cargo/config.toml
cpu=$(sed -n 's/.*-Ctarget-cpu=\([a-z0-9-]*\).*/-march=\1/p' "$baseline")
[ -n "$cpu" ] || fail "no -Ctarget-cpu in $baseline"
if grep -q '+pclmulqdq' "$baseline"; then cpu="$cpu -mpclmul"; fi

# The archive depends on these inputs and on nothing else.
inputs=("$root"/natives/rocksdb/{Cargo.toml,Cargo.lock,rocksdb.mk} "$root/natives/rocksdb-sys/headers.sha256" "$baseline")
key=$(cat "${inputs[@]}" | sha256sum | cut -c1-16)
cache=$("$root/scripts/cache.sh")
dir=$cache/rocksdb-$key-x86_64
profile=
case ${QUARRY_NATIVES_PROFILE:-} in
  '') ;;
  generate:*) profile=generate; profiles=${QUARRY_NATIVES_PROFILE#*:}; dir=$dir-generate ;;
  use:*)
    profile=use
    profiles=${QUARRY_NATIVES_PROFILE#*:}
    compgen -G "$profiles/*.gcda" >/dev/null || fail "no profile in $profiles"
    dir=$dir-$(cat "$profiles"/*.gcda | sha256sum | cut -c1-8)
    ;;
  *) fail "QUARRY_NATIVES_PROFILE is '$QUARRY_NATIVES_PROFILE'; allowed are: generate:FOLDER, use:FOLDER" ;;
esac

build() {
  local sources lz4 zstd work=$dir.part jobs memory_gib part
  read_metadata
  sources=$(package rust-librocksdb-sys)
  lz4=$(package lz4-sys)
  zstd=$(package zstd-sys)
  (cd "$sources" && sha256sum --check --quiet "$root/natives/rocksdb-sys/headers.sha256" >&2) \
    || fail "the bindings do not match the headers in $sources; run scripts/rocksdb-bindings.sh and commit its output"
  # A part of RocksDB takes the compiler up to 1 GiB.
  memory_gib=$(awk '/^MemAvailable/ { print int($2 / 1024 / 1024) }' /proc/meminfo)
  jobs=$(nproc)
  if [ "$jobs" -gt "$memory_gib" ]; then jobs=$((memory_gib > 1 ? memory_gib : 1)); fi
  mkdir -p "$work"
  if [ "$profile" = use ]; then
    # The compiler looks for the profile of an object below the object's own path.
    mkdir -p "$profiles$work"
    for part in "$profiles"/*.gcda; do cp "$part" "$profiles$work/$(basename "$part" .gcda).o.gcda"; done
  fi
  echo "natives: compiling RocksDB once into $dir, $jobs at a time; an interrupted build continues next time" >&2
  # Without the variables of a make above: neither its options nor its job slots are meant for this one.
  env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -j "$jobs" -f "$root/natives/rocksdb/rocksdb.mk" OUT="$work" PACKAGE="$sources" \
    LZ4="$lz4/liblz4/lib" ZSTD="$zstd/zstd/lib" CPU="$cpu" PROFILE="$profile" PROFILES="${profiles:-}" >&2 \
    || fail "RocksDB does not compile (see above); the compiled files stay in $work"
  mkdir -p "$dir"
  mv "$work/librocksdb.a" "$dir/librocksdb.a"
  rm -rf "$work"
}

if [ ! -e "$dir/librocksdb.a" ]; then
  mkdir -p "$cache"
  # The compilers inherit the lock: when only this script is killed, the next one waits until they have ended.
  exec 9>"$cache/natives.lock"
  if ! flock -n 9; then
    echo "natives: another build is running, waiting for it" >&2
    flock 9
  fi
  if [ ! -e "$dir/librocksdb.a" ]; then build; fi
  exec 9>&-
fi
if [ "$purpose" = folder ]; then echo "$dir"; fi
