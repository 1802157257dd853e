package objects_test

import (
	"errors"
	"fmt"
	"log"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/s3blob"

	"github.com/quern-queue/quern/sdk/client"
	"github.com/quern-queue/quern/sdk/objects/internal/s3test"
	"github.com/quern-queue/quern/sdk/objects/internal/server"
)

func connect(t *testing.T) *client.Client {
	t.Helper()
	c, _ := connectTo(t)
	return c
}

func connectTo(t *testing.T) (c *client.Client, address string) {
	t.Helper()
	address, end, err := server.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Errorf("ending the server: %v", err)
		}
	})
	c, err = client.New(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, address
}

// buckets are the addresses of a bucket of files, of one on a server that speaks S3, of which the AWS SDK knows nothing more than of any
// other, and of one on a server that speaks as Google Cloud Storage does.
func buckets(t *testing.T) map[string]string {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", s3test.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3test.SecretKey)
	server, err := s3test.New()
	if err != nil {
		t.Fatal(err)
	}
	speaks := httptest.NewServer(server)
	t.Cleanup(speaks.Close)
	return map[string]string{
		"GCS":   gcsBucket(t),
		"files": "file://" + t.TempDir() + "?no_tmp_dir=true",
		"S3": fmt.Sprintf("s3://%s?region=%s&use_path_style=true&prefix=below/&endpoint=%s", s3test.Bucket, s3test.Region,
			url.QueryEscape(speaks.URL)),
	}
}

func open(t *testing.T, address string) *blob.Bucket {
	t.Helper()
	bucket, err := blob.OpenBucket(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bucket.Close() })
	return bucket
}

// exampleServer is a server whose data is thrown away.
func exampleServer() (address string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "quern")
	if err != nil {
		return "", nil, err
	}
	address, end, err := server.Start(dir)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return address, func() {
		if err := errors.Join(end(), os.RemoveAll(dir)); err != nil {
			log.Fatal(err)
		}
	}, nil
}
