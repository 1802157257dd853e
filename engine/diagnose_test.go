package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// A value at its limit is below it for a moment whenever one of its chunks ends. The diagnosis goes on to say that it is held; after a
// longer time below, and when the limit is raised, it says that its chunks can be handed out.
func TestDiagnosisStaysHeld(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	q := e.queues[DefaultQueue]
	acme := text("company", "acme")
	id := insert(t, e, 100, acme)
	setValue(t, e, DefaultQueue, acme, limited(3))
	now := queue.At(e.options.Now())
	look := func(after time.Duration) {
		now = now.Add(after)
		q.sample(now, nil)
	}
	verdict := func(name, want string) {
		t.Helper()
		of, err := queueAt(e, DefaultQueue).Questions.DiagnoseValue(context.Background(), acme)
		if err != nil {
			t.Fatal(err)
		}
		one, err := queueAt(e, DefaultQueue).Questions.DiagnoseSubmission(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, said := range []string{of.API().Sentence, one.API().Sentence} {
			if head, _, _ := strings.Cut(said, ":"); head != want {
				t.Errorf("%s: %q, want %s", name, said, want)
			}
		}
	}
	held, _ := take(t, e, "OldestFirst", 10)
	look(time.Second)
	verdict("full", "Held")
	finishAll(t, e, held[:1])
	look(time.Second)
	verdict("one is done", "Held")
	look(HeatStep)
	verdict("no one takes another", "Ready")
	take(t, e, "OldestFirst", 10)
	look(time.Second)
	verdict("full again", "Held")
	setValue(t, e, DefaultQueue, acme, limited(30))
	verdict("the limit is raised", "Ready")
}
