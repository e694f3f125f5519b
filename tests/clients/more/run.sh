#!/usr/bin/env bash
# Programs and libraries that are made for MongoDB, each by one small program. Usage: run.sh [NAME...]; `run.sh --list` shows the names.
# QUARRY_BIN names the binary; without it the release build is taken. Each program is run against a server that is a replica set of one.
# Writes one JSON line for each program into RESULTS (default tests/clients/more/results.jsonl), from which report.py makes docs/clients.md.
# The exit status tells whether every program that could be installed passed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
. "$root/tests/clients/lib.sh"

results=${RESULTS:-$here/results.jsonl}
all=(langchain llama-index celery airflow typeorm c php ruby golang-migrate kafka morphia spring-reactive spark liquibase parse-server payload agenda reactive)
if [ "${1:-}" = --list ]; then printf '%s\n' "${all[@]}"; exit 0; fi
names=("$@")
[ ${#names[@]} -gt 0 ] || names=("${all[@]}")
export PYTHONDONTWRITEBYTECODE=1

bounded() { timeout 300 "$@"; }

# python_program NAME ADDRESS: NAME.txt is all that it needs (`pip freeze`, so that nothing is left to resolve), check_NAME.py the program.
install_requirements() { python3 -m venv venv && venv/bin/pip install -q --disable-pip-version-check --no-deps -r "$1"; }
python_program() {
  install_once "more-$1" "$here/python/$1.txt" -- install_requirements "$here/python/$1.txt"
  bounded "$INSTALLED/venv/bin/python" "$here/python/check_${1//-/_}.py" "$2"
}
more_langchain() { python_program langchain "$1"; }
more_llama-index() { python_program llama-index "$1"; }
more_airflow() { python_program airflow "$1"; }
more_celery() { python_program celery "$1"; }

# node_program NAME ADDRESS: NAME/package.json with its lock, NAME/check.cjs the program.
install_locked() { cp "$1/"{package.json,package-lock.json} "$root/tests/clients/node/.npmrc" . && npm ci --ignore-scripts --no-progress --loglevel=error; }
node_program() {
  node_modules
  install_once "more-$1" "$here/node/$1/package-lock.json" -- install_locked "$here/node/$1"
  NODE_PATH="$INSTALLED/node_modules" bounded "$NODE" "$here/node/$1/check.cjs" "$2"
}
more_typeorm() { node_program typeorm "$1"; }

# module_program NAME ADDRESS: the same for programs that are modules, which find what they import beside themselves: check.mjs.
module_program() {
  node_modules
  install_once "more-$1" "$here/node/$1/package-lock.json" -- install_locked "$here/node/$1"
  mkdir -p "$scratch/$1" && ln -s "$INSTALLED/node_modules" "$scratch/$1/" && cp "$here/node/versions.mjs" "$here/node/$1/check.mjs" "$scratch/$1/"
  (cd "$scratch/$1" && bounded "$NODE" check.mjs "$2")
}
more_parse-server() { module_program parse-server "$1"; }
more_payload() { module_program payload "$1"; }
more_agenda() { module_program agenda "$1"; }
more_reactive() { module_program reactive "$1"; }

# java_program NAME ADDRESS: NAME/pom.xml names the libraries, NAME/Check.java is the program, which is told the address and its own folder.
copy_libraries() { mvn -q -B -f "$1" dependency:copy-dependencies -DoutputDirectory="$PWD/lib"; }
java_program() {
  command -v mvn >/dev/null || { echo "no Maven"; return 77; }
  install_once "more-$1" "$here/java/$1/pom.xml" -- copy_libraries "$here/java/$1/pom.xml"
  javac -nowarn -d "$scratch/$1" -cp "$INSTALLED/lib/*" "$here/java/$1/Check.java" && bounded java -cp "$scratch/$1:$INSTALLED/lib/*" Check "$2" "$here/java/$1"
}
more_kafka() { java_program kafka "$1"; }
more_morphia() { java_program morphia "$1"; }
more_spring-reactive() { java_program spring-reactive "$1"; }
more_liquibase() { java_program liquibase "$1"; }
# Spark reaches into the JDK: what its own launcher passes.
more_spark() {
  local opened options=
  for opened in java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.util java.util.concurrent java.util.concurrent.atomic \
    sun.nio.ch sun.nio.cs sun.security.action sun.util.calendar; do
    options+=" --add-opens=java.base/$opened=ALL-UNNAMED"
  done
  JDK_JAVA_OPTIONS=$options java_program spark "$1"
}

# These come from Debian's packages; without them the program is skipped by name (status 77).
more_c() {
  pkg-config --exists libmongoc-1.0 || { echo "no libmongoc-dev"; return 77; }
  # shellcheck disable=SC2046
  cc -o "$scratch/c" "$here/c/check.c" $(pkg-config --cflags --libs libmongoc-1.0) && bounded "$scratch/c" "$1"
}
more_php() {
  php -m 2>/dev/null | grep -qx mongodb || { echo "no php-mongodb"; return 77; }
  bounded php "$here/php/check.php" "$1"
}
more_ruby() {
  ruby -e 'require "mongo"' 2>/dev/null || { echo "no ruby-mongo"; return 77; }
  bounded ruby "$here/ruby/check.rb" "$1"
}
more_golang-migrate() {
  command -v go >/dev/null || { echo "no Go"; return 77; }
  (cd "$here/go/golang-migrate" && bounded go run . "$1")
}

for name in "${names[@]}"; do
  declare -F "more_$name" >/dev/null || fail "no program named '$name'; there are: ${all[*]}"
done
start_server "$scratch/data" --replSet rs0
failed=()
: >"$scratch/results"
for name in "${names[@]}"; do
  began=$SECONDS status=0
  ("more_$name" "$ADDRESS") >"$scratch/said" 2>&1 || status=$?
  python3 "$here/report.py" line "$name" "$status" "$((SECONDS - began))" "$scratch/said" >>"$scratch/results"
  case $status in
    0) echo "clients: $name passed in $((SECONDS - began)) s" ;;
    77) echo "clients: $name is skipped: $(tail -n 1 "$scratch/said")" ;;
    *) failed+=("$name"); tail -n 30 "$scratch/said" >&2; echo "clients: $name FAILED" >&2 ;;
  esac
done
python3 "$here/report.py" merge "$results" "$scratch/results" "$here/programs.json" "$root/docs/clients.md"
stop_and_judge "${#names[@]}" programs "${failed[@]}"
