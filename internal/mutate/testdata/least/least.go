// Package least is what the tests of mutate change.
package least

func least(a, b int) int {
	if a < b {
		return a
	}
	return b
}

type sum int

func (s *sum) add(_ string, extra ...int) {
	*s = sum(int(*s) + extra[0])
}

func first[T any](values []T) (_ T, found bool) {
	return values[0], true
}

const most = 9
