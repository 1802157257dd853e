package web

// Changes of a queue of several shards that are made in every shard, such as settings of values and orders to
// consumers.
//
//	shard 1 ─► refuses: nothing is done
//	        └► all others at once ─► one fails: the call fails, and says where it is done
//
// Each of these changes may be made again: a shard that has it already changes nothing. So a client that got an error
// sends its call again.

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
)

// numbersOf are the numbers of shards in words: 1, 2 and 4.
func numbersOf(parts []*shardPart) string {
	var list []string
	for _, p := range parts {
		list = append(list, strconv.Itoa(p.number))
	}
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}

// conditions are the headers of calls that change only what their sender has seen.
var conditions = []string{"If-Match", "If-None-Match"}

// did says that a shard has made a change or, with absentToo, that the shard lacks the thing to change.
func (p *shardPart) did(absentToo bool) bool {
	return p.good() || absentToo && p.err == nil && p.status == http.StatusNotFound
}

// change makes a change in all shards. The first one is asked before the others: if it refuses, no shard makes the
// change. If a shard fails, the change fails. absentToo: a shard that lacks the thing in the path has nothing to
// change. If the first shard does not serve, the others still make the change: in an incident, a pause has to take
// effect where it can. But if the first shard was to check a condition, the change fails.
func (x *shardCall) change(parts []*shardPart, absentToo bool) error {
	conditional := slices.ContainsFunc(conditions, func(name string) bool { return parts[0].header.Get(name) != "" })
	if err := x.ask(parts[:1]); err != nil {
		return err
	}
	if !parts[0].did(absentToo) && (!parts[0].absent() || conditional) {
		return parts[0].problem()
	}
	if err := x.ask(parts[1:]); err != nil {
		return err
	}
	i := slices.IndexFunc(parts, func(p *shardPart) bool { return !p.did(absentToo) })
	if i < 0 {
		if !slices.ContainsFunc(parts, (*shardPart).good) {
			return parts[0].problem() // no shard has it
		}
		return nil
	}
	why := parts[i].problem()
	why.Detail = fmt.Sprintf("Shard %d of the queue %q: %s %s", parts[i].number, x.queue, why.Detail, doneBy(parts))
	return why
}

// doneBy says which shards have made a change that failed in another one. An operator has to know where a pause holds,
// and where it does not.
func doneBy(parts []*shardPart) string {
	done := slices.DeleteFunc(slices.Clone(parts), func(p *shardPart) bool { return !p.good() })
	switch len(done) {
	case 0:
		return "No other shard has done it."
	case 1:
		return "Shard " + numbersOf(done) + " has done it. Send it again for the others."
	}
	return "Shards " + numbersOf(done) + " have done it. Send it again for the others."
}

// changedInAll makes the change of the call in all shards, and answers with their answers, joined by add. The answer
// has the status and the links of the first shard that made the change.
func changedInAll[T any](add func(sum, one *T), absentToo bool) joining {
	return changedIf(add, absentToo, func(*shardCall, []*shardPart) error { return nil })
}

// settingsInAll is changedInAll for settings, which have an ETag of all shards.
func settingsInAll[T any](add func(sum, one *T), absentToo bool) joining {
	return changedIf(add, absentToo, func(x *shardCall, parts []*shardPart) error {
		return x.conditionsOfAll(parts, "setting", x.below)
	})
}

func (x *shardCall) conditions() Conditions {
	header := x.c.Request().Header
	return Conditions{IfMatch: header.Get("If-Match"), IfNoneMatch: header.Get("If-None-Match")}
}

// conditionsOfAll checks the conditions of the call against the state of all shards at a path below the queue: a shard
// could have been changed alone, or lack a change that failed there. Each shard then makes the change only if its state
// is still the same.
func (x *shardCall) conditionsOfAll(parts []*shardPart, what, below string) error {
	given := x.conditions()
	if given.IfMatch == "" && given.IfNoneMatch == "" {
		return nil
	}
	var looks []*shardPart
	for _, of := range parts {
		p := x.part(of.number)
		p.method, p.body, p.path = http.MethodGet, nil, "/v1/queues/"+url.PathEscape(p.name)+below
		looks = append(looks, p)
	}
	if err := x.ask(looks); err != nil {
		return err
	}
	version, etag := uint32(0), ""
	for i, p := range looks {
		switch {
		case p.good():
		case p.absent() || p.status == http.StatusNotFound:
			continue
		default:
			return p.problem()
		}
		if own := p.header.Get("ETag"); own != "" {
			version, etag = 1, etagOver(etag, own)
			parts[i].header.Set("If-Match", own)
		}
	}
	for i, p := range looks {
		if !p.absent() && parts[i].header.Get("If-Match") == "" && x.c.Request().Method != http.MethodDelete {
			parts[i].header.Set("If-None-Match", "*")
		}
	}
	return given.hold(what, version, etag)
}

// etagOver adds the ETag of a shard to that of the shards before it. Shards without an ETag are left out.
func etagOver(before, own string) string {
	if before == "" || own == "" {
		return before + own
	}
	return queue.ETag(0, []byte(before+own))
}

// etagOverAll is the ETag of the answers of shards.
func etagOverAll(good []*shardPart) (etag string) {
	for _, p := range good {
		etag = etagOver(etag, p.header.Get("ETag"))
	}
	return etag
}

func changedIf[T any](add func(sum, one *T), absentToo bool, hold func(*shardCall, []*shardPart) error) joining {
	return func(x *shardCall) error {
		if err := x.readBody(); err != nil {
			return err
		}
		parts := x.parts()
		if err := hold(x, parts); err != nil {
			return err
		}
		if err := x.change(parts, absentToo); err != nil {
			return err
		}
		good := slices.DeleteFunc(parts, func(p *shardPart) bool { return !p.good() })
		x.linked(good[0])
		if etag := etagOverAll(good); etag != "" {
			x.c.Response().Header().Set("ETag", etag)
		}
		if len(good[0].text) == 0 {
			return x.c.NoContent(good[0].status)
		}
		sum, err := total(good, add)
		if err != nil {
			return err
		}
		return x.c.JSON(cmp.Or(good[0].status, http.StatusOK), sum)
	}
}
