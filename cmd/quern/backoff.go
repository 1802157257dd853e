package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// backoffForm is how a back-off is written in a flag. KIND is exponential where none is named. A list has any number of durations.
const backoffForm = "[KIND:]BASE[,FACTOR[,CAP]][,jitter=JITTER]"

// parseBackoff reads one of
//
//	[exponential:]BASE[,FACTOR[,CAP]]    what is left out is as in the default of expiries
//	linear:BASE[,CAP]
//	fixed:DELAY
//	list:DELAY,DELAY,...
//
// and behind each ,jitter=full|equal|none.
func parseBackoff(flag, text string) (*api.Backoff, error) {
	wrong := func(why string) (*api.Backoff, error) {
		return nil, usageError{fmt.Errorf("--%s is %q: %s; write 1s or 1s,2,5m (a base of %s, a factor of %s, a cap of %s), "+
			"linear:1s,5m, fixed:30s or list:1s,10s,1m (at most %d, %s each), with ,jitter=full, equal or none at the end, "+
			"or 0 for no pause", flag, text, why, queue.BackoffBase.Flag(), queue.BackoffFactor.Flag(), queue.BackoffCap.Flag(),
			queue.MaxDelays, queue.BackoffDelay.Flag())}
	}
	out := new(api.Backoff)
	rest, jitter, _ := strings.Cut(text, ",jitter=")
	out.Jitter = jitter
	if kind, after, named := strings.Cut(rest, ":"); named {
		out.Kind, rest = kind, after
	}
	most := 3
	switch out.Kind {
	case "", api.BackoffExponential:
		usual := queue.DefaultSettings().ExpiryBackoff
		out.Factor, out.CapMS = usual.Factor, usual.Cap.Milliseconds()
	case api.BackoffLinear:
		most = 2
	case api.BackoffFixed:
		most = 1
	case api.BackoffList:
		most = queue.MaxDelays
	default:
		return wrong(fmt.Sprintf("there is no kind %q", out.Kind))
	}
	parts := strings.Split(rest, ",")
	if len(parts) > most {
		return wrong(fmt.Sprintf("it has %d parts, and at most %d have a meaning", len(parts), most))
	}
	for i, part := range parts {
		if most == 3 && i == 1 {
			factor, err := strconv.ParseFloat(part, 64)
			if err != nil {
				return wrong(fmt.Sprintf("the factor %q is no number", part))
			}
			out.Factor = factor
			continue
		}
		duration, err := time.ParseDuration(part)
		if err != nil {
			return wrong(fmt.Sprintf("%q is no duration", part))
		}
		switch ms := duration.Milliseconds(); {
		case out.Kind == api.BackoffList:
			out.DelaysMS = append(out.DelaysMS, ms)
		case i == 0:
			out.BaseMS = ms
			if most == 3 && len(parts) < 3 {
				out.CapMS = max(out.CapMS, ms)
			}
		default:
			out.CapMS = ms
		}
	}
	return out, nil
}

// backoffFlag writes a back-off as parseBackoff reads it.
func backoffFlag(b api.Backoff) string {
	short := func(ms int64) string { return queue.ShortDuration(time.Duration(ms) * time.Millisecond) }
	parts := []string{short(b.BaseMS)}
	switch b.Kind {
	case api.BackoffLinear:
		parts = append(parts, short(b.CapMS))
	case api.BackoffFixed:
	case api.BackoffList:
		parts = nil
		for _, ms := range b.DelaysMS {
			parts = append(parts, short(ms))
		}
	default:
		if b.BaseMS == 0 {
			return "0"
		}
		parts = append(parts, fmt.Sprint(b.Factor), short(b.CapMS))
	}
	if b.Jitter != "" {
		parts = append(parts, "jitter="+b.Jitter)
	}
	text := strings.Join(parts, ",")
	if b.Kind != "" {
		text = b.Kind + ":" + text
	}
	return text
}

// backoffText is a back-off as people read it.
func backoffText(b api.Backoff) string {
	text := ""
	switch b.Kind {
	case api.BackoffFixed:
		text = milliseconds(b.BaseMS)
	case api.BackoffLinear:
		text = milliseconds(b.BaseMS) + " × attempts"
	case api.BackoffList:
		var delays []string
		for _, ms := range b.DelaysMS {
			delays = append(delays, milliseconds(ms))
		}
		text = strings.Join(delays, ", ")
	default:
		if b.BaseMS == 0 {
			return "none"
		}
		text = fmt.Sprintf("%s × %g", milliseconds(b.BaseMS), b.Factor)
	}
	if b.CapMS > 0 {
		text += " up to " + milliseconds(b.CapMS)
	}
	if b.Jitter != "" {
		text += ", jitter " + b.Jitter
	}
	return text
}
