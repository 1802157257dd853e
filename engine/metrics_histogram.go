package engine

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/quern-queue/quern/engine/measure"
)

// shownHistogram shows what was measured as a native histogram with classic buckets beside: a scraper takes the kind that it knows.
type shownHistogram struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	of     *measure.Histogram
}

func newHistogram(desc *prometheus.Desc, of *measure.Histogram, queueName string) prometheus.Metric {
	return &shownHistogram{desc: desc, labels: prometheus.MakeLabelPairs(desc, []string{queueName}), of: of}
}

// Desc implements prometheus.Metric.
func (h *shownHistogram) Desc() *prometheus.Desc { return h.desc }

// Write implements prometheus.Metric.
func (h *shownHistogram) Write(out *dto.Metric) error {
	c := h.of.Counts()
	schema, threshold := int32(measure.Schema), measure.Threshold
	x := &dto.Histogram{SampleCount: &c.Count, SampleSum: &c.Sum, Schema: &schema, ZeroThreshold: &threshold, ZeroCount: &c.Zeros}
	for i := range c.Bounds {
		x.Bucket = append(x.Bucket, &dto.Bucket{UpperBound: &c.Bounds[i], CumulativeCount: &c.Classic[i]})
	}
	spans(x, &c)
	out.Histogram, out.Label = x, h.labels
	return nil
}

// spans writes the native buckets: runs of those that are not empty, each bucket as the difference to the one before it. A
// histogram without any has one empty run, by which it is known to be a native one.
func spans(x *dto.Histogram, c *measure.Counts) {
	last, next := int64(0), 0 // the count before, and the index after the run before
	for i, n := range c.Native {
		if n == 0 {
			continue
		}
		index := c.First + i
		if len(x.PositiveSpan) == 0 || index != next {
			offset, length := int32(index-next), uint32(0)
			x.PositiveSpan = append(x.PositiveSpan, &dto.BucketSpan{Offset: &offset, Length: &length})
		}
		*x.PositiveSpan[len(x.PositiveSpan)-1].Length++
		x.PositiveDelta = append(x.PositiveDelta, int64(n)-last)
		last, next = int64(n), index+1
	}
	if len(x.PositiveSpan) == 0 {
		offset, length := int32(0), uint32(0)
		x.PositiveSpan = []*dto.BucketSpan{{Offset: &offset, Length: &length}}
	}
}
