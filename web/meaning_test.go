package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
)

// A key compares the meaning of requests: however the same request is written, it is answered with the first one's
// submission, and any other is refused.
func TestKeyComparesWhatARequestMeans(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const one, lines, many = "one", "lines", "many"
	for i, asked := range []struct {
		first string
		same  map[string]string // by body: how it is sent
		other []string
	}{
		{
			`{"chunks":{"count":3,"prefix":"p/"},"meta":{"company":9007199254740993,"mode":"a"},"priority":5}`,
			map[string]string{
				`{"priority":5,"meta":{"mode":"a","company":9007199254740993},"chunks":{"prefix":"p/","count":3}}`:                                     one,
				"{ \"chunks\" : {\"count\":3,\n\t\"prefix\":\"p\\/\"} , \"meta\":{\"comp\\u0061ny\":9007199254740993,\"mode\":\"a\"},\"priority\":5 }": one,
				`{"chunks":{"count":3,"prefix":"p/"},"meta":{"company":9007199254740993,"mode":"a"},"priority":5,"operations_per_chunk":1,"max_attempts":0,` +
					`"max_failed_chunks":0,"group":"","attachment":""}`: one,
				`{"chunks":{"count":3,"prefix":"p/"},"meta":{"company":9007199254740993,"mode":"a"},"priority":5,"operations_per_chunk":0,` +
					`"trace":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`: one,
				`{"meta":{"mode":"a","company":9007199254740993},"priority":5,"chunks":{"count":3,"prefix":"p/"},"idempotency_key":"KEY"}`: many,
			},
			[]string{
				`{"chunks":{"count":3,"prefix":"p/"},"meta":{"company":9007199254740992,"mode":"a"},"priority":5}`,
				`{"chunks":{"count":3,"prefix":"p/"},"meta":{"company":"9007199254740993","mode":"a"},"priority":5}`,
				`{"chunks":{"count":3,"template":"p/"},"meta":{"company":9007199254740993,"mode":"a"},"priority":5}`,
				`{"chunks":{"count":3,"prefix":"p/"},"meta":{"company":9007199254740993},"priority":5}`,
				`{"chunks":{"count":3,"prefix":"p/"},"meta":{"company":9007199254740993,"mode":"a"}}`,
				`{"chunks":{"count":3,"prefix":"p/"},"meta":{"company":9007199254740993,"mode":"a"},"priority":5,"max_attempts":3}`,
			},
		}, {
			`{"chunks":{"inline":["one",{"base64":"dHdv"}]},"run_at":"2030-01-01T12:00:00Z","on_exhausted":"skip"}`,
			map[string]string{
				`{"chunks":{"inline":[{"base64":"b25l"},"two"]},"run_at":"2030-01-01T13:00:00.000+01:00","on_exhausted":"skip"}`:              one,
				"{\"on_exhausted\":\"skip\",\"run_at\":\"2030-01-01T12:00:00.0Z\"}\n\"one\"\n\n\"two\"\n":                                     lines,
				`{"chunks":{"inline":["one","two"]},"run_at":"2030-01-01T12:00:00Z","on_exhausted":"skip","idempotency_key":"KEY","meta":{}}`: many,
			},
			[]string{
				`{"chunks":{"inline":["two","one"]},"run_at":"2030-01-01T12:00:00Z","on_exhausted":"skip"}`,
				`{"chunks":{"inline":["onetwo"]},"run_at":"2030-01-01T12:00:00Z","on_exhausted":"skip"}`,
				`{"chunks":{"inline":["one","two"]},"run_at":"2030-01-01T12:00:00.001Z","on_exhausted":"skip"}`,
				`{"chunks":{"inline":["one","two"]},"run_at":"2030-01-01T12:00:00Z"}`,
			},
		},
	} {
		key := fmt.Sprint("key-", i)
		header := map[string]string{"Idempotency-Key": key}
		var first api.Submission
		if got := f.send(call{method: "POST", path: insertPath, body: asked.first, header: header}); got.status != 201 {
			t.Fatalf("%s: got %d %s", asked.first, got.status, got.body)
		} else {
			got.decode(t, &first)
		}
		for body, how := range asked.same {
			c := call{method: "POST", path: insertPath, body: body, header: map[string]string{"Idempotency-Key": key}}
			var id string
			switch how {
			case lines:
				c.header["Content-Type"] = contentLines
			case many:
				c.path, c.body, c.header = insertPath+":batch", `{"submissions":[`+strings.ReplaceAll(body, "KEY", key)+`]}`, nil
			}
			got := f.send(c)
			var single api.Submission
			var batch api.InsertManyResponse
			if how == many {
				if got.decode(t, &batch); len(batch.Results) == 1 && batch.Results[0].Status == api.InsertReplayed {
					id = batch.Results[0].Submission.ID
				}
			} else if got.status == 200 {
				got.decode(t, &single)
				id = single.ID
			}
			if id != first.ID {
				t.Errorf("the same request as %s\nsent as %s\ngot %d %s, want a replay of %s", asked.first, body, got.status, got.body, first.ID)
			}
		}
		for _, body := range asked.other {
			if got := f.send(call{method: "POST", path: insertPath, body: body, header: header}); got.status != 422 {
				t.Errorf("another request than %s\nsent as %s\ngot %d %s, want 422", asked.first, body, got.status, got.body)
			}
		}
	}
}
