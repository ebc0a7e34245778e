// Package spec describes a component's config once. A struct with the tags json,
// doc, default and spec is the description; Of reads it, and the Spec it returns
// decodes, validates, redacts and documents such configs.
//
//	type Config struct {
//		Host     string        `json:"database.hostname" doc:"The server's name." spec:"required,group=Connection,importance=high"`
//		Port     int           `json:"database.port" doc:"The server's port." default:"3306" spec:"min=1,max=65535"`
//		Password spec.Secret   `json:"database.password" doc:"The user's password."`
//		Wait     time.Duration `json:"wait" doc:"How long to wait." default:"30s"`
//	}
//
// Options of the spec tag, separated by commas:
//
//	required      the key must be there and not empty
//	enum=a|b      the only values (of each item, where it is a list)
//	min= max=     bounds of a number, duration, size or the length of a list
//	group=        heading in pages and forms; "General" without
//	importance=   high, medium (the default) or low
//	label=        the name that forms show; made from the key without
//	secret        the value is never shown; Secret fields have it always
//	ms            a duration whose plain numbers are milliseconds, and may be negative
//	json          of json.RawMessage and any: text must be JSON; without, text that is
//	              no JSON object, array or string is a JSON string
//
// Field types are string, bool, integers, floats, time.Duration, Bytes, Secret,
// json.RawMessage, any, types that unmarshal themselves from text or JSON,
// structs, and slices, maps and pointers of these. An embedded struct's fields
// belong to the struct around it. Values may come as JSON values or all as text, as
// Kafka Connect sends them: a list as "a,b" or a JSON array, a map or struct as a
// JSON object or as keys with a dot ("headers.accept").
//
// The package reads no config files and imports nothing of Millrace.
package spec
