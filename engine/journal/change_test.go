package journal

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/queue"
)

func anyArgument(t *rapid.T) any {
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 1:
		return rapid.Int64().Draw(t, "number")
	case 2:
		return anyText(t, "text")
	case 3:
		return rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes")
	}
	return nil
}

// A change is read as it was written; bytes that are cut short, or have more behind them, are
// refused.
func TestChangeRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var want Change
		for range rapid.IntRange(0, 3).Draw(t, "steps") {
			s := Step{Name: anyText(t, "name")}
			for range rapid.IntRange(0, 4).Draw(t, "arguments") {
				s.Args = append(s.Args, anyArgument(t))
			}
			want.Steps = append(want.Steps, s)
		}
		for range rapid.IntRange(0, 2).Draw(t, "acts") {
			want.Acts = append(want.Acts, queue.Act{At: anyTime(t, "at"), Queue: anyText(t, "queue"), Action: "queue.put", After: anyText(t, "after")})
		}
		b := AppendChange(nil, &want)
		if got, err := DecodeChange(b); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("DecodeChange = %+v, %v; want %+v", got, err, want)
		}
		if _, err := DecodeChange(append(b, 0)); err == nil {
			t.Fatal("a change with a byte behind it is read")
		}
		if cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut"); cut < len(b) {
			if _, err := DecodeChange(b[:cut]); err == nil {
				t.Fatalf("%d of %d bytes are read as a change", cut, len(b))
			}
		}
	})
}
