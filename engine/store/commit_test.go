package store

import "testing"

// A commit takes as many of those that wait as fit into its bound, in their order, and one that is larger than that by itself.
func TestCommitTakesWhatFits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bytes []int
		want  int
	}{
		{[]int{5}, 1},
		{[]int{5, 6, 7}, 3},
		{[]int{commitBytes, 1}, 1},
		{[]int{commitBytes - 1, 1, 1}, 2},
		{[]int{commitBytes + 1, 1}, 1},
		{[]int{1, commitBytes + 1}, 1},
	} {
		var line commits
		for _, n := range c.bytes {
			line.waiting = append(line.waiting, &request{bytes: n})
		}
		all := append([]*request(nil), line.waiting...)
		batch := line.take()
		if len(batch) != c.want || len(line.waiting) != len(all)-c.want {
			t.Errorf("of %v bytes %d are taken and %d are left, want %d taken", c.bytes, len(batch), len(line.waiting), c.want)
			continue
		}
		for i, r := range append(batch, line.waiting...) {
			if r != all[i] {
				t.Errorf("of %v bytes: number %d is not where it was", c.bytes, i)
			}
		}
	}
}
