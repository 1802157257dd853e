package web

import (
	"net/http"
	"testing"
)

// The paths of operations are no names: a strategy there could be put and never be told apart from them.
func TestOperationNames(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, name := range []string{"validate", "explain", "preview", "compare", "in-use"} {
		// Not through the document: it knows no PUT at the path of an operation.
		got := send(t, http.DefaultClient, f.address, call{method: "PUT", path: "/v1/queues/default/strategies/" + name, body: `{"strategy":"Random"}`})
		if p := got.problem(t); got.status != 422 || len(p.Errors) != 1 || p.Errors[0].Pointer != "/path/name" {
			t.Errorf("PUT %s: got %d %+v, want 422 at /path/name", name, got.status, p)
		}
	}
}

// If-Match is a list, compared strongly.
func TestMatchesETag(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]bool{
		`"1-a"`: true, `*`: true, ` "0" , "1-a"`: true, `"0","1-a"`: true, ``: false, `"1"`: false, `W/"1-a"`: false, `1-a`: false, `"1-A"`: false,
	} {
		if got := matchesETag(list, `"1-a"`); got != want {
			t.Errorf("matchesETag(%s) = %v, want %v", list, got, want)
		}
	}
}
