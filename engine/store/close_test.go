package store

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// A store is closed while others use it, as when a queue goes to another node: calls under way succeed, and later calls
// are refused.
func TestCloseBesideCalls(t *testing.T) {
	t.Parallel()
	for range 20 {
		s, err := Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		calls := []func() error{
			func() error { _, err := s.Space.Shrink(t.Context(), false, 1<<20); return err },
			func() error { _, err := s.MaxSeq(t.Context()); return err },
			func() error { return s.SetDurability(queue.Full) },
		}
		var began, running sync.WaitGroup
		for _, call := range calls {
			began.Add(1)
			running.Go(func() {
				err := call()
				began.Done()
				for err == nil {
					err = call()
				}
				if queue.CodeOf(err) != queue.CodeUnavailable {
					t.Errorf("a call beside Close: %v, want the code unavailable", err)
				}
			})
		}
		began.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		running.Wait()
	}
}
