package wire

import (
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/quern-queue/quern/sdk/api"
)

// Append appends the body of a reserve. Strategy must be one valid JSON value or empty.
func (r *ReserveRequest) Append(dst []byte) []byte {
	dst = append(dst, `{"max":`...)
	dst = strconv.AppendInt(dst, int64(r.Max), 10)
	if len(r.Strategy) > 0 {
		dst = append(append(dst, `,"strategy":`...), r.Strategy...)
	}
	if len(r.Consumer) > 0 {
		dst = AppendString(append(dst, `,"consumer":`...), r.Consumer)
	}
	dst = appendInt(dst, `,"wait_ms":`, r.WaitMS)
	dst = appendInt(dst, `,"timeout_ms":`, r.TimeoutMS)
	if len(r.Context) > 0 {
		dst = append(dst, `,"context":{`...)
		for i := range r.Context {
			if i > 0 {
				dst = append(dst, ',')
			}
			entry := &r.Context[i]
			dst = append(AppendString(dst, entry.Key), ':')
			if entry.IsInt {
				dst = strconv.AppendInt(dst, entry.Int, 10)
			} else {
				dst = AppendString(dst, entry.Text)
			}
		}
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// Append appends the body of a complete.
func (r *CompleteRequest) Append(dst []byte) []byte {
	return append(appendCompletes(append(dst, `{"items":`...), r.Items), '}')
}

// Append appends the body of a fail.
func (r *FailRequest) Append(dst []byte) []byte {
	return append(appendFails(append(dst, `{"items":`...), r.Items), '}')
}

// Append appends the body of an extend.
func (r *ExtendRequest) Append(dst []byte) []byte {
	dst = appendExtends(append(dst, `{"items":`...), r.Items)
	if len(r.Consumer) > 0 {
		dst = AppendString(append(dst, `,"consumer":`...), r.Consumer)
	}
	return append(dst, '}')
}

// Append appends the body of a release.
func (r *ReleaseRequest) Append(dst []byte) []byte {
	dst = append(dst, `{"items":[`...)
	for i := range r.Items {
		dst = append(appendInt(appendToken(dst, i, r.Items[i].Token), `,"delay_ms":`, r.Items[i].DelayMS), '}')
	}
	return append(dst, ']', '}')
}

// Append appends the body of an exchange.
func (r *ExchangeRequest) Append(dst []byte) []byte {
	first := true
	dst = append(dst, '{')
	if len(r.Complete) > 0 {
		dst = appendCompletes(member(dst, &first, "complete"), r.Complete)
	}
	if len(r.Fail) > 0 {
		dst = appendFails(member(dst, &first, "fail"), r.Fail)
	}
	if len(r.Extend) > 0 {
		dst = appendExtends(member(dst, &first, "extend"), r.Extend)
	}
	if r.HasReserve {
		dst = r.Reserve.Append(member(dst, &first, "reserve"))
	}
	if len(r.Consumer) > 0 {
		dst = AppendString(member(dst, &first, "consumer"), r.Consumer)
	}
	return append(dst, '}')
}

func appendCompletes(dst []byte, items []CompleteItem) []byte {
	dst = append(dst, '[')
	for i := range items {
		dst = appendToken(dst, i, items[i].Token)
		if items[i].Output != nil {
			dst = AppendBytes(append(dst, `,"output":`...), items[i].Output)
		}
		before := `,"insert":[`
		for _, submission := range items[i].Insert {
			dst = append(append(dst, before...), submission...)
			before = ","
		}
		if len(items[i].Insert) > 0 {
			dst = append(dst, ']')
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func appendFails(dst []byte, items []FailItem) []byte {
	dst = append(dst, '[')
	for i := range items {
		item := &items[i]
		dst = appendToken(dst, i, item.Token)
		if len(item.Error) > 0 {
			dst = AppendString(append(dst, `,"error":`...), item.Error)
		}
		if item.Fatal {
			dst = append(dst, `,"fatal":true`...)
		}
		if item.HasRetryAfter {
			dst = strconv.AppendInt(append(dst, `,"retry_after_ms":`...), item.RetryAfterMS, 10)
		}
		dst = appendMoment(dst, `,"retry_at":`, item.RetryAt)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func appendExtends(dst []byte, items []ExtendItem) []byte {
	dst = append(dst, '[')
	for i := range items {
		dst = appendToken(dst, i, items[i].Token)
		dst = appendInt(dst, `,"timeout_ms":`, items[i].TimeoutMS)
		if items[i].HasProgress {
			dst = strconv.AppendFloat(append(dst, `,"progress":`...), items[i].Progress, 'g', -1, 64)
		}
		if len(items[i].Note) > 0 {
			dst = AppendString(append(dst, `,"note":`...), items[i].Note)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// appendToken begins the i-th item.
func appendToken(dst []byte, i int, token []byte) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return AppendString(append(dst, `{"token":`...), token)
}

func appendInt(dst []byte, name string, n int64) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, name...), n, 10)
}

// AppendInsert appends the body of an insert as one JSON object.
func AppendInsert(dst []byte, n *api.NewSubmission) []byte {
	dst = append(dst, `{"chunks":`...)
	dst = appendChunks(dst, &n.Chunks)
	dst = appendInsertFields(dst, n, false)
	return append(dst, '}')
}

// AppendInsertHead appends the first line of an insert as JSON lines: the submission without its chunks and without the
// line break.
func AppendInsertHead(dst []byte, n *api.NewSubmission) []byte {
	dst = append(dst, '{')
	dst = appendInsertFields(dst, n, true)
	return append(dst, '}')
}

func appendInsertFields(dst []byte, n *api.NewSubmission, first bool) []byte {
	if len(n.Meta) > 0 {
		dst = appendMeta(member(dst, &first, "meta"), n.Meta)
	}
	if n.Priority != 0 {
		dst = strconv.AppendInt(member(dst, &first, "priority"), n.Priority, 10)
	}
	if n.Attachment != nil {
		dst = AppendBytes(member(dst, &first, "attachment"), n.Attachment)
	}
	if n.OperationsPerChunk != 0 {
		dst = strconv.AppendUint(member(dst, &first, "operations_per_chunk"), uint64(n.OperationsPerChunk), 10)
	}
	if !n.RunAt.IsZero() {
		dst = AppendTime(member(dst, &first, "run_at"), n.RunAt.UnixMilli())
	}
	if !n.DeadDeadline.IsZero() {
		dst = AppendTime(member(dst, &first, "dead_deadline"), n.DeadDeadline.UnixMilli())
	}
	if n.MaxAttempts != 0 {
		dst = strconv.AppendUint(member(dst, &first, "max_attempts"), uint64(n.MaxAttempts), 10)
	}
	if n.OnExhausted != "" {
		dst = AppendString(member(dst, &first, "on_exhausted"), n.OnExhausted)
	}
	if n.MaxFailedChunks != 0 {
		dst = strconv.AppendUint(member(dst, &first, "max_failed_chunks"), uint64(n.MaxFailedChunks), 10)
	}
	if n.TimeoutMS != 0 {
		dst = strconv.AppendInt(member(dst, &first, "timeout_ms"), n.TimeoutMS, 10)
	}
	if n.Group != "" {
		dst = AppendString(member(dst, &first, "group"), n.Group)
	}
	if n.Trace != "" {
		dst = AppendString(member(dst, &first, "trace"), n.Trace)
	}
	if n.RetryBackoff != nil {
		dst = appendBackoff(member(dst, &first, "retry_backoff"), n.RetryBackoff)
	}
	if n.Unique != nil {
		dst = appendUnique(append(member(dst, &first, "unique"), '{'), n.Unique.Key, n.Unique.While, n.Unique.OnConflict)
	}
	if n.After != nil {
		dst = appendAfter(member(dst, &first, "after"), n.After)
	}
	return dst
}

func appendAfter(dst []byte, a *api.After) []byte {
	dst = appendIDs(append(dst, `{"ids":`...), a.IDs)
	dst = appendText(dst, `,"until":`, a.Until)
	return append(appendText(dst, `,"on_unmet":`, a.OnUnmet), '}')
}

func appendIDs(dst []byte, ids []string) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, id)
	}
	return append(dst, ']')
}

// appendUnique appends a unique key, behind the brace that opens it.
func appendUnique(dst []byte, key, while, onConflict string) []byte {
	dst = AppendString(append(dst, `"key":`...), key)
	dst = appendText(dst, `,"while":`, while)
	return append(appendText(dst, `,"on_conflict":`, onConflict), '}')
}

func appendBackoff(dst []byte, b *api.Backoff) []byte {
	dst = append(dst, '{')
	if b.Kind != "" {
		dst = append(AppendString(append(dst, `"kind":`...), b.Kind), ',')
	}
	dst = strconv.AppendInt(append(dst, `"base_ms":`...), b.BaseMS, 10)
	dst = strconv.AppendFloat(append(dst, `,"factor":`...), b.Factor, 'g', -1, 64)
	dst = strconv.AppendInt(append(dst, `,"cap_ms":`...), b.CapMS, 10)
	if len(b.DelaysMS) > 0 {
		before := `,"delays_ms":[`
		for _, ms := range b.DelaysMS {
			dst = strconv.AppendInt(append(dst, before...), ms, 10)
			before = ","
		}
		dst = append(dst, ']')
	}
	return append(appendText(dst, `,"jitter":`, b.Jitter), '}')
}

func appendMeta(dst []byte, meta api.Meta) []byte {
	dst = append(dst, '{')
	first := true
	var few [8]string
	keys := slices.AppendSeq(few[:0], maps.Keys(meta))
	slices.Sort(keys) // a retry must have the same bytes
	for _, key := range keys {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendMetaValue(append(AppendString(dst, key), ':'), meta[key])
	}
	return append(dst, '}')
}

func appendChunks(dst []byte, c *api.Chunks) []byte {
	first := true
	dst = append(dst, '{')
	if c.Count != 0 {
		dst = strconv.AppendUint(member(dst, &first, "count"), uint64(c.Count), 10)
	}
	if c.Prefix != "" {
		dst = AppendString(member(dst, &first, "prefix"), c.Prefix)
	}
	if c.Template != "" {
		dst = AppendString(member(dst, &first, "template"), c.Template)
	}
	if c.Inline != nil {
		dst = append(member(dst, &first, "inline"), '[')
		for i, chunk := range c.Inline {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendChunk(dst, chunk)
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// AppendChunk appends one inline chunk: a bare string when it is valid UTF-8 (the shortest form), else {"base64":...}.
// Nil is an empty chunk.
func AppendChunk(dst []byte, chunk api.Bytes) []byte {
	if utf8.Valid(chunk) {
		return AppendString(dst, chunk)
	}
	return AppendBytes(dst, chunk)
}

// FromReserve fills r from the api form. Byte slices that it holds are the api value's own.
func (r *ReserveRequest) FromReserve(a *api.ReserveRequest) {
	*r = ReserveRequest{Max: a.Max, Strategy: a.Strategy, Consumer: []byte(a.Consumer), WaitMS: a.WaitMS,
		TimeoutMS: a.TimeoutMS, Context: r.Context[:0], scan: r.scan}
	for _, key := range slices.Sorted(maps.Keys(a.Context)) {
		value := a.Context[key]
		entry := MetaEntry{Key: []byte(key), Int: value.Int(), IsInt: value.IsInt()}
		if !entry.IsInt {
			entry.Text = []byte(value.Text())
		}
		r.Context = append(r.Context, entry)
	}
}
