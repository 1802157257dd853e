package api

import "encoding/json"

// Outcomes of an act.
const (
	OutcomeOK      = "ok"
	OutcomeRefused = "refused" // the token did not allow it
)

// PageAuditEntry is one page of the audit log, the latest entry first. It has the name that the document gives to a Page of entries.
type PageAuditEntry struct {
	Items []AuditEntry `json:"items"`          // The entries, the latest first
	Next  string       `json:"next,omitempty"` // Cursor of the older ones; absent: there are none
	// Names of queues in quarantine. Their latest entries may be missing: those that are still in their journals
	Incomplete []string `json:"incomplete,omitempty"`
}

// AuditEntry is an entry of the audit log: something that an operator, or the holder of a token, changed or was refused.
type AuditEntry struct {
	At Time `json:"at"` // When it was decided
	// Name of the token that it was done with; on a server without tokens what the client said, or empty; empty also of what the server
	// did by itself
	Actor      string `json:"actor"`
	OnBehalfOf string `json:"on_behalf_of,omitempty"` // Whom the client said it acts for, in the header Quern-On-Behalf-Of
	// Address that the request came from; absent of what the server did by itself
	From   string `json:"from,omitempty"`
	Action string `json:"action"` // What was done: a resource and a verb, such as rule.create
	// Queue that it was done in; absent of what is about the server as a whole
	Queue string `json:"queue,omitempty"`
	// What it was done to, such as `rule 7`; absent of the queue or the server itself
	Target string `json:"target,omitempty"`
	// What was changed as it stood before; absent when there was nothing. One that takes more than 16 KiB is given by its size
	Before    json.RawMessage `json:"before,omitempty"`
	After     json.RawMessage `json:"after,omitempty"`          // The same as it stood afterwards; absent when there is nothing left
	RequestID string          `json:"request_id,omitempty"`     // Id of the request, as its answer has it in X-Request-ID
	Outcome   string          `json:"outcome" names:"outcomes"` // What came of it
}
