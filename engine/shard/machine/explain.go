package machine

// TopMost is how many values and tenants are named, mostValues how many values of one block are told apart.
const (
	TopMost    = 10
	MostValues = 10_000
)
