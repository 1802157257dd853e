package engine

// Questions are about what strategies would do, and why work does not move. They change nothing.
type Questions struct{ e *Engine }

// Questions are those about this engine's queues.
func (e *Engine) Questions() Questions { return Questions{e} }
