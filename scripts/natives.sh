#!/usr/bin/env bash
# Builds the native archives (RocksDB) once into a cache outside the checkout, and prints the variables that make
# cargo link the saved archive:  eval "$(scripts/natives.sh)"
# The cache is $QUARRY_CACHE, else $XDG_CACHE_HOME/quarry, else ~/.cache/quarry. Several checkouts may share it.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cache=${QUARRY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quarry}
# The archive depends on these inputs and on nothing else.
key=$(cat "$root/natives/Cargo.toml" "$root/natives/Cargo.lock" "$root/.cargo/config.toml" | sha256sum | cut -c1-16)
dir=$cache/rocksdb-$key-$(uname -m)
if [ ! -e "$dir/ready" ]; then
  mkdir -p "$cache"
  exec 9>"$cache/natives.lock"
  if ! flock -n 9; then
    echo "natives: another build is running, waiting for it" >&2
    flock 9
  fi
  if [ ! -e "$dir/ready" ]; then
    echo "natives: building RocksDB once into $dir (15 to 30 minutes on two cores)" >&2
    unset ROCKSDB_LIB_DIR ROCKSDB_STATIC ROCKSDB_INCLUDE_DIR
    rm -rf "$dir.new" && mkdir -p "$dir.new"
    (cd "$root/natives" && CARGO_TARGET_DIR="$dir.new/target" cargo build --release --locked >&2)
    archive=$(ls "$dir.new"/target/release/build/rust-librocksdb-sys-*/out/librocksdb.a | head -n 1)
    cp "$archive" "$dir.new/librocksdb.a"
    # The binding crate compiles its own small extension file whenever it links a prebuilt archive.
    for member in $(ar t "$dir.new/librocksdb.a" | grep c_api_extensions || true); do
      ar d "$dir.new/librocksdb.a" "$member"
    done
    source_dir=$(cd "$root/natives" && cargo metadata --locked --format-version 1 \
      | grep -o '"manifest_path":"[^"]*rust-librocksdb-sys[^"]*"' | head -n 1 | cut -d'"' -f4 | xargs dirname)
    cp -r "$source_dir/rocksdb/include" "$dir.new/include"
    rm -rf "$dir.new/target"
    touch "$dir.new/ready"
    rm -rf "$dir" && mv "$dir.new" "$dir"
  fi
  exec 9>&-
fi
echo "export ROCKSDB_LIB_DIR='$dir'"
echo "export ROCKSDB_INCLUDE_DIR='$dir/include'"
echo "export ROCKSDB_STATIC=1"
# The archive is built without run-time type information; the binding crate's extension file must be, too, or its
# listener refers to type tables that do not exist. A fixed value, so evaluating this twice rebuilds nothing.
echo "export CXXFLAGS=-fno-rtti"
