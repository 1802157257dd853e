package ends

import (
	"fmt"
	"math"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
)

// life begins an epoch with a batch at a position, and has the ends up to another one reached.
func (p *Part) life(epoch uint32, first, reached journal.Position) {
	p.m.Epoch, p.m.AppliedAt = epoch, first
	p.Began()
	p.Reach(reached)
}

// A client goes on behind its place if the batch there is still in the journal, and otherwise behind the last batch that its journal and this
// one have in common.
func TestFollowersGoOnAfterARestore(t *testing.T) {
	t.Parallel()
	p := New(shelltest.New(t).Machine)
	shard := p.m.ID
	p.life(1, 1, 30)
	p.life(2, 31, 50)
	p.life(1000, 51, 70) // a restore of what was there up to 50
	p.life(1001, 71, 90)
	for _, c := range []struct {
		shard  queue.ShardID
		epoch  uint32
		at     uint64
		goesOn uint64
		same   bool
	}{
		{shard: shard, epoch: 1, at: 12, goesOn: 12, same: true},
		{shard: shard, epoch: 2, at: 50, goesOn: 50, same: true},
		{shard: shard, epoch: 2, at: 51, goesOn: 50}, // what the lost journal had there
		{shard: shard, epoch: 3, at: 88, goesOn: 50},
		{shard: shard, epoch: 1000, at: 70, goesOn: 70, same: true},
		{shard: shard, epoch: 1000, at: 75, goesOn: 70}, // lost by a standby that took over
		{shard: shard, epoch: 1001, at: 90, goesOn: 90, same: true},
		{shard: shard, epoch: 1001, at: 95, goesOn: 90},
		{shard: shard, epoch: 1002, at: 60, goesOn: 0},           // of a server that goes on without this one
		{shard: shard + 1, epoch: 1, at: 12, goesOn: 0},          // of a queue that was deleted
		{shard: shard, epoch: 0, at: 12, goesOn: 0},              // it never gave out such an id
		{shard: shard, epoch: 2, at: 12, goesOn: 12, same: true}, // nor this one; it does no harm
	} {
		id := queue.EndID{Shard: c.shard, Epoch: c.epoch, EndPlace: queue.EndPlace{Position: c.at, Seq: 7}}
		place, same := p.since(id)
		want := behind(journal.Position(c.goesOn))
		if c.same {
			want = id.EndPlace
		}
		if place != want || same != c.same {
			t.Errorf("%s goes on behind %+v (%t), want %+v (%t)", id, place, same, want, c.same)
		}
	}
	for at, epoch := range map[uint64]uint32{1: 1, 30: 1, 31: 2, 50: 2, 51: 1000, 90: 1001} {
		if id := p.id(queue.EndPlace{Position: at}); id.Epoch != epoch {
			t.Errorf("the end at %d has the id %s, want the epoch %d", at, id, epoch)
		}
	}
	if place, same := p.since(queue.EndID{}); place != (queue.EndPlace{}) || !same {
		t.Errorf("0 goes on behind %+v (%t)", place, same)
	}
}

// A part that reads its rows knows the same epochs as the one that wrote them, and only the last ones.
func TestEpochsAreKept(t *testing.T) {
	t.Parallel()
	s := shelltest.New(t)
	p := New(s.Machine)
	p.m.Asides.Take(0)
	for n := range uint32(MaxEpochs + 3) {
		p.life(n+1, journal.Position(10*n+1), journal.Position(10*n+10))
	}
	p.life(MaxEpochs+3, 5000, 5000) // a replay comes to it again
	changed := p.m.Asides.Take(machine.AsideEpoch)
	if len(changed) != MaxEpochs+3 { // the forgotten ones as well: their rows go
		t.Errorf("%d rows changed", len(changed))
	}
	again, rows := New(s.Machine), 0
	for epoch := range uint64(MaxEpochs + 10) {
		if row := p.Row(epoch); row != nil {
			rows++
			if err := again.Load(epoch, row); err != nil {
				t.Fatal(err)
			}
		}
	}
	if rows != MaxEpochs || fmt.Sprint(again.epochs) != fmt.Sprint(p.epochs) {
		t.Errorf("%d rows, read as %v, want %v", rows, again.epochs, p.epochs)
	}
	if id := p.id(queue.EndPlace{Position: 5}); id.Epoch != 0 {
		t.Errorf("an end of a forgotten epoch has the id %s", id)
	} else if place, same := p.since(id); !same || place != id.EndPlace {
		t.Errorf("%s goes on behind %+v", id, place)
	}
	if place, same := p.since(queue.EndID{Shard: p.m.ID, Epoch: 2, EndPlace: queue.EndPlace{Position: 15}}); same || place != behind(0) {
		t.Errorf("an id of a forgotten epoch goes on behind %+v (%t), want with everything", place, same)
	}
	for _, row := range []string{"", "\x80", "\x01\x01", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if err := again.Load(99, []byte(row)); err == nil {
			t.Errorf("the row %q is read", row)
		}
	}
}

// The id of an end is read as it was written, and in no other form.
func TestEndIDsAreRead(t *testing.T) {
	t.Parallel()
	for _, id := range []queue.EndID{{}, {Shard: 3, Epoch: 9, EndPlace: queue.EndPlace{Position: 1, Seq: 2}},
		{Shard: math.MaxUint16, Epoch: math.MaxUint32, EndPlace: queue.EndPlace{Position: math.MaxInt64, Seq: math.MaxUint32}}} {
		if got, ok := queue.ParseEndID(id.String()); !ok || got != id {
			t.Errorf("%s is read as %s (%t)", id, got, ok)
		}
	}
	for _, text := range []string{"", "1", "1-2", "1-2-3", "1-2-3-4-5", "01-2-3-4", "1-2-3-", "65536-1-1-1", "1--2-3-4", "+1-2-3-4", "1-2-3-4 "} {
		if id, ok := queue.ParseEndID(text); ok {
			t.Errorf("%q is read as %s", text, id)
		}
	}
}
