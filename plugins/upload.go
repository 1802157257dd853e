package plugins

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/scan"
)

// Upload is a module that a client sent.
type Upload struct {
	Module   []byte
	Manifest []byte // for a module whose language cannot hold one; nil: it is in the module
	Config   []byte // with which the dry run starts; nil: {}
	By       queue.Who
}

// Upload checks a module and keeps it as a version that can be activated. The same bytes are the same version: they are not checked again,
// and created is false. For a wrong module it returns one *queue.Error that lists everything, with pointers such as
// /module/code/functions/12/offset/345; nothing is kept then.
func (x *Versions) Upload(ctx context.Context, u Upload) (v api.PluginVersion, created bool, err error) {
	module, err := x.packed(&u)
	if err != nil {
		return api.PluginVersion{}, false, err
	}
	sum := queue.SHA256(sha256.Sum256(module))
	if known := x.known.of(sum); known != nil {
		return x.known.show(known), false, nil
	}
	store, err := x.known.opened()
	if err != nil {
		return api.PluginVersion{}, false, err
	}
	if err := x.turns.take(ctx); err != nil {
		return api.PluginVersion{}, false, err
	}
	defer x.turns.give()
	if known := x.known.of(sum); known != nil { // another client sent the same meanwhile
		return x.known.show(known), false, nil
	}
	if err := x.refused.of(sum); err != nil {
		return api.PluginVersion{}, false, err
	}
	made, err := x.check(ctx, store, module, sum, &u)
	if err != nil {
		if lasting(err) {
			x.refused.add(sum, err)
		}
		return api.PluginVersion{}, false, err
	}
	if known := x.known.of(sum); known != made { // another node was faster
		return x.known.show(known), false, nil
	}
	return x.known.show(made), true, nil
}

// packed is the module with its manifest in it, after the sizes were looked at.
func (x *Versions) packed(u *Upload) ([]byte, error) {
	if most := x.limits.Scan.ModuleBytes; len(u.Module) > most {
		return nil, &queue.Error{Code: queue.CodeTooLarge,
			Message: fmt.Sprintf("The module has %d bytes; at most %d are allowed.", len(u.Module), most)}
	}
	if u.Manifest == nil {
		return u.Module, nil
	}
	module, err := manifest.Pack(u.Module, u.Manifest)
	if err != nil {
		return nil, queue.Invalid("/module", "%s", err.Error())
	}
	return module, nil
}

// check puts a module through all checks and keeps one that passes. The compiled code of one that fails goes at once: it is many times as
// large as the module, and a client that sends bad modules for ever would fill the disk. Code that was there before belongs to a version
// that is the same but for its manifest.
func (x *Versions) check(ctx context.Context, store Store, module []byte, sum queue.SHA256, u *Upload) (*version, error) {
	report, m, columns, config, err := validate(module, u.Config, &x.limits)
	if err != nil {
		return nil, err
	}
	if err := x.known.room(m.Name, int64(len(module))); err != nil {
		return nil, err
	}
	rewritten, err := instrument.Instrument(module, report, x.limits.rewriting(m))
	if err != nil {
		return nil, refusal("instrument", err.Error())
	}
	compiled, err := x.open.compiler.Load(ctx, rewritten.Bytes)
	if errors.Is(err, host.ErrMemory) {
		x.forget(m, rewritten)
	}
	if err != nil {
		return nil, compileError(err)
	}
	before := compiled.FromCache
	found := api.PluginReport{CompileMs: compiled.CPU.Milliseconds(), CompilePeakBytes: compiled.PeakBytes, FromCache: before,
		Instructions: report.Instructions}
	v := &version{
		PluginVersion: queue.PluginVersion{
			SHA256: sum, Name: m.Name, Version: m.Version, State: api.PluginReady, Size: int64(len(module)),
			Manifest: slices.Clone(report.Manifest), Created: queue.At(x.now()), Actor: u.By.Actor,
		},
		manifest: m, route: columns, report: found,
	}
	v.state.Store(&state{name: api.PluginReady})
	if err := x.admit(ctx, store, v, u.By, &code{compiled, rewritten.Globals, report.HiddenState}, module, config); err != nil {
		if !before {
			x.forget(m, rewritten)
		}
		return nil, err
	}
	return v, nil
}

