package snapshots

import (
	"errors"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
)

// keeping is a shell whose machine knows of snapshots.
func keeping(t *testing.T) (*shelltest.Shell, *Part) {
	s := shelltest.New(t)
	p := New(s.Machine)
	s.Machine.Joined.Parts = []machine.Part{p}
	s.Machine.Asides.Take(0)
	return s, p
}

func made(s *shelltest.Shell, op journal.Snapshot) error {
	return shell.Change(s, func(m *machine.Machine, now queue.Time) error {
		m.Encode(now).Snapshot(&op)
		return nil
	})
}

// The newest snapshot is the last one whose op was committed, also over a reload; its row is written with the next
// checkpoint.
func TestNewestSnapshot(t *testing.T) {
	t.Parallel()
	s, p := keeping(t)
	if p.Newest() != (journal.Snapshot{}) || p.Row(0) != nil {
		t.Fatalf("at first: %+v, row %x", p.Newest(), p.Row(0))
	}
	one := journal.Snapshot{Kept: true, Key: "a", Position: 4, Size: 9, Sum: "ab"}
	two := journal.Snapshot{Kept: true, Key: "b", Position: 7, Size: 11, Sum: "cd"}
	if err := made(s, one); err != nil || p.Newest() != one {
		t.Fatalf("%v: %+v, want %+v", err, p.Newest(), one)
	}
	if rows := s.Machine.Asides.Take(machine.AsideSnapshot); len(rows) != 1 {
		t.Errorf("rows to write: %v, want one", rows)
	}
	s.Fail = errors.New("no")
	if err := made(s, two); err == nil || p.Newest() != one {
		t.Errorf("after a commit that failed: %v, %+v, want %+v", err, p.Newest(), one)
	}
	if rows := s.Machine.Asides.Take(machine.AsideSnapshot); len(rows) != 0 {
		t.Errorf("rows to write after a commit that failed: %v", rows)
	}
	if err := made(s, two); err != nil || p.Newest() != two {
		t.Errorf("%v: %+v, want %+v", err, p.Newest(), two)
	}
	s.Reload(func(m *machine.Machine) {
		p = New(m)
		m.Joined.Parts = []machine.Part{p}
	})
	if p.Newest() != two {
		t.Errorf("after a reload: %+v, want %+v", p.Newest(), two)
	}
}

// A part loaded from its row is equal; a damaged row is refused and changes nothing.
func TestSnapshotRow(t *testing.T) {
	t.Parallel()
	s, p := keeping(t)
	want := journal.Snapshot{Kept: true, Key: "a", Position: 4, Size: 9, Sum: "ab"}
	if err := made(s, want); err != nil {
		t.Fatal(err)
	}
	row := p.Row(0)
	_, read := keeping(t)
	if err := read.Load(0, row); err != nil || read.Newest() != want {
		t.Errorf("%v: %+v, want %+v", err, read.Newest(), want)
	}
	if err := read.Load(0, row[:len(row)-1]); err == nil || read.Newest() != want {
		t.Errorf("a row that is cut off: %v, %+v", err, read.Newest())
	}
	if mine, err := p.Apply(&journal.Held{}); mine || err != nil || p.Newest() != want {
		t.Errorf("another part's op: %t, %v, %+v", mine, err, p.Newest())
	}
}
