package journal

import (
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/queue"
)

func anyMatch(t *rapid.T) (m queue.RuleMatch) {
	switch rapid.IntRange(0, 3).Draw(t, "match") {
	case 1:
		m.Submission = queue.SubmissionID(max(anyUint64(t, "submission"), 1))
	case 2:
		for meta := anyMeta(t); len(meta) > 0; {
			m.Entry = meta[0]
			break
		}
	case 3:
		values := []queue.MetaValue{queue.IntValue(1), queue.StringValue(rapid.StringN(0, 20, 60).Draw(t, "value"))}
		c, err := queue.NewConditions([]queue.Condition{{Key: "a", Values: values}, {Key: "b", Values: values[:1]}})
		if err != nil {
			t.Fatal(err)
		}
		m = queue.MatchOf(c)
	}
	return m
}

func anyRule(t *rapid.T) Rule {
	id := queue.RuleID(anyUint32(t, "rule"))
	if rapid.Bool().Draw(t, "lift") {
		return Rule{
			Lift: true, Rule: queue.Rule{ID: id}, Grace: anyTime(t, "grace"), At: anyTime(t, "at"),
			End: queue.RuleEnd(rapid.IntRange(0, 2).Draw(t, "end")), By: anyText(t, "by"),
		}
	}
	return Rule{Rule: anyActive(t, id)}
}

func anyActive(t *rapid.T, id queue.RuleID) queue.Rule {
	return queue.Rule{
		ID: id, Action: queue.RuleAction(rapid.IntRange(0, 1).Draw(t, "action")), Match: anyMatch(t), Reason: anyText(t, "reason"),
		Actor: anyText(t, "actor"), Since: anyTime(t, "since"), Until: anyTime(t, "until"), Insert: rapid.Bool().Draw(t, "insert"),
		Revoke: rapid.Bool().Draw(t, "revoke"),
	}
}

// The store's row of rules comes back as it went in, and a byte more or less is noticed.
func TestRulesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := Rules{Position: Position(rapid.Uint64Range(0, math.MaxInt64).Draw(t, "position")), Last: queue.RuleID(anyUint32(t, "last"))}
		for range rapid.IntRange(0, 4).Draw(t, "rules") {
			r := anyRule(t)
			r.Rule.Match = anyMatch(t)
			want.Rules = append(want.Rules, r.Rule)
		}
		for range rapid.IntRange(0, 3).Draw(t, "graces") {
			want.Graces = append(want.Graces, Grace{anyMatch(t), anyTime(t, "until")})
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "ended") {
			want.Ended = append(want.Ended, queue.EndedRule{
				Rule: anyActive(t, queue.RuleID(i+1)), Ended: anyTime(t, "at"), End: queue.RuleEnd(rapid.IntRange(0, 2).Draw(t, "end")), By: anyText(t, "by"),
			})
		}
		row := AppendRules([]byte("before"), &want)[len("before"):]
		got, err := DecodeRules(row)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("DecodeRules(%x) = %+v, %v\nwant %+v", row, got, err, want)
		}
		if got, err := DecodeRules(append(row, 0)); err == nil {
			t.Fatalf("DecodeRules of a row with a byte too many = %+v; want an error", got)
		}
		cut := rapid.IntRange(0, len(row)-1).Draw(t, "cut")
		if got, err := DecodeRules(row[:cut]); err == nil {
			t.Fatalf("DecodeRules of %d of %d bytes = %+v; want an error", cut, len(row), got)
		}
	})
}
