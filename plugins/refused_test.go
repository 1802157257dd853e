package plugins_test

import (
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// takesK is the schema of a configuration with a number k.
const takesK = `,"config_schema":{"type":"object","properties":{"k":{"type":"integer"}}}`

// A version that is activated and refuses the configuration of consumers, in quern_init or because its schema is another, fails none of
// their reserves: the block rests, and says why. A configuration that no version accepts is the caller's mistake.
func TestActivationFailsNoConfiguration(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.activate(w.send(wasmtest.Scorer(), declare("p", "1.0.0", two, takesK)))
	block := &strategy.Scored{Plugin: "p", Config: []byte(`{"k":1}`)}
	score(t, w.scorer(block), window(1, []int64{1}, []int64{1}))
	w.activate(w.send(wasmtest.Choosy(), declare("p", "2.0.0", two, takesK)))
	rests := func(when string) {
		t.Helper()
		resting, err := w.Check(w.Context(), block)
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
	_, err := w.Check(w.Context(), &strategy.Scored{Plugin: "p", Config: []byte(`{"k":"x"}`)})
	if queue.CodeOf(err) != queue.CodeInvalid || !strings.Contains(problems(t, err), "/config") {
		t.Errorf("no version takes it: got %v, want it refused at /config", err)
	}
}

// users are queues whose strategies have these blocks.
type users struct {
	shelf
	list []queue.PluginUser
}

func (u *users) PluginUsers(string) []queue.PluginUser { return u.list }

// used is a world whose queues have these blocks.
func used(t *testing.T, list ...queue.PluginUser) *world {
	w := &world{TB: t, clock: &clock{now: time.UnixMilli(1_800_000_000_000)}, dir: t.TempDir(), log: &lockedText{}, queues: &users{list: list}}
	w.start()
	t.Cleanup(func() { w.end() })
	return w
}

// An activation tries the configurations and windows that strategies in use send. If the version refuses some of them, in quern_init, by
// its schema, or by its largest window, it lists them, and only force activates the version. Configurations that it accepts are open
// afterwards. A rollback is never refused.
func TestActivationTriesWhatIsInUse(t *testing.T) {
	t.Parallel()
	w := used(t, queue.PluginUser{Queue: "a", Strategy: "nightly", Config: `{"k":1}`}, queue.PluginUser{Queue: "b", Config: `{"k":2}`},
		queue.PluginUser{Queue: "b", Window: 512}, queue.PluginUser{Queue: "b", Version: "1.0.0", Config: `{"k":3}`}, queue.PluginUser{Queue: "c"})
	w.activate(w.send(wasmtest.Scorer(), declare("p", "1.0.0", two, takesK)))
	if _, ok := w.Scorer(&strategy.Scored{Plugin: "p", Config: []byte(`{"k":2}`)}); !ok {
		t.Error("a configuration in use is not open after the activation that tried it")
	}
	w.send(wasmtest.Choosy(), declare("p", "2.0.0", two, takesK))
	w.send(wasmtest.Scorer(), declare("p", "3.0.0", two, ""))
	small := strings.Replace(string(declare("p", "4.0.0", two, takesK)), `"max":1024`, `"default":256,"max":256`, 1)
	w.send(wasmtest.Scorer(), []byte(small))
	for version, says := range map[string][]string{
		"2.0.0": {`{"k":1}, which "nightly" of the queue "a" sends`, `{"k":2}, which consumers of the queue "b" send`, "init", "force"},
		"3.0.0": {`{"k":1}`, `{"k":2}`, "/config/k"},
		"4.0.0": {"the window is 512"},
	} {
		_, err := w.Rollout.Activate(t.Context(), "p", api.PluginSelection{Version: version}, plugins.Change{})
		if queue.CodeOf(err) != queue.CodeConflict {
			t.Errorf("%s: got %v, want a conflict", version, err)
			continue
		}
		for _, say := range says {
			if !strings.Contains(err.Error(), say) {
				t.Errorf("%s: got %v, want that it says %s", version, err, say)
			}
		}
		if strings.Contains(err.Error(), `{"k":3}`) {
			t.Errorf("%s: a block that pins another version is listed: %v", version, err)
		}
		if p, _ := w.Plugins.Get("p"); p.Active.Version != "1.0.0" {
			t.Fatalf("%s is active, although it was refused", p.Active.Version)
		}
	}
	if _, err := w.Rollout.Activate(t.Context(), "p", api.PluginSelection{Version: "2.0.0", Force: true}, plugins.Change{}); err != nil {
		t.Errorf("by force: %v", err)
	}
	for _, want := range []string{"1.0.0", "2.0.0"} {
		if p, err := w.Rollout.Rollback(t.Context(), "p", plugins.Change{}); err != nil || p.Active.Version != want {
			t.Errorf("rollback to %s: got %+v %v", want, p, err)
		}
	}
}

// A version that alone takes a configuration in use, or that a strategy in use pins, is deleted by force only: consumers that send it would
// be refused.
func TestDeletionOfWhatTakesAConfiguration(t *testing.T) {
	t.Parallel()
	w := used(t, queue.PluginUser{Queue: "b", Config: `{"k":2}`}, queue.PluginUser{Queue: "b", Version: "3.0.0"})
	for _, v := range []struct{ version, schema string }{{"1.0.0", takesK}, {"2.0.0", takesK}, {"3.0.0", ""}, {"4.0.0", ""}} {
		w.send(wasmtest.Scorer(), declare("p", v.version, two, v.schema))
	}
	for _, step := range []struct {
		version string
		force   bool
		refused bool
	}{{"1.0.0", false, false}, {"2.0.0", false, true}, {"3.0.0", false, true}, {"4.0.0", false, false}, {"2.0.0", true, false}} {
		err := w.Versions.Delete("p", step.version, plugins.Change{Force: step.force})
		if step.refused != (queue.CodeOf(err) == queue.CodeConflict) || !step.refused && err != nil {
			t.Errorf("%+v: got %v", step, err)
		}
	}
}

// gated is a store that gives no module until the gate is open.
type gated struct {
	*store.Catalogue
	gate chan struct{}
}

func (g *gated) PluginModule(sum queue.SHA256) ([]byte, bool, error) {
	<-g.gate
	return g.Catalogue.PluginModule(sum)
}

// A request does not wait until a new configuration is started: it goes on without, and a later one finds it ready.
func TestNewConfigurationStartsBesideTheRequest(t *testing.T) {
	t.Parallel()
	w := open(t, func(o *plugins.Options) { o.Limits.Host.StartWait = time.Nanosecond })
	w.send(wasmtest.Scorer(), declare("p", "1.0.0", two, takesK))
	w.end()
	gate := make(chan struct{})
	w.over = func(c *store.Catalogue) plugins.Store { return &gated{c, gate} }
	w.start()
	block := &strategy.Scored{Plugin: "p", Version: "1.0.0", Config: []byte(`{"k":1}`)}
	asked := make(chan *strategy.Unavailable)
	go func() {
		resting, _ := w.Check(t.Context(), block)
		asked <- resting
	}()
	select {
	case resting := <-asked:
		if resting == nil || !strings.Contains(resting.Detail, "not ready yet") {
			t.Errorf("got %v, want that it is not ready yet", resting)
		}
	case <-time.After(20 * time.Second):
		t.Error("the request waits until the configuration is started")
	}
	close(gate)
	for {
		resting, err := w.Check(t.Context(), block)
		if err != nil {
			t.Fatal(err)
		}
		if resting == nil {
			break
		}
	}
	if _, ok := w.Scorer(block); !ok {
		t.Error("it does not score although it is started")
	}
}

// A configuration that quern_init refuses is started once, not for each request that sends it.
func TestRefusedConfigurationIsRemembered(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.send(wasmtest.Choosy(), declare("p", "1.0.0", two, takesK))
	w.end()
	asked := &reads{}
	w.over = func(c *store.Catalogue) plugins.Store { asked.Catalogue = c; return asked }
	w.idle = true // the sweep of compiled code reads modules too
	w.start()
	for n := range 5 {
		block := &strategy.Scored{Plugin: "p", Version: "1.0.0", Config: []byte(`{"k":1}`)}
		resting, err := w.Check(t.Context(), block)
		if err != nil || resting == nil || !strings.Contains(resting.Detail, "refuses the configuration") {
			t.Errorf("request %d: got %v %v, want that the version refuses it", n, resting, err)
		}
		if _, ok := w.Scorer(block); ok {
			t.Errorf("request %d: it scores", n)
		}
	}
	if len(asked.sums) != 1 {
		t.Errorf("the module was read %d times, want once", len(asked.sums))
	}
}
