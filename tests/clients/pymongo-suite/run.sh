#!/usr/bin/env bash
# pymongo's own tests against the real server binary. Usage: run.sh [--all] [--write]
# QUARRY_BIN names the binary; without it the release build is taken. The source distribution is pinned by its digest and kept
# in the cache, never in the checkout.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
. "$root/tests/clients/lib.sh"

install_suite() {
  python3 -m venv venv
  venv/bin/pip install -q --disable-pip-version-check -r "$here/requirements.txt"
  venv/bin/pip download -q --disable-pip-version-check --no-deps --no-binary :all: -d . "$(head -n 1 "$here/requirements.txt")"
  sha256sum -c "$here/sdist.sha256"
  mkdir source && tar -xzf pymongo-*.tar.gz -C source --strip-components 1
  # The installed package is tested, not the unpacked one: its C extensions are built already.
  rm -rf source/pymongo source/bson source/gridfs
}

command -v python3 >/dev/null || fail "no python3"
install_once pymongo-suite "$here/requirements.txt" "$here/sdist.sha256" "$here/run.sh" -- install_suite
start_server "$scratch/data" --setParameter enableTestCommands=1
status=0
"$INSTALLED/venv/bin/python" "$here/suite.py" "$INSTALLED/source" "$ADDRESS" "$@" || status=$?
stop_server
exit "$status"
