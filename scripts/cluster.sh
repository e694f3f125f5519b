#!/usr/bin/env bash
# A TiKV cluster for tests on loopback: PD, and unistore as the store, a small program that speaks TiKV's protocol. Both are built
# by Go (1.24 or newer) from the Go module proxy, once, into the cache of scripts/cache.sh; `make test` never builds them.
#   scripts/cluster.sh build                 builds both when the cache has none; some minutes of processor time
#   scripts/cluster.sh hold                  PD and one store in a scratch folder until standard input is closed; prints `ready HOST:PORT PID PID`
#   scripts/cluster.sh serve QUARRY          PD, three stores and three servers; until the end of input or Ctrl-C
# Real TiKV comes from its makers: docs/tikv.md. Nothing listens outside of 127.0.0.1.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
purpose=${1:-}

pd_version=v1.1.0-beta.0.20240407022249-7179657d129b
store_version=v0.0.0-20231125025143-65768917ffc9
tidb_version=v1.1.0-beta.0.20210407104700-3d8084e972d1
badger_version=v1.5.1-0.20200908111422-2e78ee155d19
etcd_version=v0.5.0-alpha.5.0.20201117041249-9487a87e2cbd
# The number counts changes of what is built from these versions.
folder=$("$root/scripts/cache.sh")/tikv-$pd_version-$store_version-5

say() { echo "cluster: $*" >&2; }
fail() { say "$*"; exit 1; }

# go_build NAME OUTPUT PACKAGE [FLAG...]: builds in a module of our own, as go.mod on standard input says.
go_build() {
  local name=$1 output=$2 package=$3
  shift 3
  mkdir -p "$folder/$name"
  cat >"$folder/$name/go.mod"
  say "building $output; its messages are in $folder/$name.log"
  # The linker's check refuses etcd's use of the runtime's clock.
  (cd "$folder/$name" && GOFLAGS=-mod=mod GOTOOLCHAIN=local go build -ldflags=-checklinkname=0 "$@" -o "$folder/$output.new" "$package") \
    >"$folder/$name.log" 2>&1 || { tail -n 20 "$folder/$name.log" >&2; fail "$output was not built"; }
  mv "$folder/$output.new" "$folder/$output"
  rm -rf "$folder/unistore" "$folder/tidb" "$folder/badger"
}

build() {
  if [ -x "$folder/pd-server" ] && [ -x "$folder/unistore-server" ]; then return; fi
  PATH=$PATH:/usr/local/go/bin
  command -v go >/dev/null || fail "go is not installed; install Go 1.24 or newer"
  mkdir -p "$folder"
  exec 9>"$folder/lock"
  flock 9
  [ -x "$folder/pd-server" ] || go_build pd pd-server github.com/tikv/pd/cmd/pd-server -tags without_dashboard <<EOF
module cluster/pd

go 1.21

require github.com/tikv/pd $pd_version
EOF
  store_sources
  go_build store unistore-server github.com/ngaut/unistore/cmd/unistore-server <<EOF
module cluster/store

go 1.21

require github.com/ngaut/unistore $store_version

replace github.com/ngaut/unistore => ../unistore

replace github.com/pingcap/tidb => ../tidb

replace github.com/pingcap/badger => ../badger

replace google.golang.org/grpc => google.golang.org/grpc v1.26.0

replace go.etcd.io/etcd => github.com/zhangjinpeng1987/etcd $etcd_version

exclude google.golang.org/grpc/examples v0.0.0-20230705174746-11feb0a9afd8
EOF
  exec 9>&-
}

