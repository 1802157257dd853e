#!/usr/bin/env bash
# stages.sh TARGET...: makes the targets one after another, also after one of them failed, and ends with a summary. Those in one word, as
# one+other, are made at the same time; the output of the others is shown when all of them have ended.
# One failure must not hide another: each stage says something about the same commit.
set -uo pipefail
trap 'echo "== interrupted"; kill $(jobs -p) 2>/dev/null; exit 130' INT TERM

[ $# -gt 0 ] || { echo "stages.sh: name at least one target"; exit 2; }
all=(${*//+/ }) # make's words have no spaces
summary=() failed=0 number=0
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

stage() { # makes a target, and keeps how it ended
	local begun=$SECONDS outcome=passed
	"${MAKE:-make}" --no-print-directory "$1" || outcome=FAILED
	echo "$outcome $((SECONDS - begun))" >"$results/$1"
}
title() { printf '\n== stage %d of %d: %s\n' $((++number)) ${#all[@]} "$1"; }

for word in "$@"; do
	together=(${word//+/ })
	for name in "${together[@]:1}"; do stage "$name" >"$results/$name.out" 2>&1 & done
	title "${together[0]}"
	stage "${together[0]}"
	wait
	for name in "${together[@]:1}"; do
		title "$name"
		cat "$results/$name.out"
	done
	for name in "${together[@]}"; do
		read -r outcome seconds <"$results/$name"
		again=
		[ "$outcome" = passed ] || { again="    run it again: make $name"; failed=$((failed + 1)); }
		summary+=("$(printf '%s  %-20s %6d s%s' "$outcome" "$name" "$seconds" "$again")")
	done
done

printf '\n== summary\n'
printf '%s\n' "${summary[@]}"
[ "$failed" -eq 0 ] || { echo "$failed of ${#all[@]} stages failed"; exit 1; }
echo "all ${#all[@]} stages passed"
