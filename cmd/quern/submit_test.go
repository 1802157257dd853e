package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// Input of more chunks than one call carries becomes several submissions, each with a key of its own, so that a repeated
// submit repeats none of them.
func TestSubmitSplits(t *testing.T) {
	t.Parallel()
	var input strings.Builder
	for n := range 2*queue.MaxInlineChunks + 1 {
		fmt.Fprintf(&input, "%d\n", n)
	}
	o := submitOptions{key: "nightly", meta: []string{"company=7"}}
	request, err := o.request()
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	next := 0
	err = o.each(request, newLineReader(strings.NewReader(input.String()), '\n'), func(n api.NewSubmission, key string) error {
		keys = append(keys, key)
		for _, chunk := range n.Chunks.Inline {
			if string(chunk) != fmt.Sprint(next) {
				return fmt.Errorf("chunk %q, want %d", chunk, next)
			}
			next++
		}
		if n.Meta["company"] != api.Int(7) {
			return fmt.Errorf("meta = %v", n.Meta)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"nightly", "nightly/1", "nightly/2"}; !slices.Equal(keys, want) || next != 2*queue.MaxInlineChunks+1 {
		t.Errorf("%d chunks under the keys %q, want %d under %q", next, keys, 2*queue.MaxInlineChunks+1, want)
	}
}

// The first insert that fails ends it all.
func TestSubmitStopsAtTheFirstError(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	calls := 0
	o := submitOptions{}
	err := o.each(api.NewSubmission{}, newLineReader(strings.NewReader("a\nb\n"), '\n'), func(api.NewSubmission, string) error {
		calls++
		return refused
	})
	if !errors.Is(err, refused) || calls != 1 {
		t.Errorf("got %v after %d calls, want %v after 1", err, calls, refused)
	}
}

func TestMoments(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"10m":                       now.Add(10 * time.Minute),
		"2026-02-01T00:00:00Z":      time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC),
		"2026-02-01T01:00:00+01:00": time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got, err := parseMoment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("parseMoment(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "tomorrow", "2026-02-01"} {
		if got, err := parseMoment(text, now); err == nil {
			t.Errorf("parseMoment(%q) = %v, want an error", text, got)
		}
	}
}

// JSON passes as it is, anything else is the text form.
func TestStrategyJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                          "",
		"Random":                    `"Random"`,
		`SelectOnly("a", 1, X)`:     `"SelectOnly(\"a\", 1, X)"`,
		` {"type":"random"}`:        ` {"type":"random"}`,
		"a <b> & \"c\" \u2028 \x01": `"a \u003cb\u003e \u0026 \"c\" \u2028 \u0001"`,
	} {
		if got, err := strategyJSON(text); err != nil || string(got) != want {
			t.Errorf("strategyJSON(%q) = %s, %v; want %s", text, got, err, want)
		}
	}
	if got, err := strategyJSON(`{"type":"random"`); err == nil {
		t.Errorf("half an object is taken as %s", got)
	}
}
