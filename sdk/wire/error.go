package wire

// Error is why a document was refused. Pointer is the JSON pointer (RFC 6901) of the value that is wrong, "" for the whole
// document; Detail is the rest of a sentence about it.
type Error struct {
	Pointer string
	Detail  string
}

// Number is "a whole number" or "a number" when the value is not one that fits the type of its field, and "" when something else is
// wrong. What the field allows may be less than its type, and says more.
func (e *Error) Number() string {
	switch e.Detail {
	case int64Detail, uint64Detail, uint32Detail, uint16Detail, uint8Detail:
		return "a whole number"
	case numberDetail:
		return "a number"
	}
	return ""
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return "the document " + e.Detail
	}
	return e.Pointer + " " + e.Detail
}