// forget removes the compiled code of a module that was refused.
func (x *Versions) forget(m *manifest.Manifest, rewritten *instrument.Module) {
	if err := x.open.compiler.Forget(compile.Key(rewritten.Bytes)); err != nil {
		x.log.Warn("the compiled code of a module that was refused stays until the next start", "plugin", m.Name, "error", err)
	}
}

// admit tries a compiled version with synthetic batches and stores it. Its code leaves memory again: its users open it from the cache.
func (x *Versions) admit(ctx context.Context, store Store, v *version, by queue.Who, c *code, module, config []byte) error {
	patient := x.limits.Host
	patient.Deadline *= 10 // fuel ends endless code; a busy machine is not the plugin's fault
	tried := x.open.newUse(useKey{v.SHA256, string(config)}, v)
	if err := x.open.start(ctx, tried, c, config, patient); err != nil {
		return dryRunError("init", err)
	}
	if err := errors.Join(dryRun(ctx, tried.host, v.manifest, &v.report), tried.host.Close()); err != nil {
		return err
	}
	var err error
	if v.Report, err = json.Marshal(&v.report); err != nil {
		return fmt.Errorf("plugins: report: %w", err)
	}
	return x.add(store, v, module, by)
}

// validate scans a module and reads its manifest, and says everything that is wrong with either.
func validate(module, rawConfig []byte, l *Limits) (report *scan.Report, m *manifest.Manifest, columns *columns, config []byte, err error) {
	report, violations := scan.Scan(module, l.Scan)
	var wrong []queue.Problem
	for _, v := range violations {
		wrong = append(wrong, problemOf(&v))
	}
	switch {
	case report.Manifest == nil && len(violations) == 0:
		wrong = append(wrong, queue.Problem{Pointer: "/manifest", Detail: "missing_manifest: the module has no " +
			"section quern.manifest; put one in with `quern plugin pack`, or send it beside the module"})
	case report.Manifest != nil:
		var found []manifest.Violation
		m, found = manifest.Parse(report.Manifest)
		for _, v := range found {
			wrong = append(wrong, queue.Problem{Pointer: "/manifest" + v.Pointer, Detail: "manifest: " + v.Detail})
		}
	}
	if m != nil {
		var missing []queue.Problem
		columns, missing = columnsOf(m)
		wrong = append(wrong, missing...)
		wrong = append(wrong, needs(m, report, l)...)
		var found []manifest.Violation
		config, found = manifest.ValidateConfig(m.Schema, rawConfig)
		for _, v := range found {
			wrong = append(wrong, queue.Problem{Pointer: "/config" + v.Pointer, Detail: "config: " + v.Detail +
				"; send one with the module that the dry run can start with"})
		}
	}
	if len(wrong) > 0 {
		return nil, nil, nil, nil, &queue.Error{Code: queue.CodeInvalid, Message: "The module cannot be used as a plugin.", Problems: wrong}
	}
	return report, m, columns, config, nil
}

// needs holds a manifest against the module and the server.
func needs(m *manifest.Manifest, report *scan.Report, l *Limits) (wrong []queue.Problem) {
	if m.Pages > l.Scan.MemoryPages {
		wrong = append(wrong, queue.Problem{Pointer: "/manifest/needs/pages",
			Detail: fmt.Sprintf("memory_too_large: is %d; this server gives at most %d pages of 64 KiB", m.Pages, l.Scan.MemoryPages)})
	}
	if len(report.Memories) > 0 && int64(report.Memories[0].Min) > int64(m.Pages) {
		wrong = append(wrong, queue.Problem{Pointer: "/manifest/needs/pages",
			Detail: fmt.Sprintf("memory_too_large: is %d, and the module begins with %d", m.Pages, report.Memories[0].Min)})
	}
	if report.HiddenState && m.State == manifest.Reset {
		wrong = append(wrong, queue.Problem{Pointer: "/manifest/state", Detail: "hidden_state: is reset, and the " +
			"module changes tables, segments or vectors in globals, which cannot be brought back; declare fresh"})
	}
	return wrong
}

// problemOf says where in the module a violation is, in the form of a pointer.
func problemOf(v *scan.Violation) queue.Problem {
	at := "/module/" + v.Section
	if v.Function >= 0 {
		at += fmt.Sprintf("/functions/%d", v.Function)
	}
	return queue.Problem{Pointer: fmt.Sprintf("%s/offset/%d", at, v.Offset), Detail: string(v.Rule) + ": " + v.Message}
}

