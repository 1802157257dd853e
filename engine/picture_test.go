package engine

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

var rewrite = flag.Bool("rewrite", false, "draw the pictures of docs/img/strategies again")

// pictured are the blocks that docs/STRATEGIES.md shows a picture of: what they do with one scene.
var pictured = []struct {
	name, strategy string
	uniform        bool // every chunk is as likely as any other: there is no order to show
}{
	{"random", `Random`, true},
	{"oldest-first", `OldestFirst`, false},
	{"newest-first", `NewestFirst`, false},
	{"custom-priority", `CustomPriority`, false},
	{"select-only", `SelectOnly("mode", "preview", OldestFirst)`, false},
	{"or-else", `OrElse(SelectOnly("mode", "preview", OldestFirst), NewestFirst)`, false},
	{"max-simultaneous", `MaxSimultaneous("company", 2, OldestFirst)`, false},
	{"prefer-distinct", `PreferDistinct("company", 1, OldestFirst)`, false},
	{"fair", `Fair("company", OldestFirst)`, false},
}

// scene is what waits in the queue of the pictures, the oldest first. The first chunk of the first one is in flight.
var scene = []struct {
	company  int64
	mode     string
	priority int64
	chunks   uint32
}{{1, "full", 0, 4}, {1, "preview", 0, 2}, {2, "full", 5, 3}, {3, "preview", 9, 2}, {2, "preview", 0, 2}}

// chunksOfPicture is how many chunks the consumer of a picture asks for.
const chunksOfPicture = 7

// The pictures of the blocks show what an engine hands out.
func TestPictures(t *testing.T) {
	t.Parallel()
	for _, p := range pictured {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			most := chunksOfPicture
			if p.uniform {
				most = 100
			}
			got := drawPicture(p.strategy, handedOut(t, p.strategy, most), p.uniform)
			file := filepath.Join("..", "docs", "img", "strategies", p.name+".svg")
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(file); err != nil || string(want) != got {
				t.Errorf("%s is not what the engine does (%v)\nwhat to do: read docs/STRATEGIES.md again, then go test ./engine -run Pictures -rewrite", file, err)
			}
		})
	}
}

// place is a chunk of the scene.
type place struct {
	row   int
	index uint32
}

// handedOut is what one reserve gives of the scene, in its order.
func handedOut(t *testing.T, strategy string, most int) (list []place) {
	t.Helper()
	ctx := context.Background()
	clock := time.UnixMilli(1_700_000_000_000)
	e, err := Open(ctx, Options{Dir: t.TempDir(), BallastBytes: -1, Now: func() time.Time { return clock }, Seed: func() uint64 { return 7 }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, e) })
	rows := map[queue.SubmissionID]int{}
	for i, s := range scene {
		meta, err := queue.NewMeta([]queue.MetaEntry{{Key: "company", Value: queue.IntValue(s.company)}, {Key: "mode", Value: queue.StringValue(s.mode)}})
		if err != nil {
			t.Fatal(err)
		}
		inserted, _, err := queueAt(e, DefaultQueue).Insert(ctx, queue.NewSubmission{Chunks: queue.Chunks{Count: s.chunks, Prefix: "x"}, Meta: meta, Priority: s.priority, OperationsPerChunk: 1})
		if err != nil {
			t.Fatal(err)
		}
		rows[inserted.ID] = i
	}
	for _, step := range []struct {
		strategy string
		most     int
	}{{"OldestFirst", 1}, {strategy, most}} {
		plan, err := queueAt(e, DefaultQueue).Plan(fmt.Appendf(nil, "%q", step.strategy))
		if err != nil {
			t.Fatal(err)
		}
		got, err := queueAt(e, DefaultQueue).Reserve(ctx, ReserveRequest{Plan: plan, Max: step.most}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got.Reservations {
			list = append(list, place{rows[r.Token.Submission], r.Token.Index})
		}
	}
	if list[0] != (place{0, 0}) {
		t.Fatalf("in flight before: got %v, want the first chunk of the oldest submission", list[0])
	}
	return list[1:]
}

// drawPicture draws the scene: a row per submission, a square per chunk, those that are handed out in blue. It has no style of its own but
// attributes, which a page may override, and greys that can be read on white and on black.
func drawPicture(strategy string, given []place, uniform bool) string {
	const left, size, step, top = 225, 24, 30, 8
	numbers := map[place]int{}
	for i, p := range given {
		numbers[p] = i + 1
	}
	var b strings.Builder
	height := top + step*len(scene) + 2
	said := strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;").Replace(strategy)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="352" height="%d" viewBox="0 0 352 %d" role="img" aria-label="What %s hands out" font-family="system-ui, sans-serif" font-size="13">`+"\n",
		height, height, said)
	for row, s := range scene {
		y := top + row*step
		fmt.Fprintf(&b, `<text x="0" y="%d" fill="#767676">company %d · %s`, y+17, s.company, s.mode)
		if s.priority != 0 {
			fmt.Fprintf(&b, ` · priority %d`, s.priority)
		}
		b.WriteString("</text>\n")
		for index := range s.chunks {
			x, at := left+int(index)*step, place{row, index}
			number, is := numbers[at]
			fill, line := "none", "#767676"
			switch {
			case at == place{}:
				fill = "#767676"
			case is:
				fill, line = "#1f6fd0", "#1f6fd0"
			}
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" rx="4" fill="%s" stroke="%s" stroke-width="1.5"/>`, x, y, size, size, fill, line)
			if is && !uniform {
				fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#fff" text-anchor="middle" font-weight="600" class="number">%d</text>`, x+size/2, y+17, number)
			}
			b.WriteString("\n")
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}
