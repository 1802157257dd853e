package queue

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// EndPlace is the place of a submission's end among all ends of its queue: the position of its batch in the journal, and in the batch the
// submission's number. It is durable, and grows with each end. The zero value is before all.
type EndPlace struct {
	Position uint64
	Seq      uint32
}

// Compare orders places.
func (p EndPlace) Compare(o EndPlace) int {
	return cmp.Or(cmp.Compare(p.Position, o.Position), cmp.Compare(p.Seq, o.Seq))
}

// EndID is an end's place as clients keep it. A place alone would mean another end after a restore, and in a queue that was created again
// under its name: both count their batches from an earlier number on. So an id also has the shard, and the epoch in which the batch was
// written. The zero value is before all ends.
type EndID struct {
	Shard ShardID
	Epoch uint32 // 0: earlier than those that the shard remembers
	EndPlace
}

// Compare orders ids of one shard.
func (i EndID) Compare(o EndID) int { return i.EndPlace.Compare(o.EndPlace) }

// String is the id in the form that ParseEndID reads, such as "1-3-1234-56".
func (i EndID) String() string {
	return fmt.Sprintf("%d-%d-%d-%d", i.Shard, i.Epoch, i.Position, i.Seq)
}

// ParseEndID reads an id that String wrote, or "0", which is before all ends.
func ParseEndID(text string) (id EndID, ok bool) {
	if text == "0" {
		return id, true
	}
	parts := strings.Split(text, "-")
	if len(parts) != 4 {
		return id, false
	}
	var numbers [4]uint64
	for i, bits := range []int{16, 32, 63, 32} {
		var err error
		if numbers[i], err = strconv.ParseUint(parts[i], 10, bits); err != nil {
			return id, false
		}
	}
	id = EndID{ShardID(numbers[0]), uint32(numbers[1]), EndPlace{numbers[2], uint32(numbers[3])}}
	return id, id.String() == text
}

// End is the end of a submission.
type End struct {
	ID         EndID
	Submission Submission
}
