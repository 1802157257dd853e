package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
)

// A queue puts its entries into the audit log, which all nodes of a cluster share, at its checkpoints. Before a node
// answers with a page of the log, it asks the others for what they have not put there yet. Only nodes can ask: a call
// needs a sealed hop. The path is no part of the API.
const freshActsPath = "/cluster/fresh-acts"

//	client ─► node A ─┬─ what A's queues have not put into the log yet
//	                  ├─ node B  what its queues have not, by freshActsPath
//	                  └─ node C  does not answer within askMost: its queues are in `incomplete`
//	                     then the log itself, as it stands now
//
// The order matters. A queue may put its entries into the log between the two looks. They are then found twice, and
// one is left out. The other way round they would be missed.

// freshActsQuestion is what a node asks.
type freshActsQuestion struct {
	Filter engine.AuditFilter
	Cursor string
	Limit  int
	Bytes  int // the most bytes of entries
}

// freshActsRoute answers for the queues of this node.
func freshActsRoute(e *echo.Echo, core *engine.Engine, sealed *hops) {
	e.GET(freshActsPath, func(c echo.Context) error {
		if sealed.of(c.Request()) == nil {
			return newProblem(codeForbidden, "Only nodes of this cluster ask this.")
		}
		var q freshActsQuestion
		if err := json.Unmarshal([]byte(c.QueryParam("question")), &q); err != nil {
			return newProblem(codeMalformed, "The question cannot be read: "+err.Error())
		}
		acts, err := core.FreshActs(q.Filter, q.Cursor, q.Limit, q.Bytes)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, acts)
	})
}

// freshActs are what the other nodes have to add to a page of the log. All together they fit into an answer: each
// node gets its share of the bytes. A node that has more says where it stopped, and the page ends there.
func (f *forwarding) freshActs(ctx context.Context, filter engine.AuditFilter, cursor string,
	limit int) ([]engine.FreshActs, error) {
	if f.nodes == nil {
		return nil, nil
	}
	if cursor != "" {
		if _, err := engine.AuditTime(cursor); err != nil { // the others would refuse it too
			return nil, err
		}
	}
	question, err := json.Marshal(freshActsQuestion{filter, cursor, limit,
		queue.MaxAnswerBytes / (len(f.nodes.Others()) + 1)})
	if err != nil {
		return nil, err
	}
	return askOthers[engine.FreshActs](ctx, f, freshActsPath+"?question="+url.QueryEscape(string(question))), nil
}
