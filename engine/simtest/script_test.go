package simtest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/consumers"
)

var rewrite = flag.Bool("rewrite", false, "write what the commands of testdata/scripts print now, to be reviewed as a diff")

// A script in testdata/scripts is blocks with an empty line between them. A block is comments that begin with '#', commands, a line
// "----", and what the commands print. The commands are in script_commands_test.go. Submissions are called s1, s2, ... in the order of
// their inserts and reservations t1, t2, ...; a time is how long after the start of the script it is. To add a block, write its commands
// and "----", then run: go test ./engine/simtest -run TestScripts -rewrite
//
//quern:overlapping
func TestScripts(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/scripts/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("got %d scripts and the error %v in testdata/scripts, want at least one and none", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			must(t, err)
			now, differs, err := playScript(t, path, string(text))
			must(t, err)
			if *rewrite {
				must(t, os.WriteFile(path, []byte(now), 0o644))
			} else if differs != nil {
				t.Error(differs)
			}
		})
	}
}

// A mistake in a script is reported with its file and line, and never taken for something else.
func TestScriptsRefuseMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"insert 1\n----\ns1 open: 2 ready\n": "x.txt:1: got:\ns1 open: 1 ready\nwant:\ns1 open: 2 ready",
		"# a comment\n\ninserts 1\n----\n":   `x.txt:3: there is no command "inserts"`,
		"insert 1\nstats":                    `x.txt:1: the block has no line "----"`,
		"stats\n----\n\n\nstats\n----\n":     "x.txt:4: the line is empty",
		"insert\n----\n":                     "x.txt:1: the use is: insert CHUNKS [",
		"insert 1 2\n----\n":                 "x.txt:1: the use is: insert CHUNKS [",
		"insert 1 run_at=soon\n----\n":       `x.txt:1: run_at is "soon"; want a duration`,
		"insert 1 runat=1s\n----\n":          "x.txt:1: the use is: insert CHUNKS [",
		"insert x\n----\n":                   `x.txt:1: "x" is not a number`,
		"insert 1\nchunks s2\n----\n":        "x.txt:2: there is no s2",
		"insert 1\n\nletters\ncomplete t1":   `x.txt:1: the block has no line "----"`,
		"tick soon\n----\n":                  `x.txt:1: the time is "soon"; want a duration`,
		"settings max_tries=1\n----\n":       "x.txt:1: there is no setting max_tries",
		"settings max_expiries=251\n----\n":  "x.txt:1: invalid: The request is not valid.; /max_expiries is 251",
	} {
		_, differs, err := playScript(t, "x.txt", text)
		if got := fmt.Sprint(errors.Join(differs, err)); !strings.HasPrefix(got, want) {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// script is a box while a script is played, with the script's names for submissions and reservations.
type script struct {
	*box
	path   string
	line   int
	out    strings.Builder
	subs   []queue.SubmissionID
	tokens []queue.Token
	opened map[string]*consumers.Attached
	bulks  []queue.BulkID
}

// playScript plays a script. It returns the script with the output that its commands have now, and the differences from its own; the
// error is of a script that cannot be played.
func playScript(t *testing.T, path, text string) (now string, differs, err error) {
	s := &script{box: openBox(t, relaxed()), path: path, opened: map[string]*consumers.Attached{}}
	defer func() {
		if f := recover(); f != nil {
			mistake, is := f.(failure)
			if !is {
				panic(f)
			}
			err = errors.New(mistake.text)
		}
	}()
	var blocks []string
	first := 1
	for text := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		block, difference := s.block(first, text)
		blocks, differs = append(blocks, block), errors.Join(differs, difference)
		first += strings.Count(text, "\n") + 2
	}
	return strings.Join(blocks, "\n\n") + "\n", differs, nil
}

// block plays one block that begins at the line first.
func (s *script) block(first int, text string) (now string, differs error) {
	s.out.Reset()
	lines := strings.Split(text, "\n")
	end := slices.Index(lines, "----")
	for i, line := range lines[:max(end, 0)] {
		if s.line = first + i; !strings.HasPrefix(line, "#") {
			s.play(line)
		}
	}
	s.line = first
	if end < 0 {
		if !slices.ContainsFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "#") }) {
			return text, nil
		}
		s.stop(`the block has no line "----"`)
	}
	if err := s.shard.Audit(); err != nil {
		s.stop("after the block: %v", err)
	}
	got, want := strings.TrimSuffix(s.out.String(), "\n"), strings.Join(lines[end+1:], "\n")
	if got != want {
		differs = fmt.Errorf("%s:%d: got:\n%s\nwant:\n%s", s.path, first, got, want)
	}
	return strings.TrimSuffix(strings.Join(lines[:end+1], "\n")+"\n"+got, "\n"), differs
}

