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

// conditions are sent to the first shard only. Its ETag is the one that clients were shown, and those of the others
// differ: they count their versions by themselves.
var conditions = []string{"If-Match", "If-None-Match"}

// did says that a shard has made a change, or that there is nothing of it there, where that is as good.
func (p *shardPart) did(absentToo bool) bool {
	return p.good() || absentToo && p.err == nil && p.status == http.StatusNotFound
}

// change makes a change in all shards. The first one is asked before the others: what it refuses is not done at all. If
// a shard fails, the change fails. absentToo: a shard that does not have what the path names has nothing to change.
// A first shard that does not serve keeps no other from the change: in an incident, a pause has to take effect where it
// can.
func (x *shardCall) change(parts []*shardPart, absentToo bool) error {
	for _, name := range conditions {
		if given := x.c.Request().Header[name]; given != nil {
			parts[0].header[name] = given
		}
	}
	if err := x.ask(parts[:1]); err != nil {
		return err
	}
	if !parts[0].did(absentToo) && !parts[0].absent() {
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
	return func(x *shardCall) error {
		if err := x.readBody(); err != nil {
			return err
		}
		parts := x.parts()
		if err := x.change(parts, absentToo); err != nil {
			return err
		}
		good := slices.DeleteFunc(parts, func(p *shardPart) bool { return !p.good() })
		x.linked(good[0])
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
