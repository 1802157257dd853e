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

// conditions of a rule are sent to the first shard only, whose ETag clients were shown. Those of settings are checked
// against all shards (conditionsOfAll).
var conditions = []string{"If-Match", "If-None-Match"}

// did says that a shard has made a change, or that there is nothing of it there, where that is as good.
func (p *shardPart) did(absentToo bool) bool {
	return p.good() || absentToo && p.err == nil && p.status == http.StatusNotFound
}

// change makes a change in all shards. The first one is asked before the others: what it refuses is not done at all. If
// a shard fails, the change fails. absentToo: a shard that does not have what the path names has nothing to change.
// A first shard that does not serve keeps no other from the change: in an incident, a pause has to take effect where it
// can. If it was to check a condition, the change fails.
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

// changedInAll makes the change of the call in all shards, and answers with what add joins of their answers. The answer
// has the status and the links of the first shard that made the change.
func changedInAll[T any](add func(sum, one *T), absentToo bool) joining {
	return changedIf(add, absentToo, (*shardCall).conditionsOfFirst)
}

// settingsInAll is changedInAll for what clients name by an ETag of all shards.
func settingsInAll[T any](add func(sum, one *T), absentToo bool) joining {
	return changedIf(add, absentToo, (*shardCall).conditionsOfAll)
}

// conditionsOfFirst has the first shard check the conditions of the call.
func (x *shardCall) conditionsOfFirst(parts []*shardPart) error {
	for _, name := range conditions {
		if given := x.c.Request().Header[name]; given != nil {
			parts[0].header[name] = given
		}
	}
	return nil
}

// conditionsOfAll checks the conditions of the call against what all shards have. A shard could have been changed
// alone, or lack a change that failed there. Each shard then changes only what it had when it was asked.
func (x *shardCall) conditionsOfAll(parts []*shardPart) error {
	header := x.c.Request().Header
	given := Conditions{IfMatch: header.Get("If-Match"), IfNoneMatch: header.Get("If-None-Match")}
	if given.IfMatch == "" && given.IfNoneMatch == "" {
		return nil
	}
	looks := x.parts()
	for _, p := range looks {
		p.method, p.body = http.MethodGet, nil
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
		} else if x.c.Request().Method == http.MethodPut {
			parts[i].header.Set("If-None-Match", "*")
		}
	}
	return given.hold("setting", version, etag)
}

// etagOver adds the ETag of a shard to that of the shards before it. Shards that have nothing are left out.
func etagOver(before, own string) string {
	if before == "" || own == "" {
		return before + own
	}
	return queue.ETag(0, []byte(before+own))
}

// etagOverAll is the ETag of what shards answered.
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
