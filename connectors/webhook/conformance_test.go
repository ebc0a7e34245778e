package webhook_test

import (
	"testing"

	"millrace/connectors/connectorstest"
	"millrace/connectors/webhook"
)

func TestConfigConformance(t *testing.T) {
	t.Parallel()
	kind := webhook.Plugin().Source
	connectorstest.Config(t, kind.Spec, kind.Check, map[string]any{"topic": "t"})
	connectorstest.Config(t, kind.Spec, kind.Check, map[string]any{"topic": "t", "signature.secret": "${env:HOOK}", "signature.scheme": "standard-webhooks"})
}
