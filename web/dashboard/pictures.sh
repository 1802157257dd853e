#!/usr/bin/env bash
# pictures.sh: takes the pictures of the documents again, from a server under load.
set -euo pipefail
cd "$(dirname "$0")"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
SHOTS=$dir node --test --test-name-pattern '1440 px' test/dashboard.test.mjs
for picture in overview-light overview-dark keys-dark submission-light chunk-light strategies-dark fairness-dark plugin-light dead-letters-light \
	rules-dark operations-dark; do
	cp "$dir/$picture-1440.png" "../../docs/img/$picture.png"
done
optipng -quiet ../../docs/img/*.png
