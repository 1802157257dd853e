#!/usr/bin/env bash
# in-memory.sh COMMAND...: runs a command, as env(1) does, with its temporary files in memory where there is room for them. Thousands of
# tests make small files, and waiting for a disk to sync them proves nothing. Without room in memory they stay on the disk, and Go's build
# output always does. Tests of kill -9 and of failing power run on the disk (test-kills in the Makefile). Where there is
# room, Go also collects garbage less often, unless GOGC says how often: the heaps of tests are small, and collecting them takes a sixth of
# the simulations' time. A test that measures memory collects garbage itself before it looks. The Makefile keeps to Go's own GOGC
# under the race detector, which needs several times the memory of the heap, and for tests that start the real server.
set -euo pipefail
memory=/dev/shm
enough() { [ "${1:-0}" -ge $(($2 << 20)) ]; } # so many kB are at least so many GiB

export GOTMPDIR=${GOTMPDIR:-${TMPDIR:-/tmp}}
if [ -w "$memory" ] && ! grep -q " $memory [^ ]* [^ ]*noexec" /proc/mounts &&
	enough "$(df --output=avail -k "$memory" | tail -n 1)" 4 &&
	enough "$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)" 12; then
	export TMPDIR=$memory GOGC=${GOGC:-300}
fi
exec env "$@"
