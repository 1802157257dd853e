package diagnosis

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// This file has the words that both kinds of sentences are made of.

// are is a number with its verb.
func are(n uint64, singular, plural string) string {
	return queue.Compact(n) + " " + queue.One(n, singular, plural)
}

// span is a duration by its two largest units.
func span(d time.Duration) string {
	seconds := int64(max(d, 0) / time.Second)
	days, hours, minutes := seconds/86400, seconds/3600%24, seconds/60%60
	parts := []struct {
		n    int64
		unit string
	}{{days, "d"}, {hours, "h"}, {minutes, "m"}, {seconds % 60, "s"}}
	for i, p := range parts[:3] {
		if p.n == 0 {
			continue
		}
		text := strconv.FormatInt(p.n, 10) + p.unit
		if next := parts[i+1]; next.n > 0 {
			text += " " + strconv.FormatInt(next.n, 10) + next.unit
		}
		return text
	}
	if seconds == 0 {
		return "<1s"
	}
	return strconv.FormatInt(seconds, 10) + "s"
}

// entryText is a value with its key. A text is quoted only if it would not be read as what it is.
func entryText(entry queue.MetaEntry) string {
	text := entry.Value.Quoted()
	if bare := entry.Value.Text(); !entry.Value.IsInt() && bare != "" && plain(bare) == bare {
		if _, err := strconv.ParseInt(bare, 10, 64); err != nil {
			text = bare
		}
	}
	if of, lack := queue.LackedBy(entry.Key); lack {
		return of + "=(none)"
	}
	return entry.Key + "=" + text
}

func nameText(name string) string { return cmp.Or(plain(name), "a consumer without a name") }

// plain quotes a text with characters that do not show, or that change the direction or the lines of the text behind it.
func plain(text string) string {
	if quoted := strconv.Quote(text); strings.Contains(quoted, `\`) {
		return quoted
	}
	return text
}
