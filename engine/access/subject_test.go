package access

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func der(t testing.TB, names pkix.RDNSequence) []byte {
	t.Helper()
	raw, err := asn1.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The subject of every certificate, as the server writes it, can be that of a token.
func TestEverySubjectOfACertificateIsAccepted(t *testing.T) {
	t.Parallel()
	oids := []asn1.ObjectIdentifier{{1, 2, 840, 113549, 1, 9, 1}, {0, 9, 2342, 19200300, 100, 1, 25}}
	for _, a := range attributes {
		oids = append(oids, a.oid)
	}
	rapid.Check(t, func(rt *rapid.T) {
		var names pkix.RDNSequence
		for range rapid.IntRange(1, 4).Draw(rt, "sets") {
			var set pkix.RelativeDistinguishedNameSET
			for range rapid.IntRange(1, 2).Draw(rt, "attributes") {
				value := rapid.StringMatching(`[a-zA-Zé ,+"\\<>;=#@']{1,8}`).Draw(rt, "value")
				set = append(set, pkix.AttributeTypeAndValue{Type: rapid.SampledFrom(oids).Draw(rt, "type"), Value: value})
			}
			names = append(names, set)
		}
		text, err := SubjectOf(der(t, names))
		if err != nil {
			rt.Fatal(err)
		}
		if err := CheckSubject(text); err != nil {
			rt.Errorf("%q, which is that of a certificate: %v", text, err)
		}
	})
}

// A subject that no certificate can have in the server's spelling is refused. If it means a possible one, the error shows the right
// spelling.
func TestSubjectsThatNeverMatchAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"worker":            "NAME=VALUE",
		"CN=":               "no value",
		"CN=worker,":        "NAME=VALUE",
		"CN=worker,,O=acme": `",O"`,
		"cn=worker":         `"CN=worker"`,
		"CN=worker, O=acme": `"CN=worker,O=acme"`,
		" CN = worker ":     `"CN=worker"`,
		"/O=acme/CN=worker": `"/O"`,
		"DC=example":        `"DC"`,
		"2.5.4.3=worker":    `"CN=worker"`,
		`CN=\77orker`:       `"CN=worker"`,
		"1.2.3=#zz":         "hexadecimal",
		"1.2.3=#13":         "hexadecimal",
		"CN=" + "a;b":       `"CN=a\\;b"`,
	} {
		if err := CheckSubject(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %s", text, err, want)
		}
	}
	for _, text := range []string{"CN=worker", "CN=worker,O=acme", "O=acme,CN=worker", "CN=a+OU=b,O=acme", `CN=a\,b\ `, "1.2.3=#130161", "OU=a,OU=b"} {
		if err := CheckSubject(text); err != nil {
			t.Errorf("%q: %v, want it accepted", text, err)
		}
	}
}

// A subject with an attribute twice is not that with one of them.
func TestSubjectOfHasAllAttributes(t *testing.T) {
	t.Parallel()
	cn := asn1.ObjectIdentifier{2, 5, 4, 3}
	names := pkix.RDNSequence{{{Type: cn, Value: "worker"}}, {{Type: cn, Value: "evil"}}}
	if got, err := SubjectOf(der(t, names)); err != nil || got != "CN=evil,CN=worker" {
		t.Errorf("got %q, %v; want both names", got, err)
	}
	if got, err := SubjectOf(append(der(t, names), 0)); err == nil {
		t.Errorf("with a byte behind it: %q, want an error", got)
	}
}

func BenchmarkSubjectOf(b *testing.B) {
	raw := der(b, pkix.Name{CommonName: "worker", Organization: []string{"acme"}}.ToRDNSequence())
	for b.Loop() {
		if _, err := SubjectOf(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSubjectString(b *testing.B) {
	name := pkix.Name{CommonName: "worker", Organization: []string{"acme"}}
	for b.Loop() {
		_ = name.String()
	}
}
