package client

import (
	"math"
	"sync"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// progressEvery is how often a worker makes a call because handlers say how far they are: a handler may say it in each
// turn of a loop.
const progressEvery = time.Second

// Progress reports how much of the work is done, from 0 to 1, and a note about the current step. It is for people:
// the dashboard and `quern reservations` show it until the chunk is finished. Progress returns at once. Within about
// a second, Work sends the latest reports of all its chunks together. An empty note keeps the previous one. A long
// note is cut to 256 bytes.
func (c *Chunk) Progress(part float64, note string) {
	if h := c.held; h != nil {
		h.worker.progress.say(h, part, note)
	}
}

// progress is the progress that one handler reported.
type progress struct {
	has    bool
	part   float64
	note   []byte
	listed bool // the worker is to send it
}

// progresses is the progress that a worker's handlers report. The fields of the second part belong to the loop.
type progresses struct {
	mu   sync.Mutex
	said []*held       // chunks whose handlers reported something that was not sent, each once
	wake chan struct{} // a first one is there

	due  <-chan time.Time // when the next call may be made; nil: nothing is to be sent
	last time.Time
}

func (p *progresses) say(h *held, part float64, note string) {
	if math.IsNaN(part) {
		part = 0
	}
	p.mu.Lock()
	h.progress.has, h.progress.part = true, min(max(part, 0), 1)
	if note != "" {
		h.progress.note = []byte(clip(note, api.MaxNoteBytes))
	}
	if !h.progress.listed {
		h.progress.listed = true
		p.said = append(p.said, h)
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default: // the loop wakes already
	}
}

// schedule has reports sent as soon as a call may be made.
func (p *progresses) schedule() {
	if p.due == nil {
		p.due = time.After(progressEvery - time.Since(p.last))
	}
}

// take returns the chunks whose handlers reported something since the last time.
func (p *progresses) take() []*held {
	p.due, p.last = nil, time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	said := p.said
	p.said = nil
	for _, h := range said {
		h.progress.listed = false
	}
	return said
}

// again has something sent with the next call: an extension of the chunk is under way, which may not say it.
func (p *progresses) again(h *held) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !h.progress.listed {
		h.progress.listed = true
		p.said = append(p.said, h)
	}
	p.schedule()
}

// fill adds what was said last. Each extension says it again: a server that was started again does not know it.
func (p *progresses) fill(h *held, item *wire.ExtendItem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	item.HasProgress, item.Progress, item.Note = h.progress.has, h.progress.part, h.progress.note
}

// sendProgress extends the chunks whose handlers said something.
func (w *worker) sendProgress() {
	for _, h := range w.progress.take() {
		if _, still := w.held[h]; !still || h.lost.Load() {
			continue
		}
		if h.extending {
			w.progress.again(h)
		} else {
			w.extend(h)
		}
	}
}
