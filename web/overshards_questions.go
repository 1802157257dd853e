package web

// Schedules, diagnoses, and numbers over time of a queue of several shards.
//
// A schedule is in the shard of the group that its template names, as its submissions are. So a PUT goes to that shard,
// and all other calls about the schedule go to the shard that has one of this name.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// schedulesOverShards is the list of schedules by name. A name is in one shard, so none is joined with another.
func schedulesOverShards(url.Values) listOrder[api.Schedule] {
	return listOrder[api.Schedule]{at: func(s *api.Schedule) string { return s.Name }}
}

//	GET schedules/nightly ─┬─ shard 1: 404
//	                       ├─ shard 2: 200 ─► the answer
//	                       └─ shard 3: 503 ─► the answer, if no other shard has it: it may be there
//
// inOneThatHas lets the shard answer that has the thing in the path. The others do not know it, and do nothing.
func inOneThatHas(x *shardCall) error {
	if err := x.readBody(); err != nil {
		return err
	}
	parts := x.parts()
	for _, p := range parts {
		for _, name := range conditions {
			if given := x.c.Request().Header[name]; given != nil {
				p.header[name] = given
			}
		}
	}
	if err := x.ask(parts); err != nil {
		return err
	}
	// Any answer but "there is none" is the answer of the shard that has it. A precondition is also refused where there
	// is nothing, so a shard that did its part counts first.
	for _, is := range []func(p *shardPart) bool{(*shardPart).good, func(p *shardPart) bool {
		return !p.absent() && p.status != http.StatusNotFound && p.status != http.StatusPreconditionFailed
	}, func(p *shardPart) bool { return p.absent() || p.status == http.StatusPreconditionFailed }} {
		if i := slices.IndexFunc(parts, is); i >= 0 {
			return x.relay(parts[i])
		}
	}
	return parts[0].problem()
}

// A preview of a spec reads nothing of a queue, so it must not fail because one shard does not serve.
//
// inAny lets the first shard answer that serves: the answer is the same in all.
func inAny(x *shardCall) error {
	if err := x.readBody(); err != nil {
		return err
	}
	var last *shardPart
	for _, p := range x.parts() {
		if err := x.ask([]*shardPart{p}); err != nil {
			return err
		}
		if last = p; !p.absent() {
			break
		}
	}
	return x.relay(last)
}

// putScheduleInShards creates or redefines a schedule in the shard of its group. A schedule that another shard has is
// not moved, because its ticks are counted there. If an existing schedule gets a new group, the group gets the
// schedule's shard. A refused call leaves no new group behind. A shard that does not serve may have a schedule of this
// name, too. Then both are listed when it is back, and the operator deletes one of them by the name of its shard.
func putScheduleInShards(x *shardCall) error {
	if err := x.readBody(); err != nil {
		return err
	}
	var body api.ScheduleDefinition
	if wire.Decode(x.body, &body) != nil || !schedulable(x.c.Param("name"), &body) {
		return x.inShard(1) // which refuses it
	}
	at, err := x.scheduledIn()
	if err != nil {
		return err
	}
	group := body.Template.Group
	if value, is := body.Template.Meta[queue.GroupKey]; group == "" && is {
		group = groupText(value)
	}
	number, err := x.engine.ShardOfGroup(x.queue, group, at)
	switch {
	case err != nil:
		return err
	case at > 0 && at != number:
		return newProblem(queue.CodeConflict, fmt.Sprintf("Shard %d of the queue has a schedule of this name, and "+
			"the group of this one belongs to shard %d. Delete that schedule first, or choose another name.",
			at, number))
	}
	return x.inShard(number)
}

// scheduledIn is the number of the shard that has the schedule of the path; 0: none has it. It fails if the conditions
// of the call do not hold. The shard checks them again when it makes the change.
func (x *shardCall) scheduledIn() (number int, err error) {
	looks := x.parts()
	for _, p := range looks {
		p.method, p.body = http.MethodGet, nil
	}
	if err := x.ask(looks); err != nil {
		return 0, err
	}
	var absent *shardPart
	version, etag := uint32(0), ""
	for _, p := range looks {
		switch {
		case p.good():
			number, version, etag = p.number, 1, p.header.Get("ETag")
		case p.absent():
			absent = p
		case p.status != http.StatusNotFound:
			return 0, p.problem()
		}
	}
	given := x.conditions()
	if err = given.hold("schedule of this name", version, etag); err != nil && number == 0 && absent != nil {
		err = absent.problem() // which may have it
	}
	return number, err
}

// schedulable says that a schedule is valid in itself, whatever the queue has.
func schedulable(name string, body *api.ScheduleDefinition) bool {
	def, err := scheduleOf(body)
	return err == nil && name != "preview" && engine.ValidSchedule(name, &def) == nil
}

// groupText is a group as its meta value says it. The key `group` may be given in meta instead of the field.
func groupText(v api.MetaValue) string {
	text, _ := json.Marshal(v) // a number or a text
	var plain string
	if json.Unmarshal(text, &plain) == nil {
		return plain
	}
	return string(text)
}

