package web

func deadLetterNotes() map[string]note {
	out := map[string]note{
		"ForwardRequest.to":           {text: "The queue that the dead chunk is sent to: another one, which exists"},
		"DeadLetter.submission":       {text: "Its submission"},
		"DeadLetter.index":            {text: "Index of the chunk"},
		"DeadLetter.submission_state": oneOf("Where the submission stands", "open", "completed_with_dead"),
		"DeadLetter.attempts":         {text: "Tries since the insert or the last redrive"},
		"DeadLetter.expiries":         {text: "Those of them that ended by their deadline"},
		"DeadLetter.redrives":         {text: "How often it was redriven"},
		"DeadLetter.died_at":          {text: "When the last try ended"},
		"DeadLetter.consumer":         {text: "Who held it last"},
		"DeadLetter.error":            {text: "The last error"},
		"DeadLetter.fingerprint": {text: "16 hexadecimal digits: the same for errors that differ only in " +
			"numbers, hexadecimal ids, UUIDs and quoted parts"},
		"DeadLetter.history":      {text: "The last 10 tries, oldest first, over all redrives; not in lists"},
		"Attempt.ended_at":        {text: "When it ended"},
		"Attempt.consumer":        {text: "Who held the chunk"},
		"Attempt.held_ms":         {text: "For how long"},
		"Attempt.expired":         {text: "Whether its deadline ended it"},
		"Attempt.lost":            {text: "Whether it ended because its consumer was lost"},
		"Attempt.error":           {text: "What the consumer reported; of all but the last one the first 256 bytes"},
		"PageDeadLetter.items":    {text: "The dead letters"},
		"PageDeadLetter.next":     {text: "Cursor of the next page; absent on the last"},
		"DeadGroup.fingerprint":   {text: "Of all errors of the group"},
		"DeadGroup.pattern":       {text: "The error with what changes replaced by <n>, <hex>, <uuid> and <s>"},
		"DeadGroup.example":       {text: "One of the errors"},
		"DeadGroup.count":         {text: "Dead letters in the group"},
		"DeadGroup.submissions":   {text: "Submissions that have some of them"},
		"DeadGroup.first_died_at": {text: "When the first of them died"},
		"DeadGroup.last_died_at":  {text: "When the last of them died"},
		"DeadGroups.items":        {text: "The groups, the largest first"},
		"DeadGroups.others":       {text: "Dead letters that are in no group, as there are 10,000 groups already"},
	}
	return out
}
