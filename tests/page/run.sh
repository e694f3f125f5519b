#!/usr/bin/env bash
# The scripts of the live page, by Node.js without a browser.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$root/tests/clients/lib.sh"
node_modules
"$NODE" --test "$here/page_test.mjs" | grep -vE '^ |^# Subtest|^TAP|^[0-9]'