// A name in the body is looked up in the first shard, as a reserve does it.
//
// validOverShards validates a strategy. A strategy that a reserve of the queue would refuse is not valid.
func validOverShards(x *shardCall) error {
	if err := x.readBody(); err != nil {
		return err
	}
	var body api.StrategyRequest
	if json.Unmarshal(x.body, &body) == nil && len(body.Strategy) > 0 {
		if _, err := x.engine.Asking(x.c.Request().Context(), x.queue, body.Strategy, 0); err != nil {
			return err
		}
	}
	return x.inShard(1)
}

// addDiagnosis joins the causes of two shards. finishDiagnosis sorts the causes and makes the sentence.
func addDiagnosis(sum, one *api.Diagnosis) {
	sum.Causes = append(sum.Causes, one.Causes...)
	sum.InFlight += one.InFlight
	sum.Holders = max(sum.Holders, one.Holders) // a consumer may hold chunks of several shards
	if sum.Oldest == nil || one.Oldest != nil && one.Oldest.ReservedAt.Before(sum.Oldest.ReservedAt.Time) {
		sum.Oldest = one.Oldest
	}
	sum.Submissions += one.Submissions
	sum.Examined += one.Examined
	sum.FirstReservedAt = earlier(sum.FirstReservedAt, one.FirstReservedAt)
	sum.Sentence += "\n" + one.Sentence
}

// diagnosedInShard names the shard in the causes and in the sentence of its diagnosis.
func diagnosedInShard(d *api.Diagnosis, p *shardPart) {
	for i := range d.Causes {
		d.Causes[i].Detail = fmt.Sprintf("shard %d: %s", p.number, d.Causes[i].Detail)
	}
	d.Sentence = fmt.Sprintf("Shard %d: %s", p.number, d.Sentence)
}

// mostCauses is how many causes a diagnosis has. Those of the shard with the most chunks may push out all of another
// shard, but its sentence is still there.
const mostCauses = 10

// diagnosisOverShards says what the chunks of all shards wait for. Each cause names its shard. There is no forecast:
// the pace of each shard is known, but not how consumers will divide themselves among the shards.
func diagnosisOverShards(x *shardCall) error {
	parts := x.parts()
	if err := x.ask(parts); err != nil {
		return err
	}
	good, missing, refused := found(parts)
	if refused != nil {
		return refused
	}
	var sum api.Diagnosis
	for i, p := range good {
		var one api.Diagnosis
		if err := p.decode(&one); err != nil {
			return err
		}
		if diagnosedInShard(&one, p); i == 0 {
			sum = one
		} else {
			addDiagnosis(&sum, &one)
		}
	}
	slices.SortStableFunc(sum.Causes, func(a, b api.Cause) int { return cmp.Compare(b.Chunks, a.Chunks) })
	sum.Causes, sum.Forecast = sum.Causes[:min(len(sum.Causes), mostCauses)], nil
	if text := x.engine.Overrun(x.queue); text != "" {
		sum.Sentence += "\nNew groups find no room: " + text + "."
	}
	sum.Sentence = strings.ReplaceAll(sum.Sentence, "\n", " ")
	x.lacks(missing)
	return x.c.JSON(http.StatusOK, &sum)
}

// The rates are per second in each shard, so they add up as counts do. A point that one shard lacks, such as from
// before it was made, counts as zero.
//
// addSeries adds the points of two shards that are of the same step of time. Nodes take their points at different
// moments of a step.
func addSeries(sum, one *api.Series) {
	step := int64(max(1, sum.StepSeconds)) * 1000
	for i, at := range one.At {
		j, is := slices.BinarySearchFunc(sum.At, at, func(a, b int64) int { return int(a/step - b/step) })
		if !is {
			continue // the last point of one shard may be newer than that of another
		}
		sum.Ready[j] += one.Ready[i]
		sum.Waiting[j] += one.Waiting[i]
		sum.Reserved[j] += one.Reserved[i]
		sum.Dead[j] += one.Dead[i]
		sum.InsertedRate[j] += one.InsertedRate[i]
		sum.ReservedRate[j] += one.ReservedRate[i]
		sum.DoneRate[j] += one.DoneRate[i]
		sum.FailedRate[j] += one.FailedRate[i]
	}
}

// nameSeries puts the name of the queue into a series, in place of the shard's.
func nameSeries(x *shardCall, sum *api.Series, _ []api.MissingShard) { sum.Queue = x.queue }

