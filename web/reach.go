package web

// Which node of a cluster answers a call. A server that is alone answers everything, and never
// asks.
//
// Every path has a reach, the first line of the table whose prefix fits. It looks at as little as
// it can: the path, else the query, else a part of the body, which peek leaves to be read again.
// If a path has no reach, the server does not start (router.add), so that no call in production
// finds out.

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// reach says which node of a cluster answers a call. Every operation has one, by its path.
type reach func(n *engine.Nodes, c echo.Context) (*engine.Elsewhere, error)

// reaches are the reaches by prefixes of paths; the first one that fits counts. Longer prefixes stand before the
// shorter ones that they begin with.
func reaches() []struct {
	path string
	to   reach
} {
	return []struct {
		path string
		to   reach
	}{
		{"/v1/queues/{queue}/reservations", ofWork},
		{"/v1/queues/{queue}/submissions", ofWork},
		{"/v1/queues/{queue}/consumers/{consumer}/attach", ofWork},
		{"/v1/queues/{queue}/groups/{group}", ofGroup},
		{"/v1/queues/{queue}", inPath},
		{"/v1/queues", anyNode}, // the catalogue, which all nodes have, lists them
		{"/v1/submissions/{id}", ofSubmission},
		{"/v1/submissions:wait", ofIDs},
		{"/v1/bulk-operations/{id}", ofBulk},
		{"/v1/bulk-operations", inQueryOrBody},
		{"/v1/events", ofEvents},
		{"/v1/plugins/{name}/versions/{version}/dry-run", ofNodeOrBody},
		{"/v1/plugins/{name}/logs", ofNode},
		{"/v1/plugins/{name}/stats", ofNode},
		{"/v1/plugins/{name}/scores", ofNode},
		{"/v1/plugins/{name}/recordings", ofNode},
		{"/v1/plugins", anyNode},
		{"/v1/initial-rules", anyNode}, // the catalogue has them
		{"/v1/tokens", anyNode},
		{"/v1/session", anyNode}, // a session is with the node that has the browser
		{"/v1/whoami", anyNode},
		{"/v1/audit", anyNode},
		{"/v1/nodes", anyNode},
		{"/v1/config", anyNode},
		{"/v1/backup", anyNode},
		{"/v1", nil}, // anything else has to be named here
		{"/", anyNode},
	}
}

// reachOf finds the reach of a path; nil: it has none.
func reachOf(path string) reach {
	for _, r := range reaches() {
		if strings.HasPrefix(path, r.path) {
			return r.to
		}
	}
	return nil
}

// anyNode is for calls that each node can answer, from the catalogue or about itself.
func anyNode(*engine.Nodes, echo.Context) (*engine.Elsewhere, error) { return nil, nil }

// ofNode is the node that the query names.
func ofNode(n *engine.Nodes, c echo.Context) (*engine.Elsewhere, error) {
	name := c.QueryParam("node")
	if name == "" {
		return nil, nil
	}
	return n.Named(name)
}

// ofNodeOrBody is the node that the query names, else the one that serves the queue of the body.
func ofNodeOrBody(n *engine.Nodes, c echo.Context) (*engine.Elsewhere, error) {
	if c.QueryParams().Has("node") {
		return ofNode(n, c)
	}
	return inQueryOrBody(n, c)
}

// inPath is the node that serves the queue that the path names; a new one is created by the coordinator. One node
// creates queues, so that two with the same name are not created at once.
func inPath(n *engine.Nodes, c echo.Context) (*engine.Elsewhere, error) {
	name := c.Param("queue")
	at := n.Elsewhere(name)
	// Only a PUT of the queue itself creates one. Below it, as in .../strategies/{name}, a queue that does not exist
	// is an error, which any node can say.
	if at == nil && c.Request().Method == http.MethodPut && strings.HasSuffix(c.Path(), "/:queue") && !n.Has(name) {
		at = n.Coordinator()
	}
	return at, nil
}

// ofWork is inPath for the calls of producers and workers. For a queue of several shards, any node answers them, and
// asks the nodes of its shards (sharedwork.go). It waits a moment for shards that were just made.
func ofWork(n *engine.Nodes, c echo.Context) (*engine.Elsewhere, error) {
	name := c.Param("queue")
	look := n.Lookup()
	if !look.Several(name) {
		return inPath(n, c)
	}
	return nil, look.Seen(c.Request().Context(), name, moveWait)
}

// ofGroup is the node that serves the shard of a group. If the request creates a group, the group first gets its
// shard, unless the request is wrong: then any node refuses it, and makes no group.
func ofGroup(n *engine.Nodes, c echo.Context) (*engine.Elsewhere, error) {
	look := n.Lookup()
	in := GroupPath{QueuePath: QueuePath{c.Param("queue")}, Group: c.Param("group")}
	if !look.Several(in.Queue) {
		return inPath(n, c)
	}
	if err := look.Seen(c.Request().Context(), in.Queue, moveWait); err != nil {
		return nil, err
	}
	creates, err := createsGroup(c, in.Group)
	if err != nil {
		return nil, err
	}
	home, err := look.GroupHome(in.Queue, in.Group, creates)
	if err != nil || home == "" {
		return nil, err
	}
	return n.Elsewhere(home), nil
}

