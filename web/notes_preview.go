package web

import "github.com/quern-queue/quern/engine"

func previewNotes() map[string]note {
	out := map[string]note{
		"PreviewRequest.strategy":  {text: "The strategy; absent: Random", ref: "Strategy"},
		"PreviewResponse.strategy": {text: "The canonical text"},
		"PreviewResponse.picks":    {text: "What would be handed out, in order"},
		"PreviewPick.submission":   {text: "Id of the submission"},
		"PreviewPick.index":        {text: "Index of the chunk"},
		"PreviewPick.meta":         {text: "Of the submission"},
		"PreviewPick.priority":     {text: "Of the submission"},
	}
	for _, schema := range []string{"PreviewRequest"} {
		out[schema+".max"] = between(0, engine.MaxPreview, "Most chunks to look ahead; 0 or absent: 10")
		out[schema+".seed"] = between(0, engine.MaxSeed, "The same seed on the same state gives the same picks; absent: any")
	}
	for _, schema := range []string{"PreviewResponse"} {
		out[schema+".seed"] = note{text: "What Random drew by; ask with it again to get the same picks from the same state"}
	}
	for _, schema := range []string{"PreviewPick"} {
		out[schema+".branch"] = note{text: "Number of the branch, from 1"}
		out[schema+".path"] = note{text: "The way to the branch through the strategy"}
	}
	return out
}
