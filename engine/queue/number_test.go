package queue

import "testing"

// Numbers in sentences of the server look like those that the dashboard writes beside them.
func TestCompact(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 9_999: "9,999", 10_000: "10.0 k", 999_400: "999 k", 999_900: "1.00 M", 200_000_000: "200 M",
		1 << 40: "1.10 T"} {
		if got := Compact(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