// refusal is the error of a module that one rule refuses.
func refusal(rule, detail string) *queue.Error {
	return &queue.Error{Code: queue.CodeInvalid, Message: "The module cannot be used as a plugin.",
		Problems: []queue.Problem{{Pointer: "/module", Detail: rule + ": " + detail}}}
}

// compileError distinguishes faults of the module from faults of the machine.
func compileError(err error) error {
	switch {
	case errors.Is(err, compile.ErrInvalid):
		return refusal("compile_invalid", err.Error())
	case errors.Is(err, compile.ErrBudget), errors.Is(err, compile.ErrMemory):
		return refusal("compile_budget", err.Error())
	}
	return crowded(err)
}

// add stores a version and makes it known, unless another node has done so meanwhile. Until the next Reload this node may not know that.
func (x *Versions) add(store Store, v *version, module []byte, by queue.Who) error {
	x.known.changes.Lock()
	defer x.known.changes.Unlock()
	if x.known.of(v.SHA256) != nil {
		return nil
	}
	act := x.act("plugin.upload", v.Name, by)
	act.Change(nil, versionState(&v.PluginVersion))
	if err := store.PutPluginVersion(v.PluginVersion, module, act); err != nil {
		if _, there, _ := store.PluginModule(v.SHA256); !there {
			return fmt.Errorf("plugins: store a version: %w", err)
		}
	}
	x.known.mu.Lock()
	x.known.enter(v)
	x.known.mu.Unlock()
	x.log.Info("a plugin's version is ready", "plugin", v.Name, "version", v.Version, "sha256", short(v.SHA256), "bytes", v.Size)
	return nil
}

func hexOf(sum queue.SHA256) string { return hex.EncodeToString(sum[:]) }

// turns have one module checked at a time, as a check takes a core for seconds. Some callers wait for their turn; further ones are refused.
type turns struct {
	most    int // that wait
	taken   chan struct{}
	waiting atomic.Int32
}

func newTurns(most int) *turns { return &turns{most: most, taken: make(chan struct{}, 1)} }

// take waits until no other module is checked. After nil comes give.
func (t *turns) take(ctx context.Context) error {
	defer t.waiting.Add(-1)
	if int(t.waiting.Add(1)) > t.most {
		return &queue.Error{Code: queue.CodeOverloaded, Message: "Other plugins are being checked; send this one again in a moment."}
	}
	select {
	case t.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *turns) give() { <-t.taken }

// rejections remember what was refused last, so that asking for it again and again costs no compilation and no start.
type rejections struct {
	most int

	mu    sync.Mutex
	errs  map[queue.SHA256]rejection
	order []queue.SHA256
	bytes int // of all texts
}

// rejection is why something was refused, and how long its text is.
type rejection struct {
	err   error
	bytes int
}

// maxRejectionBytes bounds the texts of those that are remembered: one may list thousands of mistakes.
const maxRejectionBytes = 1 << 20

func newRejections(most int) *rejections {
	return &rejections{most: most, errs: map[queue.SHA256]rejection{}}
}

// add remembers why something was refused, which it will be again.
func (r *rejections) add(sum queue.SHA256, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.errs[sum]; known {
		return
	}
	bytes := len(messageOf(err))
	r.errs[sum] = rejection{err, bytes}
	r.order = append(r.order, sum)
	r.bytes += bytes
	for len(r.order) > r.most || r.bytes > maxRejectionBytes {
		oldest := r.order[0]
		r.bytes -= r.errs[oldest].bytes
		delete(r.errs, oldest)
		r.order = slices.Delete(r.order, 0, 1)
	}
}

// of is why something was refused; nil: it was not, or that is forgotten.
func (r *rejections) of(sum queue.SHA256) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errs[sum].err
}

const maxRejections = 64 // modules

// lasting says whether an error is the module's fault, so that the module will be refused again.
func lasting(err error) bool {
	var refused *queue.Error
	return errors.As(err, &refused) && refused.Code == queue.CodeInvalid &&
		!slices.ContainsFunc(refused.Problems, func(p queue.Problem) bool {
			return strings.HasPrefix(p.Pointer, "/config") // another configuration may do
		})
}
