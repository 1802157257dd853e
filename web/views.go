package web

import (
	"context"

	"github.com/quern-queue/quern/sdk/api"
)

const viewsAbout = "Every branch of a strategy stands on an index in memory (a view), which is made when it is used " +
	"first. All of them together may take what the option view-memory says, and those " +
	"that only questions made a quarter of that beyond it. The least recently used ones go when room is needed; a " +
	"call for which there is none is answered 429."

type listViewsOutput struct{ Body api.Views }

func (s *Server) listViews(_ context.Context, in *QueuePath) (*listViewsOutput, error) {
	list, use, err := s.engine.Views(in.Queue)
	if err != nil {
		return nil, err
	}
	out := &listViewsOutput{Body: api.Views{
		Bytes: use.Views, BytesMost: use.ViewsMost, QuestionBytes: use.Asked, QuestionBytesMost: use.AskedMost,
		Items: make([]api.View, len(list)),
	}}
	for i, v := range list {
		out.Body.Items[i] = api.View{Branch: v.Branch, Bytes: v.Bytes, Question: v.Asked, Built: v.Built}
	}
	return out, nil
}
