package web

import (
	_ "embed"
	"reflect"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// note is what is said about one property.
//
// The sentences of the OpenAPI document are the comments of package api. So each is written once,
// beside the field, and documents it in Go, in the reference and in the clients.
type note struct {
	text  string // "": the comment of its field in package api
	limit api.Limit
	ref   string // its schema; "": that of its type
	null  bool   // it points to an object, and is null without one
}

// noteOf is what the tags of a field say.
func noteOf(field reflect.StructField) note {
	_, left, _ := strings.Cut(field.Tag.Get("json"), ",")
	object := field.Type.Kind() == reflect.Pointer && field.Type.Elem().Kind() == reflect.Struct
	return note{limit: api.LimitOf(field), ref: field.Tag.Get("schema"), null: object && left == ""}
}

// comments are those of the fields of package api, "TYPE.PROPERTY sentence" a line. A test
// of that package writes them.
//
//go:embed sentences.txt
var comments string

// sentences says what each property of each schema means: what the comment of its field in
// package api says.
func sentences() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(comments) {
		field, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if kind, property, is := strings.Cut(field, "."); is {
			all[answerName(kind)+"."+property] = text
		}
	}
	return all
}

// propertyNotes has what comments and tags of fields in package api do not say: all of
// fields that the engine declares, and of pages.
func propertyNotes() map[string]note {
	all := map[string]note{}
	for _, of := range []any{new(api.QueueSettings), new(api.QueueSettingsInput)} {
		noteFields(all, queue.AllSettings(), of, false)
	}
	for _, of := range []any{new(api.NewSubmission), new(api.NewSubmissionHead), new(api.BatchSubmission),
		new(api.Submission), new(api.SubmissionChange)} {
		noteFields(all, queue.SubmissionFields(), of, false)
	}
	noteFields(all, queue.ScheduleFields(), new(api.ScheduleDefinition), true)
	noteFields(all, queue.ScheduleFields(), new(api.SchedulePreviewRequest), true)
	noteFields(all, queue.SubmissionFields(), new(api.ScheduleTemplate), true)
	noteFields(all, queue.PluginSettings(), new(api.PluginSettings), false)
	for of, text := range pageItems {
		all["Page"+of+".items"] = note{text: text}
		all["Page"+of+".next"] = note{text: "Cursor of the next page; absent on the last"}
	}
	for of, text := range pageNext {
		all["Page"+of+".next"] = note{text: text}
	}
	return all
}

// pageItems says what a page lists, pageNext what is particular about what comes next:
// api.Page is of any type, so its comments do not.
var (
	pageItems = map[string]string{
		"Attempt":         "The tries, the oldest first",
		"BulkOperation":   "The operations, newest first",
		"Chunk":           "The chunks, by index",
		"Consumer":        "The consumers, by name",
		"DeadLetter":      "The dead letters",
		"Group":           "The groups, by name",
		"Retry":           "The chunks",
		"HeldReservation": "The reservations, in the order that was asked for",
		"Ledger":          "The ledgers, by branch, the outer ones first",
		"MetaKey":         "The keys, by name",
		"Node":            "The nodes, by name",
		"NamedStrategy":   "The strategies, by name",
		"Plugin":          "The plugins, by name",
		"PluginRecording": "The recordings, the newest first",
		"PluginScores":    "The open versions of the plugin, those in use first",
		"PluginVersion":   "The versions, the newest first",
		"Queue":           "The queues, by name",
		"Rule":            "The rules",
		"Schedule":        "The schedules, by name",
		"Shard":           "The shards, by number",
		"Submission":      "The submissions, newest first",
		"Token":           "The tokens, the oldest first",
		"ValueCount":      "The values",
	}
	pageNext = map[string]string{
		"Attempt":         "Always absent",
		"BulkOperation":   "Always absent",
		"Ledger":          "Always absent: a queue has at most 64 branches with ledgers",
		"Node":            "Always absent: a cluster has at most 64 nodes",
		"PluginRecording": "Always absent: a plugin has at most 32 recordings",
		"PluginScores":    "Always absent: only open versions are listed",
		"PluginVersion":   "Always absent: a plugin has at most 100 versions",
		"Rule":            "Always absent",
		"Shard":           "Always absent: a queue has at most 16 shards",
		"Token":           "Always absent",
	}
)
