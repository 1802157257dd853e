package client

import (
	"cmp"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"
)

// notices log errors that no one else hears of, each kind of trouble at most once a minute. So a server that is away, or a handler that
// always fails, is in the log without filling it.
type notices struct {
	log *slog.Logger // nil: the default one

	mu    sync.Mutex
	kinds map[string]*notice
}

// notice is one kind of trouble.
type notice struct {
	next   time.Time // before it nothing of this kind is logged
	missed int       // errors that were not logged since the last one that was
}

const (
	noticeEvery = time.Minute
	noticeKinds = 100 // that are counted apart at a time
)

// warn logs an error, with its circumstances as pairs of names and values. Errors of handlers may hold text of producers: as an attribute
// it is quoted, and cannot look like lines of a log.
func (n *notices) warn(err error, about ...any) {
	kind, sentence := kindOf(err)
	missed, due := n.due(kind, time.Now())
	if !due {
		return
	}
	log := cmp.Or(n.log, slog.Default())
	about = append(about, "error", err.Error())
	if missed > 0 {
		about = append(about, "more_like_it", missed)
	}
	log.Warn("quern: "+sentence, about...)
}

// due reports whether an error of a kind is logged now, and how many were dropped since the last one that was logged.
func (n *notices) due(kind string, now time.Time) (missed int, due bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.kinds == nil {
		n.kinds = map[string]*notice{}
	}
	if len(n.kinds) >= noticeKinds && n.kinds[kind] == nil {
		for name, one := range n.kinds {
			if !now.Before(one.next) {
				delete(n.kinds, name)
			}
		}
		if len(n.kinds) >= noticeKinds {
			kind = "" // the others share one
		}
	}
	one := n.kinds[kind]
	if one == nil {
		one = new(notice)
		n.kinds[kind] = one
	}
	if now.Before(one.next) {
		one.missed++
		return 0, false
	}
	missed = one.missed
	one.next, one.missed = now.Add(noticeEvery), 0
	return missed, true
}

// kindOf gives errors that are alike the same kind, with a sentence about them.
func kindOf(err error) (kind, sentence string) {
	var (
		handler  *HandlerError
		refused  *Error
		chunk    *ChunkError
		strategy *StrategyError
	)
	switch {
	case errors.As(err, &handler):
		return "handler " + typeOf(handler.Err), "a handler failed"
	case errors.As(err, &refused):
		return "refused " + strconv.Itoa(refused.Status) + refused.Code, "the server refused a call"
	case errors.As(err, &chunk):
		return "chunk " + chunk.Result.Status + chunk.Result.Code, "a result does not count"
	case errors.As(err, &strategy):
		return "strategy " + strategy.Detail, "a part of the strategy has no effect"
	case errors.Is(err, ErrDrained):
		return "drained", "an operator drains the worker"
	case errors.Is(err, ErrNotTrusted):
		return "not trusted", "a certificate is not trusted"
	}
	return "no answer", "the server does not answer"
}
