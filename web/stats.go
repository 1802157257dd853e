package web

import (
	"context"

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
