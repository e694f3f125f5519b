#!/usr/bin/env bash
# Adds a toy part of each kind to a copy of this commit, as CONTRIBUTING.md describes it, counts what was touched, builds the server
# and uses each part. Usage: try.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$root/tests/clients/lib.sh"
python_with_pymongo
copy=$scratch/copy
git clone -q --shared "$root" "$copy"
cd "$copy"

# add TOY FILE LIST MACRO: a file, and a line at the end of the list; the first engine of its list is the default one.
add() {
  cp "$here/$1.rs" "$2"
  grep -q "^$4 {\$" "$3" || fail "no list $4 in $3"
  sed -i "/^$4 {\$/,/^}\$/ s/^}\$/    $(basename "$2" .rs),\n}/" "$3"
  git add -A
  # One file more, one line in one file that was there.
  [ "$(git diff --cached --name-status | grep -c '^A')" = 1 ] || fail "$1: more than one new file"
  [ "$(git diff --cached --numstat --diff-filter=M | awk '{print $1 "+" $2 "-"}')" = 1+0- ] || fail "$1: more than one line"
  git -c user.name=try -c user.email=try@localhost commit -qm "try: $1"
  echo "parts: $1: $2 and a line of $3"
}
add operator crates/operators/src/expr/arithmetic/toy.rs crates/operators/src/expr/arithmetic/mod.rs 'crate::expr_family!'
add stage crates/query/src/stages/toy.rs crates/query/src/stages/mod.rs 'stages!'
add command crates/commands/src/cmd/toy.rs crates/commands/src/cmd/mod.rs 'commands!'
add worker crates/commands/src/workers/toy.rs crates/commands/src/workers/mod.rs 'workers!'
add consumer crates/commands/src/workers/toy_consumer.rs crates/commands/src/workers/mod.rs 'workers!'
add engine crates/server/src/engines/toy.rs crates/server/src/engines/mod.rs 'engines!'

# The rules of the house hold for the toys, too: which crate may import which, no cycles, a comment at the head of each file.
cargo run -q --locked -p xtask -- tidy
cargo build --locked -p quarry-server 2>"$scratch/build.log" || { tail -40 "$scratch/build.log"; fail "does not build"; }
QUARRY_BIN=${CARGO_TARGET_DIR:-$copy/target}/debug/quarry start_server "$scratch/data" --storageEngine toy --replSet rs0
PYTHONDONTWRITEBYTECODE=1 "$PYTHON" "$here/use.py" "$ADDRESS"
stop_server
