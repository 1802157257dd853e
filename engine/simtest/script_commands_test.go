package simtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/sdk/api"
)

// commands are the commands of scripts, each with its use: the words that it needs, and its options.
var commands = map[string]struct {
	use string
	run func(command)
}{
	"settings": {"[FIELD=VALUE]", command.settings},
	"insert": {"CHUNKS [meta=KEY:VALUE,...] [run_at=TIME] [dead_deadline=TIME] [max_attempts=N] [on_exhausted=POLICY] " +
		"[retry_backoff=BACKOFF] [max_failed_chunks=N] [timeout=DURATION]", command.insert},
	"reserve":  {"CHUNKS [as=CONSUMER] [strategy=STRATEGY] [timeout=DURATION]", command.reserve},
	"complete": {"TOKEN... [output=TEXT]", command.complete},
	"fail":     {"TOKEN... [error=TEXT] [fatal=yes] [retry_after=DURATION]", command.fail},
	"release":  {"TOKEN... [delay=DURATION]", command.release},
	"extend":   {"TOKEN... [as=CONSUMER] [timeout=DURATION]", command.extend},
	"tick":     {"DURATION", command.tick},

	"submission":  {"SUBMISSION", command.submission},
	"cancel":      {"SUBMISSION", command.cancel},
	"cancelchunk": {"SUBMISSION CHUNK", command.cancelChunk},
	"chunks":      {"SUBMISSION", command.listChunks},
	"attempts":    {"SUBMISSION CHUNK", command.attempts},
	"stats":       {"", command.stats},

	"letters":   {"", command.listLetters},
	"groups":    {"", command.groups},
	"redrive":   {"SUBMISSION CHUNK...", command.redrive},
	"discard":   {"SUBMISSION CHUNK...", command.discard},
	"forward":   {"SUBMISSION CHUNK... [to=QUEUE]", command.forward},
	"outgoing":  {"", command.outgoing},
	"delivered": {"NUMBER...", command.delivered},
	"age":       {"", command.age},

	"rule":   {"ACTION [meta=KEY:VALUE] [submission=SUBMISSION] [reason=TEXT] [until=TIME] [insert=yes] [revoke=yes]", command.rule},
	"rules":  {"", command.rules},
	"lift":   {"RULE", command.lift},
	"attach": {"CONSUMER", command.attach},
	"vanish": {"CONSUMER", command.vanish},
	"detach": {"CONSUMER", command.detach},

	"schedule":   {"NAME CHUNKS [FIELD=VALUE]", command.schedule},
	"schedules":  {"", command.schedules},
	"pause":      {"SCHEDULE", command.pause},
	"resume":     {"SCHEDULE", command.resume},
	"unschedule": {"SCHEDULE", command.unschedule},

	"bulk":    {"ACTION [meta=KEY:VALUE] [to=QUEUE] [priority=N] [dry_run=yes]", command.bulk},
	"step":    {"BULK CHUNKS", command.step},
	"abort":   {"BULK", command.abort},
	"value":   {"KEY:VALUE [limit=N] [weight=N]", command.value},
	"values":  {"KEY", command.values},
	"outputs": {"SUBMISSION", command.outputs},

	"checkpoint": {"", command.checkpoint},
	"crash":      {"[down=DURATION] [during=checkpoint]", command.crash},
}

// settings changes settings by their names in JSON. A duration is in the setting's unit, a back-off is BASE,FACTOR,CAP.
func (c command) settings() {
	setFields(c, queue.AllSettings(), &c.box.settings)
	if err := c.box.settings.Valid(); err != nil {
		c.stop("%v", err)
	}
	must(c.t, c.box.putSettings(c.box.settings))
}

// setFields gives `to` the options, by the names of its declared fields in JSON.
func setFields[T any](c command, fields []*queue.Field[T], to *T) {
	for name, text := range c.options {
		i := slices.IndexFunc(fields, func(d *queue.Field[T]) bool { return d.Name == name })
		if i < 0 {
			c.stop("there is no setting %s", name)
		}
		d, err := fields[i], error(nil)
		if backoff, is := d.Pointer(to).(*queue.Backoff); is {
			*backoff = c.backoff(name, text)
		} else if d.Range.Unit != 0 {
			err = d.Set(to, int64(c.parse(text)))
		} else if at, is := d.Pointer(to).(*queue.Time); is {
			*at = c.time(name)
		} else if _, is := d.Value(to).(string); is {
			err = d.Set(to, text)
		} else {
			err = json.Unmarshal([]byte(text), d.Pointer(to))
		}
		if err != nil {
			c.stop("%s: %v", name, err)
		}
	}
}

func (c command) backoff(name, text string) queue.Backoff {
	var b api.Backoff
	text, b.Jitter, _ = strings.Cut(text, ",jitter=")
	if kind, rest, named := strings.Cut(text, ":"); named {
		b.Kind, text = kind, rest
	}
	ms := func(text string) int64 { return c.parseDuration(name, text).Milliseconds() }
	switch parts := strings.Split(text, ","); {
	case b.Kind == api.BackoffList:
		for _, part := range parts {
			b.DelaysMS = append(b.DelaysMS, ms(part))
		}
	case b.Kind == api.BackoffFixed && len(parts) == 1:
		b.BaseMS = ms(parts[0])
	case b.Kind == api.BackoffLinear && len(parts) == 2:
		b.BaseMS, b.CapMS = ms(parts[0]), ms(parts[1])
	case b.Kind == "" && len(parts) == 3:
		b.BaseMS, b.Factor, b.CapMS = ms(parts[0]), float64(c.parse(parts[1])), ms(parts[2])
	default:
		c.stop("%s is %q; want BASE,FACTOR,CAP, linear:BASE,CAP, fixed:DELAY or list:DELAY,..., and perhaps ,jitter=JITTER", name, text)
	}
	out, err := queue.NewBackoff(name, b)
	if err != nil {
		c.stop("%v", err)
	}
	return out
}

