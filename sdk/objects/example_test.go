package objects_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // s3blob, gcsblob and azureblob are the others

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
	"github.com/quern-queue/quern/sdk/objects"
)

// A producer uploads two texts, a consumer counts their words, and the producer reads the results.
func Example() {
	address, stop, err := exampleServer()
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	dir, err := os.MkdirTemp("", "objects")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()

	c, err := client.New(address)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	bucket, err := blob.OpenBucket(ctx, "file://"+dir)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = bucket.Close() }()
	store := objects.Store{Client: c, Bucket: bucket}

	submission, err := store.Submit(ctx, "default", "", &api.NewSubmission{}, func(yield func(io.Reader, error) bool) {
		_ = yield(strings.NewReader("to be or not to be"), nil) && yield(strings.NewReader("that is the question"), nil)
	})
	if err != nil {
		log.Fatal(err)
	}

	working, finish := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() {
		worked <- store.Work(working, client.WorkOptions{}, func(_ context.Context, _ *client.Chunk, content io.Reader, output io.Writer) error {
			words := bufio.NewScanner(content)
			words.Split(bufio.ScanWords)
			n := 0
			for words.Scan() {
				n++
			}
			if err := words.Err(); err != nil {
				return err
			}
			_, err := fmt.Fprint(output, n, " words")
			return err
		})
	}()
	if submission, err = c.Wait(ctx, submission.ID); err != nil {
		log.Fatal(err)
	}
	fmt.Println(submission.State)
	finish()
	if err := <-worked; err != nil {
		log.Fatal(err)
	}

	for output, err := range c.Outputs(ctx, submission.ID) {
		if err != nil {
			log.Fatal(err)
		}
		text, err := bucket.ReadAll(ctx, string(output.Output))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(output.Index, string(text))
	}
	// Output:
	// completed
	// 0 6 words
	// 1 4 words
}
