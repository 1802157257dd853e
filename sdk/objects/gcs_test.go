package objects_test

import (
	"strings"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	_ "gocloud.dev/blob/gcsblob"
)

// gcsBucket is the address of a bucket on a server that speaks as Google Cloud Storage does.
func gcsBucket(t *testing.T) string {
	t.Helper()
	s, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1", PublicHost: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	s.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: "work"})
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(s.URL(), "http://"))
	return "gs://work?prefix=below/"
}
