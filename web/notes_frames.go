package web

func frameNotes() map[string]note {
	out := map[string]note{
		"StatsFrame.queue": {text: "Name of the queue"},
		"StatsFrame.at":    {text: "When it stood so"},
		"StatsFrame.stats": {text: "The numbers"},
		"StatsFrame.rates": {text: "Chunks per second over the last second"},
		"StatsFrame.empties_ms": {text: "How long what can be handed out lasts at the pace of the last minute, " +
			"without what rules hold; absent when nothing was done, and for a minute after a rule or a cancel " +
			"changed what can be handed out"},
		"StatsFrame.rules":       {text: "The first 20 rules: those of the whole queue, then the newest; absent when there are none"},
		"StatsFrame.rules_total": {text: "How many rules there are"},
		"KeysFrame.queue":        {text: "Name of the queue"},
		"KeysFrame.at":           {text: "When it stood so"},
		"KeysFrame.keys":         {text: "The meta keys, by name"},
		"KeysFrame.left":         {text: "Keys that the frame has no room for"},
		"KeyFrame.key":           {text: "The meta key"},
		"KeyFrame.values":        {text: "Values of open submissions that were read"},
		"KeyFrame.whole":         {text: "Whether all were read; otherwise there are more, and the sums miss them"},
		"KeyFrame.top":           {text: "The values with most in flight"},
		"KeyFrame.rest":          {text: "The sum of the other values that were read"},
		"ValueSum.values":        {text: "How many values"},
		"ValueSum.ready":         {text: "Their ready chunks"},
		"ValueSum.in_flight":     {text: "Their chunks that are held"},
		"Skipped.queue":          {text: "Name of the queue"},
		"Skipped.frames":         {text: "Frames that the subscriber was too slow for"},
		"Closed.queue":           {text: "Name of the queue"},
		"Closed.code":            {text: "Stable name of the reason, as in Problem"},
		"Closed.detail":          {text: "The reason in words, and what can be done"},
		"Series.queue":           {text: "Name of the queue"},
		"Series.step_seconds":    {text: "Time from point to point"},
		"Series.at":              {text: "When, in milliseconds since 1970"},
		"Series.ready":           {text: "Chunks that could be reserved"},
		"Series.waiting":         {text: "Chunks that waited for a time"},
		"Series.reserved":        {text: "Chunks held by consumers"},
		"Series.dead":            {text: "Chunks out of attempts"},
		"KeySeries.key":          {text: "The meta key"},
		"KeySeries.step_seconds": {text: "Time that one cell stands for"},
		"KeySeries.ends":         {text: "End of the time of the last cell, which runs; absent without values"},
		"KeySeries.values":       {text: "The values, sorted"},
		"ValueSeries.value":      {text: "The value"},
		"ValueSeries.in_flight":  {text: "The most chunks in flight in each step, the oldest first; -1 where that is not known"},
	}
	for name, n := range topicNotes() {
		out[name] = n
	}
	for name, text := range map[string]string{"inserted": "Chunks inserted", "reserved": "Chunks reserved",
		"done": "Chunks completed", "failed": "Tries that failed"} {
		out["Rates."+name] = note{text: text + ", per second"}
		out["Series."+name+"_rate"] = note{text: text + ", per second since the point before"}
	}
	return out
}
