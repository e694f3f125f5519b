#!/usr/bin/env bash
# Installs what is missing to build Quarry, and nothing that is there: Debian packages, a Rust toolchain, cargo's packages. Then
# proves by use that every tool of the build works, so that no long compile begins that cannot end.
#   scripts/setup.sh build     C and C++ compiler, archiver, make, Rust
#   scripts/setup.sh test      the same, and git, Python and Node.js for the tests
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
purpose=${1:-build}

say() { echo "setup: $*" >&2; }
fail() { say "$*"; exit 1; }
case $purpose in build | test) ;; *) fail "'$purpose' is unknown; allowed are: build, test" ;; esac
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Each proof uses the tool as the build does; its messages are kept for the one that fails.
cpp_works() {
  printf '#include <string>\n#include <thread>\nint main() { std::thread([] {}).join(); return std::string("a").size() - 1; }\n' >"$scratch/cpp.cc"
  c++ -std=c++20 -O2 -fPIC "$scratch/cpp.cc" -o "$scratch/cpp" && "$scratch/cpp"
}
c_works() {
  printf '#include <stdio.h>\nint main(void) { return puts("") < 0; }\n' >"$scratch/c.c"
  cc -c "$scratch/c.c" -o "$scratch/c.o" && cc "$scratch/c.o" -o "$scratch/c" && "$scratch/c"
}
ar_works() { : >"$scratch/member" && rm -f "$scratch/a.a" && ar crsD "$scratch/a.a" "$scratch/member"; }
make_works() { printf 'all: ; @true\n' | make -f -; }
flock_works() { flock "$scratch/lock" true; }
git_works() { git -C "$root" ls-files --error-unmatch Makefile; }
python_works() { python3 -m venv "$scratch/venv" && "$scratch/venv/bin/pip" --version; }
npm_works() { npm --version && node -e 'process.exit(0)'; }
# As old as this and no older, able to link a program.
rust_works() {
  local needed found
  needed=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$root/Cargo.toml")
  found=$(cd "$root" && rustc --version | cut -d' ' -f2) || return 1
  if [ "$(printf '%s\n' "$needed" "$found" | sort -V | head -n 1)" != "$needed" ]; then
    echo "rustc $found is older than $needed"
    return 1
  fi
  echo 'fn main() {}' >"$scratch/rust.rs"
  (cd "$root" && cargo --version && rustc "$scratch/rust.rs" -o "$scratch/rust") && "$scratch/rust"
}

# What is used, how it is proven, which Debian packages have it.
tools=(
  "C++ compiler|cpp_works|g++"
  "C compiler|c_works|gcc libc6-dev"
  "archiver ar|ar_works|binutils"
  "make|make_works|make"
  "flock|flock_works|util-linux"
)
if [ "$purpose" = test ]; then
  tools+=("git|git_works|git" "Python with venv and pip|python_works|python3 python3-venv" "npm and Node.js|npm_works|npm")
fi

# prove_tools: sets `missing` to the packages of the tools that do not work; says each when given `say`.
prove_tools() {
  local row name proof packages
  missing=()
  for row in "${tools[@]}"; do
    IFS='|' read -r name proof packages <<<"$row"
    if "$proof" >"$scratch/said" 2>&1; then continue; fi
    # shellcheck disable=SC2206
    missing+=($packages)
    if [ "${1:-}" = say ]; then say "missing: $name (Debian: $packages): $(tail -n 1 "$scratch/said")"; fi
  done
}

# install PACKAGE...: Debian packages, as root or with sudo.
install() {
  local sudo=()
  command -v apt-get >/dev/null || return 1
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { say "installing Debian packages needs root or sudo"; return 1; }
    sudo=(sudo)
  fi
  say "installing Debian packages: $*"
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq </dev/null >&2 \
    && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >&2
}

prove_tools
if [ ${#missing[@]} -gt 0 ]; then
  install "${missing[@]}" || say "the packages could not be installed"
  prove_tools say
  [ ${#missing[@]} = 0 ] || fail "install these packages and run this command again: ${missing[*]}"
fi

[ -f "${CARGO_HOME:-$HOME/.cargo}/env" ] && . "${CARGO_HOME:-$HOME/.cargo}/env"
if ! rust_works >"$scratch/said" 2>&1; then
  say "installing a Rust toolchain: $(tail -n 1 "$scratch/said")"
  if ! command -v rustup >/dev/null; then
    # Newer Debian releases package rustup; elsewhere its own installer is the way.
    install rustup || {
      command -v curl >/dev/null || install curl ca-certificates || fail "missing: curl (Debian: curl ca-certificates), to install rustup"
      curl --proto '=https' --tlsv1.2 -fsSL https://sh.rustup.rs | sh -s -- -y --profile minimal --default-toolchain none \
        || fail "rustup could not be installed; install Rust yourself and run again"
    }
    [ -f "${CARGO_HOME:-$HOME/.cargo}/env" ] && . "${CARGO_HOME:-$HOME/.cargo}/env"
  fi
  rustup toolchain install stable --profile minimal </dev/null || fail "rustup could not install the stable toolchain"
  rustup default stable </dev/null || fail "rustup could not make the stable toolchain the default"
  rust_works >"$scratch/said" 2>&1 || fail "missing: Rust: $(tail -n 1 "$scratch/said")"
fi

# The tests check format and lints where the toolchain has them.
if [ "$purpose" = test ] && command -v rustup >/dev/null; then
  for component in rustfmt clippy; do
    cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1 || rustup component add "$component" </dev/null || true
  done
fi
# Everything cargo needs is downloaded before anything is compiled.
(cd "$root" && cargo fetch --locked --quiet --target x86_64-unknown-linux-gnu) \
  || fail "missing: cargo's packages: cargo could not download them (see above; TLS needs Debian: ca-certificates)"
"$root/scripts/natives.sh" sources >/dev/null || fail "missing: the sources of RocksDB: cargo could not download them (see above)"

# free_gb FOLDER: GB free where it is, or where it will be made.
free_gb() {
  local folder=$1
  while [ ! -e "$folder" ]; do folder=$(dirname "$folder"); done
  [ -w "$folder" ] || fail "missing: permission to write into $folder"
  df --output=avail --block-size=1G "$folder" | tail -n 1 | tr -d ' '
}
# Measured: scripts/fresh-root.sh writes what a build leaves behind.
needed_gb=3
if [ "$purpose" = test ]; then needed_gb=10; fi
target=${CARGO_TARGET_DIR:-$root/target}
for folder in "$target" "$("$root/scripts/cache.sh")"; do
  found_gb=$(free_gb "$folder")
  # A folder with output of earlier builds needs less.
  if [ "$found_gb" -lt "$needed_gb" ] && [ ! -e "$folder" ]; then
    fail "missing: space: $folder needs $needed_gb GB, $found_gb GB are free"
  fi
done
