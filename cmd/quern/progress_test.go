package main

import (
	"bytes"
	"testing"
	"time"
)

// Without a terminal progress is a line at once, one every ten seconds, and one at the end; other text passes between.
func TestProgressLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Unix(1_000_000, 0)
	a := &app{err: &out, env: func() []string { return nil }}
	p := a.newProgress("chunks", 200, func() time.Time { return now })
	for n := range 25 {
		p.Set(int64(n*4), "")
		now = now.Add(time.Second)
		if n == 12 {
			if _, err := p.Write([]byte("a word from below\n")); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.Set(100, "completed")
	p.End()
	want := "0 of 200 chunks (0 %)\n" +
		"40 of 200 chunks (20 %), 4/s\n" +
		"a word from below\n" +
		"80 of 200 chunks (40 %), 4/s\n" +
		"100 of 200 chunks (50 %), completed, 4/s\n"
	if out.String() != want {
		t.Errorf("got:\n%swant:\n%s", out.String(), want)
	}
}

// Earlier work is part of the state, and not of the rate.
func TestProgressGoesOn(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Unix(1_000_000, 0)
	a := &app{err: &out, env: func() []string { return nil }}
	p := a.goOn("chunks", 2_000_000, 1_000_000, func() time.Time { return now })
	now = now.Add(100 * time.Millisecond)
	p.Set(1_000_000, "")
	now = now.Add(10 * time.Second)
	p.Set(1_000_101, "")
	if want := "1000000 of 2000000 chunks (50 %)\n1000101 of 2000000 chunks (50 %), 10/s\n"; out.String() != want {
		t.Errorf("got:\n%swant:\n%s", out.String(), want)
	}
}

// Quiet means quiet, but not for texts that others write.
func TestProgressQuiet(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{err: &out, quiet: true, env: func() []string { return nil }}
	p := a.newProgress("chunks", -1, time.Now)
	p.Set(5, "note")
	if _, err := p.Write([]byte("kept\n")); err != nil {
		t.Fatal(err)
	}
	p.End()
	if out.String() != "kept\n" {
		t.Errorf("got %q, want only what was written", out.String())
	}
}
