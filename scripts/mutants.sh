#!/usr/bin/env bash
# Applies each deliberate defect in crates/proof/mutants, runs the test that should catch it and says whether it did:
#   scripts/mutants.sh [NAME...]
# A patch begins with two lines: `what:` is wrong with it, `test:` the arguments of `cargo test`. Without the defect that test has
# to pass. One that does not end within five minutes counts as failing. The tree must be clean; it is clean again afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -z "$(git status --porcelain --untracked-files=no)" ] || { echo "mutants: commit first" >&2; exit 1; }
log=$(mktemp)
applied=
declare -A sound
undo() { [ -z "$applied" ] || git apply -R "$applied"; applied=; rm -f "$log"; }
# Inputs that a defect makes fail are not kept.
export PROPTEST_DISABLE_FAILURE_PERSISTENCE=1
trap undo EXIT
trap 'exit 1' INT TERM
missed=0
[ $# -gt 0 ] || set -- $(basename -s .patch crates/proof/mutants/*.patch)
for name in "$@"; do
  patch=crates/proof/mutants/$name.patch
  read -ra arguments <<<"$(sed -n 's/^test: //p' "$patch")"
  if [ -z "${sound[${arguments[*]}]:-}" ]; then
    timeout 300 cargo test --locked "${arguments[@]}" >"$log" 2>&1 || { tail -20 "$log" >&2; echo "mutants: ${arguments[*]} fails without a defect" >&2; exit 1; }
    grep -q '^running [1-9]' "$log" || { echo "mutants: ${arguments[*]} runs no test" >&2; exit 1; }
    sound[${arguments[*]}]=1
  fi
  git apply "$patch"; applied=$patch
  # A defect that does not compile proves nothing.
  cargo test -q --locked --no-run "${arguments[@]}" >"$log" 2>&1 || { tail -20 "$log" >&2; echo "mutants: $name does not compile" >&2; exit 1; }
  begun=$(date +%s%N)
  status=0
  timeout 300 cargo test --locked "${arguments[@]}" >"$log" 2>&1 || status=$?
  if [ $status = 0 ]; then
    verdict="NOT CAUGHT"; missed=$((missed + 1))
  else
    by=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p; s/^    \([a-z_:]*\)$/\1/p' "$log" | sort -u | paste -sd' ')
    [ $status != 124 ] || by="the time limit"
    verdict="caught by ${by:-the end of the process, status $status}"
  fi
  printf '%-26s %5s s  %s\n' "$name" "$(( ($(date +%s%N) - begun) / 1000000000 ))" "$verdict"
  git apply -R "$patch"; applied=
done
exit $((missed > 0))
