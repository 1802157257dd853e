package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
)

// books record what clients know of their own work, independently of the servers: acknowledged inserts, the holders of chunks, and how
// many work on chunks of one company. A client that works on a chunk goes on when the owner dies, and completes it at the next one.
type books struct {
	mu       sync.Mutex
	inserts  map[string]int // acknowledged submissions, and how many chunks each has
	chunks   int            // of all submissions, also of one that is not acknowledged yet
	left     map[int64]int  // by company: chunks that are not done
	done     map[string]bool
	holders  map[string]bool // by chunk
	working  map[int64]int   // by company
	finished bool            // nothing more is inserted
	takeover chan struct{}   // closed when the next owner serves, or nothing more is inserted

	acknowledged, missing, double, exceeded int
}

const (
	bookCompanies = 5
	bookLimit     = 3   // chunks of a company that are worked on at once
	bookChunks    = 10  // of a submission
	bookAhead     = 100 // chunks of a company that are not done
	bookWorkers   = 8
	bookPatient   = 2                      // workers who keep their chunks until the next owner serves
	bookWork      = 5 * time.Millisecond   // on the chunks of one reserve
	bookTimeout   = 10 * time.Second       // a reservation whose answer is lost keeps others from its company for so long
	bookAfter     = 500 * time.Millisecond // that patient workers go on then, which is within the grace
)

// bookStrategy takes nothing of the backlog.
var bookStrategy = fmt.Sprintf(`SelectOnly("booked", 1, MaxSimultaneous("company", %d, Random))`, bookLimit)

func newBooks() *books {
	return &books{
		inserts: map[string]int{}, left: map[int64]int{}, done: map[string]bool{}, holders: map[string]bool{}, working: map[int64]int{},
		takeover: make(chan struct{}),
	}
}

// produce inserts until the books are finished.
func (b *books) produce(ctx context.Context, c *caller) error {
	for n := 0; !b.over(); n++ {
		if !b.begins(int64(n % bookCompanies)) {
			if err := wait(ctx, again/bookCompanies); err != nil {
				return err
			}
			continue
		}
		body := fmt.Appendf(nil, `{"meta":{"booked":1,"company":%d},"chunks":{"count":%d,"template":"{index}"}}`,
			n%bookCompanies, bookChunks)
		var made api.Submission
		if err := c.call(ctx, http.MethodPost, pathSubmissions, fmt.Sprint("booked-", n), body, &made); err != nil {
			return err
		}
		b.mu.Lock()
		b.inserts[made.ID] = bookChunks
		b.acknowledged++
		b.mu.Unlock()
	}
	return nil
}

// begins says whether to insert a submission of a company now: not when there is work enough. One company that has to wait for a
// reservation to end leaves the others their work. The workers wait for its chunks from now on.
func (b *books) begins(company int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.finished || b.left[company] > bookAhead {
		return false
	}
	b.chunks += bookChunks
	b.left[company] += bookChunks
	return true
}

// work reserves and completes until everything that was inserted is done, or ctx ends. A patient worker keeps what it has over a takeover.
func (b *books) work(ctx context.Context, c *caller, patient bool) error {
	most, timeout := 2, bookTimeout
	if patient { // together they leave one of each company to the others
		most, timeout = 1, patience/2
	}
	reserve := fmt.Appendf(nil, `{"max":%d,"strategy":%q,"timeout_ms":%d}`, most, bookStrategy, timeout.Milliseconds())
	for !b.over() {
		var got api.ReserveResponse
		if err := c.call(ctx, http.MethodPost, pathReservations, "", reserve, &got); err != nil {
			return err
		}
		b.took(got.Reservations)
		if err := b.pause(ctx, patient && len(got.Reservations) > 0); err != nil {
			return err
		}
		if len(got.Reservations) == 0 {
			continue
		}
		b.letGo(got.Reservations)
		results, err := c.completes(ctx, got.Reservations)
		if err != nil {
			return err
		}
		if err := b.completed(got.Reservations, results); err != nil {
			return err
		}
	}
	return nil
}

// pause is the time that work takes.
func (b *books) pause(ctx context.Context, patient bool) error {
	if !patient {
		return wait(ctx, bookWork)
	}
	b.mu.Lock()
	takeover, finished := b.takeover, b.finished
	b.mu.Unlock()
	if finished {
		return wait(ctx, bookWork)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-takeover:
		return wait(ctx, bookAfter)
	}
}

// served notes that another owner serves. With last there will be no other, and nothing more is inserted.
func (b *books) served(last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.takeover)
	b.takeover, b.finished = make(chan struct{}), last
}

// acts is how much was acknowledged.
func (b *books) acts() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.acknowledged
}

// over says that everything was inserted and done.
func (b *books) over() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.finished && len(b.done) >= b.chunks
}

func bookName(r *api.Reservation) string { return fmt.Sprint(r.Submission, "/", r.Index) }

func bookCompany(r *api.Reservation) int64 { return r.Meta["company"].Int() }

// took notes what a reserve was answered with.
func (b *books) took(all []api.Reservation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range all {
		name, company := bookName(&all[i]), bookCompany(&all[i])
		if b.done[name] { // its completion was acknowledged
			b.missing++
		}
		if b.holders[name] {
			b.double++
		}
		b.holders[name] = true
		if b.working[company]++; b.working[company] > bookLimit {
			b.exceeded++
		}
	}
}

// letGo notes that the work on chunks has ended, before the server is asked to complete them: it may give others the answer first.
func (b *books) letGo(all []api.Reservation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range all {
		delete(b.holders, bookName(&all[i]))
		b.working[bookCompany(&all[i])]--
	}
}

// completed notes the results. A completion that another client's has come before is "lost"; one that is repeated is "already".
func (b *books) completed(all []api.Reservation, results []api.Result) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range all {
		name := bookName(&all[i])
		switch status := results[i].Status; status {
		case api.StatusOK, api.StatusAlready:
			if b.done[name] { // two clients completed it
				b.double++
			}
			b.isDone(name, bookCompany(&all[i]))
			b.acknowledged++
		case api.StatusGone: // repeated, and the submission has ended meanwhile
			b.isDone(name, bookCompany(&all[i]))
		case api.StatusLost:
		default:
			return fmt.Errorf("a completion came back %s", status)
		}
	}
	return nil
}

// isDone notes that a chunk needs no more work. The mutex is held.
func (b *books) isDone(name string, company int64) {
	if !b.done[name] {
		b.done[name] = true
		b.left[company]--
	}
}

// account compares the submissions at the end with the acknowledged inserts.
func (b *books) account(ctx context.Context, c *clusterBed) error {
	b.mu.Lock()
	inserts := maps.Clone(b.inserts)
	b.mu.Unlock()
	n, err := c.owner(ctx, engine.DefaultQueue)
	if err != nil {
		return err
	}
	for id, chunks := range inserts {
		status, text, err := c.send(ctx, n, http.MethodGet, "/v1/submissions/"+id, "", nil)
		var s api.Submission
		switch {
		case err != nil:
			return err
		case status == http.StatusNotFound:
		case status != http.StatusOK:
			return fmt.Errorf("submission %s: %d: %s", id, status, text)
		default:
			err = json.Unmarshal(text, &s)
		}
		if err != nil {
			return err
		}
		b.missing += chunks - int(s.Done)
	}
	return nil
}

// wait waits, unless ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
