package deadletters

import (
	"errors"
	"fmt"
	"math"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/deadletters/lettergroups"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Audit lists and groups the dead letters in memory again. For a submission in the history it compares only the number
// of letters. Three structures say how many dead letters there are: the try of each chunk, the index of submissions
// that have some, and the groups by error. Each is kept up to date by itself, and here they must agree.
func (p *Part) Audit() error {
	m := p.m
	there, inMemory := lettergroups.New(math.MaxInt), map[queue.SubmissionID]bool{}
	m.Backlog.Each(func(sub *backlog.Submission) bool {
		r := sub.Data.(*machine.Record)
		group(there, r)
		inMemory[r.ID] = true
		return true
	})
	for id := range p.OfEnded {
		if r := m.Endings.ByID[id]; r != nil {
			group(there, r)
			inMemory[id] = true
		}
	}
	var found []error
	holders, endedLetters := uint64(0), uint64(0)
	m.Backlog.Each(func(sub *backlog.Submission) bool {
		if sub.Data.(*machine.Record).Dead > 0 {
			holders++
		}
		return true
	})
	for id, n := range p.OfEnded {
		endedLetters += uint64(n)
		if r := m.Endings.ByID[id]; r != nil && r.Dead == n {
			holders++
		}
	}
	if p.Index.Len() != holders || m.Stats.EndedLetters != endedLetters {
		found = append(found, fmt.Errorf("submissions with dead letters, and letters of ended ones: %d and %d are "+
			"counted, %d and %d there", p.Index.Len(), m.Stats.EndedLetters, holders, endedLetters))
	}
	// A group may lack letters (Others) but never have too many: a submission may have fewer letters in groups than it
	// has, and then Others counts the rest.
	listed, of := p.Groups.Others, map[queue.SubmissionID]int64{}
	for fingerprint, x := range p.Groups.Of {
		y := there.Of[fingerprint]
		if y == nil {
			y = &lettergroups.Group{}
		}
		sum := int64(0)
		for id, share := range x.Shares {
			sum += share.Count
			of[id] += share.Count
			_, loose := p.Groups.Loose[id]
			if now := y.Shares[id]; inMemory[id] && !share.Tells(now, loose) || share.Count <= 0 ||
				share.First < x.First || share.Last > x.Last {
				found = append(found, fmt.Errorf("dead letters %s of submission %s: %+v are counted, %+v there",
					fingerprint, id, share, now))
			}
			delete(y.Shares, id)
		}
		if listed += sum; sum != x.Count || sum <= 0 || len(y.Shares) > 0 {
			found = append(found, fmt.Errorf("dead letters %s: %d are counted, %d by submission, without %+v",
				fingerprint, x.Count, sum, y.Shares))
		}
	}
	for id, n := range of {
		if letters := int64(p.Of(id)); n > letters || p.Groups.Others == 0 && n < letters {
			found = append(found, fmt.Errorf("dead letters of submission %s: %d are in groups, %d there", id, n,
				letters))
		}
	}
	if all := int64(m.Stats.Dead + m.Stats.EndedLetters); listed != all || p.Groups.Others < 0 {
		found = append(found, fmt.Errorf("dead letters: %d are in groups or have none, %d there; %d have none", listed,
			all, p.Groups.Others))
	}
	return errors.Join(found...)
}
