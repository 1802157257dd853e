package main

import (
	"context"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

const (
	emptyEvery = 250 * time.Millisecond // how often --until-empty looks
	idleLooks  = 8                      // with the same reason to wait, and no command that runs, before the reason is printed
)

// stopWhenEmpty ends the work when nothing is left. While no command runs, it prints what it waits for. A server that is away is not an
// empty one.
func stopWhenEmpty(ctx context.Context, a *app, c *client.Client, o workOptions, w *working) {
	tick := time.NewTicker(emptyEvery)
	defer tick.Stop()
	for idle := (idleness{}); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		empty, why, err := nothingLeft(ctx, a, c, o)
		switch {
		case err != nil:
		case empty:
			w.stop()
			return
		case idle.isNews(why, w.running.Load()):
			say(w.bar, "quern: no chunk can be reserved now, and --until-empty waits: %s\n", why)
		}
	}
}

// idleness is what --until-empty has found out while no command ran.
type idleness struct {
	why     string
	looks   int // in a row with this reason
	printed map[string]bool
}

// isNews counts one more look. It reports whether the reason to wait has lasted for idleLooks and was not printed before.
func (i *idleness) isNews(why string, running int64) bool {
	if why != i.why || running > 0 {
		i.why, i.looks = why, 0
	}
	i.looks++
	if why == "" || i.looks < idleLooks || i.printed[why] {
		return false
	}
	if i.printed == nil {
		i.printed = map[string]bool{}
	}
	i.printed[why] = true
	return true
}

// nothingLeft says whether this consumer can get nothing, neither now nor when chunks come back that are reserved, waiting or paused; else
// why it has to wait. Ready chunks that its strategy does not take do not count: it reserves one to find out, and gives it back.
func nothingLeft(ctx context.Context, a *app, c *client.Client, o workOptions) (empty bool, why string, err error) {
	s, err := c.Stats(ctx, a.queueName())
	switch {
	case err != nil:
		return false, "", err
	case s.Reserved > 0:
		return false, "consumers hold chunks that may come back ('quern reservations' lists them)", nil
	case s.Waiting > 0:
		return false, "chunks are to be offered later, such as after a failed attempt ('quern stats' counts them as waiting)", nil
	case s.Ready+s.Paused+s.Blocked == 0:
		return true, "", nil
	}
	strategy, err := strategyJSON(o.strategy)
	if err != nil {
		return false, "", err
	}
	about, err := o.about.read()
	if err != nil {
		return false, "", err
	}
	got, err := c.Reserve(ctx, a.queueName(), &api.ReserveRequest{Max: 1, Strategy: strategy, Consumer: o.consumer,
		Context: about, TimeoutMS: o.timeout.Milliseconds()})
	switch {
	case err != nil:
		return false, "", err
	case len(got.Reservations) == 0 && *got.Reason == api.ReasonPaused: // what is paused or blocked is not gone
		return false, "rules pause or block the chunks that are left ('quern rules list' shows them)", nil
	case len(got.Reservations) == 0:
		return true, "", nil
	}
	_, err = c.Release(ctx, a.queueName(), []api.ReleaseItem{{Token: got.Reservations[0].Token}})
	return false, "", err
}
