// Package builtin is the explicit list of the connectors in the binary.
package builtin

import (
	"millrace/connectors"
	"millrace/connectors/blackhole"
	"millrace/connectors/elasticsearch"
	"millrace/connectors/file"
	"millrace/connectors/generator"
	"millrace/connectors/http"
	"millrace/connectors/mysql"
	"millrace/connectors/s3"
	"millrace/connectors/vectors"
	"millrace/connectors/webhook"
)

// Plugins lists them by name. The slice is the caller's.
func Plugins() []connectors.Plugin {
	return []connectors.Plugin{
		blackhole.Plugin(),
		elasticsearch.Plugin(),
		file.Plugin(),
		generator.Plugin(),
		http.Plugin(),
		mysql.Plugin(),
		s3.Plugin(),
		vectors.Plugin(),
		webhook.Plugin(),
	}
}
