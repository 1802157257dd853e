// Package top shows a queue in a terminal as the dashboard's first page does: backlog, rates, what rules hold, and what is in flight by the
// values of a meta key, with their limits.
//
//quern:tests processes
package top

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// Look is what a queue was at a moment.
type Look struct {
	At     time.Time
	Stats  api.Stats
	Keys   []api.MetaKey
	Key    string           // whose values these are; "" when no submission has meta
	Values []api.ValueCount // at most mostValues, in the server's order
	Rules  []api.Rule       // in force, the one that holds most chunks first
}

// Ask is what a look is to have.
type Ask struct {
	Key   string // "": the first; one that is gone likewise
	Ready bool   // the values with most ready chunks, rather than those with most in flight
}

const (
	mostKeys   = 100
	mostValues = 1000
	mostRules  = 1000
)

// Reader reads looks of one queue.
type Reader func(ctx context.Context, ask Ask) (*Look, error)

// Of reads looks of a queue by the public API.
func Of(c *client.Client, queue string) Reader {
	return func(ctx context.Context, ask Ask) (*Look, error) {
		stats, err := c.Stats(ctx, queue)
		if err != nil {
			return nil, err
		}
		l := &Look{At: time.Now(), Stats: *stats}
		if l.Keys, err = first(c.MetaKeys(ctx, queue), mostKeys); err != nil {
			return nil, err
		}
		if l.Rules, err = first(c.Rules(ctx, queue), mostRules); err != nil {
			return nil, err
		}
		slices.SortStableFunc(l.Rules, func(a, b api.Rule) int { return cmp.Compare(b.Chunks, a.Chunks) })
		if len(l.Keys) == 0 {
			return l, nil
		}
		if l.Key = l.Keys[0].Key; slices.ContainsFunc(l.Keys, func(k api.MetaKey) bool { return k.Key == ask.Key }) {
			l.Key = ask.Key
		}
		sort := "in_flight"
		if ask.Ready {
			sort = "ready"
		}
		l.Values, err = first(c.Values(ctx, queue, l.Key, sort), mostValues)
		return l, err
	}
}

func first[T any](all iter.Seq2[T, error], most int) (list []T, err error) {
	for x, err := range all {
		if err != nil {
			return nil, err
		}
		if list = append(list, x); len(list) == most {
			break
		}
	}
	return list, nil
}

// values are how many the key has.
func (l *Look) values() uint64 {
	for _, k := range l.Keys {
		if k.Key == l.Key {
			return k.Values
		}
	}
	return 0
}
