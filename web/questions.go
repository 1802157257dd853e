package web

import (
	"context"

	"github.com/quern-queue/quern/sdk/api"
)

// questions are the handlers of what changes nothing and asks what strategies would do, or why work does not move.
type questions struct{ s *Server }

const inUseAbout = "Those that handed out most chunks first. At most 256 are told apart: the one that was unused for longest makes room. " +
	"Rates are over the last one to two minutes, empty reserves included. `consumers` is an estimate of how many names reserved by it in " +
	"the last half hour to hour: rarely wrong up to 20, and by a few percent beyond. Nothing is known of the time before `since`: the " +
	"list begins again with the server."

type inUseOutput struct{ Body api.StrategiesInUse }

func (ask questions) inUse(_ context.Context, in *QueuePath) (*inUseOutput, error) {
	list, since, err := ask.s.engine.Questions().StrategiesInUse(in.Queue)
	if err != nil {
		return nil, err
	}
	out := &inUseOutput{Body: api.StrategiesInUse{Items: make([]api.StrategyUse, len(list)), Since: apiTime(since)}}
	for i := range list {
		use := &list[i]
		out.Body.Items[i] = api.StrategyUse{Strategy: use.Text, Consumers: use.Consumers, ReservesPerSecond: use.ReservesPerSecond,
			ChunksPerSecond: use.ChunksPerSecond, LastUsed: apiTime(use.LastUsed)}
	}
	return out, nil
}
