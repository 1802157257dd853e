package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
)

// backlog inserts what the queue has when its owner dies, and has limits hold across that.
func (c *clusterBed) backlog(ctx context.Context, scale clusterScale) error {
	at := &caller{clusterBed: c}
	grace := fmt.Appendf(nil, `{"settings":{"restart_grace_ms":%d}}`, scale.grace.Milliseconds())
	if err := at.call(ctx, http.MethodPut, "/v1/queues/default", "", grace, nil); err != nil {
		return err
	}
	const most = 1000 // of one call
	for first := 0; first < scale.submissions; first += most {
		body := []byte(`{"submissions":[`)
		for i := first; i < min(first+most, scale.submissions); i++ {
			if i > first {
				body = append(body, ',')
			}
			body = fmt.Appendf(body, `{"meta":{"company":%d,"tier":%d},"chunks":{"count":%d,"prefix":"s3://bucket/%d/"}}`,
				i%10_000, i%10, scale.chunks, i)
		}
		if err := at.call(ctx, http.MethodPost, pathSubmissions+":batch", "", append(body, "]}"...), nil); err != nil {
			return err
		}
	}
	return nil
}

// failovers kills the owner again and again while clients work. It measures how long the first reserve takes elsewhere, at worst, and
// counts what is wrong in the books of the clients at the end.
func (c *clusterBed) failovers(ctx context.Context, scale clusterScale) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	b := newBooks()
	var working sync.WaitGroup
	begin := func(work func(context.Context, *caller) error) {
		working.Go(func() {
			if err := work(ctx, &caller{clusterBed: c}); err != nil {
				stop(err)
			}
		})
	}
	begin(b.produce)
	for k := range bookWorkers {
		begin(func(ctx context.Context, at *caller) error { return b.work(ctx, at, k < bookPatient) })
	}
	worst, err := c.killOwners(ctx, scale, b)
	b.served(true)
	if err == nil {
		err = c.until(ctx, "all work to be done", func() (bool, error) { return b.over(), nil })
	}
	if err != nil {
		stop(err)
	}
	working.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := b.account(ctx, c); err != nil {
		return err
	}
	c.add("failover_s", worst.Seconds(), "s")
	c.add("acknowledged", float64(b.acknowledged), "acts")
	c.add("missing", float64(b.missing), "acts")
	c.add("double_holders", float64(b.double), "chunks")
	c.add("limits_exceeded", float64(b.exceeded), "times")
	return nil
}

func (c *clusterBed) killOwners(ctx context.Context, scale clusterScale, b *books) (worst time.Duration, err error) {
	for k := range scale.kills {
		c.progress(fmt.Sprintf("failover_s: kill %d of %d", k+1, scale.kills))
		target := b.acts() + scale.acts
		if err := c.until(ctx, "work to be acknowledged", func() (bool, error) { return b.acts() >= target, nil }); err != nil {
			return 0, err
		}
		owner, err := c.owner(ctx, engine.DefaultQueue)
		if err != nil {
			return 0, err
		}
		owner.end(syscall.SIGKILL)
		killed := time.Now()
		at := &caller{clusterBed: c}
		if err := at.reserves(ctx, 1, nil); err != nil {
			return 0, err
		}
		worst = max(worst, time.Since(killed))
		b.served(false)
		if err := c.start(ctx, owner); err != nil {
			return 0, err
		}
	}
	return worst, nil
}

// reserves reserves this many chunks of the backlog, which came first.
func (c *caller) reserves(ctx context.Context, n int, got *api.ReserveResponse) error {
	var one api.ReserveResponse
	if got == nil {
		got = &one
	}
	err := c.call(ctx, http.MethodPost, pathReservations, "", fmt.Appendf(nil, `{"max":%d,"strategy":"OldestFirst"}`, n), got)
	if err == nil && len(got.Reservations) != n {
		err = fmt.Errorf("%d chunks of the backlog came, want %d", len(got.Reservations), n)
	}
	return err
}

// completes completes what was reserved.
func (c *caller) completes(ctx context.Context, all []api.Reservation) ([]api.Result, error) {
	body := []byte(`{"items":[`)
	for i := range all {
		if i > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, `{"token":%q}`, all[i].Token)
	}
	var answer api.ResultsResponse
	err := c.call(ctx, http.MethodPost, pathComplete, "", append(body, "]}"...), &answer)
	if err == nil && len(answer.Results) != len(all) {
		err = fmt.Errorf("%d results for %d completions", len(answer.Results), len(all))
	}
	return answer.Results, err
}

// moves has the owner give the queue away in order, while a client reserves and completes: the longest call, at worst, and how many of the
// chunks that others hold meanwhile are completed with the tokens from before.
func (c *clusterBed) moves(ctx context.Context, scale clusterScale) error {
	var longest time.Duration
	kept := 0
	for k := range scale.moves {
		c.progress(fmt.Sprintf("move_longest_s: move %d of %d", k+1, scale.moves))
		at := &caller{clusterBed: c}
		var held api.ReserveResponse
		if err := at.reserves(ctx, scale.held, &held); err != nil {
			return err
		}
		moved := make(chan error, 1)
		go func() { moved <- c.moveAway(ctx) }()
		took, err := at.longestUntil(ctx, moved)
		if err != nil {
			return err
		}
		longest = max(longest, took)
		results, err := at.completes(ctx, held.Reservations)
		if err != nil {
			return err
		}
		for _, one := range results {
			if one.Status == api.StatusOK || one.Status == api.StatusAlready {
				kept++
			}
		}
	}
	c.add("move_longest_s", longest.Seconds(), "s")
	c.add("move_kept", float64(kept)/float64(scale.moves*scale.held), "share")
	return nil
}

// moveAway has the queue move to another node. The answer comes when that one serves it.
func (c *clusterBed) moveAway(ctx context.Context) error {
	owner, err := c.owner(ctx, engine.DefaultQueue)
	if err != nil {
		return err
	}
	body := fmt.Appendf(nil, `{"node":%q}`, c.other(owner).name)
	status, text, err := c.send(ctx, owner, http.MethodPost, "/v1/queues/default/move", "", body)
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("move: %d: %s", status, text)
	}
	return err
}

// longestUntil reserves and completes one chunk after the other until a while after something has happened. A call lasts until it is
// answered, by whichever node.
func (c *caller) longestUntil(ctx context.Context, happened <-chan error) (longest time.Duration, err error) {
	const more = 200 // calls
	for left := more; left > 0; left-- {
		select {
		case err := <-happened:
			if err != nil {
				return 0, err
			}
			happened = nil
		default:
		}
		if happened != nil {
			left = more
		}
		var got api.ReserveResponse
		began := time.Now()
		if err := c.reserves(ctx, 1, &got); err != nil {
			return 0, err
		}
		reserved := time.Now()
		if _, err := c.completes(ctx, got.Reservations); err != nil {
			return 0, err
		}
		longest = max(longest, reserved.Sub(began), time.Since(reserved))
	}
	return longest, nil
}
