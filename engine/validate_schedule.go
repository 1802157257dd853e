package engine

import (
	"errors"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/schedules"
)

// validSchedule checks everything about a definition that its types do not, and puts its meta in order.
func validSchedule(def *queue.Schedule) error {
	if _, err := schedules.Parse(def); err != nil {
		return err
	}
	if err := def.Valid(); err != nil {
		return err
	}
	return beneath("/template", validTemplate(&def.Template))
}

// validTemplate checks what a schedule inserts, at the length that it has once the tick's time is filled in.
func validTemplate(n *queue.NewSubmission) (err error) {
	if len(n.Chunks.Inline) > 0 {
		n.Chunks.Count = uint32(len(n.Chunks.Inline))
	}
	if n.Meta, err = queue.NewMeta(n.Meta); err != nil {
		return err
	}
	if err := n.Grouped(); err != nil {
		return err
	}
	bytes := len(n.Attachment) + len(n.Chunks.Template) + len(n.Chunks.Prefix)
	for _, b := range n.Chunks.Inline {
		bytes += len(b)
	}
	switch {
	case bytes > queue.MaxScheduleBytes:
		return queue.Invalid("/chunks", "and the attachment have %d bytes; at most %d are allowed in a schedule: "+
			"keep large data in object storage", bytes, queue.MaxScheduleBytes)
	case len(n.Chunks.Inline) > queue.MaxScheduleBytes/8:
		return queue.Invalid("/chunks/inline", "has %d entries; at most %d are allowed in a schedule",
			len(n.Chunks.Inline), queue.MaxScheduleBytes/8)
	}
	filled := schedules.Submission("", &queue.Schedule{Template: *n}, 1)
	return validInsert(&filled)
}

// beneath puts the pointers of an error below another one.
func beneath(pointer string, err error) error {
	var wrong *queue.Error
	if errors.As(err, &wrong) {
		for i := range wrong.Problems {
			if at := &wrong.Problems[i].Pointer; !strings.HasPrefix(*at, "/header") {
				*at = pointer + *at
			}
		}
	}
	return err
}