# copy MODULE VERSION NAME: sources of a module in a folder that may be changed.
copy() {
  local from
  from=$(cd "$folder" && GOFLAGS=-mod=mod go mod download -json "$1@$2" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  [ -d "$from" ] || fail "$1 $2 cannot be downloaded"
  rm -rf "${folder:?}/$3"
  cp -r "$from" "$folder/$3"
  chmod -R u+w "$folder/$3"
}

# change FILE SED: what has to match does.
change() {
  cp "$folder/$1" "$folder/before"
  sed -i "$2" "$folder/$1"
  ! cmp -s "$folder/$1" "$folder/before" || fail "$1 is not as expected"
  rm "$folder/before"
}

# Six places of the store are changed. It listens on every address of the machine: here on the one it is given. A reverse scan makes
# its iterator before it says at which time it reads, so it shows what was committed later. It stores the keys of a transaction
# with each of its locks, which TiKV does only where they are needed (asynchronous commits). It writes the values of a transaction
# once more, in one entry of its log, when a reader resolves its locks: TiKV writes only that they are committed, in parts.
# Two lost data when the store was killed. Its locks live in memory: when it starts, it reads them from its log, but not from entries
# of the format in which it writes them; a transaction whose first row was committed before lost its other rows. And when it reads
# the log of its engine, badger, all rows that were written in one batch get the transaction's times of the last one of them; whoever
# asked whether another transaction of that batch is committed was told that it is not.
store_sources() {
  copy github.com/ngaut/unistore "$store_version" unistore
  change unistore/cmd/unistore-server/main.go 's/^\tlistenAddr := .*/\tlistenAddr := conf.Server.StoreAddr/'
  change unistore/raftstore/config.go 's/^\(\t\tRaftEntryMaxSize: *\)8 \* MB,/\1256 * MB,/'
  change unistore/raftstore/restore.go 's/^\terr1 := raftDB.IterateVLog/\tversions = make(map[uint64]uint64)\n&/'
  change unistore/raftstore/restore.go 's/^\tif iterCnt > 0 {$/\tversions = nil\n&/'
  change unistore/raftstore/restore.go 's/^\tif raftCmdRequest.AdminRequest != nil {$/&\n\t\tnoteSplit(\&raftCmdRequest)/'
  change unistore/raftstore/restore.go 's/^\tvar raftCmdRequest raft_cmdpb.RaftCmdRequest$/\tif restoreLocks(entry.Data, lockStore) {\n\t\treturn nil\n\t}\n&/'
  restore_locks >"$folder/unistore/raftstore/restore_locks.go"
  copy github.com/pingcap/badger "$badger_version" badger
  change badger/db.go 's/^\t\t\tUserMeta: e.UserMeta,$/\t\t\tUserMeta: append([]byte(nil), e.UserMeta...),/'
  copy github.com/pingcap/tidb "$tidb_version" tidb
  change tidb/store/mockstore/unistore/tikv/dbreader/db_reader.go 's/^\titer := r.getReverseIter()$/\tr.txn.SetReadTS(startTS)\n&/'
  change tidb/store/mockstore/unistore/tikv/server.go \
    's/^func (svr \*Server) KvPrewrite(.*{$/&\n\tif !req.UseAsyncCommit {\n\t\treq.Secondaries = nil\n\t}/'
}

# What the store does not have: it puts the locks of one entry of its log into memory; false when the entry has another format. Entries
# that came too late were not applied: those of a region that has been split in the meantime.
restore_locks() {
  cat <<'EOF'
package raftstore

import (
	"github.com/ngaut/unistore/raftstore/raftlog"
	"github.com/pingcap/kvproto/pkg/raft_cmdpb"
	"github.com/pingcap/tidb/store/mockstore/unistore/lockstore"
)

// The versions of the regions that were split, while the log is read at the start.
var versions map[uint64]uint64

func isTooLate(region, version uint64) bool {
	current, wasSplit := versions[region]
	return wasSplit && version != current
}

func noteSplit(request *raft_cmdpb.RaftCmdRequest) {
	parts := len(request.AdminRequest.GetSplits().GetRequests())
	if request.AdminRequest.GetSplit() != nil {
		parts = 1
	}
	version := request.Header.GetRegionEpoch().GetVersion()
	if versions != nil && parts > 0 && !isTooLate(request.Header.RegionId, version) {
		versions[request.Header.RegionId] = version + uint64(parts)
	}
}

func restoreLocks(data []byte, locks *lockstore.MemStore) bool {
	if len(data) == 0 || data[0] != raftlog.CustomRaftLogFlag {
		return false
	}
	entry := raftlog.NewCustom(data)
	if isTooLate(entry.RegionID(), entry.Epoch().Ver()) {
		return true
	}
	switch entry.Type() {
	case raftlog.TypePrewrite, raftlog.TypePessimisticLock:
		entry.IterateLock(func(key, lock []byte) { locks.Put(key, lock) })
	case raftlog.TypeCommit:
		entry.IterateCommit(func(key, _ []byte, _ uint64) { locks.Delete(key) })
	case raftlog.TypeRolback:
		entry.IterateRollback(func(key []byte, _ uint64, hasLock bool) {
			if hasLock {
				locks.Delete(key)
			}
		})
	case raftlog.TypePessimisticRollback:
		entry.IteratePessimisticRollback(func(key []byte) { locks.Delete(key) })
	}
	return true
}
EOF
}

free_port() {
  local port
  while port=$((20000 + RANDOM % 12000)) && (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
  echo "$port"
}

# health PORT: PD answers. No client of HTTP is needed for that.
health() {
  exec 8<>"/dev/tcp/127.0.0.1/$1" || return 1
  printf 'GET /pd/api/v1/%s HTTP/1.0\r\n\r\n' "$2" >&8
  cat <&8
  exec 8>&-
}

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for() {
  local left=$(($1 * 5))
  shift
  until "$@" >/dev/null 2>&1; do
    left=$((left - 1))
    if [ $left = 0 ]; then return 1; fi
    sleep 0.2
  done
}

stores_up() { [ "$(health "$pd_port" stores | grep -c '"state_name": "Up"')" = "$1" ]; }

# start STORES: PD and stores in $scratch; sets pd_port and processes.
start() {
  local memory=/dev/shm number port
  [ -d $memory ] && [ -w $memory ] || memory=${TMPDIR:-/tmp}
  scratch=$(mktemp -d "$memory/quarry-cluster.XXXXXX")
  trap stop EXIT
  trap 'exit 1' INT TERM
  pd_port=$(free_port)
  peer_port=$(free_port)
  "$folder/pd-server" --name pd --data-dir "$scratch/pd" --client-urls "http://127.0.0.1:$pd_port" --peer-urls "http://127.0.0.1:$peer_port" \
    --log-file "$scratch/pd.log" >"$scratch/pd.out" 2>&1 <&- &
  processes+=($!)
  wait_for 60 health "$pd_port" health || fail "PD does not answer: $(tail -n 3 "$scratch/pd.log" "$scratch/pd.out")"
  for number in $(seq "$1"); do
    start_store "$number" "$(free_port)" "$(free_port)"
  done
  wait_for 60 stores_up "$1" || fail "the stores do not start: $(tail -n 3 "$scratch"/store*.log)"
}

# start_store NUMBER PORT STATUS_PORT. Go's profile of locks, which the store turns on, follows frame pointers; the store's assembler
# breaks them, and then it ends with a fault of memory: so it unwinds without them.
start_store() {
  mkdir -p "$scratch/store$1"
  GODEBUG=tracefpunwindoff=1 GOLANG_PROTOBUF_REGISTRATION_CONFLICT=ignore "$folder/unistore-server" --addr "127.0.0.1:$2" --status-addr "127.0.0.1:$3" \
    --pd "127.0.0.1:$pd_port" --data-dir "$scratch/store$1" --log-file "$scratch/store$1.log" >"$scratch/store$1.out" 2>&1 <&- &
  processes+=($!)
}

processes=()
stop() {
  if [ ${#processes[@]} -gt 0 ]; then
    kill -9 "${processes[@]}" 2>/dev/null || true
    wait "${processes[@]}" 2>/dev/null || true
  fi
  rm -rf "$scratch"
}

case $purpose in
  build) build ;;
  hold)
    if [ ! -x "$folder/pd-server" ] || [ ! -x "$folder/unistore-server" ]; then
      echo "there is no TiKV cluster for tests; \`scripts/cluster.sh build\` makes one"
      exit 0
    fi
    start 1
    echo "ready 127.0.0.1:$pd_port ${processes[*]}"
    # Until whoever wants it is gone.
    cat >/dev/null
    ;;
  serve)
    quarry=${2:-}
    [ -x "$quarry" ] || fail "give the path of quarry"
    build
    start 3
    first=${PORT:-27017}
    servers=127.0.0.1:$first,127.0.0.1:$((first + 1)),127.0.0.1:$((first + 2))
    for port in "$first" "$((first + 1))" "$((first + 2))"; do
      "$quarry" serve --storageEngine tikv --tikvPd "127.0.0.1:$pd_port" --tikvAddress "127.0.0.1:$port" --port "$port" >"$scratch/server-$port.log" 2>&1 <&- &
      processes+=($!)
      if [ "$port" = "$first" ]; then
        wait_for 60 grep -q "listening on" "$scratch/server-$port.log" || fail "the server does not start: $(tail -n 3 "$scratch/server-$port.log")"
      fi
    done
    say "PD is 127.0.0.1:$pd_port; logs are in $scratch"
    say "three servers: mongodb://$servers/; the one on port $first holds the database, the others forward their clients to it; Ctrl-C stops all"
    cat >/dev/null
    ;;
  *) fail "'$purpose' is unknown; allowed are: build, hold, serve QUARRY" ;;
esac
