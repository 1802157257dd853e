package views

import (
	"context"
	"fmt"
	"testing"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
	"github.com/quern-queue/quern/engine/strategy"
)

// viewing is a shell whose machine has 500 submissions of a user each, and its views, which may take so many bytes.
func viewing(t *testing.T, most uint64) (*shelltest.Shell, *Views) {
	t.Helper()
	s := shelltest.New(t)
	for i := range 500 {
		s.Insert(&queue.NewSubmission{Meta: queue.Meta{{Key: "u", Value: queue.IntValue(int64(i))}}, Chunks: queue.Chunks{Count: 1, Prefix: "p/"}})
	}
	return s, New(s, NewMemory(most))
}

// build builds the view of a strategy that shares its view with no other: it has two limits. ask is how views are found.
func build(ctx context.Context, t *testing.T, v *Views, n int, ask func(*backlog.Backlog) func(*strategy.Branch) *backlog.View) error {
	t.Helper()
	parsed, err := strategy.Parse(fmt.Sprintf(`MaxSimultaneous("u", %d, MaxSimultaneous("other", 9, OldestFirst))`, n))
	if err != nil {
		t.Fatal(err)
	}
	for built := false; !built && err == nil; {
		err = v.Locked(func(m *machine.Machine, _ queue.Time) error {
			_, unbuilt := machine.ViewsBy(parsed.Plan(), ask(m.Backlog), nil)
			if built = unbuilt == nil; built {
				return nil
			}
			return v.Build(ctx, m.Backlog, unbuilt)
		})
	}
	return err
}

func reserved(b *backlog.Backlog) func(*strategy.Branch) *backlog.View { return b.Views.Of }
func asked(b *backlog.Backlog) func(*strategy.Branch) *backlog.View    { return b.Views.Ask }

// The memory of views counts for the server, apart for reserves and for questions. When there is no room for another
// view, and no idle one, it is refused, and the refusal is counted. An idle view makes room. Close gives all memory
// back.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	s, v := viewing(t, 1<<20)
	n := 0
	for err := error(nil); err == nil; {
		if n++; n > 100 {
			t.Fatal("a hundred views are in 1 MiB")
		}
		if err = build(t.Context(), t, v, n, reserved); err != nil && queue.CodeOf(err) != queue.CodeOverloaded {
			t.Fatal(err)
		}
	}
	use := v.memory.Use()
	if n < 3 || use.Bytes == 0 || use.Bytes > use.BytesMost || use.QuestionBytes != 0 || len(v.List()) != n-1 || v.Refused.Views != 1 {
		t.Fatalf("view %d was refused, %d others are there: %+v, refused %+v", n, len(v.List()), use, v.Refused)
	}
	if err := build(t.Context(), t, v, 1000, asked); err != nil {
		t.Fatalf("a question, whose memory is another: %v", err)
	}
	if use = v.memory.Use(); use.QuestionBytes == 0 {
		t.Errorf("a question takes nothing: %+v", use)
	}
	for range 11 { // seconds in which no view is used
		v.Tidy()
	}
	if err := build(t.Context(), t, v, n, reserved); err != nil {
		t.Errorf("an idle view makes no room: %v", err)
	}
	s.Refuse = &queue.Error{Code: queue.CodeUnavailable}
	if list := v.List(); len(list) != 0 {
		t.Errorf("a shard that cannot work lists %d views", len(list))
	}
	v.Close()
	if use = v.memory.Use(); use.Bytes != 0 || use.QuestionBytes != 0 {
		t.Errorf("after Close: %+v", use)
	}
	if v.Tidy(); v.memory.Use().Bytes != 0 {
		t.Error("views count after Close")
	}
}

// The view of an access token counts for that token, which has a share of its own. Its own idle views make room for another, those of
// others do not.
func TestTokensHaveTheirShare(t *testing.T) {
	t.Parallel()
	_, v := viewing(t, 1<<30)
	use := new(access.Use)
	token := access.With(t.Context(), &access.Caller{Token: &access.Token{Use: use}, Limits: &access.Limits{Views: 1 << 19}})
	if err := build(t.Context(), t, v, 1, reserved); err != nil || use.Views.Load() != 0 {
		t.Fatalf("a view of no token: %v; the token has %d", err, use.Views.Load())
	}
	n, err := 1, error(nil)
	for err == nil && n < 100 {
		n++
		err = build(token, t, v, n, reserved)
	}
	if queue.CodeOf(err) != queue.CodeOverloaded || v.Refused.Views != 1 || use.Views.Load() == 0 || use.Views.Load() > 1<<19 {
		t.Fatalf("view %d: %v; the token has %d", n, err, use.Views.Load())
	}
	for range 11 {
		v.Tidy()
	}
	if err := build(token, t, v, n, reserved); err != nil {
		t.Errorf("an idle view of the token makes no room: %v", err)
	}
	if v.Close(); use.Views.Load() != 0 {
		t.Errorf("after Close the token has %d", use.Views.Load())
	}
}
