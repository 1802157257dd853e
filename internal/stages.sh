#!/usr/bin/env bash
# stages.sh TARGET...: makes the targets one after another, also after one of them failed, and ends with a summary.
# One failure must not hide another: the later stages take an hour, and each says something about the same commit.
set -uo pipefail
trap 'echo "== interrupted"; exit 130' INT TERM

[ $# -gt 0 ] || { echo "stages.sh: name at least one target"; exit 2; }
summary=() failed=0 number=0
for stage in "$@"; do
	printf '\n== stage %d of %d: %s\n' $((++number)) $# "$stage"
	begun=$SECONDS
	if "${MAKE:-make}" --no-print-directory "$stage"; then
		outcome=passed again=
	else
		outcome=FAILED again="    run it again: make $stage"
		failed=$((failed + 1))
	fi
	summary+=("$(printf '%s  %-20s %6d s%s' "$outcome" "$stage" $((SECONDS - begun)) "$again")")
done

printf '\n== summary\n'
printf '%s\n' "${summary[@]}"
[ "$failed" -eq 0 ] || { echo "$failed of $# stages failed"; exit 1; }
echo "all $# stages passed"
