package web

// The past of a queue's numbers, from memory: points by second, minute and hour. They
// begin with the start of the server. For longer, Prometheus has them.

import (
	"context"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	seriesAbout = "From memory, so it begins at the server's start: " +
		"a point a second for ten minutes, a point a minute for a day, or a point an hour for 30 days."
	keySeriesAbout = "From memory: the last ten minutes in steps of five seconds, for the values that were " +
		"among those with the most in flight. -1 means unknown, because the value was not among them."
)

// The number of values with durations of their own is bounded, because each takes histograms. That is why asking
// about a value begins to measure it, and why the answer says since when.
const durationsAbout = "From memory: the last 30 to 60 minutes. `meta.KEY=VALUE` selects submissions with this " +
	"value; give it at most once. The server measures up to 256 values of a queue: those that had work, or that a " +
	"call asked about, most recently. If it did not measure a value yet, it begins with this call, and `since` is " +
	"the time of the call. Beyond about 10,000 chunks a second it measures a random share of them, and scales the " +
	"counts up."

// durationsQuery are the parameters of durations.
func durationsQuery() parameters[queue.Meta] {
	return parameters[queue.Meta]{metaParameter(func(m *queue.Meta) *queue.Meta { return m })}
}

// A second value would ask for submissions that have both, and there is no counter for that.
func (x queues) durations(ctx context.Context, q *engine.Queue, in *queueQuery) (*output[api.Durations], error) {
	var meta queue.Meta
	if err := durationsQuery().read(in.raw, &meta); err != nil {
		return nil, err
	}
	meta = ownMeta(ctx, meta)
	if len(meta) > 1 {
		return nil, queue.Invalid("/query/meta."+string(meta[1].Key), "is a second value: durations are kept of "+
			"the queue, and of single values")
	}
	var entry *queue.MetaEntry
	if len(meta) == 1 {
		entry = &meta[0]
	}
	return &output[api.Durations]{q.Durations(entry)}, nil
}

// seriesInput asks for a series. A page that polls sends the time of its last point as `after`, and gets only the
// points that came since.
type seriesInput struct {
	QueuePath
	Step  string `query:"step" enum:"second,minute,hour" default:"second" doc:"Time from point to point"`
	After string `query:"after" format:"date-time" doc:"Only points after this moment"`
}

func (x queues) series(_ context.Context, q *engine.Queue, in *seriesInput) (*output[api.Series], error) {
	var after time.Time
	if in.After != "" {
		var err error
		if after, err = time.Parse(time.RFC3339, in.After); err != nil || after.UnixMilli() < 0 {
			return nil, queue.Invalid("/query/after", "%s", api.TimeDetail)
		}
	}
	return &output[api.Series]{q.Series(seriesSteps[in.Step], after)}, nil
}

// The names are those of the parameter's enum; huma refuses others before a handler runs.
var seriesSteps = map[string]time.Duration{"second": time.Second, "minute": time.Minute, "hour": time.Hour}

// The request names no values: the answer has those with the most chunks in flight, which are the rows of a heat map.
// A key that no submission has yields an empty answer; one that cannot be a key is an error, because it is a typo.
func (x queues) keySeries(_ context.Context, q *engine.Queue, in *KeyPath) (*output[api.KeySeries], error) {
	if queue.ValidMetaKey(in.Key) != nil {
		return nil, queue.Invalid("/path/key", "is not a meta key: 1 to %d letters, digits, '_', '-' and '.'",
			queue.MaxMetaKeyBytes)
	}
	list, ends := q.KeySeries(in.Key)
	out := &output[api.KeySeries]{Body: api.KeySeries{Key: in.Key, StepSeconds: int(engine.HeatStep / time.Second),
		Ends: api.At(ends), Values: showAll(list, asIs)}}
	// Before the first reading there is no last step, and the field is left out.
	if ends.IsZero() {
		out.Body.Ends = api.Time{}
	}
	return out, nil
}
