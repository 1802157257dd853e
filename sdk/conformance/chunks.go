package main

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// The states of a chunk in the pile.
const (
	ready = iota
	held
	done
	dead
)

// chunk is one piece of work of the played server.
type chunk struct {
	content   string
	state     int
	token     string // of the last time that it was handed out
	attempt   uint32
	deadline  time.Time // while held
	notBefore time.Time // while ready
	forgotten bool      // a restart forgot its reservation; the holder of the token may have it again
	unheard   bool      // the answer that handed it out was cut, so that the client cannot know of it

	output   api.Bytes // of the completion that counted
	doneBy   string    // its token
	fails    []api.FailItem
	failedBy map[string]bool
	handed   int     // how often it was handed out
	released int     // how often it was given back
	delays   []int64 // milliseconds that its holders asked it to wait when they gave it back
	extended int     // how often its holder asked for a new deadline in time
	progress float64 // the last report of its holder
	note     string
	heard    int // number of such reports
}

// restartGrace is how long a forgotten chunk is kept for its holder.
const restartGrace = 10 * time.Second

// newToken draws a token of the length that real ones have.
func newToken() string { return (rand.Text() + rand.Text())[:43] }

// reserve hands out up to n chunks. The caller holds the lock.
func (s *server) reserve(q *api.ReserveRequest, now time.Time) []api.Reservation {
	out := []api.Reservation{}
	for i, c := range s.chunks {
		if len(out) == q.Max {
			break
		}
		if c.state != ready || now.Before(c.notBefore) {
			continue
		}
		c.state, c.token, c.forgotten, c.unheard = held, newToken(), false, false
		c.attempt++
		c.handed++
		c.deadline = now.Add(time.Duration(q.TimeoutMS) * time.Millisecond)
		s.tokens[c.token] = c
		out = append(out, api.Reservation{
			Token: c.token, Submission: submissionID, Index: uint32(i), Attempt: c.attempt, Deadline: api.At(c.deadline),
			ReadyAt: api.At(now),
			Content: api.Content{Bytes: []byte(strings.ReplaceAll(c.content, "{dir}", s.dir))},
			Meta:    api.Meta{"company": api.Int(int64(i))}, Priority: 7,
		})
	}
	s.mostHeld = max(s.mostHeld, s.heldNow())
	return out
}

// heldNow counts the chunks that the client knows that it holds.
func (s *server) heldNow() (n int) {
	for _, c := range s.chunks {
		if c.state == held && !c.unheard {
			n++
		}
	}
	return n
}

// named finds the chunk of a token, and says in a result what speaks against doing something under it.
func (s *server) named(verb, token string) (*chunk, api.Result) {
	c := s.tokens[token]
	if result, ordered := s.orders[verb+" "+token]; ordered {
		c.state = dead // the client holds it no more
		return nil, result
	}
	if s.revoked[token] && (verb == "complete" || verb == "fail") {
		s.accuse("%s reports a chunk whose reservation was revoked", verb)
	}
	switch {
	case c == nil:
		s.accuse("%s names the token %q, which was never handed out", verb, token)
		return nil, api.Result{Status: api.StatusUnknown, Code: api.CodeUnknownToken, Detail: "no such token"}
	case c.doneBy == token || c.failedBy[token]:
		return nil, api.Result{Status: api.StatusAlready}
	case c.token != token || c.state == done || c.state == dead:
		return nil, api.Result{Status: api.StatusLost, Code: "reservation_lost", Detail: "someone else holds or finished the chunk"}
	}
	return c, api.Result{Status: api.StatusOK}
}

func (s *server) complete(items []api.CompleteItem) []api.Result {
	results := []api.Result{}
	for _, item := range items {
		c, result := s.named("complete", item.Token)
		if c != nil {
			c.state, c.doneBy, c.output = done, item.Token, item.Output
		}
		results = append(results, result)
	}
	return results
}

func (s *server) fail(items []api.FailItem, now time.Time) []api.Result {
	results := []api.Result{}
	for _, item := range items {
		c, result := s.named("fail", item.Token)
		results = append(results, result)
		if c == nil {
			continue
		}
		if c.failedBy == nil {
			c.failedBy = map[string]bool{}
		}
		c.failedBy[item.Token] = true
		c.fails = append(c.fails, item)
		c.state = ready
		if item.Fatal {
			c.state = dead
		}
		if item.RetryAfterMS != nil {
			c.notBefore = now.Add(time.Duration(*item.RetryAfterMS) * time.Millisecond)
		}
	}
	return results
}

func (s *server) extend(items []api.ExtendItem, consumer string, now time.Time) []api.Result {
	results := []api.Result{}
	for _, item := range items {
		c, result := s.named("extend", item.Token)
		if c != nil {
			if c.forgotten && consumer != s.consumer {
				s.accuse("chunks that a restart forgot are extended in the name %q, want that of the consumer, %q", consumer, s.consumer)
			}
			c.state, c.forgotten = held, false
			c.extended++
			if item.Progress != nil {
				c.progress, c.note = *item.Progress, item.Note
				c.heard++
			}
			c.deadline = now.Add(time.Duration(item.TimeoutMS) * time.Millisecond)
			result.Deadline = api.At(c.deadline)
		}
		results = append(results, result)
	}
	return results
}

func (s *server) release(items []api.ReleaseItem, now time.Time) []api.Result {
	results := []api.Result{}
	for _, item := range items {
		c, result := s.named("release", item.Token)
		if c != nil && c.state == held {
			c.state = ready
			c.released++
			c.attempt-- // a chunk that was given back unworked counts no attempt
			c.delays = append(c.delays, item.DelayMS)
			c.notBefore = now.Add(time.Duration(item.DelayMS) * time.Millisecond)
		}
		results = append(results, result)
	}
	return results
}

// expire ends reservations whose deadline has passed. A client that knew of one came too late.
func (s *server) expire(now time.Time) {
	for i, c := range s.chunks {
		if c.state == held && now.After(c.deadline) {
			if !c.unheard {
				s.accuse("the deadline of chunk %d passed while the client held it: it was extended %d times", i, c.extended)
			}
			c.state = ready
		}
	}
}

// forget makes reservations forgotten, as a restart does.
func (s *server) forget(now time.Time) {
	s.epoch++
	for _, c := range s.chunks {
		if c.state == held {
			c.state, c.forgotten, c.notBefore = ready, true, now.Add(restartGrace)
		}
	}
}

// revoke takes chunks from the client and sends it the event. The client is not to report them.
func (s *server) revoke(reason string, indexes ...int) {
	var event api.RevokedEvent
	for _, i := range indexes {
		c := s.chunks[i]
		event.Items = append(event.Items, api.Revoked{Token: c.token, Reason: reason})
		s.revoked[c.token] = true
		c.state = dead
	}
	s.tell(api.EventRevoked, event)
}

// accuse notes a rule that the client broke, once.
func (s *server) accuse(format string, values ...any) {
	sentence := fmt.Sprintf(format, values...)
	if slices.Contains(s.broken, sentence) {
		return
	}
	s.broken = append(s.broken, sentence)
}
