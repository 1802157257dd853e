package web

// Numbers of shards are added up here, and short lists are joined whole.
//
//	summed     one object: GET .../meta-keys/region/values/eu
//	gathered   a list that is short enough to be read whole: the kinds of errors, the rules, the strategies in use
//	joinedList a list of any length, page by page (overshards_lists.go)
//
// Numbers of chunks and submissions add up, as each is in one shard. Every other field is the same in all shards, or
// the first shard's is taken.

import (
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// headerMissing names the shards that an answer lacks, also for objects, which have no field for them.
const headerMissing = "Quern-Missing-Shards"

// headerLastKnown says that the answer has the last known numbers of these shards, and from when the oldest are.
const headerLastKnown = "Quern-Last-Known-At"

// A path may name something that only some shards have met, such as a consumer or a value. Their answers are enough.
//
// found leaves out shards that lack the thing in the path, if another shard has it. A shard that does not answer may
// have it, and is missing.
func found(parts []*shardPart) (good []*shardPart, missing []api.MissingShard, refused error) {
	rest := slices.DeleteFunc(slices.Clone(parts), func(p *shardPart) bool {
		return p.err == nil && p.status == http.StatusNotFound
	})
	if len(rest) == 0 {
		return nil, nil, parts[0].problem()
	}
	return answering(rest)
}

// A client that reads one number must be able to see that it is not whole, also where the body has no place to say so.
//
// lacks tells the client which shards the answer lacks.
func (x *shardCall) lacks(missing []api.MissingShard) {
	var names []string
	for i := range missing {
		names = append(names, missing[i].Shard)
	}
	if len(names) > 0 {
		x.c.Response().Header().Set(headerMissing, strings.Join(names, ","))
	}
}

// The shards are asked at once, so the numbers are of slightly different moments, as those of one long list are.
//
// summed joins the answers of the shards about one thing: add adds the answer of a shard to those before it. finish
// completes the sum when all are added; nil: there is nothing to complete.
func summed[T any](add func(sum, one *T), finish func(x *shardCall, sum *T, missing []api.MissingShard)) joining {
	return func(x *shardCall) error {
		if err := x.readBody(); err != nil {
			return err
		}
		parts := x.parts()
		if err := x.ask(parts); err != nil {
			return err
		}
		good, missing, refused := found(parts)
		if refused != nil {
			return refused
		}
		sum, err := total(good, add)
		if err != nil {
			return err
		}
		x.lacks(missing)
		if finish != nil {
			finish(x, sum, missing)
		}
		if etag := etagOverAll(good); etag != "" {
			x.c.Response().Header().Set("ETag", etag)
		}
		return x.c.JSON(http.StatusOK, sum)
	}
}

// total adds up the answers of shards. The others are added to the first answer, so fields that are the same in all
// shards need no line in add.
func total[T any](good []*shardPart, add func(sum, one *T)) (*T, error) {
	sum := new(T)
	for i, p := range good {
		one := new(T)
		if err := p.decode(one); err != nil {
			return nil, err
		}
		if i == 0 {
			sum = one
		} else {
			add(sum, one)
		}
	}
	return sum, nil
}

// gathering says how a list is joined that is read whole. A is the answer, T an item of it.
type gathering[A, T any] struct {
	list    func(*A) *[]T
	next    func(*A) *string             // nil: the list has no pages
	missing func(*A) *[]api.MissingShard // where the answer says which shards it lacks
	more    func(sum, one *A)            // joins the fields beside the list; nil: there are none
	key     func(*T) string              // items with the same key are one
	add     func(sum, one *T)
	at      placing[T]
	named   func(one *T, p *shardPart) // marks an item as one of its shard; nil: it needs no mark
	most    int                        // items; 0: all
	done    func(one *T, answered int) // finishes an item when all shards that answered are joined; nil: nothing
}

// maxRounds bounds how many pages of a list are read of each shard. The lists that are read whole are bounded by the
// engine: 10,000 kinds of errors, 10,000 rules, 256 strategies.
const maxRounds = 1000

// gathered reads a list of all shards whole, joins items with the same key, sorts them, and answers with a page. The
// order, such as the largest kinds of errors first, is known only when all is added up. So a page cannot be made of
// pages of the shards, as joinedList does. The cursor is a place in the joined list, and needs nothing of the shards.
func gathered[A, T any](by gathering[A, T]) joining {
	return func(x *shardCall) error {
		answers, missing, err := readAll(x, &by)
		if err != nil {
			return err
		}
		var sum *A
		items, at := []T{}, map[string]int{}
		for _, one := range answers {
			if sum == nil {
				sum = one
			} else if by.more != nil {
				by.more(sum, one)
			}
			for _, item := range *by.list(one) {
				if i, is := at[by.key(&item)]; is {
					by.add(&items[i], &item)
					continue
				}
				at[by.key(&item)] = len(items)
				items = append(items, item)
			}
		}
		arrange(items, by.at)
		if by.most > 0 {
			items = items[:min(by.most, len(items))]
		}
		items = behind(items, x.c.QueryParam("cursor"), by.at)
		list, next, err := pageOf(items, "", by.at, asIs)
		for i := range list {
			if by.done != nil {
				by.done(&list[i], len(answers))
			}
		}
		if err != nil {
			return err
		}
		x.lacks(missing)
		*by.list(sum), *by.missing(sum) = list, missing
		if by.next != nil {
			*by.next(sum) = next
		}
		return x.c.JSON(http.StatusOK, sum)
	}
}

// readAll are the answers of the shards, each with its whole list. The shards are asked for their next pages together.
// A shard that stops serving between two pages is missing, and its earlier items stay.
func readAll[A, T any](x *shardCall, by *gathering[A, T]) (all []*A, missing []api.MissingShard, err error) {
	byNumber := map[int]*A{}
	parts := x.askable()
	for _, p := range parts {
		p.query.Del("cursor")
	}
	for round := 0; len(parts) > 0 && round < maxRounds; round++ {
		if err := x.ask(parts); err != nil {
			return nil, nil, err
		}
		good, lost, refused := answering(parts)
		if refused != nil && len(all) == 0 {
			return nil, nil, refused
		}
		missing = append(missing, lost...)
		parts = nil
		for _, p := range good {
			one := new(A)
			if err := p.decode(one); err != nil {
				return nil, nil, err
			}
			list := by.list(one)
			for i := range *list {
				if by.named != nil {
					by.named(&(*list)[i], p)
				}
			}
			if first := byNumber[p.number]; first != nil {
				*by.list(first) = append(*by.list(first), *list...)
			} else {
				byNumber[p.number], all = one, append(all, one)
			}
			if by.next != nil && *by.next(one) != "" {
				again := x.part(p.number)
				again.query.Set("cursor", *by.next(one))
				parts = append(parts, again)
			}
		}
	}
	return all, missing, nil
}

// Times that are absent do not take part: a shard without dead letters has no first one.
//
// earlier and later are the first and the last of two times, either of which may be none.
func earlier(a, b api.Time) api.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a.Time) {
		return b
	}
	return a
}

