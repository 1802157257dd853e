package queue

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The numbers of docs/GUARANTEES.md are the limits that are checked.
func TestNumbersOfTheGuarantees(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/GUARANTEES.md")
	if err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]string{
		"chunks of a submission":                                            thousands(MaxChunks),
		"inline: chunks / bytes of an insert / bytes of a chunk":            fmt.Sprintf("%s / %d MiB / %d MiB", thousands(MaxInlineChunks), MaxInlineBytes>>20, MaxChunkBytes>>20),
		"output of a chunk":                                                 fmt.Sprintf("%d MiB", MaxOutputBytes>>20),
		"attachment of a submission":                                        fmt.Sprintf("%d KiB", MaxAttachmentBytes>>10),
		"meta: keys / bytes of a key / of a string value":                   fmt.Sprintf("%d / %d / %d", MaxMetaKeys, MaxMetaKeyBytes, MaxMetaValueBytes),
		"chunks of a reserve; items of a complete, fail, extend or release": thousands(MaxReserve) + "; " + thousands(MaxBatch),
		"waiting of a reserve":                                              fmt.Sprintf("%g s", MaxWait.Seconds()),
		"a reservation": fmt.Sprintf("%d ms to %g h, %g min unless set", MinReservation.Milliseconds(), MaxReservation.Hours(),
			DefaultSettings().ReservationTimeout.Minutes()),
		"priority": "±" + thousands(MaxPriority),
		"queues":   thousands(MaxQueues),
		"named strategies of a queue, versions kept of each": thousands(MaxStrategies) + ", " + thousands(MaxStrategyVersions),
	} {
		if !strings.Contains(string(text), "\n| "+what+" | "+want+" |\n") {
			t.Errorf("docs/GUARANTEES.md does not say of %q that it is %s", what, want)
		}
	}
}

func thousands(n uint64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
