package shard

import (
	"errors"
	"fmt"
	"math"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
)

// groups groups the dead letters that are in memory once more. Of a submission that is in the history only the number of its letters
// is compared.
func (p auditor) groups() error {
	m := p.m
	there, inMemory := newLetterGroups(math.MaxInt), map[queue.SubmissionID]bool{}
	m.backlog.Each(func(sub *backlog.Submission) bool {
		r := sub.Data.(*record)
		there.addAll(r)
		inMemory[r.id] = true
		return true
	})
	for id := range m.letters.ofEnded {
		if r := m.ended[id]; r != nil {
			there.addAll(r)
			inMemory[id] = true
		}
	}
	var found []error
	listed, of := m.letters.groups.others, map[queue.SubmissionID]int64{}
	for fingerprint, x := range m.letters.groups.of {
		y := there.of[fingerprint]
		if y == nil {
			y = &letterGroup{}
		}
		sum := int64(0)
		for id, share := range x.shares {
			sum += share.count
			of[id] += share.count
			_, loose := m.letters.groups.loose[id]
			if now := y.shares[id]; inMemory[id] && !share.tells(now, loose) || share.count <= 0 ||
				share.first < x.first || share.last > x.last {
				found = append(found, fmt.Errorf("dead letters %s of submission %s: %+v are counted, %+v there",
					fingerprint, id, share, now))
			}
			delete(y.shares, id)
		}
		if listed += sum; sum != x.count || sum <= 0 || len(y.shares) > 0 {
			found = append(found, fmt.Errorf("dead letters %s: %d are counted, %d by submission, without %+v",
				fingerprint, x.count, sum, y.shares))
		}
	}
	for id, n := range of {
		if letters := int64(m.letters.of(id)); n > letters || m.letters.groups.others == 0 && n < letters {
			found = append(found, fmt.Errorf("dead letters of submission %s: %d are in groups, %d there", id, n, letters))
		}
	}
	if all := int64(m.stats.dead + m.stats.endedLetters); listed != all || m.letters.groups.others < 0 {
		found = append(found, fmt.Errorf("dead letters: %d are in groups or have none, %d there; %d have none", listed,
			all, m.letters.groups.others))
	}
	return errors.Join(found...)
}

// tells says whether a share is that of these letters. loose: its times are bounds only.
func (s *letterShare) tells(of letterShare, loose bool) bool {
	return s.count == of.count && (*s == of || loose && s.first <= of.first && s.last >= of.last)
}
