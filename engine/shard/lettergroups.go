package shard

import (
	"maps"
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// letterGroups counts dead letters by the fingerprint of their errors. The machine keeps one of all its letters, wherever their submissions
// are, up to date; a question that it cannot answer fills one of its own from the letters themselves.
//
// It is bounded: at most `most` fingerprints have a group, each with one error as an example. The letters of others are only counted. A
// fingerprint is in here with all of its letters or with none: a new one is let in only while there are no others, as there may be older
// letters of it among them.
//
// Counts are signed, and never fixed: one below 0 is a fault, which the audit reports.
//
// A letter that goes takes a time away, which may be the first or the last of its group. Then the times are bounds
// only, until the letters of its submission are looked at again, which a question does.
type letterGroups struct {
	most   int
	of     map[string]*letterGroup // by fingerprint
	others int64                   // letters without a group
	loose  map[queue.SubmissionID]struct{}
	// While the letters of a submission are looked at: which, and whether some came or went meanwhile.
	looked  queue.SubmissionID
	changed bool
}

// maxLetterGroups bounds the groups of a queue, in memory and in an answer: one takes up to queue.MaxErrorBytes and some hundred bytes, and
// errors may differ in every word.
const maxLetterGroups = 10_000

// letterGroup is the letters of one fingerprint, with what each submission has of them.
type letterGroup struct {
	letterShare
	example string
	shares  map[queue.SubmissionID]letterShare
	loose   bool // first and last are bounds: those of the shares say more
}

// letterShare is a number of letters, and when the first and the last of them died.
type letterShare struct {
	first, last queue.Time
	count       int64
}

func newLetterGroups(most int) *letterGroups {
	return &letterGroups{most: most, of: map[string]*letterGroup{}, loose: map[queue.SubmissionID]struct{}{}}
}

// add counts a letter of a submission.
func (g *letterGroups) add(id queue.SubmissionID, fingerprint, text string, died queue.Time) {
	g.changed = g.changed || id == g.looked
	x := g.of[fingerprint]
	if x == nil {
		if g.others != 0 || len(g.of) >= g.most {
			g.others++
			return
		}
		x = &letterGroup{example: strings.Clone(text), shares: map[queue.SubmissionID]letterShare{}}
		g.of[fingerprint] = x
	}
	share := x.shares[id]
	share.add(died)
	x.shares[id] = share
	x.add(died)
}

func (s *letterShare) add(died queue.Time) {
	if s.count == 0 {
		s.first, s.last = died, died
	}
	s.count++
	s.first, s.last = min(s.first, died), max(s.last, died)
}

// remove takes out a letter that was added.
func (g *letterGroups) remove(id queue.SubmissionID, fingerprint string, died queue.Time) {
	g.changed = g.changed || id == g.looked
	x := g.of[fingerprint]
	if x == nil {
		g.others--
		return
	}
	share := x.shares[id]
	if share.bounds(died) {
		g.loose[id] = struct{}{}
	}
	x.loose = x.loose || x.bounds(died)
	x.count--
	if share.count--; share.count != 0 {
		x.shares[id] = share
		return
	}
	g.part(fingerprint, x, id)
}

// bounds says that the first or the last may be another one without a letter of this time.
func (s *letterShare) bounds(died queue.Time) bool {
	return s.first != s.last && (died == s.first || died == s.last)
}

// part removes a share, and its group with the last one.
func (g *letterGroups) part(fingerprint string, x *letterGroup, id queue.SubmissionID) {
	if delete(x.shares, id); len(x.shares) == 0 {
		delete(g.of, fingerprint)
	}
}

// drop takes out all letters of a submission, which are so many.
func (g *letterGroups) drop(id queue.SubmissionID, letters uint32) {
	left := int64(letters)
	for fingerprint, x := range g.of {
		if share, has := x.shares[id]; has {
			x.loose = x.loose || x.bounds(share.first) || x.bounds(share.last)
			x.count -= share.count
			left -= share.count
			g.part(fingerprint, x, id)
		}
	}
	g.others -= left
	g.changed = g.changed || id == g.looked
	delete(g.loose, id)
}

// addAll adds the dead chunks of a submission.
func (g *letterGroups) addAll(r *record) {
	for _, t := range r.tries {
		if t.reason == journal.Dead {
			g.add(r.id, queue.Fingerprint(t.err), t.err, t.died())
		}
	}
}

// look begins to look at the letters of a submission.
func (g *letterGroups) look(id queue.SubmissionID) { g.looked, g.changed = id, false }

// exactly ends that: the times of the letters are those that were found, unless some came or went meanwhile.
func (g *letterGroups) exactly(id queue.SubmissionID, found *letterGroups) {
	if g.looked != id || g.changed {
		return
	}
	g.looked = 0
	for fingerprint, x := range g.of {
		if y := found.of[fingerprint]; y != nil && x.shares[id].count == y.count {
			x.shares[id], x.loose = y.letterShare, true
		}
	}
	delete(g.loose, id)
}

// tight works the first and the last of a group out from its shares.
func (x *letterGroup) tight() {
	x.first, x.last, x.loose = x.last, x.first, false
	for _, share := range x.shares {
		x.first, x.last = min(x.first, share.first), max(x.last, share.last)
	}
}

// list answers for the letters that the filter means, in no order and without patterns; `others` have no group. letters is how many the
// filter's submission has, if it names one. known: the counters tell; otherwise only the letters themselves do.
func (g *letterGroups) list(f *queue.DeadFilter, letters uint32) (groups []queue.DeadGroup, others uint64, known bool) {
	chosen := g.of
	if name := f.Fingerprint; name != "" {
		x := g.of[name]
		if x == nil {
			return nil, 0, g.others == 0
		}
		chosen = map[string]*letterGroup{name: x}
	}
	count := uint64(0)
	for fingerprint, x := range chosen {
		if d := x.of(f.Submission); d.Count > 0 {
			d.Fingerprint = fingerprint
			groups = append(groups, d)
			count += d.Count
		}
	}
	switch {
	case f.Fingerprint != "":
		return groups, 0, true
	case f.Submission != 0:
		return groups, 0, count == uint64(letters)
	}
	return groups, uint64(g.others), g.others == 0 || len(g.of) >= g.most
}

// of describes the letters of a group that a submission has, or (0) all of them.
func (x *letterGroup) of(id queue.SubmissionID) queue.DeadGroup {
	share, submissions := x.shares[id], 1
	if id == 0 {
		if x.loose {
			x.tight()
		}
		share, submissions = x.letterShare, len(x.shares)
	}
	return queue.DeadGroup{Example: x.example, Count: uint64(share.count), Submissions: uint64(submissions),
		First: share.first, Last: share.last}
}

// inexact are the submissions whose letters have to be looked at before the times are exact of what the filter means.
func (g *letterGroups) inexact(f *queue.DeadFilter) []queue.SubmissionID {
	if _, loose := g.loose[f.Submission]; f.Submission != 0 && !loose {
		return nil
	} else if loose {
		return []queue.SubmissionID{f.Submission}
	}
	return slices.Collect(maps.Keys(g.loose))
}
