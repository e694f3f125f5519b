#!/usr/bin/env bash
# pymongo's own tests against the real server binary. Usage: run.sh [--all | --auth] [--write] [--list]
# --auth runs those about logging in, against a server with --auth, and those and the ones about TLS against one with certificates.
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
status=0
suite() {
  "$INSTALLED/venv/bin/python" "$here/suite.py" "$INSTALLED/source" "$ADDRESS" "$@" || status=$?
  stop_server
}
case " $* " in
  *" --auth "*)
    certificates=$INSTALLED/source/test/certificates
    start_server "$scratch/auth" --auth --setParameter enableTestCommands=1
    suite "$@"
    start_server "$scratch/tls" --auth --setParameter enableTestCommands=1 --tlsMode requireTLS \
      --tlsCertificateKeyFile "$certificates/server.pem" --tlsCAFile "$certificates/ca.pem" --tlsAllowConnectionsWithoutCertificates
    suite "${@/--auth/--tls}"
    ;;
  *)
    start_server "$scratch/data" --setParameter enableTestCommands=1
    suite "$@"
    ;;
esac
exit "$status"
