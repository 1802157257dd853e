package plugins

import (
	"sync"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/host"
)

// logs keeps the last lines of a plugin, and takes so many a second.
type logs struct {
	most, rate int

	mu      sync.Mutex
	lines   []api.PluginLogLine // a ring once it is full
	number  uint64              // of the last line
	dropped uint64
	second  int64 // the second that taken counts
	taken   int
}

func newLogs(l *Limits) *logs { return &logs{most: l.LogLines, rate: l.LogsPerSecond} }

// levels are the names of abi.LevelDebug to abi.LevelError.
var levels = [...]string{"debug", "info", "warn", "error"}

// add takes the lines of a batch.
func (l *logs) add(now time.Time, v *version, r *host.Report, level int) {
	if len(r.Logs) == 0 && r.LogsDropped == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropped += uint64(r.LogsDropped)
	if second := now.Unix(); second != l.second {
		l.second, l.taken = second, 0
	}
	for _, line := range r.Logs {
		if line.Level < level {
			continue
		}
		if l.taken >= l.rate {
			l.dropped++
			continue
		}
		l.taken++
		l.number++
		one := api.PluginLogLine{Number: l.number, Time: api.At(now), SHA256: short(v.SHA256), Version: v.Version,
			Level: levels[line.Level&3], Text: line.Text}
		if len(l.lines) < l.most {
			l.lines = append(l.lines, one)
		} else {
			l.lines[(l.number-1)%uint64(l.most)] = one
		}
	}
}

// after lists up to limit lines behind a number, the oldest first, and how many were dropped in all. A number that
// no line has had yet is from before a restart, after which numbers begin again at 1: its reader gets the new lines from the
// first.
func (l *logs) after(number uint64, limit int) (lines []api.PluginLogLine, dropped uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number > l.number {
		number = 0
	}
	first := max(number, l.number-uint64(len(l.lines)))
	for n := first; n < l.number && len(lines) < limit; n++ {
		lines = append(lines, l.lines[n%uint64(l.most)])
	}
	return lines, l.dropped
}
