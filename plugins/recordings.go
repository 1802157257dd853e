package plugins

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/sdk/api"
)

type recording struct {
	api.PluginRecording
	file []byte
}

// recordings are the last batches of a plugin that faulted, and the last samples.
type recordings struct {
	limits *Limits

	mu      sync.Mutex
	number  uint64
	samples []recording
	faults  []recording
	bytes   int
}

func newRecordings(l *Limits) *recordings { return &recordings{limits: l} }

// consider records a batch that faulted, and one of so many others, by its seed.
func (r *recordings) consider(log *slog.Logger, u *use, b *abi.Batch, scores []float64, err error, now time.Time, every int) {
	if every == 0 {
		every = r.limits.RecordEvery
	}
	faulty := verdictOf(err) == faulted
	if err != nil && !faulty || !faulty && scramble(b.Seed+1)%uint64(every) != 0 {
		return
	}
	record := &abi.Record{
		Module: u.version.Name + "@" + u.version.Version + " sha256:" + hexOf(u.version.SHA256), Config: []byte(u.key.config),
		Columns: u.version.route.abi, Batch: *b,
	}
	if !faulty {
		record.Scores = scores
	}
	file, failure := abi.AppendRecord(nil, record)
	if failure != nil {
		log.Error("a batch could not be recorded", "plugin", u.version.Name, "error", failure)
		return
	}
	one := recording{api.PluginRecording{Time: api.At(now), SHA256: hexOf(u.version.SHA256), Version: u.version.Version,
		Rows: int(b.Rows), Size: len(file)}, file}
	if faulty {
		one.Fault = err.Error()
	}
	r.keep(one, faulty)
}

// keep puts a recording in the place of the oldest of its kind, and gives up others while all are too large.
func (r *recordings) keep(one recording, faulty bool) {
	if one.Size > r.limits.RecordBytes {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	one.ID = r.number
	list, other := &r.samples, &r.faults
	if faulty {
		list, other = other, list
	}
	*list = append(*list, one)
	r.bytes += one.Size
	for len(*list) > r.limits.Records || r.bytes > r.limits.RecordBytes {
		from := list
		if len(*list) <= 1 {
			from = other
		}
		r.bytes -= (*from)[0].Size
		*from = slices.Delete(*from, 0, 1)
	}
}

// list lists what is kept, the newest first.
func (r *recordings) list() (all []api.PluginRecording) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range slices.Concat(r.samples, r.faults) {
		all = append(all, one.PluginRecording)
	}
	slices.SortFunc(all, func(a, b api.PluginRecording) int { return int(int64(b.ID) - int64(a.ID)) })
	return all
}

// find gives the bytes of a recording.
func (r *recordings) find(id uint64) ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range slices.Concat(r.samples, r.faults) {
		if one.ID == id {
			return one.file, true
		}
	}
	return nil, false
}
