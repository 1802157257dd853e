// Package commit lets callers wait until their ops are durable. A Commit is the outcome of
// one batch of ops. The machine fills the batch, the shard appends it to the journal, and
// the callers whose ops are in it wait here.
package commit

// Commit is the commit of one batch, for the callers that wait for it.
type Commit struct {
	Done chan struct{} // closed after the commit and its effects, or its failure
	Err  error         // set before Done is closed
}

// New is a commit that is still to come.
func New() *Commit { return &Commit{Done: make(chan struct{})} }

// Wait waits for the commit.
func (c *Commit) Wait() error {
	<-c.Done
	return c.Err
}

// Set is the commits that a call has to wait for: one, nearly always.
type Set struct {
	First *Commit
	More  []*Commit
}

// Add makes the call wait for c too; nil is no commit.
func (s *Set) Add(c *Commit) {
	switch {
	case c == nil || c == s.First || len(s.More) > 0 && s.More[len(s.More)-1] == c:
	case s.First == nil:
		s.First = c
	default:
		s.More = append(s.More, c)
	}
}

// Join makes the call wait for all commits that another call waits for.
func (s *Set) Join(o *Set) {
	s.Add(o.First)
	for _, c := range o.More {
		s.Add(c)
	}
}

// Wait waits for all of them. err is the first failure; some says that at least one did not fail.
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
