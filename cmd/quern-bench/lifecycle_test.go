package main

import (
	"strings"
	"testing"
	"time"
)

// The suite ends on a small scale, and leaves every figure that it promises.
func TestLifecycleOnASmallScale(t *testing.T) {
	t.Parallel()
	r := &run{options: options{dir: t.TempDir(), progress: func(line string) { t.Log(line) }}, report: &report{}}
	scale := lifecycleScale{inserts: 20, chunks: 5000, held: []int{0, 2000}, pause: 100 * time.Microsecond,
		backlog: 2000, expiryEvery: 20 * time.Millisecond, lasting: 400 * time.Millisecond, inFlight: 1000, reserves: 50, due: 2000, dueIn: 2 * time.Second,
	}
	if err := lifecycleFigures(t.Context(), r, scale); err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, got := range r.report.Results {
		name, _, several := strings.Cut(got.Name, "/")
		if several {
			name += "/*"
		}
		found[name]++
		if got.Value <= 0 {
			t.Errorf("%s is %g, want more than 0", got.Name, got.Value)
		}
	}
	for _, name := range lifecycleNames {
		want := 1
		if strings.HasSuffix(name, "*") {
			want = 2
		}
		if found[name] != want {
			t.Errorf("%s has %d figures, want %d", name, found[name], want)
		}
	}
}
