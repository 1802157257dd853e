package plugins_test

import (
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// A version that is activated and refuses the configuration of consumers, in quern_init or because its schema is another, fails none of
// their reserves: the block rests, and says why. What no version takes is a mistake of who asks.
func TestActivationFailsNoConfiguration(t *testing.T) {
	t.Parallel()
	const schema = `,"config_schema":{"type":"object","properties":{"k":{"type":"integer"}}}`
	w := open(t, nil)
	w.activate(w.send(wasmtest.Scorer(), declare("p", "1.0.0", two, schema)))
	block := &strategy.Scored{Plugin: "p", Config: []byte(`{"k":1}`)}
	score(t, w.scorer(block), window(1, []int64{1}, []int64{1}))
	w.activate(w.send(wasmtest.Choosy(), declare("p", "2.0.0", two, schema)))
	rests := func(when string) {
		t.Helper()
		resting, err := w.Check(block)
		if err != nil || resting == nil || !strings.Contains(resting.Detail, "refuses the configuration") {
			t.Errorf("%s: got %v %v, want that the block rests", when, resting, err)
		}
		if _, ok := w.Scorer(block); ok {
			t.Errorf("%s: it scores", when)
		}
	}
	rests("quern_init refuses it")
	w.activate(w.send(wasmtest.Scorer(), declare("p", "3.0.0", two, "")))
	rests("the schema is gone")
	_, err := w.Check(&strategy.Scored{Plugin: "p", Config: []byte(`{"k":"x"}`)})
	if queue.CodeOf(err) != queue.CodeInvalid || !strings.Contains(problems(t, err), "/config") {
		t.Errorf("no version takes it: got %v, want it refused at /config", err)
	}
}
