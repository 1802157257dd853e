package queue

import (
	"fmt"
	"strconv"
)

// SubmissionID names a submission for ever and across shards:
//
//	 63        22          12          0
//	+-+---------+-----------+-----------+
//	|0| 41 bits | 10 bits   | 12 bits   |
//	| | ms      | birth     | sequence  |
//	| | of Unix | shard     |           |
//	+-+---------+-----------+-----------+
//
// so ids of one shard grow with time, and any call that carries an id finds its shard by arithmetic. JSON carries ids as
// decimal strings, because they pass 2^53.
type SubmissionID uint64

// ShardID numbers a shard within the server, 0 to MaxShards-1.
type ShardID uint16

const (
	idShardBits    = 10
	idSequenceBits = 12

	// MaxShards is how many shards the id has room for.
	MaxShards = 1 << idShardBits
)

// MakeSubmissionID joins the three parts. Sequence numbers past 4,095 run over into the next millisecond's ids, which is
// how a shard draws more than 4,096 ids in one millisecond and still keeps them growing.
func MakeSubmissionID(at Time, shard ShardID, sequence uint32) SubmissionID {
	ms := uint64(at) + uint64(sequence>>idSequenceBits)
	return SubmissionID(ms<<(idShardBits+idSequenceBits) |
		uint64(shard%MaxShards)<<idSequenceBits |
		uint64(sequence&(1<<idSequenceBits-1)))
}

// Time is the millisecond in which the id was drawn.
func (id SubmissionID) Time() Time { return Time(id >> (idShardBits + idSequenceBits)) }

// Shard is the shard the submission was born in.
func (id SubmissionID) Shard() ShardID { return ShardID(id>>idSequenceBits) % MaxShards }

// Sequence is the running number within the millisecond.
func (id SubmissionID) Sequence() uint32 { return uint32(id) & (1<<idSequenceBits - 1) }

// Next is the smallest larger id of the same shard.
func (id SubmissionID) Next() SubmissionID {
	if id.Sequence() == 1<<idSequenceBits-1 {
		return MakeSubmissionID(id.Time()+1, id.Shard(), 0)
	}
	return id + 1
}

func (id SubmissionID) String() string { return strconv.FormatUint(uint64(id), 10) }

// ParseSubmissionID reads the decimal form. It refuses signs, spaces and numbers of more than 63 bits.
func ParseSubmissionID(text string) (SubmissionID, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n == 0 {
		return 0, &Error{Code: CodeInvalid, Message: fmt.Sprintf("%q is not a submission id: it is a decimal number "+
			"of at most 63 bits, as returned by an insert", clip(text, 40))}
	}
	return SubmissionID(n), nil
}

// ChunkID names one chunk.
type ChunkID struct {
	Submission SubmissionID
	Index      uint32
}

func (id ChunkID) String() string {
	return id.Submission.String() + "/" + strconv.FormatUint(uint64(id.Index), 10)
}

func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most] + "..."
}
