package web

// Tokens that are bound to queues or to one value of a meta key, such as company=7: tokens of
// tenants. Two rules hold everywhere:
//
//  1. Nothing of others is shown. A thing that the token does not cover gets the same status and bytes as one
//     that does not exist: `uncovered` makes every 404 here, and only the log has its cause.
//  2. An operation that does not declare how it keeps within the bounds is refused. So an endpoint whose author
//     forgot the declaration leaks nothing.
//
// The bounds are applied where a call enters, so the engine knows nothing of tenants:
//
//	strategy         ─► SelectOnly(key, value, strategy)                     narrowPlan
//	meta filter      ─► with the token's entry added                         ownMeta
//	consumer name    ─► company=7/NAME: no other tenant can take the name    narrowConsumer
//	unique key       ─► with the entry as its scope                          narrowUnique
//	idempotency key  ─► hash with the entry, behind a mark that no client can send   narrowKey

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// narrow says how an operation keeps within a token's restriction: one or more of these.
// An operation that says nothing is refused to restricted tokens.
type narrow uint8

const (
	free    narrow = 1 << iota // shows nothing of any queue and changes none
	inQueue                    // keeps to the queue of its path
	inSub                      // keeps to the submission of its path
	// counts or changes more than one value of a meta key: refused to tokens that are bound to one
	noTenants
	inHandler // its handler does the rest of the check
)

// narrowed refuses requests beyond the token's restriction. A thing that the token does
// not cover gets the answer of a thing that does not exist.
func (a *auth) narrowed(c echo.Context, op *operation, token *access.Token) error {
	bound := &token.Restriction
	if op.narrow == 0 || op.narrow&noTenants != 0 && bound.Tenant() {
		return tooWide(token)
	}
	if op.narrow&inQueue != 0 {
		if name := c.Param("queue"); !bound.CoversQueue(name) {
			return unknownQueue(name)
		}
	}
	if op.narrow&inSub != 0 {
		id, err := queue.ParseSubmissionID(c.Param("id") + c.Param("submission")) // a path has one of them
		if err == nil {
			return coverage(c.Request().Context(), a.engine, bound, id)
		}
	}
	return nil
}

// tooWide is the problem of an operation that cannot be narrowed to the token's restriction.
func tooWide(token *access.Token) *problem {
	return newProblem(codeForbidden, "The token "+strconv.Quote(token.Name)+" is bound to "+
		token.Restriction.Bounds()+
		", and this would show or change more than that. Use a token that is not bound to it.")
}

// errUncovered is the cause of every 404 for something that the token does not cover. The
// logs show it; to the client such a thing and one that does not exist are the same.
var errUncovered = errors.New("the token is bound to something else")

func uncovered(code queue.Code, what string) error {
	return &queue.Error{Code: code, Message: "There is no " + what + " that this token covers.", Err: errUncovered}
}

// coveredQueue is a queue's name if the token of the request covers it; else "".
func coveredQueue(ctx context.Context, name string) string {
	if token := boundTo(ctx); token != nil && !token.CoversQueue(name) {
		return ""
	}
	return name
}

func unknownQueue(name string) error {
	return uncovered(queue.CodeUnknownQueue, "queue "+strconv.Quote(clip(name)))
}

func unknownSubmission(id queue.SubmissionID) error {
	return uncovered(queue.CodeUnknownSubmission, "submission "+id.String())
}

// errAside is the answer for a submission of a queue that does not serve, so that its
// meta values are unknown. The answer is not "unknown", after which a producer might
// insert it once more.
func errAside(err error) error {
	if queue.CodeOf(err) == queue.CodeMoved {
		return err
	}
	return &queue.Error{Code: queue.CodeQuarantined,
		Message: "The queue of the submission is in quarantine: its files are damaged or " +
			"missing. Whether the submission is there is known once it serves again."}
}

// coverage is nil for a submission that is there and within the restriction; else why it is not shown.
func coverage(ctx context.Context, e *engine.Engine, bound *access.Restriction, id queue.SubmissionID) error {
	sub, err := e.Submission(ctx, id)
	switch aside, is := errors.AsType[*engine.Aside](err); {
	case is && bound.CoversQueue(aside.Queue):
		return errAside(err)
	case queue.CodeOf(err) == queue.CodeMoved: // while it served
		if q, _ := e.QueueOf(id); q != nil && bound.CoversQueue(q.Name()) {
			return err
		}
	case err == nil && bound.CoversQueue(sub.Queue) && bound.CoversMeta(sub.Meta):
		return nil
	}
	return unknownSubmission(id)
}

// boundTo is the token of a request if it is bound to anything, else nil.
func boundTo(ctx context.Context) *access.Token {
	if token := access.Of(ctx).Token; token != nil && token.Restricted() {
		return token
	}
	return nil
}

