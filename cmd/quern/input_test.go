package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// readAll drains a reader of chunks.
func readAll(t interface{ Fatalf(string, ...any) }, r chunkReader) []string {
	var all []string
	for {
		chunk, err := r.next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("next: %v", err)
		}
		all = append(all, string(chunk))
	}
}

// Every line is a chunk, whether or not the last one ends, and with either line end.
func TestLinesBecomeChunks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in   string
		end  byte
		want []string
	}{
		{"", '\n', nil},
		{"a\n", '\n', []string{"a"}},
		{"a\nb", '\n', []string{"a", "b"}},
		{"\n\nb\n", '\n', []string{"", "", "b"}},
		{"a\r\nb\r\n", '\n', []string{"a", "b"}},
		{"a\nb\x00c\x00", 0, []string{"a\nb", "c"}},
		{"a\r\x00", 0, []string{"a\r"}},
	} {
		got := readAll(t, newLineReader(strings.NewReader(test.in), test.end))
		if !equal(got, test.want) {
			t.Errorf("lines of %q ended by %q = %q, want %q", test.in, test.end, got, test.want)
		}
	}
}

// A line of exactly the most bytes passes, one byte more is refused by its number.
func TestLongestLine(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("x", queue.MaxChunkBytes)
	if got := readAll(t, newLineReader(strings.NewReader("a\n"+longest+"\n"), '\n')); len(got) != 2 || got[1] != longest {
		t.Errorf("the longest line did not pass: got %d lines", len(got))
	}
	r := newLineReader(strings.NewReader("a\n"+longest+"yyy\n"), '\n')
	if _, err := r.next(); err != nil {
		t.Fatalf("first line: %v", err)
	}
	if _, err := r.next(); err == nil || !strings.Contains(err.Error(), "line 2 is longer than 1048576 bytes") {
		t.Errorf("a line too long: got %v, want an error that names line 2", err)
	}
}

// Cutting into portions neither loses, repeats nor reorders chunks, and keeps to both limits.
func TestPortionsKeepEverything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.StringMatching(`[a-z]{0,20}`)).Draw(t, "lines")
		most := rapid.IntRange(1, 7).Draw(t, "chunks")
		size := rapid.IntRange(40, 100).Draw(t, "bytes")
		text := ""
		if len(lines) > 0 {
			text = strings.Join(lines, "\n") + "\n"
		}
		cut := portions{from: newLineReader(strings.NewReader(text), '\n'), chunks: most, bytes: size}
		var got []string
		for {
			portion, err := cut.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("next: %v", err)
			}
			held := 0
			for _, chunk := range portion {
				held += jsonSize(chunk)
			}
			if len(portion) == 0 || len(portion) > most || held > size {
				t.Fatalf("portion of %d chunks and %d bytes, want 1 to %d and at most %d", len(portion), held, most, size)
			}
			for _, chunk := range portion {
				got = append(got, string(chunk))
			}
		}
		if !equal(got, lines) {
			t.Fatalf("got %q, want %q", got, lines)
		}
	})
}

// No content is longer as JSON than was reckoned with.
func TestJSONSize(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		content := []byte(rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("a\"\\\n\x01<>&\u2028\u2029\x7f"))),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "content"))
		for _, encode := range []func() ([]byte, error){
			func() ([]byte, error) { return json.Marshal(api.Bytes(content)) },
			func() ([]byte, error) { return api.Bytes(content).MarshalJSON() },
		} {
			if got, err := encode(); err != nil || len(got)+1 > jsonSize(content) {
				t.Fatalf("%q is %d bytes of JSON and a comma, reckoned with %d (%v)", content, len(got)+1, jsonSize(content), err)
			}
		}
	})
}

// A file's bytes are its chunk's, whatever they are; a missing one is an error that names it.
func TestFilesBecomeChunks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for path, content := range map[string]string{a: "first\nfile\n", b: "\x00\xff"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := readAll(t, &fileReader{paths: []string{a, b}}), []string{"first\nfile\n", "\x00\xff"}; !equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := (&fileReader{paths: []string{filepath.Join(dir, "none")}}).next(); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("missing file: got %v, want an error that names it", err)
	}
	if _, err := readAtMost(a, 10); err == nil || !strings.Contains(err.Error(), "longer than 10 bytes") {
		t.Errorf("file over the limit: got %v", err)
	}
}

func equal(a, b []string) bool {
	return strings.Join(a, "\x01") == strings.Join(b, "\x01") && len(a) == len(b)
}
