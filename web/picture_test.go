package web

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// pictured are the blocks of which docs/STRATEGIES.md has a picture. The pictures show one scene.
var pictured = []struct {
	name, strategy string
	uniform        bool // every chunk is as likely as any other: there is no order to show
	due            bool // the submissions have deadlines
}{
	{name: "random", strategy: `Random`, uniform: true},
	{name: "oldest-first", strategy: `OldestFirst`},
	{name: "newest-first", strategy: `NewestFirst`},
	{name: "custom-priority", strategy: `CustomPriority`},
	{name: "select-only", strategy: `SelectOnly("mode", "preview", OldestFirst)`},
	{name: "or-else", strategy: `OrElse(SelectOnly("mode", "preview", OldestFirst), NewestFirst)`},
	{name: "max-simultaneous", strategy: `MaxSimultaneous("company", 2, OldestFirst)`},
	{name: "prefer-distinct", strategy: `PreferDistinct("company", 1, OldestFirst)`},
	{name: "fair", strategy: `Fair("company", OldestFirst)`},
	{name: "score", strategy: `Score(if(meta.mode == "preview", 10, 0) + priority, OldestFirst)`},
	{name: "plugin", strategy: `Plugin("deadline-first", OldestFirst)`, due: true},
}

// pictureScene has the submissions in the queue of the pictures, the oldest first. The first chunk of the first one is
// in flight.
var pictureScene = []struct {
	company  int64
	mode     string
	priority int64
	chunks   uint32
	due      int64 // seconds, for the strategies that go by that
}{{1, "full", 0, 4, 0}, {1, "preview", 0, 2, 40}, {2, "full", 5, 3, 10}, {3, "preview", 9, 2, 0}, {2, "preview", 0, 2, 20}}

// chunksOfPicture is how many chunks the consumer of a picture asks for.
const chunksOfPicture = 7

// The pictures of the blocks show the chunks that a server hands out.
func TestPictures(t *testing.T) {
	t.Parallel()
	for _, p := range pictured {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			most := chunksOfPicture
			if p.uniform {
				most = 100
			}
			got := drawPicture(p.strategy, handedOut(t, p.strategy, most, p.due), p.uniform, p.due)
			file := filepath.Join("..", "docs", "img", "strategies", p.name+".svg")
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(file); err != nil || string(want) != got {
				t.Errorf("%s is not what the server does (%v)\nwhat to do: read docs/STRATEGIES.md again, then go test ./web -run Pictures -rewrite", file, err)
			}
		})
	}
}

// place is a chunk of the scene.
type place struct {
	row   int
	index uint32
}

// handedOut are the chunks of the scene that one reserve gets, in its order.
func handedOut(t *testing.T, strategy string, most int, due bool) (list []place) {
	t.Helper()
	s := newPluginScene(t, nil)
	if strings.HasPrefix(strategy, "Plugin") {
		s.upload(deadlineFirst(t))
		s.activate("deadline-first", "1.0.0")
	}
	rows := map[string]int{}
	for i, row := range pictureScene {
		meta := api.Meta{"company": api.Int(row.company), "mode": api.Text(row.mode)}
		if due && row.due > 0 {
			meta["deadline_ms"] = api.Int(s.now().Add(time.Duration(row.due) * time.Second).UnixMilli())
		}
		inserted := s.insert("default", api.NewSubmission{Chunks: api.Chunks{Count: row.chunks, Prefix: "x"}, Meta: meta, Priority: row.priority})
		rows[inserted.ID] = i
	}
	for _, step := range []struct {
		strategy string
		most     int
	}{{"OldestFirst", 1}, {strategy, most}} {
		for _, r := range s.reserve("default", api.ReserveRequest{Strategy: fmt.Appendf(nil, "%q", step.strategy), Max: step.most, Consumer: "picture"}).Reservations {
			list = append(list, place{rows[r.Submission], r.Index})
		}
	}
	if list[0] != (place{0, 0}) {
		t.Fatalf("in flight before: got %v, want the first chunk of the oldest submission", list[0])
	}
	return list[1:]
}

// deadlineFirst builds the example plugin, and reads its manifest.
func deadlineFirst(t *testing.T) (module []byte, manifest string) {
	t.Helper()
	const source = "../examples/plugins/deadline-first"
	out := filepath.Join(t.TempDir(), "deadline-first.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", out, source)
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	said, err := exec.Command("go", "run", source).Output()
	if err != nil {
		t.Fatal(err)
	}
	if module, err = os.ReadFile(out); err != nil {
		t.Fatal(err)
	}
	return module, string(said)
}

// drawPicture draws the scene: a row per submission, a square per chunk, those that are handed out in blue. It has no style of its own but
// attributes, which a page may override, and greys that can be read on white and on black.
func drawPicture(strategy string, given []place, uniform, due bool) string {
	const left, size, step, top = 225, 24, 30, 8
	numbers := map[place]int{}
	for i, p := range given {
		numbers[p] = i + 1
	}
	var b strings.Builder
	height := top + step*len(pictureScene) + 2
	said := strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;").Replace(strategy)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="352" height="%d" viewBox="0 0 352 %d" role="img" aria-label="What %s hands out" font-family="system-ui, sans-serif" font-size="13">`+"\n",
		height, height, said)
	for row, s := range pictureScene {
		y := top + row*step
		fmt.Fprintf(&b, `<text x="0" y="%d" fill="#767676">company %d · %s`, y+17, s.company, s.mode)
		if s.priority != 0 {
			fmt.Fprintf(&b, ` · priority %d`, s.priority)
		}
		if due && s.due > 0 {
			fmt.Fprintf(&b, ` · in %d s`, s.due)
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
