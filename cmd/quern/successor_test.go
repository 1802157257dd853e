//go:build linux

package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// A worker is killed with SIGKILL. Its chunks begin again as soon as another process works under its name, with a try
// counted, though deadlines and the grace are an hour away. A second kill does the same. Under names that are drawn,
// the grace decides.
//
//quern:killing
func TestSuccessorOfAKilledWorker(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		consumer []string
		grace    time.Duration
	}{
		"fixed": {[]string{"--consumer", "worker-1"}, time.Hour},
		"drawn": {nil, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := besiege(t)
			grace := one.grace.Milliseconds()
			_, err := b.PutQueue(t.Context(), "default", api.QueueSettingsInput{ConsumerGraceMS: &grace})
			if err != nil {
				t.Fatal(err)
			}
			const chunks = 8
			b.submit(chunks, "x")
			command := append([]string{b.server.process.Path, "work", "--server", b.server.url, "--concurrency", "8"},
				one.consumer...)
			command = append(command, "--timeout", "1h", "--", "sleep", "3600")
			for attempt := range uint32(3) {
				p := launch(t, t.TempDir(), command...)
				all := func() bool { return b.heldIn(attempt+1) == chunks }
				b.eventually("all chunks are held in their next attempt", all)
				p.tell(syscall.SIGKILL)
				p.ends(-1)
			}
		})
	}
}

// heldIn is how many chunks are held in an attempt.
func (b *besieged) heldIn(attempt uint32) (n int) {
	b.Helper()
	for one, err := range b.Reservations(b.Context(), "default", api.HeldFilter{}) {
		if err != nil {
			b.Fatal(err)
		}
		if one.Attempt == attempt {
			n++
		}
	}
	return n
}

func (b *besieged) eventually(what string, so func() bool) {
	b.Helper()
	for over := time.Now().Add(time.Minute); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(over) {
			b.Fatalf("in a minute this did not become so: %s", what)
		}
	}
}
