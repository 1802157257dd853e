package backlog

import "testing"

// Every weight is covered by the smallest bound that is not below it, and by no more than a quarter too much.
func TestBounds(t *testing.T) {
	t.Parallel()
	check := func(weight uint64) {
		exp := exponent(weight)
		if b := bound(exp); b < weight || weight > 4 && 4*b > 5*weight || exp > 0 && bound(exp-1) >= max(weight, 1) {
			t.Fatalf("weight %d has the bound %d (number %d)", weight, b, exp)
		}
	}
	for weight := range uint64(100_000) {
		check(weight)
	}
	for shift := 17; shift < 59; shift++ {
		for step := range uint64(9) {
			for near := range uint64(3) {
				check(1<<shift + step<<(shift-3) + near - 1)
			}
		}
	}
}
