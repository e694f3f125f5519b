#!/usr/bin/env bash
# Runs both commands of the README in a new Debian root with nothing in it but make, git, ca-certificates and this machine's Rust
# toolchain, and no cache. Needs root and debootstrap; takes this checkout as committed.
#   --only serve|test     one of the commands; both without it
#   --with "PACKAGE..."   Debian packages installed before, such as libclang-cpp14
#   --interrupt COUNT     kill -9 of `make serve` once COUNT parts of RocksDB are compiled, then the command again
#   --log FILE            the result (./fresh-root.log)
#   --root DIR            where the root is made (below $TMPDIR); DIR.base keeps the bare one for the next run
#   --keep                leaves the root there
# Status 0 when every command did what it should. The log ends with what was installed and how long each step took.
set -euo pipefail
checkout=$(cd "$(dirname "$0")/.." && pwd)

fail() { echo "fresh-root: $*" >&2; exit 1; }
only="serve test" with=() interrupt=0 log=fresh-root.log keep=0 root=${TMPDIR:-/tmp}/quarry-fresh-root suite=bookworm
while [ $# -gt 0 ]; do
  case $1 in
    --keep) keep=1; shift; continue ;;
    --only | --with | --interrupt | --log | --root) [ $# -gt 1 ] || fail "$1 needs a value" ;;
    *) fail "option '$1' is unknown; allowed are: --only --with --interrupt --log --root --keep" ;;
  esac
  case $1 in
    --only) case $2 in serve | test) only=$2 ;; *) fail "--only must be serve or test, given '$2'" ;; esac ;;
    --with) read -r -a with <<<"${2//,/ }" ;;
    --interrupt) interrupt=$2 ;;
    --log) log=$2 ;;
    --root) root=$2 ;;
  esac
  shift 2
done
[ "$(id -u)" = 0 ] || fail "needs root: it mounts and changes the root folder"
command -v debootstrap >/dev/null || fail "missing: debootstrap (Debian: debootstrap)"
mkdir -p "$root" && root=$(cd "$root" && pwd)
[ "$root" != / ] || fail "--root names the root folder of this machine"
base=$root.base
exec 8>"$base.lock"
flock -n 8 || fail "another run uses $root"
log=$(realpath "$log")
: >"$log"

note() { printf '%s %s\n' "$(date -u +%H:%M:%S)" "$*" | tee -a "$log"; }

# Takes every mount below the root away, so that nothing of this machine is removed with it.
unmount() {
  awk -v below="$root/" 'index($2, below) == 1 { print $2 }' /proc/mounts | sort -r | while read -r mounted; do umount -l "$mounted"; done
  if grep -q " $root/" /proc/mounts; then fail "still mounted below $root"; fi
}
running=
leave() {
  if [ -n "$running" ]; then stop_all; fi
  rm -f "$root.times"
  unmount
  if [ "$keep" = 0 ]; then rm -rf --one-file-system "$root"; fi
}

