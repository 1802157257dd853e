#!/usr/bin/env bash
# golden.sh: rewrites the golden files: those of each package whose tests have a flag for it, the manual, and the types and calls of the clients.
set -euo pipefail
cd "$(dirname "$0")/.."
grep -rEo --include='*_test.go' 'flag.Bool\("(rewrite|update)"' . | sed -E 's|/[^/]*:.*"(.*)"| \1|' | sort -u | while read -r folder flag; do
	go test -count 1 -short "$folder" "-$flag"
done
go run ./cmd/quern man --markdown >docs/CLI.md.new && mv docs/CLI.md.new docs/CLI.md
node sdk/typescript/generate.mjs web/testdata/openapi.json sdk/typescript/src/generated
python3 sdk/python/generate.py
