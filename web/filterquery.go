package web

import (
	"net/url"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// filterQuery reads the query of a list that meta.KEY narrows. `read` gets each parameter of this list, which are given once; `rest` gets
// all others: those of pages, where there are any.
func filterQuery(raw string, names []string, read func(name, given string) error,
	rest func(name string, given []string) error) (queue.Meta, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, queue.Invalid("/query", "is not well formed: escape special characters as %%XX and separate parameters by &")
	}
	var entries []queue.MetaEntry
	for name, given := range values {
		key, isMeta := metaKeyOf(name)
		switch {
		case isMeta:
			var entry queue.MetaEntry
			entry, err = metaParameter(key, given)
			entries = append(entries, entry)
		case !slices.Contains(names, name):
			err = rest(name, given)
		case len(given) != 1:
			err = queue.Invalid("/query/"+name, "is given %d times; give it once", len(given))
		default:
			err = read(name, given[0])
		}
		if err != nil {
			return nil, err
		}
	}
	return queue.NewMeta(entries)
}

// noParameter refuses a parameter that an operation does not have.
func noParameter(name string, _ []string) error {
	return queue.Invalid("/query/"+api.EscapePointer(name), "is not a parameter of this operation")
}

// querySubmission reads the id of a submission that narrows a list.
func querySubmission(given string) (queue.SubmissionID, error) {
	id, err := submissionAt("/query/submission", given)
	if err == nil && id == 0 {
		err = queue.Invalid("/query/submission", "is 0, which no submission has")
	}
	return id, err
}
