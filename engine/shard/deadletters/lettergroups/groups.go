// Package lettergroups counts the dead letters of a queue by the fingerprint of their error. It is pure.
//
//quern:tests pure
package lettergroups

import (
	"maps"
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// Groups counts dead letters by the fingerprint of their errors. The machine keeps one up to date for all its letters,
// wherever their submissions are. A question that this one cannot answer fills another one from the letters themselves.
//
// It is bounded: at most `most` fingerprints have a group, each with one error as an example. Letters of other
// fingerprints are only counted (Others). A group has all letters of its fingerprint: a new one is made only while
// Others is 0, as Others might have older letters of it.
//
// Counts are signed, and never corrected: one below 0 is a fault, which the audit reports.
//
// A letter that goes may have been the first or the last of its group. Then the times of the group are only bounds,
// until a question looks at the letters of that submission again.
type Groups struct {
	Most   int
	Of     map[string]*Group // by fingerprint
	Others int64             // letters without a group
	Loose  map[queue.SubmissionID]struct{}
	// While the letters of a submission are looked at: its id, and whether letters came or went meanwhile.
	looked  queue.SubmissionID
	changed bool
}

// Max bounds the groups of a queue, in memory and in an answer: one takes up to
// queue.MaxErrorBytes and some hundred bytes, and errors may differ in every word.
const Max = 10_000

// Group has the letters with one fingerprint, counted by submission.
type Group struct {
	Share
	example string
	Shares  map[queue.SubmissionID]Share
	loose   bool // first and last are bounds: the shares have the exact times
}

// Share is a number of letters, and when the first and the last of them died.
type Share struct {
	First, Last queue.Time
	Count       int64
}

// New keeps at most this many groups.
func New(most int) *Groups {
	return &Groups{Most: most, Of: map[string]*Group{}, Loose: map[queue.SubmissionID]struct{}{}}
}

// Add counts a letter of a submission.
func (g *Groups) Add(id queue.SubmissionID, fingerprint, text string, died queue.Time) {
	g.changed = g.changed || id == g.looked
	x := g.Of[fingerprint]
	if x == nil {
		if g.Others != 0 || len(g.Of) >= g.Most {
			g.Others++
			return
		}
		x = &Group{example: strings.Clone(text), Shares: map[queue.SubmissionID]Share{}}
		g.Of[fingerprint] = x
	}
	share := x.Shares[id]
	share.add(died)
	x.Shares[id] = share
	x.add(died)
}

func (s *Share) add(died queue.Time) {
	if s.Count == 0 {
		s.First, s.Last = died, died
	}
	s.Count++
	s.First, s.Last = min(s.First, died), max(s.Last, died)
}

// Remove takes out a letter that was added.
func (g *Groups) Remove(id queue.SubmissionID, fingerprint string, died queue.Time) {
	g.changed = g.changed || id == g.looked
	x := g.Of[fingerprint]
	if x == nil {
		g.Others--
		return
	}
	share := x.Shares[id]
	if share.bounds(died) {
		g.Loose[id] = struct{}{}
	}
	x.loose = x.loose || x.bounds(died)
	x.Count--
	if share.Count--; share.Count != 0 {
		x.Shares[id] = share
		return
	}
	g.part(fingerprint, x, id)
}

// bounds says that a letter of this time may be the first or the last one, so that the times are only bounds without
// it.
func (s *Share) bounds(died queue.Time) bool {
	return s.First != s.Last && (died == s.First || died == s.Last)
}

// part removes a share, and its group with the last one.
func (g *Groups) part(fingerprint string, x *Group, id queue.SubmissionID) {
	if delete(x.Shares, id); len(x.Shares) == 0 {
		delete(g.Of, fingerprint)
	}
}

// Drop takes out all letters of a submission, and `letters` is their number.
func (g *Groups) Drop(id queue.SubmissionID, letters uint32) {
	left := int64(letters)
	for fingerprint, x := range g.Of {
		if share, has := x.Shares[id]; has {
			x.loose = x.loose || x.bounds(share.First) || x.bounds(share.Last)
			x.Count -= share.Count
			left -= share.Count
			g.part(fingerprint, x, id)
		}
	}
	g.Others -= left
	g.changed = g.changed || id == g.looked
	delete(g.Loose, id)
}

// Tells says whether a share agrees with a count of its letters. loose: its times are only bounds.
func (s *Share) Tells(of Share, loose bool) bool {
	return s.Count == of.Count && (*s == of || loose && s.First <= of.First && s.Last >= of.Last)
}

// Look begins to look at the letters of a submission.
func (g *Groups) Look(id queue.SubmissionID) { g.looked, g.changed = id, false }

// Exactly ends the look: it takes over the times that were found, unless letters came or went meanwhile.
func (g *Groups) Exactly(id queue.SubmissionID, found *Groups) {
	if g.looked != id || g.changed {
		return
	}
	g.looked = 0
	for fingerprint, x := range g.Of {
		if y := found.Of[fingerprint]; y != nil && x.Shares[id].Count == y.Count {
			x.Shares[id], x.loose = y.Share, true
		}
	}
	delete(g.Loose, id)
}

// tight computes the first and the last time of a group from its shares.
func (x *Group) tight() {
	x.First, x.Last, x.loose = x.Last, x.First, false
	for _, share := range x.Shares {
		x.First, x.Last = min(x.First, share.First), max(x.Last, share.Last)
	}
}

// List answers for the letters that the filter means, in no order and without patterns. letters is how many the
// filter's submission has, if it names one. known: the counters can answer; otherwise only the letters themselves can.
func (g *Groups) List(f *queue.DeadFilter, letters uint32) (list api.DeadGroups, known bool) {
	list.Items = []api.DeadGroup{}
	chosen := g.Of
	if name := f.Fingerprint; name != "" {
		x := g.Of[name]
		if x == nil {
			return list, g.Others == 0
		}
		chosen = map[string]*Group{name: x}
	}
	count := uint64(0)
	for fingerprint, x := range chosen {
		if d := x.of(f.Submission); d.Count > 0 {
			d.Fingerprint = fingerprint
			list.Items = append(list.Items, d)
			count += d.Count
		}
	}
	switch {
	case f.Fingerprint != "":
		return list, true
	case f.Submission != 0:
		return list, count == uint64(letters)
	}
	list.Others = uint64(g.Others)
	return list, g.Others == 0 || len(g.Of) >= g.Most
}

// of describes the letters of a submission in a group, or (0) all letters of the group.
func (x *Group) of(id queue.SubmissionID) api.DeadGroup {
	share, submissions := x.Shares[id], 1
	if id == 0 {
		if x.loose {
			x.tight()
		}
		share, submissions = x.Share, len(x.Shares)
	}
	return api.DeadGroup{Example: x.example, Count: uint64(share.Count), Submissions: uint64(submissions),
		FirstDiedAt: share.First.API(), LastDiedAt: share.Last.API()}
}

// Inexact are the submissions whose letters have to be looked at to get exact times for the filter.
func (g *Groups) Inexact(f *queue.DeadFilter) []queue.SubmissionID {
	if _, loose := g.Loose[f.Submission]; f.Submission != 0 && !loose {
		return nil
	} else if loose {
		return []queue.SubmissionID{f.Submission}
	}
	return slices.Collect(maps.Keys(g.Loose))
}
