package least

import "testing"

func TestFirst(t *testing.T) {
	if got := least(1, 2); got != 1 {
		t.Errorf("got %d, want 1", got)
	}
}

func TestSecond(t *testing.T) {
	t.Run("long", func(t *testing.T) {
		if testing.Short() {
			t.Skip("long")
		}
		if got := least(2, 1); got != 1 {
			t.Errorf("got %d, want 1", got)
		}
	})
}

func TestSum(t *testing.T) {
	var s sum
	s.add("nine", most)
	if _, found := first([]int{1}); !found || s != 9 {
		t.Errorf("got %d, %v; want 9, true", s, found)
	}
}
