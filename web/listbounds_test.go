package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/manifest"
)

// mostBounded is the most bytes of an answer that is not cut by its bytes: for a longer one there would never be room.
const mostBounded = maxAnswers

// cutInBytes are the operations whose answer ends when it has enough bytes. The rest comes with the next call.
var cutInBytes = []string{
	"list-rules", "list-initial-rules", "list-tokens", "list-bulk-operations", "list-dead-letter-groups", "list-views", "list-ledgers", "list-strategies-in-use",
	"list-plugins", "get-plugin-logs", // by pageOf
	"list-submissions", "list-chunks", "list-queue-outputs", "list-dead-letters", "list-retries", "list-reservations", "list-schedules", "list-strategies", "list-audit",
	"explain", "get-ledger", // by pageOf, without a next page: they have the first of them
	"insert-batch",                                            // only counted, before anything is inserted
	"get-consumer", "reserve", "exchange", "wait-submissions", // where they are gathered
}

// bounded is an answer that its limits bound: the longest text in it, and how many items a list has, by depth. added is beside that.
type bounded struct {
	answer any
	text   int
	items  []int
	added  int
}

// oneQueue is a queue alone.
var oneQueue = bounded{api.Queue{}, 1 << 10, []int{40, 5}, 0}

// boundedByLimits has the other operations with lists in their answers.
func boundedByLimits() map[string]bounded {
	const page, value, top = queue.MaxListLimit, queue.MaxMetaValueBytes, 10 // top: causes, rules, values or tenants that an answer names
	const sentence, strategies = 300, 6 * strategy.MaxBytes * strategy.MaxBranches
	limits := plugins.DefaultLimits()
	plugin := bounded{api.Plugin{}, 1 << 10, []int{64}, 4 * abi.MaxConfigBytes} // cluster.MaxNodes: those that did not answer
	token := bounded{api.Token{}, queue.MaxSubjectBytes, []int{queue.MaxTokenQueues}, 0}
	bulk := bounded{api.BulkOperation{}, value, []int{queue.MaxMetaKeys}, 0}
	schedule := bounded{api.Schedule{}, queue.MaxPauseReasonBytes, []int{100}, 6 * queue.MaxScheduleBytes}
	version := bounded{api.PluginVersion{}, 1 << 10, []int{8}, manifest.MaxBytes}
	// As many ids as results, because a call may insert as many submissions as it may have items.
	finished := bounded{api.ResultsResponse{}, sentence, []int{queue.MaxBatch, queue.MaxInsertions / queue.MaxBatch}, 0}
	preview := bounded{api.PreviewResponse{}, value, []int{engine.MaxPreview, queue.MaxMetaKeys}, strategies}
	diagnosis := bounded{api.Diagnosis{}, value, []int{top, 1}, top * 6 * strategy.MaxBytes}
	// Its only list has the delays of its own back-off.
	submission := bounded{api.Submission{}, queue.MaxTemplateBytes, []int{max(queue.MaxMetaKeys, queue.MaxDelays)}, 0}
	rule := bounded{api.Rule{}, queue.MaxRuleReasonBytes, []int{queue.MaxQueueShards, queue.MaxConditionValues}, 0} // its conditions, its shards
	ticks := bounded{api.SchedulePreview{}, 64, []int{queue.MaxPreview}, 0}
	return map[string]bounded{
		"insert": submission, "get-submission": submission, "change-submission": submission, "cancel-submission": submission,
		"trigger-schedule": submission, "forward-dead-letter": submission, "redrive-dead-letter": submission, "put-dead-letter-content": submission,
		"start-bulk-operation": bulk, "get-bulk-operation": bulk, "cancel-bulk-operation": bulk,
		"create-token": token, "get-token": token, "rotate-token": token, "whoami": token, "open-session": token,
		"get-schedule": schedule, "put-schedule": schedule, "pause-schedule": schedule, "resume-schedule": schedule,
		"preview-schedule": ticks, "list-schedule-ticks": ticks, "backfill-schedule": {api.Backfilled{}, 64, []int{queue.MaxBackfill}, 0},
		"get-plugin": plugin, "activate-plugin": plugin, "deactivate-plugin": plugin, "rollback-plugin": plugin, "shadow-plugin": plugin,
		"canary-plugin": plugin, "reset-plugin": plugin, "put-plugin-settings": plugin,
		"upload-plugin": version, "get-plugin-version": version,
		"list-plugin-versions":   {api.Page[api.PluginVersion]{}, 1 << 10, []int{limits.Versions, 8}, limits.Versions * manifest.MaxBytes},
		"list-plugin-recordings": {api.Page[api.PluginRecording]{}, 1 << 10, []int{2 * limits.Records}, 0},
		"list-plugin-scores":     {api.Page[api.PluginScores]{}, value, []int{limits.Uses + 4, 32}, (limits.Uses + 4) * abi.MaxConfigBytes},
		"dry-run-plugin":         {api.PluginTried{}, 64, []int{abi.MaxCapacity}, 0},
		"complete":               finished, "fail": finished, "extend": finished, "release": finished,
		"preview": preview, "compare": preview, "diagnose-meta-value": diagnosis, "diagnose-queue": diagnosis, "diagnose-submission": diagnosis,
		"why":                 {api.WhyResponse{}, value, []int{strategy.MaxBranches, top, 1}, strategies},
		"validate-strategy":   {api.ValidStrategy{}, value, []int{strategy.MaxBranches}, strategies},
		"get-dead-letter":     {api.DeadLetter{}, queue.MaxErrorBytes, []int{queue.MaxMetaKeys}, 0},
		"list-chunk-attempts": {api.Page[api.Attempt]{}, queue.MaxErrorBytes, []int{queue.MaxAttemptsKept}, 0},
		"list-retry-groups":   {api.RetryGroups{}, 2 * queue.MaxErrorBytes, []int{1000, 11}, 0},         // submissions.MostKinds
		"list-queues":         {api.Page[api.Queue]{}, value, []int{queue.MaxQueues * 3 / 2, 40, 5}, 0}, // first shards twice; the points of a sparkline, alarms
		"get-queue":           oneQueue, "put-queue": oneQueue, "change-queue": oneQueue,
		"list-nodes":         {api.Page[api.Node]{}, 2048, []int{64, queue.MaxQueues / 64}, 0}, // cluster.MaxURL, cluster.MaxNodes; a queue has one owner
		"get-plugin-stats":   {api.PluginStats{}, 64, []int{64}, 0},                            // cluster.MaxNodes: those that did not answer
		"list-consumers":     {api.Page[api.Consumer]{}, queue.MaxConsumerBytes, []int{page}, 0},
		"list-groups":        {api.Page[api.Group]{}, queue.MaxMetaValueBytes, []int{page}, 0},
		"list-shards":        {api.Page[api.Shard]{}, 1024, []int{queue.MaxQueueShards}, 0},
		"list-meta-keys":     {api.Page[api.MetaKey]{}, queue.MaxMetaKeyBytes, []int{page}, 0},
		"list-meta-values":   {api.Page[api.ValueCount]{}, value, []int{page}, 0},
		"get-chunk-map":      {api.ChunkMap{}, 64, []int{engine.MaxCells}, 0},
		"get-durations":      {api.Durations{}, 64, []int{api.MaxDurationBuckets}, 0},
		"get-timeseries":     {api.Series{}, 64, []int{4096}, 0},
		"get-key-timeseries": {api.KeySeries{}, value, []int{2 * engine.FrameValues, engine.HeatCells}, 0},
		"set-rule":           rule, "get-rule": rule, "set-initial-rule": rule, "get-initial-rule": rule,
		"get-lifecycle": {api.Lifecycle{}, queue.MaxErrorBytes, []int{100, 100}, 0},
		"readyz":        {api.Readiness{}, 1 << 10, []int{2 * queue.MaxQueues}, 0},
		"config":        {api.ServerOptions{}, 4 << 10, []int{200}, 0},
	}
}

