package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	// selfSignedFor is how long a certificate of the server's own making is valid.
	// Browsers refuse more than 398 days.
	selfSignedFor = 397 * 24 * time.Hour
	// renewBefore is how long before its end such a certificate is replaced, at a start.
	renewBefore = 30 * 24 * time.Hour
	// clockSkew is how far the clock of a client may be behind ours when it first sees the certificate.
	clockSkew = time.Hour
)

// SelfSigned makes sure that the directory has a self-signed certificate for the names (host
// names and literal addresses), and returns its files. It keeps a certificate that covers the
// names and stays valid for a month, so that clients which pinned it go on. It gives no
// protection against a man in the middle to clients that do not compare its fingerprint.
func SelfSigned(dir string, names []string, now time.Time) (Files, error) {
	files := Files{Certificate: filepath.Join(dir, "self-signed.crt"), Key: filepath.Join(dir, "self-signed.key")}
	kept, err := usable(files, names, now)
	if err != nil || kept {
		return files, err
	}
	chain, key, err := selfSign(names, now)
	if err != nil {
		return Files{}, fmt.Errorf("certificate: make one: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Files{}, fmt.Errorf("certificate: %w", err)
	}
	// The key first: a certificate without its key is made again at the next start.
	if err := errors.Join(replaceFile(files.Key, key), replaceFile(files.Certificate, chain)); err != nil {
		return Files{}, fmt.Errorf("certificate: %w", err)
	}
	return files, nil
}

// usable says whether the files hold a certificate that will do. Files that hold anything
// else are replaced; only files that cannot be read are an error.
func usable(files Files, names []string, now time.Time) (bool, error) {
	read, err := (&Source{files: files}).read()
	if errors.Is(err, fs.ErrPermission) {
		return false, err
	}
	return err == nil && now.Add(renewBefore).Before(read.leaf.NotAfter) &&
		!slices.ContainsFunc(names, func(name string) bool { return read.leaf.VerifyHostname(name) != nil }), nil
}

// selfSign makes a certificate and its key, in PEM. The certificate may serve as its own authority.
func selfSign(names []string, now time.Time) (chain, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	template := x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "quern, self-signed"},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(selfSignedFor),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	for _, name := range names {
		if address := net.ParseIP(name); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	raw, err := x509.CreateCertificate(rand.Reader, &template, &template, &private.PublicKey, private)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), nil
}

// replaceFile puts content, readable for the owner only, in the place of the file at path,
// whole or not at all.
func replaceFile(path string, content []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
