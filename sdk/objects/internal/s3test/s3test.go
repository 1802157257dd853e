// Package s3test is a server that speaks S3, for the tests of this module and of the clients in other languages. It is gofakes3, which
// keeps objects in memory, behind checks that it lacks and a real server makes. A request with a wrong signature, or with another body than
// the signed one, gets 403. A multipart upload may be conditional.
package s3test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// The credentials and the region that clients sign with, and the one bucket.
const (
	AccessKey = "test"
	SecretKey = "test/secret+key"
	Region    = "us-east-1"
	Bucket    = "work"
)

// Server answers requests for one bucket.
type Server struct {
	stored  *s3mem.Backend
	objects http.Handler
	commits sync.Mutex // no upload is completed between the look for its object and its own completion
}

// New returns a server whose bucket is empty.
func New() (*Server, error) {
	stored := s3mem.New()
	if err := stored.CreateBucket(Bucket); err != nil {
		return nil, err
	}
	return &Server{stored: stored, objects: gofakes3.New(stored).Server()}, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	if err := checkSignature(r, body); err != nil {
		refuse(w, http.StatusForbidden, "SignatureDoesNotMatch", err.Error())
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if r.Method == http.MethodPost && r.URL.Query().Has("uploadId") && r.Header.Get("If-None-Match") == "*" {
		s.commits.Lock()
		defer s.commits.Unlock()
		if key := strings.TrimPrefix(r.URL.Path, "/"+Bucket+"/"); s.has(key) {
			refuse(w, http.StatusPreconditionFailed, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
			return
		}
	}
	s.objects.ServeHTTP(w, r)
}

func (s *Server) has(key string) bool {
	_, err := s.stored.HeadObject(Bucket, key)
	return err == nil
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, message) // a client that is gone needs no answer
}

// checkSignature signs the request once more, with the AWS SDK, and compares.
func checkSignature(r *http.Request, body []byte) error {
	got := r.Header.Get("Authorization")
	scope, signed, ok := strings.Cut(strings.TrimPrefix(got, "AWS4-HMAC-SHA256 Credential="), ", SignedHeaders=")
	names, _, ok2 := strings.Cut(signed, ", Signature=")
	if !ok || !ok2 {
		return fmt.Errorf("there is no signature: the Authorization is %q", got)
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil || time.Since(at).Abs() > 15*time.Minute {
		return fmt.Errorf("the time %q is not now", r.Header.Get("X-Amz-Date"))
	}
	if want := AccessKey + "/" + at.Format("20060102") + "/" + Region + "/s3/aws4_request"; scope != want {
		return fmt.Errorf("signed for %s, not for %s", scope, want)
	}
	payload := r.Header.Get("X-Amz-Content-Sha256")
	hash := sha256.Sum256(body)
	if plain := len(payload) == 2*sha256.Size; plain && payload != hex.EncodeToString(hash[:]) {
		return fmt.Errorf("the body of %d bytes is not what was signed", len(body))
	}
	again := r.Clone(context.Background())
	again.URL.Host, again.ContentLength = r.Host, 0
	list := strings.Split(names, ";")
	for name := range again.Header {
		if !slices.Contains(list, strings.ToLower(name)) {
			again.Header.Del(name)
		}
	}
	if slices.Contains(list, "content-length") {
		if again.ContentLength = r.ContentLength; again.ContentLength == 0 {
			return nil // the AWS SDK for JavaScript signs a length of 0, which that for Go cannot
		}
	}
	key := aws.Credentials{AccessKeyID: AccessKey, SecretAccessKey: SecretKey, SessionToken: r.Header.Get("X-Amz-Security-Token")}
	unescaped := func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true } // as S3 has it
	if err := v4.NewSigner(unescaped).SignHTTP(context.Background(), key, again, payload, "s3", Region, at); err != nil {
		return err
	}
	if want := again.Header.Get("Authorization"); want != got {
		return fmt.Errorf("the signature is %s, not %s", got, want)
	}
	return nil
}
