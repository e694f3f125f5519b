#!/usr/bin/env bash
# Object mappers against the real server binary, each by a script of its own. Usage: run.sh [mongoose|mikro-orm|django|spring]...
# QUARRY_BIN names the binary; without it the release build is taken. The mappers are pinned here, installed into the cache. The exit
# status tells whether every one passed and the server ended well.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
. "$root/tests/clients/lib.sh"

mappers=("$@")
[ ${#mappers[@]} -gt 0 ] || mappers=(mongoose mikro-orm django spring)
export PYTHONDONTWRITEBYTECODE=1

# A change that a stream does not tell would be awaited for ever.
bounded() { timeout 120 "$@"; }

install_npm() {
  cp "$here/$1/"{package.json,package-lock.json} "$root/tests/clients/node/.npmrc" .
  npm ci --ignore-scripts --no-progress --loglevel=error
}

# npm_packages NAME: sets NODE_PATH, and NODE to a Node.js of at least 22.17, which MikroORM needs.
npm_packages() {
  command -v npm >/dev/null || fail "$1: no npm"
  NODE=$(command -v node)
  if ! "$NODE" -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 17) ? 0 : 1)'; then
    local machine=x64
    [ "$(uname -m)" = aarch64 ] && machine=arm64
    install_once nodejs "$root/tests/clients/node/node-version" -- install_newer_node "$machine"
    NODE=$INSTALLED/node_modules/node-linux-$machine/bin/node
  fi
  install_once "$1" "$here/$1/package-lock.json" -- install_npm "$1"
  export NODE_PATH=$INSTALLED/node_modules
}

install_django() { python3 -m venv venv && venv/bin/pip install -q --disable-pip-version-check -r "$here/django/requirements.txt"; }
install_spring() {
  mvn -q -B -f "$here/spring/pom.xml" -Dspring.target="$PWD/target" compile dependency:copy-dependencies -DoutputDirectory="$PWD/lib"
}

orm_mongoose() { npm_packages mongoose && bounded "$NODE" "$here/mongoose/check.cjs" "$1"; }
orm_mikro-orm() { npm_packages mikro-orm && bounded "$NODE" "$here/mikro-orm/check.cjs" "$1"; }
orm_django() {
  install_once django "$here/django/requirements.txt" -- install_django
  bounded "$INSTALLED/venv/bin/python" "$here/django/check.py" "$1"
}
orm_spring() {
  command -v mvn >/dev/null || fail "spring: no Maven"
  install_once spring "$here/spring/pom.xml" "$here/spring/src/main/java/shop/Check.java" -- install_spring
  bounded java -cp "$INSTALLED/target/classes:$INSTALLED/lib/*" shop.Check "$1"
}

for mapper in "${mappers[@]}"; do
  declare -F "orm_$mapper" >/dev/null || fail "no mapper named '$mapper'; there are: mongoose mikro-orm django spring"
done
start_server "$scratch/data"
failed=()
for mapper in "${mappers[@]}"; do
  ("orm_$mapper" "$ADDRESS") || { failed+=("$mapper"); echo "clients: $mapper FAILED" >&2; }
done
stop_and_judge "${#mappers[@]}" "object mappers" "${failed[@]}"
