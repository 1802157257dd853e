package web

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine"
)

// Each archive of testdata/formats is a data directory as a release left it when it was killed, and what its server had answered
// before; TestDirectoryOfARelease in cmd/quern makes them. Today's server opens it, answers the same, and does so again after a restart of its own.
func TestDirectoriesOfReleases(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob(filepath.Join("testdata", "formats", "*.tar.gz"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("there are %d archives, %v; want one of each release", len(archives), err)
	}
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".tar.gz"), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			unpack(t, archive, dir)
			text, err := os.ReadFile(filepath.Join(dir, "answers.json"))
			if err != nil {
				t.Fatal(err)
			}
			var asked released
			if err := json.Unmarshal(text, &asked); err != nil || len(asked.Answers) < 20 {
				t.Fatalf("%d answers, %v; want at least 20", len(asked.Answers), err)
			}
			for _, when := range []string{"first start", "second start"} {
				t.Run(when, func(t *testing.T) { answersAsBefore(t, filepath.Join(dir, "data"), asked) })
			}
		})
	}
}

// released has the answers of a release's server, by path, to requests with a header Authorization.
type released struct {
	Authorization string         `json:"authorization"`
	Answers       map[string]any `json:"answers"`
}

// answersAsBefore starts a server on a directory and holds its answers against those of the release.
func answersAsBefore(t *testing.T, dir string, asked released) {
	began, then := time.Now(), newest(asked.Answers).Add(time.Minute) // else retention removes the ended ones now
	e, err := engine.Open(t.Context(), engine.Options{
		Dir: dir, Now: func() time.Time { return then.Add(time.Since(began)) }, Seed: rand.Uint64, BallastBytes: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	registry := prometheus.NewRegistry()
	held := newPlugins(t, registry, logger)
	end := openPlugins(t, held, e)
	defer end()
	s, err := New(Options{
		Engine: e, Plugins: held, Now: time.Now, Seed: func() uint64 { return 7 }, Logger: logger, Registerer: registry, Gatherer: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, s)
	for starting, _ := held.Starting(); len(starting) > 0; starting, _ = held.Starting() { // opened while others serve
		runtime.Gosched()
	}
	for path, want := range asked.Answers {
		a := send(t, http.DefaultClient, address, call{method: "GET", path: path, header: map[string]string{"Authorization": asked.Authorization}})
		var got any
		if err := json.Unmarshal(a.body, &got); strings.HasSuffix(path, "/outputs") {
			got = string(a.body)
		} else if err != nil {
			t.Errorf("%s: %d, %v: %s", path, a.status, err, a.body)
			continue
		}
		if problem := lacks(got, want, ""); problem != "" {
			t.Errorf("%s: %s", path, problem)
		}
	}
}

// newest is the latest time that stands in answers.
func newest(answer any) (last time.Time) {
	later := func(t time.Time) {
		if t.After(last) && t.Year() < 2090 {
			last = t
		}
	}
	switch answer := answer.(type) {
	case map[string]any:
		for _, value := range answer {
			later(newest(value))
		}
	case []any:
		for _, value := range answer {
			later(newest(value))
		}
	case string:
		if at, err := time.Parse(time.RFC3339Nano, answer); err == nil {
			later(at)
		}
	}
	return last
}

// notCompared are fields that need not be as they were: a token is used by the asking, and a plugin is started again.
var notCompared = []string{"etag", "next", "last_used_at", "breaker"}

// lacks names a part of `want` that is not in `got`, which may have more fields.
func lacks(got, want any, at string) string {
	switch want := want.(type) {
	case map[string]any:
		has, is := got.(map[string]any)
		if !is {
			return fmt.Sprintf("%s is %v, want an object", at, got)
		}
		for name, value := range want {
			if slices.Contains(notCompared, name) {
				continue
			}
			if problem := lacks(has[name], value, at+"/"+name); problem != "" {
				return problem
			}
		}
	case []any:
		has, is := got.([]any)
		if !is || len(has) != len(want) {
			return fmt.Sprintf("%s has %d elements, want %d", at, len(has), len(want))
		}
		for i := range want {
			if problem := lacks(has[i], want[i], fmt.Sprintf("%s/%d", at, i)); problem != "" {
				return problem
			}
		}
	default:
		if !reflect.DeepEqual(got, want) {
			return fmt.Sprintf("%s is %v, want %v", at, got, want)
		}
	}
	return ""
}

func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(zipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}
