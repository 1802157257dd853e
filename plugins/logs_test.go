package plugins

import (
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/wasm/host"
)

// A reader gets each line once, and the last ones that are kept. One whose number is of before a restart gets the lines since then.
func TestLogsAfterANumber(t *testing.T) {
	t.Parallel()
	l := newLogs(&Limits{LogLines: 4, LogsPerSecond: 100})
	log := func(n int) {
		l.add(time.Unix(1_700_000_000, 0), &version{}, &host.Report{Logs: make([]host.Line, n)}, 0)
	}
	read := func(after uint64, limit int, want ...uint64) {
		t.Helper()
		lines, _ := l.after(after, limit)
		var got []uint64
		for _, line := range lines {
			got = append(got, line.Number)
		}
		if !slices.Equal(got, want) {
			t.Errorf("behind %d: the lines %d, want %d", after, got, want)
		}
	}
	read(0, 10)
	read(500, 10) // nothing was logged since the restart
	log(3)
	read(0, 10, 1, 2, 3)
	read(2, 10, 3)
	read(3, 10) // all are read
	read(4, 10, 1, 2, 3)
	read(500, 2, 1, 2)
	log(3)
	read(3, 10, 4, 5, 6)
	read(500, 10, 3, 4, 5, 6)
}
