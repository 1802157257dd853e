package web

import (
	"context"

	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/api"
)

const scoresAbout = "One entry for each version and configuration that is open, those in use first: how many batches " +
	"it scored and which failed, and of a sample of them how the scores of the last 4,096 candidates " +
	"are spread, and of how many of these something was taken. Whole batches are sampled, one in 64 and at most four " +
	"a second beside, so that it costs those who reserve next to nothing. " +
	"It starts from zero when a version is opened: at a start of the server, and after five minutes out of use."

func (pluginHandlers) scores(_ context.Context, c *plugins.Catalogue, in *PluginPath) (*output[api.Page[api.PluginScores]], error) {
	list, err := c.Observations.Scores(in.Name)
	return answeredShort(list, err, asIs)
}
