package strategy

// Expression is the formula of a Score block: arithmetic over what is known of a candidate.
type Expression struct {
	text string
}

// String is the canonical text.
func (e *Expression) String() string { return e.text }
