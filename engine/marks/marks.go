// Package marks names rare branches of the code that someone could remove by mistake, because each is there for one case only. A mark
// names the case. One script in engine/simtest/testdata/scripts explains the case, and has the name in a line "# mark: NAME". TestMarks
// runs this script. It fails if the script does not reach the branch, if no script has the mark, and if the code does not have it.
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
