#!/usr/bin/env bash
# release-check.sh VERSION DIR ARCH...: builds the release in DIR again, from a copy elsewhere and with an empty cache, and compares the bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1 dir=$2
shift 2
copy=$(mktemp -d)
trap 'chmod -R u+w "$copy" && rm -rf "$copy"' EXIT
mkdir "$copy/tree"
git ls-files -z --cached --others --exclude-standard | tar --null -T - -c .git | tar -x -C "$copy/tree"
GOCACHE=$copy/cache "$copy/tree/deploy/release.sh" "$version" "$copy/again" "$@"
diff "$dir/SHA256SUMS" "$copy/again/SHA256SUMS" && echo "both builds have the same bytes"
