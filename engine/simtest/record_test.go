package simtest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
)

// recordFile is for changes of the code that must not change its behaviour. The simulation writes hashes into this file, for each seed: of
// everything it appended to journals, of all rows that checkpoints left, and of all questions and answers. If the file is there, it
// compares:
//
//	QUERN_SIM_SEEDS=2000 go test ./engine/simtest -run 'TestSimulation$' -record /tmp/before    before the change, and again after it
var recordFile = flag.String("record", "", "write hashes of what the simulation's seeds do to this file, or compare with those that it has")

// recording has the hashes of one seed so far; nil: nothing is recorded.
type recording struct{ journal, rows, answers hash.Hash }

func newRecording() *recording {
	if *recordFile == "" {
		return nil
	}
	return &recording{journal: sha256.New(), rows: sha256.New(), answers: sha256.New()}
}

// recordingLog hashes the appended batches.
type recordingLog struct {
	journal.Journal
	to *recording
}

func (l recordingLog) Append(ctx context.Context, tail journal.Position, batch []byte) (journal.Position, error) {
	position, err := l.Journal.Append(ctx, tail, batch)
	fmt.Fprintf(l.to.journal, "%d %d %v %x\n", tail, position, err, batch)
	return position, err
}

// wrap puts a recording between the shard and its journal.
func (r *recording) wrap(inner func(journal.Journal) journal.Journal) func(journal.Journal) journal.Journal {
	if r == nil {
		return inner
	}
	return func(log journal.Journal) journal.Journal {
		if inner != nil {
			log = inner(log)
		}
		return recordingLog{log, r}
	}
}

// journaled matches the counts of commits and of bytes in answers: which calls share a commit depends on the moment, and a change of the
// format changes the bytes. It also matches the measure of a limit where it is the first one.
var journaled = regexp.MustCompile(`"commit(s|_bytes)_total":\d+,|,"Of":0`)

// asked notes a question or an answer.
func (r *recording) asked(what any) {
	if r != nil {
		text, err := json.Marshal(what)
		text = journaled.ReplaceAll(text, nil)
		fmt.Fprintf(r.answers, "%s %v\n", text, err)
	}
}

// stored hashes all rows of the store in dir.
func (r *recording) stored(dir string) error {
	if r == nil {
		return nil
	}
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(dir, "store.db")+"?mode=ro")
	if err != nil {
		return err
	}
	defer db.Close()
	tables, err := column(db, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
	for _, table := range tables {
		if err == nil {
			err = r.table(db, table)
		}
	}
	return err
}

func (r *recording) table(db *sql.DB, name string) error {
	rows, err := db.Query(fmt.Sprintf("SELECT * FROM %q", name))
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	values, at := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		at[i] = &values[i]
	}
	var lines []string
	for rows.Next() {
		if err := rows.Scan(at...); err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%s %v", name, values))
	}
	slices.Sort(lines)
	fmt.Fprintln(r.rows, strings.Join(lines, "\n"))
	return rows.Err()
}

func column(db *sql.DB, query string) (list []string, err error) {
	rows, err := db.Query(query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, rows.Err()
}

var (
	recorded  map[string]string // the file's entries at the start, by seed
	recorder  sync.Mutex
	readFiles = sync.OnceValue(func() error {
		recorded = map[string]string{}
		file, err := os.Open(*recordFile)
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		defer file.Close()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			seed, line, _ := strings.Cut(lines.Text(), " ")
			recorded[seed] = line
		}
		return nil
	})
)

// keep compares a seed's hashes with those in the file, or adds them to the file.
func (r *recording) keep(t *testing.T, seed string) {
	if r == nil {
		return
	}
	recorder.Lock()
	defer recorder.Unlock()
	if err := readFiles(); err != nil {
		t.Fatal(err)
	}
	sum := func(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:12]) }
	line := fmt.Sprintf("journal %s rows %s answers %s", sum(r.journal), sum(r.rows), sum(r.answers))
	if before, known := recorded[seed]; known {
		if before != line {
			t.Errorf("seed %s did something else:\n before: %s\n now:    %s", seed, before, line)
		}
		return
	}
	file, err := os.OpenFile(*recordFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := fmt.Fprintln(file, seed, line); err != nil {
		t.Fatal(err)
	}
}
