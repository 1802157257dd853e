package engine

import (
	"math"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// A progress and a note that are out of range are refused by the name of the field, and what is at the limit is not.
func TestReportIsRefusedByName(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("é", queue.MaxNoteBytes/2)
	for _, x := range []struct {
		reported queue.Reported
		says     string
	}{
		{queue.Reported{}, ""},
		{queue.Reported{Progress: 1, HasProgress: true, Note: longest}, ""},
		{queue.Reported{HasProgress: true}, ""},
		{queue.Reported{Progress: 1.01, HasProgress: true}, "/items/1/progress is 1.01; 0 to 1 are allowed"},
		{queue.Reported{Progress: -0.01, HasProgress: true}, "/items/1/progress is -0.01; 0 to 1 are allowed"},
		{queue.Reported{Progress: math.NaN(), HasProgress: true}, "/items/1/progress is NaN"},
		{queue.Reported{Note: longest + "n"}, "/items/1/note has 257 bytes; at most 256 are allowed"},
		{queue.Reported{Note: "page \xff"}, "/items/1/note is not valid UTF-8"},
	} {
		err := validExtends([]queue.ExtendItem{{}, {Reported: x.reported}})
		if x.says == "" && err != nil || x.says != "" && (err == nil || !strings.Contains(err.Error(), x.says)) {
			t.Errorf("%+v: %v, want %q", x.reported, err, x.says)
		}
	}
}
