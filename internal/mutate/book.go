package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// finding is the outcome of a mutant.
type finding struct {
	Verdict verdict `json:"verdict"`
	By      string  `json:"by,omitempty"` // the test that failed, as PACKAGE:REGEXP; it is tried first the next time
	Code    string  `json:"code"`         // hash of the mutant and of the file that it changes
	Tests   string  `json:"tests"`        // hash of the tests that it was tried with
}

// book is the results file: findings by the name of the mutant.
type book struct {
	path string
	all  map[string]finding
}

func openBook(path string) (*book, error) {
	b := &book{path: path, all: map[string]finding{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &b.all)
	}
	if err != nil {
		return nil, fmt.Errorf("the results in %s: %w; remove the file to begin again", path, err)
	}
	return b, nil
}

// holds says that a finding is still true: the file and the mutant are as they were and, of a survivor, the tests are too. That a mutant was
// caught is not asked again when tests change: they nearly always become more.
func (f *finding) holds(now finding) bool {
	return f.Code == now.Code && (f.Verdict == caught || f.Verdict == byTime || f.Verdict == survived && f.Tests == now.Tests)
}

func (b *book) note(name string, f finding) error {
	b.all[name] = f
	text, err := json.MarshalIndent(b.all, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(b.path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(b.path+".new", b.path)
}

// hashes are those of a finding about the mutant as everything stands now.
func (m *mutant) hashes(short bool) (f finding, err error) {
	code, err := os.ReadFile(m.file)
	if err != nil {
		return f, err
	}
	f.Code = hashOf(m.file, m.old, m.new, string(code))
	parts := []string{fmt.Sprint(short), strings.Join(m.tests, " ")}
	for _, tests := range m.tests {
		pkg, _, _ := strings.Cut(tests, ":")
		paths, err := filepath.Glob(filepath.Join(pkg, "*_test.go"))
		if err != nil {
			return f, err
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return f, err
			}
			parts = append(parts, path, string(text))
		}
	}
	f.Tests = hashOf(parts...)
	return f, nil
}

func hashOf(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d %s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