func later(a, b api.Time) api.Time {
	if b.After(a.Time) {
		return b
	}
	return a
}

// addConsumer joins a consumer that several shards know. A consumer of the whole queue is attached to all of them.
func addConsumer(sum, one *api.Consumer) {
	order := []string{api.ConsumerAttached, api.ConsumerAway, api.ConsumerDetached}
	if slices.Index(order, one.State) < slices.Index(order, sum.State) {
		sum.State = one.State
	}
	sum.AttachedSince = earlier(sum.AttachedSince, one.AttachedSince)
	sum.AwaySince, sum.LostAt = earlier(sum.AwaySince, one.AwaySince), earlier(sum.LostAt, one.LostAt)
	if sum.State != api.ConsumerAway {
		sum.AwaySince, sum.LostAt = api.Time{}, api.Time{}
	}
	if sum.State != api.ConsumerAttached {
		sum.AttachedSince = api.Time{}
	}
	sum.LastSeenAt = later(sum.LastSeenAt, one.LastSeenAt)
	sum.Draining, sum.Quiet = sum.Draining || one.Draining, sum.Quiet || one.Quiet
	sum.Reserved += one.Reserved
	sum.OldestReservedAt = earlier(sum.OldestReservedAt, one.OldestReservedAt)
	sum.Overdue = min(sum.Overdue+one.Overdue, api.MaxOverdue)
}

// addReleased counts the chunks that went back.
func addReleased(sum, one *api.Released) { sum.Released += one.Released }

// consumersOverShards is the list of consumers by name. All shards sort names in the same way, so those that several
// know are at the heads of their pages at the same time.
func consumersOverShards(url.Values) listOrder[api.Consumer] {
	return listOrder[api.Consumer]{at: func(c *api.Consumer) string { return c.Consumer }, add: addConsumer}
}

