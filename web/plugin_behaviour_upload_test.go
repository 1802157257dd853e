package web

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// The same bytes again are the same version, and nothing is compiled for them: the test deletes the compiler's files of
// the first time, and they do not come back.
func TestPluginBehaviour02SameBytesAreNotCompiled(t *testing.T) {
	t.Parallel()
	s := newPluginScene(t, nil)
	module, text := wasmtest.Scorer(), declared("same", "1.0.0", "priority", "age_ms")
	v := s.upload(module, text)
	compiled := filepath.Join(s.dir, "plugins")
	if files := filesBelow(t, compiled); len(files) == 0 {
		t.Fatal("the compiler left nothing")
	}
	if err := os.RemoveAll(compiled); err != nil {
		t.Fatal(err)
	}
	s.advance(time.Minute)
	got := s.post(module, text)
	var again api.PluginVersion
	got.decode(t, &again)
	if got.status != 200 || again.SHA256 != v.SHA256 || again.CreatedAt != v.CreatedAt {
		t.Errorf("got %d %+v, want 200 and %+v", got.status, again, v)
	}
	if files := filesBelow(t, compiled); len(files) != 0 {
		t.Errorf("something was compiled: %v", files)
	}
}

// filesBelow lists the files in a directory and below it.
func filesBelow(t testing.TB, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A file that is no module, a module cut off anywhere, and a component are refused with the section and the offset of
// the fault. TestPluginBehaviour03 in cmd/quern tests how much memory that takes, in a process of its own.
func TestPluginBehaviour03DamagedModules(t *testing.T) {
	t.Parallel()
	s := newPluginScene(t, nil)
	place := regexp.MustCompile(`^/module/(\w+)(/functions/\d+)?/offset/\d+ \w+: .`)
	for _, name := range []string{"text", "component", "version_2", "truncated", "section_twice"} {
		for _, wrong := range s.refusal(hostile(t, name), "") {
			if !place.MatchString(wrong) && !strings.HasPrefix(wrong, "/manifest missing_manifest") {
				t.Errorf("%s: %q names no section and offset", name, wrong)
			}
		}
	}
	module := wasmtest.ScorerWith("quern.manifest", []byte(declared("cut", "1.0.0", "priority", "age_ms")))
	for size := 1; size < len(module); size++ {
		found := strings.Join(s.refusal(module[:size], ""), "\n")
		if !place.MatchString(found) && !strings.Contains(found, "missing_") { // cut between two sections it is a module that lacks something
			t.Fatalf("the first %d bytes of %d: got %q, want a section and an offset", size, len(module), found)
		}
	}
	if got := s.post(module, ""); got.status != 201 {
		t.Errorf("all %d bytes: got %d %s", len(module), got.status, got.body)
	}
}

// Modules of some 15 bytes that say they hold 2^32-1 of something are refused, and this process, which is the server's, lives on.
func TestPluginBehaviour04FalseCount(t *testing.T) {
	t.Parallel()
	s := newPluginScene(t, nil)
	s.put("x", 100, 0, nil)
	sent, slowest := 0, time.Duration(0)
	for _, h := range wasmtest.Corpus() {
		if !strings.HasPrefix(h.Name, "count_lie") {
			continue
		}
		began := time.Now()
		found := strings.Join(s.refusal(h.Build(), ""), "\n")
		slowest = max(slowest, time.Since(began))
		if !strings.Contains(found, h.Rule) {
			t.Errorf("%s: got %q, want %s", h.Name, found, h.Rule)
		}
		s.wantTexts("OldestFirst", 1, "x")
		sent++
	}
	if sent < 10 {
		t.Errorf("the corpus has %d of them, want at least 10", sent)
	}
	t.Logf("%d modules, the slowest answer after %v", sent, slowest)
}

// Four thousand million locals in 50 bytes are refused with the function that declares them.
func TestPluginBehaviour05LocalsBomb(t *testing.T) {
	t.Parallel()
	s := newPluginScene(t, nil)
	for _, name := range []string{"locals_4e9", "locals_overflowing_sum"} {
		found := strings.Join(s.refusal(hostile(t, name), ""), "\n")
		if !regexp.MustCompile(`(?m)^/module/code/functions/2/offset/\d+ too_many_locals: `).MatchString(found) {
			t.Errorf("%s: got %q, want too_many_locals of function 2", name, found)
		}
	}
}

// A module that compiles in cubic time is refused by the estimate of its compile time. If a server is set to let it
// through, the compiling child is killed at its limit of processor time, with the same answer. Chunks are handed out
// all the while.
//
//quern:overlapping
func TestPluginBehaviour06CompileBudget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		bomb   []byte
		change func(*plugins.Options)
		where  string
	}{
		{"estimate", wasmtest.SSABomb(1000), nil, "/module/code/functions/2/offset/"},
		{"child", wasmtest.SSABomb(1500), func(o *plugins.Options) {
			o.Limits.Scan.FunctionCost, o.Limits.Scan.Locals, o.Limits.CompileCPU = 20_000_000, 4_096, time.Second
		}, "/module compile_budget: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newPluginScene(t, c.change)
			s.put("x", 1_000_000, 0, nil)
			ended, served := make(chan struct{}), 0
			var group sync.WaitGroup
			group.Go(func() {
				for {
					var got api.ReserveResponse
					if err := s.ask(t.Context(), "POST", reservePath, request("OldestFirst", 1), &got); err != nil || len(got.Reservations) != 1 {
						t.Errorf("reserve: got %+v %v, want one chunk", got, err)
						return
					}
					served++
					select {
					case <-ended:
						return
					default:
					}
				}
			})
			began := time.Now()
			found := strings.Join(s.refusal(c.bomb, declared("bomb", "1.0.0", "priority")), "\n")
			took := time.Since(began)
			close(ended)
			group.Wait()
			if !strings.HasPrefix(found, c.where) || !strings.Contains(found, "compile_budget") {
				t.Errorf("got %q, want compile_budget at %s", found, c.where)
			}
			if served == 0 {
				t.Error("nothing was handed out meanwhile")
			}
			t.Logf("%d bytes refused after %v, %d reserves meanwhile", len(c.bomb), took, served)
			s.refused("GET", "/v1/plugins/bomb", nil, 404)
		})
	}
}

