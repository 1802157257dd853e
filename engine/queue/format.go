package queue

// FormatError says that a file is damaged, foreign or of a version that this program does not read. The caller that finds one has changed
// nothing.
type FormatError struct {
	Path   string // the file
	Reason string // what is wrong with it, as the rest of a sentence about the file
	Advice string // what to do, a sentence
	Unread bool   // this program does not read its version; it may well be whole
	Other  bool   // it belongs elsewhere, or to another moment; it may well be whole
	Err    error  // the cause, if there is one below
}

func (e *FormatError) Error() string {
	text := e.Path + " " + e.Reason + ". " + e.Advice
	if e.Err != nil {
		text += " (" + e.Err.Error() + ")"
	}
	return text
}

func (e *FormatError) Unwrap() error { return e.Err }