// chunksOfConsumer is one consumer with its reservations, the oldest first. A shard that has not met this consumer
// answers 404, and is left out (found).
func chunksOfConsumer(url.Values) listOrder[api.HeldChunk] {
	return listOrder[api.HeldChunk]{at: func(h *api.HeldChunk) string { return upTo(h.ReservedAt) },
		head: func(good []*shardPart) (any, error) { return total(good, addConsumer) }}
}

// addKey joins a meta key. The number of different values over all shards is not known without reading them all. So a
// value counts once in each shard that has it. Settings are in all shards, so those of the first one count.
func addKey(sum, one *api.MetaKey) {
	sum.Values += one.Values
	sum.ValuesSet = max(sum.ValuesSet, one.ValuesSet)
	etag := etagOver(sum.ETag, one.ETag)
	if sum.ETag == "" {
		values, set := sum.Values, sum.ValuesSet
		*sum = *one
		sum.Values, sum.ValuesSet = values, set
	}
	sum.ETag = etag
}

// A key that only one shard has met is in the list as well, with the numbers of that shard.
//
// keysOverShards is the list of meta keys by name.
func keysOverShards(url.Values) listOrder[api.MetaKey] {
	return listOrder[api.MetaKey]{at: func(k *api.MetaKey) string { return k.Key }, add: addKey}
}

// addValue joins a value of a meta key. All shards have the settings of a value, but a shard that was added or was away
// may lack them. So they come from the first shard that has an ETag.
func addValue(sum, one *api.ValueCount) {
	set := *one
	if sum.ETag != "" || one.ETag == "" {
		set = *sum
	}
	set.Ready, set.Paused, set.Blocked = sum.Ready+one.Ready, sum.Paused+one.Paused, sum.Blocked+one.Blocked
	set.InFlight, set.Waiting = sum.InFlight+one.InFlight, sum.Waiting+one.Waiting
	set.Dead, set.Done = sum.Dead+one.Dead, sum.Done+one.Done
	set.Submissions = sum.Submissions + one.Submissions
	set.OldestReadyAt = earlier(sum.OldestReadyAt, one.OldestReadyAt)
	set.ETag = etagOver(sum.ETag, one.ETag)
	*sum = set
}

// valuesOverShards is the list of the values of a key. A value that is large over all shards may be small in each, so
// the shards are asked for as many values as they list, whatever the limit of the call is.
func valuesOverShards(x *shardCall) error {
	sort := cmp.Or(x.c.QueryParam("sort"), engine.ValueSorts[0])
	query := x.c.QueryParams() // its parts copy it
	limit := limitOf(query)
	if query.Get("limit") == "" || strconv.Itoa(limit) == query.Get("limit") && limit <= queue.MaxListLimit {
		query.Set("limit", strconv.Itoa(queue.MaxListLimit))
	}
	return gathered(gathering[api.Page[api.ValueCount], api.ValueCount]{
		list:    func(p *api.Page[api.ValueCount]) *[]api.ValueCount { return &p.Items },
		missing: func(p *api.Page[api.ValueCount]) *[]api.MissingShard { return &p.MissingShards },
		key:     func(v *api.ValueCount) string { return valueText(&v.Value) },
		add:     addValue, most: limit,
		at: func(v *api.ValueCount) string { return valueSize(v, sort) + "." + valueText(&v.Value) },
	})(x)
}

// valueText is a value as JSON has it: it tells 7 from "7", which are two values.
func valueText(v *api.MetaValue) string {
	text, _ := json.Marshal(v) // a number or a text
	return string(text)
}

// valueSize is the place of a value in a list by size, the largest first. The numbers are those of all shards together:
// a value may be first in no shard, and first in all of them together.
func valueSize(v *api.ValueCount, sort string) string {
	numbers := map[string]uint64{"in_flight": v.InFlight, "ready": v.Ready, "waiting": v.Waiting, "dead": v.Dead,
		"done": v.Done, "paused": v.Paused, "blocked": v.Blocked, "submissions": v.Submissions}
	switch n, is := numbers[sort]; {
	case is:
		return downwards(n)
	case sort == "oldest":
		return upTo(v.OldestReadyAt)
	}
	weight := 1.0 // the default of a value without a weight
	if set := cmp.Or(v.Weight, v.DefaultWeight); set != nil {
		weight = *set
	}
	return downwards(uint64(math.Round(weight * queue.DefaultWeight)))
}

