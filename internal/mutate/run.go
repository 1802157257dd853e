package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// runner runs the tests of mutants.
type runner struct {
	short   bool                     // no round without -short
	usual   map[string]time.Duration // how long tests take on the code as it is; by tests, and whether they are short
	all     *build                   // with all mutants that can be built together, none of them on
	numbers map[*mutant]int          // of those
}

func newRunner(list []*mutant, short bool) (*runner, error) {
	all, err := newBuild()
	if err != nil {
		return nil, err
	}
	numbers, err := all.join(list)
	return &runner{short: short, usual: map[string]time.Duration{}, all: all, numbers: numbers}, err
}

func (r *runner) close() { os.RemoveAll(r.all.dir) }

// round is which tests to run and how.
type round struct {
	tests string // a package, with an optional ":REGEXP"
	short bool
}

// rounds are the runs that a mutant has to survive: the short tests before the long ones, and in both the test that caught it before first.
func (r *runner) rounds(m *mutant, before string) (list []round) {
	for _, short := range []bool{true, false} {
		if !short && r.short {
			break
		}
		if before != "" {
			list = append(list, round{before, short})
		}
		for _, tests := range m.tests {
			list = append(list, round{tests, short})
		}
	}
	return list
}

// run runs the tests of a mutant until one fails, which it names. `before` is the one that did the last time, or "".
func (r *runner) run(m *mutant, before string) (v verdict, by string, err error) {
	b, number := r.all, r.numbers[m]
	if number == 0 {
		code, err := os.ReadFile(m.file)
		if err != nil {
			return "", "", err
		}
		changed, fits := m.apply(string(code))
		if !fits {
			return stale, "", nil
		}
		if b, err = newBuild(); err != nil {
			return "", "", err
		}
		defer os.RemoveAll(b.dir)
		if err := b.replace(m.file, changed); err != nil {
			return "", "", err
		}
	}
	for _, round := range r.rounds(m, before) {
		limit, err := r.limit(round)
		if errors.Is(err, errNoTests) && round.tests == before {
			continue // it is gone or has another name
		}
		if err != nil {
			return "", "", err
		}
		if v, by, err = b.test(round, limit, number); v != survived || err != nil {
			return v, by, err
		}
	}
	return survived, "", nil
}

// limit is how long tests may take: three times as long as on the code as it is, which has to pass, or every mutant would be caught.
func (r *runner) limit(of round) (time.Duration, error) {
	key := fmt.Sprint(of)
	if r.usual[key] == 0 {
		began := time.Now()
		v, by, err := r.all.test(of, time.Hour, 0)
		if err != nil {
			return 0, err
		}
		if v != survived {
			return 0, fmt.Errorf("%s fails without any mutant: %s", by, v)
		}
		r.usual[key] = time.Since(began)
	}
	return 3*r.usual[key] + 20*time.Second, nil
}

// build is the code with some files replaced, and the tests that were built from it.
type build struct {
	dir     string            // the caller removes it
	overlay map[string]string // by the path that is replaced
	tests   map[string]string // the built tests by package
}

func newBuild() (*build, error) {
	dir, err := os.MkdirTemp("", "mutate")
	return &build{dir: dir, overlay: map[string]string{}, tests: map[string]string{}}, err
}

// replace has a file with other text built in place of one of the tree, or beside them.
func (b *build) replace(path, text string) error {
	file, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if b.overlay[file] == "" {
		b.overlay[file] = filepath.Join(b.dir, fmt.Sprintf("%d.go", len(b.overlay)))
	}
	return os.WriteFile(b.overlay[file], []byte(text), 0o600)
}

// built is the program that runs the tests of a package, or what the compiler says.
func (b *build) built(pkg string) (program, refused string, err error) {
	if program = b.tests[pkg]; program != "" {
		return program, "", nil
	}
	replace, err := json.Marshal(map[string]any{"Replace": b.overlay})
	if err != nil {
		return "", "", err
	}
	overlay := filepath.Join(b.dir, "overlay.json")
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		return "", "", err
	}
	program = filepath.Join(b.dir, fmt.Sprintf("%d.test", len(b.tests)))
	out, err := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-w", "-overlay", overlay, "-o", program, pkg).CombinedOutput()
	if err != nil {
		return "", string(bytes.TrimSpace(out)), nil
	}
	b.tests[pkg] = program
	return program, "", nil
}

var errNoTests = errors.New("no test has that name")

// test runs tests with a mutant of the build on, 0 for none, and stops at the first that fails.
func (b *build) test(of round, limit time.Duration, number int) (v verdict, by string, err error) {
	pkg, pattern, _ := strings.Cut(of.tests, ":")
	program, refused, err := b.built(pkg)
	if err != nil || refused != "" {
		return unbuilt, refused, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit+time.Minute)
	defer cancel()
	out := &output{stop: cancel}
	tmp, err := os.MkdirTemp(b.dir, "tmp") // tests that are stopped leave their files
	if err != nil {
		return "", "", err
	}
	cmd := exec.CommandContext(ctx, program, "-test.v", "-test.failfast", fmt.Sprintf("-test.short=%v", of.short), "-test.timeout", limit.String(), "-test.run", pattern)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = pkg, out, out, 5*time.Second
	cmd.Env = append(cmd.Environ(), "TMPDIR="+tmp, fmt.Sprintf("%s=%d", onVariable, number))
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case out.late || out.failed == "" && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return byTime, out.by(pkg, of.tests), nil
	case out.failed != "" || errors.As(err, &exit): // or a panic
		return caught, out.by(pkg, of.tests), nil
	case err != nil:
		return "", "", fmt.Errorf("the tests of %s: %w", of.tests, err)
	case out.none:
		return "", "", fmt.Errorf("%s: %w", of.tests, errNoTests)
	}
	return survived, "", nil
}

// output reads the output of tests, and stops them when one has failed.
type output struct {
	rest   []byte // the line that has not ended yet
	failed string // the first test that did, or, with late, that was running
	late   bool   // the limit has passed
	none   bool   // there was no test of that name
	stop   func()
}

func (o *output) by(pkg, tests string) string {
	if o.failed == "" {
		return tests
	}
	return pkg + ":^" + o.failed + "$"
}

var (
	failure = regexp.MustCompile(`^ *--- FAIL: (\w+)`)
	running = regexp.MustCompile(`^\t+(Test\w+).* \(.*\)$`)
)

func (o *output) Write(p []byte) (int, error) {
	o.rest = append(o.rest, p...)
	for {
		line, rest, ended := bytes.Cut(o.rest, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		o.rest = rest
		o.read(line)
	}
}

func (o *output) read(line []byte) {
	o.none = o.none || bytes.Contains(line, []byte("warning: no tests to run"))
	o.late = o.late || bytes.HasPrefix(line, []byte("panic: test timed out"))
	sign := failure
	if o.late {
		sign = running
	}
	if found := sign.FindSubmatch(line); found != nil && o.failed == "" {
		o.failed = string(found[1])
		o.stop()
	}
}
