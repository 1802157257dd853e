package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/quern-queue/quern/sdk/terminal"
)

const (
	// lineEvery is how often progress is reported where no bar can be drawn: seldom enough for a log file.
	lineEvery = 10 * time.Second

	// drawEvery is how often a bar is redrawn: often enough for the eye.
	drawEvery = 100 * time.Millisecond
)

// progress shows how far long work is: with a bar that moves on a terminal, with a line now and then elsewhere, with
// nothing under --quiet. Its methods may be called from any goroutine.
type progress struct {
	mu      sync.Mutex
	w       io.Writer
	now     func() time.Time
	what    string // what is counted, in the plural
	total   int64  // -1: not known
	from    int64  // done before it was started: no part of the rate
	done    int64
	note    string
	bar     *progressbar.ProgressBar // nil: lines
	silent  bool
	started time.Time
	shown   time.Time // when it was last drawn or written
}

// newProgress starts reporting on total things (-1: their number is not known).
func (a *app) newProgress(what string, total int64, now func() time.Time) *progress {
	return a.goOn(what, total, 0, now)
}

// goOn is newProgress for work of which a part was done before.
func (a *app) goOn(what string, total, from int64, now func() time.Time) *progress {
	p := &progress{w: a.err, now: now, what: what, total: total, from: from, silent: a.quiet, started: now()}
	if a.quiet || !isTerminal(a.err) || a.getenv("TERM") == "dumb" {
		return p
	}
	p.bar = progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(a.err),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(total > 0 && from == 0), // it would count what was done before
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionFullWidth(),
		progressbar.OptionSpinnerType(14),
	)
	return p
}

// Set says that done things are done now; note is a few words about the rest.
func (p *progress) Set(done int64, note string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.note = done, note
	every := lineEvery
	if p.bar != nil {
		every = drawEvery
	}
	if now := p.now(); now.Sub(p.shown) >= every {
		p.shown = now
		p.tell()
	}
}

// Write lets other text pass without tearing the bar apart, so a progress can stand in for stderr.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
		defer func() { _ = p.bar.RenderBlank() }()
	}
	return p.w.Write(b)
}

// End shows the last state and leaves the cursor on a fresh line.
func (p *progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tell()
	if p.bar != nil {
		_ = p.bar.Exit()
		say(p.w, "\n")
	}
}

// tell draws the bar, or writes a line.
func (p *progress) tell() {
	if p.silent {
		return
	}
	rate := ""
	if passed := p.now().Sub(p.started); passed >= time.Second { // of less it says nothing
		rate = fmt.Sprintf(", %.0f/s", float64(p.done-p.from)/passed.Seconds())
	}
	if p.bar != nil {
		// Either fails only when the terminal is gone, which is no reason to stop the work.
		p.bar.Describe(terminal.Text(cmp.Or(p.note, p.what)) + rate)
		_ = p.bar.Set64(p.done)
		return
	}
	text := fmt.Sprintf("%d %s", p.done, p.what)
	if p.total > 0 {
		text = fmt.Sprintf("%d of %d %s (%d %%)", p.done, p.total, p.what, p.done*100/p.total)
	}
	if p.note != "" {
		text += ", " + p.note
	}
	say(p.w, "%s\n", text+rate)
}

// isTerminal says whether stream is a character device. That is true of a few devices that are no terminals, such as
// the null device, where drawing a bar does no harm.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
