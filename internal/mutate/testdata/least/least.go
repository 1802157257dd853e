// Package least is what the tests of mutate change.
package least

func least(a, b int) int {
	if a < b {
		return a
	}
	return b
}
