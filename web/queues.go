package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// QueuePath names the queue that an operation is about. It is exported because huma only looks into exported fields.
type QueuePath struct {
	Queue string `path:"queue" maxLength:"64" doc:"Name of the queue"`
}

type listQueuesOutput struct{ Body api.Page[api.Queue] }

func (s *Server) listQueues(ctx context.Context, _ *struct{}) (*listQueuesOutput, error) {
	out := &listQueuesOutput{Body: api.Page[api.Queue]{Items: []api.Queue{}}}
	for _, info := range s.engine.Queues() {
		if token := boundTo(ctx); token == nil || token.CoversQueue(info.Name) {
			out.Body.Items = append(out.Body.Items, apiQueue(info))
		}
	}
	return out, nil
}

type queueOutput struct{ Body api.Queue }

func (s *Server) getQueue(_ context.Context, in *QueuePath) (*queueOutput, error) {
	info, err := s.engine.Queue(in.Queue)
	if err != nil {
		return nil, err
	}
	return &queueOutput{Body: apiQueue(info)}, nil
}

type putQueueInput struct {
	QueuePath
	Body decoded[api.PutQueueRequest]
}

type putQueueOutput struct {
	Status   int
	Location string `header:"Location" doc:"Path of the queue, when it was created"`
	Body     api.Queue
}

func (s *Server) putQueue(ctx context.Context, in *putQueueInput) (*putQueueOutput, error) {
	if in.Body.failed != nil {
		return nil, s.wireProblem(in.Body.failed, in.Body.body, contentJSON)
	}
	settings := queue.DefaultSettings()
	if err := settingsOf(in.Body.value.Settings, &settings); err != nil {
		return nil, prefixed(err, "/settings")
	}
	info, created, err := s.engine.PutQueue(ctx, in.Queue, settings)
	if err != nil {
		return nil, prefixed(err, "/settings")
	}
	out := &putQueueOutput{Status: http.StatusOK, Body: apiQueue(info)}
	if created {
		out.Status, out.Location = http.StatusCreated, "/v1/queues/"+info.Name
	}
	return out, nil
}

func (s *Server) deleteQueue(ctx context.Context, in *QueuePath) (*struct{}, error) {
	return nil, s.engine.DeleteQueue(ctx, in.Queue)
}

type patchQueueInput struct {
	QueuePath
	Body decoded[api.ChangeQueueRequest]
}

func (s *Server) patchQueue(ctx context.Context, in *patchQueueInput) (*queueOutput, error) {
	if in.Body.failed != nil {
		return nil, s.wireProblem(in.Body.failed, in.Body.body, contentJSON)
	}
	info, err := s.engine.ChangeQueue(ctx, in.Queue, func(settings *queue.Settings) error {
		return settingsOf(in.Body.value.Settings, settings)
	})
	if err != nil {
		return nil, prefixed(err, "/settings")
	}
	return &queueOutput{Body: apiQueue(info)}, nil
}

