package web

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/api"
)

func apiPlugin(in *plugins.Plugin) api.Plugin {
	out := api.Plugin{
		Name: in.Name, State: in.State, Revision: in.Revision, ETag: `"r` + strconv.FormatUint(in.Revision, 10) + `"`,
		Active: apiPluginUse(in.Active), Previous: apiPluginUse(in.Previous), Shadow: apiPluginUse(in.Shadow),
		Canary: apiPluginUse(in.Canary), CanaryPercent: in.Percent,
		Settings: api.PluginSettings{Hold: in.Settings.Hold, CPUShare: in.Settings.CPUShare,
			RecordEvery: in.Settings.RecordEvery, LogLevel: in.Settings.LogLevel},
		Breaker: apiBreaker(in.Breaker), Versions: in.Versions, Latest: in.Latest, ChangedAt: apiTime(in.Changed), ChangedBy: in.Actor,
	}
	return out
}

func apiPluginUse(in *plugins.Use) *api.PluginUse {
	if in == nil {
		return nil
	}
	return &api.PluginUse{SHA256: in.SHA256, Version: in.Version, Config: jsonOr(in.Config, "{}")}
}

func apiBreaker(in plugins.Breaker) api.PluginBreaker {
	return api.PluginBreaker{State: in.State, Reason: in.Reason, Until: apiTime(in.Until)}
}

func apiPluginVersion(in *plugins.Version) api.PluginVersion {
	out := api.PluginVersion{
		Name: in.Name, Version: in.Version, SHA256: in.SHA256, State: in.State, Reason: in.Reason, Uses: in.Uses, Size: in.Size,
		CreatedAt: apiTime(in.Created), CreatedBy: in.Actor, Manifest: jsonOr(in.Manifest, "{}"), Report: apiReport(&in.Report),
	}
	if out.Uses == nil {
		out.Uses = []string{}
	}
	return out
}

// jsonOr is JSON that a stranger wrote and that was stored, or the other when it is none.
func jsonOr(raw json.RawMessage, other string) json.RawMessage {
	if json.Valid(raw) {
		return raw
	}
	return json.RawMessage(other)
}

func apiReport(in *plugins.Report) api.PluginReport {
	return api.PluginReport{
		NsPerCandidate: in.NsPerCandidate, NsMedian: in.NsMedian, FuelPerCandidate: in.FuelPerCandidate, Rows: in.Rows,
		MemoryPages: in.MemoryPages,
		SkipShare:   in.SkipShare, NaNShare: in.NaNShare, Deterministic: in.Deterministic, CompileMs: in.CompileMs,
		CompilePeakBytes: in.CompilePeakBytes,
		FromCache:        in.FromCache, Instructions: in.Instructions,
	}
}

func apiPluginStats(in *plugins.Stats) api.PluginStats {
	out := api.PluginStats{
		Batches: in.Batches, Candidates: in.Candidates, Skipped: in.Skipped, Unwritten: in.Unwritten,
		Fallbacks: in.Fallbacks, FallbackReasons: in.FallbackReasons,
		NsPerCandidate: in.NsPerCandidate, FuelPerCandidate: in.FuelPerCandidate, Faults: in.Faults,
		LastFault: in.LastFault, Counters: finite(in.Counters),
		CPUShare: in.CPUShare, MemoryPages: in.MemoryPages, Instances: in.Instances, LogsDropped: in.LogsDropped,
		Breaker: apiBreaker(in.Breaker),
	}
	if in.Shadow != nil {
		out.Shadow = &api.PluginShadow{SHA256: in.Shadow.SHA256, Batches: in.Shadow.Batches, Dropped: in.Shadow.Dropped,
			Faults: in.Shadow.Faults, Overlap: in.Shadow.Overlap, Tau: in.Shadow.Tau}
	}
	return out
}

// finite leaves out what JSON has no number for: sums may overflow.
func finite(in map[string]float64) map[string]float64 {
	for name, v := range in {
		if math.IsInf(v, 0) || math.IsNaN(v) {
			delete(in, name)
		}
	}
	return in
}

func apiTried(in *plugins.Tried) api.PluginTried {
	out := api.PluginTried{Report: apiReport(&in.Report)}
	if in.Replay != nil {
		out.Replay = &api.PluginReplay{Rows: in.Replay.Rows, Scored: in.Replay.Scored, Identical: in.Replay.Identical,
			Different: in.Replay.Different}
	}
	if in.Live == nil {
		return out
	}
	live := &api.PluginLive{Rows: in.Live.Rows, Skipped: in.Live.Skipped, Gained: list(in.Live.GainedInner),
		Lost: list(in.Live.LostInner), Histogram: []api.PluginBin{}, Picks: []api.PluginPick{}, Submissions: []string{}}
	for _, id := range in.Live.Of {
		live.Submissions = append(live.Submissions, id.String())
	}
	for _, bin := range in.Live.Histogram {
		live.Histogram = append(live.Histogram, api.PluginBin{From: bin.From, To: bin.To, Count: bin.Count})
	}
	for _, pick := range in.Live.Picks {
		one := api.PluginPick{Row: pick.Row}
		if !math.IsInf(pick.Score, 0) {
			one.Score = &pick.Score
		}
		live.Picks = append(live.Picks, one)
	}
	if in.Live.ComparedActive {
		live.ActiveGained, live.ActiveLost = in.Live.GainedActive, in.Live.LostActive
		live.ActiveOverlap, live.ActiveTau = &in.Live.OverlapActive, &in.Live.TauActive
	}
	out.Live = live
	return out
}

// list is never null in JSON.
func list(in []int) []int {
	if in == nil {
		return []int{}
	}
	return in
}
