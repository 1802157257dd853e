#!/usr/bin/env bash
# fuzz.sh TIME: every fuzz target for that long.
set -euo pipefail
cd "$(dirname "$0")/.."
grep -rn --include='*_test.go' -o '^func Fuzz[A-Za-z0-9_]*' cmd engine plugins sdk wasm web | sort | while IFS=: read -r file _ name; do
	echo "== ${name#func } in ${file%/*}"
	go test -run '^$' -fuzz "^${name#func }\$" -fuzztime "$1" -fuzzminimizetime 100x "./${file%/*}"
done
