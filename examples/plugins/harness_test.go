package plugins_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/scan"
)

// builtBy names the folder of the modules that `make plugins` built. When it is set, a module that is missing is a failure.
const builtBy = "QUERN_PLUGINS"

// built is a module that `make plugins` built.
func built(t testing.TB, name string) []byte {
	t.Helper()
	dir := os.Getenv(builtBy)
	if dir == "" {
		t.Skipf("%s.wasm needs a toolchain beside Go's: `make plugins` installs it, builds the module, and runs this test with it", name)
	}
	module, err := os.ReadFile(filepath.Join(dir, name+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// goBuilds builds a module once for all tests that use it: a cold build of the toolchain's wasm library takes half a minute.
var goBuilds sync.Map // source -> func() ([]byte, error)

// goModule builds a plugin in Go, a folder here or a file anywhere, with the plain toolchain, and puts the manifest that it prints
// into it.
func goModule(t testing.TB, source string) []byte {
	t.Helper()
	if !filepath.IsAbs(source) {
		source = "./" + source
	}
	build, _ := goBuilds.LoadOrStore(source, sync.OnceValues(func() ([]byte, error) {
		dir, err := os.MkdirTemp("", "quern-plugin")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		out := filepath.Join(dir, "plugin.wasm")
		build := exec.Command("go", "build", "-buildmode=c-shared", "-o", out, source)
		build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
		if said, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building %s: %w: %s", source, err, said)
		}
		module, err := os.ReadFile(out)
		if err != nil {
			return nil, err
		}
		said, err := exec.Command("go", "run", source).Output()
		if err != nil {
			return nil, fmt.Errorf("printing the manifest of %s: %w", source, err)
		}
		return manifest.Pack(module, said)
	}))
	module, err := build.(func() ([]byte, error))()
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// loaded is a plugin that went the way of an upload: scanned, rewritten, compiled, and opened with a configuration.
type loaded struct {
	*host.Version
	manifest *manifest.Manifest
}

// load takes a module the whole way. config is checked against the manifest's schema, as the server does.
func load(t testing.TB, module []byte, config string, clock func() time.Duration) loaded {
	t.Helper()
	raw, err := manifest.Extract(module)
	if err != nil {
		t.Fatal(err)
	}
	m, violations := manifest.Parse(raw)
	if len(violations) > 0 {
		t.Fatalf("the manifest is not valid: %v\n%s", violations, raw)
	}
	report, refused := scan.Scan(module, scan.DefaultLimits())
	if len(refused) > 0 {
		t.Fatalf("the scan refuses the module: %v", refused)
	}
	rewritten, err := instrument.Instrument(module, report, instrument.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := compile.InProcess(t.Context(), rewritten.Bytes, uint32(m.Pages))
	if err != nil {
		t.Fatal(err)
	}
	canonical, violations := manifest.ValidateConfig(m.Schema, []byte(config))
	if len(violations) > 0 {
		t.Fatalf("the configuration %s is not valid: %v", config, violations)
	}
	v, err := host.Open(t.Context(), compiled, host.Options{
		Manifest: m, Config: canonical, Globals: rewritten.Globals, Hidden: report.HiddenState,
		Instances: 1, Capacity: m.WindowDefault, Clock: clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return loaded{v, m}
}

// still is a clock that does not move: no test here depends on how fast the machine is.
func still() time.Duration { return 0 }

// words are the values of string columns in random batches.
var words = []string{"acme", "globex", "initech", "llama", "mistral", "zone-a", "zone-b", ""}

// table reads a batch by names, as the reference functions do.
type table struct {
	*abi.Batch
	columns []abi.Column
}

// random is a batch of n rows for these columns: small numbers, some values absent, the context sometimes too.
func random(columns []abi.Column, n int, seed uint64) table {
	rnd := rand.New(rand.NewPCG(seed, 7))
	b := &abi.Batch{Header: abi.Header{Rows: uint32(n), Now: 1_700_000_000_000, Seed: seed, Want: 1 + rnd.Uint32N(8)}, Dictionary: words}
	for _, c := range columns {
		var v abi.Values
		for range int(c.Rows(uint32(n))) {
			present := !c.Nullable || rnd.IntN(4) > 0
			v.Valid = append(v.Valid, present)
			number := int64(0)
			if present {
				number = draw(rnd, c.Name)
			}
			switch c.Type {
			case abi.I64:
				v.I64 = append(v.I64, number)
			case abi.Str:
				v.U32 = append(v.U32, uint32(number)%uint32(len(words)+1))
			case abi.U32:
				v.U32 = append(v.U32, uint32(number))
			}
		}
		if !c.Nullable {
			v.Valid = nil
		}
		b.Columns = append(b.Columns, v)
	}
	return table{b, columns}
}

func draw(rnd *rand.Rand, name string) int64 {
	switch name {
	case "meta_i64:deadline_ms":
		return 1_700_000_000_000 + rnd.Int64N(400_000) - 100_000
	case "age_ms":
		return rnd.Int64N(100_000)
	case "limit:tenant", "limit:model":
		return rnd.Int64N(12) - 1
	}
	return rnd.Int64N(40)
}

func (b table) at(name string) *abi.Values {
	for i, c := range b.columns {
		if c.Name == name {
			return &b.Columns[i]
		}
	}
	panic("the batch has no column " + name)
}

// i64 is the value of a row of a column of numbers, and whether it is present.
func (b table) i64(name string, row int) (int64, bool) {
	v := b.at(name)
	return v.I64[row], v.Valid == nil || v.Valid[row]
}

func (b table) u32(name string, row int) uint32 { return b.at(name).U32[row] }

// text is the string of a row, and whether it is present.
func (b table) text(name string, row int) (string, bool) {
	id := b.at(name).U32[row]
	if id == 0 {
		return "", false
	}
	return b.Dictionary[id-1], true
}

// agree scores random batches of several sizes and compares every score with the reference's for its row.
func agree(t *testing.T, p loaded, reference func(b table, row int) float64) {
	t.Helper()
	for seed := range uint64(40) {
		n := []int{0, 1, 2, 17, p.manifest.WindowDefault}[seed%5]
		b := random(p.manifest.Columns, n, seed)
		got := make([]float64, n)
		report, err := p.Score(t.Context(), b.Batch, got)
		if err != nil {
			t.Fatalf("seed %d: %v; log %v", seed, err, report.Logs)
		}
		for i := range got {
			want := reference(b, i)
			if got[i] != want && !(math.IsNaN(got[i]) && math.IsNaN(want)) {
				t.Fatalf("seed %d: row %d of %d: got %v, want %v", seed, i, n, got[i], want)
			}
		}
		if report.Unwritten != 0 {
			t.Errorf("seed %d: %d of %d scores are not written", seed, report.Unwritten, n)
		}
	}
}
