package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

// Schedules returns the queue's schedules by name.
func (c *Client) Schedules(ctx context.Context, queue string) iter.Seq2[api.Schedule, error] {
	return pages[api.Schedule](ctx, c, "schedules", queuePath(queue, "/schedules"), nil)
}

// Schedule reads a schedule and its state.
func (c *Client) Schedule(ctx context.Context, queue, name string) (*api.Schedule, error) {
	return get[api.Schedule](ctx, c, "schedule", schedulePath(queue, name, ""))
}

// PutSchedule creates a schedule, or redefines it. With a condition it makes one attempt: if the answer were lost, a
// second attempt would meet its own change.
func (c *Client) PutSchedule(ctx context.Context, queue, name string, d *api.ScheduleDefinition, when Condition) (*api.Schedule, error) {
	q := &request{method: http.MethodPut, path: schedulePath(queue, name, ""), safe: when.none()}
	return send[api.Schedule](ctx, c, "put schedule", when.onto(q), d)
}

// DeleteSchedule deletes a schedule. Its submissions stay. Like DeleteQueue, it makes one attempt.
func (c *Client) DeleteSchedule(ctx context.Context, queue, name string, when Condition) error {
	q := &request{method: http.MethodDelete, path: schedulePath(queue, name, "")}
	return c.do(ctx, c.cold, "delete schedule", when.onto(q), new(reply))
}

// PauseSchedule pauses a schedule. The reason may be empty. Ticks of the pause count as missed.
func (c *Client) PauseSchedule(ctx context.Context, queue, name, reason string) (*api.Schedule, error) {
	path := queried(schedulePath(queue, name, "/pause"), given("reason", reason))
	return fetch[api.Schedule](ctx, c, "pause schedule", &request{method: http.MethodPost, path: path, safe: true})
}

// ResumeSchedule resumes a paused schedule.
func (c *Client) ResumeSchedule(ctx context.Context, queue, name string) (*api.Schedule, error) {
	return fetch[api.Schedule](ctx, c, "resume schedule",
		&request{method: http.MethodPost, path: schedulePath(queue, name, "/resume"), safe: true})
}

// TriggerSchedule inserts the submission of a schedule once, now. With a key, you can repeat the call for 24 hours,
// and it inserts only once. Without one (""), it makes one attempt.
func (c *Client) TriggerSchedule(ctx context.Context, queue, name, key string) (*api.Submission, error) {
	q := &request{method: http.MethodPost, path: schedulePath(queue, name, "/trigger"), key: key, safe: key != ""}
	return fetch[api.Submission](ctx, c, "trigger schedule", q)
}

// BackfillSchedule inserts the submissions of past ticks, and returns their ids. The key works as in TriggerSchedule.
func (c *Client) BackfillSchedule(ctx context.Context, queue, name string, r *api.BackfillRequest, key string) (*api.Backfilled, error) {
	q := &request{method: http.MethodPost, path: schedulePath(queue, name, "/backfill"), key: key, safe: key != ""}
	return send[api.Backfilled](ctx, c, "backfill schedule", q, r)
}

// ScheduleTicks returns the next n ticks (1 to 100) of a schedule.
func (c *Client) ScheduleTicks(ctx context.Context, queue, name string, n int) (*api.SchedulePreview, error) {
	path := schedulePath(queue, name, "/ticks?n="+strconv.Itoa(n))
	return get[api.SchedulePreview](ctx, c, "schedule ticks", path)
}

// PreviewSchedule explains in words when a spec is due, with its next ticks. It stores nothing.
func (c *Client) PreviewSchedule(ctx context.Context, queue string, r *api.SchedulePreviewRequest) (*api.SchedulePreview, error) {
	return ask[api.SchedulePreview](ctx, c, "preview schedule", queuePath(queue, "/schedules/preview"), r)
}

func schedulePath(queue, name, below string) string {
	return queuePath(queue, "/schedules/"+url.PathEscape(name)+below)
}
