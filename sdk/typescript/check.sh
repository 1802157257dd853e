#!/usr/bin/env bash
# Everything that must hold of the TypeScript client: it builds, its tests, and the conformance suite: in Node.js with its connections, and in
# Deno with fetch, as browsers have it. Run by `make clients`.
set -euo pipefail
cd "$(dirname "$0")"
untracked() { git ls-files --others --exclude-standard . 2>/dev/null || true; } # a release has no git
before=$(untracked)
npm run --silent build && npm run --silent test
node_modules/.bin/deno test --quiet --no-check -A test/addresses.test.mjs
go build -o ../../bin/conformance ../conformance
../../bin/conformance -timeout 1m node test/conformant.mjs & node=$!
../../bin/conformance -timeout 1m node_modules/.bin/deno run -A test/conformant.mjs
wait $node
npm pack --silent --ignore-scripts >/dev/null
diff <(echo "$before") <(echo "$(untracked)") || { echo "an install leaves files that git does not ignore"; exit 1; }
rm -f ./*.tgz
