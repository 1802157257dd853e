package web

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
)

// recipe is a strategy of docs/STRATEGIES.md. It fails if the document has no such strategy.
func recipe(t *testing.T, text string) string {
	t.Helper()
	document, err := os.ReadFile("../docs/STRATEGIES.md")
	if err != nil {
		t.Fatal(err)
	}
	_, recipes, found := strings.Cut(string(document), "\n## Recipes\n")
	if !found || !strings.Contains(recipes, "\n```strategy\n"+text+"\n---\n") {
		t.Errorf("docs/STRATEGIES.md has no recipe with the strategy %s", text)
	}
	return text
}

// put inserts a submission with text values for keys.
func (s *shop) put(chunks uint32, meta ...string) (got api.Submission) {
	s.Helper()
	s.must("POST", insertPath, submission(chunks, meta...), &got)
	return got
}

// values are those of a key, one per chunk.
func values(list []api.Reservation, key string) (got []string) {
	for i := range list {
		got = append(got, list[i].Meta[key].Text())
	}
	return got
}

// Tenant limits for an external API: never more than four calls of one customer at a time, fewer when the operator says
// so. An empty answer names the customers that are at their limit.
func TestRecipeTenantLimits(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	strategy := recipe(t, `MaxSimultaneous("customer", 4, OldestFirst)`)
	s.put(100, "customer", "acme")
	s.put(100, "customer", "beta")
	list := s.take(strategy, 8, 8)
	if got := strings.Join(values(list, "customer"), " "); got != "acme acme acme acme beta beta beta beta" {
		t.Errorf("got %s, want four of each", got)
	}
	if got := s.one(strategy); got.Reason == nil || *got.Reason != api.ReasonAllLimited || len(got.Limited) != 2 {
		t.Errorf("with both at their limits: %+v, want all_limited, naming both", got)
	}
	var set api.ValueCount
	s.must("PUT", "/v1/queues/default/meta-keys/customer/values/acme", map[string]any{"limit": 2}, &set)
	s.complete(list[:2]...)
	if got := s.one(strategy); len(got.Reservations) != 0 {
		t.Errorf("acme has two in flight and is limited to two by the operator, but got %+v", got.Reservations[0])
	}
	s.complete(list[2])
	if got := s.take(strategy, 1, 1); got[0].Meta["customer"].Text() != "acme" {
		t.Errorf("got %+v, want the one chunk that acme may have", got[0])
	}
}

// Preview before batch: previews go first, and no consumer is idle when there are none.
func TestRecipePreviewBeforeBatch(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	strategy := recipe(t, `OrElse(SelectOnly("mode", "preview", OldestFirst), OldestFirst)`)
	s.put(10, "mode", "batch")
	s.put(2, "mode", "preview")
	list := s.take(strategy, 4, 1)
	s.put(1, "mode", "preview")
	list = append(list, s.take(strategy, 2, 1)...)
	if got := strings.Join(values(list, "mode"), " "); got != "preview preview batch batch preview batch" {
		t.Errorf("got %s", got)
	}
}

// Fair tenants with weights: three to one between the companies, and within one the submissions take turns.
func TestRecipeFairTenants(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	strategy := recipe(t, `Fair("company", Fair("$submission", OldestFirst))`)
	var set api.ValueCount
	s.must("PUT", "/v1/queues/default/meta-keys/company/values/acme", map[string]any{"weight": 3}, &set)
	large, small := s.put(100_000, "company", "acme"), s.put(1000, "company", "acme")
	s.put(100_000, "company", "beta")
	of := map[string]int{}
	list := s.take(strategy, 400, 1)
	for i := range list {
		of[list[i].Submission]++
		of[list[i].Meta["company"].Text()]++
		if acme := float64(of["acme"]); acme < 0.75*float64(i+1)-1 || acme > 0.75*float64(i+1)+1 {
			t.Fatalf("after %d chunks acme has %v, want three quarters within 1", i+1, acme)
		}
	}
	if got := of[large.ID] - of[small.ID]; got < -2 || got > 2 {
		t.Errorf("acme's submissions have %d and %d chunks, want as many within 2", of[large.ID], of[small.ID])
	}
}

// Dedicated pools: work that needs the rare machines waits for them, and they help the others when they have no such
// work.
func TestRecipeDedicatedPools(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	rare := recipe(t, `OrElse(SelectOnly("pool", "gpu", OldestFirst), SelectOnly("pool", "any", OldestFirst))`)
	common := recipe(t, `SelectOnly("pool", "any", OldestFirst)`)
	s.put(3, "pool", "any")
	s.put(2, "pool", "gpu")
	if got := strings.Join(values(s.take(common, 1, 1), "pool"), " "); got != "any" {
		t.Errorf("a common machine got %s", got)
	}
	if got := strings.Join(values(s.take(rare, 4, 1), "pool"), " "); got != "gpu gpu any any" {
		t.Errorf("a rare machine got %s", got)
	}
	s.put(1, "pool", "gpu")
	if got := s.one(common); len(got.Reservations) != 0 {
		t.Errorf("a common machine got %+v", got.Reservations[0])
	}
}

// Newest first without starvation: while more comes than is done, NewestFirst never comes to old work. Fair shares
// between the hours of insertion finish old work, and serve new work within a few rounds. So does a part of the
// consumers with OldestFirst.
func TestRecipeNewestFirst(t *testing.T) {
	t.Parallel()
	hourly, oldest := recipe(t, `Fair("hour", NewestFirst)`), recipe(t, `OldestFirst`)
	for _, test := range []struct {
		name    string
		of      func(step int) string
		starves bool
	}{
		{"NewestFirst alone", func(int) string { return "NewestFirst" }, true},
		{"shares of the hours", func(int) string { return hourly }, false},
		{"one consumer in five takes the oldest", func(step int) string {
			if step%5 == 0 {
				return oldest
			}
			return "NewestFirst"
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			first := s.put(10, "hour", "0")
			const hours, steps = 10, 20 // per hour: three chunks come and two are done in a step
			late := 0
			for hour := range hours {
				for step := range steps {
					newest := s.put(3, "hour", fmt.Sprint(hour))
					list := s.take(test.of(hour*steps+step), 2, 1)
					s.complete(list...)
					if list[0].Submission != newest.ID && list[1].Submission != newest.ID {
						late++
					}
				}
			}
			var got api.Submission
			s.must("GET", "/v1/submissions/"+first.ID, nil, &got)
			if (got.Done == 0) != test.starves || (got.State == api.StateCompleted) == test.starves {
				t.Errorf("the first submission is %s with %d of its 10 chunks done, want starved: %v", got.State, got.Done, test.starves)
			}
			if late > hours*steps*9/10 {
				t.Errorf("in %d of %d steps nothing of the newest submission was handed out: that is not newest first", late, hours*steps)
			}
			t.Logf("first: %s, %d done; %d of %d steps without the newest", got.State, got.Done, late, hours*steps)
		})
	}
}
