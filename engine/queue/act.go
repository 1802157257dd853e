package queue

import "encoding/json"

// Act is an entry of the audit log: something that an operator, or the holder of a token, changed or tried to change.
type Act struct {
	At Time
	Who
	Action  string // what was done: a resource and a verb, such as "rule.create"
	Queue   string // "": about the server as a whole. A queue's own log does not keep it
	Target  string // what it was done to, such as "rule 7"; "": the queue, or the server, itself
	Before  string // JSON of the state before; "": there was none, or nothing to show
	After   string // JSON of the state after
	Outcome string // ActOK or ActRefused
}

// ServerActor is the actor of rules that the server sets itself. No access token has this name.
const ServerActor = "quern"

// A Who names the actor of an act, and the request.
type Who struct {
	Actor      string // the name of the token; without tokens what the client said. At most MaxActorBytes
	OnBehalfOf string // whom the client said it acts for. At most MaxActorBytes
	From       string // the address that the request came from; "": the server itself
	RequestID  string
}

// The outcomes of an act. An act of unknown outcome is in the log if and only if it took effect, because both are one commit.
const (
	ActOK      = "ok"
	ActRefused = "refused" // the token lacked the scope, or is bound to something else
)

// MaxActBytes is the longest Before or After that is kept. For a longer one the log has its size.
const MaxActBytes = 16 << 10

// Change sets Before and After to the JSON of two states; nil is none. A state of more than MaxActBytes is replaced by its size.
func (a *Act) Change(before, after any) { a.Before, a.After = stateText(before), stateText(after) }

// Reasoned is the state after an act of which only the reason is shown; nil if none was given.
func Reasoned(reason string) any {
	if reason == "" {
		return nil
	}
	return map[string]string{"reason": reason}
}

func stateText(state any) string {
	if state == nil {
		return ""
	}
	text, err := json.Marshal(state)
	if err != nil {
		return `"cannot be shown"` // no state of ours comes to this: they are numbers, texts and maps of them
	}
	if len(text) > MaxActBytes {
		text, _ = json.Marshal(map[string]int{"bytes": len(text)})
	}
	return string(text)
}
