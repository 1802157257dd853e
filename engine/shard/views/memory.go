package views

import (
	"sync/atomic"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/sdk/api"
)

// DefaultMemory is how many bytes views may take when nothing else is set.
const DefaultMemory = 1 << 30

// Memory is how much memory the standing views of all shards of a server may take together. Views of reserves and views
// that only questions made (preview, explain, why, compare) count apart, so that a client that may only read takes
// nothing from consumers. A view is refused when there is no room for it and no idle view can be dropped for it. The
// methods are safe for concurrent use.
type Memory struct{ views, asked budget }

// NewMemory bounds the views to this many bytes, and those of questions to a quarter of that beyond it.
func NewMemory(most uint64) *Memory {
	m := &Memory{}
	m.views.most, m.asked.most = int64(most), int64(most/4)
	return m
}

// budget is a bound, and how much of it is taken.
type budget struct {
	most int64
	used atomic.Int64
}

func (b *budget) over() bool { return b.used.Load() > b.most }

// Use is how much all views take at the moment, and may take.
func (m *Memory) Use() api.Views {
	return api.Views{
		Bytes: uint64(max(m.views.used.Load(), 0)), BytesMost: uint64(m.views.most),
		QuestionBytes: uint64(max(m.asked.used.Load(), 0)), QuestionBytesMost: uint64(m.asked.most),
	}
}

func (m *Memory) of(asked bool) *budget {
	if asked {
		return &m.asked
	}
	return &m.views
}

// change counts the present size of a shard's views instead of the earlier one.
func (m *Memory) change(before, now backlog.Memory) {
	m.views.used.Add(int64(now.Views) - int64(before.Views))
	m.asked.used.Add(int64(now.Asked) - int64(before.Asked))
}