// Exactly the imports that are forbidden are listed, and not those that are allowed.
func TestPluginBehaviour07ForbiddenImports(t *testing.T) {
	t.Parallel()
	s := newPluginScene(t, nil)
	b := &wasmtest.Builder{}
	b.Type(nil, nil)
	b.Type([]byte{wasmtest.I32}, []byte{wasmtest.I32})
	b.Type([]byte{wasmtest.I32, wasmtest.I32, wasmtest.I32}, nil)
	b.ImportFunction("env", "system", 0)
	b.ImportFunction("quern_v1", "log", 2)
	b.ImportFunction("wasi_snapshot_preview1", "path_open", 0)
	b.ImportFunction("wasi_snapshot_preview1", "fd_close", 1)
	b.ImportFunction("wasi_snapshot_preview1", "sock_accept", 0)
	b.Memory(1, -1)
	b.Export("memory", wasmtest.Memory, 0)
	b.Export("quern_abi_1", wasmtest.Function, b.Function(0, nil, wasmtest.End))
	b.Export("quern_alloc", wasmtest.Function, b.Function(1, nil, wasmtest.ConstI32(1024), wasmtest.End))
	b.Export("quern_score", wasmtest.Function, b.Function(1, nil, wasmtest.ConstI32(0), wasmtest.End))
	wrong := s.refusal(b.Bytes(), declared("imports", "1.0.0", "priority"))
	if len(wrong) != 3 {
		t.Errorf("got %d problems, want 3: %q", len(wrong), wrong)
	}
	for _, name := range []string{"env.system", "wasi_snapshot_preview1.path_open", "wasi_snapshot_preview1.sock_accept"} {
		listed := 0
		for _, one := range wrong {
			if strings.HasPrefix(one, "/module/import/offset/") && strings.Contains(one, "forbidden_import: ") && strings.Contains(one, name) {
				listed++
			}
		}
		if listed != 1 {
			t.Errorf("%s is listed %d times in %q, want once", name, listed, wrong)
		}
	}
}

