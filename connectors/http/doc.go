// Package http sends events to HTTP endpoints in the CloudEvents HTTP binding. The
// same sink is a connector and the target {http: …} of a rule.
package http
