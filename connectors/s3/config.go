package s3

import (
	"net/url"
	"strings"
	"time"

	"millrace/connectors/formats"
	"millrace/schemas/spec"
)

type config struct {
	Bucket    string      `json:"s3.bucket.name" doc:"The bucket to read." spec:"required,importance=high"`
	Region    string      `json:"s3.region" doc:"The bucket's region." default:"us-east-1" spec:"importance=high"`
	AccessKey spec.Secret `json:"aws.access.key.id" doc:"The access key. Without one, those of the environment, of the shared credentials file and of the machine's role are tried, in this order." spec:"group=Access,importance=high"`
	SecretKey spec.Secret `json:"aws.secret.access.key" doc:"The secret of the access key." spec:"group=Access,importance=high"`
	StoreURL  string      `json:"store.url" doc:"Where the store is, such as https://minio.example.com:9000; default Amazon S3." spec:"group=Access"`
	PathStyle bool        `json:"s3.path.style.access.enabled" doc:"Whether the bucket's name stands in the URL's path always; false: in the host name where the store is known to want that." default:"false" spec:"group=Access,importance=low"`

	Prefix string        `json:"prefix" doc:"Only objects whose keys begin with this are read, such as incoming/." spec:"importance=high"`
	Topic  string        `json:"topic" doc:"The topic that events go to." spec:"required,importance=high"`
	Format string        `json:"format" doc:"What the objects hold. Default by extension, without .gz: .ndjson and .jsonl are ndjson, .csv and .tsv are csv, .txt and .log are text, all others are documents." spec:"enum=ndjson|csv|text|document,importance=high"`
	Follow bool          `json:"follow" doc:"Whether to list again and again; false: the source ends after one complete listing." default:"true"`
	Poll   time.Duration `json:"poll.interval" doc:"The pause between two listings. It grows where a listing takes longer than a twentieth of it." default:"10s" spec:"min=10ms,max=24h"`

	CloudEvents string     `json:"cloudevents" doc:"Whether NDJSON lines that are structured CloudEvents are taken as such." default:"auto" spec:"enum=auto|never"`
	Type        string     `json:"type" doc:"The events' type; default millrace.s3.line, and millrace.s3.object for documents." spec:"group=Events"`
	Key         string     `json:"key" doc:"Path of the field in a line's data that is the event's key, such as order.id or items[0].sku; a document's key is the object's." spec:"group=Events"`
	Delimiter   string     `json:"csv.delimiter" doc:"What separates fields: one character or tab. Default a comma, and a tab for .tsv." spec:"group=CSV"`
	Header      bool       `json:"csv.header" doc:"Whether the first record names the columns; false: they are column_1, column_2 and so on." default:"true" spec:"group=CSV"`
	MaxLine     spec.Bytes `json:"max.line.bytes" doc:"The longest line or CSV record; a longer one is a failure and skipped." default:"16MiB" spec:"min=64,max=64MiB,group=Limits"`
	MaxDocument spec.Bytes `json:"max.document.bytes" doc:"The largest document, decompressed; a larger one is a failure." default:"64MiB" spec:"min=1,max=64MiB,group=Limits"`
}

// Check says what tags cannot.
func (c *config) Check() error {
	var problems []spec.Problem
	add := func(path, msg string) { problems = append(problems, spec.Problem{Path: path, Msg: msg}) }
	if (c.AccessKey == "") != (c.SecretKey == "") {
		if c.AccessKey == "" {
			add("aws.access.key.id", "is required with aws.secret.access.key")
		} else {
			add("aws.secret.access.key", "is required with aws.access.key.id")
		}
	}
	if c.StoreURL != "" && !strings.Contains(c.StoreURL, "${") {
		u, err := url.Parse(c.StoreURL)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" && u.Path != "/" || u.RawQuery != "":
			add("store.url", "must be an http or https URL without a path, such as https://minio.example.com:9000")
		case u.User != nil:
			add("store.url", "must not hold a user or password: use aws.access.key.id and aws.secret.access.key")
		}
	}
	if !formats.IsDelimiter(c.Delimiter) && !spec.IsReference(c.Delimiter) {
		add("csv.delimiter", "must be one ASCII character other than a quote or line end, or tab")
	}
	if problems != nil {
		return &spec.Error{Problems: problems}
	}
	return nil
}

// formatOf is the format of one object.
func (c *config) formatOf(key string) string {
	if c.Format != "" {
		return c.Format
	}
	return formats.ByName(plainName(key))
}

// plainName is a key without the extension of compression.
func plainName(key string) string {
	if n := len(key) - len(".gz"); n > 0 && strings.EqualFold(key[n:], ".gz") {
		return key[:n]
	}
	return key
}