// addKeySeries joins the strips of values. A shard lists only the values with the most in flight; for the others it
// counts as zero.
func addKeySeries(sum, one *api.KeySeries) {
	sum.Ends = later(sum.Ends, one.Ends)
	for _, strip := range one.Values {
		at := valueText(&strip.Value)
		j := slices.IndexFunc(sum.Values, func(v api.ValueSeries) bool { return valueText(&v.Value) == at })
		if j < 0 {
			sum.Values = append(sum.Values, strip)
			continue
		}
		cells := sum.Values[j].InFlight
		for i := 1; i <= min(len(cells), len(strip.InFlight)); i++ { // the last cells are of the same time
			a, b := &cells[len(cells)-i], strip.InFlight[len(strip.InFlight)-i]
			if *a < 0 || b < 0 {
				*a = max(*a, b)
			} else {
				*a += b
			}
		}
	}
}

// addDurations adds up how often chunks took how long. The time that the sum covers is the shortest of the shards'.
func addDurations(sum, one *api.Durations) {
	sum.Since = later(sum.Since, one.Since)
	addDurationCounts(&sum.Wait, &one.Wait)
	addDurationCounts(&sum.Run, &one.Run)
}

// addDurationCounts adds durations of one kind. The percentiles are estimated from the buckets, as the shards do not
// tell more.
func addDurationCounts(sum, one *api.DurationCounts) {
	all := map[int64]uint64{}
	for _, b := range slices.Concat(sum.Buckets, one.Buckets) {
		all[b.BelowMS] += b.Count
	}
	sum.Count += one.Count
	sum.MaxMS = max(sum.MaxMS, one.MaxMS)
	sum.Buckets = []api.DurationBucket{}
	if len(all) == 0 {
		return
	}
	least, most := int64(math.MaxInt64), int64(0)
	for below := range all {
		least, most = min(least, below), max(most, below)
	}
	for below := least; below <= most; below *= 2 {
		sum.Buckets = append(sum.Buckets, api.DurationBucket{BelowMS: below, Count: all[below]})
	}
	sum.P50MS, sum.P95MS = percentile(sum, 0.5), percentile(sum, 0.95)
}

// percentile is the duration that a share of all stayed below. Within a bucket, durations are taken to be spread evenly
// over its logarithm.
func percentile(c *api.DurationCounts, share float64) int64 {
	left := share * float64(c.Count)
	for _, b := range c.Buckets {
		if n := float64(b.Count); left <= n && n > 0 {
			if b.BelowMS <= 1 {
				return 0
			}
			return min(c.MaxMS, int64(math.Round(float64(b.BelowMS)/2*math.Exp2(left/n))))
		}
		left -= float64(b.Count)
	}
	return c.MaxMS
}

// The order is that of one shard's list: by the text of the branch.
//
// ledgersOverShards are the Fair blocks in use. A block that several shards share has one ledger, and each of them
// answers with it. The ledger of a block for a single group is in one shard.
func ledgersOverShards() joining {
	return gathered(gathering[api.Page[api.Ledger], api.Ledger]{
		list:    func(p *api.Page[api.Ledger]) *[]api.Ledger { return &p.Items },
		next:    func(p *api.Page[api.Ledger]) *string { return &p.Next },
		missing: func(p *api.Page[api.Ledger]) *[]api.MissingShard { return &p.MissingShards },
		key:     func(l *api.Ledger) string { return l.ID },
		add:     func(*api.Ledger, *api.Ledger) {},
		at:      func(l *api.Ledger) string { return hashed(l.Branch) + fmt.Sprintf(".%04d.", l.Depth) + l.ID },
	})
}

// The lag of the queue is the largest one. One degraded worker makes the queue refuse inserts of its groups.
//
// addLifecycle joins the reports of the workers of two shards. Each worker has its own quota of suspects.
func addLifecycle(sum, one *api.Lifecycle) {
	sum.LagSeconds = max(sum.LagSeconds, one.LagSeconds)
	sum.Degraded = sum.Degraded || one.Degraded
	sum.GraceUntil = later(sum.GraceUntil, one.GraceUntil)
	sum.Slices += one.Slices
	sum.Suspects.Shelved += one.Suspects.Shelved
	sum.Suspects.Lent += one.Suspects.Lent
	sum.Suspects.Quota += one.Suspects.Quota
	sum.Suspects.Slots += one.Suspects.Slots
	sum.Parked = append(sum.Parked, one.Parked...)
	sum.Recount.Rounds = min(sum.Recount.Rounds, one.Recount.Rounds)
	for i := range one.Kinds {
		kind := &one.Kinds[i]
		j := slices.IndexFunc(sum.Kinds, func(k api.LifecycleKind) bool { return k.Kind == kind.Kind })
		if j < 0 {
			sum.Kinds = append(sum.Kinds, *kind)
			continue
		}
		to := &sum.Kinds[j]
		to.Pending += kind.Pending
		to.LagSeconds = max(to.LagSeconds, kind.LagSeconds)
		to.Done += kind.Done
		to.Stale += kind.Stale
		to.Parked += kind.Parked
		to.Failed += kind.Failed
		to.Failures = max(to.Failures, kind.Failures)
		if to.Error == "" {
			to.Error = kind.Error
		}
	}
}

// addRetried counts the actions that are tried again.
func addRetried(sum, one *api.Retried) { sum.Retried += one.Retried }
