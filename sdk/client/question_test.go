package client_test

import (
	"encoding/json"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// The four questions about strategies, as a server answers them.
func TestQuestionsOnServer(t *testing.T) {
	t.Parallel()
	c := connect(t, serve(t))
	ctx := t.Context()
	var ids []string
	for company := range 3 {
		s, err := c.Insert(ctx, "default", &api.NewSubmission{Meta: api.Meta{"company": api.Int(int64(company))}, Chunks: api.Chunks{Count: 4, Template: "x"}})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, s.ID)
	}
	if _, err := c.PutStrategy(ctx, "default", "fair", `Fair("company", OldestFirst)`, client.Condition{}); err != nil {
		t.Fatal(err)
	}
	named := json.RawMessage(`{"name":"fair"}`)
	preview, err := c.Preview(ctx, "default", &api.PreviewRequest{Strategy: named, Max: 5, Seed: new(uint64(3))})
	if err != nil || len(preview.Picks) != 5 || preview.Seed != 3 || preview.Picks[0].Path != "Fair(company) > OldestFirst" {
		t.Errorf("preview: got %+v, %v", preview, err)
	}
	compared, err := c.Compare(ctx, "default", &api.CompareRequest{A: named, B: json.RawMessage(`"NewestFirst"`), Max: 3})
	if err != nil || compared.Overlap != 1 || compared.A.Keys[1].Distinct != 3 || compared.A.Keys[1].Jain != 1 || compared.B.Keys[1].MaxShare != 1 || compared.B.Keys[1].Key != "company" {
		t.Errorf("compare: got %+v, %v", compared, err)
	}
	held, err := c.Reserve(ctx, "default", &api.ReserveRequest{Max: 2, Strategy: json.RawMessage(`"OldestFirst"`), Consumer: "me"})
	if err != nil {
		t.Fatal(err)
	}
	limited := json.RawMessage(`"MaxSimultaneous(\"company\", 2, OldestFirst)"`)
	explained, err := c.Explain(ctx, "default", &api.PreviewRequest{Strategy: limited, Max: 1})
	if err != nil || len(explained.Tree) != 2 || len(explained.Tree[0].Top) != 1 || *explained.Tree[0].Top[0].Value != api.Int(0) || explained.Tree[0].Passed.Chunks != 8 || explained.Picks[0].Pick.Submission != ids[1] {
		t.Errorf("explain: got %+v, %v", explained, err)
	}
	why, err := c.Why(ctx, ids[0], 3, &api.WhyRequest{Strategy: limited})
	if err != nil || why.State != "ready" || why.Branches[0].Obstacle != api.ObstacleLimit || *why.Branches[0].InFlight != 2 || why.Standing != nil {
		t.Errorf("why: got %+v, %v", why, err)
	}
	if _, err := c.PutValue(ctx, "default", "company", api.Int(0), api.ValueSettings{Limit: new(uint32(0))}, client.Condition{}); err != nil {
		t.Fatal(err)
	}
	why, err = c.Why(ctx, ids[0], 3, &api.WhyRequest{Strategy: named})
	if err != nil || why.Branches[0].Obstacle != api.ObstacleValueLimit || why.Branches[0].Max == nil || *why.Branches[0].Max != 0 || *why.Branches[0].InFlight != 2 {
		t.Errorf("why with a limit of an operator: got %+v, %v", why, err)
	}
	explained, err = c.Explain(ctx, "default", &api.PreviewRequest{Strategy: named, Max: 1})
	if err != nil || explained.Withheld.Refused.Chunks != 2 || explained.Withheld.Top[0].Key != "company" || explained.Branches[0].Fair[0].Ledgers != 1 || explained.Picks[0].Tenants[0].Key != "company" {
		t.Errorf("explain with a limit of an operator: got %+v, %v", explained, err)
	}
	why, err = c.Why(ctx, ids[0], held.Reservations[0].Index, &api.WhyRequest{})
	if err != nil || why.State != "reserved" || why.Branches[0].Obstacle != api.ObstacleReserved || why.Branches[0].Consumer != "me" {
		t.Errorf("why of a reserved chunk: got %+v, %v", why, err)
	}
	if _, err := c.Preview(ctx, "default", &api.PreviewRequest{Max: 101}); client.CodeOf(err) != api.CodeInvalid {
		t.Errorf("101 chunks: got %v, want %s", err, api.CodeInvalid)
	}
}
