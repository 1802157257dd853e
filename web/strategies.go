package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	putStrategyAbout = "The same strategy as before, in whatever spelling, changes nothing; another one becomes the " +
		"next version, and the next reservation uses it. " +
		"With If-Match only a version with this ETag is replaced, with `If-None-Match: *` only a new name is made; " +
		"else 412. A new name answers 201."
	validateAbout = "Answers the canonical forms, the branches that it compiles to, and warnings of what in it has " +
		"no effect. Nothing is stored or reserved. A strategy that is not valid answers 422, as a reservation would."
)

type listStrategiesInput struct {
	QueuePath
	Cursor string `query:"cursor" maxLength:"64" doc:"The next of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most items"`
}

type listStrategiesOutput struct {
	Body api.Page[api.NamedStrategy]
}

func (s *Server) listStrategies(_ context.Context, in *listStrategiesInput) (*listStrategiesOutput, error) {
	page, err := s.engine.Strategies(in.Queue, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &listStrategiesOutput{Body: api.Page[api.NamedStrategy]{Items: make([]api.NamedStrategy, len(page.Items)), Next: page.Next}}
	for i := range page.Items {
		out.Body.Items[i] = apiStrategy(&page.Items[i])
	}
	return out, nil
}

// StrategyPath names a strategy of a queue. It is exported because huma only looks into exported fields.
type StrategyPath struct {
	QueuePath
	Name string `path:"name" maxLength:"64" doc:"Name of the strategy: letters, digits, '.', '_' and '-'"`
}

type getStrategyInput struct {
	StrategyPath
	Version uint32 `query:"version" doc:"An older version; absent or 0: the newest. The last 100 are kept"`
}

type strategyOutput struct {
	ETag string `header:"ETag" doc:"Names this version"`
	Body api.NamedStrategy
}

func (s *Server) getStrategy(_ context.Context, in *getStrategyInput) (*strategyOutput, error) {
	found, err := s.engine.Strategy(in.Queue, in.Name, in.Version)
	if err != nil {
		return nil, err
	}
	return &strategyOutput{ETag: etagOf(&found), Body: apiStrategy(&found)}, nil
}

// Conditions are the headers that make a change depend on what is there. It is exported because huma only looks into
// exported fields.
type Conditions struct {
	IfMatch     string `header:"If-Match" doc:"ETags of which one must be that of the newest version; *: there must be one"`
	IfNoneMatch string `header:"If-None-Match" doc:"*: there must be none yet"`
}

type putStrategyInput struct {
	StrategyPath
	Conditions
	Body decoded[api.StrategyRequest]
}

type putStrategyOutput struct {
	Status   int
	Location string `header:"Location" doc:"Path of the strategy, when it was created"`
	ETag     string `header:"ETag" doc:"Names this version"`
	Body     api.NamedStrategy
}

func (s *Server) putStrategy(ctx context.Context, in *putStrategyInput) (*putStrategyOutput, error) {
	if in.Body.failed != nil {
		return nil, s.wireProblem(in.Body.failed, in.Body.body, contentJSON)
	}
	if operationName(in.Name) {
		return nil, queue.Invalid("/path/name",
			"is the name of an operation on strategies (validate, explain, preview, compare); choose another")
	}
	guard, err := s.guardOf(&in.Conditions)
	if err != nil {
		return nil, err
	}
	put, created, err := s.engine.PutStrategy(ctx, in.Queue, in.Name, in.Body.value.Strategy, guard)
	if err != nil {
		return nil, err
	}
	out := &putStrategyOutput{Status: http.StatusOK, ETag: etagOf(&put), Body: apiStrategy(&put)}
	if created {
		out.Status, out.Location = http.StatusCreated, "/v1/queues/"+in.Queue+"/strategies/"+put.Name
	}
	return out, nil
}

// operationName says whether the path of a strategy of this name is that of an operation, there now or to come.
func operationName(name string) bool {
	return name == "validate" || name == "explain" || name == "preview" || name == "compare" || name == "in-use"
}

type deleteStrategyInput struct {
	StrategyPath
	Conditions
}

func (s *Server) deleteStrategy(ctx context.Context, in *deleteStrategyInput) (*struct{}, error) {
	guard, err := s.guardOf(&in.Conditions)
	if err != nil {
		return nil, err
	}
	return nil, s.engine.DeleteStrategy(ctx, in.Queue, in.Name, guard)
}

type validateInput struct {
	QueuePath
	Body decoded[api.StrategyRequest]
}

type validateOutput struct{ Body api.ValidStrategy }

func (s *Server) validateStrategy(_ context.Context, in *validateInput) (*validateOutput, error) {
	if in.Body.failed != nil {
		return nil, s.wireProblem(in.Body.failed, in.Body.body, contentJSON)
	}
	read, err := s.engine.ReadStrategy(in.Queue, in.Body.value.Strategy)
	if err != nil {
		return nil, err
	}
	warnings, err := read.Warnings()
	if err != nil {
		return nil, err
	}
	tree, err := read.MarshalJSON()
	if err != nil {
		return nil, err
	}
	out := &validateOutput{Body: api.ValidStrategy{Strategy: read.String(), Tree: tree, Branches: []string{},
		Warnings: []api.StrategyWarning{}}}
	plan := read.Plan()
	for i := range plan.Branches {
		out.Body.Branches = append(out.Body.Branches, plan.Branches[i].Key())
	}
	for _, why := range s.engine.Unusable(plan) {
		out.Body.Warnings = append(out.Body.Warnings, unusable(why))
	}
	for _, w := range warnings {
		out.Body.Warnings = append(out.Body.Warnings, api.StrategyWarning{Kind: w.Kind, Pointer: w.Pointer, Detail: w.Detail})
	}
	return out, nil
}

// unusable is the warning of a block whose plugin, version or configuration there is not, or is not active. Stored,
// such a strategy goes on with its next branch.
func unusable(err error) api.StrategyWarning {
	w := api.StrategyWarning{Kind: strategy.WarnUnusable, Pointer: "/strategy", Detail: "has a block of a plugin that cannot be used"}
	var known *queue.Error
	var resting *strategy.Unavailable
	switch {
	case errors.As(err, &resting) && resting.Inactive:
		w.Detail += ": " + resting.Detail
	case errors.As(err, &resting):
		w.Kind, w.Detail = strategy.WarnUnavailable, "has a block that is not scored now, and goes on with what follows it: "+resting.Detail
	case errors.As(err, &known):
		for _, p := range known.Problems {
			w.Detail += ": " + p.Pointer + " " + p.Detail
		}
	}
	return w
}

func apiStrategy(in *engine.NamedStrategy) api.NamedStrategy {
	return api.NamedStrategy{Name: in.Name, Version: in.Version, Strategy: in.Text, ETag: etagOf(in), CreatedAt: apiTime(in.Created)}
}

// etagOf is the ETag of a version. The digest keeps apart a version and the one of the same number after the name was deleted
// and created again.
func etagOf(in *engine.NamedStrategy) string {
	digest := sha256.Sum256([]byte(in.Text))
	return `"` + strconv.FormatUint(uint64(in.Version), 10) + "-" + hex.EncodeToString(digest[:8]) + `"`
}

// guardOf turns the conditions of a request into what the engine asks. There is none without conditions.
func (s *Server) guardOf(c *Conditions) (engine.StrategyGuard, error) {
	if c.IfNoneMatch != "" && strings.TrimSpace(c.IfNoneMatch) != "*" {
		return nil, queue.Invalid("/header/If-None-Match",
			"must be *, which makes only a new name; to replace a known version send its ETag in If-Match")
	}
	if c.IfMatch == "" && c.IfNoneMatch == "" {
		return nil, nil
	}
	return func(now engine.NamedStrategy, exists bool) error {
		switch {
		case exists && c.IfNoneMatch != "":
			return s.newProblem(codePrecondition, "There is a strategy of this name already, in version "+
				strconv.FormatUint(uint64(now.Version), 10)+".")
		case !exists && c.IfMatch != "":
			return s.newProblem(codePrecondition, "There is no strategy of this name, so none that If-Match could name.")
		case exists && !matchesETag(c.IfMatch, etagOf(&now)):
			return s.newProblem(codePrecondition, "The strategy is in version "+
				strconv.FormatUint(uint64(now.Version), 10)+
				", which is not one that If-Match names. Read it again, then retry with its new ETag.")
		}
		return nil
	}, nil
}

// matchesETag compares strongly: a weak ETag matches nothing. Our ETags have no commas, so the list can be cut at them.
func matchesETag(list, etag string) bool {
	for candidate := range strings.SplitSeq(list, ",") {
		if candidate = strings.TrimSpace(candidate); candidate == "*" || candidate == etag {
			return true
		}
	}
	return false
}
