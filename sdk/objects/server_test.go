package objects_test

import (
	"errors"
	"log"
	"maps"
	"os"
	"testing"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob"

	"github.com/quern-queue/quern/sdk/client"
	"github.com/quern-queue/quern/sdk/objects/internal/server"
)

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

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

// buckets are the addresses of a bucket of files, and of those in clouds.
func buckets(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"files": "file://" + t.TempDir() + "?no_tmp_dir=true"}
	maps.Copy(all, clouds(t))
	return all
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
