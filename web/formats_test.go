package web

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
)

// Each archive of testdata/formats is a data directory as an older Quern left it when it was killed, and what its server had answered
// before; internal/fixtures makes them. Today's server opens it, answers the same, hands out the same contents, and does so again after a
// restart of its own.
func TestDirectoriesOfEarlierFormats(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob(filepath.Join("testdata", "formats", "*.tar.gz"))
	if err != nil || len(archives) < 9 {
		t.Fatalf("there are %d archives, %v; want at least 9", len(archives), err)
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
			var answers map[string]any
			if err := json.Unmarshal(text, &answers); err != nil {
				t.Fatal(err)
			}
			for _, when := range []string{"first start", "second start"} {
				t.Run(when, func(t *testing.T) { answersAsBefore(t, filepath.Join(dir, "data"), answers) })
			}
		})
	}
}

// answersAsBefore starts a server on a directory and holds its answers against those of the older one.
func answersAsBefore(t *testing.T, dir string, answers map[string]any) {
	began, then := time.Now(), newest(answers).Add(time.Minute) // else what had ended would be retired by now
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
	address := serve(t, serverOf(t, e))
	for path, want := range answers {
		a := send(t, http.DefaultClient, address, call{method: "GET", path: path})
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

// notCompared are fields that need not be as they were.
var notCompared = []string{"etag", "next", "title", "detail", "instance"}

// lacks says what of `want` is not in `got`, which may have more fields.
func lacks(got, want any, at string) string {
	switch want := want.(type) {
	case map[string]any:
		has, is := got.(map[string]any)
		if !is {
			return fmt.Sprintf("%s is %v, want an object", at, got)
		}
		for name, value := range want {
			if slices.Contains(notCompared, name) || name == "weight" && has[name] == nil && value == 1.0 {
				continue // a weight that no one has set was shown as 1
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
