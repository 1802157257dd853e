package web

func consumerNotes() map[string]note {
	out := map[string]note{
		"ConsumerDetail.items":       {text: "What it holds, the oldest reservation first"},
		"ConsumerDetail.next":        {text: "Cursor of the next page; absent on the last"},
		"PageConsumer.items":         {text: "The consumers, by name"},
		"PageConsumer.next":          {text: "Cursor of the next page; absent on the last"},
		"HeldChunk.submission":       {text: "Its submission"},
		"HeldChunk.index":            {text: "Index of the chunk"},
		"HeldChunk.meta":             {text: "Of the submission"},
		"HeldChunk.attempt":          {text: "1 for the first try"},
		"HeldChunk.reserved_at":      {text: "Since when it is held"},
		"HeldChunk.deadline":         {text: "Until when"},
		"HeldChunk.finishing":        {text: "Whether its end is on its way to the disk"},
		"HeldReservation.submission": {text: "Its submission"},
		"HeldReservation.index":      {text: "Index of the chunk"},
		"HeldReservation.attempt":    {text: "1 for the first try"},
		"HeldReservation.consumer":   {text: "Name of the consumer that holds it; empty if it gave none"},
		"HeldReservation.since":      {text: "When it was reserved"},
		"HeldReservation.held_ms":    {text: "For how long it is held, by the server's clock"},
		"HeldReservation.deadline":   {text: "Until when it is held"},
		"HeldReservation.overdue":    {text: "Whether it is held for longer than the queue's reservation_timeout_ms"},
		"HeldReservation.finishing":  {text: "Whether its end is on its way to the disk"},
		"HeldReservation.meta":       {text: "Of the submission"},
		"PageHeldReservation.items":  {text: "The reservations, in the order that was asked for"},
		"PageHeldReservation.next":   {text: "Cursor of the next page; absent on the last"},
		"Released.released":          {text: "How many chunks went back, with no try counted"},
		"Hello.consumer":             {text: "The consumer's name"},
		"Hello.heartbeat_ms":         {text: "The server says something at least so often"},
		"Hello.epoch": {text: "Rises with every start of the queue. Another one than at the last time: " +
			"the server began again; after an unplanned end it has forgotten all reservations"},
		"Hello.consumer_grace_ms": {text: "From the end of the stream until what the consumer holds is lost"},
		"Hello.reserved":          {text: "Chunks that the server knows the consumer to hold"},
		"EndsGap.after":           {text: "The place that the client had come to: it has all up to there"},
		"EndsGap.until":           {text: "The place up to which ends are missing"},
		"RevokedEvent.items":      {text: "The reservations"},
		"Revoked.token":           {text: "Its token: what is done under it does not count any more"},
		"Revoked.reason":          oneOf("Why", "submission_ended", "expired", "operator", "rule"),
	}
	for _, schema := range []string{"Consumer", "ConsumerDetail"} {
		out[schema+".consumer"] = note{text: "Its name"}
		out[schema+".state"] = oneOf("attached: it has a stream open. away: its stream is broken, and the queue's "+
			"consumer_grace_ms is not over. detached: only deadlines end what it holds", "attached", "away", "detached")
		out[schema+".attached_since"] = note{text: "When it attached"}
		out[schema+".away_since"] = note{text: "Since when its stream is broken"}
		out[schema+".lost_at"] = note{text: "While away: when what it holds is lost, unless it is heard of"}
		out[schema+".last_seen_at"] = note{text: "Its last sign of life"}
		out[schema+".draining"] = note{text: "Whether an operator told it to finish what it holds and leave"}
		out[schema+".quiet"] = note{text: "Whether an operator keeps work from it"}
		out[schema+".reserved"] = note{text: "Chunks that it holds"}
		out[schema+".oldest_reserved_at"] = note{text: "Since when it holds the oldest of them"}
		out[schema+".overdue"] = between(0, 1000,
			"Of them, those that it holds for longer than the queue's reservation_timeout_ms; at most 1,000 are counted")
	}
	return out
}
