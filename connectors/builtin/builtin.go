// Package builtin is the explicit list of the connectors in the binary. There
// is no registry: what is not in Plugins does not exist.
package builtin

import (
	"millrace/connectors"
	"millrace/connectors/blackhole"
	"millrace/connectors/file"
	"millrace/connectors/generator"
	"millrace/connectors/http"
	"millrace/connectors/webhook"
)

// Plugins returns every connector, by name.
func Plugins() []connectors.Plugin {
	return []connectors.Plugin{
		blackhole.Plugin(),
		file.Plugin(),
		generator.Plugin(),
		http.Plugin(),
		webhook.Plugin(),
	}
}
