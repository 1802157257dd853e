package web

import (
	"context"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

type getStatsOutput struct{ Body api.Stats }

func (s *Server) getStats(ctx context.Context, in *QueuePath) (*getStatsOutput, error) {
	stats, err := s.engine.Stats(ctx, in.Queue)
	if err != nil {
		return nil, err
	}
	return &getStatsOutput{Body: apiStats(&stats, s.now())}, nil
}

type listValuesInput struct {
	QueuePath
	Key   string `path:"key" maxLength:"64" doc:"The meta key"`
	Sort  string `query:"sort" enum:"in_flight,ready" default:"in_flight" doc:"Largest first"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most items"`
}

type listValuesOutput struct{ Body api.Page[api.ValueCount] }

func (s *Server) listValues(ctx context.Context, in *listValuesInput) (*listValuesOutput, error) {
	if queue.ValidMetaKey(in.Key) != nil {
		return nil, queue.Invalid("/path/key", "is not a meta key: 1 to %d letters, digits, '_', '-' and '.'", queue.MaxMetaKeyBytes)
	}
	counts, err := s.engine.Values(ctx, in.Queue, in.Key, in.Sort, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &listValuesOutput{Body: api.Page[api.ValueCount]{Items: make([]api.ValueCount, len(counts))}}
	for i, count := range counts {
		out.Body.Items[i] = api.ValueCount{
			Value: apiValue(count.Value), Ready: count.Available, InFlight: uint64(count.InFlight),
			Submissions: uint64(count.Submissions), Weight: 1,
		}
	}
	return out, nil
}
