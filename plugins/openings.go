package plugins

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/wasm/host"
)

// errStarting is why a request goes on without a configuration: the configuration is being started, or waits for its turn.
var errStarting = errors.New("plugins: the configuration is not started yet")

// maxOpenings is how many configurations are being started, or wait for that, at once. A later request begins the openings beyond them.
const maxOpenings = 8

// openings are the configurations of consumers' blocks that are being started. Each is started once, however many requests ask for it, and
// beside them: quern_init may take seconds.
type openings struct {
	mu      sync.Mutex
	closed  bool
	running map[useKey]*opening
	group   sync.WaitGroup
}

// opening is one of them; err is set when done is closed.
type opening struct {
	done chan struct{}
	err  error
}

// join gives the opening of a configuration, beginning it with open if there is none; nil: there are as many as there may be.
func (o *openings) join(key useKey, open func() error) *opening {
	o.mu.Lock()
	defer o.mu.Unlock()
	if one := o.running[key]; one != nil {
		return one
	}
	if o.closed || len(o.running) >= maxOpenings {
		return nil
	}
	one := &opening{done: make(chan struct{})}
	if o.running == nil {
		o.running = map[useKey]*opening{}
	}
	o.running[key] = one
	o.group.Go(func() {
		one.err = open()
		o.mu.Lock()
		delete(o.running, key)
		o.mu.Unlock()
		close(one.done)
	})
	return one
}

// close waits for those that run; none begins afterwards.
func (o *openings) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.group.Wait()
}

// wait gives the outcome, or errStarting when it takes longer than patience; 0: it waits for as long as it takes.
func (o *opening) wait(ctx context.Context, patience time.Duration) error {
	var late <-chan time.Time // never
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-o.done:
		return o.err
	case <-late:
	case <-ctx.Done():
	}
	return errStarting
}

// openAsked opens what a consumer's block asks for, and waits for no longer than a batch waits for a sandbox.
func (b *sandboxes) openAsked(ctx context.Context, p *plugin, v *version, config []byte) error {
	if err := b.refusing.of(configSum(v, config)); err != nil {
		return err
	}
	if one := b.openBeside(p, v, config); one != nil {
		return one.wait(ctx, b.limits.Host.StartWait)
	}
	return errStarting
}

// openBeside opens a configuration beside the request that asks for it, unless its version refused it before. nil: it does not, now.
func (b *sandboxes) openBeside(p *plugin, v *version, config []byte) *opening {
	if b.refusing.of(configSum(v, config)) != nil {
		return nil
	}
	return b.openings.join(useKey{v.SHA256, string(config)}, func() error {
		err := b.openInShare(p, v, config)
		b.note(p, v, config, err)
		return err
	})
}

// openInShare opens a configuration within the plugin's share of the processor: a consumer can make up any number of configurations. The
// time of openings is counted apart from the time of scoring, so that a consumer does not take the operator's version out of use.
// errStarting says that the share is used up.
func (b *sandboxes) openInShare(p *plugin, v *version, config []byte) error {
	b.opening.Lock()
	defer b.opening.Unlock()
	if p.openings.of(b.clock()) > p.mostCPU(&b.limits) {
		return errStarting
	}
	began := b.clock()
	_, err := b.openInTurn(context.Background(), v.SHA256, config)
	ended := b.clock()
	p.openings.add(ended, ended-began)
	return err
}

// maxRefusing bounds the refused configurations that are remembered: a digest, and an error of a kilobyte or two, for each.
const maxRefusing = 256

// configSum names a version with a configuration, which may have 64 KiB, in the memory of refusals.
func configSum(v *version, config []byte) queue.SHA256 {
	return sha256.Sum256(append(v.SHA256[:], config...))
}

// note logs why a configuration was not opened, and remembers that its version refuses it: a start has the same outcome each time, unless
// it took too long.
func (b *sandboxes) note(p *plugin, v *version, config []byte, err error) {
	var fault *host.Fault
	switch {
	case err == nil, errors.Is(err, errStarting):
	case errors.Is(err, host.ErrMemory):
		b.starved(p, err)
	case !errors.As(err, &fault):
		b.log.Error("a plugin's version cannot be opened", "plugin", p.name, "version", v.Version, "error", err)
	case fault.Cause != host.Deadline:
		b.refusing.add(configSum(v, config), err)
	}
}

// whyNotOpen is a consumer's text for an error of openAsked.
func whyNotOpen(v *version, err error) string {
	var fault *host.Fault
	if errors.As(err, &fault) {
		return "its version " + v.Version + " refuses the configuration: " + fault.Error()
	}
	return starting
}
