package api

import "encoding/json"

// Outcomes of an act.
const (
	OutcomeOK      = "ok"
	OutcomeRefused = "refused" // the token did not allow it
)

// AuditEntry is an entry of the audit log: something that an operator, or the holder of a token, changed or was refused.
type AuditEntry struct {
	At         Time   `json:"at"`                     // when it was decided
	Actor      string `json:"actor"`                  // the name of the token; without tokens what the client said, or ""
	OnBehalfOf string `json:"on_behalf_of,omitempty"` // whom the client said it acts for
	From       string `json:"from,omitempty"`         // the address that the request came from
	Action     string `json:"action"`                 // a resource and a verb, such as "rule.create"
	Queue      string `json:"queue,omitempty"`        // absent: about the server as a whole
	// what it was done to, such as "rule 7"; absent: the queue or the server itself
	Target    string          `json:"target,omitempty"`
	Before    json.RawMessage `json:"before,omitempty"` // what was changed as it stood before; absent: there was nothing
	After     json.RawMessage `json:"after,omitempty"`  // the same afterwards; of a refused act: its code, detail, and left_out
	RequestID string          `json:"request_id,omitempty"`
	Outcome   string          `json:"outcome"` // OutcomeOK or OutcomeRefused
}
