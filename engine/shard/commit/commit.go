// Package commit is how callers wait for what they asked for to be durable. A Commit is the fate of one batch of ops: a machine decides
// what is in the batch, the shard appends it, and the callers whose ops are in it wait here.
package commit

import "slices"

// Commit is the commit of one batch, for those who wait for it.
type Commit struct {
	Done chan struct{} // closed after the commit and its effects, or its failure
	Err  error         // set before Done is closed
	Next *Commit       // what it leads to: that of the batch that its completions joined when their outputs were written
	Late bool          // set before Done is closed: some of them did not, as their submission had ended by then
}

// New is a commit that is still to come.
func New() *Commit { return &Commit{Done: make(chan struct{})} }

// Wait waits for the commit and for what it leads to.
func (c *Commit) Wait() error {
	for ; c != nil; c = c.Next {
		<-c.Done
		if c.Err != nil {
			return c.Err
		}
	}
	return nil
}

// Set is the commits that a call has to wait for: one, nearly always.
type Set struct {
	First *Commit
	More  []*Commit
}

// Add has the call wait for c too; nil is no commit.
func (s *Set) Add(c *Commit) {
	switch {
	case c == nil || c == s.First || len(s.More) > 0 && s.More[len(s.More)-1] == c:
	case s.First == nil:
		s.First = c
	default:
		s.More = append(s.More, c)
	}
}

// Join has the call wait for all that another one waits for.
func (s *Set) Join(o *Set) {
	s.Add(o.First)
	for _, c := range o.More {
		s.Add(c)
	}
}

// Wait waits for all of them. err is the first failure; some says that others of them did not fail.
func (s *Set) Wait() (some bool, err error) {
	if s.First == nil {
		return false, nil
	}
	err = s.First.Wait()
	some = err == nil
	for _, c := range s.More {
		failed := c.Wait()
		some = some || failed == nil
		if err == nil {
			err = failed
		}
	}
	return some, err
}

// Late says that some of what was waited for came to nothing, without an error: an "already" that rests on it has to be looked at again.
func (s *Set) Late() bool {
	return s.First != nil && (s.First.Late || slices.ContainsFunc(s.More, func(c *Commit) bool { return c.Late }))
}