// Every operation whose answer has a list either ends it when it has enough bytes, or its limits say how long it can become. A new one has
// to be entered here.
func TestEveryListIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	limits := boundedByLimits()
	seen := map[string]bool{}
	for path, item := range loadDocument(t, documentOf(t, bareServer(t))).Paths.Map() {
		for method, op := range item.Operations() {
			if !listsIn(op) {
				continue
			}
			id := op.OperationID
			seen[id] = true
			one, isBounded := limits[id]
			if cut := slices.Contains(cutInBytes, id); cut == isBounded {
				t.Errorf("%s %s (%s) answers with a list. Cut it by pageOf, or where it is gathered, and name it in cutInBytes, or show by its limits how long it becomes", method, path, id)
				continue
			}
			if !isBounded {
				continue
			}
			if n := one.longest(t); n > mostBounded {
				t.Errorf("%s: its answer can have %d bytes, more than %d: cut it by pageOf", id, n, mostBounded)
			}
		}
	}
	for id := range limits {
		if !seen[id] {
			t.Errorf("no operation %s answers with a list", id)
		}
	}
}

// listsIn says whether a good answer of JSON has a list.
func listsIn(op *openapi3.Operation) bool {
	for status, response := range op.Responses.Map() {
		if content := response.Value.Content["application/json"]; content != nil && strings.HasPrefix(status, "2") &&
			hasList(content.Schema, map[*openapi3.Schema]bool{}) {
			return true
		}
	}
	return false
}

