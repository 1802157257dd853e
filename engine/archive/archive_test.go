package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// example is the manifest of a backup of two files, and what is in them.
func example() (*Manifest, map[string]string) {
	content := map[string]string{"quern.db": "a catalogue", "shards/0000/store.db": strings.Repeat("a store", 100)}
	m := &Manifest{Format: Format, Made: time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC), By: "test", Queues: []Queue{{Name: "default"}}}
	for _, path := range []string{"quern.db", "shards/0000/store.db"} {
		sum := sha256.Sum256([]byte(content[path]))
		m.Files = append(m.Files, File{path, int64(len(content[path])), hex.EncodeToString(sum[:])})
	}
	return m, content
}

// entry is one of a tar that a stranger made.
type entry struct {
	tar.Header
	content string
}

// tarOf makes a tar of a manifest and entries, without looking at them.
func tarOf(t *testing.T, m *Manifest, entries []entry) []byte {
	t.Helper()
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range slices.Concat([]entry{{tar.Header{Name: manifestName, Typeflag: tar.TypeReg}, string(text)}}, entries) {
		if e.Typeflag == tar.TypeReg {
			e.Size = int64(len(e.content))
		}
		e.Format = tar.FormatGNU
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// What is written is read, byte for byte, and is as long as the manifest says.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	m, content := example()
	var out bytes.Buffer
	err := Write(&out, m, func(path string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content[path])), nil })
	if size, sizing := m.Size(); err != nil || sizing != nil || size != int64(out.Len()) {
		t.Fatalf("Write: %v; it has %d bytes, and Size says %d, %v", err, out.Len(), size, sizing)
	}
	got := map[string]string{}
	_, err = Read(&out, Reader{File: func(_ *Manifest, f *File, r io.Reader) error {
		b, err := io.ReadAll(r)
		got[f.Path] = string(b)
		return err
	}})
	if err != nil || !maps.Equal(got, content) {
		t.Errorf("Read: %v, %d files", err, len(got))
	}
}

// A tar that a stranger made is refused, and no file is opened for an entry that is not in its place: names that lead out of the directory,
// links, folders, files twice, too few, too many, of another size or content, and manifests that say so themselves.
func TestHostileTars(t *testing.T) {
	t.Parallel()
	regular := func(name, content string) entry { return entry{tar.Header{Name: name, Typeflag: tar.TypeReg}, content} }
	link := func(kind byte, to string) entry {
		return entry{tar.Header{Name: "quern.db", Typeflag: kind, Linkname: to}, ""}
	}
	_, content := example()
	catalogue, store := regular("quern.db", content["quern.db"]), regular("shards/0000/store.db", content["shards/0000/store.db"])
	for name, c := range map[string]struct {
		change  func(m *Manifest)
		entries []entry
		want    string
	}{
		"as it should be":            {entries: []entry{catalogue, store}},
		"a path that leads out":      {entries: []entry{regular("../quern.db", content["quern.db"]), store}, want: "where its manifest has"},
		"a path from the root":       {entries: []entry{regular("/quern.db", content["quern.db"]), store}, want: "where its manifest has"},
		"a symbolic link":            {entries: []entry{link(tar.TypeSymlink, "/etc/passwd"), store}, want: "where its manifest has"},
		"a hard link":                {entries: []entry{link(tar.TypeLink, "/etc/passwd"), store}, want: "where its manifest has"},
		"a folder":                   {entries: []entry{link(tar.TypeDir, ""), store}, want: "where its manifest has"},
		"a file twice":               {entries: []entry{catalogue, catalogue, store}, want: "where its manifest has"},
		"another order":              {entries: []entry{store, catalogue}, want: "where its manifest has"},
		"a file less":                {entries: []entry{catalogue}, want: "its end is missing"},
		"a file more":                {entries: []entry{catalogue, store, regular("shards/0001/store.db", "x")}, want: "behind the last file"},
		"another size":               {entries: []entry{regular("quern.db", "a catalogue!"), store}, want: "where its manifest has"},
		"other content":              {entries: []entry{regular("quern.db", "A catalogue"), store}, want: "its checksum is"},
		"listed: a path outside":     {change: func(m *Manifest) { m.Files[1].Path = "../../etc/passwd" }, want: "no file of a data"},
		"listed: within, and out":    {change: func(m *Manifest) { m.Files[1].Path = "shards/0000/../../x" }, want: "no file of a data"},
		"listed: from the root":      {change: func(m *Manifest) { m.Files[1].Path = "/etc/passwd" }, want: "no file of a data"},
		"listed: the lock":           {change: func(m *Manifest) { m.Files[1].Path = "lock" }, want: "no file of a data"},
		"listed: a line end":         {change: func(m *Manifest) { m.Files[1].Path = "quern.db\n" }, want: "no file of a data"},
		"listed: twice":              {change: func(m *Manifest) { m.Files[1].Path = "quern.db" }, want: "lists quern.db twice"},
		"listed: a negative size":    {change: func(m *Manifest) { m.Files[1].Size = -1 }, want: "cannot be"},
		"listed: a huge size":        {change: func(m *Manifest) { m.Files[1].Size = 1<<62 + 1 }, want: "cannot be"},
		"listed: no checksum":        {change: func(m *Manifest) { m.Files[1].SHA256 = "" }, want: "cannot be"},
		"listed: no catalogue":       {change: func(m *Manifest) { m.Files = m.Files[1:] }, want: "no catalogue"},
		"listed: nothing":            {change: func(m *Manifest) { m.Files = nil }, want: "lists 0 files"},
		"listed: of a later version": {change: func(m *Manifest) { m.Format = Format + 1 }, want: "format 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _ := example()
			if c.change != nil {
				c.change(m)
				c.entries = []entry{catalogue, store}
			}
			var opened []string
			_, err := Read(bytes.NewReader(tarOf(t, m, c.entries)), Reader{File: func(_ *Manifest, f *File, _ io.Reader) error {
				opened = append(opened, f.Path)
				return nil
			}})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			for _, path := range opened {
				if !paths.MatchString(path) {
					t.Errorf("%q was opened", path)
				}
			}
		})
	}
}

// A backup that is cut anywhere, or has something behind its end, is refused.
func TestCutTars(t *testing.T) {
	t.Parallel()
	m, content := example()
	all := tarOf(t, m, []entry{
		{tar.Header{Name: "quern.db", Typeflag: tar.TypeReg}, content["quern.db"]},
		{tar.Header{Name: "shards/0000/store.db", Typeflag: tar.TypeReg}, content["shards/0000/store.db"]},
	})
	for at := range all {
		if _, err := Read(bytes.NewReader(all[:at]), Reader{}); err == nil {
			t.Errorf("cut at byte %d of %d: nothing was said", at, len(all))
		}
	}
	if _, err := Read(bytes.NewReader(append(all, 0)), Reader{}); err == nil {
		t.Error("a byte more: nothing was said")
	}
}
