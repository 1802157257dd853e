package web

import (
	"context"
	"net/http"

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
	if err := readFields(queue.AllSettings(), &in.Body.value.Settings, &settings); err != nil {
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

type deleteQueueInput struct {
	QueuePath
	Quarantined bool `query:"quarantined" doc:"Delete a queue that is in quarantine: what is in it is lost"`
}

func (s *Server) deleteQueue(ctx context.Context, in *deleteQueueInput) (*struct{}, error) {
	return nil, s.engine.DeleteQueue(ctx, in.Queue, in.Quarantined)
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
		return readFields(queue.AllSettings(), &in.Body.value.Settings, settings)
	})
	if err != nil {
		return nil, prefixed(err, "/settings")
	}
	return &queueOutput{Body: apiQueue(info)}, nil
}

func apiQueue(info engine.QueueInfo) api.Queue {
	out := api.Queue{Name: info.Name, CreatedAt: apiTime(info.Created)}
	showFields(queue.AllSettings(), &info.Settings, &out.Settings)
	if q := info.Quarantined; q != nil {
		out.Quarantined = &api.Quarantined{Reason: q.Reason, Since: apiTime(q.Since)}
	}
	return out
}
