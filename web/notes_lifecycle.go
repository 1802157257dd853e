package web

func lifecycleNotes() map[string]note {
	return map[string]note{
		"Lifecycle.lag_seconds":           {text: "Since when the oldest action is due that is not done yet; 0: nothing is overdue"},
		"Lifecycle.degraded":              {text: "Whether inserts are refused because the worker's commits fail again and again"},
		"Lifecycle.slices_total":          {text: "Slices of actions of one kind that came through, since the server's start"},
		"Lifecycle.suspects":              {text: "Chunks whose last try burnt a reservation"},
		"Lifecycle.kinds":                 {text: "Every kind of action"},
		"Lifecycle.parked":                {text: "Actions that are left alone, the oldest first"},
		"Suspects.shelved":                {text: "Due, and held back behind other work"},
		"Suspects.lent":                   {text: "Offered or held, and not finished"},
		"Suspects.quota":                  {text: "How many may be lent while there is other work: suspect_share of the slots, at least 1"},
		"Suspects.slots":                  {text: "Live consumer slots: reservations held, smoothed"},
		"LifecycleKind.kind":              oneOf("What kind of action", "expiry", "lost", "grace", "retry", "suspect", "run_at", "dead_deadline", "sweep", "retention", "schedule", "rule", "forward"),
		"LifecycleKind.pending":           {text: "What waits for its time, or to be swept"},
		"LifecycleKind.lag_seconds":       {text: "Since when the oldest of the kind is due that is not done yet"},
		"LifecycleKind.done_total":        {text: "Actions that were done, since the server's start"},
		"LifecycleKind.stale_total":       {text: "Those that were not needed any more when their turn came"},
		"LifecycleKind.parked":            {text: "Those that are left alone now"},
		"LifecycleKind.failures_total":    {text: "Slices that failed"},
		"LifecycleKind.failures_in_a_row": {text: "Of them, those since the last success"},
		"LifecycleKind.error":             {text: "Why the last slice failed; absent after a success"},
		"LifecycleKind.last_success_at":   {text: "When a slice came through last; absent before the first"},
		"ParkedAction.kind":               {text: "What kind of action"},
		"ParkedAction.submission":         {text: "The submission that it is about"},
		"ParkedAction.index":              {text: "The chunk of it, if it is about one"},
		"ParkedAction.error":              {text: "Why it failed"},
		"ParkedAction.since":              {text: "When it was parked"},
		"Retried.retried":                 {text: "How many parked actions are tried again"},
	}
}
