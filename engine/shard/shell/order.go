package shell

// SliceItems is how many items one hold of the mutex works on, so that a large call never
// stalls the others.
const SliceItems = 256

// The places of a shard's locks: a goroutine that takes several takes them in this order,
// which tests of engine and engine/shard assert under the race detector.
type (
	InPass     struct{} // of the worker: one pass at a time
	InStretch  struct{} // of retention: one stretch of dead letters at a time
	InHistory  struct{} // of retention: the history loses or changes rows
	InOrdering struct{} // of rules: one is set or lifted
	InRegroup  struct{} // of dead letters: they are read again for their groups
	InApplying struct{} // of the writer: a batch is applied, or a checkpoint takes rows
	InMachine  struct{} // the shard's mutex
)

// Place is locks.Place's.
func (InPass) Place() (order int, name string) { return 1, "the lock of a pass" }

// Place is locks.Place's.
func (InStretch) Place() (order int, name string) { return 2, "the lock of a stretch of letters" }

// Place is locks.Place's.
func (InHistory) Place() (order int, name string) { return 3, "the lock of the history" }

// Place is locks.Place's.
func (InOrdering) Place() (order int, name string) { return 4, "the lock of rules" }

// Place is locks.Place's.
func (InRegroup) Place() (order int, name string) { return 5, "the lock of groups" }

// Place is locks.Place's.
func (InApplying) Place() (order int, name string) { return 6, "Shard.applying" }

// Place is locks.Place's.
func (InMachine) Place() (order int, name string) { return 7, "Shard.mu" }
