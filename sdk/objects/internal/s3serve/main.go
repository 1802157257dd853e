// Command s3serve serves the bucket of s3test on a loopback address, and prints its URL, until its standard input ends. The tests of the
// clients in other languages start it.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"

	"github.com/quern-queue/quern/sdk/objects/internal/s3test"
)

func main() {
	server, err := s3test.New()
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("s3://%s?region=%s&use_path_style=true&endpoint=%s\n", s3test.Bucket, s3test.Region,
		url.QueryEscape("http://"+listener.Addr().String()))
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // the end of stdin ends this program
		os.Exit(0)
	}()
	log.Fatal(http.Serve(listener, server)) //nolint:gosec // on the loopback address, for a test
}