// settingsOf reads settings over others. It checks that values can be represented; whether they make sense together is the engine's to
// say. Pointers of its errors are below /settings.
func settingsOf(in api.QueueSettingsInput, out *queue.Settings) error {
	if in.Durability != nil {
		switch *in.Durability {
		case api.DurabilityFull:
			out.Durability = queue.Full
		case api.DurabilityRelaxed:
			out.Durability = queue.Relaxed
		default:
			return queue.Invalid("/durability", "must be full or relaxed")
		}
	}
	if in.OnExhausted != nil {
		policy, ok := parseOnExhausted(*in.OnExhausted)
		if !ok || policy == queue.Inherit {
			return queue.Invalid("/on_exhausted", "must be fail_submission, dead_letter or skip")
		}
		out.OnExhausted = policy
	}
	if in.MaxAttempts != nil {
		out.MaxAttempts = *in.MaxAttempts
	}
	if in.Draining != nil {
		out.Draining = *in.Draining
	}
	if in.SuspectShare != nil {
		out.SuspectShare = *in.SuspectShare
	}
	if in.Requeue != nil {
		var known bool
		if out.Requeue, known = queue.ParseRequeue(*in.Requeue); !known {
			return queue.Invalid("/requeue", "must be head or tail")
		}
	}
	if in.MaxExpiries != nil {
		out.MaxExpiries = *in.MaxExpiries
	}
	durations := []struct {
		pointer string
		in      *int64
		unit    time.Duration
		out     *time.Duration
	}{
		{"/reservation_timeout_ms", in.ReservationTimeoutMS, time.Millisecond, &out.ReservationTimeout},
		{"/max_reservation_ms", in.MaxReservationMS, time.Millisecond, &out.MaxReservation},
		{"/retention_seconds", in.RetentionSeconds, time.Second, &out.Retention},
		{"/dead_retention_seconds", in.DeadRetentionSeconds, time.Second, &out.DeadRetention},
		{"/consumer_grace_ms", in.ConsumerGraceMS, time.Millisecond, &out.ConsumerGrace},
		{"/restart_grace_ms", in.RestartGraceMS, time.Millisecond, &out.RestartGrace},
	}
	for _, d := range durations {
		if d.in == nil {
			continue
		}
		var err error
		if *d.out, err = durationOf("/settings", d.pointer, *d.in, d.unit); err != nil {
			return err
		}
	}
	var err error
	if out.RetryBackoff, err = backoffOf("/retry_backoff", in.RetryBackoff, out.RetryBackoff); err != nil {
		return err
	}
	if in.DeadLetterQueue != nil {
		out.DeadLetterQueue = *in.DeadLetterQueue
	}
	out.ExpiryBackoff, err = backoffOf("/expiry_backoff", in.ExpiryBackoff, out.ExpiryBackoff)
	return err
}

func backoffOf(pointer string, in *api.Backoff, otherwise queue.Backoff) (queue.Backoff, error) {
	if in == nil {
		return otherwise, nil
	}
	base, err := durationOf("/settings", pointer+"/base_ms", in.BaseMS, time.Millisecond)
	if err != nil {
		return otherwise, err
	}
	limit, err := durationOf("/settings", pointer+"/cap_ms", in.CapMS, time.Millisecond)
	if err != nil {
		return otherwise, err
	}
	return queue.Backoff{Base: base, Factor: in.Factor, Cap: limit}, nil
}

func apiQueue(info engine.QueueInfo) api.Queue {
	set := info.Settings
	return api.Queue{
		Name: info.Name, CreatedAt: apiTime(info.Created),
		Settings: api.QueueSettings{
			Durability: set.Durability.String(), MaxAttempts: set.MaxAttempts, MaxExpiries: set.MaxExpiries,
			OnExhausted:          onExhaustedName(set.OnExhausted),
			ReservationTimeoutMS: set.ReservationTimeout.Milliseconds(), MaxReservationMS: set.MaxReservation.Milliseconds(),
			RetryBackoff: apiBackoff(set.RetryBackoff), ExpiryBackoff: apiBackoff(set.ExpiryBackoff),
			RetentionSeconds: int64(set.Retention / time.Second), DeadRetentionSeconds: int64(set.DeadRetention / time.Second), DeadLetterQueue: set.DeadLetterQueue,
			ConsumerGraceMS: set.ConsumerGrace.Milliseconds(), RestartGraceMS: set.RestartGrace.Milliseconds(), Draining: set.Draining,
			SuspectShare: set.SuspectShare, Requeue: set.Requeue.String(),
		},
	}
}

func apiBackoff(b queue.Backoff) api.Backoff {
	return api.Backoff{BaseMS: b.Base.Milliseconds(), Factor: b.Factor, CapMS: b.Cap.Milliseconds()}
}

// onExhaustedNames are the names of the policies, by their numbers; Inherit has none.
func onExhaustedNames() [4]string { return [4]string{"", "fail_submission", "dead_letter", "skip"} }

func onExhaustedName(p queue.OnExhausted) string {
	names := onExhaustedNames()
	if int(p) >= len(names) {
		panic(fmt.Sprintf("web: on_exhausted %d has no name", p))
	}
	return names[p]
}

func parseOnExhausted(name string) (queue.OnExhausted, bool) {
	for i, known := range onExhaustedNames() {
		if known == name {
			return queue.OnExhausted(i), true
		}
	}
	return 0, false
}
