// Package api is Millrace's outside surface over HTTP: topics, events, groups,
// rules, connections, connectors, webhooks, dead letters, search, pipelines,
// health and metrics. openapi.yaml beside the code describes it and is tested
// against the routes.
//
// There is one file a resource. Handlers are plain functions of a rest.Request;
// server.go alone knows the router, body.go alone reads bodies (bounded), and
// errors.go alone turns errors into statuses. Desired state is written to the
// tables that workers follow; nothing here runs a connector or a rule.
package api
