package access

import (
	"math/bits"
	"strings"
)

// Scopes is a set of rights. An operation names those of which any one is enough; a token has those that it was made with.
type Scopes uint8

// The scopes. Admin implies all others: who may make tokens can make one with every scope.
const (
	Produce Scopes = 1 << iota // insert
	Consume                    // reserve and finish; pause
	Read                       // look at everything but metrics
	Metrics                    // GET /metrics
	Operate                    // change what runs: pause, cancel, limits, redrive, schedules, named strategies
	Plugins                    // upload and switch plugins
	Admin                      // queues, tokens, blocks; implies all others

	None Scopes = 0
	All         = Produce | Consume | Read | Metrics | Operate | Plugins | Admin
)

// names has each scope's name in the order of the bits.
var names = [...]string{"produce", "consume", "read", "metrics", "operate", "plugins", "admin"}

// Names are the names of all scopes.
func Names() []string { return All.Names() }

// Names are the names of the scopes in s, in a fixed order.
func (s Scopes) Names() []string {
	list := make([]string, 0, bits.OnesCount8(uint8(s)))
	for i, name := range names {
		if s&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return list
}

// String is the names with a comma between two.
func (s Scopes) String() string { return strings.Join(s.Names(), ",") }

// ParseScope is the scope of that name; None if there is none.
func ParseScope(name string) Scopes {
	for i, known := range names {
		if known == name {
			return 1 << i
		}
	}
	return None
}

// Allow says whether a token with the scopes s may do what any one of wanted allows. None asks for no scope.
func (s Scopes) Allow(wanted Scopes) bool {
	return wanted == None || s&(wanted|Admin) != 0
}
