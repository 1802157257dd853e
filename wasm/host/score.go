package host

import (
	"context"
	"math"

	"github.com/quern-queue/quern/sdk/abi"
)

// score runs one batch through the guest.
func (i *instance) score(ctx context.Context, b *abi.Batch, scores []float64) (Report, *Fault) {
	v := i.version
	fuel := v.options.Limits.FuelPerBatch + v.budget*int64(b.Rows)
	i.begin(ctx, fuel, v.options.Limits.Deadline, b.Now, b.Seed)
	region, ok := i.module.Memory().Read(i.region, v.layout.Size)
	if !ok {
		return Report{}, &Fault{Kind: Trap, Detail: "the batch region is outside of the memory"}
	}
	i.words.load(b.Dictionary)
	fill(region, &v.layout, b, &i.words, v.unwritten)
	i.arm(fuel)

	i.stack[0] = uint64(i.region)
	err := i.score0.CallWithStack(i.ctx, i.stack[:])

	c := &i.call
	ended := v.options.Clock()
	report := Report{Duration: ended - c.began, Ended: ended, Fuel: i.used(), Pages: i.module.Memory().Size() >> 16}
	report.Logs, report.LogsDropped = c.log.end()
	if c.counted {
		report.Counters = append([]float64(nil), c.counters...)
	}
	if err != nil {
		return report, i.classify(err)
	}
	if code := int32(uint32(i.stack[0])); code != 0 {
		return report, &Fault{Kind: Status, Code: code, Detail: lastOf(report.Logs)}
	}
	// The memory may have grown, which moves it.
	if region, ok = i.module.Memory().Read(i.region+v.layout.Scores, b.Rows*8); !ok {
		return report, &Fault{Kind: Trap, Detail: "the batch region is outside of the memory"}
	}
	report.Skipped, report.Unwritten = readScores(scores, region)
	if report.Unwritten == len(scores) && len(scores) > 0 {
		return report, &Fault{Kind: Unwritten, Detail: "quern_score returned 0 and wrote no score"}
	}
	return report, nil
}

// readScores takes the scores out of the guest's memory and counts those that are no score.
func readScores(scores []float64, memory []byte) (skipped, unwritten int) {
	copy(bytesOf(scores), memory)
	for _, score := range scores {
		if score != score {
			if math.Float64bits(score) == abi.NotWritten {
				unwritten++
			} else {
				skipped++
			}
		}
	}
	return skipped, unwritten
}
