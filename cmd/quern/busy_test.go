//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// busyStrategies are the strategies of keepBusy's consumers: one of each kind.
func busyStrategies() []string {
	return []string{
		`"Random"`, `{"name":"nightly"}`, `"Fair(\"company\", OldestFirst)"`, `"MaxSimultaneous(\"company\", 3, Random)"`,
		`"OrElse(Plugin(\"order\", OldestFirst), Random)"`, `"OrElse(Plugin(\"endless\", OldestFirst), Random)"`, `"Score(priority*2 - attempts, OldestFirst)"`,
		`"SelectOnly(\"company\", \"absent\", Random)"`, `"CustomPriority"`, `"SelectOnly(\"company\", \"shut\", Random)"`,
	}
}

// keepBusy has producers, consumers, plugins and operators use a server until ctx ends, at a pace that leaves the machine to others.
// stop waits for the last of them.
func keepBusy(ctx context.Context, t *testing.T, server string) (stop func()) {
	t.Helper()
	setUp(ctx, t, server)
	var group sync.WaitGroup
	for n := range 2 {
		group.Go(func() {
			pace := time.NewTicker(20 * time.Millisecond)
			defer pace.Stop()
			for i := n; ctx.Err() == nil; i++ {
				if err := consume(ctx, server, i); err != nil && ctx.Err() == nil {
					t.Errorf("consumer %d: %v", n, err)
					return
				}
				select {
				case <-ctx.Done():
				case <-pace.C:
				}
			}
		})
	}
	return group.Wait
}

// setUp makes the things that the consumers need.
func setUp(ctx context.Context, t *testing.T, server string) {
	t.Helper()
	do := func(method, path, body string) {
		t.Helper()
		if _, err := exchange(ctx, server, method, path, body, nil); err != nil {
			t.Fatal(err)
		}
	}
	do("PUT", "/v1/queues/default/strategies/nightly", `{"strategy":"OldestFirst"}`)
	do("PUT", "/v1/queues/default/meta-keys/company/values/s:shut", `{"limit":0}`)
	do("PUT", "/v1/queues/letters", `{"settings":{"max_attempts":1,"on_exhausted":"dead_letter"}}`)
	for i := range 40 {
		company := []string{"acorn", "birch", "cedar", "dogwood", "shut"}[i%5]
		do("POST", "/v1/queues/default/submissions", fmt.Sprintf(`{"chunks":{"count":20000,"prefix":"s3://x/"},"priority":%d,"meta":{"company":%q}}`, i%3, company))
	}
	do("PUT", "/v1/queues/default/schedules/second", `{"spec":"@every 1s","overlap":"skip","template":{"chunks":{"count":1,"template":"x"}}}`)
	do("POST", "/v1/queues/default/rules", `{"action":"pause","match":{"meta":{"company":"absent"}}}`)
	c, err := client.New(server)
	if err != nil {
		t.Fatal(err)
	}
	upload := func(module []byte, name, version string) {
		t.Helper()
		manifest := fmt.Sprintf(`{"name":%q,"version":%q,"abi":1,"columns":["priority","age_ms"],"window":{"max":1024}}`, name, version)
		if _, err := c.UploadPlugin(ctx, client.PluginUpload{Module: module, Manifest: []byte(manifest)}); err != nil {
			t.Fatalf("upload %s %s: %v", name, version, err)
		}
	}
	upload(wasmtest.Scorer(), "order", "1.0.0")
	upload(wasmtest.Scorer(), "order", "2.0.0")
	upload(wasmtest.Moody(wasmtest.NotDry(), wasmtest.Endless()), "endless", "1.0.0")
	do("POST", "/v1/plugins/order/activate", `{"version":"1.0.0"}`)
	do("POST", "/v1/plugins/order/shadow", `{"version":"2.0.0"}`)
	do("POST", "/v1/plugins/endless/activate", `{"version":"1.0.0"}`)
}

// consume takes some chunks by one of the strategies and finishes most of them. It also does a little of the work of other clients.
func consume(ctx context.Context, server string, round int) error {
	strategies := busyStrategies()
	body := fmt.Sprintf(`{"max":20,"strategy":%s,"timeout_ms":%d}`, strategies[round%len(strategies)], 500+round%2*60_000)
	var got api.ReserveResponse
	if _, err := exchange(ctx, server, "POST", "/v1/queues/default/reservations", body, &got); err != nil {
		return err
	}
	var complete api.CompleteRequest
	var fail api.FailRequest
	for i, r := range got.Reservations {
		switch i {
		case 0: // left to expire
		case 1:
			fail.Items = append(fail.Items, api.FailItem{Token: r.Token, Error: "no"})
		default:
			complete.Items = append(complete.Items, api.CompleteItem{Token: r.Token})
		}
	}
	for verb, request := range map[string]any{"complete": complete, "fail": fail} {
		text, err := json.Marshal(request)
		if err != nil {
			return err
		}
		if len(got.Reservations) > 2 {
			if _, err := exchange(ctx, server, "POST", "/v1/queues/default/reservations/"+verb, string(text), nil); err != nil {
				return err
			}
		}
	}
	if round%10 == 0 {
		if _, err := exchange(ctx, server, "POST", "/v1/queues/letters/submissions", `{"chunks":{"count":1,"template":"x"}}`, nil); err != nil {
			return err
		}
		bulk := fmt.Sprintf(`{"queue":"default","action":"reprioritize","priority":%d,"filter":{"meta":{"company":"acorn"}}}`, round%7)
		if _, err := exchange(ctx, server, "POST", "/v1/bulk-operations", bulk, nil); err != nil {
			return err
		}
		if status, err := exchange(ctx, server, "GET", "/v1/submissions/1", "", nil); status != http.StatusNotFound {
			return fmt.Errorf("a submission that never was: %w", err)
		}
	}
	return nil
}

// exchange sends a request, and reads an answer that says that it went well.
func exchange(ctx context.Context, server, method, path, body string, into any) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, method, server+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("%s %s %s: %s: %s", method, path, strconv.Quote(body), response.Status, answer)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(answer, into)
	}
	return response.StatusCode, err
}
