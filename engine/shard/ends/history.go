package ends

import (
	"encoding/binary"
	"math"
	"slices"
	"sort"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// A journal can lose its end: a restore begins with what a backup has, and a standby of PostgreSQL that takes over may
// lack the last batches. Other batches then get the numbers of those that are lost. They are written in a later epoch,
// which tells them apart:
//
//	epoch 7:  … 50 51 52 53 54          a client has the end at 53, with the id 7-53
//	backup:   … 50
//	restore:  … 50 │ 51 52 53 …         epoch 9 began at 51, so 7-53 is lost: the client goes on behind 50
//
// So the part remembers where epochs began. It keeps the last ones: an id with an earlier epoch says nothing, and its
// client gets everything that is kept. Ends before the first one have the epoch 0.

// MaxEpochs is how many beginnings of epochs a shard remembers.
const MaxEpochs = 64

// began is where an epoch began.
type began struct {
	epoch uint32
	first journal.Position // its first batch
}

// epochs are the last ones, the newest last.
type epochs []began

// at is the epoch of a batch; 0: it is earlier than those that are remembered.
func (e epochs) at(position journal.Position) uint32 {
	i := sort.Search(len(e), func(i int) bool { return e[i].first > position })
	if i == 0 {
		return 0
	}
	return e[i-1].epoch
}

// lost says whether a batch that was written in an epoch is not in this journal, and the last batch that this journal
// and the client's have in common.
func (e epochs) lost(epoch uint32, position journal.Position) (common journal.Position, lost bool) {
	i := sort.Search(len(e), func(i int) bool { return e[i].epoch > epoch })
	switch {
	case epoch > 0 && (i == 0 || epoch > e[len(e)-1].epoch): // forgotten, or of a server that went another way
		return 0, true
	case i < len(e) && e[i].first <= position:
		return e[i].first - 1, true
	}
	return position, false
}

// Began notes an epoch.
func (p *Part) Began() {
	if n := len(p.epochs); n > 0 && p.epochs[n-1].epoch >= p.m.Epoch {
		return // a replay comes to it again
	}
	p.epochs = append(p.epochs, began{p.m.Epoch, p.m.AppliedAt})
	if len(p.epochs) > MaxEpochs {
		p.m.Asides.Changed(machine.AsideEpoch, uint64(p.epochs[0].epoch))
		p.epochs = slices.Clone(p.epochs[1:])
	}
	p.m.Asides.Changed(machine.AsideEpoch, uint64(p.m.Epoch))
}

// Row returns where an epoch began; nil: it is no longer remembered.
func (p *Part) Row(epoch uint64) []byte {
	for _, b := range p.epochs {
		if uint64(b.epoch) == epoch {
			return binary.AppendUvarint(nil, uint64(b.first))
		}
	}
	return nil
}

// Load reads a row. Rows come in the order of their epochs.
func (p *Part) Load(epoch uint64, row []byte) error {
	first, n := binary.Uvarint(row)
	if n != len(row) || n <= 0 || first > math.MaxInt64 || epoch > math.MaxUint32 {
		return machine.AsideError(machine.AsideEpoch)
	}
	p.epochs = append(p.epochs, began{uint32(epoch), journal.Position(first)})
	return nil
}

// id is the id of a place.
func (p *Part) id(place queue.EndPlace) queue.EndID {
	return queue.EndID{Shard: p.m.ID, Epoch: p.epochs.at(journal.Position(place.Position)), EndPlace: place}
}

// since is the place behind which a client goes on that has all ends up to an id. same: it misses none by that.
func (p *Part) since(id queue.EndID) (place queue.EndPlace, same bool) {
	if id == (queue.EndID{}) {
		return id.EndPlace, true
	}
	common, lost := p.epochs.lost(id.Epoch, journal.Position(id.Position))
	switch {
	case id.Shard != p.m.ID: // of a queue that was deleted, or of another server
		return behind(0), false
	case lost:
		return behind(common), false
	case common > p.Reached: // what this server had lost before it could begin another epoch
		return behind(p.Reached), false
	}
	return id.EndPlace, true
}

// behind is the place behind all ends of a batch.
func behind(position journal.Position) queue.EndPlace {
	return queue.EndPlace{Position: uint64(position), Seq: math.MaxUint32}
}
