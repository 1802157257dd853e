#!/usr/bin/env bash
# kind.sh KIND: the folders of the packages whose tests are of that kind: a file of theirs has the line //quern:tests KIND. The kinds are
#   pure       nothing runs at the same time, which internal/archtest checks. The race detector sees nothing there and takes five times as long.
#   simulated  under the race detector only the tests in which calls overlap run, for the same reason; all of them run without.
#   processes  they start processes, whose races the detector does not see, or run for long: always without it.
# kind.sh other: those of all other packages, which are tested under the race detector.
set -euo pipefail
cd "$(dirname "$0")/.."
marked() { grep -rlxE --include='*.go' --exclude-dir=node_modules "//quern:tests $1" cmd engine examples internal plugins sdk wasm web | xargs -n1 dirname | sort -u | sed 's|^|./|'; }

if [ "$1" = other ]; then
	go list ./... | grep -vxF "$(marked '.*' | xargs go list)"
else
	marked "$1"
fi
