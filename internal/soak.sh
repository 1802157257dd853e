#!/usr/bin/env bash
# soak.sh ROUNDS SEEDS: long runs of the tests that `make test` runs briefly. ROUNDS of kill -9, SEEDS new ones of each simulation; a seed
# that fails prints the line that replays it. The times that it asks for are bounds, not estimates.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=$1 seeds=$2
run() { go test -count 1 "$@"; }

run -timeout 1h -v -run TestBound ./engine/fair -args -fair.instances=10000
QUERN_SIM_SEEDS=$seeds run -timeout 48h -run 'TestSimulation$|TestFaults$|TestOverlaps$|TestScheduleSimulation$|TestRandomIsUniform|TestLimitsHoldAcrossCrashes' ./engine/simtest
QUERN_SIM_SEEDS=$seeds run -timeout 48h -run 'TestNodes$' ./engine/simtest/nodes
run -timeout 24h -count 20 -run '^TestBehaviour|^TestScene|^TestCrew|^TestShared|^TestShards|^TestScripts$' ./web -args -nodes 3
QUERN_ANY_CALLS=20000 run -race -timeout 6h -v -run TestAnyCalls ./web
QUERN_ANY_CALLS=20000 run -race -timeout 6h -v -run TestAnyCalls ./web -args -nodes 3
QUERN_KEYS=1060000 run -timeout 2h -v -run 'TestKeysAreNotForgotten$' ./engine/simtest
QUERN_POWER_STATES=100000 QUERN_DISK_FAULTS=5000 run -timeout 24h -v ./engine/powerloss
QUERN_RESTORE_ROUNDS=100 run -timeout 12h -v -run 'TestBackupUnderLoad|TestCopyOfALiveDirectory' ./engine
QUERN_KEEP_ROUNDS=200 run -timeout 12h -v -run 'KillNineOf(Check|Restore|Increment)' ./cmd/quern
QUERN_NEW_SEEDS=yes run -v -run 'Order|Random' ./engine/backlog
QUERN_GUESSES=20000 run -v -run TestGuessesTakeTheSameTime ./engine/access
QUERN_FULL_DISKS=all run -timeout 2h -v -run TestFullDiskStarts ./cmd/quern
QUERN_ANSWERS=yes run -timeout 1h -v -run TestMemoryOfAnswersThatNoOneReads ./cmd/quern
QUERN_DEMO=1h run -timeout 2h -v -run TestDemoTellsItsStory ./cmd/quern
QUERN_SILENT=yes run -v -run 'TestNoCommandWaitsForASilentServer/quern_move' ./cmd/quern
QUERN_STARVED=yes run -v -run TestListsOfATenantStarveNoOne ./cmd/quern
QUERN_CRASH_ROUNDS=$rounds QUERN_GRACE_ROUNDS=$rounds run -timeout 72h -v -run KillNine ./cmd/quern
QUERN_HISTORY_ROUNDS=$((rounds / 100 + 1)) run -timeout 24h -v -run 'TestClusterHistories$' ./cmd/quern
cd web/dashboard && ALL_PAGES=yes HOSTILE=400 npm run --silent test && npm run --silent soak
