#!/usr/bin/env bash
# kind.sh KIND: the folders of the packages whose tests are of that kind: a file of theirs has the line //quern:tests KIND. The kinds are
#   pure       nothing runs at the same time, which internal/archtest checks. The race detector sees nothing there and takes five times as long.
#   simulated  under the race detector only the tests in which calls overlap run, for the same reason; all of them run without.
#   processes  they start processes, whose races the detector does not see, or run for long: always without it.
# kind.sh other: those of all other packages, which are tested under the race detector.
#
# In those, a test (or a file, before its package clause) with the line //quern:sequential does one thing after the other, at length, and other
# tests do the same at once: it runs without the detector. kind.sh sequential: the folders with such tests; kind.sh names: their names, for -run and -skip.
set -euo pipefail
cd "$(dirname "$0")/.."
search() { grep -r --include='*.go' --exclude-dir=node_modules "$@" cmd engine examples internal plugins sdk wasm web; }
folders() { xargs -n1 dirname | sort -u | sed 's|^|./|'; }
marked() { search -lxE "//quern:tests $1" | folders; }
sequential() { search -lxF //quern:sequential; }

case $1 in
other) go list ./... | grep -vxF "$(marked '.*' | xargs go list)" ;;
sequential) sequential | folders ;;
names)
	names=$(sequential | xargs awk '
		FNR == 1 { file = 0; mark = 0 }
		/^\/\/quern:sequential$/ { mark = 1 }
		/^package / { file = mark; mark = 0 }
		/^func / { if ((file || mark) && match($0, /^func Test[A-Za-z0-9_]*\(/)) print substr($0, 6, RLENGTH - 6); mark = 0 }')
	echo "^($(paste -sd '|' <<<"$names"))\$" ;;
*) marked "$1" ;;
esac