// createsGroup says that a request may create a group: it is valid in itself, whatever exists already.
func createsGroup(c echo.Context, name string) (bool, error) {
	if c.Request().Method != http.MethodPut {
		return false, nil
	}
	var raw json.RawMessage
	if err := peek(c, &raw); err != nil {
		return false, err
	}
	read, _ := c.Get(peekedKey).([]byte)
	var body api.PutGroupRequest
	if wire.Decode(read, &body) != nil {
		return false, nil
	}
	limits, err := quotaOf("/limits", &body.Limits)
	if err == nil {
		err = engine.ValidGroup(name, body.Description, limits)
	}
	header := c.Request().Header
	given := Conditions{IfMatch: header.Get("If-Match"), IfNoneMatch: header.Get("If-None-Match")}
	return err == nil && given.hold("", 0, "") == nil, nil
}

// ofSubmission is the node that serves the queue of the submission that the path names.
// The handler refuses an invalid id.
func ofSubmission(n *engine.Nodes, c echo.Context) (*engine.Elsewhere, error) {
	id, err := queue.ParseSubmissionID(c.Param("id"))
	if err != nil {
		return nil, nil
	}
	return n.ElsewhereOf(id), nil
}

// ofBulk is the node of a bulk operation. Its id begins with the shard, like that of a submission.
func ofBulk(n *engine.Nodes, c echo.Context) (*engine.Elsewhere, error) {
	id, ok := queue.ParseBulkID(c.Param("id"))
	if !ok {
		return nil, nil
	}
	return n.ElsewhereOf(queue.SubmissionID(id)), nil
}

// inQueryOrBody is the node that serves the queues that the query or the body names.
func inQueryOrBody(n *engine.Nodes, c echo.Context) (*engine.Elsewhere, error) {
	names := c.QueryParams()["queue"]
	if c.Request().Method == http.MethodPost {
		var body struct{ Queue string }
		if err := peek(c, &body); err != nil {
			return nil, err
		}
		names = []string{body.Queue}
	}
	look, at := n.Lookup(), []*engine.Elsewhere(nil)
	for _, name := range names {
		at = append(at, look.Queue(name))
	}
	return common(at)
}

// ofEvents is the node that serves the queues whose events are asked for: the default one, if the query names none.
func ofEvents(n *engine.Nodes, c echo.Context) (*engine.Elsewhere, error) {
	if !c.QueryParams().Has("queue") {
		return n.Elsewhere(engine.DefaultQueue), nil
	}
	return inQueryOrBody(n, c)
}

// ofIDs is the node that serves the queues of all submissions in the body. Ids that cannot be read are passed over:
// the handler refuses them, and names their place.
func ofIDs(n *engine.Nodes, c echo.Context) (*engine.Elsewhere, error) {
	var body struct{ IDs []string }
	if err := peek(c, &body); err != nil {
		return nil, err
	}
	look, at := n.Lookup(), []*engine.Elsewhere(nil)
	for _, text := range body.IDs {
		if id, err := queue.ParseSubmissionID(text); err == nil {
			at = append(at, look.Submission(id))
		}
	}
	return common(at)
}

// common is the one node that has all of them. Operations that can join the answers of several nodes have done so
// before (spread).
func common(at []*engine.Elsewhere) (*engine.Elsewhere, error) {
	if len(at) == 0 {
		return nil, nil
	}
	if other := slices.IndexFunc(at, func(a *engine.Elsewhere) bool { return urlOf(a) != urlOf(at[0]) }); other >= 0 {
		return nil, &queue.Error{Code: queue.CodeConflict,
			Message: fmt.Sprintf("Different nodes of the cluster serve what this is about: "+
				"the queue %s and others. Ask for each queue by itself.", oneOf(at[0], at[other]))}
	}
	return at[0], nil
}

func urlOf(at *engine.Elsewhere) string {
	if at == nil {
		return ""
	}
	return at.URL
}

// oneOf is one of two places that is not this node.
func oneOf(a, b *engine.Elsewhere) string {
	return cmp.Or(a, b).Queue
}

// peekedKey is where peek leaves what it has read.
const peekedKey = "quern.peeked"

// peek reads a body of JSON and leaves it to be read again. It ignores the error of decoding on purpose: the handler
// refuses a wrong body, with errors that name the field.
func peek(c echo.Context, into any) error {
	if read, did := c.Get(peekedKey).([]byte); did {
		_ = json.Unmarshal(read, into)
		return nil
	}
	r := c.Request()
	read, err := io.ReadAll(io.LimitReader(r.Body, maxBodyBytes+1))
	if _, large := errors.AsType[*http.MaxBytesError](err); err != nil && !large {
		return unread(r, err)
	}
	c.Set(peekedKey, read)
	_ = json.Unmarshal(read, into)
	// The handler reads these bytes first, then the rest: so it sees a body over the limit whole, and refuses it by
	// its size.
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(read), r.Body), r.Body}
	return nil
}
