package simtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/quern-queue/quern/engine/journal"
)

// ending is the outcome of a write that a gate holds.
type ending uint8

const (
	succeeds       ending = iota
	isFull                // nothing is written, and its caller knows it
	isLost                // nothing is written, and its caller does not know
	isLostInSecret        // it is written, and its caller does not know
)

var endingNames = [...]string{"ends well", "finds the disk full", "ends unknown, not written", "ends unknown, but written"}

func (e ending) written() bool { return e == succeeds || e == isLostInSecret }

func (e ending) err() error {
	switch e {
	case isFull:
		return fmt.Errorf("test: %w", journal.ErrFull)
	case isLost, isLostInSecret:
		return fmt.Errorf("test: %w", journal.ErrUnknown)
	}
	return nil
}

// held is a write that waits at a gate: first for its turn, then, when it is done, for the moment at which its caller learns of it.
type held struct {
	what    string // "append", or what the store writes
	begin   chan ending
	answer  chan struct{}
	end     ending
	written bool // its turn is over
}

// gates stand in front of the journal and of the store's writer. Every write halts at them twice, and the driver of the simulation says
// which goes on, and how it ends. Beneath is real SQLite.
type gates struct {
	mu      sync.Mutex
	held    []*held
	open    bool       // writes pass
	behind  bool       // an append ended unknown, and the shard has not reloaded yet: it may wait for a checkpoint
	loading bool       // a journal was opened, and its first append is not over: a shard starts or reloads
	reloads int        // journals opened
	disk    *diskModel // gets the appended batches
}

func newGates(disk *diskModel) *gates { return &gates{disk: disk} }

// pass takes a write through: it returns the error for its caller.
func (g *gates) pass(what string, write func() error) error {
	g.mu.Lock()
	if g.open || g.loading || what == moving {
		g.mu.Unlock()
		return write()
	}
	h := &held{what: what, begin: make(chan ending), answer: make(chan struct{})}
	g.held = append(g.held, h)
	g.mu.Unlock()
	h.end = <-h.begin
	var err error
	if h.end.written() {
		err = write()
	}
	<-h.answer
	return errors.Join(err, h.end.err())
}

// moving are writes that others wait for, under a lock or in a reload: they are not held.
const moving = "moving"

// around is called by the store for every transaction.
func (g *gates) around(write func() error) error { return g.pass(storeWrite(), write) }

// storeWrite says which of the store's functions is writing, from its stack.
func storeWrite() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		switch _, name, _ := strings.Cut(frame.Function, "store.(*Blobs)."); name {
		case "Put":
			return "content"
		case "Delete": // a reload sweeps
			return moving
		}
		_, name, _ := strings.Cut(frame.Function, "store.(*Store).")
		switch name {
		case "CompactOutputs", "PackOutputs", "SweepOrphans":
			return moving
		case "Checkpoint", "SetCheckpointed":
			return name
		}
	}
	return "rows"
}

// gatedLog is a journal behind the gates.
type gatedLog struct {
	journal.Journal
	gates *gates
	first bool // its first append, with which a shard starts or reloads, is still to come
}

func (g *gates) wrap(inner journal.Journal) journal.Journal {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loading = true
	g.reloads++
	return &gatedLog{Journal: inner, gates: g, first: true}
}

func (l *gatedLog) Append(ctx context.Context, expect journal.Position, batch []byte) (position journal.Position, err error) {
	g := l.gates
	err = g.pass("append", func() (err error) {
		position, err = l.Journal.Append(ctx, expect, batch)
		if err == nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.disk.append(position, batch)
		}
		return err
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.behind = errors.Is(err, journal.ErrUnknown) || g.behind && !l.first
	g.loading = g.loading && !l.first
	l.first = false
	return position, err
}

// reloading says that the shard does not know the outcome of an append yet.
func (g *gates) reloading() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.behind
}

// list are the writes that are held: the append first, then the store's in their order.
func (g *gates) list() []*held {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []*held
	for _, isAppend := range []bool{true, false} {
		for _, h := range g.held {
			if (h.what == "append") == isAppend {
				list = append(list, h)
			}
		}
	}
	return list
}

// drop takes a write off the list: it is on its way back to its caller.
func (g *gates) drop(h *held) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.held {
		if g.held[i] == h {
			g.held = append(g.held[:i], g.held[i+1:]...)
			return
		}
	}
}

// throw opens the gates: everything that is held, and comes, passes and ends well. The returned function shuts them.
func (g *gates) throw() (shut func()) {
	g.mu.Lock()
	g.open = true
	list := g.held
	g.held = nil
	g.mu.Unlock()
	for _, h := range list {
		if !h.written {
			h.begin <- succeeds
		}
		close(h.answer)
	}
	return func() {
		g.mu.Lock()
		g.open = false
		g.mu.Unlock()
	}
}
