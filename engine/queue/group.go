package queue

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/sdk/api"
)

// GroupKey is the meta key of a submission's group. A queue of several shards keeps all submissions of a group in one of them, so that
// strategies count exactly by this key.
const GroupKey MetaKey = "group"

// Bounds of groups and shards.
const (
	MaxQueueShards = api.MaxQueueShards // shards of one queue
	MaxGroups      = 100_000            // groups of one queue

	MaxGroupDescription = api.MaxGroupDescription
)

// Grouped adds the group to the meta of a submission, so that strategies see it. The meta is sorted (NewMeta).
func (n *NewSubmission) Grouped() (err error) {
	value, has := n.Meta.Find(GroupKey)
	switch {
	case n.Group == "":
		return nil
	case len(n.Group) > MaxMetaValueBytes:
		return Invalid("/group", "has %d bytes; at most %d are allowed", len(n.Group), MaxMetaValueBytes)
	case has && value != StringValue(n.Group):
		return Invalid("/group", "is %q, and the meta has another value for %q: give one of the two", clip(n.Group, 80), GroupKey)
	case !has:
		n.Meta, err = NewMeta(append(n.Meta, MetaEntry{GroupKey, StringValue(n.Group)}))
	}
	return err
}

// GroupOf is the name of the group that a submission with this meta belongs to; "": to none. The number 7 and the text
// "7" are one group.
func (m Meta) GroupOf() string {
	value, _ := m.Find(GroupKey)
	return value.String()
}

// GroupValues are the values of the group's key that submissions of a group can have.
func GroupValues(name string) []MetaValue {
	values := []MetaValue{StringValue(name)}
	if n, err := strconv.ParseInt(name, 10, 64); err == nil && strconv.FormatInt(n, 10) == name {
		values = append(values, IntValue(n))
	}
	return values
}

// NotCreated is the error of a submission of a group that no one created, in a queue that requires created groups.
func NotCreated(group string) *Error {
	return &Error{Code: CodeUnknownGroup, Message: fmt.Sprintf("No one created the group %q, and the queue's setting "+
		"group_must_exist is true. Create it with PUT /v1/queues/{queue}/groups/{group}, or correct the name.", clip(group, 80))}
}

// shardMark stands between the name of a queue and the number of a shard. No queue's own name has it.
const shardMark = "~"

// ShardName is the name of one shard of a queue in calls. Shards are numbered from 1.
func ShardName(queue string, number int) string { return queue + shardMark + strconv.Itoa(number) }

// CutShard is the queue that a name is about, and the number of its shard; 0: it is about the whole queue.
func CutShard(name string) (queue string, number int) {
	queue, text, has := strings.Cut(name, shardMark)
	if !has {
		return name, 0
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 || number > MaxQueueShards || strconv.Itoa(number) != text {
		return name, 0
	}
	return queue, number
}

// IsNamed says whether a shard is one that a name is about: "orders" is about all shards of that queue, "orders~1" about the first one,
// which has the name of the queue.
func IsNamed(shard, name string) bool {
	queue, number := CutShard(name)
	of, is := CutShard(shard)
	return of == queue && (number == 0 || number == max(is, 1))
}