# mirror: prints where this machine gets its Debian packages.
mirror() {
  { sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/*.sources
    sed -n 's/^deb \(\[[^]]*\] \)\?\([^ ]*\).*/\2/p' /etc/apt/sources.list; } 2>/dev/null | head -n 1
}

make_base() {
  [ -e "$base/bare" ] && return
  note "making a bare $suite with debootstrap"
  rm -rf --one-file-system "$base"
  debootstrap --variant=minbase --include=make,ca-certificates,git "$suite" "$base" $(mirror) >>"$log" 2>&1 \
    || fail "debootstrap failed, see $log"
  touch "$base/bare"
}

make_root() {
  unmount
  rm -rf --one-file-system "$root"
  cp -a "$base" "$root"
  # How this machine reaches its package sources, and which certificates it trusts.
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  for file in /etc/apt/apt.conf.d/*; do
    if grep -qiE 'proxy|acquire' "$file" && ! [ -e "$root$file" ]; then cp "$file" "$root$file"; fi
  done
  if [ -e /etc/ssl/certs/ca-certificates.crt ]; then cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"; fi
  mkdir -p "$root$rustup" "$root$cargo/bin" "$root/root"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --make-rslave "$root/dev"
  mount --bind "$rustup" "$root$rustup"
  mount -o remount,bind,ro "$root$rustup"
  cp "$cargo"/bin/* "$root$cargo/bin/"
  for file in "$cargo"/config.toml "$cargo"/config /etc/pip.conf "$HOME"/.npmrc; do
    if [ -e "$file" ]; then mkdir -p "$root$(dirname "$file")" && cp "$file" "$root$file"; fi
  done
  git clone -q "$checkout" "$root/quarry"
  packages >"$root/packages.before"
}
rustup=${RUSTUP_HOME:-$HOME/.rustup} cargo=${CARGO_HOME:-$HOME/.cargo}

packages() { chroot "$root" dpkg-query -W -f '${Package}\n' | sort; }
# enter: sets the array `enter`, the command that runs its further words in the root, with the variables by which this machine
# reaches its registries and no others.
enter() {
  local kept=()
  mapfile -d '' -t kept < <(env -0 | grep -zE '^(https?_proxy|HTTPS?_PROXY|NO_PROXY|no_proxy|PIP_|CARGO_HTTP|CARGO_NET|CARGO_REGISTR|CARGO_SOURCE|SSL_CERT|RUSTUP_|CARGO_HOME=|NPM_|npm_|NODE_EXTRA|CURL_CA|GIT_SSL|REQUESTS_CA)')
  enter=(env -i "${kept[@]}" HOME="$HOME" TERM=dumb PATH="$cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    chroot "$root" bash -c 'cd /quarry && exec "$@"' enter)
}

# read_cpu: sets `cpu`, the seconds of CPU of the children that have ended.
read_cpu() {
  times >"$root.times"
  cpu=$(awk 'END { gsub(/[ms]/, " "); print int($1 * 60 + $2 + $3 * 60 + $4) }' "$root.times")
}
minutes() { awk -v s="$1" 'BEGIN { printf "%.1f min", s / 60 }'; }

# start COMMAND...: in a session of its own, whose number is `running`; its output goes to the log.
start() {
  setsid "${enter[@]}" "$@" >>"$log" 2>&1 8>&- </dev/null &
  running=$!
}
stop_all() { kill -KILL -- "-$running" 2>/dev/null || true; wait "$running" 2>/dev/null || true; }

# A client: sends `hello` in the wire protocol, wants the answer of a primary.
answers() {
  local reply
  exec 7<>"/dev/tcp/127.0.0.1/$port" || return 1
  printf '\x34\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0\x1f\0\0\0\x10hello\0\x01\0\0\0\x02$db\0\x06\0\0\0admin\0\0' >&7
  reply=$(timeout 5 head -c 200 <&7 | tr -cd 'a-zA-Z')
  exec 7>&-
  [[ $reply == *isWritablePrimary* ]]
} 2>/dev/null

compiled() { find "$root$HOME/.cache/quarry" -path '*.part/*' -name '*.o' 2>/dev/null | wc -l; }
is_running() { kill -0 "$running" 2>/dev/null; }
# failed COMMAND: notes how it ended.
failed() {
  local status=0
  wait "$running" || status=$?
  results+=("$1: FAILED with status $status after $(minutes $((SECONDS - began))), last line: $(tail -n 1 "$log")")
  running=
  return 1
}

serve() {
  local began=$SECONDS cpu_before took status=0
  port=$((20000 + RANDOM % 10000))
  while answers; do port=$((port + 1)); done
  read_cpu; cpu_before=$cpu
  note "make serve PORT=$port"
  start make serve PORT="$port"
  if [ "$interrupt" -gt 0 ]; then
    while [ "$(compiled)" -lt "$interrupt" ] && is_running; do sleep 0.5; done
    stop_all
    note "killed with $(compiled) parts of RocksDB compiled, after $(minutes $((SECONDS - began))); make serve again"
    start make serve PORT="$port"
  fi
  while ! answers; do
    is_running || { failed "make serve"; return 1; }
    sleep 1
  done
  took=$((SECONDS - began))
  # To the server only: make would report the signal as an error.
  pkill -TERM -s "$running" -x quarry
  wait "$running" || status=$?
  running=
  read_cpu
  if [ "$status" != 0 ]; then results+=("make serve: answered, and FAILED with status $status when stopped"); return 1; fi
  results+=("make serve: answered a client after $(minutes $took), $((cpu - cpu_before)) s of CPU; ended with status 0 after SIGTERM")
}

run_tests() {
  local began=$SECONDS cpu_before
  read_cpu; cpu_before=$cpu
  note "make test"
  start make test
  while is_running; do sleep 1; done
  wait "$running" || { failed "make test"; return 1; }
  running=
  read_cpu
  results+=("make test: passed after $(minutes $((SECONDS - began))), $((cpu - cpu_before)) s of CPU, last line: $(tail -n 1 "$log")")
}

trap leave EXIT
make_base
make_root
enter
results=() worst=0
if [ ${#with[@]} -gt 0 ]; then
  note "installing before: ${with[*]}"
  DEBIAN_FRONTEND=noninteractive "${enter[@]}" bash -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"' with "${with[@]}" \
    >>"$log" 2>&1 </dev/null \
    || fail "these packages cannot be installed: ${with[*]}; see $log"
fi
packages >"$root/packages.with"
note "$(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg), commit $(git -C "$checkout" rev-parse --short HEAD), $(cd "$checkout" && rustc --version)"
for command in $only; do
  case $command in serve) serve || worst=1 ;; test) run_tests || worst=1 ;; esac
  packages >"$root/packages.after"
  note "after make $command: $(du -sh "$root/quarry/target" "$root$HOME/.cache/quarry" "$root$cargo/registry" 2>/dev/null | awk '{ printf "%s %s, ", $1, $2 }' | sed "s|$root||g")"
done
{
  echo "== installed before: ${with[*]:-nothing} ($(comm -13 "$root/packages.before" "$root/packages.with" | wc -l) packages)"
  echo "== installed by the commands: $(comm -13 "$root/packages.with" "$root/packages.after" | tr '\n' ' ')"
  printf '== %s\n' "${results[@]}"
} | tee -a "$log"
exit "$worst"
