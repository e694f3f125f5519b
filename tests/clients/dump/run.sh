#!/usr/bin/env bash
# mongodump, mongorestore and the other database tools against the real server. Usage: run.sh [copies|log|programs]...
# QUARRY_BIN names the binary; without it the release build is taken. The tools are built from their own source (mongo_tools in lib.sh).
# copies: what was restored is what was dumped. log: a dump with --oplog beside writers restores a state of one moment. programs:
# mongoexport, mongoimport, bsondump, mongofiles, mongostat, mongotop. Each part plants faults and demands that its checks find them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
. "$root/tests/clients/lib.sh"

# programs.py imports contents.py; nothing is written into the checkout.
export PYTHONDONTWRITEBYTECODE=1
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(copies log programs)
failed=()

# check WHAT COMMAND...: shows the last line of what it says, and all of it when it fails.
check() {
  local what=$1 said
  shift
  if "$@" >"$scratch/check.log" 2>&1; then
    said=$(tail -n 1 "$scratch/check.log")
    echo "dump: $what: ${said:-done}"
  else
    cut -c1-400 "$scratch/check.log" | tail -n 60 >&2
    echo "dump: $what: FAILED" >&2
    failed+=("$what")
  fi
}
# finds WHAT SAID COMMAND...: a planted fault; the check must fail and say this.
finds() {
  local what=$1 said=$2
  shift 2
  if "$@" >"$scratch/check.log" 2>&1 || ! grep -q -e "$said" "$scratch/check.log"; then
    cut -c1-400 "$scratch/check.log" | tail -n 20 >&2
    echo "dump: $what: FAILED: the planted fault was not found" >&2
    failed+=("$what")
  else
    echo "dump: $what: found"
  fi
}
contents() { "$PYTHON" "$here/contents.py" "$@"; }
writers() { "$PYTHON" "$here/writers.py" "$@"; }

# tool NAME ADDRESS OPTION...: what it says goes to a log, and is shown when it fails.
tool() {
  local name=$1 address=$2
  shift 2
  "$TOOLS/$name" --uri "mongodb://$address/?directConnection=true" "$@" 2>"$scratch/$name.log" || {
    grep -v 'index:' "$scratch/$name.log" | cut -c1-400 | tail -n 5 >&2
    return 1
  }
}
# restored ADDRESS OPTION...: also fails when documents were left out, which the tool itself does not.
restored() {
  tool mongorestore "$@" || return 1
  tail -n 1 "$scratch/mongorestore.log" | grep -q ' 0 document(s) failed to restore' || { tail -n 3 "$scratch/mongorestore.log"; return 1; }
}
target() {
  [ -z "${TARGET_PID:-}" ] || stop_server "$TARGET_PID"
  start_server "$scratch/target-$((++targets))"
  TARGET=$ADDRESS TARGET_PID=$SERVER_PID
}
targets=0

part_copies() {
  start_server "$scratch/copies"
  local source=$ADDRESS pid=$SERVER_PID
  contents make "$source"
  check "mongodump" tool mongodump "$source" --out "$scratch/all"
  target
  check "mongorestore" restored "$TARGET" --bypassDocumentValidation "$scratch/all"
  check "the copy is the same" contents same "$source" "$TARGET"
  check "the copy is new" contents changed-uuids "$source" "$TARGET"
  check "the comparison finds what was changed" contents planted "$source" "$TARGET"
  finds "UUIDs are compared" "'uuid', 'kinds', 'plain'" contents same-uuids "$source" "$TARGET"
  check "mongorestore --drop --preserveUUID" restored "$TARGET" --drop --preserveUUID --bypassDocumentValidation "$scratch/all"
  check "the copy is the same, with its UUIDs" contents same-uuids "$source" "$TARGET"
  target
  contents other "$TARGET"
  check "mongorestore --drop over other contents" restored "$TARGET" --drop --bypassDocumentValidation "$scratch/all"
  check "nothing of them is left" contents same "$source" "$TARGET"
  target
  finds "validation is not passed by" "1 document(s) failed to restore" restored "$TARGET" "$scratch/all"
  finds "the comparison finds the document that was refused" "'documents', 'kinds', 'checked'" contents same "$source" "$TARGET"
  target
  check "mongodump --gzip" tool mongodump "$source" --gzip --out "$scratch/gzip"
  check "mongorestore --gzip" restored "$TARGET" --gzip --bypassDocumentValidation "$scratch/gzip"
  check "the copy is the same" contents same "$source" "$TARGET"
  target
  check "an archive through a pipe" piped "$source" "$TARGET"
  check "the copy is the same" contents same "$source" "$TARGET"
  check "mongodump --archive --gzip" tool mongodump "$source" "--archive=$scratch/archive" --gzip
  truncate -s -100000 "$scratch/archive"
  target
  finds "a torn archive" "Failed" restored "$TARGET" --archive="$scratch/archive" --gzip --bypassDocumentValidation
  stop_server "$pid"
}
piped() {
  tool mongodump "$1" --archive | "$TOOLS/mongorestore" --uri "mongodb://$2/?directConnection=true" --archive --bypassDocumentValidation \
    2>"$scratch/mongorestore.log" || return 1
  grep ' 0 document(s) failed' "$scratch/mongorestore.log"
}