// Everything that a plugin lacks or has too much is said in one answer, one problem each.
func TestPluginBehaviour08AllViolationsAtOnce(t *testing.T) {
	t.Parallel()
	s := newPluginScene(t, nil)
	b := &wasmtest.Builder{}
	b.Type(nil, nil)
	start := b.Function(0, nil, wasmtest.End)
	b.Export("quern_score", wasmtest.Function, start)
	b.Export("quern_alloc", wasmtest.Function, start)
	b.Start(start)
	wrong := s.refusal(b.Bytes(), `{"name":"X","version":"1","abi":9,"columns":["priority","nothing"],"colour":1}`)
	for _, want := range []string{
		"missing_memory: ", "missing_marker: ", "start_section: ", "wrong_signature: .*quern_score", "wrong_signature: .*quern_alloc",
		"^/manifest/name ", "^/manifest/version ", "^/manifest/abi ", "^/manifest/columns/1 ", "^/manifest/colour ",
	} {
		pattern, listed := regexp.MustCompile(want), 0
		for _, one := range wrong {
			if pattern.MatchString(one) {
				listed++
			}
		}
		if listed != 1 {
			t.Errorf("%d problems say %s, want one, in:\n%s", listed, want, strings.Join(wrong, "\n"))
		}
	}
	if len(wrong) != 10 {
		t.Errorf("got %d problems, want 10:\n%s", len(wrong), strings.Join(wrong, "\n"))
	}
}

// The refusal of a module for another interface says which interface this server speaks.
func TestPluginBehaviour09OtherInterface(t *testing.T) {
	t.Parallel()
	s := newPluginScene(t, nil)
	found := strings.Join(s.refusal(hostile(t, "marker_9"), declared("nine", "1.0.0", "priority")), "\n")
	if !strings.Contains(found, "abi_unsupported: ") || !strings.Contains(found, "quern_abi_9") || !strings.Contains(found, "quern_abi_1") {
		t.Errorf("got %q, want abi_unsupported with what it asks for and what there is", found)
	}
	if strings.Contains(found, "missing_marker") {
		t.Errorf("got %q, which says that there is no marker", found)
	}
}

// A module that passes is ready with a report of its costs, whatever its language. The next test has modules of every
// language.
func TestPluginBehaviour01ReadyWithAReport(t *testing.T) {
	t.Parallel()
	s := newPluginScene(t, nil)
	got := s.post(wasmtest.Scorer(), declared("first", "1.0.0", "priority", "age_ms"))
	var v api.PluginVersion
	got.decode(t, &v)
	if got.status != 201 || v.State != api.PluginReady || !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(v.SHA256) {
		t.Fatalf("got %d %+v, want 201 and a version that is ready", got.status, v)
	}
	if want := fmt.Sprintf("/v1/plugins/first/versions/%s", v.SHA256); got.header.Get("Location") != want {
		t.Errorf("Location: got %q, want %q", got.header.Get("Location"), want)
	}
	if r := v.Report; !(r.FuelPerCandidate > 0) || r.Rows != 256 || r.MemoryPages != 1 || !r.Deterministic || r.FromCache {
		t.Errorf("got the report %+v, want fuel of 256 rows in one page of memory, deterministic, compiled now", r)
	}
	if s.plugin("first").State != "inactive" {
		t.Errorf("got %+v, want it not in use", s.plugin("first"))
	}
}
