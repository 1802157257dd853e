#!/usr/bin/env bash
# kind.sh KIND: the folders of the packages whose tests are of that kind: a file of theirs has the line //quern:tests KIND. The kinds are
#   pure       nothing runs at the same time, which internal/archtest checks. The race detector sees nothing there and takes five times as long.
#   mixed      under the race detector only the tests with the line //quern:overlapping run, in which calls, streams or nodes overlap. The
#              others run without it: they do one thing after another.
#   processes  they start processes, whose races the detector does not see, or run for long: always without it.
#              Those with the line //quern:killing kill something or are about a full or lost disk: they run on the disk, and the rest in memory.
# kind.sh other: those of all other packages, which are tested under the race detector. In those, a test with the line //quern:sequential does
# one thing after the other, at length, and other tests do the same at once: it runs without the detector.
#
# kind.sh overlapping, killing or sequential: the names of the tests with the line, as -run and -skip take them. Before the package clause, a
# line is of all tests of the file. kind.sh with LINE: the folders with such tests.
set -euo pipefail
cd "$(dirname "$0")/.."
search() { grep -r --include='*.go' --exclude-dir=node_modules "$@" cmd engine examples internal plugins sdk wasm web; }
folders() { xargs -n1 dirname | sort -u | sed 's|^|./|'; }
marked() { search -lxE "//quern:tests $1" | folders; }

case $1 in
other) go list ./... | grep -vxF "$(marked '.*' | xargs go list)" ;;
with) search -lxF "//quern:$2" | folders ;;
overlapping | killing | sequential)
	names=$(search -lxF "//quern:$1" | xargs awk -v line="//quern:$1" '
		FNR == 1 { file = 0; mark = 0 }
		$0 == line { mark = 1 }
		/^package / { file = mark; mark = 0 }
		/^func / { if ((file || mark) && match($0, /^func Test[A-Za-z0-9_]*\(/)) print substr($0, 6, RLENGTH - 6); mark = 0 }')
	echo "^($(paste -sd '|' <<<"$names"))\$" ;;
*) marked "$1" ;;
esac