// command is a line of a script: the words after its name, and the options among them that are written name=value.
type command struct {
	*script
	words   []string
	options map[string]string
}

// wordPattern lets the value of an option be in quotes, with spaces.
var wordPattern = regexp.MustCompile(`[a-z_]+="[^"]*"|\S+`)

// play plays one command. Its use says how many words it takes ("..." for one or more) and which options.
func (s *script) play(line string) {
	words := wordPattern.FindAllString(line, -1)
	if len(words) == 0 {
		s.stop("the line is empty; want one empty line between blocks")
	}
	known, is := commands[words[0]]
	if !is {
		s.stop("there is no command %q", words[0])
	}
	c := command{script: s, options: map[string]string{}}
	wrong := false
	for _, word := range words[1:] {
		name, value, option := strings.Cut(word, "=")
		if !option {
			c.words = append(c.words, word)
			continue
		}
		wrong = wrong || !strings.Contains(known.use, "["+name+"=") && !strings.Contains(known.use, "[FIELD=")
		c.options[name] = strings.Trim(value, `"`)
	}
	needed, _, _ := strings.Cut(known.use, "[")
	least := len(strings.Fields(needed))
	most := least
	if strings.Contains(needed, "...") {
		most = len(words)
	}
	if wrong || len(c.words) < least || len(c.words) > most {
		s.stop("the use is: %s", strings.TrimSpace(words[0]+" "+known.use))
	}
	known.run(c)
}

// stop ends the script at its line.
func (s *script) stop(format string, args ...any) {
	panic(failure{fmt.Sprintf("%s:%d: %s", s.path, s.line, fmt.Sprintf(format, args...))})
}

func (s *script) say(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// refused prints the error that the shard returned, if there is one.
func (s *script) refused(err error) bool {
	code := queue.CodeOf(err)
	if err != nil && code == "" {
		s.stop("%v", err)
	}
	if err != nil {
		s.say("refused: %s", code)
	}
	return err != nil
}

// number is the value of an option, or 0.
func (c command) number(name string) int { return c.parse(c.options[name]) }

func (s *script) parse(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil && text != "" {
		s.stop("%q is not a number", text)
	}
	return n
}

// duration is the value of an option, or 0.
func (c command) duration(name string) time.Duration {
	if text, is := c.options[name]; is {
		return c.parseDuration(name, text)
	}
	return 0
}

func (s *script) parseDuration(what, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.stop("%s is %q; want a duration", what, text)
	}
	return d
}

// time is the moment that an option names by its distance from the start.
func (c command) time(name string) queue.Time {
	if _, is := c.options[name]; !is {
		return 0
	}
	return queue.Time(start).Add(c.duration(name))
}

// subNamed is a submission by the name that the script has for it, and back.
func (s *script) subNamed(name string) queue.SubmissionID { return named(s, "s", name, s.subs) }

func (s *script) nameOf(id queue.SubmissionID) string {
	return fmt.Sprint("s", slices.Index(s.subs, id)+1)
}

// named finds a thing by its name: a letter and its number in the list.
func named[T any](s *script, letter, name string, list []T) T {
	digits, is := strings.CutPrefix(name, letter)
	n := s.parse(digits)
	if !is || n < 1 || n > len(list) {
		s.stop("there is no %s", name)
	}
	return list[n-1]
}
