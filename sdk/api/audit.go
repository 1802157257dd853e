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
	Next  string       `json:"next,omitempty"` // Cursor of the older entries; absent if there are none
	// Names of queues whose latest entries may be missing because they are still in their journals: queues in
	// quarantine, and in a cluster those whose node does not answer
	Incomplete []string `json:"incomplete,omitempty"`
}

// AuditEntry is an entry of the audit log: something that an operator, or the holder of a token, changed or was refused.
type AuditEntry struct {
	At Time `json:"at"` // Time of the decision
	// Name of the token. On a server without tokens, the name that the client gave, or empty. Also empty for an act of
	// the server itself
	Actor      string `json:"actor"`
	OnBehalfOf string `json:"on_behalf_of,omitempty"` // Person or service from the header Quern-On-Behalf-Of
	From       string `json:"from,omitempty"`         // Address of the client; absent for an act of the server itself
	Action     string `json:"action"`                 // Action: a resource and a verb, such as rule.create
	Queue      string `json:"queue,omitempty"`        // Queue; absent for an act on the whole server
	// Object of the act, such as `rule 7`; absent for the queue or the server itself
	Target string `json:"target,omitempty"`
	// The state before; absent if there was none. If it takes more than 16 KiB, only its size
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"` // The state afterwards; absent if nothing is left
	// Id of the request, as in the header X-Request-ID of its answer
	RequestID string `json:"request_id,omitempty"`
	Outcome   string `json:"outcome" names:"outcomes"` // Whether the server did it or refused it
}
