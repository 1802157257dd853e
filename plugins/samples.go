package plugins

import (
	"cmp"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/host"
)

// How much of live traffic is looked at. Whole windows are taken, so that a window that is not sampled costs one counter: one of
// sampleEvery while there are many, and one in sampleAfter while there are few.
const (
	sampleEvery = 64
	sampleAfter = 250 * time.Millisecond
	sampleRows  = strategy.MaxWindow // candidates that are kept: 9 bytes each
)

// samples are the scores of the last candidates that a version gave with a configuration, and which of them something was taken of.
// Each configuration has its own, because the scores of two may have nothing in common.
type samples struct {
	batches atomic.Uint64
	last    atomic.Int64 // when a window was chosen, in nanoseconds of the catalogue's clock

	mu      sync.Mutex
	scores  []float64 // a ring once it is full; NaN of skipped ones
	taken   []bool
	at      int // in the ring, where the next one goes
	windows uint64
	first   queue.Time
	newest  queue.Time
	faults  map[host.Kind]uint64
	fault   string // the last one
}

// offer counts a window that was scored, or was not for an error, and chooses whether it is looked at.
func (s *samples) offer(w *strategy.Window, now time.Time, err error) {
	if err != nil {
		s.fail(err)
		return
	}
	n := s.batches.Add(1)
	if w.Dry || n%sampleEvery != 1 && now.UnixNano()-s.last.Load() < int64(sampleAfter) {
		return
	}
	s.last.Store(now.UnixNano())
	w.Sampler = s
}

func (s *samples) fail(err error) {
	var fault *host.Fault
	if !errors.As(err, &fault) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults == nil {
		s.faults = map[host.Kind]uint64{}
	}
	s.faults[fault.Kind]++
	s.fault = fault.Error()
}

// Taken implements strategy.Sampler. chunks is nil if nothing could be taken of the window.
func (s *samples) Taken(scores []float64, chunks []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.windows++
	s.newest = queue.At(time.Unix(0, s.last.Load()))
	s.first = cmp.Or(s.first, s.newest)
	for row, score := range scores {
		took := chunks != nil && chunks[row] > 0
		if len(s.scores) < sampleRows {
			s.scores, s.taken = append(s.scores, score), append(s.taken, took)
			continue
		}
		s.scores[s.at], s.taken[s.at] = score, took
		s.at = (s.at + 1) % sampleRows
	}
}

// show copies what is kept and counts it.
func (s *samples) show() api.PluginScores {
	out := api.PluginScores{Batches: s.batches.Load(), Faults: map[string]uint64{}, Uses: []string{}}
	s.mu.Lock()
	for kind, n := range s.faults {
		out.Faults[string(kind)] = n
	}
	out.LastFault, out.Windows, out.SinceAt, out.LastAt = s.fault, s.windows, timeOf(s.first), timeOf(s.newest)
	scores, taken := slices.Clone(s.scores), slices.Clone(s.taken)
	s.mu.Unlock()
	out.Rows = len(scores)
	for row, score := range scores {
		if math.IsNaN(score) {
			out.Skipped++
		}
		if taken[row] {
			out.Taken++
		}
	}
	out.Distribution = distribution(scores, taken)
	return out
}

// distribution counts scores, in bins of the same width. Where few scores are far outside, as those of candidates that a plugin wants
// last of all, all others would be in one bin: then the first and the last bin are as wide as it takes, and the others share what the
// middle 98 of 100 scores are in.
func distribution(scores []float64, taken []bool) (out []api.PluginTakenBin) {
	var finite []float64
	for _, score := range scores {
		if !math.IsNaN(score) && !math.IsInf(score, 0) {
			finite = append(finite, score)
		}
	}
	if len(finite) == 0 {
		return []api.PluginTakenBin{}
	}
	slices.Sort(finite)
	bins := binsOf(finite)
	for _, bin := range bins {
		out = append(out, api.PluginTakenBin{From: bin.From, To: bin.To})
	}
	for row, score := range scores {
		if math.IsNaN(score) {
			continue
		}
		at := binAt(bins, score)
		out[at].Count++
		if taken[row] {
			out[at].Taken++
		}
	}
	return out
}

// binsOf are the bins for scores that are sorted, empty.
func binsOf(finite []float64) []api.PluginBin {
	last := len(finite) - 1
	lowest, highest := finite[0], finite[last]
	low, high := finite[last/100], finite[last-last/100]
	if low == high || highest/4-lowest/4 <= high-low { // divided first, as the range itself may overflow
		return evenBins(lowest, highest, histogramBins)
	}
	bins := evenBins(low, high, histogramBins-2)
	if lowest < low {
		bins = slices.Insert(bins, 0, api.PluginBin{From: lowest, To: low})
	}
	if highest > high {
		bins = append(bins, api.PluginBin{From: high, To: highest})
	}
	return bins
}

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

// consider records a batch that faulted, and one of this many others, by its seed.
func (r *recordings) consider(log *slog.Logger, u *use, b *abi.Batch, scores []float64, err error, now time.Time, every int) {
	every = cmp.Or(every, r.limits.RecordEvery)
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
