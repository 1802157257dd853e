package client

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// Quick handlers have more and more reserved ahead of them, up to the bound, and calls get fewer.
func TestQuickHandlersHaveMoreAhead(t *testing.T) {
	t.Parallel()
	const n = 5000
	f := newFake(t, n, nil)
	stop := work(t, f.client(), WorkOptions{Concurrency: 4}, func(context.Context, *Chunk) ([]byte, error) { return nil, nil })
	f.wait(func() bool { return len(f.done) == n })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.max <= 4*4 || f.max > 4+mostAhead {
		t.Errorf("at most %d chunks were held at once, want over 16 and at most %d", f.max, 4+mostAhead)
	}
}

// Slow handlers have next to nothing reserved ahead of them: others can work on it.
func TestSlowHandlersHaveLittleAhead(t *testing.T) {
	t.Parallel()
	const at, n = 16, 200
	f := newFake(t, 1000, nil)
	begin := make(chan struct{})
	stop := work(t, f.client(), WorkOptions{Concurrency: at}, func(context.Context, *Chunk) ([]byte, error) {
		<-begin
		return nil, nil
	})
	for i := range n {
		begin <- struct{}{}
		f.wait(func() bool { return len(f.done) == i+1 })
	}
	f.wait(func() bool { return len(f.held) <= at+at/2 })
	close(begin)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestAhead(t *testing.T) {
	t.Parallel()
	type answer struct {
		left  int
		full  bool
		bytes int
		quick bool // the call is over before a handler misses it
	}
	ranOut := answer{full: true}
	for name, c := range map[string]struct {
		o       WorkOptions
		answers []answer
		want    int
	}{
		"none at first":                   {WorkOptions{Concurrency: 8}, nil, 0},
		"doubled":                         {WorkOptions{Concurrency: 8}, []answer{ranOut, ranOut, ranOut}, 4},
		"up to a bound":                   {WorkOptions{Concurrency: 600}, slices.Repeat([]answer{ranOut}, 12), mostAhead},
		"the server has no more":          {WorkOptions{Concurrency: 8}, []answer{{}}, 0},
		"large answers":                   {WorkOptions{Concurrency: 8}, []answer{{full: true, bytes: largeAnswer}}, 0},
		"slow handlers":                   {WorkOptions{Concurrency: 8}, []answer{{full: true, quick: true}}, 0},
		"an eighth less":                  {WorkOptions{Concurrency: 16}, append(slices.Repeat([]answer{ranOut}, 5), answer{left: 9, full: true}), 14},
		"half was left":                   {WorkOptions{Concurrency: 16}, append(slices.Repeat([]answer{ranOut}, 5), answer{left: 8, full: true}), 16},
		"one, and then none":              {WorkOptions{Concurrency: 1}, []answer{ranOut, {left: 1, full: true}}, 0},
		"as the caller says":              {WorkOptions{Concurrency: 8, Prefetch: 3}, []answer{ranOut, {left: 3, full: true}}, 3},
		"none":                            {WorkOptions{Concurrency: 8, Prefetch: -1}, []answer{ranOut}, 0},
		"no more than one Work can hold":  {WorkOptions{Concurrency: maxHeld - 5}, slices.Repeat([]answer{ranOut}, 4), 5},
		"nothing beside so many handlers": {WorkOptions{Concurrency: maxHeld}, []answer{ranOut}, 0},
	} {
		a := newAhead(&c.o)
		for _, x := range c.answers {
			a.answered(x.left, x.full, x.bytes, !x.quick)
		}
		if a.n != c.want || a.room() < a.n {
			t.Errorf("%s: %d ahead of %d, want %d", name, a.n, a.room(), c.want)
		}
	}
}

// A metaReader remembers a bounded number of metas, and never returns another one.
func TestMetaReaderRemembers(t *testing.T) {
	t.Parallel()
	var m metaReader
	for round := range 3 {
		for i := range knownMetas + 10 {
			raw := fmt.Appendf(nil, `{"n":%d}`, i)
			got, err := m.read(raw)
			if err != nil || len(got) != 1 || got["n"].String() != fmt.Sprint(i) {
				t.Fatalf("round %d: %s is read as %v, %v", round, raw, got, err)
			}
			clear(raw) // the answer's memory is used again
		}
	}
	if len(m.known) > knownMetas {
		t.Errorf("%d are remembered", len(m.known))
	}
	if _, err := m.read([]byte(`{"n":[]}`)); err == nil {
		t.Error("a list is taken for a value")
	}
}