// deadGroupsOverShards are the kinds of errors of dead letters, the largest first. A fingerprint is made of the error
// alone, so it is the same in all shards. The example and the pattern are those of the first shard that has one.
func deadGroupsOverShards() joining {
	return gathered(gathering[api.DeadGroups, api.DeadGroup]{
		list:    func(a *api.DeadGroups) *[]api.DeadGroup { return &a.Items },
		next:    func(a *api.DeadGroups) *string { return &a.Next },
		missing: func(a *api.DeadGroups) *[]api.MissingShard { return &a.MissingShards },
		more:    func(sum, one *api.DeadGroups) { sum.Others += one.Others },
		key:     func(g *api.DeadGroup) string { return g.Fingerprint },
		add: func(sum, one *api.DeadGroup) {
			sum.Count += one.Count
			sum.Submissions += one.Submissions
			sum.FirstDiedAt = earlier(sum.FirstDiedAt, one.FirstDiedAt)
			sum.LastDiedAt = later(sum.LastDiedAt, one.LastDiedAt)
		},
		at: func(g *api.DeadGroup) string { return downwards(g.Count) + "." + g.Fingerprint },
	})
}

// retryGroupsOverShards are the kinds of errors of chunks that wait for a retry, the largest first. The chunks by
// number of attempts are a sorted list in each shard, and stay one.
func retryGroupsOverShards() joining {
	return gathered(gathering[api.RetryGroups, api.RetryGroup]{
		list:    func(a *api.RetryGroups) *[]api.RetryGroup { return &a.Items },
		missing: func(a *api.RetryGroups) *[]api.MissingShard { return &a.MissingShards },
		more: func(sum, one *api.RetryGroups) {
			sum.Others += one.Others
			sum.Examined += one.Examined
		},
		key: func(g *api.RetryGroup) string { return g.Fingerprint },
		add: func(sum, one *api.RetryGroup) {
			sum.Count += one.Count
			sum.Submissions += one.Submissions
			sum.NextAt = earlier(sum.NextAt, one.NextAt)
			for _, tries := range one.Tries {
				i, is := slices.BinarySearchFunc(sum.Tries, tries.Tries,
					func(t api.RetryTries, n uint32) int { return cmp.Compare(t.Tries, n) })
				if is {
					sum.Tries[i].Count += tries.Count
				} else {
					sum.Tries = slices.Insert(sum.Tries, i, tries)
				}
			}
		},
		at: func(g *api.RetryGroup) string { return downwards(g.Count) + "." + g.Fingerprint },
	})
}

// inUseOverShards are the strategies in use. Their text is canonical, so one strategy is one text in all shards. One
// reserve asks several shards and counts in each, and so does its consumer. So the largest count of a shard stands for
// all. The chunks add up.
func inUseOverShards() joining {
	return gathered(gathering[api.StrategiesInUse, api.StrategyUse]{
		list:    func(a *api.StrategiesInUse) *[]api.StrategyUse { return &a.Items },
		next:    func(a *api.StrategiesInUse) *string { return &a.Next },
		missing: func(a *api.StrategiesInUse) *[]api.MissingShard { return &a.MissingShards },
		more:    func(sum, one *api.StrategiesInUse) { sum.Since = later(sum.Since, one.Since) },
		key:     func(u *api.StrategyUse) string { return u.Strategy },
		add: func(sum, one *api.StrategyUse) {
			sum.Consumers = max(sum.Consumers, one.Consumers)
			sum.ReservesPerSecond = max(sum.ReservesPerSecond, one.ReservesPerSecond)
			sum.ChunksPerSecond += one.ChunksPerSecond
			sum.LastUsed = later(sum.LastUsed, one.LastUsed)
		},
		at: func(u *api.StrategyUse) string {
			return downwards(math.Float64bits(u.ChunksPerSecond)) + "." +
				downwards(math.Float64bits(u.ReservesPerSecond)) + "." + hashed(u.Strategy)
		},
	})
}

// viewsOverShards are the indexes of strategies, each with the shard that has it, those with the most memory first.
// They are not joined, because each takes memory and can be looked at by itself. The sums are of all queues of a
// server, and so the first shard's.
func viewsOverShards() joining {
	return gathered(gathering[api.Views, api.View]{
		list:    func(a *api.Views) *[]api.View { return &a.Items },
		next:    func(a *api.Views) *string { return &a.Next },
		missing: func(a *api.Views) *[]api.MissingShard { return &a.MissingShards },
		key:     func(v *api.View) string { return decimals(uint64(v.Shard)) + v.Branch + "." + decimals(v.Bytes) },
		add:     func(*api.View, *api.View) {},
		named:   func(v *api.View, p *shardPart) { v.Shard = p.number },
		at: func(v *api.View) string {
			return downwards(v.Bytes) + "." + hashed(v.Branch) + "." + decimals(uint64(v.Shard))
		},
	})
}
