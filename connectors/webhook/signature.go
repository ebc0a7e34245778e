package webhook

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // some senders sign with nothing better
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"time"

	"millrace/connectors"
)

// tolerance is how far a Standard Webhooks timestamp may be from now.
const tolerance = 5 * time.Minute

// signer checks the signatures of one webhook.
type signer struct {
	cfg *config
	now func() time.Time
}

func (c *config) hash() func() hash.Hash {
	switch c.Algorithm {
	case "sha1":
		return sha1.New
	case "sha512":
		return sha512.New
	default:
		return sha256.New
	}
}

// unauthorized names the header, and never what would have been right.
func unauthorized(header, msg string) error {
	return &connectors.HTTPError{Status: http.StatusUnauthorized, Field: header, Msg: msg}
}

// check refuses a request whose signature is not by the secret.
func (s *signer) check(h http.Header, body []byte) error {
	switch {
	case s.cfg.Secret == "":
		return nil
	case s.cfg.Scheme == schemeStandard:
		return s.checkStandard(h, body)
	}
	name := s.cfg.Header
	given := h.Get(name)
	if given == "" {
		return unauthorized(name, "is required: the request must be signed")
	}
	encoded, ok := strings.CutPrefix(given, s.cfg.Prefix)
	if !ok {
		return unauthorized(name, fmt.Sprintf("must begin with %q", s.cfg.Prefix))
	}
	mac, err := s.decode(encoded)
	if err != nil {
		return unauthorized(name, "is not "+s.cfg.Encoding)
	}
	if !hmac.Equal(mac, s.mac([]byte(s.cfg.Secret.Reveal()), body)) { // constant time
		return unauthorized(name, "does not match the body: it is signed with another secret, or the body was changed on its way")
	}
	return nil
}

func (s *signer) decode(text string) ([]byte, error) {
	if s.cfg.Encoding == "base64" {
		return base64.StdEncoding.DecodeString(text)
	}
	return hex.DecodeString(text)
}

func (s *signer) mac(key []byte, parts ...[]byte) []byte {
	m := hmac.New(s.cfg.hash(), key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

// checkStandard checks as Standard Webhooks 1.0 says, symmetric signatures only.
func (s *signer) checkStandard(h http.Header, body []byte) error {
	for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
		if h.Get(name) == "" {
			return unauthorized(name, "is required: the request must be signed")
		}
	}
	id, stamp := h.Get("webhook-id"), h.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return unauthorized("webhook-timestamp", "is not a number of seconds since 1970")
	}
	if age := s.now().Sub(time.Unix(seconds, 0)); age > tolerance || age < -tolerance {
		return unauthorized("webhook-timestamp", "is more than 5 minutes from now: check the clocks")
	}
	key, err := standardKey(s.cfg.Secret.Reveal())
	if err != nil {
		return err
	}
	m := hmac.New(sha256.New, key)
	m.Write([]byte(id + "." + stamp + "."))
	m.Write(body)
	want := m.Sum(nil)
	for given := range strings.FieldsSeq(h.Get("webhook-signature")) {
		encoded, ok := strings.CutPrefix(given, "v1,")
		if !ok {
			continue
		}
		mac, err := base64.StdEncoding.DecodeString(encoded)
		if err == nil && hmac.Equal(mac, want) {
			return nil
		}
	}
	return unauthorized("webhook-signature", "has no v1 signature that matches the body: it is signed with another secret, or the body was changed on its way")
}

var errStandardKey = errors.New("must be base64, with or without whsec_ before it, as Standard Webhooks says")

func standardKey(secret string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return nil, errStandardKey
	}
	return key, nil
}
