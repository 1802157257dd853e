#!/usr/bin/env bash
# The OpenAPI document works with other tools: Redocly's linter finds nothing, and the clients that three generators make of it compile and
# call a real server. openapi-generator is not among them: its package on npm fetches a program in Java from Maven. Run by `make clients`;
# $1 is the quern binary.
set -euo pipefail
binary=$(realpath "$1")
cd "$(dirname "$0")"
untracked() { git ls-files --others --exclude-standard . 2>/dev/null || true; } # a release has no git
before=$(untracked)
document=../../web/testdata/openapi.json
[ node_modules/.package-lock.json -nt package-lock.json ] || { npm ci --silent && touch node_modules/.package-lock.json; }
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true PATH=$PWD/node_modules/.bin:$PATH

# quiet runs a command and shows its output only if it failed.
quiet() { local said; said=$("$@" 2>&1) || { echo "$said"; exit 1; }; }
echo "== the document, by Redocly's rules"
found=$(redocly lint --format=checkstyle --max-problems 1000 "$document" 2>/dev/null) || { echo "$found"; exit 1; }
! grep '<error ' <<<"$found" || { echo "warnings count, too"; exit 1; }

echo "== clients that are generated from it"
rm -rf generated go/generated; mkdir -p generated go/generated
(cd go && go tool oapi-codegen -generate types,client -package generated -o generated/client.go "../$document" && go build -o ../generated/caller .)
quiet openapi-typescript "$document" -o generated/schema.d.ts
quiet openapi-ts -i "$document" -o generated/hey -c @hey-api/client-fetch
tsc -p .

coproc server { exec "$binary" dev --listen 127.0.0.1:0 2>&1; }
trap 'kill "$server_PID"' EXIT
url=
while [ -z "$url" ] && read -r line <&"${server[0]}"; do url=$(grep -o 'http://127[^ )]*' <<<"$line" || true); done
generated/caller "${url%/}"
for caller in fetch hey; do node "generated/built/$caller.js" "${url%/}"; done
diff <(echo "$before") <(echo "$(untracked)") || { echo "the check leaves files that git does not ignore"; exit 1; }
