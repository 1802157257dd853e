package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// example is the manifest of a backup of two files, and the content of the files and of the entry of their blocks.
func example() (*Manifest, map[string]string) {
	return described(nil, map[string]string{"quern.db": "a catalogue", "shards/0000/store.db": strings.Repeat("a store", 10_000)})
}

// described is a backup of these files; with a backup before it, an increment. The map has its entries.
func described(before *Archive, files map[string]string) (*Manifest, map[string]string) {
	m := &Manifest{Format: Format, Made: time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC), By: "test", Queues: []Queue{{Name: "default"}}}
	var known map[string][]byte
	if before != nil {
		since, err := before.Manifest.Next()
		if err == nil {
			known, err = before.Blocks(1 << 20)
		}
		if err != nil {
			panic(err)
		}
		m.Since = &since
	}
	content, sums := maps.Clone(files), &bytes.Buffer{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		var changed *bytes.Buffer
		var to io.Writer
		if before != nil {
			changed = &bytes.Buffer{}
			to = changed
		}
		f, err := Sum(strings.NewReader(files[path]), sums, known[path], to)
		if err != nil {
			panic(err)
		}
		if f.Path = path; changed != nil {
			content[path] = changed.String()
		}
		m.Files = append(m.Files, f)
	}
	sum := sha256.Sum256(sums.Bytes())
	m.Blocks, content[BlocksName] = hex.EncodeToString(sum[:]), sums.String()
	return m, content
}

func written(t *testing.T, m *Manifest, content map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	err := Write(&out, m, func(path string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content[path])), nil }, func() {})
	if size, sizing := m.Size(); err != nil || sizing != nil || size != int64(out.Len()) {
		t.Fatalf("Write: %v; it has %d bytes, and Size says %d, %v", err, out.Len(), size, sizing)
	}
	return out.Bytes()
}

// forged is an entry of a tar that a stranger made.
type forged struct {
	tar.Header
	content string
}

