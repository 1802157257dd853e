package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// A follow of the audit log goes on through cuts and a restart of the server: no entry is missed, none comes twice, and the filter applies.
func TestFollowAuditThroughRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var target atomic.Pointer[url.URL]
	streams := make(chan struct{}, 1000)
	open := func() (end func() error) {
		address, end, err := startServer(dir)
		if err != nil {
			t.Fatal(err)
		}
		at, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		target.Store(at)
		return end
	}
	end := open()
	proxy := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target.Load())
		if r.In.URL.Path == "/v1/audit" {
			streams <- struct{}{}
		}
	}, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }})
	t.Cleanup(proxy.Close)
	c, ctx := connect(t, proxy.URL), t.Context()
	got, ended := make(chan string, 1000), make(chan error, 1)
	go func() {
		for e, err := range c.FollowAudit(ctx, client.AuditFilter{Action: "rule.create", Since: time.Now().Add(-time.Hour)}) {
			if err != nil {
				ended <- err
				return
			}
			got <- e.Target
		}
	}()
	var want, have []string
	act := func() {
		direct := connect(t, target.Load().String())
		n := len(want)
		r, err := direct.SetRule(ctx, "default", &api.RuleRequest{Action: "pause", Match: api.RuleMatch{Meta: api.Meta{"company": api.Int(int64(n))}}})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, "rule "+r.ID)
		if err := direct.LiftRule(ctx, "default", r.ID, ""); err != nil { // filtered out
			t.Fatal(err)
		}
	}
	read := func() {
		t.Helper()
		for len(have) < len(want) {
			select {
			case err := <-ended:
				t.Fatalf("the follow ended: %v", err)
			case target := <-got:
				have = append(have, target)
			}
		}
	}
	for round := range 4 {
		act()
		read() // the follow has begun: a cut before that is its end
		act()
		if round == 2 {
			if err := end(); err != nil {
				t.Fatal(err)
			}
			end = open()
			act()
		} else {
			for range 2 { // after some entries of a stream, and then of one that has just begun
				proxy.CloseClientConnections()
				<-streams
			}
		}
		act()
	}
	read()
	act() // entries that come again come before this one
	read()
	if err := end(); err != nil {
		t.Error(err)
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) || len(got) > 0 {
		t.Errorf("followed %s and %d more, want %s", fmt.Sprint(have), len(got), fmt.Sprint(want))
	}
}
