package commit

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/quern-queue/quern/engine/queue"
)

// over is a commit that ended so.
func over(err error) *Commit {
	c := New()
	c.Err = err
	close(c.Done)
	return c
}

// A set has each commit once, in the order in which they came, and none for ops that are already on the disk.
func TestSetHasEachCommitOnce(t *testing.T) {
	t.Parallel()
	a, b, c, d := New(), New(), New(), New()
	var s, o Set
	for _, x := range []*Commit{nil, a, nil, a, b, b} {
		s.Add(x)
	}
	o.Add(c)
	o.Add(d)
	s.Join(&o)
	s.Join(&Set{})
	if s.First != a || !slices.Equal(s.More, []*Commit{b, c, d}) {
		t.Errorf("got %p and %v, want %p and %v", s.First, s.More, a, []*Commit{b, c, d})
	}
}

// A call gets the first failure, and hears whether some of its commits succeeded: then a part of it was done.
func TestSetTellsTheFirstFailure(t *testing.T) {
	t.Parallel()
	one, two := errors.New("one"), errors.New("two")
	for name, c := range map[string]struct {
		outcomes []error
		some     bool
		err      error
	}{
		"nothing to wait for":    {},
		"all came through":       {[]error{nil, nil}, true, nil},
		"the first failed":       {[]error{one, nil}, true, one},
		"a later one failed":     {[]error{nil, two, one}, true, two},
		"all failed":             {[]error{one, two}, false, one},
		"the only one failed":    {[]error{two}, false, two},
		"the only one succeeded": {[]error{nil}, true, nil},
	} {
		var s Set
		for _, err := range c.outcomes {
			s.Add(over(err))
		}
		if some, err := s.Wait(); some != c.some || err != c.err {
			t.Errorf("%s: %t, %v; want %t, %v", name, some, err, c.some, c.err)
		}
	}
}

// Wait returns when all commits have ended, and not before.
func TestWaitForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		commits := []*Commit{New(), New(), New()}
		s := Set{First: commits[0], More: commits[1:]}
		failed, ended := errors.New("no"), false
		commits[2].Err = failed
		go func() {
			if some, err := s.Wait(); !some || err != failed {
				t.Errorf("got %t, %v; want true, %v", some, err, failed)
			}
			ended = true
		}()
		for i, c := range commits {
			if synctest.Wait(); ended {
				t.Fatalf("it ended after %d of %d commits", i, len(commits))
			}
			close(c.Done)
		}
		if synctest.Wait(); !ended {
			t.Error("it waits for more than its commits")
		}
	})
}

// A commit of unknown outcome promises nothing, and says why.
func TestUnknown(t *testing.T) {
	t.Parallel()
	cause := errors.New("the disk went away")
	if err := Unknown(cause); queue.CodeOf(err) != queue.CodeCommitFailed || !errors.Is(err, cause) {
		t.Errorf("got %v with code %v", err, queue.CodeOf(err))
	}
}