# slowly COMMAND...: stopped again and again once it has begun to read collections, so that much is written while it runs.
slowly() {
  "$@" &
  local pid=$! status=0
  until ! kill -0 "$pid" 2>/dev/null || grep -q 'writing ' "$scratch/slow.log"; do sleep 0.01; done
  while kill -STOP "$pid" 2>/dev/null; do
    sleep 0.2
    kill -CONT "$pid" 2>/dev/null || true
    sleep 0.02
  done
  wait "$pid" || status=$?
  return $status
}
dump_slowly() {
  slowly "$TOOLS/mongodump" --uri "mongodb://$SOURCE/?directConnection=true" --oplog -j 1 "$@" 2>"$scratch/slow.log" || {
    cat "$scratch/slow.log"
    return 1
  }
}
rest_of_log() {
  mkdir -p "$scratch/longer"
  tool mongodump "$SOURCE" --db local --collection oplog.rs --out "$scratch/longer" \
    --query "{\"ts\": {\"\$gte\": {\"\$timestamp\": {\"t\": ${1%:*}, \"i\": ${1#*:}}}}}"
}
write_beside() {
  "$PYTHON" "$here/writers.py" write "$SOURCE" "$scratch/journal" "$1" >"$scratch/writers.log" 2>&1 &
  WRITERS_PID=$!
  sleep 4
}
stop_writers() {
  local status=0
  kill -TERM "$WRITERS_PID" || true
  wait "$WRITERS_PID" || status=$?
  cat "$scratch/writers.log"
  return $status
}

part_log() {
  local how last limit share
  for how in gentle all; do
    start_server "$scratch/log-$how"
    SOURCE=$ADDRESS
    local pid=$SERVER_PID
    writers fill "$SOURCE"
    write_beside "$how"
    check "$how: mongodump --oplog" dump_slowly --out "$scratch/log-dump-$how"
    sleep 2
    last=$(writers oplog "$scratch/log-dump-$how/oplog.bson" 2>"$scratch/oplog.log") || failed+=("$how: the log")
    cat "$scratch/oplog.log"
    if [ "$how" = gentle ]; then
      check "mongodump --oplog --archive --gzip" tool mongodump "$SOURCE" --oplog --gzip "--archive=$scratch/log-archive"
      sleep 1
      check "the longer log" rest_of_log "$(writers middle "$scratch/log-dump-gentle/oplog.bson" 0)"
    fi
    check "$how: the writers" stop_writers
    check "$how: the source is as the writers left it" writers check "$SOURCE" "$scratch/journal"
    target
    check "$how: mongorestore --oplogReplay" restored "$TARGET" --oplogReplay "$scratch/log-dump-$how"
    check "$how: a state of the moment of the log's last entry" writers check "$TARGET" "$scratch/journal" last "$last"
    stop_server "$pid"
    [ "$how" = gentle ] || continue

    finds "the state of another moment" "different moments" writers check "$TARGET" "$scratch/journal" before "$(
      writers middle "$scratch/log-dump-gentle/oplog.bson" 0.9)"
    target
    check "mongorestore without the log" restored "$TARGET" --nsExclude 'none.*' "$scratch/log-dump-gentle"
    finds "without the log it is no state" "no state of this writer\|different moments" writers check "$TARGET" "$scratch/journal"
    for kind in i transaction createIndexes; do
      cp -r "$scratch/log-dump-gentle" "$scratch/lost-$kind"
      writers lose "$scratch/lost-$kind/oplog.bson" "$kind" >"$scratch/lost.log"
      target
      check "mongorestore --oplogReplay, an entry lost ($kind)" restored "$TARGET" --oplogReplay "$scratch/lost-$kind"
      finds "an entry lost ($kind)" "no state of this writer\|different moments" writers check "$TARGET" "$scratch/journal" last "$last"
    done

    target
    check "mongorestore --oplogReplay --archive --gzip" restored "$TARGET" --oplogReplay --gzip "--archive=$scratch/log-archive"
    check "a state of one moment" writers check "$TARGET" "$scratch/journal"
    rm "$scratch/log-dump-gentle/oplog.bson"
    for share in 0.75 0.9; do
      limit=$(writers middle "$scratch/longer/local/oplog.rs.bson" "$share")
      target
      check "mongorestore --oplogFile --oplogLimit $limit" restored "$TARGET" --oplogReplay --oplogLimit "$limit" \
        --oplogFile "$scratch/longer/local/oplog.rs.bson" "$scratch/log-dump-gentle"
      check "the state before that moment" writers check "$TARGET" "$scratch/journal" before "$limit"
    done
  done
}

part_programs() {
  start_server "$scratch/programs"
  local pid=$SERVER_PID
  "$PYTHON" "$here/programs.py" "$ADDRESS" "$TOOLS" "$scratch/files" || failed+=(programs)
  stop_server "$pid"
}

python_with_pymongo
mongo_tools
for part in "${parts[@]}"; do
  declare -F "part_$part" >/dev/null || fail "no part named '$part'; there are: copies log programs"
  began=$SECONDS
  "part_$part"
  echo "dump: $part: $((SECONDS - began)) s"
done
[ -z "${TARGET_PID:-}" ] || stop_server "$TARGET_PID"
if [ ${#failed[@]} -gt 0 ]; then
  printf 'dump: FAILED: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "dump: ${#parts[@]} of ${#parts[@]} parts passed, every server ended with status 0"
