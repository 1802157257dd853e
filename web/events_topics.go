package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// The topics consumers and schedules are not in a queue's frame: they cost nothing while
// no one watches them. The first subscriber who wants one has it made for a frame, outside
// of the lock that the streams share, and all others of the queue are sent the same bytes.

// topicPatience bounds the reading of one topic for a frame. The frame is of use for one second only; more than a few
// missed ones show an operator that something is wrong.
const topicPatience = 5 * time.Second

// lateTopic is a topic of one frame. An error is kept like a result: it ends all streams that want the topic of this
// frame, and their clients come back to a new one.
type lateTopic struct {
	once  sync.Once
	body  []byte // JSON, to tell whether anything changed
	event []byte
	err   error
	ready atomic.Bool // what is above may be read by others
}

// made gives the topic's event, making it if it is not made yet. A topic that says the
// same as that of the frame before is that one: those who had it are not sent it again.
func (t *lateTopic) made(e *events, name string, f *engine.Frame, before *lateTopic,
	read func(context.Context) (any, error)) ([]byte, error) {
	t.once.Do(func() {
		defer t.ready.Store(true)
		// not the subscriber's: others wait for the same
		ctx, cancel := context.WithTimeout(context.Background(), topicPatience)
		defer cancel()
		data, err := read(ctx)
		if err == nil {
			t.body, err = json.Marshal(data)
		}
		if err != nil {
			t.err = fmt.Errorf("web: event %s: %w", name, err)
			return
		}
		if before != nil && bytes.Equal(before.body, t.body) {
			t.body, t.event = before.body, before.event
			return
		}
		t.event, t.err = e.event(name, f, json.RawMessage(t.body))
	})
	return t.event, t.err
}

// consumersFrame is what the topic consumers says: of all that are known those first that
// an operator looks for.
func (w watching) consumersFrame(ctx context.Context, queueName string, f *engine.Frame) (any, error) {
	q, err := w.engine.Queue(queueName)
	if err != nil {
		return nil, err
	}
	top, sums, err := q.Consumers.Top(ctx, api.MaxFrameConsumers)
	if err != nil {
		return nil, err
	}
	out := api.ConsumersFrame{
		Queue: queueName, At: f.At.API(), Consumers: sums.Consumers, Attached: sums.Attached, Overdue: sums.Overdue,
		Whole: sums.Whole,
		Top:   make([]api.Consumer, len(top)), Left: sums.Consumers - len(top),
	}
	for i := range top {
		out.Top[i] = apiConsumer(&top[i])
	}
	return out, nil
}

// schedulesFrame is what the topic schedules says: what moves of each schedule, those first that are due next. Names
// decide between equal times, so that equal contents are equal bytes, and are not sent again.
func (w watching) schedulesFrame(_ context.Context, queueName string, _ *engine.Frame) (any, error) {
	q, err := w.engine.Queue(queueName)
	if err != nil {
		return nil, err
	}
	page, err := q.Schedules.List("", queue.MaxSchedules)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(page.Items, func(a, b queue.ScheduleInfo) int {
		switch {
		// 0 is "never": such schedules come last, not first.
		case (a.Next == 0) != (b.Next == 0):
			if b.Next == 0 {
				return -1
			}
			return 1
		case a.Next != b.Next:
			if a.Next < b.Next {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	out := api.SchedulesFrame{Queue: queueName, Left: max(0, len(page.Items)-api.MaxFrameSchedules),
		Items: []api.ScheduleNow{}}
	for i := range page.Items[:min(len(page.Items), api.MaxFrameSchedules)] {
		in := &page.Items[i]
		one := api.ScheduleNow{
			Name: in.Name, Version: in.Version, State: in.State.String(), Reason: in.Reason, NextAt: nextOf(in),
			LastAt: in.Last.API(), WaitingAt: in.Waiting.API(),
			Emitted: in.Emitted, SkippedMissed: in.Missed, SkippedLate: in.Late, SkippedOverlap: in.Overlapped,
		}
		// 0 is no id; the text "0" would look like one.
		if in.LastID != 0 {
			one.LastSubmission = in.LastID.String()
		}
		for _, e := range in.Recent {
			if e.State == queue.Open {
				one.Open++
			}
		}
		if n := len(in.Recent); n > 0 {
			one.Newest, one.NewestState = in.Recent[n-1].ID.String(), in.Recent[n-1].State.String()
		}
		out.Items = append(out.Items, one)
	}
	return out, nil
}
