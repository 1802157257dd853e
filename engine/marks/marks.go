// Package marks names branches of the code that are easily lost: rare, subtle, and there for one case. A mark names the case, and the one
// script in engine/simtest/testdata/scripts that says why it exists has the same name in a line "# mark: NAME". TestMarks plays that
// script and fails if the branch is not reached, if no script has the mark, and if nothing in the code has it.
package marks

import "sync/atomic"

var observer atomic.Pointer[func(name string)]

// Hit notes that a marked branch is reached. While no one observes it costs one load.
func Hit(name string) {
	if fn := observer.Load(); fn != nil {
		(*fn)(name)
	}
}

// Observe has fn called at every mark that is reached, by any goroutine, until stop is called. One observes at a time.
func Observe(fn func(name string)) (stop func()) {
	observer.Store(&fn)
	return func() { observer.Store(nil) }
}
