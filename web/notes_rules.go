package web

func ruleNotes() map[string]note {
	out := map[string]note{
		"RuleMatch.queue":      {text: "true: the whole queue"},
		"RuleMatch.meta":       {text: "One value of one meta key"},
		"RuleMatch.submission": {text: "Id of an open submission; the rule ends with it"},
		"RuleEffects.insert":   {text: "Inserts of what it matches are refused with 423"},
		"RuleEffects.revoke": {text: "Reservations of what it matches are released when it is set, without " +
			"counting a try, and cannot be extended any more"},
		"Rule.id":    {text: "Names it in its queue; never given again"},
		"Rule.since": {text: "When it was set first"},
		"Rule.chunks": {text: "In the list of those that hold: the chunks that it keeps from being handed " +
			"out, also where another rule keeps them too; absent when there are none"},
		"Rule.ended_at": {text: "Of one that has ended: when"},
		"Rule.end": oneOf("How a rule ended: it was lifted, its until came, or its submission ended",
			"lifted", "over", "submission_ended"),
		"Rule.lifted_by":      {text: "Of one that was lifted: who did it, if that was said"},
		"PageRule.items":      {text: "The rules"},
		"PageRule.next":       {text: "Always absent"},
		"RuledAmount.rule":    {text: "The rule"},
		"RuledAmount.refused": {text: "What it covers: of several rules the one that counts is named, a block before a pause"},
	}
	for _, schema := range []string{"RuleRequest", "Rule"} {
		out[schema+".action"] = oneOf("What it does: both keep chunks from being handed out, and a block counts "+
			"before a pause", "pause", "block")
		out[schema+".match"] = note{text: "What it is about: exactly one of queue, meta and submission"}
		out[schema+".reason"] = note{text: "Why, for those who meet it: at most 500 bytes; a block needs one"}
		out[schema+".actor"] = note{text: "Who set it: the name of the access token; where none is needed, what the " +
			"request says, at most 128 bytes"}
		out[schema+".until"] = note{text: "When it ends by itself; absent: it stays until it is lifted"}
		out[schema+".effects"] = note{text: "What it does beyond that"}
	}
	return out
}
