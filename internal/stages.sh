#!/usr/bin/env bash
# stages.sh WORD...: makes targets, even after one of them failed, and ends with a summary. A word is a target, or several that may run at
# the same time, as one+two+three. Of these, LANES (2) run at a time, and the next one begins when one has ended: so the longest come first.
# The output of a target is shown when it has ended. One failure must not hide another, because all stages test the same commit.
set -uo pipefail
set -m # each target has a process group, which can be ended as a whole
trap 'echo "== interrupted"; for group in $(jobs -p); do kill -- -"$group"; done; exit 130' INT TERM

[ $# -gt 0 ] || { echo "stages.sh: name at least one target"; exit 2; }
words=$*
all=(${words//+/ }) # make's words have no spaces
failures=
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

stage() { # makes a target, and keeps its result and its output
	local begun=$SECONDS outcome=passed
	"${MAKE:-make}" --no-print-directory "$1" >"$results/$1.said" 2>&1 || outcome=FAILED
	echo "$outcome $((SECONDS - begun))" >"$results/$1"
	flock "$results" sh -c 'printf "\n== %s: %s\n" "$1" "$2"; cat "$3"' - "$1" "$outcome" "$results/$1.said"
}
causes() { # the lines that name the tests that failed, or that ran when the time was up. A test may log a lot before it says why it fails.
	grep -hE -A 25 '^ *--- FAIL|WARNING: DATA RACE|^(FAIL|ERROR): |^not ok|^FAILED |^panic: test timed out|running tests:' "$results/$1.said" | head -100 | cut -c1-300
}

number=0
for word in "$@"; do
	for name in ${word//+/ }; do
		while [ "$(jobs -rp | wc -l)" -ge "${LANES:-2}" ]; do wait -n; done
		printf '== stage %d of %d: %s\n' $((number += 1)) ${#all[@]} "$name"
		stage "$name" &
	done
	wait
done

summary=()
for name in "${all[@]}"; do
	read -r outcome seconds <"$results/$name"
	again=
	[ "$outcome" = passed ] || { again="    run it again: make $name"; failures+=" $name"; }
	summary+=("$(printf '%s  %-20s %6d s%s' "$outcome" "$name" "$seconds" "$again")")
done
for name in $failures; do # a reader who has only the end of the output must see the cause
	printf '\n== what failed in %s\n' "$name"
	causes "$name"
done
printf '\n== summary\n'
printf '%s\n' "${summary[@]}" "        all together         $(printf %6d $SECONDS) s"
[ -z "$failures" ] || { echo "$(wc -w <<<"$failures") of ${#all[@]} stages failed"; exit 1; }
echo "all ${#all[@]} stages passed"
