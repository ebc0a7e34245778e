package webhook

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/go-cmp/cmp"

	"millrace/bus/event"
	"millrace/connectors"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func receive(t *testing.T, config map[string]any, headers map[string]string, body string) ([]event.Event, error) {
	t.Helper()
	full := map[string]any{"topic": "t"}
	maps.Copy(full, config)
	kind := Plugin().Source
	if err := kind.Check(full); err != nil {
		t.Fatal(err)
	}
	r, err := kind.Receiver(full, connectors.Env{Connector: "shop hook", Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequest(http.MethodPost, "/webhooks/x", nil)
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	outs, err := r.Receive(t.Context(), req, []byte(body))
	var events []event.Event
	for _, o := range outs {
		if verr := o.Event.Validate(); verr != nil || o.Topic != "t" {
			t.Error(verr, o)
		}
		events = append(events, o.Event)
	}
	return events, err
}

func status(err error) string {
	var he *connectors.HTTPError
	if !errors.As(err, &he) {
		return fmt.Sprint(err)
	}
	return fmt.Sprintf("%d %s", he.Status, he.Error())
}

func TestPlainRequests(t *testing.T) {
	t.Parallel()
	config := map[string]any{"key": "data.order.id", "type": "shop.order", "subject": "s"}
	got, err := receive(t, config, map[string]string{"Content-Type": "application/json; charset=utf-8", "X-GitHub-Delivery": "d-1", "X-GitHub-Event": "push"}, `{"order":{"id":7}}`)
	want := []event.Event{{
		ID: "d-1", Source: "/webhooks/shop%20hook", Type: "shop.order", Subject: "s", Time: now, ContentType: "application/json", Key: "7",
		Ext: []event.Attr{{Name: "webhookevent", Value: "push"}}, Data: []byte(`{"order":{"id":7}}`),
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	form, err := receive(t, map[string]any{"id.header": "X-Id"}, map[string]string{"Content-Type": "application/x-www-form-urlencoded", "X-Id": "i"}, "a=1&b=2&b=%C3%A9")
	if err != nil || string(form[0].Data) != `{"a":"1","b":["2","é"]}` || form[0].ID != "i" {
		t.Error(err, form)
	}
	one, err1 := receive(t, nil, map[string]string{"Content-Type": "application/json"}, `1`)
	two, err2 := receive(t, nil, map[string]string{"Content-Type": "application/json"}, `2`)
	if err := errors.Join(err1, err2); err != nil || one[0].ID == two[0].ID || len(one[0].ID) != 32 {
		t.Error(err, one, two)
	}
}

func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ contentType, body, want string }{
		{"application/json", `{"a":`, "400 body: malformed JSON at byte 5: the text ends too early"},
		{"application/json", ``, "400 body: malformed JSON at byte 0: the text ends too early"},
		{"text/plain", `x`, `415 Content-Type: "text/plain" is not taken: send application/json, application/x-www-form-urlencoded or CloudEvents`},
		{"", `{}`, `415 Content-Type: "" is not taken: send application/json, application/x-www-form-urlencoded or CloudEvents`},
		{"a/b/c", `{}`, `415 Content-Type: "a/b/c" is not a media type`},
		{"application/x-www-form-urlencoded", "%zz", `400 body: is not a valid form: invalid URL escape "%zz"`},
		{"application/cloudevents+json", `{"specversion":"1.0","id":"1","type":"t"}`, "400 source: is required"},
		{"application/cloudevents-batch+json", `[{"specversion":"1.0","id":"1","type":"t"}]`, "400 [0].source: is required"},
	} {
		_, err := receive(t, nil, map[string]string{"Content-Type": tc.contentType}, tc.body)
		if got := status(err); got != tc.want {
			t.Errorf("%s %s:\n got %s\nwant %s", tc.contentType, tc.body, got, tc.want)
		}
	}
}

// TestCloudEvents sends what the CloudEvents SDK makes of an event.
func TestCloudEvents(t *testing.T) {
	t.Parallel()
	ce := cloudevents.NewEvent()
	ce.SetID("ü 1%")
	ce.SetSource("/s")
	ce.SetType("t")
	ce.SetSubject(`a "quoted" one`)
	ce.SetTime(now)
	ce.SetExtension("partitionkey", "k")
	ce.SetExtension("mrqueue", "7")
	ce.SetExtension("traceparent", "00-1")
	if err := ce.SetData("application/json", []byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	want := []event.Event{{
		ID: "ü 1%", Source: "/s", Type: "t", Subject: `a "quoted" one`, Time: now, ContentType: "application/json", Key: "k",
		Ext: []event.Attr{{Name: "traceparent", Value: "00-1"}}, Data: []byte(`{"a":1}`),
	}}
	for _, structured := range []bool{false, true} {
		req := httptest.NewRequest(http.MethodPost, "/", nil)
		ctx := cloudevents.WithEncodingBinary(t.Context())
		if structured {
			ctx = cloudevents.WithEncodingStructured(t.Context())
		}
		if err := cehttp.WriteRequest(ctx, (*binding.EventMessage)(&ce), req); err != nil {
			t.Fatal(err)
		}
		headers := map[string]string{}
		for k := range req.Header {
			headers[k] = req.Header.Get(k)
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := receive(t, nil, headers, string(body))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(structured, err, diff)
		}
	}
	for want, headers := range map[string]map[string]string{
		`400 ce-specversion: "2.0" is not supported: use "1.0"`:                     {"ce-specversion": "2.0"},
		`400 source: is required`:                                                   {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t"},
		`400 Ce-Id: is not percent-encoded UTF-8`:                                   {"ce-specversion": "1.0", "ce-id": "%FF"},
		`400 Ce-Datacontenttype: belongs into the header Content-Type`:              {"ce-specversion": "1.0", "ce-datacontenttype": "a/b"},
		`400 body: malformed JSON at byte 1: null is expected here`:                 {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "s", "Content-Type": "application/json"},
		`400 time: "x" is not an RFC 3339 time such as 2026-01-31T09:30:00Z`:        {"ce-specversion": "1.0", "ce-time": "x"},
		`400 a-b: is not an attribute name: use lower-case letters and digits only`: {"ce-specversion": "1.0", "ce-a-b": "x"},
	} {
		if _, err := receive(t, nil, headers, "no json"); status(err) != want {
			t.Errorf("got  %s\nwant %s", status(err), want)
		}
	}
}

func mac(h func() hash.Hash, key, text string) []byte {
	m := hmac.New(h, []byte(key))
	m.Write([]byte(text))
	return m.Sum(nil)
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	const body = `{"a":1}`
	for name, tc := range map[string]struct {
		config    map[string]any
		header    string
		signature string
	}{
		"GitHub":  {map[string]any{}, "X-Hub-Signature-256", "sha256=" + hex.EncodeToString(mac(sha256.New, "s3cret", body))},
		"Shopify": {map[string]any{"signature.header": "X-Shopify-Hmac-Sha256", "signature.encoding": "base64", "signature.prefix": ""}, "X-Shopify-Hmac-Sha256", base64.StdEncoding.EncodeToString(mac(sha256.New, "s3cret", body))},
		"sha1":    {map[string]any{"signature.header": "X-S", "signature.algorithm": "sha1", "signature.prefix": ""}, "X-S", hex.EncodeToString(mac(sha1.New, "s3cret", body))},
		"sha512":  {map[string]any{"signature.header": "X-S", "signature.algorithm": "sha512", "signature.prefix": ""}, "X-S", hex.EncodeToString(mac(sha512.New, "s3cret", body))},
	} {
		tc.config["signature.secret"] = "s3cret"
		for _, signature := range []string{tc.signature, "", tc.signature[:len(tc.signature)-2], "x" + tc.signature, strings.Replace(tc.signature, tc.signature[10:12], "zz", 1)} {
			for _, b := range []string{body, body + " "} {
				headers := map[string]string{"Content-Type": "application/json", tc.header: signature}
				_, err := receive(t, tc.config, headers, b)
				good := signature == tc.signature && b == body
				if good != (err == nil) || !good && !strings.HasPrefix(status(err), "401 "+tc.header+": ") {
					t.Error(name, signature, err)
				}
			}
		}
	}
}

func TestStandardWebhooks(t *testing.T) {
	t.Parallel()
	// From the specification's libraries: secret, id and payload of their test vector.
	const secret, id, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", `{"test": 2432232314}`
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	if vector := base64.StdEncoding.EncodeToString(mac(sha256.New, string(key), id+".1614265330."+body)); vector != "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Fatal(vector)
	}
	config := map[string]any{"signature.scheme": "standard-webhooks", "signature.secret": secret}
	for _, tc := range []struct {
		age     time.Duration
		version string
		want    string
	}{
		{0, "v1,", "<nil>"},
		{4 * time.Minute, "v1,", "<nil>"},
		{-4 * time.Minute, "v1,AAAA v1,", "<nil>"},
		{6 * time.Minute, "v1,", "401 webhook-timestamp: is more than 5 minutes from now: check the clocks"},
		{-6 * time.Minute, "v1,", "401 webhook-timestamp: is more than 5 minutes from now: check the clocks"},
		{0, "v1a,", "401 webhook-signature: has no v1 signature that matches the body: it is signed with another secret, or the body was changed on its way"},
	} {
		stamp := strconv.FormatInt(now.Add(-tc.age).Unix(), 10)
		signature := tc.version + base64.StdEncoding.EncodeToString(mac(sha256.New, string(key), id+"."+stamp+"."+body))
		headers := map[string]string{"Content-Type": "application/json", "webhook-id": id, "webhook-timestamp": stamp, "webhook-signature": signature}
		events, err := receive(t, config, headers, body)
		if status(err) != tc.want || err == nil && events[0].ID != id {
			t.Errorf("%+v: %v", tc, status(err))
		}
		delete(headers, "webhook-id")
		if _, err := receive(t, config, headers, body); status(err) != "401 webhook-id: is required: the request must be signed" {
			t.Error(status(err))
		}
	}
	for secret, want := range map[string]string{"": "is required", "not base64!": "must be base64"} {
		err := Plugin().Source.Check(map[string]any{"topic": "t", "signature.scheme": "standard-webhooks", "signature.secret": secret})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
}
