#!/usr/bin/env bash
# Builds the server as one file that needs no library of the system it runs on, and packs it. Usage: release.sh [FOLDER]
# FOLDER (target/dist) gets quarry-VERSION-x86_64-linux.tar.gz, its SHA-256, and the debug information apart.
# The server is built twice: first one that counts which code runs (scripts/train.sh), then, with these counts, the released one.
# That takes about 45 minutes on two processors; QUARRY_RELEASE_TRAINED=no leaves it out.
# The binary is tried in a root folder with nothing else in it, as far as this user may make one.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
target=${CARGO_TARGET_DIR:-target}
out=${1:-$target/dist}
triple=x86_64-unknown-linux-gnu
fail() { echo "release: $*" >&2; exit 1; }

# build FLAGS: the server with these options of rustc.
build() {
  # PCRE2 is linked in, whatever this machine has installed.
  PCRE2_SYS_STATIC=1 cargo build --release --locked -p quarry-server --features tikv --target $triple --config "target.$triple.rustflags=[$1]"
}

# train: sets `learnt` and QUARRY_NATIVES_PROFILE for a build that uses the counts.
train() {
  local folder part merge
  merge=$(rustc --print sysroot)/lib/rustlib/$triple/bin/llvm-profdata
  [ -x "$merge" ] || rustup component add llvm-tools || fail "the component llvm-tools of Rust is missing; QUARRY_RELEASE_TRAINED=no builds without it"
  mkdir -p "$target"
  folder=$(cd "$target" && pwd)/trained
  rm -rf "$folder"
  mkdir -p "$folder"/{rust,natives,used}
  export QUARRY_NATIVES_PROFILE=generate:$folder/natives
  scripts/natives.sh
  build "'-Cprofile-generate=$folder/rust', '-Clink-arg=-lgcov'"
  env -u QUARRY_NATIVES_PROFILE cargo build --manifest-path lab/Cargo.toml --target-dir "$target" --release --locked -p quarry-lab
  scripts/train.sh "$target/$triple/release/quarry" "$target/release/quarry-lab" "$folder/runs"
  "$merge" merge -o "$folder/quarry.profdata" "$folder"/rust/*.profraw
  # The compiler names a profile by the path of the object file, which is another one in the next build.
  find "$folder/natives" -name '*.gcda' | while read -r part; do
    cp "$part" "$folder/used/$(basename "$part" | grep -o 'group-[0-9]*').gcda"
  done
  export QUARRY_NATIVES_PROFILE=use:$folder/used
  learnt=", '-Cprofile-use=$folder/quarry.profdata'"
}

learnt=
[ "${QUARRY_RELEASE_TRAINED:-yes}" = no ] || train
scripts/natives.sh
# Random numbers come from the system call: a static binary cannot look for the function at run time, and the file it would read
# instead is not everywhere.
build "'-Ctarget-feature=+crt-static', '--cfg', 'getrandom_backend=\"linux_getrandom\"'$learnt"
built=$target/$triple/release/quarry
needed=$(readelf -d "$built" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
[ -z "$needed" ] || fail "the binary needs libraries of the system: $needed"
version=$("$built" --version | awk '{ print $NF }')
# Called as mongod it tells its commit, as buildInfo does: runs of different builds are told apart by it.
told=$(exec -a mongod "$built" --version | sed -n 's/.*"gitVersion": "\(.*\)".*/\1/p')
wanted=${QUARRY_GIT_VERSION:-$(git rev-parse HEAD)}
[ "$told" = "$wanted" ] || fail "the binary reports commit '$told' instead of '$wanted'"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=quarry-$version-x86_64-linux
mkdir -p "$work/$name" "$out"
objcopy --only-keep-debug --compress-debug-sections "$built" "$out/$name.debug"
objcopy --strip-all --add-gnu-debuglink="$out/$name.debug" "$built" "$work/$name/quarry"
cp LICENSE README.md CHANGELOG.md "$work/$name/"

# A server must start, write and stop where there is no /lib, no /etc and no /proc.
mkdir -p "$work/empty/data" "$work/empty/tmp"
cp "$work/$name/quarry" "$work/empty/"
if [ "$(id -u)" = 0 ]; then
  chroot "$work/empty" /quarry --version >/dev/null || fail "the binary does not start in an empty root"
  chroot "$work/empty" /quarry serve --dbpath /data --port 0 --nounixsocket >"$work/log" 2>&1 &
  server=$!
  for _ in $(seq 100); do grep -q mongodb:// "$work/log" && break; kill -0 $server 2>/dev/null || break; sleep 0.1; done
  grep -q mongodb:// "$work/log" || { cat "$work/log" >&2; fail "the server does not serve in an empty root"; }
  kill -TERM $server
  wait $server || { cat "$work/log" >&2; fail "the server did not stop with status 0"; }
  # A static program that loaded a library would crash.
  wired=$(chroot "$work/empty" /quarry serve --dbpath /tmp --port 0 --storageEngine wiredTiger --wiredTigerLibrary x.so 2>&1) \
    && fail "the static binary served although it needs a library, which it cannot load"
  grep -q "static file that loads no libraries" <<<"$wired" || fail "the refusal does not name WiredTiger: $wired"
else
  echo "release: not tried in an empty root folder, because that needs the user root"
fi

tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
(cd "$out" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "release: $(stat -c %s "$work/$name/quarry") bytes of binary, $(stat -c %s "$out/$name.tar.gz") packed, in $out/$name.tar.gz"