// tenantOf is the token of a request if it is bound to a value of a meta key, else nil.
func tenantOf(ctx context.Context) *access.Token {
	if token := access.Of(ctx).Token; token != nil && token.Tenant() {
		return token
	}
	return nil
}

// ownMeta is the meta filter of a list as a tenant's token may ask for it: its value is part of it.
func ownMeta(ctx context.Context, asked queue.Meta) queue.Meta {
	if token := tenantOf(ctx); token != nil && !slices.Contains(asked, token.Entry) {
		return append(asked, token.Entry)
	}
	return asked
}

// mayFinish refuses tokens of reservations beyond the access token's restriction; none of
// the items is done then.
func mayFinish(ctx context.Context, e *engine.Engine, pointer string, n int, at func(int) *queue.Token) error {
	token := boundTo(ctx)
	if token == nil {
		return nil
	}
	covered := map[queue.SubmissionID]bool{}
	for i := range n {
		id := at(i).Submission
		known, asked := covered[id]
		if !asked {
			known = coverage(ctx, e, &token.Restriction, id) == nil
			covered[id] = known
		}
		if !known {
			return newProblem(codeForbidden, "The token "+strconv.Quote(token.Name)+" is bound to "+
				token.Restriction.Bounds()+". Nothing of this request was done.",
				queue.Problem{Pointer: pointer + "/" + strconv.Itoa(i) + "/token",
					Detail: "is not that of a reservation within it"})
		}
	}
	return nil
}

// narrowRefusal is why an insert was refused, without the text of a rule that is about
// more than the token covers.
func narrowRefusal(ctx context.Context, err error) error {
	token := tenantOf(ctx)
	if by, is := errors.AsType[*queue.RefusedBy](err); is && token != nil && !about(&by.Rule.Match, token.Entry) {
		return &queue.Error{Code: queue.CodeRefusedByRule, Err: by,
			Message: "Inserts are refused by a rule about more than this token covers."}
	}
	return err
}

// narrowPlan is the plan, narrowed to the work that the token covers.
func narrowPlan(ctx context.Context, q engine.Work, plan *strategy.Plan) (*strategy.Plan, error) {
	token := tenantOf(ctx)
	if token == nil {
		return plan, nil
	}
	raw, err := json.Marshal(map[string]any{"type": "select_only", "meta_field": token.Entry.Key,
		"value": token.Entry.Value, "underlying": plan.Text()})
	if err != nil {
		return nil, fmt.Errorf("web: narrow a strategy: %w", err)
	}
	asked, err := q.Asked(ctx, raw)
	return asked.Plan, err
}

// narrowConsumer is the name under which a consumer is known. A consumer hears of all
// reservations under its name. So the names of a tenant begin with the tenant's entry, and
// no other tenant can take one.
func narrowConsumer(ctx context.Context, name string) (string, error) {
	token := tenantOf(ctx)
	if token == nil || name == "" {
		return name, nil
	}
	name = token.Entry.Key + "=" + token.Entry.Value.Quoted() + "/" + name
	if len(name) > queue.MaxConsumerBytes {
		return "", queue.Invalid("/consumer", "has %d bytes with the token's %s=%s/ before it; at most %d are allowed",
			len(name), token.Entry.Key, token.Entry.Value.Quoted(), queue.MaxConsumerBytes)
	}
	return name, nil
}

// narrowKey is an idempotency key that only requests within the same restriction can use:
// no client can send the mark.
func narrowKey(ctx context.Context, key string) string {
	token := tenantOf(ctx)
	if token == nil {
		return key
	}
	return queue.MadeKey + hashOf(token.Entry.Key+"\x00"+token.Entry.Value.Quoted()+"\x00"+key)
}

// narrowUnique is a unique key that only inserts within the same restriction can use. So a tenant does not learn of
// another's submission, and cannot replace it.
func narrowUnique(ctx context.Context, u *queue.Unique) {
	if token := tenantOf(ctx); token != nil {
		u.Scope = token.Entry.Key + "=" + token.Entry.Value.Quoted()
	}
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// within are those of a list that the token of the request covers.
func within[T any](ctx context.Context, list []T, covers func(*T) bool) []T {
	if boundTo(ctx) == nil {
		return list
	}
	var kept []T
	for i := range list {
		if covers(&list[i]) {
			kept = append(kept, list[i])
		}
	}
	return kept
}

// coversEntries says whether a filter keeps within the restriction: one that asks for the entry does.
func coversEntries(bound *access.Restriction, entries []queue.MetaEntry) bool {
	return slices.Contains(entries, bound.Entry) || !bound.Tenant()
}
