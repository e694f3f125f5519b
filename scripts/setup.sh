#!/usr/bin/env bash
# Installs what is missing to build Quarry, and nothing that is there: Debian packages, a Rust toolchain.
#   scripts/setup.sh build     compiler, cmake, libclang (for the native archive's bindings), Rust
#   scripts/setup.sh test      the same, and Python and Node.js for the client smokes
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
purpose=${1:-build}

fail() { echo "setup: $*" >&2; exit 1; }

missing=()
# want PACKAGE... -- TEST...: the packages are wanted when the test fails.
want() {
  local packages=()
  while [ "$1" != -- ]; do packages+=("$1"); shift; done
  shift
  "$@" >/dev/null 2>&1 || missing+=("${packages[@]}")
}
has_libclang() { compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' || compgen -G '/usr/lib/*/libclang*.so*' || [ -n "${LIBCLANG_PATH:-}" ]; }

want build-essential -- c++ --version
want cmake -- cmake --version
want clang libclang-dev -- has_libclang
want pkg-config -- pkg-config --version
want git -- git --version
want curl ca-certificates -- curl --version
want util-linux -- flock --version
if [ "$purpose" = test ]; then
  want python3 python3-venv -- python3 -c 'import venv, ensurepip'
  want npm -- npm --version
fi
if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || fail "missing: ${missing[*]} (names of Debian packages); install them and run again"
  sudo=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "missing Debian packages: ${missing[*]}; installing them needs root or sudo"
    sudo=(sudo)
  fi
  echo "setup: installing Debian packages: ${missing[*]}"
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq </dev/null
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
fi

needed=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$root/Cargo.toml")
[ -f "${CARGO_HOME:-$HOME/.cargo}/env" ] && . "${CARGO_HOME:-$HOME/.cargo}/env"
# rustc_is_enough: the toolchain is there and not older than the workspace demands.
rustc_is_enough() {
  local found
  found=$(cd "$root" && rustc --version 2>/dev/null | cut -d' ' -f2) || return 1
  [ -n "$found" ] && [ "$(printf '%s\n' "$needed" "$found" | sort -V | head -n 1)" = "$needed" ]
}
if ! rustc_is_enough; then
  echo "setup: installing a Rust toolchain (at least $needed)"
  if ! command -v rustup >/dev/null; then
    # Newer Debian releases package rustup; elsewhere its own installer is the way.
    "${sudo[@]:-env}" apt-get install -y -qq rustup </dev/null 2>/dev/null \
      || curl --proto '=https' --tlsv1.2 -fsSL https://sh.rustup.rs | sh -s -- -y --profile minimal --default-toolchain none \
      || fail "no Rust toolchain, and rustup could not be installed; install Rust $needed or newer and run again"
    [ -f "${CARGO_HOME:-$HOME/.cargo}/env" ] && . "${CARGO_HOME:-$HOME/.cargo}/env"
  fi
  rustup toolchain install stable --profile minimal </dev/null || fail "rustup could not install the stable toolchain"
  rustup default stable </dev/null
  rustc_is_enough || fail "rustc $(rustc --version 2>/dev/null) is older than $needed"
fi
