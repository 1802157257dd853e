package wire

// Error is why a document was refused. Pointer is the JSON pointer (RFC 6901) of the value that is wrong, "" for the whole
// document; Detail is the rest of a sentence about it.
type Error struct {
	Pointer string
	Detail  string
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return "the document " + e.Detail
	}
	return e.Pointer + " " + e.Detail
}
