#!/usr/bin/env bash
# stages.sh TARGET...: makes the targets one after another, also after one of them failed, and ends with a summary. A word may have several
# lanes, as one,two+three,four. They run at the same time, and each makes its targets one after another. The output of all lanes but the
# first is shown when all have ended.
# One failure must not hide another: each stage says something about the same commit.
set -uo pipefail
trap 'echo "== interrupted"; kill $(jobs -p) 2>/dev/null; exit 130' INT TERM

[ $# -gt 0 ] || { echo "stages.sh: name at least one target"; exit 2; }
words=${*//+/ }
all=(${words//,/ }) # make's words have no spaces
summary=() failed=0 failures=
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

stage() { # makes a target, and keeps how it ended and what it said
	local begun=$SECONDS outcome=passed
	"${MAKE:-make}" --no-print-directory "$1" 2>&1 | tee "$results/$1.said" || outcome=FAILED
	echo "$outcome $((SECONDS - begun))" >"$results/$1"
}
causes() { # the lines that name the tests that failed, or that ran when the time was up. A test may log a lot before it says why it fails.
	grep -hE -A 25 '^ *--- FAIL|WARNING: DATA RACE|^(FAIL|ERROR): |^not ok|^FAILED |^panic: test timed out|running tests:' "$results/$1.said" | head -100 | cut -c1-300
}
title() {
	local number
	for number in "${!all[@]}"; do [ "${all[number]}" != "$1" ] || break; done
	printf '\n== stage %d of %d: %s\n' $((number + 1)) ${#all[@]} "$1"
}
lane() { # makes the targets of a lane
	local name
	for name in ${1//,/ }; do
		title "$name"
		stage "$name"
	done
}

for word in "$@"; do
	lanes=(${word//+/ })
	for others in "${lanes[@]:1}"; do lane "$others" >"$results/$others.out" 2>&1 & done
	lane "${lanes[0]}"
	wait
	for others in "${lanes[@]:1}"; do cat "$results/$others.out"; done
	for name in ${word//[+,]/ }; do
		read -r outcome seconds <"$results/$name"
		again=
		[ "$outcome" = passed ] || { again="    run it again: make $name"; failed=$((failed + 1)); failures+=" $name"; }
		summary+=("$(printf '%s  %-20s %6d s%s' "$outcome" "$name" "$seconds" "$again")")
	done
done

for name in $failures; do # a reader who has only the end of the output must see the cause
	printf '\n== what failed in %s\n' "$name"
	causes "$name"
done
printf '\n== summary\n'
printf '%s\n' "${summary[@]}"
[ "$failed" -eq 0 ] || { echo "$failed of ${#all[@]} stages failed"; exit 1; }
echo "all ${#all[@]} stages passed"
