package access

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/queue"
)

// SmallAnswer is the size, in bytes, up to which an answer is not counted.
const SmallAnswer = 64 << 10

// Answers bounds the memory of large answers, from the moment they are gathered until their clients have taken them.
type Answers struct {
	Most    int64        // bytes of all
	Held    atomic.Int64 // bytes
	Refused atomic.Int64 // answers, or parts of them
}

// Answer is one answer's part of Answers. Only one goroutine uses it. A nil one is not counted.
type Answer struct {
	of   *Answers
	use  *Use // of the token that asked; nil: there is none, or it has no share
	most int64
	held int64
}

// Answer makes the Answer for a request with this token; nil: no token was needed.
func (a *Answers) Answer(token *Token, limits *Limits) Answer {
	one := Answer{of: a}
	if token != nil && limits.Answers > 0 {
		one.use, one.most = token.Use, limits.Answers
	}
	return one
}

// Holds is how many bytes the answer counts for.
func (a *Answer) Holds() int64 {
	if a == nil {
		return 0
	}
	return a.held
}

// Hold has the answer count for n bytes from now on, or for none if n is at most SmallAnswer. If there is no room for the growth, the
// answer keeps what it held, and Hold returns a queue.Error. A caller that holds something must Hold(0) in the end.
func (a *Answer) Hold(n int64) error {
	if a == nil || a.of == nil {
		return nil
	}
	if n <= SmallAnswer {
		n = 0
	}
	more := n - a.held
	if more == 0 {
		return nil
	}
	if a.use != nil {
		if now := a.use.Answers.Add(more); more > 0 && now > a.most {
			a.use.Answers.Add(-more)
			return a.refused("Large answers to this access token that are being made or sent hold %d MiB, and with this one they would "+
				"hold more than the %d MiB that the server's option token-answer-memory allows. ", now-more, a.most)
		}
	}
	if now := a.of.Held.Add(more); more > 0 && now > a.of.Most {
		a.of.Held.Add(-more)
		if a.use != nil {
			a.use.Answers.Add(-more)
		}
		return a.refused("Large answers that are being made or sent hold %d MiB, and with this one they would hold more than the %d MiB "+
			"that all may. ", now-more, a.of.Most)
	}
	a.held = n
	return nil
}

func (a *Answer) refused(text string, now, most int64) error {
	a.of.Refused.Add(1)
	return &queue.Error{Code: queue.CodeOverloaded, Message: fmt.Sprintf(text, now>>20, most>>20) +
		"Read the answers that are on their way, ask for fewer items at once, or ask again in a moment."}
}

// Gathering bounds the memory for the parts of an answer: up to queue.MaxAnswerBytes, and only as far as there is room.
type Gathering struct {
	ctx        context.Context
	room, used int
}

// Gather begins to gather for the answer to the caller in a context.
func Gather(ctx context.Context) Gathering { return Gathering{ctx, SmallAnswer, 0} }

// Left is how many bytes fit before more room is asked for.
func (g *Gathering) Left() int { return g.room - g.used }

// Fits counts n bytes and says whether there was room for them. Twice as much is held, because the encoded answer is a second copy.
func (g *Gathering) Fits(n int) bool {
	for g.used += n; g.used > g.room; {
		next := min(4*g.room, queue.MaxAnswerBytes)
		if next == g.room || Of(g.ctx).Answer.Hold(2*int64(next)) != nil {
			return false
		}
		g.room = next
	}
	return true
}
