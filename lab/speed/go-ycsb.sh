#!/usr/bin/env bash
# Builds go-ycsb v1.0.3 (github.com/pingcap/go-ycsb, a module of Go) with its MongoDB driver only: the others need
# libraries in C. Loads, workloads and measurements are its own, unchanged. Usage: go-ycsb.sh PROGRAM
set -euo pipefail
program=$(realpath -m "${1:?usage: go-ycsb.sh PROGRAM}")
scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
cd "$scratch"
go mod init ycsb >/dev/null 2>&1
go get github.com/pingcap/go-ycsb@v1.0.3 >/dev/null
cp -r "$(go list -m -f '{{.Dir}}' github.com/pingcap/go-ycsb)" source
chmod -R u+w source
cd source
# The imports of the other databases, each with the comment above it.
sed -i -E '\#"github.com/pingcap/go-ycsb/db/#{ \#/db/(basic|mongodb)"#!d }' cmd/go-ycsb/main.go
CGO_ENABLED=0 go build -o "$program" ./cmd/go-ycsb
echo "go-ycsb: $program"