func hasList(ref *openapi3.SchemaRef, seen map[*openapi3.Schema]bool) bool {
	if ref == nil || ref.Value == nil || seen[ref.Value] {
		return false
	}
	s := ref.Value
	if seen[s] = true; s.Type.Includes("array") {
		return true
	}
	for _, property := range s.Properties {
		if hasList(property, seen) {
			return true
		}
	}
	return slices.ContainsFunc(slices.Concat(s.OneOf, s.AnyOf, s.AllOf), func(one *openapi3.SchemaRef) bool { return hasList(one, seen) })
}

// longest is how many bytes the answer has when all in it is as long as it may be.
func (b *bounded) longest(t *testing.T) int {
	v := reflect.New(reflect.TypeOf(b.answer)).Elem()
	b.fill(v, 0)
	text, err := json.Marshal(v.Interface())
	if err != nil {
		t.Fatalf("%T: %v", b.answer, err)
	}
	return len(text) + b.added
}

// fill sets all of v. Texts are of characters that are written as six.
func (b *bounded) fill(v reflect.Value, depth int) {
	text := strings.Repeat("\x01", b.text)
	switch v.Interface().(type) {
	case json.RawMessage:
		v.SetBytes([]byte(`"` + strings.Repeat("x", b.text) + `"`))
		return
	case api.MetaValue:
		v.Set(reflect.ValueOf(api.Text(text)))
		return
	case api.Time:
		v.Set(reflect.ValueOf(api.Time{Time: queue.Time(math.MaxInt32).Std()}))
		return
	case api.Bytes:
		v.SetBytes([]byte(text))
		return
	case []api.MissingShard:
		one := api.MissingShard{Shard: text[:min(len(text), queue.MaxQueueNameBytes)], Code: api.CodeQuarantined, Detail: text[:min(len(text), 500)]}
		v.Set(reflect.ValueOf(slices.Repeat([]api.MissingShard{one}, queue.MaxQueueShards)))
		return
	}
	items := 1
	if len(b.items) > 0 {
		items = b.items[min(depth, len(b.items)-1)]
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(math.MinInt32)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(math.MaxUint64 >> (64 - v.Type().Bits()))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(-math.MaxFloat32)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		b.fill(v.Elem(), depth)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				b.fill(v.Field(i), depth)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), items, items))
		for i := range items {
			b.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range items {
			value := reflect.New(v.Type().Elem()).Elem()
			b.fill(value, depth+1)
			v.SetMapIndex(reflect.ValueOf(fmt.Sprintf("%0*d", queue.MaxMetaKeyBytes, i)).Convert(v.Type().Key()), value)
		}
	}
}

// Lists that are kept whole come page by page when they have more bytes than an answer may, each item once and in order, also when the item
// that a page ended with is gone.
func TestListsThatAreKeptWholeHavePages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("PATCH", "/v1/queues/default", `{"settings":{"durability":"relaxed"}}`, 200, nil)
	reason := strings.Repeat("\\u0001", queue.MaxRuleReasonBytes-4)
	const n = queue.MaxAnswerBytes / (6 * (queue.MaxRuleReasonBytes - 4)) * 5 / 2
	for i := range n {
		f.do("POST", "/v1/queues/default/rules", fmt.Sprintf(`{"action":"pause","match":{"meta":{"k":%d}},"reason":"%s"}`, i, reason), 201, nil)
	}
	var ids []string
	pages := 0
	for next := ""; pages == 0 || next != ""; pages++ {
		got := f.do("GET", "/v1/queues/default/rules?cursor="+next, "", 200, nil)
		var page api.Page[api.Rule]
		got.decode(t, &page)
		if len(got.body) > mostEncoded || len(page.Items) == 0 || pages > 5 {
			t.Fatalf("page %d: %d items in %d bytes, want at most %d", pages, len(page.Items), len(got.body), mostEncoded)
		}
		for _, r := range page.Items {
			ids = append(ids, r.ID)
		}
		if next = page.Next; next != "" { // the place is known without it
			f.do("DELETE", "/v1/queues/default/rules/"+ids[len(ids)-1], "", 204, nil)
		}
	}
	if len(ids) != n || pages != 3 || !slices.IsSortedFunc(ids, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }) {
		t.Errorf("%d rules on %d pages, want %d in order on 3", len(ids), pages, n)
	}
	f.do("GET", "/v1/queues/default/rules?cursor=%2F", "", 422, nil)
}