// tarOf makes a tar of a manifest and entries, without looking at them.
func tarOf(t *testing.T, m *Manifest, entries []forged) []byte {
	t.Helper()
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	_, content := example()
	blocks := forged{tar.Header{Name: BlocksName, Typeflag: tar.TypeReg}, content[BlocksName]}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range slices.Concat([]forged{{tar.Header{Name: manifestName, Typeflag: tar.TypeReg}, string(text)}, blocks}, entries) {
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

// An archive is read as it was written, byte for byte, and is as long as the manifest says.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	m, content := example()
	a, err := Open(bytes.NewReader(written(t, m, content)))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{BlocksName: content[BlocksName]}
	err = a.Files(func(f *File, r io.Reader) error {
		b, err := io.ReadAll(r)
		got[f.Path] = string(b)
		return err
	})
	if err != nil || !maps.Equal(got, content) {
		t.Errorf("Files: %v, %d files", err, len(got))
	}
}

// place is a file in memory.
type place struct{ b []byte }

func (p *place) WriteAt(b []byte, at int64) (int, error) { return copy(p.b[at:], b), nil }

// An increment has the changed blocks: with them the files get their present content, longer or shorter. It is made with the head of the
// backup before it, and is refused behind any other.
func TestIncrement(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	files := map[string]string{"quern.db": "a catalogue", "shards/0000/store.db": strings.Repeat("a store", 10_000)}
	m, content := described(nil, files)
	before := written(t, m, content)
	for round := range 30 {
		head, err := m.HeadSize()
		if err != nil {
			t.Fatal(err)
		}
		base, err := Open(bytes.NewReader(before[:head]))
		if err != nil {
			t.Fatal(err)
		}
		was, now := maps.Clone(files), []byte(files["shards/0000/store.db"])
		for range random.IntN(3) {
			if len(now) > 0 {
				now[random.IntN(len(now))] ^= 1
			}
		}
		now = append(now[:random.IntN(len(now)+1)], make([]byte, random.IntN(3*BlockSize))...)
		files = map[string]string{"quern.db": "a catalogue", "shards/0000/store.db": string(now)}
		if round%3 == 0 {
			files["shards/0001/store.db"] = "another"
		}
		next, content := described(base, files)
		if len(content["quern.db"]) != 0 {
			t.Error("what did not change is in the increment")
		}
		tar := written(t, next, content)
		a, err := Open(bytes.NewReader(tar))
		if err != nil {
			t.Fatal(err)
		}
		err = a.Files(func(f *File, r io.Reader) error {
			to := &place{make([]byte, f.Size)}
			copy(to.b, was[f.Path])
			err := Apply(r, f.Size, to)
			if string(to.b) != files[f.Path] {
				t.Errorf("seed %d, round %d: %s did not become what it is", seed, round, f.Path)
			}
			return err
		})
		other, _ := example()
		if err := errors.Join(err, a.Manifest.Continues(m)); err != nil {
			t.Errorf("seed %d, round %d: %v", seed, round, err)
		}
		other.By = "other"
		if next.Continues(nil) == nil || next.Continues(other) == nil || next.Continues(next) == nil || m.Since == nil && m.Continues(m) == nil {
			t.Error("an increment was taken for one of another backup")
		}
		m, before = next, tar
	}
}

// Changes that no file can have had are refused.
func TestHostileChanges(t *testing.T) {
	t.Parallel()
	one, three := string(make([]byte, BlockSize)), int64(3*BlockSize)
	for name, changed := range map[string]string{
		"a block behind the end": "\x00\x00\x00\x03" + one, "a block twice": "\x00\x00\x00\x01" + one + "\x00\x00\x00\x01" + one,
		"half a number": "\x00\x00", "half a block": "\x00\x00\x00\x00" + one[1:],
	} {
		if err := Apply(strings.NewReader(changed), three, &place{make([]byte, three)}); err == nil {
			t.Errorf("%s: nothing was said", name)
		}
	}
}

// A tar that a stranger made is refused, and no file is opened for an entry that is not in its place: names that lead out of the directory,
// links, folders, files twice, too few, too many, of another size or content, and manifests that say so themselves.
func TestHostileTars(t *testing.T) {
	t.Parallel()
	regular := func(name, content string) forged {
		return forged{tar.Header{Name: name, Typeflag: tar.TypeReg}, content}
	}
	link := func(kind byte, to string) forged {
		return forged{tar.Header{Name: "quern.db", Typeflag: kind, Linkname: to}, ""}
	}
	_, content := example()
	catalogue, store := regular("quern.db", content["quern.db"]), regular("shards/0000/store.db", content["shards/0000/store.db"])
	for name, c := range map[string]struct {
		change  func(m *Manifest)
		entries []forged
		want    string
	}{
		"as it should be":             {entries: []forged{catalogue, store}},
		"a path that leads out":       {entries: []forged{regular("../quern.db", content["quern.db"]), store}, want: "where its manifest has"},
		"a path from the root":        {entries: []forged{regular("/quern.db", content["quern.db"]), store}, want: "where its manifest has"},
		"a symbolic link":             {entries: []forged{link(tar.TypeSymlink, "/etc/passwd"), store}, want: "where its manifest has"},
		"a hard link":                 {entries: []forged{link(tar.TypeLink, "/etc/passwd"), store}, want: "where its manifest has"},
		"a folder":                    {entries: []forged{link(tar.TypeDir, ""), store}, want: "where its manifest has"},
		"a file twice":                {entries: []forged{catalogue, catalogue, store}, want: "where its manifest has"},
		"another order":               {entries: []forged{store, catalogue}, want: "where its manifest has"},
		"a file less":                 {entries: []forged{catalogue}, want: "its end is missing"},
		"a file more":                 {entries: []forged{catalogue, store, regular("shards/0001/store.db", "x")}, want: "behind the last file"},
		"another size":                {entries: []forged{regular("quern.db", "a catalogue!"), store}, want: "where its manifest has"},
		"other content":               {entries: []forged{regular("quern.db", "A catalogue"), store}, want: "its checksum is"},
		"listed: a path outside":      {change: func(m *Manifest) { m.Files[1].Path = "../../etc/passwd" }, want: "no file of a data"},
		"listed: within, and out":     {change: func(m *Manifest) { m.Files[1].Path = "shards/0000/../../x" }, want: "no file of a data"},
		"listed: from the root":       {change: func(m *Manifest) { m.Files[1].Path = "/etc/passwd" }, want: "no file of a data"},
		"listed: the lock":            {change: func(m *Manifest) { m.Files[1].Path = "lock" }, want: "no file of a data"},
		"listed: a line end":          {change: func(m *Manifest) { m.Files[1].Path = "quern.db\n" }, want: "no file of a data"},
		"listed: twice":               {change: func(m *Manifest) { m.Files[1].Path = "quern.db" }, want: "lists quern.db twice"},
		"listed: a negative size":     {change: func(m *Manifest) { m.Files[1].Size = -1 }, want: "cannot be"},
		"listed: a huge size":         {change: func(m *Manifest) { m.Files[1].Size = 1<<62 + 1 }, want: "cannot be"},
		"listed: no checksum":         {change: func(m *Manifest) { m.Files[1].SHA256 = "" }, want: "cannot be"},
		"listed: no catalogue":        {change: func(m *Manifest) { m.Files = m.Files[1:] }, want: "no catalogue"},
		"listed: nothing":             {change: func(m *Manifest) { m.Files = nil }, want: "lists 0 files"},
		"listed: of a later version":  {change: func(m *Manifest) { m.Format = Format + 1 }, want: "format 2"},
		"listed: blocks, no checksum": {change: func(m *Manifest) { m.Blocks = "x" }, want: "cannot be"},
		"listed: changes, no base":    {change: func(m *Manifest) { m.Files[0].Changed = &Changed{0, m.Files[0].SHA256} }, want: "cannot be"},
		"listed: a base, no changes":  {change: func(m *Manifest) { m.Since = &Since{SHA256: m.Blocks} }, want: "cannot be"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _ := example()
			if c.change != nil {
				c.change(m)
				c.entries = []forged{catalogue, store}
			}
			var opened []string
			a, err := Open(bytes.NewReader(tarOf(t, m, c.entries)))
			if err == nil {
				err = a.Files(func(f *File, _ io.Reader) error {
					opened = append(opened, f.Path)
					return nil
				})
			}
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
	all := tarOf(t, m, []forged{
		{tar.Header{Name: "quern.db", Typeflag: tar.TypeReg}, content["quern.db"]},
		{tar.Header{Name: "shards/0000/store.db", Typeflag: tar.TypeReg}, content["shards/0000/store.db"]},
	})
	for at := 0; at < len(all); at += 1 + at/2000 {
		if _, err := Read(bytes.NewReader(all[:at])); err == nil {
			t.Errorf("cut at byte %d of %d: nothing was said", at, len(all))
		}
	}
	if _, err := Read(bytes.NewReader(append(all, 0))); err == nil {
		t.Error("a byte more: nothing was said")
	}
}
