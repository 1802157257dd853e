package engine

import (
	"log/slog"
	"testing"
)

// Two writes that find the disk full at the same time both try again, although only one of them frees the ballast.
func TestBallastIsFreedForAllWrites(t *testing.T) {
	t.Parallel()
	b, err := openBallast(t.TempDir(), 1<<20, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if !b.board() {
		t.Fatal("there is no room for it")
	}
	for write := range 2 {
		if !b.free() {
			t.Errorf("write %d is not tried again", write+1)
		}
	}
	if want := b.bytes / startShare; b.have != want {
		t.Errorf("%d bytes are kept for a start, want %d", b.have, want)
	}
}
