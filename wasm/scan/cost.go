package scan

// The compile-cost estimate is in units of about what one plain instruction costs the engine's compiler. Its passes over a
// function are worse than linear in two things: the number of blocks (dominators, layout, branch targets) and, at every block,
// the locals that may have changed on the way there (one merge per local and block). So a function costs
//
//	blocks² + 4 × blocks × locals + values
//
// where blocks counts every block, loop, if, else and, eight for one, the targets of br_table; locals includes parameters; and
// values counts every instruction, plus the parameters and results that calls and branches carry.
const (
	mergeWeight   = 4
	targetsPerOne = 8
)

func (b *body) cost() int {
	blocks := b.blocks + b.targets/targetsPerOne
	return blocks*blocks + mergeWeight*blocks*b.locals + b.values
}
