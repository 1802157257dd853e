package web

// narrow says how an operation keeps to what a token is bound to. An operation that says nothing is refused to such tokens.
type narrow uint8

const (
	refused narrow = iota // shows or changes more than a restriction covers
	nothing               // has nothing of any queue
)