func (c command) meta() (entries []queue.MetaEntry) { return metaOf(c.options["meta"]) }

// metaOf reads KEY:VALUE,... A value that is a number is one.
func metaOf(text string) (entries []queue.MetaEntry) {
	for pair := range strings.SplitSeq(text, ",") {
		key, text, _ := strings.Cut(pair, ":")
		value := queue.StringValue(text)
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			value = queue.IntValue(n)
		}
		if key != "" {
			entries = append(entries, queue.MetaEntry{Key: key, Value: value})
		}
	}
	return entries
}

func (c command) insert() {
	n := prefixed(uint32(c.parse(c.words[0])), c.meta()...)
	n.RunAt, n.DeadDeadline = c.time("run_at"), c.time("dead_deadline")
	n.MaxAttempts, n.MaxFailedChunks = uint16(c.number("max_attempts")), uint32(c.number("max_failed_chunks"))
	n.AttemptTimeout = c.duration("timeout")
	if text := c.options["retry_backoff"]; text != "" {
		n.RetryBackoff = new(c.backoff("retry_backoff", text))
	}
	if policy := c.options["on_exhausted"]; policy != "" {
		var err error
		if n.OnExhausted, err = queue.ParseOnExhausted(policy); err != nil {
			c.stop("%v", err)
		}
	}
	if sub, _, err := c.shard.Insert(ctx, &n); !c.refused(err) {
		c.subs = append(c.subs, sub.ID)
		c.show(sub.ID)
	}
}

// show prints the state of a submission.
func (s *script) show(id queue.SubmissionID) {
	sub := s.sub(id)
	text := fmt.Sprintf("%s %s:", s.nameOf(id), sub.State)
	for _, n := range []struct {
		name string
		n    uint32
	}{
		{"ready", sub.Ready}, {"paused", sub.Paused}, {"blocked", sub.Blocked}, {"waiting", sub.Waiting}, {"reserved", sub.Reserved},
		{"done", sub.Done}, {"dead", sub.Dead}, {"skipped", sub.Skipped}, {"of these forwarded", sub.Forwarded},
	} {
		if n.n > 0 {
			text += fmt.Sprintf(" %d %s,", n.n, n.name)
		}
	}
	text = strings.TrimRight(text, ",")
	if sub.FailedChunk != nil {
		text += fmt.Sprintf("; failed by chunk %d: %q", *sub.FailedChunk, sub.Failure)
	}
	s.say("%s", text)
}

func (c command) reserve() {
	got, err := c.shard.Reserve(ctx, machine.Request{
		Plan: plan(c.t, cmp.Or(c.options["strategy"], "OldestFirst")), Max: c.parse(c.words[0]), Consumer: c.options["as"],
		Timeout: c.duration("timeout"), Limited: 10,
	}, nil)
	if c.refused(err) {
		return
	}
	if len(got.Reservations) == 0 {
		c.say("empty: %s%s", got.Reason, limited(got.Limited))
	}
	for i := range got.Reservations {
		r := &got.Reservations[i]
		c.tokens = append(c.tokens, r.Token)
		c.say("t%d is chunk %s/%d, attempt %d, until %s", len(c.tokens), c.nameOf(r.Token.Submission), r.Token.Index, r.Attempt, at(r.Deadline))
	}
}

func limited(list []queue.Saturated) (text string) {
	for _, l := range list {
		text += fmt.Sprintf(" %s=%s", l.Key, l.Value.Quoted())
	}
	return text
}

// at shows a moment.
func at(t queue.Time) string {
	if t == 0 {
		return "an unknown time"
	}
	return t.Sub(start).String()
}

// items makes an item of each token; results prints the shard's answer for it.
func items[T any](c command, of func(queue.Token) T) (list []T) {
	for _, name := range c.words {
		list = append(list, of(named(c.script, "t", name, c.tokens)))
	}
	return list
}

func (c command) results(list []queue.Result, err error) {
	if c.refused(err) {
		return
	}
	for i, r := range list {
		text := r.Outcome.String()
		if r.Code != "" {
			text += ": " + r.Code
		}
		if r.Deadline != 0 {
			text += ", until " + at(r.Deadline)
		}
		c.say("%s %s", c.words[i], text)
	}
}

func (c command) complete() {
	var output []byte
	if text, is := c.options["output"]; is {
		output = []byte(text)
	}
	c.results(c.shard.Complete(ctx, items(c, func(t queue.Token) queue.CompleteItem {
		return queue.CompleteItem{Token: t, Output: output}
	}), nil))
}

func (c command) fail() {
	_, has := c.options["retry_after"]
	after := queue.Time(c.duration("retry_after").Milliseconds())
	c.results(c.shard.Fail(ctx, items(c, func(t queue.Token) queue.FailItem {
		return queue.FailItem{Token: t, Error: c.options["error"], Fatal: c.options["fatal"] == "yes", HasRetry: has, RetryAfter: after}
	}), nil))
}

func (c command) release() {
	c.results(c.shard.Release(ctx, items(c, func(t queue.Token) queue.ReleaseItem {
		return queue.ReleaseItem{Token: t, Delay: queue.Time(c.duration("delay").Milliseconds())}
	}), nil))
}

func (c command) extend() {
	timeout := queue.Time(c.duration("timeout").Milliseconds())
	c.results(c.shard.Extend(ctx, items(c, func(t queue.Token) queue.ExtendItem {
		return queue.ExtendItem{Token: t, Timeout: timeout, Consumer: c.options["as"]}
	}), nil))
}
