#!/bin/sh
# mongod's command line for tools that start a server themselves, such as mongodb-memory-server. The storage engine they name is
# mongod's own; Quarry's default takes its place.
set -eu
here=$(dirname "$(readlink -f "$0")")
quarry=$here/quarry
case "${1:-}" in
    --version | -version)
        echo "db version v@MONGODB@"
        exec "$quarry" --version
        ;;
esac
count=$#
while [ "$count" -gt 0 ]; do
    option=$1
    shift
    count=$((count - 1))
    case "$option" in
        --storageEngine)
            shift
            count=$((count - 1))
            ;;
        --storageEngine=* | --noauth) ;;
        *) set -- "$@" "$option" ;;
    esac
done
# mongod writes its log to standard output, where such tools read it.
exec "$quarry" serve "$@" 2>&1
