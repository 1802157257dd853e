package web

func accessNotes() map[string]note {
	return map[string]note{
		"NewToken.name": {text: "Who it is for, 1 to 128 bytes: what is done with it is recorded " +
			"under this name, which no other token may have"},
		"NewToken.scopes": {text: "What it may do; admin implies all others"},
		"NewToken.queues": {text: "The only queues that it sees; absent: all"},
		"NewToken.meta": {text: "The only submissions that it sees, and the only ones that it " +
			"inserts: one key with one value; absent: all"},
		"NewToken.expires_at": {text: "When it ends by itself; absent: when it is revoked"},
		"NewToken.certificate_subject": {text: "Subject of a client certificate that is to stand for the token, as " +
			"RFC 2253 writes it: CN=worker,O=acme; absent: none. It counts over TLS, from authorities of --tls-client-ca"},
		"Token.certificate_subject": {text: "Subject of the client certificate that stands for it; absent: none"},
		"Token.id":                  {text: "Names it; no secret"},
		"Token.token":               {text: "Its text, qn_<id>_<secret>, in the answer that made or rotated it and never again"},
		"Token.name":                {text: "Who it is for: what is done with it is recorded under this name"},
		"Token.scopes":              {text: "What it may do; admin implies all others"},
		"Token.queues":              {text: "The only queues that it sees; absent: all"},
		"Token.meta":                {text: "The only submissions that it sees; absent: all"},
		"Token.created_at":          {text: "When it was made"},
		"Token.expires_at":          {text: "When it ends by itself; absent: when it is revoked"},
		"Token.last_used_at": {text: "When it was used last, to the minute; after a crash the last minutes " +
			"may be missing. Absent: never"},
		"Token.previous_secret_until": {text: "Until when the secret before the last rotation is good, or was"},
		"RotateToken.overlap_seconds": between(0, 30*24*3600, "How long the secret before stays good; absent: it ends at once"),
		"PageToken.items":             {text: "The tokens, the oldest first"},
		"PageToken.next":              {text: "Always absent"},
		"Whoami.token_required":       {text: "false: there is no token yet, and everything is open to those who reach the server"},
		"Whoami.name":                 {text: "The token's name; absent where none is required"},
		"Whoami.id":                   {text: "The token's id; likewise"},
		"Whoami.scopes":               {text: "What may be done; admin implies all others"},
		"Whoami.queues":               {text: "The only queues that are seen; absent: all"},
		"Whoami.meta":                 {text: "The only submissions that are seen; absent: all"},
		"Whoami.expires_at":           {text: "When the token ends by itself; absent: when it is revoked"},
		"Whoami.session":              {text: "Of a caller with a session: when that ends"},
		"Session.ends_at":             {text: "When it ends, however busy it is"},
		"Session.idle_seconds":        {text: "After so long without a request and without an open stream it ends"},
		"NewSession.token":            {text: "An access token's text"},
	}
}

// auditNotes are the sentences about the audit log.
func auditNotes() map[string]note {
	return map[string]note{
		"AuditEntry.at": {text: "When it was decided"},
		"AuditEntry.actor": {text: "Name of the token that it was done with; on a server without tokens what " +
			"the client said, or empty; empty also of what the server did by itself"},
		"AuditEntry.on_behalf_of": {text: "Whom the client said it acts for, in the header Quern-On-Behalf-Of"},
		"AuditEntry.from":         {text: "Address that the request came from; absent of what the server did by itself"},
		"AuditEntry.action":       {text: "What was done: a resource and a verb, such as rule.create"},
		"AuditEntry.queue":        {text: "Queue that it was done in; absent of what is about the server as a whole"},
		"AuditEntry.target":       {text: "What it was done to, such as `rule 7`; absent of the queue or the server itself"},
		"AuditEntry.before": {text: "What was changed as it stood before; absent when there was nothing. One " +
			"that takes more than 16 KiB is given by its size"},
		"AuditEntry.after":      {text: "The same as it stood afterwards; absent when there is nothing left"},
		"AuditEntry.request_id": {text: "Id of the request, as its answer has it in X-Request-ID"},
		"PageAuditEntry.items":  {text: "The entries, the latest first"},
		"PageAuditEntry.next":   {text: "Cursor of the older ones; absent: there are none"},
		"AuditEntry.outcome":    oneOf("What came of it", "ok", "refused"),
	}
}
