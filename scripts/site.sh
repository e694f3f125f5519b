#!/usr/bin/env bash
# Renders the documents as a static site below target/site with mdBook (installed once into the cache folder), and checks that
# every link between pages leads to a page. Usage: site.sh [FOLDER]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
out=${1:-${CARGO_TARGET_DIR:-target}/site}
version=0.4.52
tools=$(scripts/cache.sh)/mdbook-$version
[ -x "$tools/bin/mdbook" ] || cargo install --locked --quiet --version "$version" --root "$tools" mdbook --no-default-features --features search
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The pages stand where they stand in the repository, so that their links hold.
mkdir "$work/src"
git ls-files -z --cached --others --exclude-standard '*.md' '*.svg' LICENSE lab/runs deploy | xargs -0 cp --parents -t "$work/src"
title() { sed -n 's/^# //p' "$1" | head -n 1; }
{ echo "# Measured runs"; echo; for page in lab/runs/*/README*.md; do echo "- [$(title "$page")](${page#lab/runs/})"; done; } >"$work/src/lab/runs/README.md"
while IFS= read -r line; do
  case $line in
    @ADR@) for page in docs/adr/[0-9]*.md; do echo "  - [$(title "$page")]($page)"; done ;;
    @RUNS@) for page in lab/runs/*/README*.md; do echo "  - [$(title "$page")]($page)"; done ;;
    *) printf '%s\n' "$line" ;;
  esac
done <docs/contents.txt >"$work/src/SUMMARY.md"
cat >"$work/book.toml" <<'TOML'
[book]
title = "Quarry"
language = "en"
[build]
create-missing = false
[output.html]
default-theme = "light"
TOML
"$tools/bin/mdbook" build "$work" --dest-dir "$work/book" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
# mdBook renders each README as its folder's index and leaves the links to it as they were.
find "$work/book" -name '*.html' -exec sed -i -E 's#(href="([^":]*/)?)README\.html#\1index.html#g' {} +
rm -rf "$out" && mkdir -p "$(dirname "$out")" && cp -r "$work/book" "$out"
python3 scripts/site-links.py "$out"
echo "site: $(find "$out" -name '*.html' | wc -l) pages in $out"
