package web

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/access"
)

// This file bounds how many lines calls that fail write to the log: anyone can send
// millions. The first ten lines of a kind are written, then one a second; the next line of
// the kind has the number of those that were left out. Failures of the server do not share
// the bound of all kinds with refusals: clients that send nonsense cannot hide them.
const (
	lineEvery, lineBurst   = time.Second, 10 * time.Second            // of one kind
	linesEvery, linesBurst = time.Second / 10, 100 * time.Second / 10 // of all kinds
)

// lineKind has the things by which lines are counted. There are as many kinds as operations
// times codes.
type lineKind struct {
	operation, code string
	ours            bool // a failure of the server
}

// lines counts the lines of each kind.
//
// The map cannot grow without bound: a kind is an operation of the table and a code of the table,
// both of which are fixed.
type lines struct {
	leftOut prometheus.Counter

	mu  sync.Mutex
	all map[bool]*access.Pace // by lineKind.ours
	of  map[lineKind]*lineCount
}

type lineCount struct {
	pace    access.Pace
	leftOut int // since the last line
}

func newLines() *lines {
	all := map[bool]*access.Pace{false: {}, true: {}}
	return &lines{of: map[lineKind]*lineCount{}, all: all, leftOut: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "quern_log_lines_left_out_total",
		Help: "Total number of lines about failed calls that the server omitted from the log because there were " +
			"too many.",
	})}
}

// take says whether a line may be written now, and how many of its kind were left out since the last one.
func (l *lines) take(kind lineKind, at time.Duration) (leftOut int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.of[kind]
	if of == nil {
		of = new(lineCount)
		l.of[kind] = of
	}
	if of.pace.Take(at, lineEvery, lineBurst) > 0 || l.all[kind.ours].Take(at, linesEvery, linesBurst) > 0 {
		of.leftOut++
		l.leftOut.Inc()
		return 0, false
	}
	leftOut, of.leftOut = of.leftOut, 0
	return leftOut, true
}
