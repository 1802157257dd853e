// Package top shows a queue in a terminal as the dashboard's first page does: backlog, rates, chunks that rules hold, and chunks in flight
// by the values of a meta key, with their limits.
//
//quern:tests processes
package top

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// Look is the state of a queue at a moment.
type Look struct {
	At     time.Time
	Stats  api.Stats
	Keys   []api.MetaKey
	Key    string           // whose values these are; "" when no submission has meta
	Values []api.ValueCount // at most mostValues, in the server's order
	Rules  []api.Rule       // in force, the one that holds most chunks first
}

// Ask says which values a look has.
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

// fit makes a text as wide as a column: cut with an ellipsis, or filled up.
func fit(text string, width int) string {
	text = ansi.Truncate(text, width, "…")
	return text + strings.Repeat(" ", max(width-ansi.StringWidth(text), 0))
}

// fitName is fit for a name: long names often differ at their ends, so it is the middle that goes.
func fitName(text string, width int) string {
	whole := ansi.StringWidth(text)
	if whole <= width {
		return fit(text, width)
	}
	tail := (width - 1) * 2 / 5
	end := ansi.TruncateLeft(text, whole-tail, "")
	return fit(ansi.Truncate(text, max(width-1-ansi.StringWidth(end), 0), "")+"…"+end, width)
}

// right is fit, with the text at the right.
func right(text string, width int) string {
	text = ansi.Truncate(text, width, "…")
	return strings.Repeat(" ", max(width-ansi.StringWidth(text), 0)) + text
}

// count is a number that fits a narrow column: exact below 100,000, then with three digits and a unit.
func count(n float64) string {
	if n < 100_000 {
		return Thousands(uint64(n + 0.5))
	}
	for _, unit := range []string{"k", "M", "G", "T"} {
		if n /= 1000; n < 999.5 || unit == "T" {
			return strconv.FormatFloat(n, 'f', max(0, 2-len(strconv.Itoa(int(n)))+1), 64) + " " + unit
		}
	}
	return ""
}

// Thousands is a number with commas.
func Thousands(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// lasting is a duration in at most two units.
func lasting(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()+0.5))
	case d < time.Hour:
		return fmt.Sprintf("%d m %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d m", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
