//go:build !race

package objects_test

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	_ "gocloud.dev/blob/gcsblob"
	_ "gocloud.dev/blob/s3blob"

	"github.com/quern-queue/quern/sdk/objects/internal/s3test"
)

// clouds are the addresses of two buckets: one on a server that speaks S3, which to the AWS SDK is a server like any other, and one on a
// server that speaks as Google Cloud Storage does.
func clouds(t *testing.T) map[string]string {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", s3test.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3test.SecretKey)
	server, err := s3test.New()
	if err != nil {
		t.Fatal(err)
	}
	speaks := httptest.NewServer(server)
	t.Cleanup(speaks.Close)
	gcs, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1", PublicHost: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gcs.Stop)
	gcs.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: "work"})
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(gcs.URL(), "http://"))
	return map[string]string{
		"GCS": "gs://work?prefix=below/",
		"S3": fmt.Sprintf("s3://%s?region=%s&use_path_style=true&prefix=below/&endpoint=%s", s3test.Bucket, s3test.Region,
			url.QueryEscape(speaks.URL)),
	}
}
